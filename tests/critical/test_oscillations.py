"""Mean paths that oscillate with γ, against a recursion of their own, and for how long methods oscillate."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.critical.oscillations import MeanPath, dips, is_plain, memory_of, oscillating_steps

LAST, UNIFORM, TAIL = st.LastIterate(), st.UniformAverage(), st.TailAverage(0.5)
FORGOTTEN = np.log(1e-8)  # Transients of squared weights are followed until they have decayed to this share.
PROBLEM = st.LeastSquares([1.0, 0.4, 0.02], [0.5, 1.0, 0.1], 0.3)


def mean_risk(problem, momentum, rate, steps):
    """Σ s_i (E w_i)² of the last iterate of heavy ball, without noise."""
    weight = np.ones((rate.size, problem.signal.size))
    velocity = np.zeros_like(weight)
    for _ in range(steps):
        velocity = momentum * velocity + problem.eigenvalues * weight
        weight = weight - rate[:, None] * velocity
    return weight**2 @ problem.signal


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("steps", [2, 9, 60])
def test_the_mean_path_is_known_many_times_in_a_period(momentum, steps):
    """Its risk oscillates by cos²(n√γ): rates are less than a seventeenth of a period apart, up to the edge."""
    algorithm = st.Algorithm(st.HeavyBall(momentum) if momentum else st.SGD(), average=LAST)
    edge = 1.9 * (1 + momentum)
    path = MeanPath(algorithm, PROBLEM.modes(1e-12), 1e3)
    rate, risk = path(edge, float(steps))
    assert (np.diff(rate) > 0).all()
    assert rate[0] <= 1e-3 * edge / steps
    assert rate[-1] == pytest.approx(edge, rel=1e-12)
    assert steps * np.diff(np.sqrt(rate)).max() <= np.pi / 17
    np.testing.assert_allclose(risk, np.minimum(mean_risk(PROBLEM, momentum, rate, steps), 1e3), rtol=1e-7, atol=1e-12)
    dense = edge * np.linspace(0, 1, 40_001)[1:] ** 2
    assert risk.min() <= mean_risk(PROBLEM, momentum, dense, steps).min() * (1 + 1e-4)
    assert rate.size < 8 * steps * np.sqrt(2 * edge) + 64 + 30 * (steps + 1)


@pytest.mark.parametrize("average", [LAST, UNIFORM, st.ExponentialAverage(0.9)], ids=str)
def test_one_run_has_all_numbers_of_steps(average):
    """Of schedule-free SGD a run up to a power of two of n and γ, or a longer one, serves other n and γ."""
    algorithm = st.Algorithm(st.ScheduleFree(0.9), average=average)
    path = MeanPath(algorithm, PROBLEM.modes(1e-12), 1e9)
    alone = st.LeastSquares(PROBLEM.eigenvalues, PROBLEM.signal, 0.0)
    for steps, edge in ((33.0, 3.0), (64.0, 3.0), (64.0, 2.1), (5.0, 3.9), (64.0, 1.9)):
        rate, risk = path(edge, steps)
        assert (rate <= edge).all()
        assert rate[-1] > 0.95 * edge
        assert steps * np.diff(np.sqrt(rate)).max() <= np.pi / 17
        batch = 1e12  # whose noise is next to none
        few = slice(None, None, 97)
        exact = st.excess_risk(
            alone, batch_size=batch, num_samples=batch * steps, learning_rate=rate[few], algorithm=algorithm
        )
        np.testing.assert_allclose(risk[few], exact.total, rtol=1e-6, atol=1e-9)
    assert len(path.tables) == 2


@pytest.mark.parametrize(
    ("method", "schedule", "average", "plain", "memory", "steps"),
    [
        (st.SGD(), st.Constant(), UNIFORM, True, 0, 0),
        (st.SGD(), st.Constant(), LAST, True, 0, 40),
        (st.SGD(), st.Constant(), TAIL, False, 0, 40),
        (st.SGD(), st.Constant(), st.ExponentialAverage(window=0.1), False, 0, 40),
        (st.SGD(), st.Linear(), LAST, False, 0, 40),
        (st.HeavyBall(0.9), st.Constant(), LAST, False, FORGOTTEN / np.log(0.9), FORGOTTEN / np.log(0.9)),
        (st.HeavyBall(0.6), st.Constant(), UNIFORM, False, FORGOTTEN / np.log(0.6), 10 * FORGOTTEN / np.log(0.6)),
        (st.HeavyBall(0.9), st.Constant(), UNIFORM, False, FORGOTTEN / np.log(0.9), 1000),
        (st.HeavyBall(0.99), st.Constant(), UNIFORM, False, FORGOTTEN / np.log(0.99), FORGOTTEN / np.log(0.99)),
        (st.DelayedSGD(3), st.Constant(), UNIFORM, False, 70, 70),
        (st.DelayedSGD(3), st.Linear(), LAST, False, 70, 700),
        (st.LocalSGD(2, 4), st.Constant(), LAST, False, 0, 40),
        (st.LocalSGD(2, 4, 0.7, 0.6), st.Constant(), LAST, False, 4 * FORGOTTEN / np.log(0.6), None),
        (st.ScheduleFree(0.9), st.Constant(), LAST, False, None, 1000),
    ],
    ids=str,
)
def test_for_how_long_methods_oscillate(method, schedule, average, plain, memory, steps):
    """Until their transients have decayed; averages keep oscillations ten times as long, up to 1,000 steps."""
    algorithm = st.Algorithm(method, schedule, average=average)
    assert is_plain(algorithm) == plain
    if memory is not None:
        assert memory_of(method) == pytest.approx(memory)
    assert oscillating_steps(algorithm) == pytest.approx(memory if steps is None else steps)


def test_dips_are_local_minima():
    """A flat bottom or ledge counts, and ends do not."""
    np.testing.assert_array_equal(dips(np.array([1.0, 2, 1, 1, 3, 0, 4, 4, 5, 2])), [2, 3, 5, 7])
