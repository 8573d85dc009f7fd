"""Files that are damaged, cut off, or made to cost much: read with a remark, or refused in one sentence."""

import contextlib
import gzip
import json
import os
import pickle
import threading
import time
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sgdtheory as st
from sgdtheory._common import files as common
from sgdtheory.logs import files
from sgdtheory.logs.formats import parquet
from sgdtheory.logs.formats.registry import FORMATS
from tests import marks
from tests.logs import writers

RUN = {t: {"loss": 2 + 10 / t, "learning_rate": 0.01} for t in range(10, 4010, 10)}
DEEP = "[" * 100_000 + "]" * 100_000
NESTED = '{"a":' * 100_000 + "1" + "}" * 100_000


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.jsonl", '{"step": 1, "loss": 2}\n' + NESTED + '\n{"step": 2, "loss": 1}\n'),
        ("b.jsonl", NESTED + "\n"),
        ("c.json", '[{"step": 1, "loss": ' + DEEP + "}]"),
        ("trainer_state.json", '{"log_history": ' + DEEP + "}"),
        ("d.jsonl", '{"step": 1' + "0" * 10_000 + "}\n{}\n"),
        ("e.log", '{"tracker": "json_logger", "event": "log", "metrics": ' + NESTED + "}\n"),
    ],
)
def test_json_that_is_nested_too_deeply(name, text, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=name.partition(".")[0]):
        st.logs.read_logs(tmp_path / name)


@pytest.mark.parametrize("history", [3, [3], {"a": 1}, "x", [["step"]]])
def test_a_trainer_state_of_another_shape(history, tmp_path):
    path = tmp_path / "trainer_state.json"
    path.write_text(json.dumps({"log_history": history}))
    with pytest.raises(ValueError, match="must have a list of objects, a logged step each, as its log_history"):
        st.logs.read_logs(path)


@pytest.mark.parametrize("setting", [{"warmup_steps": "x"}, {"warmup_ratio": []}, {"world_size": {}}, {"optim": 3}])
def test_settings_of_another_kind_are_not_taken(setting, tmp_path):
    rows = [{"step": t, "loss": 1.0, "learning_rate": 0.1} for t in (1, 2, 3)]
    state = {"log_history": rows, "max_steps": [1], "train_batch_size": "8"}
    (tmp_path / "trainer_state.json").write_text(json.dumps(state))
    (tmp_path / "training_args.json").write_text(json.dumps(setting))
    (log,) = st.logs.read_logs(tmp_path)
    assert log.settings == {}


def cut(path, share=0.5):
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    return path


def random_run(rows=4000):
    rng = np.random.default_rng(0)
    return {t: {"loss": float(rng.random()), "learning_rate": float(rng.random())} for t in range(1, rows)}


def write_lines(path, run):
    lines = [f"step {t}, loss: {row['loss']!r}, lr: {row['learning_rate']!r}" for t, row in run.items()]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("write", [writers.write_csv, writers.write_json_lines, write_lines])
def test_a_compressed_log_that_was_cut_is_read_up_to_there(write, tmp_path):
    """Its rows are those of the whole one, none of them half a number."""
    run = random_run()
    path = write(tmp_path / "a.log", run)
    (whole,) = st.logs.read_logs(path)
    (found,) = st.logs.read_logs(cut(writers.compressed(path)))
    count = found.step.size
    assert 0.4 * whole.step.size < count < 0.6 * whole.step.size
    np.testing.assert_array_equal(found.loss, whole.loss[:count])
    assert found.remarks == ("a.log.gz ends within its compressed content: what came after it is missing",)
    assert not whole.remarks


def test_a_compressed_log_of_several_members(tmp_path):
    """`cat a.gz b.gz` makes such a log, and tapes add zeros at the end."""
    path = writers.write_csv(tmp_path / "a.csv", random_run())
    content = path.read_bytes()
    packed = tmp_path / "b.csv.gz"
    packed.write_bytes(gzip.compress(content[:5000]) + gzip.compress(b"") + gzip.compress(content[5000:]) + b"\0" * 99)
    (found,), (whole,) = st.logs.read_logs(packed), st.logs.read_logs(path)
    np.testing.assert_array_equal(found.loss, whole.loss)
    assert found.remarks == ()


def test_compressed_files_that_unpack_to_too_much(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MOST_BYTES", 4 << 20)
    line = tmp_path / "line.csv.gz"
    with gzip.open(line, "wb", compresslevel=1) as file:
        file.write(b"step,loss\n1,2\n")
        file.write(b"3" * (1 << 21))
    with pytest.raises(ValueError, match="line.csv.gz has a line of more than 1,048,576 characters"):
        st.logs.read_logs(line)
    events = tmp_path / "events.out.tfevents.1.gz"
    first = next(writers.write_tensorboard(tmp_path / "tb", {1: {"loss": 1.0}}).iterdir()).read_bytes()
    with gzip.open(events, "wb", compresslevel=1) as file:
        file.write(first)
        file.write(bytes(9 << 20))
    with pytest.raises(ValueError, match=r"events.* unpacks to more than 4 MiB; .* with gunzip"):
        st.logs.read_logs(events)
    rows = tmp_path / "rows.csv.gz"
    with gzip.open(rows, "wb", compresslevel=1) as file:
        file.write(b"step,loss\n" + b"1.000000000000,2.000000000000\n" * (1 << 19))
    with pytest.raises(ValueError, match=r"rows.csv.gz unpacks to more than 4 MiB"):
        st.logs.read_logs(rows)


def write_array(path, run):
    path.write_text(json.dumps([{"step": t, **row} for t, row in run.items()]))
    return path


def write_state(path, run):
    path.write_text(json.dumps({"log_history": [{"step": t, **row} for t, row in run.items()]}))
    return path


TEXTS_OF_ROWS = {
    "a.csv": writers.write_csv,
    "a.jsonl": writers.write_json_lines,
    "a.json": write_array,
    "a.log": write_lines,
    "trainer_state.json": write_state,
}


@pytest.mark.parametrize("name", TEXTS_OF_ROWS)
def test_a_text_that_is_too_large_is_refused_with_a_remedy(name, tmp_path, monkeypatch):
    """The same two limits hold for all texts; a folder says that it holds such a log, which it does not leave out."""
    path = TEXTS_OF_ROWS[name](tmp_path / name, RUN)
    remedy = rf"keep fewer columns, or every tenth line: awk 'NR % 10 == 1' \S+ > shorter-{name}"
    (whole,) = st.logs.read_logs(path)
    assert whole.step.size == len(RUN)
    monkeypatch.setattr(common, "MOST_ROWS", len(RUN) + 2)
    assert st.logs.read_logs(path)[0].step.size == len(RUN)
    monkeypatch.setattr(common, "MOST_ROWS", len(RUN) - 2)
    with pytest.raises(ValueError, match=rf"{name} has more than {len(RUN) - 2} rows, more than is read; {remedy}$"):
        st.logs.read_logs(path)
    monkeypatch.setattr(common, "MOST_BYTES", 1 << 10)
    with pytest.raises(ValueError, match=rf"{name} has more than 0 MiB of text, more than is read; {remedy}"):
        st.logs.read_logs(path)
    with pytest.raises(ValueError, match=rf"{name} has more than 0 MiB of text"):
        st.logs.read_logs(tmp_path)


def test_a_large_file_that_is_no_log_does_not_stop_its_folder(tmp_path, monkeypatch):
    writers.write_csv(tmp_path / "a.csv", RUN)
    (tmp_path / "corpus.txt").write_text("Once upon a time\n" * 1000)
    monkeypatch.setattr(common, "MOST_BYTES", 15_000)
    assert (tmp_path / "corpus.txt").stat().st_size > 15_000 > (tmp_path / "a.csv").stat().st_size
    assert st.logs.read_logs(tmp_path)[0].step.size == len(RUN)


@pytest.mark.parametrize("read", [st.read_loss_grid, st.read_measurements, st.read_loss_curves])
def test_a_table_that_is_too_large_is_refused(read, tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    path.write_text("step,loss,learning_rate,batch_size,steps,samples\n" + "1,1,1,1,1,1\n" * 20)
    monkeypatch.setattr(common, "MOST_ROWS", 10)
    with pytest.raises(ValueError, match=r"a.csv has more than 10 rows, more than is read; keep fewer columns"):
        read(path)
    monkeypatch.setattr(common, "MOST_BYTES", 100)
    with pytest.raises(ValueError, match=r"a.csv has more than 0 MiB of text"):
        read(path)


@pytest.mark.slow
def test_a_log_of_a_million_rows_is_read(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("step,loss,learning_rate\n" + "".join(f"{t},{2 + 1 / t:.5f},0.01\n" for t in range(1, 1_000_001)))
    begun = time.process_time()
    (log,) = st.logs.read_logs(path)
    assert time.process_time() - begun < 5
    assert log.step.size == 1_000_000
    np.testing.assert_allclose(log.loss, 2 + 1 / log.step, atol=1e-5)


def test_lines_end_where_they_ended(tmp_path):
    """Lines are read in blocks of 64 KiB, which may end between the two characters of an end of a line."""
    run = {t: {"loss": 2 + 1 / t, "learning_rate": 0.01} for t in range(1, 9000)}
    path = writers.write_csv(tmp_path / "a.csv", run)
    text = path.read_bytes().replace(b"\r\n", b"\n")
    assert len(text) > 3 * files.HEAD
    (whole,) = st.logs.read_logs(path)
    for end in b"\n", b"\r\n", b"\r":
        for before in range(12):
            path.write_bytes(b" " * before + text.replace(b"\n", end))
            with files.open_text(path) as file:
                lines = [*file]
            assert len(lines) == len(run) + 1
            assert {line[-len(end) :] for line in lines} == {end.decode()}
        path.write_bytes(text.replace(b"\n", end))
        np.testing.assert_array_equal(st.logs.read_logs(path)[0].loss, whole.loss)


def test_a_parquet_file_of_more_rows_than_fit(tmp_path, monkeypatch):
    """One number repeated takes no room in the file."""
    monkeypatch.setattr(parquet, "MOST_NUMBERS", 1 << 20)
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({name: np.zeros(1 << 20) for name in ("step", "loss", "lr")}), path)
    assert path.stat().st_size < 1 << 16
    with pytest.raises(ValueError, match=r"a.parquet: it unpacks to 3,145,728 numbers, .* at most 1,048,576 .* alone$"):
        st.logs.read_logs(path)


@pytest.mark.parametrize("read", [st.logs.read_logs, st.read_loss_grid, st.read_measurements, st.read_spectrum])
def test_a_pipe_is_refused(read, tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    result = []

    def go():
        try:
            read(tmp_path / "pipe.csv")
        except ValueError as error:
            result.append(str(error))

    thread = threading.Thread(target=go, daemon=True)  # which would wait without an end
    thread.start()
    thread.join(30)
    assert len(result) == 1
    assert "pipe.csv is a pipe, a device or a socket: write its content to a file" in result[0]


@pytest.mark.parametrize("packed", [True, False])
def test_training_arguments_of_a_billion_operations(packed, tmp_path):
    rows = [{"step": t, "loss": 1.0, "learning_rate": 0.1} for t in (1, 2, 3)]
    (tmp_path / "trainer_state.json").write_text(json.dumps({"log_history": rows}))
    head = pickle.dumps({"weight_decay": 0.25}, protocol=2)[:-1]
    saved = tmp_path / "training_args.bin"
    if packed:
        with zipfile.ZipFile(saved, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            archive.writestr("a/data.pkl", head + b"N" * (100 << 20))
    else:
        saved.write_bytes(head + b"N" * (8 << 20))
    begun = time.process_time()
    (log,) = st.logs.read_logs(tmp_path)
    assert time.process_time() - begun < 5
    assert log.settings["weight_decay"] == 0.25


def test_remarks_reach_every_command(tmp_path, capsys):
    from sgdtheory import cli

    path = tmp_path / "a.csv"
    header = "run,step,loss,loss,learning_rate,batch_size,g2"
    rows = [
        f"r{batch},{t},{2 + 30 * (t / (1 + 200 / batch)) ** -0.5},1,0.01,{batch},{1 + 1 / t}"
        for batch in (16, 64, 256, 1024)
        for t in range(20, 4000, 40)
    ]
    path.write_text("\n".join([header, *rows]) + "\n")
    one = tmp_path / "one.csv"
    one.write_text("\n".join([header, *rows[:99]]) + "\n")
    for words in (
        ("fit", path, "--target-loss", "3.5", "--loss", "loss"),
        ("fit-grid", path, "--loss", "loss"),
        ("fit-curves", path, "--preview"),
        ("advise", one, "--new-batch-size", "64", "--optimizer", "sgd"),
    ):
        with contextlib.suppress(SystemExit):
            cli.main([str(word) for word in words])
        out, err = capsys.readouterr()
        assert "2 columns are called 'loss'" in " ".join((out + err).split()), (words, err)


LONG = 1 << 14
BEGINNINGS = [
    "iteration ", "step", "step: ", "loss ", "loss=", "lr: 1", "iter 1: loss ", "epoch 1,", "0: ", "\x1b[", "'", '"',
    " iteration 1/ 1 |", "validation loss at iteration 1", "validation-", "---- arguments ", "  lr ...... ",
    "{", "{'loss': ", "{'loss': 1, 'epoch': ", "{'train_runtime': ", "'epoch': ", "Total train batch size (", "1%|",
    '{"tracker": "json_logger", "event": "log"', "Progress on:train 1it/", "train: 1%|", "train: 1%|| 1/",
    "completed step: 1, ", "completed step: 1, seconds: ", "Config param a", "step:1/1 train_loss:", "  a: int = ",
    "step 1: train loss 1", "x = ", "x = a", "tokens per iteration will be: ", "[step=1/", "    a", "    a=",
    "step: 1  loss: 1  ", "step: 1  loss: 1  grad_norm: ", "Trainer is initialized with ", '  "lr": ', "[titan] ",
    "Training epoch 1, iteration 1/1 |", "global_step: ",
]  # fmt: skip
OTHERS = ["", " ", "1,", "a", "=", "-", ".", "x=", "'", "{", "|"]


TEXTS = [each for each in FORMATS if hasattr(each, "entries") or each.name == "lines of keys and values"]


@pytest.mark.parametrize("filler", ["1", *map(marks.slow, OTHERS)], ids=repr)
def test_long_lines_take_no_time(filler, tmp_path):
    """A pattern that tries a place again for each place before makes 2^28 trials, which take 8 seconds, not 2^14.

    What begins an entry comes once before a long run of one character, or again and again.
    """
    path = tmp_path / "a.log"
    for beginning in BEGINNINGS:
        line = (beginning + (filler or beginning) * LONG)[:LONG]
        path.write_text(f"step: 1 loss: 2\nstep: 2 loss: 2\nstep: 3 loss: 2\n{line} end\n{line}x\n")
        for each in TEXTS:
            begun = time.process_time()
            each.recognizes(path, line)
            with contextlib.suppress(ValueError):
                each.read(path, st.logs.ColumnNames())
            assert time.process_time() - begun < 2, (each.name, beginning)


def test_a_label_that_repeats_in_no_room(tmp_path):
    """5,000 rows of one text of 1 MiB: 5 GiB once they are unpacked, and 20 as an array of texts of one width."""
    path = tmp_path / "a.parquet"
    label = pa.DictionaryArray.from_arrays(pa.array(np.zeros(5000, np.int32)), pa.array(["x" * (1 << 20)]))
    pq.write_table(pa.table({"step": np.arange(5000), "loss": np.ones(5000), "run": label}), path)
    begun = time.process_time()
    (log,) = st.logs.read_logs(path)
    assert time.process_time() - begun < 5
    assert (log.step.size, log.name) == (5000, "x" * 200)


def test_a_small_file_of_short_rows_that_unpack_to_much_is_refused_at_once(tmp_path):
    rows = tmp_path / "rows.csv.gz"
    with gzip.open(rows, "wb", compresslevel=1) as file:
        file.write(b"step,loss\n")
        for _ in range(80):
            file.write(b"1,2\n" * (1 << 18))
    begun = time.process_time()
    with pytest.raises(ValueError, match=r"rows.csv.gz unpacks to more than 64 MiB"):
        st.logs.read_logs(rows)
    assert time.process_time() - begun < 5


@pytest.mark.parametrize("write", [writers.write_csv, writers.write_json_lines, write_lines])
def test_a_line_of_many_spaces_is_blank(write, tmp_path):
    path = write(tmp_path / "a.log", RUN)
    text = path.read_text()
    (whole,) = st.logs.read_logs(path)
    middle = text.index("\n", len(text) // 2) + 1
    path.write_text(text[:middle] + " " * 200_000 + "\n" + text[middle:])
    begun = time.process_time()
    (found,) = st.logs.read_logs(path)
    assert time.process_time() - begun < 5
    np.testing.assert_array_equal(found.loss, whole.loss)
