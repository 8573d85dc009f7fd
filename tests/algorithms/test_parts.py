"""Parts of algorithms by themselves: knots of schedules, laws of delays, and what is no such part."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.algorithms.muon import newton_schulz


@pytest.mark.parametrize(
    ("shape", "knots"),
    [
        (st.Constant(), ()),
        (st.Constant(warmup=0.3), (0.3,)),
        (st.Linear(warmup=0.1), (0.1,)),
        (st.Cosine(), ()),
        (st.WSD(0.2, warmup=0.1), (0.1, 0.8)),
        (st.PowerDecay(2, decay=0.25, warmup=0.125), (0.125, 0.75)),
        (st.PowerDecay(2, warmup=0.125), (0.125,)),
        (st.Stages([0, 0.5, 0.75], [1, 0.3, 0.1]), (0.5, 0.75)),
    ],
    ids=str,
)
def test_between_its_knots_a_schedule_is_monotone_and_smooth(shape, knots):
    """Second differences of f, divided by those of its neighbours, are large where the formula changes alone."""
    assert shape.knots() == knots
    fraction = np.linspace(0, 1, 4097)[:-1]
    bends = np.abs(np.diff(shape.at(fraction), 2))
    kinks = fraction[1:-1][bends > 1e-4]
    assert all(np.abs(np.array(knots) - kink).min() < 1e-3 for kink in kinks)
    assert all(np.abs(kinks - knot).min() < 1e-3 for knot in knots)


def test_laws_of_delays():
    law = st.DelayedSGD([0.5, 0.0, 0.25, 0.25, 0.0]).law
    np.testing.assert_allclose(law, [0.5, 0.0, 0.25, 0.25])
    assert st.DelayedSGD([1.0]).law == (1.0,)
    for bad in ([], [[0.5, 0.5]], [0.5, 0.6], [1.5, -0.5], [0.5]):
        with pytest.raises(ValueError, match="^delay must be a whole number or shares ≥ 0 that add up to 1, got"):
            st.DelayedSGD(bad)


@pytest.mark.parametrize("bad", [[], [[0.0, 0.5]]])
def test_stages_are_rows(bad):
    with pytest.raises(ValueError, match="must be a one-dimensional array with at least one entry, got shape"):
        st.Stages(bad, [1.0, 0.5])


def test_an_iteration_from_zero_stays_there():
    np.testing.assert_array_equal(newton_schulz(np.zeros((2, 3)), 5), np.zeros((2, 3)))


def test_a_norm_to_clip_is_positive_and_finite():
    assert st.Algorithm(clip_norm=2).clip_norm == 2.0
    for bad in (0.0, -1.0, np.inf):
        with pytest.raises(
            ValueError, match="^clip_norm must be positive and finite, got .*; leave it out not to clip"
        ):
            st.Algorithm(clip_norm=bad)
