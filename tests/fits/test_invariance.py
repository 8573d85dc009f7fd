"""Does B* move with size: power, size and coverage by simulation, and the three methods against exact laws."""

import functools
from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize, stats

from sgdtheory.fits import invariance
from sgdtheory.fits.conventions import Convention
from sgdtheory.fits.invariance import (
    METHODS,
    Method,
    _verdict,
    common_reference,
    interpolated_critical_batch_size,
    size_dependence,
)
from sgdtheory.fits.measurements import StepsMeasurement
from sgdtheory.fits.steps_law import fit_steps_law
from tests.simulated_steps import (
    BATCHES,
    FALSE_ALARM,
    NOISE,
    OVERHEAD,
    REFERENCE,
    WIDTHS,
    at_least,
    at_most,
    measured,
    quick_fit,
    ratios,
    sensitivity,
)

CONVENTION = Convention(REFERENCE)
SAMPLES, FEW, SOME = 400, 300, 150

# ------------------------------------------------------------------ simulation


def test_the_quick_fit_is_the_fit():
    for seed in range(8):
        for each in measured(0.3, np.random.default_rng(seed)):
            quick, slow = quick_fit(each.batch_sizes, each.steps), fit_steps_law(each.batch_sizes, each.steps)
            np.testing.assert_allclose((quick.a, quick.b), (slow.a, slow.b), rtol=1e-7)


def dependence(exponent, number, method: Method = "law", noise=NOISE):
    """What `number` independent sweeps find."""
    rngs = np.random.default_rng(7).spawn(number)
    return [size_dependence(measured(exponent, rng, noise=noise), convention=CONVENTION, method=method) for rng in rngs]


@functools.cache
def simulated(exponent, number=SAMPLES, method: Method = "law", noise=NOISE):
    """`dependence` with the quick fit."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(invariance, "fit_steps_law", quick_fit)
        return dependence(exponent, number, method, noise)


def check_power_and_size(same, moved):
    """The slope's standard error is some 0.036, so that 0 ± 1.75·0.036 lies inside of ±0.2 nearly always."""
    same, moved = [each.verdict for each in same], [each.verdict for each in moved]
    assert same.count("holds") >= at_least(0.97, len(same))
    assert same.count("fails") <= at_most(0.05, len(same))
    assert moved.count("fails") >= at_least(0.97, len(moved))
    assert moved.count("holds") == 0


@pytest.mark.slow
def test_power_and_size():
    check_power_and_size(simulated(0.0), simulated(0.3))


@pytest.mark.slow
def test_power_and_size_of_the_fit_itself():
    check_power_and_size(dependence(0.0, FEW), dependence(0.3, FEW))


def test_an_exponent_at_the_margin_rarely_holds():
    found = [each.verdict for each in simulated(0.2, SOME)]
    assert found.count("holds") <= at_most(0.05, SOME)


@pytest.mark.slow
@pytest.mark.parametrize("exponent", [0.0, 0.3])
def test_coverage_of_the_slope(exponent):
    """At least the level: the scatter around the line only widens. Half of the interval would not do."""
    found = simulated(exponent)
    half = np.array([each.interval[1] - each.slope for each in found])
    away = np.array([abs(each.slope - exponent) for each in found])
    assert (away <= half).sum() >= at_least(0.95, SAMPLES)
    assert (away <= half / 2).sum() < at_least(0.95, SAMPLES)


def test_the_scatter_is_estimated():
    """Σ residuals²/σ² is χ² with Σ(m − 2) degrees of freedom, but for the laws' curvature."""
    squares = [each.scatter**2 for each in simulated(0.0)]
    freedom = len(WIDTHS) * (BATCHES.size - 2)
    assert simulated(0.0)[0].freedom == freedom
    error = NOISE**2 * np.sqrt(2 / freedom / SAMPLES)
    assert abs(np.mean(squares) - NOISE**2) < stats.norm.isf(FALSE_ALARM / 2) * error


@pytest.mark.parametrize("method", METHODS)
def test_standard_errors_are_the_scatter_of_estimates(method):
    """To first order in the noise; 2% for the lines' bends."""
    found = simulated(0.0, SOME, method, 0.003)
    claimed = np.sqrt(np.mean([each.standard_error**2 for each in found]))
    spread = np.std([each.slope for each in found], ddof=1)
    assert abs(np.log(spread / claimed)) < stats.norm.isf(FALSE_ALARM / 2) / np.sqrt(2 * (SOME - 1)) + 0.02


def test_scatter_beyond_the_laws_widens_the_interval():
    groups = measured(0.0, np.random.default_rng(1), noise=0.001)
    shifted = [
        StepsMeasurement(each.group, each.size, each.batch_sizes, each.steps + 300 * extra / each.batch_sizes)
        for each, extra in zip(groups, (0, 100, 0, 100, 0), strict=True)
    ]
    before, after = (size_dependence(each, convention=CONVENTION) for each in (groups, shifted))
    assert before.birge < 3
    assert after.birge > 10
    assert np.diff(after.interval) > 10 * np.diff(before.interval)


# ------------------------------------------------------------------ exact laws


def dense_search(batches, steps, reference, overhead):
    """The last of a million batch sizes at which B Y(B), on lines in B, is at most 1 + ω times the reference's."""
    batch = np.linspace(batches[0], batches[-1], 1_000_001)
    data = np.interp(batch, batches, batches * steps)
    limit = (1 + overhead) * np.interp(reference, batch, data)
    return batch[np.flatnonzero(data <= limit)[-1]]


@pytest.mark.parametrize("reference", [16, 40, 55.5])
@pytest.mark.parametrize("overhead", [0.1, 0.5])
def test_interpolation_against_a_dense_search(reference, overhead):
    for seed in range(5):
        steps = 300 * (1 + 150 / BATCHES) * np.exp(0.1 * np.random.default_rng(seed).standard_normal(5))
        found = interpolated_critical_batch_size(BATCHES, steps, Convention(reference, overhead))
        np.testing.assert_allclose(found, dense_search(BATCHES, steps, reference, overhead), rtol=3e-5)


def test_interpolation_takes_the_last_crossing():
    """Data 1, 2, 1, 2, 4 of the reference's: 1.2 times them is crossed three times, last between 4 and 8."""
    batches = np.array([1.0, 2, 4, 8, 16])
    steps = np.array([1.0, 2, 1, 2, 4]) / batches
    np.testing.assert_allclose(interpolated_critical_batch_size(batches, steps, Convention(1.0, 0.2)), 4.8, rtol=1e-12)


def test_data_that_touch_the_limit_are_within_it():
    """Twice the reference's at the batch size 4, after four times at 2."""
    batches = np.array([1.0, 2, 4, 8])
    assert interpolated_critical_batch_size(batches, np.array([1, 4, 2, 4]) / batches, Convention(1.0, 1.0)) == 4


@pytest.mark.parametrize("critical", [20, 39.9, 40, 60, 99, 250, 600])
@pytest.mark.parametrize("reference", [16, 30, 300])
def test_interpolation_is_exact_for_the_law_on_any_grid(critical, reference):
    if critical < (1 + OVERHEAD) * reference:
        return
    ratio = (critical - (1 + OVERHEAD) * reference) / OVERHEAD
    found = interpolated_critical_batch_size(BATCHES, 300 * (1 + ratio / BATCHES), Convention(reference, OVERHEAD))
    np.testing.assert_allclose(found, critical, rtol=1e-12)


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_interpolation_knows_no_unit_of_steps(unit):
    steps = 300 * (1 + 150 / BATCHES)
    found = interpolated_critical_batch_size(BATCHES, unit * steps, Convention(16, 0.2))
    np.testing.assert_allclose(found, interpolated_critical_batch_size(BATCHES, steps, Convention(16, 0.2)), rtol=1e-12)


def test_interpolation_does_not_extrapolate():
    steps = 300 * (1 + 1e5 / BATCHES)
    assert np.isnan(interpolated_critical_batch_size(BATCHES, steps, Convention(16, 0.2)))
    assert np.isnan(interpolated_critical_batch_size(BATCHES, 300 * (1 + 150 / BATCHES), Convention(8, 0.2)))
    assert np.isnan(interpolated_critical_batch_size(BATCHES, 300 * (1 + 150 / BATCHES), Convention(1000, 0.2)))


@pytest.mark.parametrize("exponent", [0.0, 0.3])
def test_all_methods_find_the_exact_critical_batch_size(exponent):
    groups = measured(exponent)
    roots = [
        optimize.root_scalar(lambda B, r=ratio: B + r - (1 + OVERHEAD) * (REFERENCE + r), bracket=(1, 1e5))
        for ratio in ratios(exponent)
    ]
    exact = [each.root for each in roots]
    law, lines, balance = (size_dependence(groups, convention=CONVENTION, method=method) for method in METHODS)
    np.testing.assert_allclose(law.critical, exact, rtol=1e-5)
    np.testing.assert_allclose(lines.critical, exact, rtol=1e-12)
    np.testing.assert_allclose(balance.critical, ratios(exponent), rtol=1e-4)
    np.testing.assert_allclose([law.slope, lines.slope], exponent, atol=0.01)
    balanced = np.polyfit(np.log(WIDTHS), np.log(ratios(exponent)), 1)[0]
    assert abs(balance.slope - balanced) < 0.05  # weighted, where the law of the ratio is no power
    verdict = "holds" if exponent == 0 else "fails"
    assert law.verdict == lines.verdict == verdict


@pytest.mark.parametrize("birge", [0.2, 3.0])
def test_intervals_are_those_of_students_t(birge):
    """By the steps' scatter with Σ(m − 2) = 15 degrees of freedom, or by that around the line with 5 − 2."""
    found = size_dependence(measured(0.1, np.random.default_rng(2)), convention=CONVENTION, level=0.9)
    found = replace(found, birge=birge)
    assert found.freedom == 15
    quantile = stats.t.ppf(0.95, 15) if birge < 1 else birge * stats.t.ppf(0.95, 3)
    low, high = found.critical_intervals
    np.testing.assert_allclose(np.log(high / found.critical), quantile * found.standard_errors)
    np.testing.assert_allclose(np.log(low / found.critical), -quantile * found.standard_errors)
    np.testing.assert_allclose(found.interval[1] - found.slope, quantile * found.standard_error)
    np.testing.assert_allclose(found.interval[0] - found.slope, -quantile * found.standard_error)
    inner = stats.t.ppf(0.9, 15) if birge < 1 else birge * stats.t.ppf(0.9, 3)  # two one-sided tests at 1 − level each
    np.testing.assert_allclose(found.equivalence_interval[1] - found.slope, inner * found.standard_error)
    np.testing.assert_allclose(found.equivalence_interval[0] - found.slope, -inner * found.standard_error)


@pytest.mark.parametrize(("method", "reference"), [("law", REFERENCE), ("balance", 1e-12)])
def test_standard_errors_by_hand(method, reference):
    """The scatter times the norm of the derivatives; b/a is B* over ω where the reference is nothing."""
    groups = measured(0.2, np.random.default_rng(4), noise=1e-4)
    found = size_dependence(groups, convention=CONVENTION, method=method)
    laws = [fit_steps_law(each.batch_sizes, each.steps) for each in groups]
    scatter = np.sqrt(sum((law.residuals**2).sum() for law in laws) / 15)
    np.testing.assert_allclose(found.scatter, scatter, rtol=1e-9)
    expected = [scatter * sensitivity(law, reference, OVERHEAD) for law in laws]
    np.testing.assert_allclose(found.standard_errors, expected, rtol=2e-3)


def test_the_overhead_is_20_percent():
    groups = measured(0.1, np.random.default_rng(4))
    for method in METHODS:
        given, default = (
            size_dependence(groups, method=method, **each) for each in ({"convention": Convention(None, 0.2)}, {})
        )
        np.testing.assert_array_equal(given.critical, default.critical)
    (first, *_) = groups
    default = interpolated_critical_batch_size(first.batch_sizes, first.steps)  # whose smallest batch size is REFERENCE
    assert default == interpolated_critical_batch_size(first.batch_sizes, first.steps, Convention(REFERENCE, 0.2))


def test_the_margin_is_a_fifth():
    groups = only(measured(0.1, np.random.default_rng(4)), 32, 512)
    assert size_dependence(groups, convention=CONVENTION).margin == 0.2
    assert size_dependence(groups, convention=CONVENTION, margin=0.3).margin == 0.3


@pytest.mark.parametrize(
    ("inner", "outer", "verdict"),
    [
        ((-0.1, 0.19), (0.01, 0.1), "holds"),  # also where 0 is rejected
        ((-0.2, 0.1), (-0.3, 0.2), "inconclusive"),  # ends at the margin are not inside
        ((-0.1, 0.2), (-0.2, 0.3), "inconclusive"),
        ((0.1, 0.3), (0.01, 0.4), "fails"),
        ((0.1, 0.3), (0.0, 0.4), "inconclusive"),  # 0 is in an interval that ends there
        ((-0.3, -0.1), (-0.4, 0.0), "inconclusive"),
        ((-0.3, -0.1), (-0.4, -0.01), "fails"),
    ],
)
def test_verdict_of_two_intervals(inner, outer, verdict):
    assert _verdict(inner, outer, 0.2) == verdict


def test_the_line_is_that_of_weighted_least_squares():
    found = size_dependence(measured(0.1, np.random.default_rng(3)), convention=CONVENTION)
    weights, design = found.standard_errors**-1.0, np.stack([np.ones(5), np.log(WIDTHS)], axis=1)
    (_, slope), (squares,), *_ = np.linalg.lstsq(weights[:, None] * design, weights * np.log(found.critical))
    error = np.linalg.inv(design.T @ (weights[:, None] ** 2 * design))[1, 1] ** 0.5
    np.testing.assert_allclose([found.slope, found.standard_error], [slope, error], rtol=1e-9)
    np.testing.assert_allclose(found.birge, np.sqrt(squares / 3), rtol=1e-9)


def test_the_unit_of_sizes_does_not_matter():
    groups = measured(0.1, np.random.default_rng(3))
    small = [replace(each, size=each.size / 1e6) for each in groups]
    found = [size_dependence(each, convention=CONVENTION) for each in (groups, small)]
    np.testing.assert_allclose(found[1].interval, found[0].interval, rtol=1e-9)


def test_two_sizes_have_no_scatter_around_a_line():
    found = size_dependence(only(measured(0.1, np.random.default_rng(2)), 32, 512), convention=CONVENTION)
    assert np.isnan(found.birge)
    assert found.freedom == 6
    assert found.interval == found.equivalence_interval == (-np.inf, np.inf)
    assert "two sizes cannot tell scatter" in found.remark
    low, high = found.critical_intervals  # of each B*, by the scatter of its steps
    half = stats.t.ppf(0.975, 6) * found.standard_errors
    np.testing.assert_allclose(np.log([found.critical / low, high / found.critical]), [half, half], rtol=1e-9)


def test_two_sizes_are_inconclusive_even_without_scatter():
    found = replace(size_dependence(only(measured(0.0), 32, 512), convention=CONVENTION), standard_error=0.0)
    assert found.verdict == "inconclusive"
    assert found.interval == (-np.inf, np.inf)
    assert size_dependence(measured(0.0), convention=CONVENTION).remark == ""


def test_three_sizes_have_one_degree_of_freedom():
    found = size_dependence(only(measured(0.1, np.random.default_rng(2)), 32, 128, 512), convention=CONVENTION)
    assert found.birge > 0
    np.testing.assert_allclose(replace(found, birge=2.0).reach(0.95), 2 * 12.7062, rtol=1e-5)


def test_the_reference_is_the_smallest_common_batch_size():
    groups = measured(0.0)
    groups[2] = StepsMeasurement("width 128", 128, BATCHES[1:], groups[2].steps[1:])
    assert common_reference(groups) == 40
    given, default = size_dependence(groups, convention=Convention(40)), size_dependence(groups)
    np.testing.assert_array_equal(given.critical, default.critical)


# ------------------------------------------------------------------ bad input


def only(groups, *sizes):
    return [each for each in groups if each.size in sizes]


def cut(groups, number):
    return [StepsMeasurement(each.group, each.size, each.batch_sizes[:number], each.steps[:number]) for each in groups]


def resized(groups, size):
    return [StepsMeasurement(each.group, size, each.batch_sizes, each.steps) for each in groups]


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (lambda groups: only(groups, 64), {}, r"at least two different positive sizes, got \[64.0\]"),
        (lambda groups: resized(groups, 8), {}, "at least two different positive sizes"),
        (lambda groups: [*groups, *resized(groups, np.nan)], {}, "at least two different positive sizes"),
        (lambda groups: [*groups, *resized(groups, np.inf)], {}, "at least two different positive sizes"),
        (lambda groups: [*groups, *resized(groups, -1)], {}, "at least two different positive sizes"),
        (lambda groups: [*groups, *resized(groups, 0)], {}, "at least two different positive sizes"),
        (lambda groups: [], {}, r"at least two different positive sizes, got \[\]"),
        (lambda groups: cut(only(groups, 32, 64), 2), {}, "at least 3 different batch sizes"),
        (lambda groups: cut(groups[:1], 3) + cut(groups[1:2], 3)[:0], {}, "at least two different positive sizes"),
        (lambda groups: groups, {"level": 0.5}, "level must be between 0.5 and 1, got 0.5"),
        (lambda groups: groups, {"level": 1}, "level must be between 0.5 and 1, got 1"),
        (lambda groups: groups, {"margin": 0}, "margin must be positive"),
        (lambda groups: groups, {"overhead": -1}, "overhead must be positive"),
        (lambda groups: groups, {"reference": 0}, "reference must be positive"),
        (lambda groups: groups, {"method": "line"}, "method must be one of law, interpolation, balance, got line"),
        (
            lambda groups: groups,
            {"method": "interpolation", "reference": 8},
            "outside of the batch sizes measured for width 32",
        ),
        (
            lambda groups: cut(groups, 3),
            {"method": "interpolation", "overhead": 5},
            "outside of the batch sizes measured for width 32",
        ),
    ],
)
def test_bad_input(change, options, message):
    with pytest.raises(ValueError, match=message):
        fitted(change(measured(0.0)), **options)


def fitted(groups, reference=REFERENCE, overhead=OVERHEAD, **options):
    return size_dependence(groups, convention=Convention(reference, overhead), **options)


def test_no_common_reference():
    groups = only(measured(0.0), 32, 64)
    groups[1] = StepsMeasurement("width 64", 64, BATCHES + 1, groups[1].steps)
    with pytest.raises(ValueError, match="reference must be given: the groups have no batch size in common"):
        size_dependence(groups)


def test_two_groups_of_three_batch_sizes_are_the_least():
    """One degree of freedom each; a single one says nothing of the scatter."""
    groups = cut(only(measured(0.0, np.random.default_rng(0)), 32, 64), 3)
    assert size_dependence(groups, convention=CONVENTION).freedom == 2


@pytest.mark.parametrize(
    ("method", "steps"),
    [("law", 1e6 / BATCHES), ("balance", 1e6 / BATCHES), ("balance", np.full(5, 300.0))],
    ids=["linear", "balance of linear", "balance of flat"],
)
def test_steps_without_a_bend_have_no_critical_batch_size(method, steps):
    groups = measured(0.0)
    groups[3] = StepsMeasurement("width 256", 256, BATCHES, steps)
    with pytest.raises(ValueError, match="outside of the batch sizes measured for width 256: measure or tune more"):
        size_dependence(groups, convention=CONVENTION, method=method)
