"""Exponents of synthetic data: intervals contain them as often as they say; controls are found out."""

import numpy as np
import pytest
from scipy import optimize, stats

import sgdtheory as st
from sgdtheory.data.cross_fit import Spectrum
from sgdtheory.data.exponents import (
    Jackknife,
    bins_within,
    capacity_exponent,
    jackknife,
    level_line,
    log_line,
    mean_log,
    misfit,
    resolved_directions,
    source_exponent,
)
from tests.data.synthetic import power_law_rows
from tests.marks import slow

FALSE_ALARM = 1e-4
DIM, CAPACITY, SOURCE = 64, 1.8, 2.2


def covered(rows, tails, replicas, **options):
    """Return how often the intervals of a and b contain them, and how often they are finite."""
    inside, finite = np.zeros(2), np.zeros(2)
    for seed in range(replicas):
        random = np.random.default_rng([seed, rows])
        x, y = power_law_rows(random, rows, DIM, CAPACITY, SOURCE, tails=tails)
        found = st.problem_from_data(x, y, **options)
        ends = np.array([found.capacity.interval, found.source.interval])
        inside += (ends[:, 0] <= [CAPACITY, SOURCE]) & (ends[:, 1] >= [CAPACITY, SOURCE])
        finite += np.isfinite(ends).all(1)
    return inside, finite


@pytest.fixture(autouse=True)
def _fewer_turns(monkeypatch):
    """999 of them still tell signal whose probability of noise is 1/1000."""
    monkeypatch.setattr("sgdtheory.data.cross_fit.TURNS", 999)


CASES = [(DIM // 2, None), (2 * DIM, None), (8 * DIM, None), (8 * DIM, 6), (100 * DIM, None), (100 * DIM, 6)]


@pytest.mark.parametrize(
    ("rows", "tails", "replicas"),
    [(8 * DIM, None, 24), (100 * DIM, 6, 24), *(slow(rows, tails, 100) for rows, tails in CASES)],
)
def test_intervals_contain_the_exponents(rows, tails, replicas):
    """95% intervals, tested as if they contained 93%: false alarms below 1e-4 for two exponents."""
    inside, finite = covered(rows, tails, replicas)
    fewest = stats.binom.ppf(FALSE_ALARM / 2, replicas, 0.93)
    assert (inside >= fewest).all()
    if rows >= 8 * DIM:
        assert (finite >= 0.98 * replicas).all()  # not by being infinite


@pytest.mark.slow
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


def test_four_bins_to_a_doubling():
    """And two at least, of one direction at least."""
    np.testing.assert_array_equal(bins_within(64, 1023).first, np.round(64 * 2 ** (np.arange(16) / 4)))
    np.testing.assert_array_equal(bins_within(30, 33).first, [30, 32])
    assert bins_within(64, 138).first.size == 4  # 4 log2(139/64) = 4.48
    np.testing.assert_array_equal(bins_within(1, 5).last, [1, 2, 3, 4, 5])


def test_means_of_bins():
    values = np.random.default_rng(3).normal(size=70)
    bins = bins_within(3, 65)
    expected = [values[low - 1 : high].mean() for low, high in zip(bins.first, bins.last, strict=True)]
    np.testing.assert_allclose(bins.mean(values), expected, rtol=1e-12)
    np.testing.assert_allclose(mean_log(bins, spectrum(np.exp(values))), expected, rtol=1e-12)


def spectrum(eigenvalues=None, signal=None, square=1.0, rows=1000.0):
    return Spectrum(np.ones(70) if eigenvalues is None else eigenvalues, signal, square, rows)


def left_out_with(errors):
    """Sixteen spectra whose log λ_i have these standard errors by the jackknife, √15 times their deviation."""
    sides = np.tile([1.0, -1.0], 8)[:, None]
    return [spectrum(np.exp(side * errors / np.sqrt(15))) for side in sides]


def test_directions_are_resolved_up_to_a_standard_error_of_three_tenths():
    """The first four count whatever their error; from 0.31 on, in a bin that begins there, no more."""
    for first in bins_within(1, 70).first[5:]:
        errors = np.where(np.arange(1, 71) < first, 0.29, 0.31)
        assert resolved_directions(spectrum(), left_out_with(errors), 70) == first - 1
    errors = np.where(np.arange(1, 71) < 26, 0.29, 0.31)
    errors[:4] = 0.5
    assert resolved_directions(spectrum(), left_out_with(errors), 70) == 25
    errors[4] = 0.31
    assert resolved_directions(spectrum(), left_out_with(errors), 70) == 4
    assert resolved_directions(spectrum(), left_out_with(np.full(70, 0.29)), 70) == 70


def test_a_line_with_weights_as_numpy_fits_it():
    random, bins = np.random.default_rng(5), bins_within(1, 60)
    variance, values = random.uniform(0.5, 2, bins.size.size), random.normal(size=bins.size.size)
    slope, level = np.polyfit(bins.log_index, values, 1, w=variance**-0.5)
    found = log_line(bins, values, variance)
    assert found.exponent == pytest.approx(-slope)
    np.testing.assert_allclose(found.fitted, level + slope * bins.log_index)
    each = [log_line(bins, values + one, variance).exponent - found.exponent for one in np.eye(values.size)]
    np.testing.assert_allclose(found.gain, each, atol=1e-12)


@pytest.mark.parametrize("square", [0.0, 0.04])
@pytest.mark.parametrize("unit", [1.0, 1e-5])
def test_a_law_through_values_solves_its_equations(square, unit):
    """The equations are those of the docstring of `level_line`; noise makes values negative; any unit will do."""
    random, bins = np.random.default_rng(6), bins_within(1, 60)
    variance = unit**2 * random.uniform(0.5, 2, bins.size.size) * 1e-3
    values = 2 * unit * np.exp(-1.5 * bins.log_index) + np.sqrt(variance) * random.normal(size=variance.size)
    assert (values < 0).any()
    found = level_line(bins, values, variance, square, 1.0)
    line = found.fitted
    np.testing.assert_allclose(line, line[0] * np.exp(-found.exponent * (bins.log_index - bins.log_index[0])))
    first = (values - line) / np.sqrt(variance + square * line * np.maximum(values, 0))
    terms = first * line / np.sqrt(variance + square * line**2)
    for weight in (np.ones_like(line), bins.log_index):
        assert abs((terms * weight).sum()) < 1e-6 * np.abs(terms * weight).sum()
    if not square:  # as least squares with weights
        (_, slope), _ = optimize.curve_fit(
            lambda x, level, slope: unit * np.exp(level - slope * x),
            bins.log_index,
            values,
            p0=(0.7, 1.5),
            sigma=np.sqrt(variance),
        )
        assert found.exponent == pytest.approx(slope, rel=1e-5)


def test_the_exponent_of_a_law_is_thirty_at_most():
    bins = bins_within(1, 20)
    values = np.eye(bins.size.size)[0]
    assert level_line(bins, values, np.full(values.size, 1e-6), 0.0, 2.0).exponent == pytest.approx(30)


def test_misfit_brings_the_weighted_squares_down_to_their_number_less_two():
    random = np.random.default_rng(7)
    variance, scale = random.uniform(0.5, 2, 12), random.uniform(1, 5, 12)
    residuals = 3 * scale * random.normal(size=12)
    square = misfit(residuals, variance, scale)
    assert (residuals**2 / (variance + square * scale**2)).sum() == pytest.approx(10)


def test_the_jackknife_of_means_and_variances():
    """Sixteen numbers have the standard error of the mean of textbooks, and the unbiased variance."""
    values = np.random.default_rng(8).normal(size=16)
    left_out = [np.delete(values, k) for k in range(16)]
    mean, variance = (jackknife(function, values, left_out) for function in (np.mean, np.var))
    assert mean == pytest.approx((values.mean(), 0.0, stats.sem(values), 16))
    assert variance.value - variance.bias == pytest.approx(values.var(ddof=1))
    assert Jackknife(0, 0, 0, 16).quantile(0.95) == pytest.approx(2.1448, abs=1e-4)  # t with 14 degrees of freedom


def resampled(random, rows, signal_noise=0.0, scatter=0.2, dim=60):
    """A spectrum that scatters about its law, and sixteen with a group left out, by their own small scatter."""
    index = np.arange(1.0, dim + 1)
    eigenvalues = 2 * index**-1.5 * np.exp(0.2 * random.normal(size=dim))
    signal = 3 * index**-1.8 * np.exp(scatter * random.normal(size=dim)) + signal_noise * random.normal(size=dim)
    tilts = [np.exp(0.02 * random.normal(size=dim) + 2e-3 * np.log(index)) for _ in range(16)]
    left_out = [spectrum(eigenvalues * tilt, signal * tilt, 8.0, rows * 15 / 16) for tilt in tilts]
    return spectrum(eigenvalues, signal, 8.0, rows), left_out


def reach_of(found, error, value):
    """Half an interval: Student's t with 14 degrees of freedom, a third of the bias, and what the misfit adds."""
    values = np.array(found)
    bias, spread = 15 * (values.mean() - value), 15 * values.var()
    return stats.t.ppf(0.975, 14) * np.sqrt(spread + (bias / 3) ** 2 + error**2), bias


@pytest.mark.parametrize("spread", [1.0, 4.0])
def test_the_capacity_exponent_step_by_step(spread):
    """Lines by NumPy; τ² by its equation; the bias taken off; amplitude through the weighted mean of the logs."""
    whole, left_out = resampled(np.random.default_rng(9), 2e4)
    bins = bins_within(2, 50)

    def logs(each):
        spans = zip(bins.first, bins.last, strict=True)
        return np.array([np.log(each.eigenvalues[low - 1 : high]).mean() for low, high in spans])

    variance, values = spread / (2e4 * bins.size), logs(whole)
    squares = (values - np.polyval(np.polyfit(bins.log_index, values, 1, w=variance**-0.5), bins.log_index)) ** 2
    square = optimize.brentq(lambda t: (squares / (variance + t)).sum() - (squares.size - 2), 0, 1, xtol=1e-14)
    weight = 1 / (variance + square)
    lines = [np.polyfit(bins.log_index, logs(each), 1, w=weight**0.5) for each in (whole, *left_out)]
    centred = bins.log_index - np.average(bins.log_index, weights=weight)
    error = np.sqrt(square * (weight**2 * centred**2).sum()) / (weight * centred**2).sum()
    reach, bias = reach_of([-line[0] for line in lines[1:]], error, -lines[0][0])
    found = capacity_exponent(whole, left_out, bins, spread, 0.95)
    value = -lines[0][0] - bias
    assert bias != pytest.approx(0, abs=1e-2)
    assert found.value == pytest.approx(value, rel=1e-9)
    assert found.interval == pytest.approx((value - reach, value + reach), rel=1e-9)
    assert found.range == (2, 50)
    assert found.scatter == pytest.approx(np.sqrt(square))
    assert found.amplitude == pytest.approx(np.exp(np.average(values + value * bins.log_index, weights=weight)))


def test_the_source_exponent_solves_its_equations():
    """Noise of `2 f V + V²` with V = E|y|²/N' in each direction; bins count for τ² where they exceed two deviations."""
    whole, left_out = resampled(np.random.default_rng(10), 2e3, signal_noise=4e-3, scatter=0.7)
    bins, noise = bins_within(2, 60), 8.0 / 2e3
    found = source_exponent(whole, left_out, bins, 2.0, 0.95)
    values, line = bins.mean(whole.signal), found.amplitude * np.exp(-found.value * bins.log_index)
    variance = (2 * line * noise + noise**2) / bins.size
    resolved = line > 2 * np.sqrt(variance)
    assert 3 < resolved.sum() < resolved.size - 2
    assert found.range == (2, bins.last[resolved][-1])
    square = found.scatter**2
    explained = (values - line)[resolved] ** 2 / (variance + square * line**2)[resolved]
    assert explained.sum() == pytest.approx(resolved.sum() - 2, rel=1e-3)
    fitted = level_line(bins, values, variance, square, 2.0)
    assert found.value == pytest.approx(fitted.exponent, rel=1e-4)
    others = [level_line(bins, bins.mean(each.signal), variance, square, 2.0).exponent for each in left_out]
    reach, _ = reach_of(others, found.scatter * np.sqrt(((fitted.gain * fitted.fitted) ** 2).sum()), fitted.exponent)
    assert found.interval == pytest.approx((found.value - reach, found.value + reach), rel=1e-3)


@pytest.mark.parametrize(("noise", "resolved"), [(0.5, 0), (0.2, 1), (0.06, 2), (0.03, 3)])
def test_two_bins_that_noise_does_not_drown_make_a_source_exponent(noise, resolved):
    """Values s_i = 3 i^−2 count if `s² > 4 (2 s V + V²)`; three of them also show their distance from the law."""
    signal = 3 * np.arange(1.0, 61) ** -2
    signal[1] *= 1 if resolved < 3 else 1.8
    whole = spectrum(np.ones(60), signal, square=8.0, rows=8 / noise)
    found = source_exponent(whole, [whole] * 16, bins_within(1, 60), 2.0, 0.95)
    if resolved < 2:
        assert np.isnan(found.value)
        assert (found.interval, found.range, found.scatter) == ((-np.inf, np.inf), (1, 1), 0.0)
    else:
        assert found.value == pytest.approx(2, abs=0.5)
        assert found.range == (1, resolved)
        assert (found.scatter > 0) == (resolved == 3)
        assert np.isfinite(found.interval).all()
