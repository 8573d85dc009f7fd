"""The fewest steps against trying every number of steps."""

import numpy as np
import pytest

from sgdtheory.critical.step_search import STEPS_RESOLUTION, fewest_steps

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


@pytest.mark.parametrize(("threshold", "calls"), [(150.5, 7), (1e5, 9), (3.3e9, 8), (7.7e13, 8)])
def test_about_a_straight_line_a_bracket_narrows_quadratically(threshold, calls):
    """By thirds it would take twenty times."""
    _, counted = search(power(np.ones(1), np.array([threshold])), [1.0], [1e15])
    assert counted.calls <= calls


def test_a_margin_that_does_not_fall_ends_the_search_too():
    """Rounding may have both ends enough, by as much: then the first number above the lower end is."""
    flat = Counted(lambda n, i: np.full(n.shape, -1e-17))
    found = fewest_steps(flat, np.array([[10.0], [5000.0]]), np.full((2, 1), -1e-17))
    assert found == 11
    assert flat.calls < 60
