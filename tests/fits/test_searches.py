"""Searches on many functions at once, and the last crossing of lines through points."""

import numpy as np
import pytest

from sgdtheory.fits.searches import bisected, golden_section, last_crossing


@pytest.mark.parametrize("power", [1, 2])
def test_the_least_of_each_is_found(power):
    """|x − c|^p between −1 and 3; c beyond an end has its least there. Of squares rounding hides the last digits."""
    centres = np.array([[-5.0, -0.999, 0.2], [1.7, 2.999, 8.0]])
    found = golden_section(lambda x: np.abs(x - centres) ** power, np.full((2, 3), -1.0), np.full((2, 3), 3.0))
    np.testing.assert_allclose(found, centres.clip(-1, 3), rtol=0, atol={1: 1e-8, 2: 1e-7}[power])


def test_each_has_an_interval_of_its_own_and_values_without_bound_are_left():
    """x − log(x − 1), least at 2, inf up to 1."""

    def function(x):
        return np.where(x > 1, x - np.log(np.maximum(x - 1, 1e-300)), np.inf)

    found = golden_section(function, np.array([0.5, 1.0, 3.0]), np.array([4.0, 2.5, 5.0]))
    np.testing.assert_allclose(found, [2.0, 2.0, 3.0], rtol=0, atol=1e-7)


def test_conditions_hold_up_to_the_points_found():
    """Each has an interval of its own; where a condition holds everywhere or nowhere an end is found."""
    low, limits, high = np.array([[0.0, -1.0, 2.0, 3.0], [0.7, 3.0, 9.0, 1.0], [1.0, 5.0, 4.0, 4.0]])
    found = bisected(lambda x: x < limits, low, high)
    np.testing.assert_allclose(found, limits.clip(low, high), rtol=0, atol=1e-13)


@pytest.mark.parametrize("seed", range(5))
def test_the_last_crossing_is_that_of_a_dense_search(seed):
    """Lines between points may cross 0 several times."""
    random = np.random.default_rng(seed)
    x, y = np.cumsum(random.uniform(1, 9, 7)), random.uniform(-0.13, 0.17, 7)
    y[0], y[-1] = -0.13, 0.27
    fine = np.linspace(x[0], x[-1], 100_001)
    assert last_crossing(x, y) == pytest.approx(fine[np.interp(fine, x, y) <= 0][-1], abs=1e-3)


@pytest.mark.parametrize(
    ("excess", "expected"),
    [((-1, 1, 0, 2), 4), ((-1, 1, 2, 0), np.inf), ((-1, -1, -1, -1), np.inf), ((1, 1, 2, 2), np.nan)],
)
def test_a_point_at_0_is_below_and_without_a_crossing_there_is_an_end(excess, expected):
    np.testing.assert_equal(last_crossing(np.array([1.0, 2.0, 4.0, 8.0]), np.array(excess, float)), expected)
