"""The mean path's risk: that of batches without end, and the closed form beside every step."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.algorithms import Course
from sgdtheory.risk.systems import mean_path
from tests.risk.test_own_average import AfterSteps

EIGENVALUES, SIGNAL = np.array([1.0, 0.5, 0.2, 0.01, 1e-5]), np.array([1.0, 0.4, 0.3, 0.2, 0.1])
CONSTANT = [
    st.Algorithm(),
    st.Algorithm(average=st.LastIterate()),
    st.Algorithm(st.HeavyBall(0.9)),
    st.Algorithm(st.HeavyBall(0.0), average=st.ExponentialAverage(window=0.2)),
    st.Algorithm(st.Nesterov(0.5), average=st.LastIterate()),
    st.Algorithm(st.SGD(weight_decay=0.01), average=st.TailAverage(0.3)),
    st.Algorithm(st.AcceleratedSGD(0.8, 0.2, 3.0), average=st.ExponentialAverage(0.9)),
    st.Algorithm(schedule=st.Stages([0.0], [0.5]), average=st.LastIterate()),
]


class EveryStep(mean_path.MeanPaths):
    """Mean paths whose steps are taken one by one, whatever is alike."""

    def moved(self, held, low, high):
        return self.by_steps(held, low, high)


def by_steps(algorithm, eigenvalue, rate, steps):
    with np.errstate(all="ignore"):
        return EveryStep.of(algorithm, eigenvalue, rate, steps).at([steps]).average[0].T


@pytest.mark.parametrize("algorithm", CONSTANT, ids=str)
def test_the_closed_form_beside_every_step(algorithm):
    """Below the edge and beyond it, as long as what is there is no larger than a thousand."""
    rate = np.geomspace(1e-7, 2.5, 300)
    for steps in (1.0, 2.0, 3.0, 50.0, 333.0):
        closed = mean_path._in_closed_form(algorithm, EIGENVALUES, rate, steps)
        every = by_steps(algorithm, EIGENVALUES, rate, steps)
        kept = np.abs(every) < 1e3
        np.testing.assert_allclose(closed[kept], every[kept], rtol=1e-6, atol=1e-6)
        assert kept.mean() > 0.5


ALONG = [
    st.Algorithm(st.LocalSGD(2, 4, 0.7, 0.5), average=st.TailAverage(0.3)),  # begins at step 21, within a round
    st.Algorithm(st.LocalSGD(3, 5), average=st.ExponentialAverage(window=0.2)),
    st.Algorithm(st.DelayedSGD(3), schedule=st.Linear(), average=st.TailAverage(0.5)),
    st.Algorithm(st.DelayedSGD(2), average=st.LastIterate()),
    st.Algorithm(schedule=st.Cosine(), average=st.ExponentialAverage(0.8)),
    st.Algorithm(st.SGD(weight_decay=0.02), schedule=st.Stages([0.0, 0.4], [1.0, 0.3]), average=st.TailAverage(0.7)),
    st.Algorithm(st.HeavyBall(0.8), schedule=st.WSD(0.3)),
    st.Algorithm(st.ScheduleFree(0.9), average=st.LastIterate()),
    st.Algorithm(average=AfterSteps()),
]


@pytest.mark.parametrize("algorithm", ALONG)
def test_responses_along_a_run_are_those_of_endless_batches(algorithm):
    """Of one direction at a time: `s f²` of the iterate and of the average is what the exact risk leaves without noise.

    The same f comes at the end for many learning rates, and from one run for every number of steps.
    """
    steps, batch, rate = 29.0, 1e15, 0.4
    course = Course(algorithm, batch, rate, steps)
    stops = np.arange(steps + 1)
    found = mean_path.responses(course, EIGENVALUES, stops)
    samples = batch * steps * algorithm.workers
    for place, value in enumerate(EIGENVALUES):
        problem = st.LeastSquares([value], [1.0], 0.0)
        setting = {"batch_size": batch, "learning_rate": rate, "num_samples": samples, "algorithm": algorithm}
        path = st.risk_path(problem, **setting, points=200)
        here = path.num_steps.astype(int)
        np.testing.assert_allclose(found.iterate[here, place] ** 2, path.iterate.total, rtol=1e-8, atol=1e-13)
        np.testing.assert_allclose(found.average[here, place] ** 2, path.average.total, rtol=1e-8, atol=1e-13)
    ends = mean_path.mean_paths(algorithm, EIGENVALUES, np.array([0.1, rate]), steps)
    np.testing.assert_allclose(ends[1], found.average[-1], rtol=1e-6, atol=1e-9)
    risks = mean_path.mean_risk(algorithm, EIGENVALUES, SIGNAL, np.array([0.1, rate]), steps)
    np.testing.assert_allclose(risks, ends**2 @ SIGNAL, rtol=1e-12)
    if algorithm.schedule.flat and algorithm.average.any_length:
        along = mean_path.mean_risks_along(algorithm, EIGENVALUES, SIGNAL, np.array([0.1, rate]), steps)
        assert along.shape == (steps + 1, 2)
        np.testing.assert_allclose(along[1:, 1], found.average[1:] ** 2 @ SIGNAL, rtol=1e-9)
        assert along[0].tolist() == pytest.approx([SIGNAL.sum()] * 2)


def test_one_minus_a_power_has_all_digits():
    """Of slow and of overshooting directions, even and odd numbers of steps; no step leaves nothing."""
    x = np.array([1e-18, 0.3, 0.5, 1.0, 1.7, 2.5])
    for m in (0, 1, 2, 5, 6):
        with np.errstate(divide="ignore", invalid="ignore"):
            found = mean_path.one_minus_power(x, m)
        np.testing.assert_allclose(found, [m * 1e-18, *(1 - (1 - x[1:]) ** m)], rtol=1e-13, atol=1e-300)


def test_drawn_delays_act_by_their_shares():
    """`E w ← E w − γ_t λ Σ_j p_j E w_{t−j}`, of w_0 before the start."""
    shares, steps = (0.5, 0.0, 0.3, 0.2), 12
    algorithm = st.Algorithm(st.DelayedSGD(shares), schedule=st.Linear(), average=st.LastIterate())
    found = mean_path.mean_paths(algorithm, EIGENVALUES, np.array([0.2, 0.4]), float(steps))
    for row, rate in zip(found, (0.2, 0.4)):
        w = [np.ones(EIGENVALUES.size)] * 4
        for t in range(steps):
            pull = sum(share * w[-1 - delay] for delay, share in enumerate(shares))
            w.append(w[-1] - rate * (1 - t / steps) * EIGENVALUES * pull)
        np.testing.assert_allclose(row, w[-1], rtol=1e-12)
