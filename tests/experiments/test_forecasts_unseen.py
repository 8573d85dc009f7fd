"""The experiment on forecasts of another group's runs: its data, its intervals by hand, and what was recorded."""

import csv
import gzip

import numpy as np
import pytest

from experiments import forecasts_unseen
from experiments._lib.redraw import FOLDER, Recorded
from experiments._lib.rows import rows_of
from experiments.forecasts_unseen import DATA, Config, Row, curve_of, inside, share_of_families
from tests.figure_checks import check_figure


@pytest.fixture(scope="module")
def recorded():
    return rows_of(Row, Recorded(FOLDER / "forecasts_unseen").rows)


def made(family, error, deviation=0.01, now=3.3, scatter=0.001):
    return Row(0, family, "cos", 0.5, 3 * np.exp(error), 3.3, now, 3.0, deviation, scatter, 0, 3.1)


def test_the_data_are_228_whole_runs():
    with (DATA / "lr_scheduling_runs.csv").open(newline="") as file:
        runs = list(csv.DictReader(file))
    with gzip.open(DATA / "lr_scheduling.csv.gz", "rt") as file:
        rows = list(csv.DictReader(file))
    assert len(runs) == 228
    steps = {number: [int(row["step"]) for row in rows if row["run"] == number] for number in ("0", "77", "227")}
    for number, taken in steps.items():
        about = runs[int(number)]
        assert (np.diff(taken) > 0).all()
        assert np.diff(taken).max() <= 400
        assert 0 <= int(about["steps"]) - taken[-1] <= 200
        assert about["name"].split("_iter")[1].startswith(about["steps"])


def test_a_run_that_continues_another_has_its_rows():
    with (DATA / "lr_scheduling_runs.csv").open(newline="") as file:
        runs = list(csv.DictReader(file))
    continued = next(about for about in runs if about["continues"])
    mine, parent = curve_of(int(continued["run"])), curve_of(int(continued["continues"]))
    before = mine.step < int(continued["begins"])
    assert before.sum() > 10
    np.testing.assert_array_equal(mine.loss[before], parent.loss[: before.sum()])
    assert mine.learning_rate[-1] < 0.05 * mine.learning_rate.max()


def test_a_band_holds_what_lies_within_its_half_width():
    rows = [made("a", 0.0195), made("a", -0.0197), made("b", 0.0190)]
    assert inside(rows).tolist() == [True, False, True]
    # The law's error is 0.0753 ln(3.3/3) = 0.0072 of the deviation 0.01; what is left is 0.0070, 1.96 times 0.0136.
    assert inside([made("a", 0.0130), made("a", 0.0150)], forecasts_unseen.WITHOUT).tolist() == [True, False]
    assert inside([made("a", 0.0019), made("a", 0.0021)], forecasts_unseen.SCATTER).tolist() == [True, False]


def test_families_are_resampled_whole():
    """Two families, one that always holds and one that never does: a quarter of the draws have only either of them."""
    rows = [made("a", 0.0)] * 4 + [made("b", 1.0)] * 4
    assert share_of_families(rows, inside(rows)) == (0.5, 0.0, 1.0)
    alone = [made(str(k), float(k % 20 == 0)) for k in range(200)]
    share, low, high = share_of_families(alone, inside(alone))
    assert share == 0.95
    assert low == pytest.approx(0.95 - 1.96 * np.sqrt(0.95 * 0.05 / 200), abs=0.006)
    assert high == pytest.approx(0.95 + 1.96 * np.sqrt(0.95 * 0.05 / 200), abs=0.006)


def test_the_recorded_table_has_every_run_at_every_cut(recorded):
    assert len(recorded) == len({(row.run, row.cut) for row in recorded}) == 3 * 228


@pytest.mark.slow
@pytest.mark.parametrize("number", [17, 120])
def test_recorded_forecasts_are_made_again(recorded, number):
    for row in (each for each in recorded if each.run == number):
        again = forecasts_unseen._forecast((number, row.cut))
        assert again.forecast == pytest.approx(row.forecast, rel=1e-5)
        assert again.deviation == pytest.approx(row.deviation, rel=1e-3)
        assert again.power == pytest.approx(row.power, rel=1e-4, nan_ok=True)


def test_figure_of_the_recorded_table():
    found = Recorded(FOLDER / "forecasts_unseen")
    (figure,) = forecasts_unseen.redraw(found.config(Config), found).values()
    check_figure(figure)
