"""Edges of what a table's counters and columns mean: epochs, calls of a logger, validations, runs of one step."""

import json

import numpy as np
import pytest
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from tensorboard.util import tensor_util

import sgdtheory as st
from tests.logs.writers import write_tensorboard


def read(path, rows, **names):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return st.logs.read_logs(path, **names)


def epochs(apart):
    return [
        {"epoch": epoch, "iter": step, "loss": 9 - epoch - step / 600}
        for epoch in range(3)
        for step in range(apart, 501, apart)
    ]


def test_a_counter_of_an_epoch_needs_rows_a_twentieth_of_it_apart(tmp_path):
    (log,) = read(tmp_path / "a.jsonl", epochs(25))
    assert log.step.tolist() == list(range(25, 1501, 25))
    with pytest.raises(ValueError, match="iter begins again with epoch 1; name a count that runs on"):
        read(tmp_path / "a.jsonl", epochs(50))


@pytest.mark.parametrize(
    ("first", "count", "remarked"),
    [(0, 4, False), (0, 5, True), (1, 5, True), (2, 5, False), (0, 999, True), (0, 1000, False)],
)
def test_steps_one_by_one_may_be_calls_of_a_logger(first, count, remarked, tmp_path):
    (log,) = read(tmp_path / "a.jsonl", [{"_step": first + k, "loss": 9 / (k + 2)} for k in range(count)])
    assert bool(log.remarks) == remarked


def test_of_several_kinds_of_validation_the_first_counts(tmp_path):
    """Its losses are those of evaluations unless a column has these; rates and batch sizes of its rows are none."""
    rows = []
    for step in range(10, 60, 10):
        rows += [{"split": "train", "step": step, "loss": 9 - step / 10, "lr": 0.5, "batch_size": 8}]
        rows += [{"split": word, "step": step, "loss": 20 - step, "lr": 0.25} for word in ("Val ", "test")]
    (log,) = read(tmp_path / "a.jsonl", rows)
    assert log.loss.tolist() == [8, 7, 6, 5, 4]
    assert log.evaluation_loss.tolist() == [10, 0, -10, -20, -30]
    assert set(log.learning_rate) == {0.5}
    rows[1] |= {"val_loss": 3.0}
    assert read(tmp_path / "a.jsonl", rows)[0].evaluation_loss.tolist() == [3, 0, -10, -20, -30]
    (alone,) = read(tmp_path / "a.jsonl", [row for row in rows if row["split"] == "test"])
    assert alone.loss.tolist() == [10, 0, -10, -20, -30]


@pytest.mark.parametrize(("repeated", "names"), [(3, ["a"]), (4, ["x", "y"])])
def test_runs_are_separated_where_more_than_a_quarter_of_the_rows_repeat_a_step(repeated, names, tmp_path):
    """12 rows, of which 3 or 4 are of a second run: a restart repeats fewer."""
    rows = [{"name": "x", "step": step, "loss": 9 - step / 10} for step in range(12 - repeated)]
    rows += [{"name": "y", "step": step, "loss": 5 - step / 10} for step in range(repeated)]
    assert [log.name for log in read(tmp_path / "a.jsonl", rows)] == names


@pytest.mark.parametrize(("steps", "runs"), [(4, 12), (5, 1)])
def test_rows_of_few_steps_are_ends_of_runs_of_their_own(steps, runs, tmp_path):
    """12 rows with a name each: of at most a third as many steps they are separated, else a name is no run."""
    rows = [{"name": f"n{k}", "step": k * steps // 12, "loss": 9 - k / 10} for k in range(12)]
    assert len(read(tmp_path / "a.jsonl", rows)) == runs


def test_a_counter_that_goes_back_once_is_a_restart_and_one_that_does_twice_counts_epochs(tmp_path):
    for count, apart, last in ((2, 10, 500), (3, 10, 1500)):
        rows = [{"iter": step, "loss": 9 - k - step / 600} for k in range(count) for step in range(apart, 501, apart)]
        assert read(tmp_path / "a.jsonl", rows)[0].step[-1] == last
    with pytest.raises(ValueError, match="iter begins again 2 times; name a count that runs on, step= .--step.$"):
        read(tmp_path / "a.jsonl", [{"iter": t, "loss": 9 - k - t / 600} for k in range(3) for t in range(50, 501, 50)])


@pytest.mark.parametrize("first", [0, 1])
def test_steps_of_tensorboard_one_by_one_from_0_may_be_calls_of_a_logger(first, tmp_path):
    run = {first + k: {"loss": 9 / (k + 2)} for k in range(9)}
    (log,) = st.logs.read_logs(write_tensorboard(tmp_path / "a", run))
    assert bool(log.remarks) == (first == 0)


def test_a_rate_that_is_infinite_was_not_logged_and_a_loss_is(tmp_path):
    (tmp_path / "a.csv").write_text("step,loss,lr\n1,3,0.5\n2,2,inf\n3,nan,0.25\n")
    (log,) = st.logs.read_logs(tmp_path / "a.csv")
    np.testing.assert_array_equal(log.learning_rate, [0.5, np.nan, 0.25])
    np.testing.assert_array_equal(log.loss, [3, 2, np.inf])


def test_a_bad_cell_is_named_by_its_row_in_the_file_and_not_in_its_piece(tmp_path, monkeypatch):
    monkeypatch.setattr("sgdtheory.logs.formats.csv_table.CHUNK", 4)
    monkeypatch.setattr("sgdtheory.logs.formats.json_rows.CHUNK", 4)
    cells = [str(step / 8) for step in range(12)]
    cells[9] = "much"
    (tmp_path / "a.csv").write_text("step,loss\n" + "".join(f"{k},{cell}\n" for k, cell in enumerate(cells)))
    with pytest.raises(ValueError, match="row 10: loss must be a number, got 'much'"):
        st.logs.read_logs(tmp_path / "a.csv")
    with pytest.raises(ValueError, match="row 10: loss must be a number, got 'much'"):
        read(tmp_path / "a.jsonl", [{"step": k, "loss": cell} for k, cell in enumerate(cells)])


def test_histograms_texts_and_vectors_of_tensorboard_are_no_numbers(tmp_path):
    """They are passed over without a remark, beside numbers in simple values and in tensors."""
    writer = EventFileWriter(str(tmp_path / "a"))
    for step in range(1, 4):
        values = [
            Summary.Value(tag="loss", tensor=tensor_util.make_tensor_proto(np.float32(step / 4))),
            Summary.Value(tag="lr", simple_value=0.5),
            Summary.Value(tag="text", tensor=tensor_util.make_tensor_proto("word")),
            Summary.Value(tag="vector", tensor=tensor_util.make_tensor_proto(np.ones(2, np.float32))),
            Summary.Value(tag="weights", histo=HistogramProto(num=1.0)),
            Summary.Value(tag="picture", image=Summary.Image(height=1)),
        ]
        writer.add_event(Event(wall_time=1.7e9 + step, step=step, summary=Summary(value=values)))
    writer.close()
    (log,) = st.logs.read_logs(tmp_path / "a")
    assert log.loss.tolist() == [0.25, 0.5, 0.75]
    assert log.learning_rate.tolist() == [0.5] * 3
    assert (log.unused, log.remarks) == ((), ())
