"""Exponents of synthetic data: intervals contain them as often as they say; controls are found out."""

import numpy as np
import pytest
from scipy import stats

import sgdtheory as st
from sgdtheory.data.exponents import bins_within, jackknife, level_line, log_line, misfit
from tests.data.synthetic import power_law_rows
from tests.marks import slow

FALSE_ALARM = 1e-4
DIM, CAPACITY, SOURCE = 64, 1.8, 2.2


def covered(rows, tails, replicas, **options):
    """How often the intervals of a and b contain them, and how often they are finite."""
    inside, finite = np.zeros(2), np.zeros(2)
    for seed in range(replicas):
        random = np.random.default_rng([seed, rows])
        x, y = power_law_rows(random, rows, DIM, CAPACITY, SOURCE, tails=tails)
        found = st.problem_from_data(x, y, **options)
        ends = np.array([found.capacity.interval, found.source.interval])
        inside += (ends[:, 0] <= [CAPACITY, SOURCE]) & (ends[:, 1] >= [CAPACITY, SOURCE])
        finite += np.isfinite(ends).all(1)
    return inside, finite


CASES = [(DIM // 2, None), (2 * DIM, None), (8 * DIM, None), (8 * DIM, 6), (100 * DIM, None), (100 * DIM, 6)]


@pytest.mark.parametrize(
    ("rows", "tails", "replicas"),
    [(8 * DIM, None, 40), (100 * DIM, 6, 40), *(slow(rows, tails, 300) for rows, tails in CASES)],
)
def test_intervals_contain_the_exponents(rows, tails, replicas):
    """95% intervals, tested as if they contained 93%: false alarms below 1e-4 for two exponents."""
    inside, finite = covered(rows, tails, replicas)
    fewest = stats.binom.ppf(FALSE_ALARM / 2, replicas, 0.93)
    assert (inside >= fewest).all()
    if rows >= 8 * DIM:
        assert (finite >= 0.98 * replicas).all()  # not by being infinite


@pytest.mark.parametrize(("rows", "noise", "which"), [(2 * DIM, 0.5, 0), (16 * DIM, 1.5, 1)])
def test_lines_through_the_sample_as_it_is_fail(rows, noise, which):
    """Control: a line through logs of what all rows show, over all directions, without cross-fit and jackknife.

    Eigenvalues of a sample are spread, and noise adds to the signal of every direction: wrong by far more than their
    scatter over replicas, and by more than four times what the estimates are wrong by.
    """
    bins, naive, ours = bins_within(1, DIM), [], []
    for seed in range(16):
        x, y = power_law_rows(np.random.default_rng([seed, 1]), rows, DIM, 1.2, SOURCE, noise)
        sample, found = (st.problem_from_data(x, y, cross_fit=each) for each in (False, True))
        values = bins.mean(np.log(sample.spectrum[which]))
        naive.append(log_line(bins, values, np.ones(bins.size.size)).exponent)
        ours.append((found.capacity, found.source)[which].value)
    naive, ours = (np.array(each) - (1.2, SOURCE)[which] for each in (naive, ours))
    assert abs(naive.mean()) > 6 * naive.std(ddof=1) / 4
    assert abs(naive.mean()) > 4 * abs(ours.mean())


def test_signal_without_its_division_by_the_eigenvalue_fails():
    """Control: `(v_iᵀC)² = λ_i s_i` falls as i^−(a + b)."""
    random, missed = np.random.default_rng(0), 0
    for _ in range(20):
        x, y = power_law_rows(random, 20 * DIM, DIM, CAPACITY, SOURCE)
        found = st.problem_from_data(x, y)
        bins = bins_within(1, 8)
        values = bins.mean(found.spectrum.signal * found.spectrum.eigenvalues)
        exponent = level_line(bins, values, np.maximum(values, 1e-9) ** 2, 0.0, 2.0).exponent
        missed += not found.source.interval[0] <= exponent <= found.source.interval[1]
    assert missed >= 19


def test_a_line_in_logs_and_in_levels():
    bins = bins_within(1, 100)
    law = 3.0 * np.arange(1.0, 101) ** -1.7
    assert log_line(bins, bins.mean(np.log(law)), np.ones(bins.size.size)).exponent == pytest.approx(1.7, abs=1e-12)
    values = 3.0 * np.exp(-1.7 * bins.log_index)
    fitted = level_line(bins, values, values**2, 0.0, 1.0)
    assert fitted.exponent == pytest.approx(1.7, abs=1e-9)
    np.testing.assert_allclose(fitted.fitted, values, rtol=1e-8)
    moved = level_line(bins, values + 1e-6 * np.eye(values.size)[2], values**2, 0.0, 1.0).exponent
    assert (moved - fitted.exponent) / 1e-6 == pytest.approx(fitted.gain[2], rel=1e-3)


def test_bins_cover_every_direction_once():
    for first, last in ((1, 4), (1, 100), (7, 65), (30, 33)):
        bins = bins_within(first, last)
        assert (bins.first[0], bins.last[-1]) == (first, last)
        np.testing.assert_array_equal(bins.first[1:], bins.last[:-1] + 1)
        expected = [np.log(np.arange(low, high + 1)).mean() for low, high in zip(bins.first, bins.last, strict=True)]
        np.testing.assert_allclose(bins.log_index, expected, atol=1e-12)


def test_misfit_is_what_sampling_does_not_explain():
    random = np.random.default_rng(1)
    variance = np.full(4000, 0.04)
    residuals = random.normal(size=4000) * np.sqrt(0.04 + 0.09)
    assert misfit(residuals, variance, np.ones(4000)) == pytest.approx(0.09, abs=0.015)
    assert misfit(0.1 * residuals, variance, np.ones(4000)) == 0


def test_the_jackknife_of_a_mean_square():
    """Its bias σ²/n is taken off, its standard error is that of the delta method."""
    random = np.random.default_rng(2)
    values = 3 + random.standard_normal((16, 500))
    left_out = [np.delete(values, group, axis=0) for group in range(16)]
    found = jackknife(lambda part: float(part.mean() ** 2), values, left_out)
    assert found.error == pytest.approx(2 * 3 / np.sqrt(8000), rel=0.5)
    assert abs(found.bias) < 10 / 8000
