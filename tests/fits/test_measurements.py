import csv
from importlib import resources

import numpy as np
import pytest
from scipy import stats

import sgdtheory as st
from sgdtheory._common.files import csv_text
from sgdtheory.fits.steps_measurement import CRITICAL_COLUMNS, fitted_in

COLUMNS_OF_ERRORS = "standard_error_of_mean", "evaluation_interval", "standard_error"
ROWS = "64,46000\n128,23000\n256,13000\n"


@pytest.fixture
def write(tmp_path):
    def write_file(content):
        path = tmp_path / "steps.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file


# ------------------------------------------------------------------ the example


@pytest.mark.parametrize("fitted", [True, False])
def test_example_is_five_models_at_nine_batch_sizes(fitted):
    groups = st.example_measurements(fitted=fitted)
    assert [group.group for group in groups] == ["85M", "151M", "302M", "604M", "1.2B"]
    assert [group.size for group in groups] == [85, 151, 302, 604, 1200]
    for group in groups:
        np.testing.assert_array_equal(group.batch_sizes, 2.0 ** np.arange(6, 15))
        assert (np.diff(group.steps) <= 0).all()
    assert groups[-1].steps[1:].tolist() == [331000, 176000, 94000, 46500, 25000, 15360, 8900, 6500]


def test_example_series_differ_in_the_six_places_of_the_readme():
    differences = {
        (fitted.group, batch): (int(after), int(before))
        for fitted, measured in zip(st.example_measurements(), st.example_measurements(fitted=False), strict=True)
        for batch, after, before in zip(fitted.batch_sizes, fitted.steps, measured.steps, strict=True)
        if after != before
    }
    assert differences == {
        ("85M", 2048): (2528, 2500),
        ("85M", 4096): (1917, 1800),
        ("151M", 512): (12000, 11951),
        ("151M", 2048): (4350, 4200),
        ("151M", 4096): (2940, 2760),
        ("1.2B", 64): (642000, 643000),
    }


def test_mlperf_is_twelve_benchmarks_with_standard_errors():
    groups = st.example_measurements("mlperf")
    assert len(groups) == 12
    assert min(group.steps.size for group in groups) == 5
    assert sum(group.steps.size for group in groups) == 81
    resnet = next(group for group in groups if group.group == "resnet")
    assert resnet.steps[-1] == 1621.42
    assert resnet.standard_errors[-1] == pytest.approx(2.32 / 1621.42)


def test_standard_errors_of_mlperf_are_of_the_mean_and_the_rounding_to_evaluations():
    """By drawing where evaluations lie, with runs that scatter normally."""
    path = resources.files("sgdtheory.fits") / "data" / "mlperf_steps.csv"
    rows = list(csv.DictReader(path.read_text().splitlines()))
    places = (np.arange(2000) + 0.5) / 2000
    for row in rows:
        mean, interval, total = (float(row[f"{name}"]) for name in COLUMNS_OF_ERRORS)
        spread = np.sqrt(max(int(row["runs"]) * mean**2 - interval**2 / 12, 0)) / interval
        counts = np.arange(-60, 61)
        tails = stats.norm.sf((counts + places[:, None]) / max(spread, 1e-9)) - (counts < 0)
        rounding = interval * (tails.sum(1) + places).std()
        assert total == pytest.approx(np.hypot(mean, rounding), rel=0.01), row


def test_unknown_example():
    with pytest.raises(ValueError, match="name must be one of c4, mlperf, got c5"):
        st.example_measurements("c5")


# ------------------------------------------------------------------ files that are fine


def test_standard_errors_are_relative(write):
    (only,) = st.read_measurements(write("batch_size,steps,se\n64,100,5\n128,50,1\n256,40,4\n"), standard_error="se")
    np.testing.assert_allclose(only.standard_errors, [0.05, 0.02, 0.1])
    (only,) = st.read_measurements(write("batch_size,steps\n" + ROWS))
    assert only.standard_errors is None


def test_steps_of_a_theory_are_marked(write):
    rows = [(name, batch, mark) for name, mark in (("run", ""), ("theory", "yes"), ("no", "no")) for batch in (1, 2, 4)]
    lines = "".join(f"{name},{batch},{100 / batch},{mark}\n" for name, batch, mark in rows)
    groups = st.read_measurements(write("name,batch_size,steps,computed\n" + lines), group="name")
    assert [(each.group, each.computed) for each in groups] == [("run", False), ("theory", True), ("no", False)]
    assert not st.fits.StepsMeasurement("by hand", 1.0, np.array([1, 2, 4]), np.array([9, 6, 5])).computed


def test_without_groups_or_sizes(write):
    (only,) = st.read_measurements(write("batch_size,steps\n" + ROWS))
    assert only.group == ""
    assert np.isnan(only.size)
    np.testing.assert_array_equal(only.batch_sizes, [64, 128, 256])
    np.testing.assert_array_equal(only.steps, [46000, 23000, 13000])


def test_renamed_columns_in_any_place_and_numbers_in_any_notation(write):
    path = write("note,Y,name,B,N\nx,3e1,s,1,5\nx,15,s, 4.0 ,5\nx,20,s,2e0,5\n")
    (only,) = st.read_measurements(str(path), batch_size="B", steps="Y", group="name", size="N")
    assert (only.group, only.size) == ("s", 5.0)
    np.testing.assert_array_equal(only.batch_sizes, [1, 2, 4])
    np.testing.assert_array_equal(only.steps, [30, 20, 15])


def test_interleaved_groups_keep_the_order_of_the_file(write):
    path = write("m,batch_size,steps\nb,1,30\na ,4,16\nb,4,10\na,1,50\n b,2,20\na,2,25\n")
    second, first = st.read_measurements(path, group="m")
    assert (second.group, first.group) == ("b", "a")
    np.testing.assert_array_equal(first.batch_sizes, [1, 2, 4])
    np.testing.assert_array_equal(first.steps, [50, 25, 16])
    np.testing.assert_array_equal(second.steps, [30, 20, 10])


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbfbatch_size,steps\n" + ROWS.encode(),
        ("batch_size,steps\n" + ROWS).replace("\n", "\r\n").encode(),
        ("batch_size,steps\n\n" + ROWS.replace("\n", "\n\n")).encode(),
        ("batch_size,steps\n" + ROWS.rstrip()).encode(),
        b'"batch_size","steps"\n"64","46000"\n"128","23000"\n"256","13000"\n',
    ],
    ids=["byte order mark", "CRLF", "blank lines", "no last newline", "quoted"],
)
def test_dialects(write, content):
    (only,) = st.read_measurements(write(content))
    np.testing.assert_array_equal(only.batch_sizes, [64, 128, 256])


# ------------------------------------------------------------------ files that are not

PLAIN, GROUPED = "batch_size,steps\n", "m,n,batch_size,steps\n"


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_seeds_and_runs_that_did_not_reach_the_target(write, separator):
    """As for logs: the geometric mean over seeds, and a remark on what is left out."""
    rows = "batch_size,seed,steps,se\n64,0,100,3\n64,1,400,8\n128,0,90,1\n256,0,,\n256,1,60,1\n512,0,,1\n"
    (found,) = st.read_measurements(write(rows.replace(",", separator)), standard_error="se")
    np.testing.assert_array_equal(found.batch_sizes, [64, 128, 256])
    np.testing.assert_allclose(found.steps, [200, 90, 60], rtol=1e-14)
    errors = [np.hypot(3 / 100, 8 / 400) / 2, 1 / 90, 1 / 60]
    np.testing.assert_allclose(found.standard_errors, errors, rtol=1e-14)
    averaged, left_out = found.remarks
    assert averaged.startswith("batch size 64 has several rows, taken as seeds: the geometric mean")
    assert left_out == "2 rows of batch size 256, 512 without steps left out: runs that did not reach the target"
    sheet = st.fits.LawsOfGroups((found,), (st.fit_steps_law(found.batch_sizes, found.steps),), st.fits.PAPER)
    assert {averaged, left_out} <= set(sheet.sheet().remarks)


@pytest.mark.parametrize(
    ("columns", "content", "message"),
    [
        ({}, "", "has no column 'batch_size'; its columns are: none"),
        ({}, PLAIN, "has no rows below its header"),
        ({}, "batch,steps\n" + ROWS, "has no column 'batch_size'; its columns are: 'batch', 'steps'"),
        ({}, "batch;steps\n64;1\n", "has no column 'batch_size'; its columns are: 'batch', 'steps'"),
        ({}, PLAIN + "64,46000\n128,23000\n", "the file has 2 batch sizes; a fit needs at least 3"),
        ({}, PLAIN + "64,46000\n128,0\n256,13000\n", "line 3: steps must be positive and finite, got 0"),
        ({}, PLAIN + "64,nan\n128,23000\n256,5\n", "line 2: steps must be positive and finite, got nan"),
        ({}, PLAIN + "64,1e999\n128,23000\n256,5\n", "line 2: steps must be positive and finite, got inf"),
        ({}, PLAIN + "0,46000\n128,23000\n256,5\n", "line 2: batch_size must be positive and finite, got 0"),
        ({}, PLAIN + "64,46000\n\n\n128,many\n256,5\n", "line 5: steps must be a number, got 'many'"),
        ({}, PLAIN + "64,46000\n128\n256,5\n", "the file has 2 batch sizes; a fit needs at least 3"),
        (
            {},
            "batch_size,steps,rate\n64,46000,1\n128,23000,1\n64.0,5,2\n",
            "line 4: batch_size 64 occurs twice, with different rate; keep its best run, or name the column",
        ),
        ({}, b"\x89PNG\r\n\x1a\n\x00\x00\xff\xfe" * 50, "cannot read .*: it is not a CSV file in UTF-8"),
        ({}, b"batch_size,steps\n64,46000\n128,\xff\xfe\n", "cannot read .*: it is not a CSV file in UTF-8"),
        ({}, PLAIN + '64,"' + "1" * 200_000 + '"\n', "cannot read .*: it is not a CSV file in UTF-8"),
        ({}, None, r"cannot read .*nothing\.csv: No such file or directory"),
        ({"group": "m", "size": "n"}, "m,batch_size,steps\na,1,5\n", "has no column 'n'; its columns are: 'm', 'batch"),
        ({"group": "m", "size": "n"}, "n,batch_size,steps\n5,1,5\n", "has no column 'm'; its columns are: 'n', 'batch"),
        ({"group": "m"}, GROUPED + "a,5,1,9\na,5,2,8\na,5,4,7\nb,5,1,9\n", "b has 1 batch sizes; a fit needs at least"),
        ({"group": "m"}, GROUPED + "a,5,1,9\na,6,1,8\n", "line 3: batch_size 1 occurs twice for a, with different n"),
        (
            {"group": "m", "size": "n"},
            GROUPED + "a,5,1,9\nb,7,1,9\na,6,2,8\n",
            "line 4: n must be the same in all rows of a, got 6 and 5",
        ),
        (
            {"size": "n"},
            GROUPED + ",5,1,9\n,6,2,8\n",
            "line 3: n must be the same in all rows of .*, got 6 and 5",
        ),
        ({"size": "n"}, GROUPED + "a,5,1,9\na,-5,2,8\n", "line 3: n must be positive and finite, got -5"),
        ({"size": "n"}, "batch_size,steps,n\n1,9,5\n2,8\n", "line 3: n must be a number, got ''"),
        ({"group": "m"}, "batch_size,steps,m\n1,9,a\n2,8\n", "line 3"),
        (
            {"standard_error": "se"},
            "batch_size,steps,se\n64,100,5\n128,50,0\n",
            "line 3: se must be positive, got 0; where all runs stopped at one evaluation, give the steps between",
        ),
        (
            {"standard_error": "se"},
            "batch_size,steps,se\n64,100,-1\n",
            "line 2: se must be positive and finite, got -1",
        ),
    ],
)
def test_bad_files(write, tmp_path, columns, content, message):
    with pytest.raises(ValueError, match=message):
        st.read_measurements(tmp_path / "nothing.csv" if content is None else write(content), **columns)


# ------------------------------------------------------------------ B* of a fit in the cells of a file

CLOSED = st.fits.FittedCriticalBatchSize(277.0, 140.0, 548.0, st.Convention(64, 0.2), 0.95)
OPEN = st.fits.FittedCriticalBatchSize(277.0, 0.0, np.inf, st.fits.SMALLEST, 0.9, u_shaped=True)


def row_of(found):
    (row,) = csv.DictReader(csv_text(CRITICAL_COLUMNS, [found.cells]).splitlines())
    return row


@pytest.mark.parametrize("found", [CLOSED, OPEN])
def test_what_is_written_is_read(found):
    assert fitted_in(row_of(found), "line 2") == found


def test_only_its_own_convention_is_answered():
    sizes = [64, 256]
    asked = {st.Convention(64, 0.2): True, st.fits.SMALLEST: True, st.Convention(256, 0.2): False}
    for convention, expected in (asked | {st.Convention(64, 0.3): False}).items():
        assert CLOSED.answers(convention, sizes) == expected


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"critical_low": "300"}, "line 2: critical_batch_size must lie from critical_low to critical_high"),
        ({"level": "1"}, "and level below 1, got 277, 140, 548 and 1"),
        ({"critical_high": "many"}, "line 2: critical_high must be a number, got 'many'"),
    ],
)
def test_cells_that_do_not_fit_are_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        fitted_in(row_of(CLOSED) | changed, "line 2")


def test_a_part_of_the_columns_is_refused_and_none_is_none():
    assert fitted_in({"steps": "10"}, "line 2") is None
    with pytest.raises(ValueError, match=r"critical_batch_size needs critical_low, .*, u_shaped too: leave it out"):
        fitted_in({"critical_batch_size": "277"}, "line 2")
