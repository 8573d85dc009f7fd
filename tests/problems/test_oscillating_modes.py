"""Modes of a power law for sums of functions that oscillate in λ: against sums over all directions."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.problems.oscillating_modes import Phases

LOG_EIGENVALUE = np.linspace(-16, 0, 500)


def phases_of(turns, decay=0.0):
    """Return the phases of moments that turn by the angle `turns` λ and of which the share e^decay is left."""
    return Phases(LOG_EIGENVALUE, turns * np.exp(LOG_EIGENVALUE)[None, :], np.full((1, LOG_EIGENVALUE.size), decay))


def test_slopes_are_those_of_the_steepest_interval_nearby():
    """The slopes of the intervals are 1, 2, 0 and 5. Beyond the ends the last interval counts."""
    phases = Phases(np.arange(5.0), np.array([[0.0, 1, 3, 3, 8]]), np.array([[-5.0, -1, -2, -9, -7]]))
    slope, decay = phases.at(np.array([-1.0, 0.5, 1.5, 2.5, 3.5, 9.0]))
    np.testing.assert_array_equal(slope, [[2, 2, 2, 5, 5, 5]])
    np.testing.assert_array_equal(decay, [[-1, -1, -1, -2, -7, -7]])


@pytest.mark.parametrize(
    ("capacity", "source", "dim", "turns"), [(1.1, 1.3, 20_000, 1e4), (2.0, 1.5, 20_000, 1e6), (0.7, 1.2, 3000, 1e3)]
)
def test_sums_that_oscillate_are_those_of_all_directions(capacity, source, dim, turns):
    """`Σ s_i cos(Tλ_i)` and `Σ λ_i cos(Tλ_i)` are exact. As a control, modes for smooth functions are wrong."""
    problem = st.PowerLaw(capacity, source, dim)
    eigenvalue, signal = problem.directions()

    def sums(modes):
        wave = np.cos(turns * modes.eigenvalue)
        return np.array([modes.signal @ wave, (modes.multiplicity * modes.eigenvalue) @ wave])

    exact = np.array([signal @ np.cos(turns * eigenvalue), eigenvalue @ np.cos(turns * eigenvalue)])
    whole = np.array([signal.sum(), eigenvalue.sum()])
    modes = problem.oscillating_modes(phases_of(turns), 0.5 / turns)
    assert modes.eigenvalue.size < dim / 2
    assert (np.abs(sums(modes) - exact) < 1e-10 * whole).all()
    assert (np.abs(sums(problem.modes(0.5 / turns)) - exact) > 1e-7 * whole).any()


def test_oscillations_that_have_decayed_take_no_modes():
    """Directions that hardly move keep their risk, next to which the others no longer matter."""
    problem = st.PowerLaw(1.1, 1.3)
    plain = problem.modes(1e-4).eigenvalue
    lively, still = (problem.oscillating_modes(phases_of(1e4, decay), 1e-4).eigenvalue for decay in (0.0, -80.0))
    np.testing.assert_array_equal(still, plain)
    assert lively.size > 1.1 * plain.size
