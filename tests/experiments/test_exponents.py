"""Verdicts on the exponent at infinite data, on slopes whose limit is known."""

import numpy as np
import pytest

from experiments._lib.answers import worst
from experiments._lib.exponents import errors, last_slope, settling

SAMPLES = 1e4, 1e6, 1e8, 1e10
TOLERANCE = 0.03
DECADES = np.arange(7.0)
BEST_RATES = 1.6136, 1.7836, 1.8781, 2.0086, 2.1686, 2.2966, 2.4025  # of the best schedule, a = 2, b = 6, n = 10² … 10⁸


def geometric(limit, size, ratio, number):
    return limit + size * ratio ** DECADES[:number]


def logarithmic(limit, size, first, number):
    return limit + size * first / (first + DECADES[:number])


def families():
    """(slopes, their limit): changes that shrink by factors, or like 1/log D, from either side, 3 … 7 slopes."""
    rng = np.random.default_rng(0)
    for _ in range(1000):
        limit, size, number = rng.uniform(-1, 1), rng.choice([-1, 1]) * 10 ** rng.uniform(-3, 0), rng.integers(3, 8)
        yield geometric(limit, size, rng.uniform(0.02, 0.98), number), limit
        yield logarithmic(limit, size, rng.uniform(1, 12), number), limit


def test_no_verdict_is_false():
    """Whatever is predicted: "holds" only if the limit is within the tolerance, "fails" only if it is not."""
    rng = np.random.default_rng(1)
    counts = {"holds": 0, "fails": 0, "inconclusive": 0}
    for slopes, limit in families():
        predicted = limit + rng.choice([-1, 1]) * rng.choice([0.0, 0.02, 0.04, 0.1])
        right = abs(limit - predicted) <= TOLERANCE
        verdict = settling(slopes).verdict(predicted, TOLERANCE)
        counts[verdict] += 1
        assert verdict != ("fails" if right else "holds"), (slopes, limit, predicted)
    assert min(counts.values()) > 200  # all three are given


def test_a_value_on_its_way_is_no_limit():
    """Negative control: "the value or what it extrapolates to" calls these right, at one n as at the other."""
    passing = settling(geometric(0.9, -0.8, 0.6, 5))  # 0.796 last: the prediction, which it leaves behind
    assert abs(passing.value - 0.8) < TOLERANCE
    assert passing.verdict(0.8, TOLERANCE) == "inconclusive"
    assert settling(geometric(0.9, -0.8, 0.6, 7)).verdict(0.8, TOLERANCE) == "fails"
    assert settling(BEST_RATES).verdict(3.0, 0.1) == "inconclusive"
    assert settling(BEST_RATES).verdict(2.9, 0.1) == "inconclusive"


def test_what_is_found_a_decade_earlier_does_not_contradict():
    """The best schedule's exponent, which led to 2.87 a decade before it led to 2.91."""
    later, earlier = settling(BEST_RATES), settling(BEST_RATES[:-1])
    assert later.limit == pytest.approx(2.909, abs=0.01)
    assert earlier.interval[0] < later.limit < earlier.interval[1]
    assert later.interval[0] < 3.0 < later.interval[1]


def test_last_slope_of_a_power_law():
    slope = last_slope(SAMPLES, [3 * samples**0.4 for samples in SAMPLES])
    assert slope.value == pytest.approx(0.4)
    assert slope.change == pytest.approx(0.0, abs=1e-12)
    assert slope.verdict(0.4, 0.01) == "holds"
    assert slope.verdict(0.5, 0.01) == "fails"


def test_a_slope_that_still_changes_is_extrapolated():
    """Slopes 0.8, 0.6, 0.5 lead to 0.4 ± 0.2."""
    y = np.exp(np.cumsum([0, 0.8, 0.6, 0.5]) * np.log(100))
    slope = last_slope(SAMPLES, y)
    np.testing.assert_allclose(slope, (0.5, -0.1, 0.4, 0.2))
    np.testing.assert_allclose(slope.interval, (0.2, 0.6))
    assert slope.verdict(0.4, 0.01) == "inconclusive"
    assert slope.verdict(0.4, 0.21) == "holds"
    assert slope.verdict(0.1, 0.01) == "fails"


def test_the_interval_holds_the_move_of_the_estimate():
    """Two estimates, 0.6 by the first three slopes and 0.475 by the last three: farther apart than the last slopes."""
    found = settling([1.0, 0.8, 0.7, 0.62])
    earlier = settling([1.0, 0.8, 0.7])
    assert found.half_width >= abs(found.limit - earlier.limit)


@pytest.mark.parametrize(
    "slopes",
    [(0.4, 0.4), (0.1, 0.2, 0.4), (0.50, 0.52, 0.54), (0.53, 0.50, 0.61)],
    ids=["two", "growing", "straight", "turning by more"],
)
def test_what_does_not_settle_decides_nothing(slopes):
    found = settling(slopes)
    assert found.verdict(slopes[-1], 0.1) == "inconclusive"
    assert found.verdict(slopes[-1] + 0.8, 0.1) == "inconclusive"


def test_two_slopes_lead_nowhere():
    found = settling([0.4, 0.39])
    assert found.interval == (-np.inf, np.inf)
    assert found.leads == "two slopes cannot be extrapolated"


def test_tiny_changes_need_not_shrink():
    """0.01 is 50 times the change."""
    assert settling([0.2500, 0.2502, 0.2504]).interval == pytest.approx((0.2404, 0.2604))


def test_slopes_that_turn_are_known_to_the_larger_change():
    assert settling([0.82, 0.80, 0.81]).interval == pytest.approx((0.79, 0.83))


def test_errors_of_several():
    found = errors([(settling([0.4, 0.4, 0.4]), 0.41), (settling([0.8, 0.6, 0.5]), 0.3)])
    assert found.largest == pytest.approx(0.1)
    assert found.interval == pytest.approx((-0.1, 0.3))


def test_worst():
    assert worst(["holds", "holds"]) == "holds"
    assert worst(["holds", "inconclusive"]) == "inconclusive"
    assert worst(["inconclusive", "fails", "holds"]) == "fails"
