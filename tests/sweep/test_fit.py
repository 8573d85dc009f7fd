"""From tables of runs to B*: laws that are exact in the table come out exactly."""

import numpy as np
import pytest
from scipy import stats

from sgdtheory.invariance import PairedRatio, paired_ratio
from sgdtheory.measurements import StepsMeasurement
from sgdtheory.sweep import SweepTable
from sgdtheory.sweep.fit import data_dependence, fit_sweep
from sgdtheory.training import TrainConfig, TrainResult

STEPS = np.unique(np.geomspace(1, 4000, 60).astype(int))
BATCHES = np.array([16, 40, 100, 250, 625])
LAWS = {1.0: (20.0, 3000.0), 0.5: (60.0, 15_000.0)}  # target → a, b


def steps_of(target, batch):
    a, b = LAWS[target]
    return a + b / batch


def run(width, batch):
    """A run whose log loss is straight in log steps through both targets' laws."""
    first, second = steps_of(1.0, batch), steps_of(0.5, batch)
    losses = (first / STEPS) ** (np.log(2) / np.log(second / first))
    config = TrainConfig(width=width, batch_size=int(batch), averages=())
    none = np.full(STEPS.size, np.nan)
    return TrainResult(config, "steps", 4000, STEPS, losses[:, None], none, none, none, 1, 0.0, 0.0)


@pytest.fixture(scope="module")
def table():
    runs = [run(width, batch) for width in (32, 64, 128) for batch in BATCHES]
    return SweepTable(tuple(each.config for each in runs), tuple(runs))


@pytest.mark.parametrize("target", LAWS)
def test_laws_and_critical_batch_sizes(table, target):
    fit = fit_sweep(table, target)
    assert fit.reference == 16
    (note,) = fit.notes
    assert "three sizes leave one degree of freedom" in note
    a, b = LAWS[target]
    for law in fit.laws:
        np.testing.assert_allclose([law.a, law.b], [a, b], rtol=1e-6)
    np.testing.assert_allclose(fit.dependence["law"].critical, 0.2 * b / a + 1.2 * 16, rtol=1e-6)
    np.testing.assert_allclose(fit.dependence["balance"].critical, b / a, rtol=1e-6)
    assert fit.dependence["law"].verdict == "holds"


def test_dependence_on_data(table):
    fits = [fit_sweep(table, target) for target in LAWS]
    found = data_dependence(fits, "width 64")
    data = [16 * steps_of(target, 16) for target in LAWS]
    critical = [0.2 * b / a + 1.2 * 16 for a, b in LAWS.values()]
    np.testing.assert_allclose(found.sizes, data, rtol=1e-6)
    np.testing.assert_allclose(found.slope, np.log(critical[1] / critical[0]) / np.log(data[1] / data[0]), rtol=1e-5)
    with pytest.raises(ValueError, match="group width 7 must be measured at two targets or more, got 0"):
        data_dependence(fits, "width 7")


def test_what_cannot_be_fitted_is_noted(table):
    few = SweepTable(table.configs[:7], table.results[:7])  # two batch sizes of width 64
    assert any("1 of 2 groups have fewer than three tuned batch sizes" in note for note in fit_sweep(few, 1.0).notes)
    unreached = fit_sweep(table, 1e-9)
    assert unreached.measurements == ()
    assert sum("not reached" in note for note in unreached.notes) == 15


def measured(rng, common, own=0.03):
    steps = steps_of(1.0, BATCHES) * np.exp(common + own * rng.standard_normal(5))
    return StepsMeasurement("", float("nan"), BATCHES.astype(float), steps)


def test_the_same_has_ratio_one():
    first = measured(np.random.default_rng(0), 0.0)
    found = paired_ratio(first, first, reference=16)
    assert (found.log_ratio, found.standard_error) == (0, 0)
    assert found.interval() == (1, 1)


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
    ("log_ratio", "error", "verdict"),
    [(0.0, 0.1, "holds"), (0.05, 0.02, "holds"), (0.3, 0.1, "fails"), (-0.3, 0.1, "fails"), (0.0, 0.3, "inconclusive")],
)
def test_verdict_of_a_ratio(log_ratio, error, verdict):
    """With 1000 degrees of freedom: 1.65 errors inside of ±log 1.25 = ±0.223, or 1.96 of them away from 0."""
    assert PairedRatio(1.0, 1.0, log_ratio, error, 1000).verdict(1.25) == verdict


def test_the_verdict_of_a_ratio_is_at_its_level():
    borderline = PairedRatio(1.0, 1.0, 0.0, 0.1, 1000)
    assert borderline.verdict(1.19) == "holds"  # log 1.19 = 0.174 > 1.646 · 0.1
    assert borderline.verdict(1.19, 0.99) == "inconclusive"  # < 2.33 · 0.1


def test_pairs_have_the_same_batch_sizes():
    first = measured(np.random.default_rng(0), 0.0)
    other = StepsMeasurement("", float("nan"), first.batch_sizes[1:], first.steps[1:])
    with pytest.raises(ValueError, match="must be measured at the same batch sizes, four or more"):
        paired_ratio(first, other, reference=16)
