"""The level of the invariance test and the coverage of its intervals, by simulated sweeps.

Rates are held against their nominal ones with false alarms of 1e-4 (`at_least`, `at_most`), and rules that miss their
level have to be found out.
"""

import numpy as np
import pytest
from scipy import stats

from sgdtheory.fits import invariance
from sgdtheory.fits.conventions import Convention
from sgdtheory.fits.invariance import interpolated_critical_batch_size, size_dependence
from sgdtheory.fits.steps_measurement import StepsMeasurement
from tests.marks import slow
from tests.simulated_steps import BATCHES, REFERENCE, WIDTHS, at_least, at_most, measured, quick_fit

MARGIN, NUMBER = 0.2, 400
SETTINGS = [(3, 0.0), (3, 0.05), (3, 0.15), (5, 0.0), (5, 0.15), (9, 0.15)]  # number of sizes, scatter between them


@pytest.fixture(autouse=True)
def fast(monkeypatch):
    monkeypatch.setattr(invariance, "fit_steps_law", quick_fit)


# ------------------------------------------------------------------ scatter of B* between widths


def only_the_larger(found, place):
    """The rule of version 0.1: one interval with Σ(m − 2) degrees of freedom, times the Birge ratio if above 1."""
    return max(1, found.birge) * stats.t.ppf(place, found.freedom)


def switched(found, place):
    """W − 2 degrees of freedom where the Birge ratio is above 1: what chance leaves below 1 is not widened."""
    inside = stats.t.ppf(place, found.freedom)
    return found.birge * stats.t.ppf(place, found.sizes.size - 2) if found.birge > 1 else inside


def rates(found, reach):
    """Return how many 95% intervals contain the slope MARGIN, and how many 5% tests reject one so large."""
    covered = [abs(each.slope - MARGIN) <= reach(each, 0.975) * each.standard_error for each in found]
    rejected = [each.slope + reach(each, 0.95) * each.standard_error < MARGIN for each in found]
    return sum(covered), sum(rejected)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "between"), SETTINGS)
def test_level_and_coverage_with_scatter_between_widths(number, between):
    """Step noise of 2%, an exponent at the margin, 5% tests and 95% intervals."""
    widths = np.geomspace(32, 512, number)
    rngs = np.random.default_rng(number).spawn(NUMBER)
    sweeps = (measured(MARGIN, rng, noise=0.02, widths=widths, between=between) for rng in rngs)
    found = [size_dependence(each, convention=Convention(REFERENCE)) for each in sweeps]
    covered, rejected = rates(found, lambda each, place: each.reach(2 * place - 1))
    assert covered >= at_least(0.95, NUMBER)
    assert rejected <= at_most(0.05, NUMBER)
    assert covered == sum(each.interval[0] <= MARGIN <= each.interval[1] for each in found)
    assert sum(each.verdict == "holds" for each in found) <= rejected
    if between and number < 9:  # with nine widths t_7 and t_27 are too close for this number of sweeps
        covered, rejected = rates(found, only_the_larger)
        assert covered < at_least(0.95, NUMBER)
    if between and number == 3:
        assert rejected > at_most(0.05, NUMBER)
        assert rates(found, switched)[0] < at_least(0.95, NUMBER)


# ------------------------------------------------------------------ batch sizes a factor of 2.5 apart


def chords_in_logs(batch_sizes, steps, convention):
    """Reading off along lines in logs, as version 0.1 did."""
    reference, overhead = convention.reference, convention.overhead
    log_batch, log_data = np.log(batch_sizes), np.log(batch_sizes * steps)
    excess = log_data - np.interp(np.log(reference), log_batch, log_data) - np.log1p(overhead)
    last = int(np.flatnonzero(excess <= 0)[-1])
    share = -excess[last] / (excess[last + 1] - excess[last])
    return float(np.exp(log_batch[last] + share * (log_batch[last + 1] - log_batch[last])))


def false_holds(noise, number, alpha=1.0):
    """Return how often the verdict is "holds" with B* = 50 (w/128)^MARGIN, on steps of the law a + b/B^α."""
    found = []
    for rng in np.random.default_rng(3).spawn(number):
        groups = []
        for width in WIDTHS:
            critical = 50 * (width / 128) ** MARGIN
            ratio = (critical - 1.2 * REFERENCE) / (1.2 * REFERENCE ** (1 - alpha) - critical ** (1 - alpha))
            steps = 300 * (1 + ratio * BATCHES**-alpha) * np.exp(noise * rng.standard_normal(BATCHES.size))
            groups.append(StepsMeasurement(f"width {width:g}", width, BATCHES, steps))
        found.append(size_dependence(groups, convention=Convention(REFERENCE), margin=MARGIN, method="interpolation"))
    return sum(each.verdict == "holds" for each in found)


@pytest.mark.parametrize("noise", [0.01, slow(0.001)])
def test_level_of_reading_off_on_a_coarse_grid(noise, monkeypatch):
    """A true level of 5% gives more than `at_most` in at most one of 10⁴ seeds; chords in logs give more."""
    number = 150
    assert false_holds(noise, number) <= at_most(0.05, number)
    monkeypatch.setattr(invariance, "interpolated_critical_batch_size", chords_in_logs)
    assert false_holds(noise, number) > at_most(0.05, number)


@pytest.mark.parametrize("alpha", [0.9, 1.1])
def test_level_of_reading_off_data_that_are_not_the_laws(alpha):
    """Lines in B are chords too then; but the misfit that bends them is in s."""
    number = 100
    assert false_holds(0.001, number, alpha) <= at_most(0.05, number)


def test_chords_in_logs_are_what_was_read_off():
    """The negative control on a hair-fine grid, where every way of reading off is the same."""
    batches = np.geomspace(16, 640, 4000)
    steps = 300 * (1 + 200 / batches)
    lines = interpolated_critical_batch_size(batches, steps, Convention(16, 0.2))
    np.testing.assert_allclose(chords_in_logs(batches, steps, Convention(16, 0.2)), lines, rtol=1e-5)
