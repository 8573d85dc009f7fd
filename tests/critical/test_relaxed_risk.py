"""ρ(n) against tuning by `optimal_learning_rate`, and its guess of the fewest steps against trying them."""

from dataclasses import replace

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.critical.patterns import StepPatterns
from sgdtheory.critical.relaxed_risk import RelaxedRisk, _spaced
from sgdtheory.critical.tuned_risk import TunedRisk
from tests.critical.known_risk import KnownRisk, smooth

PROBLEMS = [st.PowerLaw(2, 3), st.PowerLaw(1.3, 4.0, 300, 0.1), st.PowerLaw(3, 4.5)]
SAMPLES = 2.0**20


def relaxed(problem):
    return RelaxedRisk(TunedRisk(problem), SAMPLES, 2.0, SAMPLES)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_rho_is_the_tuned_risk_where_b_is_whole(problem):
    found = relaxed(problem)
    assert (np.diff(found.steps) > 0).all()
    whole = SAMPLES % found.steps == 0
    assert whole.any()
    best = st.optimal_learning_rate(problem, batch_size=SAMPLES / found.steps[whole], num_samples=SAMPLES)
    np.testing.assert_allclose(found.risk[whole], best.risk, rtol=1e-8)
    np.testing.assert_allclose(found.rate[whole], best.learning_rate, rtol=1e-3)


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize(("more", "factor"), [(1.0, 2.0), (1.0, 1.1), (1.2, 1.0)])
def test_the_guess_is_near_the_fewest_steps(problem, more, factor):
    """A guess at the γ of D samples, not of the search: the tuned risk crosses the target about there (b > a)."""
    found = relaxed(problem)
    target = factor * found.risk.min()
    guess = found.steps_about(more * SAMPLES, target)
    around = np.floor(guess * np.array([0.8, 1.25]))
    risk = TunedRisk(problem).least(more * SAMPLES / around, around).risk
    assert risk[0] > target > risk[1]


def test_no_guess_where_nothing_reaches_the_target():
    found = relaxed(PROBLEMS[0])
    assert np.isnan(found.steps_about(SAMPLES, 0.5 * found.risk.min()))
    found.steps = found.steps[:1]
    assert np.isnan(found.steps_about(SAMPLES, 1.0))


@pytest.mark.parametrize("problem", PROBLEMS)
def test_estimates_of_whole_batch_sizes(problem):
    """Between the numbers of steps of ρ, with the samples that are left over, to 5% from a hundred on."""
    found = relaxed(problem)
    batch = np.unique(np.floor(SAMPLES / np.geomspace(100, SAMPLES, 40)))
    exact = TunedRisk(problem).least(batch, np.floor(SAMPLES / batch)).risk
    np.testing.assert_allclose(found.estimate(batch), exact, rtol=0.05)
    few = np.array([found.samples - 1, found.samples / 2 - 1])
    assert (found.estimate(few) > found.risk[0]).all()


def test_what_samples_are_worth():
    """−d log ρ/d log D where ρ is least, between its values at D and 2% less."""
    found = relaxed(PROBLEMS[0])
    best = found.steps[[np.argmin(found.risk)]]
    less = TunedRisk(PROBLEMS[0]).least(0.98 * SAMPLES / best, best).risk[0]
    assert found.worth_of_samples() == pytest.approx(np.log(less / found.risk.min()) / -np.log(0.98), rel=0.05)


def test_numbers_of_steps_are_whole_and_even_where_they_resonate():
    found = relaxed(PROBLEMS[1])
    resonant = found.steps <= 2 * np.sqrt(SAMPLES)
    assert resonant.any()
    assert not resonant.all()
    assert (found.steps[resonant] % 2 == 0).all()
    np.testing.assert_array_equal(found.steps, np.round(found.steps))
    assert found.steps[0] == 40
    assert found.steps[-1] == SAMPLES
    assert (np.diff(np.log(found.steps)) < np.log(10) / 1.4).all()


def test_refining_halves_the_intervals_about_a_minimum():
    found = relaxed(PROBLEMS[0])
    steps, k = found.steps, found.steps.size // 2
    found.risk = 1 + np.abs(np.log(steps / steps[k]))  # as if the least ρ were in the middle
    found.refine(0.9)
    np.testing.assert_array_equal(found.steps, steps)  # it has no chance of being below what is attained
    found.refine(1.0)
    assert found.steps.size == steps.size + 2
    for low, high in ((steps[k - 1], steps[k]), (steps[k], steps[k + 1])):
        (new,) = np.flatnonzero((found.steps > low) & (found.steps < high))
        assert found.steps[new] == pytest.approx(np.sqrt(low * high), abs=2)
        best = found.tuned.least(SAMPLES / found.steps[[new]], found.steps[[new]])
        assert (found.rate[new], found.risk[new]) == pytest.approx((best.rate[0], best.risk[0]), rel=1e-3)


def test_two_numbers_of_steps_of_which_the_first_is_better_are_halved():
    """Nothing stands behind the second."""
    problem = st.LeastSquares([1.0, 0.01], [0.1, 1.0], 0.1)
    relaxed = RelaxedRisk(TunedRisk(problem, st.Algorithm(average=st.LastIterate())), 500.0, 430.0)
    assert relaxed.steps.tolist() == [430, 500]
    relaxed.risk = np.sort(relaxed.risk)
    relaxed.refine(1.0)
    assert relaxed.steps.tolist() == [430, 464, 500]


# ------------------------------------------------------------------ a known risk


def of_steps(log_risk, resonant=0.0):
    """ρ is a formula of n alone."""
    return KnownRisk(lambda b, n: np.exp(log_risk(np.log(n))) + 0 * b, lambda n: 1e-9, StepPatterns(resonant=resonant))


def test_a_minimum_may_be_twice_as_far_down_as_a_parabola_says():
    found = RelaxedRisk(of_steps(lambda x: 0.3 * (x - 6.1) ** 2 - 4), 1e5, 2.0)
    k = np.array([1 + int(np.argmin(found.risk[1:-1]))])
    here = np.log(found.risk[k])
    assert found.risk[0] > found.risk[k] < found.risk[-1]
    np.testing.assert_allclose(found._lowest_about(k), here - 2 * (here + 4), rtol=1e-9)
    resonant = RelaxedRisk(of_steps(lambda x: 0.3 * (x - 6.1) ** 2 - 4, 4.0), 1e5, 2.0)
    np.testing.assert_allclose(resonant._lowest_about(k), np.log(resonant.risk[k]) - 0.02)


@pytest.mark.parametrize(("gap", "new"), [(0.01, 1), (0.03, 0), (-0.5, 1)])
def test_a_first_number_of_steps_next_to_what_is_attained_is_looked_into(gap, new):
    """Where the next one is worse, and it is within 2%."""
    found = RelaxedRisk(of_steps(lambda x: 0.3 * x), 1e5, 2.0)
    steps = found.steps.copy()
    found.refine(found.risk[0] * (1 - gap))
    assert found.steps.size == steps.size + new
    assert new == 0 or steps[0] < found.steps[1] < steps[1]
    falling = RelaxedRisk(of_steps(lambda x: -0.3 * x), 1e5, 2.0)
    falling.refine(10.0)
    np.testing.assert_array_equal(falling.steps, steps)


@pytest.mark.parametrize("place", [0.5, 1.5, 3.5])
def test_a_guess_between_any_two_numbers_of_steps(place):
    found = RelaxedRisk(of_steps(lambda x: -0.7 * x), 1e5, 2.0)
    wanted = np.exp(np.interp(place, np.arange(found.steps.size), np.log(found.steps)))
    assert found.steps_about(1e5, wanted**-0.7) == pytest.approx(wanted, rel=0.02)
    two = RelaxedRisk(of_steps(lambda x: -0.7 * x), 2000.0, 1000.0)
    assert two.steps.size == 2
    assert two.steps_about(2000.0, 1500.0**-0.7) == pytest.approx(1500, rel=0.02)


def test_numbers_from_one_to_another():
    assert _spaced(5.0, 4.0, 2.0).size == 0
    assert set(_spaced(5.0, 5.0, 2.0)) == {5}
    np.testing.assert_allclose(_spaced(10.0, 1000.0, 1.5), np.geomspace(10, 1000, 5))


@pytest.mark.parametrize(("fraction", "samples"), [(0.5, 666.0), (0.3, 5000.0), (0.37, 20_001.0)])
def test_tails_that_are_least_and_most_longer_than_their_share(fraction, samples):
    """⌈φn⌉ − φn is next to 0 for one, next to the most that there is for the other; n never passes D."""
    known = replace(
        smooth(1.2, 0.5), patterns=StepPatterns(fraction=fraction, plain=False, resonant=4.0, rippling=1000.0)
    )
    curves = [RelaxedRisk(known, samples, 41.0, 300.0, longer=longer) for longer in (False, True)]
    rest = [np.ceil(fraction * each.steps) - fraction * each.steps for each in curves]
    inside = [each.steps <= samples - 20 for each in curves]
    assert all(each.steps.max() <= samples for each in curves)
    assert all((np.ceil(fraction * each.steps[kept]) % 2 == 0).all() for each, kept in zip(curves, inside, strict=True))
    most = np.ceil(fraction * np.arange(1000.0)) - fraction * np.arange(1000.0)
    assert rest[0][inside[0]].max() < 0.35 * most.max()
    assert rest[1][inside[1]].min() > 0.65 * most.max()


@pytest.mark.parametrize("longer", [False, True])
def test_numbers_with_tails_are_looked_for_a_little_above(longer):
    """Among the next 4/φ numbers, none above D: an even tail, and of those the least or the most above φn."""
    known = replace(smooth(1.2, 0.5), patterns=StepPatterns(fraction=0.3, plain=False))
    relaxed = RelaxedRisk(known, 1500.0, 41.0, longer=longer)
    given = np.array([100.0, 251.0, 903.0, 1490.0])
    found = relaxed._with_tails(given)
    assert found.size == given.size
    for low, n in zip(given, found, strict=True):
        tails = {k: int(np.ceil(0.3 * k)) - 0.3 * k for k in np.arange(low, min(low + 14, 1501))}
        even = {k: rest for k, rest in tails.items() if np.ceil(0.3 * k) % 2 == 0}
        assert even[n] == (max if longer else min)(even.values())


@pytest.mark.parametrize(("most", "fine"), [(0.0, 0.0), (300.0, 300.0), (1e9, 2000.0)])
def test_numbers_of_steps_lie_closer_up_to_the_most_of_interest_and_only_where_they_resonate(most, fine):
    """A fifth of a decade at most, the others more than half of one; D = 10^6, so that n = 4B at 2000."""
    steps = RelaxedRisk(of_steps(lambda x: -x, 4.0), 1e6, 2.0, most).steps
    gaps = np.diff(np.log10(steps))
    assert (gaps[steps[1:] <= fine] < 0.21).all()
    assert gaps[steps[:-1] > 1.2 * fine].max() > 0.5
    assert gaps[steps[:-1] > max(fine, 2500)].min() > 0.5


def test_the_last_number_of_steps_is_that_of_the_samples():
    """Odd where it is, of B = 1; never more."""
    assert RelaxedRisk(of_steps(lambda x: -x), 5001.0, 2.0).steps[-1] == 5001
    assert RelaxedRisk(of_steps(lambda x: -x, 4.0), 5001.0, 2.0).steps[-1] == 5001
    known = of_steps(lambda x: -x)
    assert RelaxedRisk(known, 2.5, 2.0, roughly=known.roughly).steps.tolist() == [2]


def test_estimates_at_both_ends():
    """ρ is of n alone: samples left over are worth nothing."""
    found = RelaxedRisk(of_steps(lambda x: -0.7 * x), 1e5, 2.0)
    batch = np.array([1.0, np.floor(1e5 / found.steps[0]), 1e5])
    np.testing.assert_allclose(found.estimate(batch), found.risk[[-1, 0, 0]], rtol=1e-9)
