"""Each part of the tuned risk against its definition."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.critical.tuned_risk import TunedRisk, _Peaks

PROBLEM = st.LeastSquares([1.0, 0.3, 0.05], [0.5, 0.4, 0.3], noise_variance=0.5)
LAST = st.LastIterate()


def one(*values):
    return [np.array([float(value)]) for value in values]


# ------------------------------------------------------------------ the range of γ


def test_a_schedule_may_pass_the_edge_by_what_lets_moments_grow_by_e_cubed():
    """Until the growth over a run, to first order in how far γ is beyond the edge, is 3."""
    problem = st.LeastSquares([1.0], [1.0], noise_variance=1.0)
    algorithm = st.Algorithm(schedule=st.Linear(), average=LAST)
    tuned, batch = TunedRisk(problem, algorithm), 10.0
    plain = float(st.max_stable_learning_rate(problem, batch_size=10))
    u = (np.arange(200_000) + 0.5) / 200_000

    def growth(rate):  # log of the factor of one step, one direction: (1 − γ)² + 2γ²/B
        return np.log((1 - rate) ** 2 + 2 * rate**2 / batch)

    slope = growth(1.01 * plain) / 0.01
    for steps in (50.0, 1000.0):
        end = tuned.edge(*one(batch, steps))[0]
        beyond = np.maximum(end / plain * (1 - u) - 1, 0).mean()
        assert steps * slope * beyond == pytest.approx(3.0, rel=0.05)
    assert tuned.edge(*one(batch, 1e-3))[0] == pytest.approx(4 * plain)
    constant = TunedRisk(problem, st.Algorithm(average=LAST))
    assert constant.edge(*one(batch, 50.0))[0] == pytest.approx(plain)


def test_how_far_a_linear_decay_passes_the_edge_in_closed_form():
    """The mean of ((1 + δ)(1 − u) − 1)₊ is δ²/(2(1 + δ))."""
    algorithm = st.Algorithm(schedule=st.Linear(), average=LAST)
    tuned = TunedRisk(st.LeastSquares([1.0], [1.0], noise_variance=1.0), algorithm)
    beyond = np.array([0.01, 0.02, 0.1, 0.5, 2.5])
    speed = 3 * 2 * (1 + beyond) / beyond**2
    np.testing.assert_allclose(tuned._overshoot(speed), beyond, rtol=3e-4)


# ------------------------------------------------------------------ batches of a schedule


def test_a_peak_for_every_mean():
    """The mean of max(1, B g) over the run."""
    u = (np.arange(20_000) + 0.5) / 20_000
    ramp, stages = st.Linear(final=3.0), (st.Stages([0, 0.5], [0.02, 1.0]), st.Stages([0, 0.5], [1.0, 2.0]))
    for shape in (ramp, st.Linear(0.0, 1.0), *stages, st.Stages([0], [0.4])):
        peaks = _Peaks(st.Algorithm(batch_schedule=shape, average=LAST))
        for mean in (1.0, 1.5, 2.0, 40.0):
            (peak,) = peaks(np.array([mean]))
            assert np.maximum(peak * shape.at(u), 1.0).mean() == pytest.approx(mean, rel=2e-5)
        np.testing.assert_array_equal(peaks(np.array([7.0, 2.0])), [*peaks(np.array([7.0])), *peaks(np.array([2.0]))])


@pytest.mark.parametrize(
    ("schedule", "message"),
    [(lambda step: 1.0 + 0 * step, "shape of fractions"), (st.Stages([0, 0.5], [0.0, 0.0]), "positive somewhere")],
)
def test_batch_schedules_that_are_refused(schedule, message):
    with pytest.raises(ValueError, match=message):
        TunedRisk(PROBLEM, st.Algorithm(batch_schedule=schedule, average=LAST))


def test_a_batch_schedule_may_be_zero_somewhere():
    """No batch is smaller than 1: a mean of 3 is that of ones and fives."""
    half = st.Algorithm(batch_schedule=st.Stages([0, 0.5], [0.0, 1.0]), average=LAST)
    assert TunedRisk(PROBLEM, half)._peaks(np.array([3.0])) == pytest.approx(5.0)


def test_a_flat_ramp_is_none():
    """Mean batch sizes: a batch schedule of one half everywhere is the same algorithm."""
    problem = st.PowerLaw(2.0, 3.0, 20)
    flat = st.Algorithm(batch_schedule=st.Stages([0, 0.5], [0.5, 0.5]), average=LAST)
    both = [
        TunedRisk(problem, algorithm).risk(np.array([12.5]), np.array([0.1]), np.array([700.0]))[0]
        for algorithm in (flat, st.Algorithm(average=LAST))
    ]
    assert both[0] == pytest.approx(both[1], rel=1e-10)


# ------------------------------------------------------------------ tuned


def test_risks_are_at_most_huge():
    """A peak beyond the threshold diverges; other risks are exact unless an error is allowed."""
    tuned = TunedRisk(PROBLEM, st.Algorithm(schedule=st.Cosine(), average=LAST))
    assert tuned.risk(*one(1, 50, 3000)).max() == pytest.approx(1e9 * PROBLEM.initial_risk, rel=1e-12)
    assert np.isfinite(tuned.risk(*one(1, 50, 3000))).all()
    exact = st.excess_risk(PROBLEM, batch_size=4, learning_rate=0.3, num_samples=1200, algorithm=tuned.algorithm)
    assert tuned.risk(*one(4, 0.3, 300))[0] == pytest.approx(exact.total, rel=1e-9)
    default = st.excess_risk(PROBLEM, batch_size=4, learning_rate=0.3, num_samples=1200).total
    assert TunedRisk(PROBLEM).risk(*one(4, 0.3, 300))[0] == pytest.approx(default, rel=1e-13)
