"""B* from tables of runs: laws that are exact in the table come out exactly."""

from dataclasses import replace

import numpy as np
import pytest

from sgdtheory.sweep import SweepTable, best_steps
from sgdtheory.sweep.fit import data_dependence, fit_sweep, fit_tuned
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
    fit = fit_sweep(table, target_loss=target)
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
    fits = [fit_sweep(table, target_loss=target) for target in LAWS]
    found = data_dependence(fits, "width 64")
    data = [16 * steps_of(target, 16) for target in LAWS]
    critical = [0.2 * b / a + 1.2 * 16 for a, b in LAWS.values()]
    np.testing.assert_allclose(found.sizes, data, rtol=1e-6)
    np.testing.assert_allclose(found.slope, np.log(critical[1] / critical[0]) / np.log(data[1] / data[0]), rtol=1e-5)
    with pytest.raises(ValueError, match="group width 7 must be measured at two targets or more, got 0"):
        data_dependence(fits, "width 7")


def test_what_cannot_be_fitted_is_noted(table):
    few = SweepTable(table.configs[:7], table.results[:7])  # two batch sizes of width 64
    assert any(
        "1 of 2 groups have fewer than three tuned batch sizes" in note
        for note in fit_sweep(few, target_loss=1.0).notes
    )
    unreached = fit_sweep(table, target_loss=1e-9)
    assert unreached.measurements == ()
    assert sum("not reached" in note for note in unreached.notes) == 15


def noisy(*widths):
    """Runs of some widths whose steps scatter by 3% around the laws."""
    rng = np.random.default_rng(0)
    found = []
    for width in widths:
        for batch in BATCHES:
            result = run(width, batch)
            found.append(replace(result, losses=result.losses * np.exp(0.03 * rng.standard_normal())))
    return SweepTable(tuple(each.config for each in found), tuple(found))


def test_default_margin_and_level():
    table = noisy(32, 64, 128)
    for fit in (fit_sweep(table, target_loss=1.0), fit_tuned(best_steps(table, target_loss=1.0))):
        assert {(each.margin, each.level) for each in fit.dependence.values()} == {(0.2, 0.95)}
        assert fit.overhead == 0.2


def test_intervals_are_of_the_dependence_or_else_of_each_law():
    fit = fit_sweep(noisy(32, 64, 128), target_loss=1.0)
    np.testing.assert_allclose(np.transpose(fit.critical_intervals()), fit.dependence["law"].critical_intervals)
    alone = fit_sweep(noisy(32), target_loss=1.0)
    assert not alone.dependence
    for level in (0.5, 0.95):
        expected = alone.laws[0].interval(level=level, reference=16, overhead=0.2)
        assert alone.critical_intervals(level) == [pytest.approx(expected)]
    assert alone.critical_intervals() == alone.critical_intervals(0.95)


@pytest.mark.parametrize(
    ("widths", "words"),
    [((32, 64), "two sizes cannot distinguish"), ((32, 64, 128), "three sizes leave"), ((8, 16, 32, 64), "")],
)
def test_few_sizes_are_noted(widths, words):
    notes = [
        note for note in fit_sweep(noisy(*widths), target_loss=1.0).notes if "sizes" in note and "interval" in note
    ]
    assert [note.startswith(words) for note in notes] == [True] * bool(words)
