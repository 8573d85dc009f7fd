import mpmath
import numpy as np
import pytest

from sgdtheory.problems.power_sums import power_sum


@pytest.mark.parametrize("exponent", [-7.3, -1.0, -0.5, 0.0, 0.5, 1.0, 1.0 + 1e-9, 2.0, 9.5])
@pytest.mark.parametrize(("first", "last"), [(1, 1), (1, 20), (3, 1000), (200, 1500)])
def test_finite_sum_equals_term_by_term(exponent, first, last):
    exact = mpmath.fsum(mpmath.mpf(i) ** -mpmath.mpf(exponent) for i in range(first, last + 1))
    assert power_sum(exponent, first, last) == pytest.approx(float(exact), rel=1e-14)


@pytest.mark.parametrize("exponent", [1 + 1e-6, 1.05, 2.0, 8.0, 30.0])
@pytest.mark.parametrize("first", [1, 7, 128])
def test_infinite_sum_is_hurwitz_zeta(exponent, first):
    exact = mpmath.zeta(mpmath.mpf(exponent), first)
    assert power_sum(exponent, first, np.inf) == pytest.approx(float(exact), rel=1e-13)


def test_empty_sum_is_zero():
    assert power_sum(2.0, 5, 4) == 0.0
    assert power_sum(2.0, 5, 1) == 0.0


def test_unit_rescales_without_overflow():
    exact = mpmath.mpf(10) ** 60 * mpmath.zeta(60, 10)
    assert power_sum(60.0, 10, np.inf, unit=10.0) == pytest.approx(float(exact), rel=1e-13)
    assert power_sum(300.0, 1e9, np.inf, unit=1e9) == pytest.approx(1e9 / 299 + 0.5, rel=1e-12)


@pytest.mark.parametrize("exponent", [-2.5, 0.0, 1.0, 4.0])
@pytest.mark.parametrize("unit", [0.1, 7.0])
def test_a_unit_rescales_finite_sums(exponent, unit):
    exact = mpmath.fsum((mpmath.mpf(i) / mpmath.mpf(unit)) ** -mpmath.mpf(exponent) for i in range(3, 91))
    assert power_sum(exponent, 3, 90, unit=unit) == pytest.approx(float(exact), rel=1e-14)


@pytest.mark.parametrize(("exponent", "last"), [(-60.0, 202), (-200.0, 622)])
def test_the_last_term_of_the_series_counts_if_summands_grow(exponent, last):
    """The formula sums the few largest summands. Without its fifth term the result is off by 5e-14 or more."""
    unit = last - 20
    exact = mpmath.fsum((mpmath.mpf(i) / unit) ** -mpmath.mpf(exponent) for i in range(1, last + 1))
    assert power_sum(exponent, 1, last, unit=unit) == pytest.approx(float(exact), rel=3e-14)


def test_broadcasts():
    sums = power_sum(np.array([[1.5], [2.5]]), 1, np.array([3, 10, 100]))
    assert sums.shape == (2, 3)
    assert sums[1, 2] == pytest.approx(sum(i**-2.5 for i in range(1, 101)), rel=1e-14)
