"""Sweeps read as grids of losses: the critical batch size is that of steps to a target."""

from dataclasses import replace

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.sweep import SweepTable, fit_sweep, loss_columns, sweep
from sgdtheory.training import TrainConfig, TrainResult

STEPS = np.unique(np.geomspace(1, 4000, 60).astype(int))
BATCHES = (16, 40, 100, 250, 625)
RATES = 2.0 ** np.arange(-8, -1)
BALANCE = 150.0


def run(width, batch, rate, seed=0, *, stop=None, diverges=None):
    """A run whose loss is √(20 + 3000/B) times step^−½, and worse away from a best rate that grows like √B."""
    factor = np.exp(0.1 * np.log(rate / (0.004 * batch**0.5)) ** 2)
    losses = factor * (20 * (1 + BALANCE / batch) / STEPS) ** 0.5 / 2**0.5
    steps, outcome = STEPS, "steps"
    if stop is not None:
        end = min(int((losses > stop).sum()) + 1, STEPS.size)
        steps, losses, outcome = STEPS[:end], losses[:end], "target"
    if diverges is not None:
        steps, losses, outcome = STEPS[:diverges], np.r_[losses[: diverges - 1], np.nan], "diverged"
    options = {"target_loss": stop} if stop else {}
    config = TrainConfig(width=width, batch_size=batch, learning_rate=rate, seed=seed, averages=(), **options)
    none = np.full(steps.size, np.nan)
    return TrainResult(config, outcome, int(steps[-1]), steps, losses[:, None], none, none, none, 1, 0.0, 0.0)


def table_of(runs):
    return SweepTable(tuple(each.config for each in runs), tuple(runs))


@pytest.fixture(scope="module")
def table():
    return table_of([run(width, batch, rate) for width in (32, 64) for batch in BATCHES for rate in RATES])


def test_the_same_critical_batch_size_as_from_steps_to_a_target(table):
    grid = st.fit_loss_grid(loss_columns(table), targets=0.5, convention=st.Convention(16))
    fit = fit_sweep(table, target_loss=0.5, reference=16)
    assert (
        [each.group for each in grid.targets] == ["width 32", "width 64"] == [each.group for each in fit.measurements]
    )
    for found, law in zip(grid.targets, fit.laws, strict=True):
        assert found.critical_batch_size == pytest.approx(0.2 * BALANCE + 1.2 * 16, rel=0.01)
        assert found.critical_batch_size == pytest.approx(law.critical_batch_size(reference=16), rel=0.1)
    assert grid.groups[0].size == 32


def test_the_size_of_a_group_is_its_first_field_if_that_is_a_number(table):
    for by in (("width",), ("width", "parametrization")):
        columns = loss_columns(table, by=by)
        assert columns["size"] == [int(group.split(",")[0].removeprefix("width ")) for group in columns["group"]]
    narrow = table_of([each for each in table.results if each.config.width == 32])
    for by, group in (((), ""), (("parametrization",), "parametrization mup")):
        columns = loss_columns(narrow, by=by)
        assert set(columns["group"]) == {group}
        assert "size" not in columns


def test_the_batch_size_is_that_of_all_workers():
    alone = run(32, 16, 0.1)
    columns = loss_columns(table_of([replace(alone, config=alone.config.with_fields(num_workers=4))]))
    assert set(columns["batch_size"]) == {64}
    assert columns["samples"] == [64 * step for step in STEPS]


def test_runs_that_stop_at_their_target_end_the_curves_of_the_others():
    """Without that the best rates would be missing at the larger data sizes."""
    columns = loss_columns(table_of([run(32, batch, rate, stop=0.5) for batch in BATCHES for rate in RATES]))
    grid = st.fit_loss_grid(columns, targets=0.52, convention=st.Convention(16))
    assert grid.targets[0].critical_batch_size == pytest.approx(0.2 * BALANCE + 1.2 * 16, rel=0.01)
    counts = {}
    for batch, rate in zip(columns["batch_size"], columns["learning_rate"], strict=True):
        counts[batch, rate] = counts.get((batch, rate), 0) + 1
    for batch in BATCHES:
        assert len({counts[batch, rate] for rate in RATES}) == 1


def test_a_run_that_diverged_is_infinite_from_there_on():
    columns = loss_columns(table_of([run(32, 16, 0.1), run(32, 16, 0.2, diverges=20)]))
    loss = np.array(columns["loss"])[np.array(columns["learning_rate"]) == 0.2]
    assert loss.size == STEPS.size
    assert np.isfinite(loss[:19]).all()
    assert np.isinf(loss[19:]).all()


def test_what_else_varies_is_refused(table):
    with pytest.raises(ValueError, match="width varies between the runs, but a grid only has learning rates"):
        loss_columns(table, by=())
    with pytest.raises(ValueError, match="table must have runs that have ended, got none"):
        loss_columns(SweepTable((), ()))


@pytest.mark.slow
def test_a_sweep_of_networks_has_the_same_critical_batch_size_read_either_way(tmp_path):
    """At the targets that its common curves reach; B* from 23 to 37."""
    most_steps = {8: 600, 16: 400, 40: 300, 100: 220, 250: 180, 600: 180}
    shared = {"width": 32, "base_width": 32, "input_dim": 32, "noise_variance": 1.0, "holdout_size": 512}
    shared |= {"averages": (0.8, 0.9, 0.95, 0.98, 0.99), "target_loss": 0.12}
    fields = [
        {**shared, "batch_size": batch, "learning_rate": rate, "seed": seed, "data_seed": seed, "max_steps": steps}
        for batch, steps in most_steps.items()
        for rate in 2.0 ** np.arange(-9, -2)
        for seed in (0, 1, 2)
    ]
    table = sweep(
        [TrainConfig.from_fields({**each, "eval_every": each["max_steps"] // 60}) for each in fields], tmp_path
    )
    targets = [0.25, 0.15, 0.13]
    grid = st.fit_loss_grid(loss_columns(table), targets=targets, convention=st.Convention(None))
    for found, target in zip(grid.targets, targets, strict=True):
        law = fit_sweep(table, target_loss=target).laws[0]
        np.testing.assert_array_equal(found.batch_sizes, list(most_steps))
        critical = law.critical_batch_size(reference=None)
        assert found.interval[0] < critical < found.interval[1]
        assert found.critical_batch_size == pytest.approx(critical, rel=0.1)
        print(target, found.critical_batch_size, found.interval, critical)
