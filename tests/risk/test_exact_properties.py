"""Closed forms and properties that hold for every spectrum."""

import mpmath
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

import sgdtheory as st
from sgdtheory.problems.modes import Modes
from tests.scaled import SCALES, Scaled

reproducible = settings(derandomize=True, deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])

exponents = some.floats(-10.0, 0.0)
spectra = some.lists(some.tuples(exponents, exponents), min_size=1, max_size=6)
batches = some.integers(1, 10**6)
step_counts = some.floats(0.0, 12.0).map(lambda e: int(10**e))
fractions = some.floats(-8.0, np.log10(0.999)).map(lambda e: 10.0**e)


def least_squares(spectrum, noise_variance=1.0):
    eigenvalues, signal = 10.0 ** np.array(spectrum).T
    return st.LeastSquares(eigenvalues, signal, noise_variance)


def risk_after(problem, batch, rate, steps):
    return st.excess_risk(problem, batch_size=batch, learning_rate=rate, num_samples=float(steps) * batch)


@reproducible
@given(spectra, fractions, step_counts)
def test_infinite_batch_is_gradient_descent(spectrum, fraction, steps):
    """B → ∞: bias Σ s_i [(1 − q_i^n)/(n x_i)]², no variance (T6)."""
    problem = least_squares(spectrum)
    rate = fraction * 2 / problem.largest_eigenvalue
    risk = risk_after(problem, 1e15, rate, steps)
    assert risk.bias == pytest.approx(float(gradient_descent_risk(problem, rate, steps)), rel=1e-8)
    assert risk.variance <= 1e-11 * problem.eigenvalues.size


def gradient_descent_risk(problem, rate, steps):
    with mpmath.workdps(60):
        total = mpmath.mpf(0)
        for value, signal in zip(problem.eigenvalues, problem.signal, strict=True):
            x = mpmath.mpf(float(rate)) * mpmath.mpf(float(value))
            total += mpmath.mpf(float(signal)) * ((1 - (1 - x) ** steps) / (steps * x)) ** 2
        return total


@reproducible
@given(spectra, batches, fractions, step_counts)
def test_risk_is_never_negative_nor_nan(spectrum, batch, fraction, steps):
    problem = least_squares(spectrum)
    for factor in (fraction, 1 + 100 * fraction):
        rate = factor * st.max_stable_learning_rate(problem, batch_size=batch)
        risk = risk_after(problem, batch, rate, steps)
        assert risk.bias >= 0
        assert risk.variance >= 0
        assert risk.total == risk.bias + risk.variance


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("problem", [st.PowerLaw(1.5, 2.5), st.LeastSquares([2.0, 0.3, 0.0], [1.0, 0.5, 0.1])])
def test_units_of_the_eigenvalues_do_not_matter(problem, scale):
    """λ → cλ, γ → γ/c with c far from 1, in infinite dimension too, by both evaluations and beyond the edge."""
    batch, steps = np.array([1, 40])[:, None, None], np.array([1, 2, 9, 33, 700, 10**8])
    rate = st.max_stable_learning_rate(problem, batch_size=batch) * np.array([1e-6, 0.3, 0.95, 1.01])[:, None]
    setting = {"batch_size": batch, "num_samples": steps * batch}
    first = st.excess_risk(problem, learning_rate=rate, **setting)
    second = st.excess_risk(Scaled(problem, scale), learning_rate=rate / scale, **setting)
    stable = np.broadcast_to(rate, first.bias.shape) < st.max_stable_learning_rate(problem, batch_size=batch)
    for name in ("bias", "variance"):
        one, other = getattr(first, name), getattr(second, name)
        np.testing.assert_allclose(other[stable], one[stable], rtol=1e-9)
        few = ~stable & (np.broadcast_to(steps, stable.shape) < 1000)  # later rounding of γ decides
        np.testing.assert_allclose(other[few], one[few], rtol=1e-8)


class Weighted:
    """A problem that hands over modes with multiplicities."""

    noise_variance = 1.0

    def __init__(self, eigenvalue, multiplicity, signal):
        self.weighted = Modes(*map(np.array, (eigenvalue, multiplicity, signal)))
        self.largest_eigenvalue = float(self.weighted.eigenvalue.max())

    def modes(self, smallest, tolerance=0.0):
        return self.weighted

    decaying_modes = modes


@pytest.mark.parametrize("steps", [33, 34, 57])
@pytest.mark.parametrize("share", [0.7, 0.99, 1.01])
def test_equal_eigenvalues_that_overshoot(share, steps):
    """Three equal directions beyond 1/λ, whose poles are negative, are one of multiplicity three; so are the others."""
    split = st.LeastSquares([1.0] * 3 + [0.8] * 2 + [0.1], [0.2, 0.5, 0.1, 0.3, 0.4, 1.0], 1.0)
    rate = share * st.max_stable_learning_rate(split, batch_size=40)
    assert 0.8 * rate > 1
    weighted = Weighted([1.0, 0.8, 0.1], [3.0, 2.0, 1.0], [0.8, 0.7, 1.0])
    first, second = risk_after(split, 40, rate, steps), risk_after(weighted, 40, rate, steps)
    assert (second.bias, second.variance) == pytest.approx((first.bias, first.variance), rel=1e-11)
