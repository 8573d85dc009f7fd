"""Directions that a fit of exponents uses, and consequences of the exponents, from spectra set by hand."""

import numpy as np
import pytest

from sgdtheory.data.cross_fit import Spectrum
from sgdtheory.data.data_problem import _bounds, _exponents, _predicted
from sgdtheory.data.exponents import Exponent, bins_within, capacity_exponent
from sgdtheory.data.moments import GROUPS


def flat(rows, eigenvalues=60):
    return Spectrum(np.ones(eigenvalues), np.ones(eigenvalues), 1.0, rows)


@pytest.mark.parametrize(
    ("rows", "spread", "last"),
    [
        (160, 1.0, 20),
        (160, 0.5, 20),
        (160, 2.0, 10),
        (1e4, 1.0, 60),
        (32, 1.0, 4),
        (24, 1.0, 3),
        (8, 1.0, 1),
        (4, 1.0, 1),
    ],
)
def test_eight_rows_of_a_half_for_each_direction_of_a_fit(rows, spread, last):
    """And more by the spread of kurtosis."""
    whole = flat(rows)
    assert _bounds(None, whole, (whole,) * GROUPS, spread) == (1, last)


def test_directions_whose_eigenvalue_is_not_known_are_not_fitted():
    left_out = tuple(flat(160)._replace(eigenvalues=np.where(np.arange(60) < 12, 1.0, side)) for side in (0.5, 2.0) * 8)
    assert _bounds(None, flat(160), left_out, 1.0) == (1, 12)


def test_a_range_of_four_directions_with_variance():
    whole = flat(160)._replace(eigenvalues=np.array([4.0, 3, 2, 1, 1, 1, 0, 0]))
    for good in ((1, 4), (3, 6), (1, 6)):
        assert _bounds(good, whole, (whole,) * GROUPS, 1.0) == good
    for bad in ((1, 3), (4, 6), (4, 7), (1, 7)):
        with pytest.raises(ValueError, match=f"at least 4 of the 6 directions with variance, got {bad[0]} to {bad[1]}"):
            _bounds(bad, whole, (whole,) * GROUPS, 1.0)


def test_four_directions_make_an_exponent():
    """With fewer than four directions no exponent is known; a spread of kurtosis below a half counts as a half."""
    index = np.arange(1.0, 61)
    whole = Spectrum(index**-1.5 * (1 + 0.1 * np.cos(index)), index**-2.0, 1.0, 500.0)
    left_out = [whole._replace(eigenvalues=whole.eigenvalues * (1 + 1e-2 * np.sin(index * k))) for k in range(16)]
    for bounds in ((1, 3), (4, 6)):
        both = _exponents(whole, left_out, bounds, 1.0, 0.95)
        assert all(np.isnan(each.value) and (each.range, each.scatter) == (bounds, 0.0) for each in both)
    for bounds, spread, used in (((1, 4), 0.8, 0.8), ((2, 5), 0.1, 0.5)):
        expected = capacity_exponent(whole, left_out, bins_within(*bounds), used, 0.95)
        assert _exponents(whole, left_out, bounds, spread, 0.95)[0] == expected


def power(value, low, high):
    return Exponent(value, (low, high), (1, 9), 0.0)


def test_the_predicted_exponent_over_the_intervals_of_both():
    """c = 1 − a/min{b, 2a + 1} falls with a and rises with b; with intervals down to 1 and up to inf."""

    def scaling(a, b):
        return max(0.0, 1 - a / min(b, 2 * a + 1))

    found = _predicted(power(1.5, 1.4, 1.6), power(2.1, 1.9, 2.3))
    assert (found.value, *found.interval) == pytest.approx((scaling(1.5, 2.1), scaling(1.6, 1.9), scaling(1.4, 2.3)))
    open_ends = _predicted(power(1.5, -np.inf, np.inf), power(2.1, 0.5, np.inf))
    assert open_ends.interval == pytest.approx((0.0, 2 / 3), abs=1e-6)


@pytest.mark.parametrize(("a", "b"), [(1.0, 2.0), (2.0, 1.0), (np.nan, 2.0), (2.0, np.nan), (0.5, 3.0)])
def test_exponents_that_are_not_above_one_predict_nothing(a, b):
    found = _predicted(power(a, 0.5, 3), power(b, 0.5, 3))
    assert np.isnan([found.value, *found.interval]).all()
