"""Does B* move with size: power and size by simulation, and the three methods against exact laws."""

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
    interpolated_critical_batch_size,
    size_dependence,
)
from sgdtheory.fits.steps_fit import fit_steps_law
from sgdtheory.fits.steps_measurement import StepsMeasurement
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
SOME = 150


def only(groups, *sizes):
    return [each for each in groups if each.size in sizes]


def cut(groups, number):
    return [StepsMeasurement(each.group, each.size, each.batch_sizes[:number], each.steps[:number]) for each in groups]


# ------------------------------------------------------------------ simulation


def test_the_quick_fit_is_the_fit():
    for seed in range(8):
        for each in measured(0.3, np.random.default_rng(seed)):
            quick, slow = quick_fit(each.batch_sizes, each.steps), fit_steps_law(each.batch_sizes, each.steps)
            np.testing.assert_allclose((quick.a, quick.b), (slow.a, slow.b), rtol=1e-7)


@functools.cache
def simulated(exponent, number=SOME, method: Method = "law", noise=NOISE):
    """Return the results of `number` independent sweeps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(invariance, "fit_steps_law", quick_fit)
        rngs = np.random.default_rng(7).spawn(number)
        groups = (measured(exponent, rng, noise=noise) for rng in rngs)
        return [size_dependence(each, convention=CONVENTION, method=method) for each in groups]


@pytest.mark.slow
def test_power_and_size():
    """The slope's standard error is some 0.036, so that 0 ± 1.75·0.036 lies inside of ±0.2 nearly always."""
    same, moved = ([each.verdict for each in simulated(exponent, 400)] for exponent in (0.0, 0.3))
    assert same.count("holds") >= at_least(0.97, 400)
    assert same.count("fails") <= at_most(0.05, 400)
    assert moved.count("fails") >= at_least(0.97, 400)
    assert moved.count("holds") == 0


@pytest.mark.parametrize("method", METHODS)
def test_standard_errors_are_the_scatter_of_estimates(method):
    """To first order in the noise; 2% for the lines' bends. Σ residuals²/σ² is χ² with Σ(m − 2) degrees of freedom."""
    found = simulated(0.0, SOME, method, 0.003)
    claimed = np.sqrt(np.mean([each.standard_error**2 for each in found]))
    spread = np.std([each.slope for each in found], ddof=1)
    false_alarm = stats.norm.isf(FALSE_ALARM / 2)
    assert abs(np.log(spread / claimed)) < false_alarm / np.sqrt(2 * (SOME - 1)) + 0.02
    freedom = len(WIDTHS) * (BATCHES.size - 2)
    assert found[0].freedom == freedom
    squares = np.mean([each.scatter**2 for each in found]) / 0.003**2
    assert abs(squares - 1) < false_alarm * np.sqrt(2 / freedom / SOME)


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
    """Steps may be in any unit."""
    for seed, unit in enumerate((1, 1e-6, 1e6)):
        steps = 300 * (1 + 150 / BATCHES) * np.exp(0.1 * np.random.default_rng(seed).standard_normal(5))
        found = interpolated_critical_batch_size(BATCHES, unit * steps, Convention(reference, overhead))
        np.testing.assert_allclose(found, dense_search(BATCHES, steps, reference, overhead), rtol=3e-5)


@pytest.mark.parametrize(("ratio", "reference"), [(1e5, 16), (150, 8), (150, 1000)])
def test_interpolation_does_not_extrapolate(ratio, reference):
    assert np.isnan(interpolated_critical_batch_size(BATCHES, 300 * (1 + ratio / BATCHES), Convention(reference, 0.2)))


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
    assert (found.freedom, found.remark) == (15, "")
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


@pytest.mark.slow
def test_defaults():
    """An overhead of 20% from the smallest common batch size on, a margin of a fifth."""
    groups = measured(0.1, np.random.default_rng(4))
    given, default = (size_dependence(groups, **each) for each in ({"convention": Convention(None, 0.2)}, {}))
    np.testing.assert_array_equal(given.critical, default.critical)
    assert (default.margin, size_dependence(groups, margin=0.3).margin) == (0.2, 0.3)
    (first, *_) = groups
    default = interpolated_critical_batch_size(first.batch_sizes, first.steps)  # whose smallest batch size is REFERENCE
    assert default == interpolated_critical_batch_size(first.batch_sizes, first.steps, Convention(REFERENCE, 0.2))
    groups[2] = StepsMeasurement("width 128", 128, BATCHES[1:], groups[2].steps[1:])
    given, default = size_dependence(groups, convention=Convention(40)), size_dependence(groups)
    np.testing.assert_array_equal(given.critical, default.critical)


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


def test_two_sizes_have_no_scatter_around_a_line():
    """And decide nothing, even without scatter of the steps."""
    found = size_dependence(only(measured(0.1, np.random.default_rng(2)), 32, 512), convention=CONVENTION)
    assert np.isnan(found.birge)
    assert found.freedom == 6
    assert "two sizes cannot distinguish scatter" in found.remark
    low, high = found.critical_intervals  # of each B*, by the scatter of its steps
    half = stats.t.ppf(0.975, 6) * found.standard_errors
    np.testing.assert_allclose(np.log([found.critical / low, high / found.critical]), [half, half], rtol=1e-9)
    for error in (found.standard_error, 0.0):
        silent = replace(found, standard_error=error)
        assert silent.interval == silent.equivalence_interval == (-np.inf, np.inf)
        assert silent.verdict == "inconclusive"


# ------------------------------------------------------------------ bad input

GROUPS = measured(0.0)
SIZES, OUTSIDE = "at least two different positive sizes", "outside of the batch sizes measured for width"


def with_last(**fields):
    return [*GROUPS[:-1], replace(GROUPS[-1], **fields)]


@pytest.mark.parametrize(
    ("groups", "options", "message"),
    [
        ([], {}, rf"{SIZES}, got \[\]"),
        (GROUPS[:1], {}, rf"{SIZES}, got \[32.0\]"),
        ([replace(each, size=8.0) for each in GROUPS], {}, SIZES),
        *[(with_last(size=size), {}, SIZES) for size in (np.nan, np.inf, -1.0, 0.0)],
        (cut(GROUPS[:2], 2), {}, "at least 3 different batch sizes"),
        (with_last(batch_sizes=BATCHES + 1), {"convention": Convention(None)}, "no batch size in common"),
        (GROUPS, {"level": 0.5}, "level must be between 0.5 and 1, got 0.5"),
        (GROUPS, {"level": 1}, "level must be between 0.5 and 1, got 1"),
        (GROUPS, {"margin": 0}, "margin must be positive"),
        (GROUPS, {"method": "line"}, "method must be one of law, interpolation, balance, got line"),
        (GROUPS, {"method": "interpolation", "convention": Convention(8)}, f"{OUTSIDE} 32"),
        (cut(GROUPS, 3), {"method": "interpolation", "convention": Convention(16, 5)}, f"{OUTSIDE} 32"),
        (with_last(steps=1e6 / BATCHES), {}, f"{OUTSIDE} 512: measure or tune more"),
        (with_last(steps=1e6 / BATCHES), {"method": "balance"}, f"{OUTSIDE} 512"),
        (with_last(steps=np.full(5, 300.0)), {"method": "balance"}, f"{OUTSIDE} 512"),
    ],
)
def test_bad_input(groups, options, message):
    with pytest.raises(ValueError, match=message):
        size_dependence(groups, **({"convention": CONVENTION} | options))
