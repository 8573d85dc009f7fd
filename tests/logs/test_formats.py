"""Every format: what its program writes is read back, whatever was logged when, and whatever the file's name."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st_

import sgdtheory as st
from tests.logs import writers

NUMBERS = st_.floats(2**-20, 2**10, width=32)  # event files hold single precision
ROW = st_.fixed_dictionaries({}, optional=dict.fromkeys(writers.TAGS, NUMBERS)).filter(bool)
RUNS = st_.dictionaries(st_.integers(0, 10**7), ROW, min_size=1, max_size=12).map(lambda run: dict(sorted(run.items())))


def assert_same(log, run):
    """Cell by cell, by a loop over the run."""
    assert log.step.tolist() == sorted(run)
    for key in writers.TAGS:
        wanted = [numbers.get(key, np.nan) for numbers in run.values()]
        np.testing.assert_array_equal(getattr(log, key), wanted)
    assert np.isnan(log.batch_size).all()
    assert np.isnan(log.tokens).all()


@pytest.mark.parametrize("format", writers.FILES)
@settings(max_examples=25, deadline=None)
@given(run=RUNS)
def test_what_is_written_is_read(format, tmp_path_factory, run):
    folder = tmp_path_factory.mktemp("logs")
    name, write = writers.FILES[format]
    (log,) = st.logs.read_logs(write(folder / name, run))
    assert log.name == "a"
    assert_same(log, run)


@settings(max_examples=25, deadline=None)
@given(runs=st_.lists(RUNS, min_size=1, max_size=3))
def test_charts_of_several_runs_are_joined_by_their_names(tmp_path_factory, runs):
    """Also where a run's name has the separator in it, and runs log at different steps."""
    named = {f"run - {number}": run for number, run in enumerate(runs)}
    paths = writers.write_wandb_charts(tmp_path_factory.mktemp("logs"), named)
    held = [path for path in paths if "__MIN" in path.read_text()]
    logs = {log.name: log for log in st.logs.read_logs(held)}
    assert {log.format for log in logs.values()} == {"W&B chart"}
    for name, run in named.items():
        assert_same(logs[name], run)


@settings(max_examples=15, deadline=None)
@given(run=RUNS)
def test_downloads_of_tags_are_joined(tmp_path_factory, run):
    (log,) = st.logs.read_logs(writers.write_tensorboard_csvs(tmp_path_factory.mktemp("logs"), run))
    assert (log.name, log.format) == ("a", "TensorBoard CSV")
    assert_same(log, run)


RUN = {10 * t: {"loss": 3 + 1 / 2**t, "learning_rate": 1 / 2**t} for t in range(1, 9)} | {85: {"evaluation_loss": 3.25}}


@pytest.mark.parametrize("format", writers.FILES)
def test_a_format_is_known_by_content_and_may_be_compressed(format, tmp_path):
    name, write = writers.FILES[format]
    path = write(tmp_path / name, RUN)
    (plain,) = st.logs.read_logs(path)
    assert plain.format == {"JSON array": "JSON rows", "TensorBoard of tensors": "TensorBoard"}.get(format, format)
    assert np.nanmin(plain.loss) == pytest.approx(3 + 1 / 2**8)
    other = path.rename(tmp_path / "b.log")
    (renamed,) = st.logs.read_logs(other)
    assert (renamed.name, renamed.format) == ("b" if other.is_file() else "b.log", plain.format)
    (small,) = st.logs.read_logs(writers.compressed(other))
    assert small.format == plain.format
    for log in (renamed, small):
        for column in ("step", *writers.TAGS):
            np.testing.assert_array_equal(getattr(log, column), getattr(plain, column))


@pytest.mark.parametrize("format", [name for name in writers.FILES if name != "TensorBoard of tensors"])
def test_a_loss_that_is_no_number_is_told_from_one_that_was_not_logged(format, tmp_path):
    name, write = writers.FILES[format]
    run = {1: {"loss": 2.0}, 2: {"learning_rate": 0.5}, 3: {"loss": float("nan")}, 4: {"loss": float("inf")}}
    (log,) = st.logs.read_logs(write(tmp_path / name, run))
    np.testing.assert_array_equal(log.loss, [2.0, np.nan, np.inf, np.inf])


NONE = float("nan")
UNITS = (1, "1.2M"), (2, "2.4G"), (3, "3.6T")
ROWS = [("b", "y"), ("a", "x"), ("b", "x"), ("a", "y"), ("b", "y"), ("a", "x"), ("c", "x")]
CHART_HEADER = ["epoch", *(f"r - {each}{end}" for each in ("_step", "loss") for end in ("", "__MIN", "__MAX"))]
LONG_ROWS = [json.dumps({"step": t, "loss": 1 / t, "histogram": {"values": [0.5] * 20_000}}) + "\n" for t in (1, 2)]
INNER = [json.dumps({"step": t, "train": {"loss": 2 / t, "tags": ["x"]}}) + "\n" for t in (1, 2)]
READ = {  # what is special → name of the file, its text, options of the reader, attributes of its logs
    "semicolons, a byte order mark, empty lines, short rows and NA for what was not logged": (
        ("a.csv", "\ufeffIteration;Train Loss;lr\n1;2.5;0.1\n\n2;NA;0.1\n3;2.25\n", {}),
        {"step": [[1, 2, 3]], "loss": [[2.5, NONE, 2.25]], "learning_rate": [[0.1, 0.1, NONE]]},
    ),
    "tabs and spaces": (("a.csv", "step\tloss\n 1\t2\n2\t 1\n", {}), {"loss": [[2, 1]]}),
    "the index of pandas": (("a.csv", "Unnamed: 0,step,loss\n0,1,2\n1,2,1\n", {}), {"loss": [[2, 1]]}),
    "columns of one name, and rows with more cells than the header, but for empty ones": (
        ("a.csv", "step,loss,loss,learning_rate\n10,3,1,0.1\n20,2,1,0.1,\n30,2,9,9,3e-4\n40,1,1,0.1,5,6\n", {}),
        {
            "loss": [[3, 2, 2, 1]],
            "remarks": [
                (
                    "2 columns are called 'loss': the first is taken",
                    "2 rows have more cells than the header, which may stand in other columns than they seem to",
                )
            ],
        },
    ),
    "keys of inner objects, and a last line that is being written": (
        ("a.jsonl", f'{INNER[0]}\n{INNER[1]}{{"step": 3, "lo', {}),
        {"loss": [[2, 1]], "columns": [{"step": "step", "loss": "train/loss"}]},
    ),
    "a long first line": (("a.jsonl", "".join(LONG_ROWS), {}), {"loss": [[1, 0.5]]}),
    "charts of W&B over an axis that is no step, beside the steps of the runs": (
        ("a.csv", ",".join(CHART_HEADER) + "\n0.1,10,10,10,3,3,3\n0.2,20,20,20,2,2,2\n", {}),
        {"name": ["r"], "step": [[10, 20]], "loss": [[3, 2]]},
    ),
    "a tag that says nothing is taken for the loss": (
        ("download.csv", "Wall time,Step,Value\n1,10,3\n2,20,2\n", {}),
        {"loss": [[3, 2]], "remarks": [("its name does not say what 'download' is: taken for the loss",)]},
    ),
    "a tag of the learning rate": (
        ("run-.-tag-train_lr.csv", "Wall time,Step,Value\n1,10,3\n2,20,2\n", {}),
        {"learning_rate": [[3, 2]], "remarks": [()]},
    ),
    "runs and groups in the order in which they begin, with rows that lie apart": (
        (
            "a.csv",
            "run,size,step,loss,lr\n" + "".join(f"{run},{g},{t},{t / 8},1\n" for t, (run, g) in enumerate(ROWS)),
            {"group": "size"},
        ),
        {
            "name": ["b", "a", "b", "a", "c"],
            "group": ["y", "x", "x", "y", "x"],
            "step": [[0, 4], [1, 5], [2], [3], [6]],
            "loss": [[0, 0.5], [0.125, 0.625], [0.25], [0.375], [0.75]],
        },
    ),
    "a counter of LLaMA-Factory": (
        (
            "a.jsonl",
            "".join(f'{{"current_steps": {t}, "total_steps": 90, "loss": {t}, "lr": 1}}\n' for t in (1, 2)),
            {},
        ),
        {"step": [[1, 2]], "settings": [{"num_steps": 90}]},
    ),
    "units of a million, a billion and more": (
        (
            "a.log",
            "".join(f"iteration: {k}00 / 20000 | consumed_tokens: {n} | lm_loss: {4 / k:.3f}\n" for k, n in UNITS),
            {},
        ),
        {"tokens": [[1.2e6, 2.4e9, 3.6e12]]},
    ),
}


@pytest.mark.parametrize("special", READ)
def test_tables_as_people_have_them(special, tmp_path):
    (name, text, options), expected = READ[special]
    (tmp_path / name).write_text(text, encoding="utf-8")
    logs = st.logs.read_logs(tmp_path / name, **options)
    for attribute, values in expected.items():
        for log, value in zip(logs, values, strict=True):
            np.testing.assert_equal(getattr(log, attribute), np.array(value) if isinstance(value, list) else value)


def test_many_rows_are_read_piece_by_piece(tmp_path, monkeypatch):
    monkeypatch.setattr("sgdtheory.logs.formats.csv_table.CHUNK", 7)
    (log,) = st.logs.read_logs(writers.write_csv(tmp_path / "a.csv", {t: {"loss": t + 0.5} for t in range(100)}))
    assert log.loss.tolist() == [t + 0.5 for t in range(100)]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "", "a.csv is empty; give a file with rows"),
        ("a.log", " \n\n", "a.log is empty"),
        ("a.txt", "hello\n", r"is a file of no known format; write a CSV file .*'loss'\. Known formats: Hugging"),
        ("a.txt", "step 1: loss 3.0, lr 0.1\n", "is a file of no known format"),
        ("a.csv", "step,loss\n1,low\n", "a.csv, row 1: loss must be a number, got 'low'"),
        ("a.csv", "step,loss,lr\n1,3,1\n2,,1\n3,much,1\n4,more,1\n", r"row 3: .*loss.* must be a number, got 'much'"),
        ("a.csv", "step,loss\n", "has no row below its header"),
        ("a.csv", "epoch,loss\n1,2\n", r"no column counts optimizer steps; name it, step= \(--step\); its columns are"),
        ("a.csv", "when,loss,lr\n1,3,1\n2,3,1\n", "counts optimizer steps; .*its columns are: 'loss', 'lr', 'when'"),
        ("a.csv", "step,loss\n0.5,2\n", "steps must be whole numbers of at least 0, got 0.5"),
        ("a.csv", "step,loss\n-1,2\n", "steps must be whole numbers of at least 0, got -1"),
        ("a.csv", 'step,loss\n1,"2\n3' + "x" * 200_000, "it is no CSV file"),
        (
            "a.jsonl",
            '{"step": 1, "loss": 2}\n{"step": 2, "lo\n{"step": 3}\n',
            'line 2: not a JSON object: \'{"step": 2',
        ),
        ("a.json", '[{"step": 1, "loss": 2},', "it is no whole JSON array"),
        ("a.json", '{"log_history": [{"step": 1,', "it was cut off, take the one of the checkpoint before"),
        ("a.json", '{"log_history": [], "global_step": 5}', "nothing was logged up to step 5"),
        ("a.csv", '"Relative Time (Process)","r - loss","r - loss__MIN"\n1,2,2\n', "export the chart with Step"),
    ],
)
def test_bad_files_are_refused_with_a_sentence(name, text, message, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        st.logs.read_logs(tmp_path / name)


def test_files_that_are_not_there_or_damaged(tmp_path):
    with pytest.raises(ValueError, match="cannot read .*none.csv: No such file"):
        st.logs.read_logs(tmp_path / "none.csv")
    with pytest.raises(ValueError, match="holds no log of a known format"):
        st.logs.read_logs(tmp_path)
    with pytest.raises(ValueError, match="paths must name at least one file"):
        st.logs.read_logs([])
    path = writers.write_parquet(tmp_path / "a.parquet", RUN)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ValueError, match="cannot read .*a.parquet"):
        st.logs.read_logs(path)
    packed = writers.compressed(writers.write_csv(tmp_path / "b.csv", {t: {"loss": t**0.5} for t in range(99)}))
    packed.write_bytes(packed.read_bytes()[:200] + b"x" + packed.read_bytes()[201:])
    with pytest.raises(ValueError, match=r"cannot read .*b.csv.gz: .*; it is damaged, copy the file again"):
        st.logs.read_logs(packed)


def test_a_chart_over_tokens_is_not_taken_for_steps(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("count,r - loss,r - loss__MIN\n1,3,3\n2,2,2\n")
    with pytest.raises(ValueError, match=r"its rows go by 'count'; if that counts steps, name it, step= \(--step\)"):
        st.logs.read_logs(path)
    assert st.logs.read_logs(path, step="count")[0].step.tolist() == [1, 2]
    path.write_text("Step,r - loss\n1,3\n2,2\n")
    assert st.logs.read_logs(path)[0].format == "W&B chart"


def test_a_library_that_is_missing_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(ValueError, match="Parquet files are read by pyarrow, .*: pip install '.*' 'pyarrow>=16'"):
        st.logs.read_logs(writers.write_parquet(tmp_path / "a.parquet", RUN))


def test_folders_of_tensorboard(tmp_path):
    """Each folder with event files is a run; a restart writes another file, whose steps replace those before."""
    writers.write_tensorboard(tmp_path / "runs" / "a", RUN)
    writers.write_tensorboard(tmp_path / "runs" / "b" / "deep", {5: {"loss": 1.5}, 6: {"loss": 1.25}})
    logs = st.logs.read_logs(tmp_path / "runs")
    assert [log.name for log in logs] == ["a", "b/deep"]
    assert_same(logs[0], RUN)
    (alone,) = st.logs.read_logs(next((tmp_path / "runs" / "b" / "deep").iterdir()))
    assert (alone.name, alone.loss.tolist()) == ("deep", [1.5, 1.25])


def test_a_folder_of_logs(tmp_path):
    """At any depth, beside files that are none; a damaged one that is named is refused, one in a folder is left out."""
    for name in ("version_0", "version_1"):
        (tmp_path / name).mkdir()
        writers.write_csv(tmp_path / name / "metrics.csv", RUN)
        (tmp_path / name / "hparams.yaml").write_text("lr: 0.1\n")
    (tmp_path / "sizes.csv").write_text("model,parameters\na,7\n")
    assert [log.name for log in st.logs.read_logs(tmp_path)] == ["version_0/metrics", "version_1/metrics"]


def test_a_folder_of_one_point_is_no_run(tmp_path):
    """TensorBoard's plug-in of hyper-parameters writes such a folder beside the run."""
    writers.write_tensorboard(tmp_path / "a", RUN)
    writers.write_tensorboard(tmp_path / "a" / "1700", {8: {"loss": 1.5}})
    assert [log.name for log in st.logs.read_logs(tmp_path / "a")] == ["a"]


def test_a_format_of_your_own(tmp_path):
    """It is asked before those that are known."""

    class Pairs(st.logs.AbstractLogFormat):
        name = "pairs"

        def recognizes(self, path, head):
            return head.startswith("step,loss")

        def read(self, path, names):
            pairs = [map(float, line.split(",")) for line in path.read_text().splitlines()[1:]]
            steps, losses = zip(*pairs, strict=True)
            return [st.logs.TrainingLog.from_series(path.stem, self.name, {"loss": (steps, losses)})]

    path = tmp_path / "a.csv"
    path.write_text("step,loss\n" + "".join(f"{t},{3 / t}\n" for t in range(1, 7)))
    assert st.logs.read_logs(path)[0].format == "CSV"
    assert st.logs.read_logs(path, formats=[Pairs()])[0].format == "pairs"
    (curve,) = st.read_training_log(path, formats=[Pairs()], learning_rate=0.1)
    assert curve.loss.tolist() == [3 / t for t in range(1, 7)]
    assert st.logs.preview(path, formats=[Pairs()]).logs[0].log.format == "pairs"


def test_a_restart_in_tensorboard(tmp_path):
    folder = writers.write_tensorboard(tmp_path / "a", {t: {"loss": 1.0} for t in (1, 2, 3, 4)})
    first = next(folder.iterdir())
    first.rename(folder / "events.out.tfevents.0000000001.host")
    writers.write_tensorboard(folder, {t: {"loss": 0.5} for t in (3, 4, 5)})
    (log,) = st.logs.read_logs(folder)
    assert log.step.tolist() == [1, 2, 3, 4, 5]
    assert log.loss.tolist() == [1, 1, 0.5, 0.5, 0.5]
    assert log.remarks == ("steps go back to 3 or repeat: 2 rows were replaced by what was logged later",)


def test_logs_in_a_folder_whose_columns_must_be_named(tmp_path):
    """And whose names are wrong: the sentence is of the names, not of the folder."""
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("count,nll\n1,2\n2,1\n")
    assert [log.name for log in st.logs.read_logs(tmp_path, step="count", loss="nll")] == ["a", "b"]
    (tmp_path / "a.csv").write_text("step,loss\n1,2\n2,1\n")
    with pytest.raises(ValueError, match=r"a: no column counts optimizer steps; name it, step="):
        st.logs.read_logs(tmp_path, step="iterations")
