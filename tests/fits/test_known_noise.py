"""Laws of measurements with standard errors: weights, the χ² test, the misfit, and intervals that admit it."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import sgdtheory as st
from sgdtheory.fits import misfit_variance
from sgdtheory.fits.abstract_law import misfit_and_chi_square

BATCHES = 2.0 ** np.arange(5, 13)
ERRORS = np.array([0.02, 0.005, 0.01, 0.01, 0.02, 0.005, 0.008, 0.015])
A, B = 1600.0, 1e6
FALSE_ALARM = 1e-4


def measured(seed, misfit=0.0):
    """Steps with standard errors, and with scatter beyond them."""
    rng = np.random.default_rng(seed)
    noise = ERRORS * rng.standard_normal(8) + misfit * rng.standard_normal(8)
    return (A + B / BATCHES) * np.exp(noise)


def law_of(seed, misfit):
    return st.fit_steps_law(BATCHES, measured(seed, misfit), standard_errors=ERRORS)


# ------------------------------------------------------------------ the fit


@pytest.mark.parametrize("freedom", [1, 2, 5])
@pytest.mark.parametrize("unit", [1.0, 1e-6])
@pytest.mark.parametrize("chi_square", [1.01, 1.5, 30.0])
def test_the_misfit_of_equal_errors_in_closed_form(freedom, unit, chi_square):
    """`RSS/(s² + τ²) = m − p`, however small residuals and errors are; χ² is given as a multiple of m − p."""
    residuals = unit * np.array([0.3, -0.1, -0.3, 0.1, 0.2, -0.2])
    total = (residuals**2).sum()
    error = np.sqrt(total / (freedom * chi_square))
    found = misfit_variance(lambda weights: weights @ residuals**2, np.full(6, error), freedom)
    assert found == pytest.approx(total / freedom - error**2, rel=1e-6, abs=0)


def test_nothing_is_left_for_a_misfit_where_no_degree_of_freedom_is():
    assert misfit_variance(lambda weights: 1e-20 * weights.sum(), np.full(3, 0.01), 0) == 0


# ------------------------------------------------------------------ probabilities


@pytest.mark.slow
def test_p_values_are_uniform_and_find_a_misfit():
    """Kolmogorov and Smirnov at a false-alarm rate of 10⁻⁴; with a misfit of 3% p-values crowd at 0."""
    right, wrong = ([law_of(seed, misfit).lack_of_fit.p_value for seed in range(100)] for misfit in (0.0, 0.03))
    assert stats.kstest(right, "uniform").pvalue > FALSE_ALARM
    assert stats.kstest(wrong, "uniform").pvalue < FALSE_ALARM


@pytest.mark.slow
@pytest.mark.parametrize(("misfit", "exact"), [(0.0, False), (0.01, False), (0.06, True)])
def test_coverage(misfit, exact):
    """500 replicas. With much misfit the level is met, with little or none it is exceeded; the band of a binomial is
    left by a right interval in at most one of 10⁴ seeds. Intervals that take standard errors for everything must fall
    below it where there is a misfit.
    """
    replicas, level = 500, 0.9
    fewest, most = stats.binom.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], replicas, level)
    covered = ignoring = 0
    for seed in range(replicas):
        law = law_of(7000 + seed, misfit)
        low, high = law.interval("b/a", level)
        covered += low <= B / A <= high
        low, high = replace(law, misfit=0.0).interval("b/a", level)
        ignoring += low <= B / A <= high
    assert fewest <= covered
    assert covered <= most or not exact
    assert ignoring < fewest or misfit < 0.05


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("errors", "message"),
    [
        (0.0, "standard_errors must be positive and finite, got 0.0"),
        ([0.1, -0.1, 0.1], "standard_errors must be positive and finite, got -0.1"),
        ([0.1, 0.1], r"standard_errors must be one number or as many as steps, got shapes \(2,\) and \(3,\)"),
        ("small", "standard_errors must be a number or an array of numbers"),
    ],
)
def test_bad_standard_errors(errors, message):
    with pytest.raises(ValueError, match=message):
        st.fit_steps_law([1, 2, 4], [5, 4, 3], standard_errors=errors)


def test_lack_of_fit_needs_standard_errors():
    with pytest.raises(ValueError, match="lack_of_fit needs standard errors: give fit_steps_law"):
        _ = st.fit_steps_law([1, 2, 4], [5, 4, 3]).lack_of_fit


def test_the_misfit_is_found_beside_the_chi_square_without_it():
    """Residuals ±0.3 and ±0.4 of three degrees of freedom: τ² = 0.5/3 − 0.04, and χ² = 0.5/0.04."""
    squares = np.array([0.09, 0.09, 0.16, 0.16])
    found = misfit_and_chi_square(lambda weights: weights @ squares, np.full(4, 0.2), 3)
    assert found == pytest.approx((0.5 / 3 - 0.04, 12.5), rel=1e-9)
    without = misfit_and_chi_square(lambda weights: weights @ squares, None, 3)
    assert without == pytest.approx((0.0, np.nan), nan_ok=True)
