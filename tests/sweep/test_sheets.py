"""What a sweep, its plan and its fits show: counts, units, verdicts, exponents, and the file of tuned steps."""

import csv
import io
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.fits import interpolated_critical_batch_size
from sgdtheory.sweep import BestSteps, SweepFits, SweepTable, TunedSteps, conditions, fit_sweep, missing_runs
from sgdtheory.sweep.fit import fit_tuned
from sgdtheory.sweep.planning import Plan, _Timer
from sgdtheory.sweep.power import BATCHES, SEEDS, WIDTHS, Design, Scatter, Verdicts, enough, scatter_of
from sgdtheory.sweep.table import varying
from tests.runs import changed, run_of
from tests.sweep.test_fit import LAWS, noisy
from tests.sweep.test_tuning import power, result, table


@pytest.fixture(scope="module")
def fits():
    found = [fit_sweep(noisy(16, 32, 64, 128), target_loss=target, overhead=0.5, margin=0.4) for target in LAWS]
    return SweepFits(tuple(found), margin=0.4, level=0.9)


def test_the_sheet_of_fits_at_several_targets(fits):
    sheet = fits.sheet()
    laws, slopes = sheet.tables
    found = {each.name: each for each in laws.quantities}
    assert [*found["target_loss"].value] == [1.0] * 4 + [0.5] * 4
    assert found["group"].value == 2 * [f"width {width}" for width in (16, 32, 64, 128)]
    expected = [law for fit in fits.fits for law in fit.laws]
    np.testing.assert_array_equal(found["a"].value, [law.a for law in expected])
    np.testing.assert_array_equal(found["b"].value, [law.b for law in expected])
    critical = [law.critical_batch_size(16, 0.5) for law in expected]
    np.testing.assert_allclose(found["critical_batch_size"].value, critical)
    measured = [each for fit in fits.fits for each in fit.measurements]
    between = [interpolated_critical_batch_size(m.batch_sizes, m.steps, st.Convention(16, 0.5)) for m in measured]
    np.testing.assert_allclose(found["interpolated"].value, between)
    assert laws.title == "steps = a + b/B;  B*: 50% more data than at B = 16"
    assert (laws.interval, slopes.interval) == ("90%", "90%")
    assert "holds: |slope| < 0.4 by two" in slopes.title
    convention = {"reference": [16, 16], "overhead": 0.5, "margin": 0.4, "level": 0.9}
    assert sheet.settings["convention"] == convention
    of_width = [each for each in sheet.settings["exponents"] if len(each["sizes"]) == 4]
    np.testing.assert_allclose([each["slope"] for each in of_width[:2]], [
        dependence.slope for dependence in [*fits.fits[0].dependence.values()][:2]
    ])  # fmt: skip
    of_data = [each for each in sheet.settings["exponents"] if len(each["sizes"]) == 2]
    assert len(of_data) == len(fits.by_data) == 4
    assert {each.margin for each in fits.by_data.values()} == {0.4}


def test_the_sheet_of_one_target_has_the_same_rows(fits):
    sheet, all_targets = fits.fits[1].sheet(), fits.sheet()
    for one, whole in zip(sheet.tables[0].quantities[:4], all_targets.tables[0].quantities[:4], strict=True):
        assert list(one.value) == list(whole.value)[4:]
    assert sheet.settings["convention"] == {"reference": [16], "overhead": 0.5, "margin": 0.2, "level": 0.95}


def test_the_file_of_tuned_steps(fits):
    rows = [*csv.DictReader(io.StringIO(fits.steps_text()))]
    points = [(fit.tuned.target_loss, point) for fit in fits.fits for point in fit.tuned.points]
    assert len(rows) == len(points) == 2 * 4 * 5
    for row, (target, point) in zip(rows, points, strict=True):
        assert (float(row["target_loss"]), int(row["width"]), int(row["batch_size"])) == (
            target, *point.group, point.batch_size,
        )  # fmt: skip
        assert float(row["steps"]) == point.mean
        assert (row["num_seeds"], row["tuned"], row["average"]) == ("1", "1", "iterate")


def test_a_table_counts_its_runs_by_how_they_ended(tmp_path):
    done = [result({"iterate": power(9)}, seed=seed) for seed in range(3)]
    done = [replace(each, seconds=20.4) for each in done[:2]] + [replace(done[2], outcome="diverged")]
    configs = [*(each.config for each in done), run_of(seed=3), run_of(seed=4)]
    whole = SweepTable(tuple(configs), (*done, None, None))
    assert whole.sheet().settings["outcomes"] == {"steps": 2, "diverged": 1, "unfinished": 2}
    (tmp_path / configs[3].fingerprint).mkdir()
    sheet = whole.sheet(tmp_path)
    assert sheet.settings["outcomes"] == Counter(steps=2, diverged=1, unfinished=1) + Counter({"not begun": 1})
    assert sheet.title == f"5 runs in {tmp_path}"
    assert sheet.tables[0].legend == "41 s of training, runs side by side counted each"
    assert [each.value for each in sheet.tables[0].quantities] == [
        ["diverged", "not begun", "steps", "unfinished"], [1, 1, 2, 1],
    ]  # fmt: skip
    assert [table(*done[:number]).sheet().title for number in (0, 1, 2)] == ["0 runs", "1 run", "2 runs"]


def test_conditions_and_columns_of_a_table():
    assert conditions(["width=32,64", "batch-size=8", "averages=[0.9, 0.99]", "optimizer=adam,sgd"]) == {
        **{"width": [32, 64], "batch_size": 8, "averages": (0.9, 0.99), "optimizer": ["adam", "sgd"]},
    }
    curves = {"iterate": power(9), "0.9": power(9), "0.5": power(9)}
    runs = [result(curves, uniform_average=False), result({"iterate": power(9)}, width=16)]
    columns = SweepTable(tuple(each.config for each in runs), tuple(runs)).columns()
    assert [*columns] == [
        *("run", "width", "learning_rate", "batch_size", "averages", "seed", "outcome", "num_steps"),
        *("loss_iterate", "loss_0.5", "loss_0.9", "steps_iterate", "steps_0.5", "steps_0.9"),
    ]
    assert columns["averages"] == ["0.5 0.9", ""]
    assert varying([each.config for each in runs]) == ["width", "averages"]


def test_a_plan_shows_its_numbers():
    scatter = Scatter(0.1234, 0.05678, 0.01234, 42.56, "of the pilot")
    design = Design((8, 16, 32), (2, 4, 8, 16), 2, 0.876)
    ahead = Plan(9, 3, 360, 12.345, scatter, Verdicts(0.9, 0.02, 0.08), design, 0.3, "runs")
    assert {"12.3", "0.123", "0.0568", "0.0123", "42.6"} < {*str(ahead).split()}
    sheet = ahead.sheet()
    first, verdicts = sheet.tables
    assert {each.name: each.value for each in first.quantities} == {
        "runs": 9, "finished": 3, "steps": 360, "seconds": 12.345,
    }  # fmt: skip
    assert first.quantities[1].label == "finished in runs"
    assert [each.value for each in verdicts.quantities] == [0.1234, 0.05678, 0.01234, 42.56, "90%", "2%", "8%"]
    assert verdicts.title.endswith("(|slope| < 0.3, by the law)")
    assert sheet.notes == ["enough for 88%: widths 8, 16, 32; batch sizes 2, 4, 8, 16; 2 seeds"]
    assert Plan(9, 3, 360, 1.0, scatter, Verdicts(1, 0, 0), design._replace(num_seeds=1)).sheet().notes[0].endswith(
        "; 1 seed"
    )  # fmt: skip
    assert (sheet.settings["enough"]["num_seeds"], sheet.settings["verdicts"]["fails"]) == (2, 0.02)
    assert Plan(9, 3, 360, 1.0, None, None, None).margin == 0.2


def test_designs_that_are_tried():
    assert [*WIDTHS] == [*range(3, 13)]
    assert [*BATCHES] == [4, 5, 6, 7, 8]
    assert [*SEEDS] == [1, 2, 3, 4, 6, 8]
    assert Scatter(0.3, 0.4, 0.0, 1.0).of_steps(9) == pytest.approx(np.hypot(0.1, 0.4))
    quiet = enough((32, 512), (16, 1024), Scatter(1e-4, 0.0, 0.0, 100.0))
    assert quiet is not None
    assert quiet[:3] == ((32, 128, 512), (16, 64, 256, 1024), 1)
    assert enough((32, 33), (16, 1024), Scatter(1e-9, 0.0, 0.0, 100.0)) is None  # no third whole number in between


def test_the_clock_of_a_pilot_starts_with_its_first_steps(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("sgdtheory.sweep.planning.time.perf_counter", lambda: now[0])
    timer = _Timer(2.0)
    pending = []
    for now[0], looks in ((5.0, False), (9.0, True), (10.0, True), (11.0, False), (11.5, False)):
        if looks:
            timer.look(None)
        pending.append(timer.pending)
    assert pending == [False, False, False, False, True]


def test_the_scatter_of_a_single_seed_is_that_around_the_laws():
    """Σ r²/(m − 2) over the groups, with the mean of log b/a; four batch sizes of one group are enough."""
    sizes, noise = np.array([16.0, 40, 100, 250]), np.array([0.03, -0.05, 0.04, -0.02])
    points = [
        BestSteps((32,), int(size), np.array([np.exp(each) * (1 + 150 / size)]), {}, {}, 1, 1)
        for size, each in zip(sizes, noise, strict=True)
    ]
    fit = fit_tuned(TunedSteps(0.1, ("width",), tuple(points)), convention=st.Convention(16))
    (law,) = fit.laws
    found = scatter_of(fit)
    assert (found.seeds, found.between, found.source) == (0.0, 0.0, "of the pilot")
    assert found.rest == pytest.approx(((law.residuals**2).sum() / 2) ** 0.5)
    assert found.balance == pytest.approx(law.b / law.a)
    with pytest.raises(ValueError, match="a pilot needs four tuned batch sizes"):
        scatter_of(fit_tuned(TunedSteps(0.1, ("width",), tuple(points[:3])), convention=st.Convention(16)))


def test_a_run_that_did_not_reach_the_target_gets_twice_its_steps():
    run = result({"iterate": power(900)}, max_steps=64)
    (more,) = missing_runs(table(run), 1.0)
    assert (more.max_steps, more.schedule_steps) == (128, 64)
    assert missing_runs(table(changed(run, outcome="diverged")), 1.0) == []
