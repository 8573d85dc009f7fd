import numpy as np
import pytest

import sgdtheory as st
from sgdtheory._common.files import csv_columns
from tests.cli.text import cells
from tests.fits.test_loss_grid import joined, table

NAMES = {"batch_size": "bs", "samples": "D", "learning_rate": "lr", "loss": "L"}
FLAGS = ["--batch-size", "bs", "--samples", "D", "--learning-rate", "lr", "--loss", "L"]


@pytest.fixture
def grid_file(tmp_path):
    """Two models; runs at rates above 2 diverged."""
    rows = [table(cliff=2, group=np.full(880, name), size=np.full(880, size)) for name, size in (("s", 10), ("l", 40))]
    path = tmp_path / "grid.csv"
    columns = {NAMES.get(name, name): column for name, column in joined(*rows).items()}
    path.write_text(csv_columns(columns))
    return path


def test_json_and_steps_that_plan_reads(run, grid_file, tmp_path):
    steps = tmp_path / "steps.csv"
    flags = [*FLAGS, "--group", "group", "--size", "size", "--reference", 16, "--overhead", "50%", "--target", 2.1]
    found = run.json("fit-grid", grid_file, *flags, "--steps-csv", steps)
    columns = st.read_loss_grid(grid_file, **NAMES, group="group", size="size")
    grid = st.fit_loss_grid(columns, targets=2.1, convention=st.Convention(16, 0.5))
    assert found["convention"] == {"reference": 16, "overhead": 0.5}
    assert [row["group"] for row in found["targets"]] == ["s", "l"]
    for row, target in zip(found["targets"], grid.targets, strict=True):
        assert row["critical_batch_size"] == target.critical_batch_size
        assert row["critical_batch_size_interval"] == list(target.interval)
        assert row["steps"] == target.steps.tolist()
    assert found["groups"][0]["state"] == grid.groups[0].state.tolist()
    assert [row["batch_size"] for row in found["degradation"]] == [
        each.batch_size if np.isfinite(each.batch_size) else "inf" for each in grid.degradations
    ]
    assert [(row["quantity"], row["group"]) for row in found["laws"]] == [
        (law.quantity, law.group) for law in grid.laws
    ]
    assert found["notes"] == list(grid.remarks)
    measured = st.read_measurements(steps, group="group")
    assert [each.group for each in measured] == ["s loss 2.1", "l loss 2.1"]
    for each, target in zip(measured, grid.targets, strict=True):
        np.testing.assert_allclose(each.steps, target.steps, rtol=1e-12)
    asked = "--group", "group", "--target", "s loss 2.1", "--throughput", 100
    planned = run.json("plan", steps, *asked)
    assert planned["critical_batch_size"] == pytest.approx(found["targets"][0]["critical_batch_size"], rel=1e-9)
    interval = found["targets"][0]["critical_batch_size_interval"]
    assert planned["critical_batch_size_interval"] == pytest.approx(interval, rel=1e-9)


def test_fit_grid_prints_tables_and_draws(run, grid_file, tmp_path):
    printed = run("fit-grid", grid_file, *FLAGS, "--group", "group", "--plot", tmp_path / "grid.png", "--target", 2.1)
    assert "20% more data than at B = 16" in printed
    assert cells(printed.split("\n\n")[0], "s")[1:3] == ["2.1", "8"]
    assert "at fixed data: the largest batch size whose loss is within 1%" in printed
    assert "learning rate" in printed
    assert (tmp_path / "grid_s.png").stat().st_size > 10_000
    assert (tmp_path / "grid_l.png").exists()


def test_the_optimal_batch_size_and_one_reference_for_all_targets(run, grid_file):
    flags = [*FLAGS, "--group", "group", "--optimal-batch-size"]
    found = run.json("fit-grid", grid_file, *flags)
    columns = st.read_loss_grid(grid_file, **NAMES, group="group")
    grid = st.fit_loss_grid(columns, convention=st.Convention(None), optimal_batch_size=True)
    common = set.intersection(*(set(each.batch_sizes.tolist()) for each in grid.targets))
    assert found["convention"]["reference"] == grid.convention.reference == min(common)
    for row, target in zip(found["targets"], grid.targets, strict=True):
        assert isinstance(target.law, st.fits.UShapedLaw)
        assert row["c"] == target.law.c
        assert row["optimal_batch_size"] == target.optimal_batch_size
        assert row["smallest_batch_size_interval"] == list(target.smallest_interval)
        assert row["curvature_test"]["p_value"] == target.law.curvature_test().p_value
    assert f"each group's B_opt or at B = {min(common):g}, the larger" in run("fit-grid", grid_file, *flags)
