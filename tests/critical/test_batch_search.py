"""The fewest steps at each batch size where the tuned risk is known: a power of n."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.critical import batch_search
from sgdtheory.critical.tuned_risk import Tuned, TunedRisk
from tests.marks import slow

TARGET = 1e-3


def power_law_rate(exponent, enough, asked):
    """In the place of `TrackedRate`: risk = target · (enough/n)^exponent, whatever B; notes the n asked for."""

    class Rate:
        def __init__(self, *_):
            pass

        def __call__(self, batch, steps, index):
            for question, number in zip(index, steps, strict=True):
                asked[question].append(number)
            return Tuned(np.ones(index.size), TARGET * (enough[index] / steps) ** exponent, np.ones(index.size))

    return Rate


@pytest.mark.parametrize("exponent", [0.3, 0.5, 1.0, 1.7])
def test_fewest_steps_are_bracketed_by_extrapolation(monkeypatch, exponent):
    """From two numbers of steps a power is extrapolated exactly: no n far above the answer is ever tried."""
    steps, enough = np.array([100.0, 1e4, 3e6, 500.0]), np.array([173.0, 41_001.0, 3.1e6, 500.0])
    asked = [[], [], []]  # the last reaches the target already
    monkeypatch.setattr(batch_search, "TrackedRate", power_law_rate(exponent, enough, asked))
    start = Tuned(np.full(4, 0.1), TARGET * (enough / steps) ** exponent, np.ones(4))
    needed, rate = batch_search.steps_needed(TunedRisk(st.PowerLaw(2, 3)), np.ones(4), steps, start, TARGET)
    np.testing.assert_array_equal(needed, enough)
    np.testing.assert_array_equal(rate, [1.0, 1.0, 1.0, 0.1])
    first = steps * (enough / steps) ** max(exponent, 1.0)  # with the risk taken to fall like 1/n
    for numbers, low, most, fewest in zip(asked, steps, first, enough, strict=False):
        assert max(numbers) <= 1.01 * most + 4
        assert numbers[0] > low
        assert max(numbers[:2]) >= fewest  # the second is extrapolated
        assert len(numbers) < 50


@pytest.mark.parametrize(
    "setting", [(1.1, 2.0, 0.3), slow((2.0, 3.0, 1.0)), slow((1.2, 3.0, 3.0)), slow((3.0, 4.0, 1.0))]
)
def test_momentum_swings_on(setting):
    """With it n + 1 steps may do worse than n: the fewest that are enough are those of a list of all."""
    capacity, source, noise = setting
    problem, samples = st.PowerLaw(capacity, source, 16, noise_variance=noise), 600.0
    given = {
        "num_samples": samples,
        "curve": False,
        "algorithm": st.Algorithm(method=st.HeavyBall(0.9), average=st.LastIterate()),
    }
    found = st.critical_batch_size(problem, **given)
    tuned = TunedRisk(problem, given["algorithm"])
    steps = np.arange(2.0, found.num_steps + 1)
    for batch, fewest in (
        (1.2 * samples / steps, 1.2 * samples / found.real_batch_size),
        (np.full(steps.size, found.batch_size), found.num_steps),
    ):
        enough = tuned.least(batch, steps).risk <= found.optimal_risk * (1 + 1e-12)
        assert steps[enough][0] == pytest.approx(fewest, rel=1e-9)


def test_batch_sizes_that_never_reach_it():
    """The average keeps e^−2 of w_0, which a few large steps of large batches cancel: others never are as good."""
    problem = st.PowerLaw(2.0, 4.0, noise_variance=0.1).with_features(4)
    algorithm = st.Algorithm(average=st.ExponentialAverage(window=0.5))
    found = st.critical_batch_size(problem, num_samples=500, algorithm=algorithm)
    never = np.isinf(found.curve.num_steps)
    assert never.any()
    assert not never.all()
    assert (found.curve.batch_size[never] < found.optimal_batch_size).all()
    assert np.isnan(found.curve.learning_rate_needed[never]).all()
    least = st.optimal_learning_rate(problem, batch_size=1, num_samples=[1e6, 1e9], algorithm=algorithm)
    assert (least.risk > 1.02 * found.optimal_risk).all()
    assert least.risk[0] == pytest.approx(least.risk[1], rel=1e-3), "and does not fall any more"
    assert found.batch_size <= found.curve.batch_size_at(0.5) <= found.curve.batch_size[-1]
