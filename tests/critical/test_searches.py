"""The searches over n and B where the least risk is a formula of them, against a list of every answer."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.critical.batch_search import Optimum, largest_batch, optimal_batch_size
from sgdtheory.critical.curve_search import batch_size_curve
from sgdtheory.critical.definition import _solve, remark_on_optimum
from sgdtheory.critical.least_risk import LeastRisk
from sgdtheory.critical.rate_search import Tuned
from sgdtheory.critical.step_search import fewest_enough
from sgdtheory.critical.tuned_risk import TunedRisk
from tests import brute_force
from tests.marks import slow

LAST = st.LastIterate()
ROUND = 1 + 1e-12


@dataclass
class KnownRisk:
    """A least risk that falls with B.

    Attributes:
        of: the risk, of arrays of B and n.
        first_steps, resonant, oscillating, pattern, plain, workers, initial_risk: as `TunedRisk` has them.
    """

    of: Callable[[np.ndarray, np.ndarray], np.ndarray]
    first_steps: float = 2.0
    resonant: float = 0.0
    oscillating: float = 0.0
    pattern: float = 0.0
    plain: bool = False
    workers: int = 1
    initial_risk: float = 10.0

    def least(self, batch, steps, goal=np.inf, window=None, settled=0.0):
        batch, steps = (np.asarray(values, dtype=float) for values in (batch, steps))
        return Tuned(1 / steps, self.of(batch, steps), 0.1 / steps, 10 / steps)

    def remembered(self):
        """Return it as the searches ask for it."""
        return LeastRisk(self)


def smooth(power, noise):
    """A bias n^−power and a variance noise/(nB)."""
    return KnownRisk(lambda b, n: n**-power + noise / (n * b), plain=True)


def alternating(power, noise):
    """Risk in which an odd n leaves more bias if n ≤ 4B."""

    def of(batch, steps):
        odd = np.where((steps % 2 == 1) & (steps <= 4 * batch), 1.5, 1.0)
        return odd * steps**-power + noise / (steps * batch)

    return KnownRisk(of, resonant=4.0, plain=True)


def oscillating(power, noise, until):
    """The bias oscillates with n, less and less, up to so many steps."""

    def of(batch, steps):
        wave = 1 + 0.8 * np.cos(0.7 * steps) * 1e-6 ** (steps / until)
        return wave * steps**-power + noise / (steps * batch)

    return KnownRisk(of, oscillating=until, first_steps=1.0)


def with_floor(level):
    """With B < 4 a floor is left for ever; one step is good for nothing."""
    return KnownRisk(lambda b, n: n**-1.5 + 1 / (n * b) + np.where(b < 4, level, 0.0), resonant=4.0)


def best_near(number, parity=0.0, depth=1.0):
    """Samples are worth most in n steps for n near a number; odd n may be worse where n ≤ 4B."""

    def of(batch, steps):
        away = (np.log(steps / number) / 2) ** 2
        odd = np.where((steps % 2 == 1) & (steps <= 4 * batch), parity, 0.0)
        return (1 + depth * away / (1 + away) + odd) / (steps * batch)

    return KnownRisk(of, resonant=4.0 if parity else 0.0)


def best_with_longer_tails(number):
    """Averages of half of the iterates: an odd n, whose tail is half an iterate longer, is worth more."""
    other = best_near(number, depth=0.5)
    return KnownRisk(lambda b, n: other.of(b, n) * np.where(n % 2 == 1, 1.0, 1.2), pattern=8.0)


OPTIMA = {
    "one by one": smooth(1.2, 0.5),
    "few steps": best_near(7.0),
    "a hundred steps": best_near(120.0),
    "even": best_near(25.0, parity=0.5),
    "even, many": best_near(177.0, parity=0.1),
    "many steps": best_near(2500.0, depth=0.3),
    "alternating": alternating(1.3, 1.0),
    "oscillating": oscillating(1.5, 0.3, 300.0),
    "longer tails": best_with_longer_tails(177.0),
}


@pytest.mark.parametrize("name", OPTIMA)
@pytest.mark.parametrize("samples", [37.0, 400.0, 401.0, 5003.0, 20_011.5])
def test_no_batch_size_of_a_list_is_better(name, samples):
    known = OPTIMA[name]
    sizes = np.arange(1.0, np.floor(samples) + 1)
    listed = known.of(sizes, np.floor(samples / sizes))[sizes <= samples / known.first_steps]
    found = optimal_batch_size(known.remembered(), samples)
    assert found.risk == pytest.approx(listed.min(), rel=1e-12)
    assert found.risk == known.of(found.batch, np.floor(samples / found.batch))
    assert found.rate == pytest.approx(1 / np.floor(samples / found.batch))


def test_no_batch_size_is_preferred_to_one_for_a_rounding():
    for gain, expected in ((5e-9, 1.0), (3e-8, 10.0)):
        few = KnownRisk(lambda b, n, gain=gain: np.where((b >= 10) & (n > 9), 1 - gain, 1.0) + 0 * n)
        assert optimal_batch_size(few.remembered(), 100.0).batch == expected
        many = KnownRisk(lambda b, n, gain=gain: np.where(b == 4, 1 - gain, 1.0) + 0 * n)
        assert optimal_batch_size(many.remembered(), 1000.0).batch == min(expected, 4.0)


def test_one_step_with_everything_may_be_best():
    for samples in (37.5, 399.0, 1000.0, 1000.5):
        known = KnownRisk(lambda b, n: (1 + 0.5 * (n > 1)) / (n * b), first_steps=1.0)
        assert optimal_batch_size(known.remembered(), samples).batch == np.floor(samples)


@pytest.mark.parametrize("beside", [70.0, 76.0, 91.0, 98.0])
def test_beside_a_number_of_steps_that_oscillates_all_are_tried(beside):
    """One n ≤ 200 beats all others, and is a little nearer to the best of the others, 83, than a fifth of it."""

    def of(batch, steps):
        return (1 + 0.1 * np.log(steps / 83) ** 2 - 0.2 * (steps == beside)) / (steps * batch)

    found = optimal_batch_size(KnownRisk(of, oscillating=200.0).remembered(), 20_011.0)
    assert np.floor(20_011 / found.batch) == beside


@pytest.mark.slow  # five seconds
def test_of_momentum_the_least_risk_is_that_of_a_list():
    """R(n) rises and falls by 5% from one n to the next; 90 steps are best, and 41 … 200 are all tuned here."""
    problem = st.LeastSquares([1.0, 0.2, 0.01], [1.0, 0.1, 0.3], 0.1)
    tuned = TunedRisk(problem, st.Algorithm(st.HeavyBall(0.9), average=LAST))
    found = optimal_batch_size(LeastRisk(tuned), 1e6)
    batch = np.floor(1e6 / np.arange(41.0, 201))
    assert found.risk == pytest.approx(tuned.least(batch, np.floor(1e6 / batch)).risk.min(), rel=1e-8)


KNOWN = {
    "smooth": smooth(1.2, 0.5),
    "noisy": smooth(2.0, 30.0),
    "alternating": alternating(1.3, 1.0),
    "few steps": alternating(4.0, 0.1),
    "oscillating": oscillating(1.5, 0.3, 300.0),
    "oscillating for long": oscillating(1.5, 0.3, 2000.0),
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
    for more, factor, all_data in ((1.2, 1.0, False), (1.5, 1.0, False), (1.0, 2.0, True), (1.0, 1.1, True)):
        least_risk = known.remembered()
        best = optimal_batch_size(least_risk, samples)
        target, budget = factor * best.risk, more * samples
        expected = listed_largest(known, budget, target, best.batch, all_data, 2.0)
        found = largest_batch(least_risk, budget, target, best, all_data=all_data, first=2.0)
        assert (found.batch, found.real) == pytest.approx(expected, rel=1e-12), (more, factor)
        if found.batch > best.batch and not all_data:
            every = np.arange(2.0, budget / found.batch + 1)
            fewest = every[known.of(found.batch, every) <= target * ROUND][0]
            assert (found.steps, found.rate) == (fewest, 1 / fewest), (more, factor)


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("samples", [60.0, 500.0, 4321.0])
def test_steps_that_batch_sizes_need(name, samples):
    """Also more steps than are tried one by one; where D samples reach it, all of their steps."""
    known = KNOWN[name]
    sizes = np.unique(np.floor(np.geomspace(1, samples / 2, 25)))
    target = known.of(sizes, np.floor(samples / sizes)).min() * 1.3
    curve = batch_size_curve(known.remembered(), samples, target, (sizes[-1],))
    every = np.arange(2.0, 60_000)
    assert (curve.num_steps > 64).any() or samples == 60
    for size, needed, rate in zip(curve.batch_size, curve.num_steps, curve.learning_rate_needed, strict=True):
        fewest = every[known.of(size, every) <= target * ROUND][0]
        most = np.floor(samples / size)
        assert needed == (most if known.of(size, most) <= target * (1 + 1e-8) else fewest)
        assert rate == pytest.approx(1 / needed)


def needed(known, batch, low, target):
    """The fewest steps above some numbers, of batch sizes, and γ."""
    return fewest_enough(known.remembered(), lambda _, q: batch[q], target, low, np.full(low.size, np.inf))


def test_some_batch_sizes_never_do():
    known = with_floor(0.3)
    sizes = np.array([1.0, 3.0, 4.0, 20.0, 100.0])
    steps, rate = needed(known, sizes, np.ones(5), 0.05)
    assert np.isinf(steps[:2]).all()
    assert np.isnan(rate[:2]).all()
    every = np.arange(2.0, 500)
    assert steps[2:].tolist() == [every[known.of(size, every) <= 0.05][0] for size in sizes[2:]]


def test_a_risk_that_is_flat_at_first():
    """A jump to a hundred times as many steps is no sign that there are none."""
    known = KnownRisk(lambda b, n: 1 / (1 + n / 1000) + 0 * b, plain=True)
    steps, rate = needed(known, np.array([1.0, 5.0]), np.array([100.0, 20.0]), 0.01)
    np.testing.assert_array_equal(steps, 99_000)
    np.testing.assert_allclose(rate, 1 / 99_000)


def test_a_stretch_without_a_fall_is_no_end_yet():
    """Less than twenty times as many steps have been looked at by then."""
    known = KnownRisk(lambda b, n: np.where(n < 122, 1.2, np.where(n < 1000, 1.1, 0.9)) + 0 * b, plain=True)
    assert needed(known, np.array([1.0]), np.array([100.0]), 1.0) == (1000, 1 / 1000)


@pytest.mark.parametrize("enough", [(935, 950), (940,), (999,), (936, 880), (960, 900, 840, 780)])
def test_oscillations_are_looked_back_at_window_after_window(enough):
    """From 1000 on all are enough, and these: none of them is left out."""
    known = KnownRisk(
        lambda b, n: np.where((n >= 1000) | np.isin(n, enough), 1.0, 2.0 + 0.5 * np.cos(n)) + 0 * b, oscillating=2000.0
    )
    steps, rate = needed(known, np.ones(1), np.array([100.0]), 1.0)
    assert (steps[0], rate[0]) == (min(enough), 1 / min(enough))


@pytest.mark.parametrize(
    ("pattern", "distance", "seen"),
    [(0.0, 8, True), (0.0, 9, False), (9.0, 9, True), (40.0, 40, True), (40.0, 41, False)],
)
def test_patterns_of_stages_and_tails_are_looked_back_at(pattern, distance, seen):
    """Eight numbers of steps, or as many as the pattern of tails, rounds and stages has."""
    known = KnownRisk(lambda b, n: np.where((n >= 1000) | (n == 1000 - distance), 1.0, 2.0) + 0 * b, pattern=pattern)
    steps, _ = needed(known, np.ones(1), np.array([100.0]), 1.0)
    assert steps[0] == (1000 - distance if seen else 1000)


# ------------------------------------------------------------------ what is remembered, against all learning rates

ALGORITHMS = [
    st.Algorithm(),
    st.Algorithm(average=LAST),
    st.Algorithm(average=st.TailAverage(0.5)),
    st.Algorithm(schedule=st.Cosine(), average=LAST),
    st.Algorithm(st.HeavyBall(0.9)),
]
PROBLEMS = [st.LeastSquares([1.0, 1e-4], [1e-3, 1.0], 1e-3), st.PowerLaw(2.0, 3.0)]


@pytest.mark.parametrize(
    ("algorithm", "problem"),
    [
        *itertools.product(ALGORITHMS[:2], PROBLEMS),
        *(slow(*case) for case in itertools.product(ALGORITHMS[2:], PROBLEMS)),
    ],
    ids=str,
)
def test_windows_from_pairs_nearby_hide_no_minimum(problem, algorithm):
    """Also with two scales, whose minima change places as the largest γ/B grows."""
    samples = 1e5
    tuned = TunedRisk(problem, algorithm)
    least_risk = LeastRisk(tuned)
    steps = np.array([1e5, 7e4, 5e4, 3.5e4, 2e4, 1.4e4, 1e4, 7e3, 5e3, 4e3, 2.9e3, 2e3, 1.4e3, 1e3, 700, 500, 350, 302])
    found = [float(least_risk(np.array([samples / n]), np.array([n])).risk[0]) for n in steps.tolist()]
    np.testing.assert_allclose(found, tuned.least(samples / steps, steps).risk, rtol=5e-9)


@pytest.mark.parametrize("signal", [1e-3, 0.3])
def test_two_scales_by_brute_force(signal):
    """The direction that is learnt slowly may be worth larger γ than the noise of the other allows, or not."""
    eigenvalue, strength, noise = np.array([1.0, 0.01]), np.array([signal, 1.0]), 1e-3
    least_risk = LeastRisk(TunedRisk(st.LeastSquares(eigenvalue, strength, noise)))
    for batch in (1.0, 2.0, 3.0):
        steps = np.array([np.floor(6000 / batch)])
        least = brute_force.best_risks(eigenvalue, strength, noise, batch, int(steps[0]))[-1]
        assert least_risk(np.array([batch]), steps).risk[0] == pytest.approx(least, rel=2e-8)


# ------------------------------------------------------------------ the definition, by brute force


def solved(known, samples, overhead, factor=2.0):
    """Return B* and what goes with it where the risk is a formula."""
    known.problem = SimpleNamespace(noise_variance=1.0)
    return _solve(known.remembered(), samples, overhead, factor, with_curve=False)


def test_fewer_steps_than_the_samples_allow_count_for_the_risk_but_not_for_the_rate():
    """If a risk oscillates with n for long, every B and every n is tried."""
    known, samples = oscillating(1.5, 0.3, 2000.0), 60.0
    sizes = np.arange(1.0, samples + 1)
    attained = known.of(sizes, np.floor(samples / sizes))
    found = solved(known, samples, 0.5)
    assert found.optimal_risk == attained.min()
    each = {b: np.arange(2.0, np.floor(1.5 * samples / b) + 1) for b in sizes[:45]}
    enough = [b for b, steps in each.items() if (known.of(b, steps) <= attained.min() * ROUND).any()]
    assert found.batch_size == max(enough) == 2
    fewest = each[2.0][known.of(2.0, each[2.0]) <= attained.min() * ROUND][0]
    assert found.num_steps == max(fewest, 30)
    assert found.rate_batch_size == sizes[attained <= 2.0 * attained.min()].max() == 2


def test_one_step_with_all_samples_is_refused_where_some_are_left_over():
    """One step of 37 samples is best of 37.5; where it is worse by less than the overhead is more, it is remarked."""
    best = KnownRisk(lambda b, n: (1 + 0.5 * (n > 1)) / (n * b), first_steps=1.0)
    with pytest.raises(ValueError, match="one step with all of them is not the best, got 37.5"):
        solved(best, 37.5, 0.2)
    worse = KnownRisk(lambda b, n: (1 + 0.3 * (n == 1)) / (n * b), first_steps=1.0)
    assert "one step with 90 samples" in solved(worse, 60.0, 0.5).remark
    assert solved(worse, 60.0, 0.2).remark == ""


@pytest.mark.parametrize(("first", "risk", "said"), [(1, 0.5, True), (1, 0.4, True), (1, 0.39, False), (2, 0.5, False)])
def test_one_step_with_all_samples_is_remarked_where_it_counts_and_does(first, risk, said):
    """It leaves 0.4 here, of 12 samples."""
    known = KnownRisk(lambda b, n: 0.4 + 0 * b, first_steps=first)
    known.problem = SimpleNamespace(noise_variance=1.0)
    one, two = (remark_on_optimum(known.remembered(), Optimum(batch, 0.1, risk), 12.0) for batch in (1.0, 2.0))
    assert one.startswith("one step with 12 samples") == said
    assert said or one == ""
    assert two.startswith("the optimal risk is attained at a batch size above 1")
    assert ("; one step" in two) == said
