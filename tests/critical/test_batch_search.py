"""The fewest steps at each batch size where the tuned risk is known: a power of n."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.critical import batch_search, curve_search
from sgdtheory.critical.least_risk import Tuned
from sgdtheory.critical.patterns import StepPatterns
from sgdtheory.critical.step_search import Enough, enough_in_ripples
from sgdtheory.critical.tuned_risk import TunedRisk
from tests.critical.known_risk import KnownRisk, alternating, smooth, swinging, with_floor

TARGET = 1e-3


@pytest.mark.parametrize("exponent", [0.3, 0.5, 1.0, 1.7])
def test_fewest_steps_are_bracketed_by_extrapolation(exponent):
    """From two numbers of steps a power is extrapolated exactly: no n far above the answer is ever tried."""
    steps, enough = np.array([100.0, 1e4, 3e6, 500.0]), np.array([173.0, 41_001.0, 3.1e6, 500.0])
    batch = np.arange(1.0, 5.0)
    asked = [[], [], [], []]  # the last reaches the target already

    def risk(size, n):
        for one, number in np.broadcast(size, n):
            asked[int(one) - 1].append(number)
        return TARGET * (enough[size.astype(int) - 1] / n) ** exponent

    known = KnownRisk(risk, lambda n: 1e-9, StepPatterns(resonant=4.0))
    start = Tuned(np.full(4, 0.1), TARGET * (enough / steps) ** exponent, np.ones(4))
    needed, rate = curve_search.steps_needed(known, batch, steps, start, TARGET)
    np.testing.assert_array_equal(needed, enough)
    np.testing.assert_allclose(rate, [*(1 / enough[:3]), 0.1])
    first = steps * (enough / steps) ** max(exponent, 1.0)  # with the risk taken to fall like 1/n
    for numbers, low, most, fewest in zip(asked[:3], steps, first, enough, strict=False):
        assert max(numbers) <= 1.01 * most + 4
        assert numbers[0] > low
        assert max(numbers[:2]) >= fewest  # the second is extrapolated
        assert len(numbers) < 50
    assert not asked[3]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("capacity", "source", "noise"), [(1.1, 2.0, 0.3), (2.0, 3.0, 1.0), (1.2, 3.0, 3.0), (3.0, 4.0, 1.0)]
)
def test_momentum_swings_on(capacity, source, noise):
    """With it n + 1 steps may do worse than n: the fewest that are enough are those of a list of all."""
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


@pytest.mark.slow  # ten seconds
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


# ------------------------------------------------------------------ a known risk, every answer listed


ROUND = 1 + 1e-12
KNOWN = {
    "smooth": smooth(1.2, 0.5),
    "noisy": smooth(2.0, 30.0),
    "alternating": alternating(1.3, 1.0),
    "few steps": alternating(4.0, 0.1),
    "swinging": swinging(1.5, 0.3, 300.0),
    "swinging for long": swinging(1.5, 0.3, 2000.0),
}


def listed_largest(known, budget, target, least, all_data, first):
    """By the definition: every whole B from `least` on, with every number of steps that the budget allows."""
    sizes = np.arange(least, np.floor(budget / first) + 1)
    fits = []
    for size in sizes:
        most = np.floor(budget / size)
        steps = np.array([most]) if all_data else np.arange(first, most + 1)
        fits.append((known.of(size, steps) <= target * ROUND).any())
    steps = np.arange(first, np.floor(budget / least) + 1)
    real = budget / steps[known.of(budget / steps, steps) <= target * ROUND][0]
    return sizes[fits].max(), real


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("samples", [300.0, 1237.0])
def test_the_largest_batch_size_of_a_list(name, samples):
    known = KNOWN[name]
    sizes = np.arange(1.0, samples // 2 + 1)
    attained = known.of(sizes, np.floor(samples / sizes))
    least, optimal = sizes[attained.argmin()], attained.min()
    for more, factor, all_data in ((1.2, 1.0, False), (1.5, 1.0, False), (1.0, 2.0, True), (1.0, 1.1, True)):
        given = {"all_data": all_data, "first": 2.0}
        expected = listed_largest(known, more * samples, factor * optimal, least, **given)
        for guess in (np.nan, more * samples / expected[1], 7.0, 200.0):
            found = batch_search.largest_batch(known, more * samples, factor * optimal, least, guess=guess, **given)
            assert found[:2] == pytest.approx(expected, rel=1e-12), (more, factor, guess)
            if found.batch > least and not all_data:
                every = np.arange(2.0, more * samples / found.batch + 1)
                fewest = every[known.of(found.batch, every) <= factor * optimal * ROUND][0]
                assert found.enough[:2] == (fewest, 1 / fewest), (more, factor, guess)


def test_what_is_nothing_to_learn_takes_one_step():
    known = KNOWN["smooth"]
    assert batch_search.largest_batch(known, 100.7, 10.0, 1.0, all_data=False) == (100, 100.7, None)
    one = batch_search.largest_batch(known, 100.0, 1.6, 1.0, all_data=False, first=1.0)  # 1 + 0.5/100 in one step
    assert one[:2] == (100, 100)
    two = batch_search.largest_batch(known, 100.0, 1.6, 1.0, all_data=False)  # not below `first_steps`
    assert two[:2] == (50, 50)


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("samples", [60.0, 500.0, 4321.0])
def test_steps_needed_of_a_list(name, samples):
    """Also more steps than are tried one by one; where D samples reach it, all of their steps."""
    known = KNOWN[name]
    sizes = np.unique(np.floor(np.geomspace(1, samples / 2, 25)))
    steps = np.floor(samples / sizes)
    start = known.least(sizes, steps)
    target = start.risk.min() * 1.3
    needed, rate = curve_search.steps_needed(known, sizes, steps, start, target)
    every = np.arange(2.0, 60_000)
    assert (needed > 64).any() or samples == 60
    for k, size in enumerate(sizes):
        fewest = every[known.of(size, every) <= target * ROUND][0]
        assert needed[k] == (steps[k] if start.risk[k] <= target * (1 + 1e-8) else fewest)
        assert rate[k] == pytest.approx(1 / needed[k])


def test_some_batch_sizes_never_do():
    known = with_floor(0.3)
    sizes = np.array([1.0, 3.0, 4.0, 20.0, 100.0])
    steps = np.floor(200 / sizes)
    start, target = known.least(sizes, steps), 0.05
    needed, rate = curve_search.steps_needed(known, sizes, steps, start, target)
    assert np.isinf(needed[:2]).all()
    assert np.isnan(rate[:2]).all()
    every = np.arange(2.0, 500)
    for k in (2, 3, 4):
        fewest = every[known.of(sizes[k], every) <= target][0]
        assert needed[k] == max(fewest, steps[k])


def test_a_risk_that_is_flat_at_first():
    """A jump to a hundred times as many steps is no sign that there are none."""
    known = KnownRisk(lambda b, n: 1 / (1 + n / 1000) + 0 * b, lambda n: 1 / (1 + n / 1000))
    given = np.array([1.0, 5.0]), np.array([100.0, 20.0])
    needed, rate = curve_search.steps_needed(known, *given, known.least(*given), 0.01)
    np.testing.assert_array_equal(needed, 99_000)
    np.testing.assert_allclose(rate, 1 / 99_000)


def test_a_stretch_without_a_fall_is_no_end_yet():
    """Less than twenty times as many steps have been looked at by then."""
    known = KnownRisk(lambda b, n: np.where(n < 122, 1.2, np.where(n < 1000, 1.1, 0.9)) + 0 * b, lambda n: 0.5)
    given = np.array([1.0]), np.array([100.0])
    assert curve_search.steps_needed(known, *given, known.least(*given), 1.0) == (1000, 1 / 1000)


@pytest.mark.parametrize("enough", [(935, 950), (940,), (999,), (936, 880), (960, 900, 840, 780)])
def test_ripples_are_looked_back_at_window_after_window(enough):
    """From 1000 on all are enough, and these: 64 are looked at a time, none of them left out."""
    known = KnownRisk(
        lambda b, n: np.where((n >= 1000) | np.isin(n, enough), 1.0, 2.0) + 0 * b,
        lambda n: 0.5,
        StepPatterns(restless=2000.0),
    )
    found = enough_in_ripples(known, np.ones_like, 10.0, Enough(1000.0, 0.1), 1.0)
    assert found[:2] == (min(enough), 1 / min(enough))


@pytest.mark.parametrize(
    ("fraction", "low", "place", "seen"),
    [
        (0.0, 10, 992, True),
        (0.0, 10, 991, False),
        (0.75, 10, 992, True),
        (0.45, 10, 991, True),
        (0.1, 10, 960, True),
        (0.1, 10, 959, False),
        (0.1, 998, 999, True),
    ],
)
def test_patterns_of_stages_and_tails_are_looked_back_at(fraction, low, place, seen):
    """Eight numbers of steps, or 4/φ of them, above the lower end."""
    known = KnownRisk(
        lambda b, n: np.where((n >= 1000) | (n == place), 1.0, 2.0) + 0 * b,
        None,
        StepPatterns(plain=False, fraction=fraction),
    )
    found = enough_in_ripples(known, np.ones_like, low, Enough(1000.0, 0.1), 1.0)
    assert found.steps == (place if seen else 1000)
