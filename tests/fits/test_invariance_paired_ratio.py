"""B* of two ways of training with seeds in common: the formulas, coverage, and verdicts."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from sgdtheory.fits.conventions import Convention
from sgdtheory.fits.invariance import PairedRatio, paired_ratio
from sgdtheory.fits.steps_fit import fit_steps_law
from sgdtheory.fits.steps_measurement import StepsMeasurement
from tests.simulated_steps import BATCHES, sensitivity


def measured(rng, common, own=0.03):
    steps = (20 + 3000 / BATCHES) * np.exp(common + own * rng.standard_normal(5))
    return StepsMeasurement("", float("nan"), BATCHES, steps)


@pytest.mark.slow
def test_coverage_of_the_paired_ratio():
    # What both have in common is five times what they have of their own, and must not widen the interval.
    rng, hits, widths, number = np.random.default_rng(1), 0, [], 150
    for _ in range(number):
        common = 0.15 * rng.standard_normal(5)
        found = paired_ratio(measured(rng, common), measured(rng, common), reference=16)
        low, high = found.interval()
        hits += low <= 1 <= high
        widths.append(np.log(high / low))
    assert hits >= stats.binom.ppf(5e-5, number, 0.95)  # false alarms of 5e-5
    unpaired = paired_ratio(measured(rng, 0.15 * rng.standard_normal(5)), measured(rng, 0.0), reference=16).interval()
    assert np.median(widths) < np.log(unpaired[1] / unpaired[0])  # negative control: nothing in common


@pytest.mark.parametrize(
    ("log_ratio", "error", "margin", "verdict"),
    [
        (0.05, 0.02, (1.25,), "holds"),
        (0.3, 0.1, (1.25,), "fails"),
        (-0.3, 0.1, (1.25,), "fails"),
        (0.0, 0.3, (1.25,), "inconclusive"),
        (0.0, 0.1, (1.19,), "holds"),  # log 1.19 = 0.174 > 1.646 · 0.1
        (0.0, 0.1, (1.19, 0.99), "inconclusive"),  # < 2.33 · 0.1
    ],
)
def test_verdict_of_a_ratio(log_ratio, error, margin, verdict):
    """With 1000 degrees of freedom: 1.65 errors inside of ±log 1.25 = ±0.223, or 1.96 of them away from 0."""
    assert PairedRatio(1.0, 1.0, log_ratio, error, 1000).verdict(*margin) == verdict


@pytest.mark.parametrize("swapped", [False, True])
def test_the_paired_ratio_by_hand(swapped):
    """Scatter of the differences with m − 2 degrees of freedom, times the larger of the two sensitivities."""
    rng, batches = np.random.default_rng(5), np.geomspace(16, 2000, 7)
    pair = []
    for a, b in ((20, 1000), (10, 6000))[:: -1 if swapped else 1]:
        steps = (a + b / batches) * np.exp(1e-4 * rng.standard_normal(7))
        pair.append(StepsMeasurement("", float("nan"), batches, steps))
    found = paired_ratio(*pair, reference=32, overhead=0.3)
    laws = [fit_steps_law(batches, each.steps) for each in pair]
    first, second = (0.3 * law.b / law.a + 1.3 * 32 for law in laws)
    np.testing.assert_allclose([found.first, found.second], [first, second], rtol=1e-9)
    np.testing.assert_allclose(found.log_ratio, np.log(second / first), rtol=1e-9)
    assert found.freedom == 5
    differences = laws[1].residuals - laws[0].residuals
    sensitivities = [sensitivity(law, 32, 0.3) for law in laws]
    assert abs(np.log(sensitivities[1] / sensitivities[0])) > 0.2
    error = np.sqrt((differences**2).sum() / 5) * max(sensitivities)
    np.testing.assert_allclose(found.standard_error, error, rtol=2e-3)


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_the_interval_of_a_ratio_is_students(level):
    low, high = PairedRatio(10.0, 11.0, 0.3, 0.05, 4).interval(level)
    half = stats.t.ppf(0.5 + level / 2, 4) * 0.05
    np.testing.assert_allclose([low, high], np.exp([0.3 - half, 0.3 + half]), rtol=1e-12)


def test_four_batch_sizes_are_enough_where_both_have_the_same():
    first, second = (measured(np.random.default_rng(seed), 0.0) for seed in range(2))
    four, three = (
        [replace(each, batch_sizes=each.batch_sizes[k:], steps=each.steps[k:]) for each in (first, second)]
        for k in (1, 2)
    )
    assert paired_ratio(*four, reference=16).freedom == 2
    for pair in (three, (first, four[1])):
        with pytest.raises(ValueError, match="must be measured at the same batch sizes, four or more"):
            paired_ratio(*pair, reference=16)


def test_a_convention_in_place_of_its_two_numbers():
    pair = [measured(np.random.default_rng(seed), 0.0) for seed in range(2)]
    found = paired_ratio(*pair, reference=40, overhead=0.3)
    assert paired_ratio(*pair, convention=Convention(40, 0.3)) == found
    assert paired_ratio(*pair) == paired_ratio(*pair, reference=16, overhead=0.2)  # the smallest batch size
    with pytest.raises(ValueError, match="leave these two out"):
        paired_ratio(*pair, reference=16, convention=Convention(40, 0.3))
