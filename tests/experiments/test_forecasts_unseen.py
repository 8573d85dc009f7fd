"""The experiment on forecasts of another group's runs: its data, its intervals by hand, and what was recorded."""

import csv
import gzip

import numpy as np
import pytest

import sgdtheory as st
from experiments import forecasts, forecasts_unseen
from experiments._lib.redraw import FOLDER, Recorded
from experiments._lib.rows import rows_of
from experiments.forecasts_unseen import DATA, Config, Row, curve_of, inside, share_of_families
from tests.figure_checks import check_figure


@pytest.fixture(scope="module")
def recorded():
    return rows_of(Row, Recorded(FOLDER / "forecasts_unseen").rows)


def made(family, error, deviation=0.01, now=3.3, scatter=0.001):
    return Row(0, family, "cos", 0.5, 3 * np.exp(error), 3.3, now, 3.0, deviation, scatter, 3.1)


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
    """The law's error of 27 other runs is 0.075 ln(3.3/3) = 0.00715: with 0.01 the deviation is 0.01229."""
    rows = [made("a", 0.0240), made("a", -0.0242), made("b", 0.0001)]
    assert inside(rows, forecasts_unseen.OLD).tolist() == [True, False, True]
    assert inside([made("a", 0.0019), made("a", 0.0021)], forecasts_unseen.SCATTER).tolist() == [True, False]


def test_no_band_knows_of_its_own_family():
    """The likeliest error of family b is 0.3 and 0.4 of the fall: it is that of the bands of family a."""
    fall = np.log(1.1)
    rows = [made("a", 5.0, 1e-9), made("b", 0.3 * fall, 1e-9), made("b", -0.4 * fall, 1e-9)]
    expected = 1.959964 * fall * np.sqrt((0.3**2 + 0.4**2) / 2)
    assert forecasts_unseen.half_widths(rows)[0] == pytest.approx(expected, rel=1e-3)
    assert inside(rows).tolist() == [False, True, True]


def test_families_are_resampled_whole():
    """Two families, one that always holds and one that never does: a quarter of the draws have only either of them."""
    rows = [made("a", 0.0)] * 4 + [made("b", 1.0)] * 4
    assert share_of_families(rows, inside(rows, forecasts_unseen.OLD)) == (0.5, 0.0, 1.0)
    alone = [made(str(k), float(k % 20 == 0)) for k in range(200)]
    share, low, high = share_of_families(alone, inside(alone, forecasts_unseen.OLD))
    assert share == 0.95
    assert low == pytest.approx(0.95 - 1.96 * np.sqrt(0.95 * 0.05 / 200), abs=0.006)
    assert high == pytest.approx(0.95 + 1.96 * np.sqrt(0.95 * 0.05 / 200), abs=0.006)


def test_the_recorded_table_has_every_run_at_every_cut(recorded):
    assert len(recorded) == len({(row.run, row.cut) for row in recorded}) == 3 * 228


def test_the_doubt_of_the_package_is_the_likeliest_on_these_runs(recorded):
    assert pytest.approx(forecasts.likeliest_doubt(recorded), abs=0.005) == st.curves.PUBLIC.doubt


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
