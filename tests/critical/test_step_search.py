"""The fewest steps against trying every number of steps."""

import numpy as np
import pytest

from sgdtheory.critical.patterns import whole_numbers
from sgdtheory.critical.step_search import STEPS_RESOLUTION, bracket, fewest_steps

LARGEST = 5000  # of what brute force tries


class Counted:
    """A margin that counts its calls, and the numbers of steps that it is asked about."""

    def __init__(self, margin):
        self.margin, self.calls, self.asked = margin, 0, []

    def __call__(self, steps, index):
        assert steps.shape == index.shape
        assert (steps == np.round(steps)).all()
        self.calls += 1
        assert self.calls < 1000, "a search has an end"
        self.asked += list(zip(index.tolist(), steps.tolist(), strict=True))
        return self.margin(steps, index)


def search(margin, low, high):
    """The answers, and the counted margin."""
    low, high = np.broadcast_arrays(np.asarray(low, dtype=float), np.asarray(high, dtype=float))
    everything = np.arange(low.size)
    margins = np.array([margin(low, everything), margin(high, everything)])
    assert (margins[0] > 0).all()
    assert (margins[1] <= 0).all()
    counted = Counted(margin)
    return fewest_steps(counted, np.array([low, high]), margins), counted


def by_brute_force(margin, low, high, number):
    """The first n in (low, high] with margin ≤ 0, for each of the questions."""
    steps = np.arange(low + 1.0, high + 1)
    tried = np.array([margin(steps, np.full(steps.size, k)) for k in range(number)])
    return steps[(tried <= 0).argmax(1)]


def power(rate, threshold):
    """log of (threshold/n)^rate."""
    return lambda n, i: rate[i] * np.log(threshold[i] / n)


def kinked(rate, threshold):
    """Flat up to the threshold, steep beyond: false position from below creeps."""
    return lambda n, i: np.where(n < threshold[i], 1e-3, 1.0) * rate[i] * np.log(threshold[i] / n)


def steep_then_flat(rate, threshold):
    return lambda n, i: np.where(n < threshold[i], 1.0, 1e-3) * rate[i] * np.log(threshold[i] / n)


def jump(rate, threshold):
    """Like few steps that overshoot: from far above to far below at once."""
    return lambda n, i: np.where(n < threshold[i], 5.0, -5.0) + 0 * rate[i]


def plateau(rate, threshold):
    """Hardly above 0 for long, exponentially small differences."""
    return lambda n, i: np.exp(-rate[i] * n / threshold[i]) - np.exp(-rate[i])


SHAPES = [power, kinked, steep_then_flat, jump, plateau]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("low", [1, 7])
def test_monotone_margins(shape, low):
    rng = np.random.default_rng(0)
    rate, threshold = 10.0 ** rng.uniform(-2, 1, 300), rng.uniform(low + 0.01, LARGEST - 1, 300)
    threshold[:50] = low + rng.uniform(0.01, 4, 50)
    margin = shape(rate, threshold)
    found, counted = search(margin, np.full(300, low), LARGEST)
    np.testing.assert_array_equal(found, by_brute_force(margin, low, LARGEST, 300))
    np.testing.assert_array_equal(found, np.ceil(threshold))  # brute force itself
    assert counted.calls < 60
    assert all(low <= n <= LARGEST for _, n in counted.asked)


@pytest.mark.parametrize("shape", SHAPES)
def test_thresholds_that_are_whole(shape):
    """margin = 0 is enough."""
    threshold = np.array([2.0, 3, 10, 64, 999, 1000, 1001, 1002, 4000])
    margin = shape(np.ones(9), threshold)
    found, _ = search(lambda n, i: np.where(n == threshold[i], 0.0, margin(n, i)), np.ones(9), LARGEST)
    np.testing.assert_array_equal(found, threshold)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("low", [1, 4, 5])
def test_even_and_odd_numbers_that_alternate(shape, low):
    """One sign change among the even and another, later, among the odd."""
    rng = np.random.default_rng(1)
    rate, even = 10.0 ** rng.uniform(-1, 1, 300), rng.uniform(low + 1, 900, 300)
    even[:100] = low + rng.uniform(1, 12, 100)
    odd = even * np.exp(np.abs(0.3 * rng.standard_normal(300)))
    branches = shape(rate, even), shape(rate, odd)

    def margin(n, i):
        return np.where(n % 2 == 0, branches[0](n, i), branches[1](n, i))

    ends = np.array([np.full(300, low), np.full(300, LARGEST)])
    above = margin(ends[0], np.arange(300)) > 0
    assert above.all()
    found, counted = search(margin, *ends)
    np.testing.assert_array_equal(found, by_brute_force(margin, low, LARGEST, 300))
    assert counted.calls < 60


def test_neighbouring_ends_need_no_search():
    found, counted = search(lambda n, i: 2.5 - n, np.array([2.0, 2.0]), np.array([3.0, 3.0]))
    np.testing.assert_array_equal(found, [3, 3])
    assert counted.calls <= 1


@pytest.mark.parametrize(
    ("shape", "least", "largest", "calls"),
    [(power, 1e6, 1e19, 60), (kinked, 1e3, 1e12, 120), (steep_then_flat, 1e3, 1e12, 120), (jump, 1e3, 1e12, 120)],
)
def test_large_numbers_are_found_to_the_resolution(shape, least, largest, calls):
    """Also above 2^53, where one step more is none."""
    threshold = np.geomspace(least, largest, 50) + 0.5
    found, counted = search(shape(np.ones(50), threshold), np.ones(50), 10 * largest)
    assert (found >= threshold).all()
    np.testing.assert_allclose(found, threshold, rtol=STEPS_RESOLUTION, atol=1.0)
    exact = threshold < 1e8 / 2
    np.testing.assert_array_equal(found[exact], np.ceil(threshold[exact]))
    assert counted.calls < calls


def test_questions_do_not_depend_on_each_other_nor_on_what_is_outside():
    threshold = np.array([3.3, 700.2, 41.7])
    margin, ends = kinked(np.ones(3), threshold), (np.array([1.0, 20.0, 40.0]), np.array([50.0, 900.0, 42.0]))
    together, counted = search(margin, *ends)
    for k in range(3):
        alone, _ = search(lambda n, i, k=k: margin(n, np.full_like(i, k)), ends[0][[k]], ends[1][[k]])
        assert together[k] == alone[0]
    assert all(ends[0][k] <= n <= ends[1][k] for k, n in counted.asked)


@pytest.mark.parametrize("high", [2e3, 1e5, 3e8])
@pytest.mark.parametrize("gap", [(300, 1500), (310, 340), (1000, 1900)])
def test_a_gap_in_what_is_enough_leaves_a_least_number(gap, high):
    """Enough from 100 on, but for a gap: the answer is where it begins to be enough, once or the second time."""

    def margin(steps, index):
        inside = (steps < 100) | ((steps >= gap[0]) & (steps < gap[1]))
        return np.where(inside, 1.0, -1.0) * (1 + np.abs(np.log(steps / 700.0)))

    (found,), _ = search(margin, [3.0], [high])
    assert found in (100, gap[1])


@pytest.mark.parametrize("guess", [np.nan, 11.0, 900.0, 1000.0, 1100.0, 4e3, 1e6])
@pytest.mark.parametrize("shape", [power, kinked, steep_then_flat, jump, plateau])
def test_a_bracket_about_any_guess_holds_the_answer(shape, guess):
    margin = Counted(shape(np.array([0.7]), np.array([1003.0])))
    ends, margins = bracket(margin, 10.0, 50_000.0, guess)
    assert (ends.shape, margins.shape) == ((2, 1), (2, 1))
    assert 10 <= ends[0, 0] < 1003 <= ends[1, 0] <= 50_000
    np.testing.assert_array_equal(margins[:, 0], margin.margin(ends[:, 0], np.zeros(2, dtype=int)))
    assert margin.calls <= 20
    if abs(guess - 1003) < 50:
        assert (margin.calls, ends[1, 0] < 1.3 * ends[0, 0]) == (1, True)


@pytest.mark.parametrize("guess", [900.0, 1100.0, 1e4])
def test_a_margin_of_nothing_is_enough(guess):
    ends, _ = bracket(lambda n, i: np.where(n < 1003, 1.0, 0.0), 10.0, 50_000.0, guess)
    assert ends[0, 0] < 1003 <= ends[1, 0]


def test_whole_numbers_from_one_to_another():
    np.testing.assert_array_equal(whole_numbers(2.0, 5.0), [2, 3, 4, 5])
    np.testing.assert_array_equal(whole_numbers(2.0, 4.5), [2, 3, 4])
    np.testing.assert_array_equal(whole_numbers(2.0, 2.0), [2])
    assert whole_numbers(3.0, 2.0).size == 0


@pytest.mark.parametrize("guess", [2.0, 5.0, 13.0, 14.0, 22.0, 40.0])
def test_a_bracket_of_few_steps_holds_the_answer(guess):
    """Every threshold, a little below or above a whole number: a jump of less than two steps still gets on."""
    for threshold in np.append(np.arange(3, 40) - 0.1, np.arange(2, 40) + 0.3):
        margin = power(np.ones(1), np.array([threshold]))
        ends, margins = bracket(margin, 2.0, 40.0, guess)
        assert 2 <= ends[0, 0] < threshold <= ends[1, 0] <= 40
        assert margins[0] > 0 >= margins[1]


@pytest.mark.parametrize("threshold", [150.5, 1e5, 3.3e9, 7.7e13])
def test_about_a_straight_line_a_bracket_narrows_quadratically(threshold):
    """By thirds it would take twenty times."""
    _, counted = search(power(np.ones(1), np.array([threshold])), [1.0], [1e15])
    assert counted.calls <= 10


def test_a_margin_that_does_not_fall_ends_the_search_too():
    """Rounding may have both ends enough, by as much: then the first number above the lower end is."""
    flat = Counted(lambda n, i: np.full(n.shape, -1e-17))
    found = fewest_steps(flat, np.array([[10.0], [5000.0]]), np.full((2, 1), -1e-17))
    assert found == 11
    assert flat.calls < 60


@pytest.mark.parametrize(("threshold", "guess"), [(1e4, 100.0), (100.0, 1e4)])
def test_a_bracket_goes_outwards_by_a_line_and_half_as_much_again(threshold, guess):
    """In log n, from the nearer end; to even numbers: once, since a straight line is what it takes the margin for."""
    line = Counted(power(np.array([0.4]), np.array([threshold])))
    ends, margins = bracket(line, 2.0, 1e9, guess)
    about = [2 * round(guess * factor / 2) for factor in (1 / 1.1, 1.1)]
    jump = np.log(about[1] / about[0]) + 1.5 * abs(np.log(threshold / about[threshold > guess]))
    if threshold > guess:
        expected = [about[1], 2 * np.ceil(about[1] * np.exp(jump) / 2)]
    else:
        expected = [2 * np.floor(about[0] * np.exp(-jump) / 2), about[0]]
    assert ends[:, 0].tolist() == expected
    assert line.calls == 2
    np.testing.assert_allclose(margins[:, 0], 0.4 * np.log(threshold / ends[:, 0]))


@pytest.mark.parametrize(("threshold", "end"), [(10.0, 0), (1e5, 1)])
def test_a_bracket_ends_at_the_ends_where_no_answer_is_between(threshold, end):
    """All numbers are enough, or none is."""
    ends, _ = bracket(Counted(power(np.ones(1), np.array([threshold]))), 50.0, 1000.0, 300.0)
    assert ends[end, 0] == (50.0, 1000.0)[end]
