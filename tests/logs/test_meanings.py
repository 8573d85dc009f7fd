"""Columns of real logs: counters, units, epochs, runs and seeds, gaps of nan, schedules, and what a file is."""

import json

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

import sgdtheory as st
from tests.logs.text_writers import PRINTINGS, megatron, random_run


def loss(step):
    return 2 + 9 * (1 + step / 10) ** -0.35


def read(path, text, **names):
    path.write_text(text)
    (log,) = st.logs.read_logs(path, **names)
    return log


def epoch_rows(length=500, apart=10, epochs=4, first=1, **more):
    """A counter `iter` of an epoch, with rows of validation whose `iter` counts their own batches."""
    rows = []
    for epoch in range(epochs):
        for step in range(apart if first else 0, length + first, apart):
            rows.append(
                {"mode": "train", "epoch": epoch + 1, "iter": step, "lr": 3e-4, "loss": loss(epoch * length + step)}
            )
            rows[-1] |= dict.fromkeys(more, epoch * length + step)
        rows.append({"mode": "val", "epoch": epoch + 1, "iter": 25, "lr": 1.0, "loss": 7.0 - epoch})
    return rows


def as_json(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def as_csv(rows):
    header = list(rows[0])
    return "\n".join(",".join(str(row[key]) for key in header) for row in [dict(zip(header, header)), *rows]) + "\n"


def as_text(rows):
    return "".join(
        f"epoch: {row['epoch']} iter: {row['iter']} loss: {row['loss']} lr: 3e-4\n"
        for row in rows
        if row["mode"] == "train"
    )


@pytest.mark.parametrize(("write", "name"), [(as_json, "a.jsonl"), (as_csv, "a.csv"), (as_text, "a.log")])
@pytest.mark.parametrize("first", [0, 1])
def test_a_counter_that_begins_again_with_each_epoch_is_counted_on(write, name, first, tmp_path):
    log = read(tmp_path / name, write(epoch_rows(first=first)))
    steps, losses = log.series("loss")
    np.testing.assert_array_equal(steps, np.arange(10 if first else 0, 2000 + first, 10))
    np.testing.assert_allclose(losses, loss(steps))
    (remark,) = log.remarks
    assert remark.startswith("'iter' begins again with each epoch: it is counted on, with 500 steps an epoch")
    if write is not as_text:
        evaluated, values = log.series("evaluation_loss")
        assert (evaluated.tolist(), values.tolist()) == ([500, 1000, 1500, 2000], [7, 6, 5, 4])
        assert set(log.series("learning_rate")[1]) == {3e-4}
    given = read(tmp_path / name, write(epoch_rows(first=first)), step="iter+epoch*500")
    np.testing.assert_array_equal(given.series("loss")[0], steps)


@pytest.mark.parametrize("write", [as_json, as_csv])
def test_a_counter_that_runs_on_is_preferred(write, tmp_path):
    log = read(tmp_path / "a.log", write([row for row in epoch_rows(step=1) if row["mode"] == "train"]))
    assert (log.columns["step"], log.step[-1], log.remarks) == ("step", 2000, ())


def test_epochs_of_few_rows_are_refused(tmp_path):
    for write in (as_json, as_csv):
        with pytest.raises(ValueError, match=r"iter begins again with epoch 2; .* step='iter\+epoch\*N'"):
            read(tmp_path / "a.log", write(epoch_rows(apart=100)))


def test_a_counter_that_begins_again_without_a_column_of_epochs(tmp_path):
    """Runs that were appended are none: their loss begins anew; nor is a restart, which goes back elsewhere."""
    rows = [(step, loss(500 * epoch + step)) for epoch in range(3) for step in range(10, 510, 10)]
    text = "step,loss\n" + "".join(f"{step},{value}\n" for step, value in rows)
    assert read(tmp_path / "a.csv", text).step[-1] == 1500
    appended = "step,loss\n" + "".join(f"{step},{loss(step)}\n" for _ in range(3) for step in range(10, 510, 10))
    assert read(tmp_path / "a.csv", appended).step[-1] == 500
    again = [*range(10, 510, 10), *range(310, 510, 10), *range(310, 710, 10)]
    log = read(tmp_path / "a.csv", "step,loss\n" + "".join(f"{step},{loss(step)}\n" for step in again))
    assert log.step.tolist() == [*range(10, 710, 10)]


def test_a_series_by_epoch_is_asked_for_its_steps(tmp_path):
    text = "epoch,loss,val_loss\n" + "".join(f"{epoch},{loss(epoch)},3\n" for epoch in range(8))
    with pytest.raises(
        ValueError, match=r"no column counts optimizer steps.*; if an epoch has N steps, give step='epoch\*N'"
    ):
        read(tmp_path / "a.csv", text)
    assert read(tmp_path / "a.csv", text, step="epoch*391+391").step.tolist() == [391 * k for k in range(1, 9)]
    for wrong in ("epochs*391", "epoch*", "3+4"):
        with pytest.raises(ValueError, match="no column counts optimizer steps"):
            read(tmp_path / "a.csv", text, step=wrong)


def keras(folder, tags):
    """Tag → (steps, values), as Keras' callback writes them."""
    writer = EventFileWriter(str(folder))
    for tag, (steps, values) in tags.items():
        for step, value in zip(steps, values, strict=True):
            summary = Summary(value=[Summary.Value(tag=tag, simple_value=value)])
            writer.add_event(Event(step=int(step), wall_time=1.6e9 + step, summary=summary))
    writer.close()


def test_keras_series_by_epoch(tmp_path):
    """Refused without the steps of an epoch, which its evaluations may tell; validation is the same run's."""
    epochs = np.arange(8)
    keras(
        tmp_path / "logs" / "train",
        {"epoch_loss": (epochs, loss(epochs)), "epoch_learning_rate": (epochs, 0 * epochs + 0.5)},
    )
    keras(tmp_path / "logs" / "validation", {"epoch_loss": (epochs, 1 + loss(epochs))})
    with pytest.raises(ValueError, match=r"train: 'epoch_loss' goes by epochs, 0 … 7; .* step='step\*N\+N'"):
        st.logs.read_logs(tmp_path / "logs")
    (log,) = st.logs.read_logs(tmp_path / "logs", step="step*391+391")
    assert (log.name, log.step.tolist()) == ("logs", [391 * (epoch + 1) for epoch in epochs])
    np.testing.assert_allclose(log.evaluation_loss, log.loss + 1, rtol=1e-6)
    assert log.has("learning_rate")
    both = {"epoch_loss": (epochs, loss(epochs)), "evaluation_loss_vs_iterations": (50 * (epochs + 1), loss(epochs))}
    keras(tmp_path / "other" / "train", {"epoch_loss": (epochs, loss(epochs))})
    keras(tmp_path / "other" / "validation", both)
    (log,) = st.logs.read_logs(tmp_path / "other")
    assert log.series("loss")[0].tolist() == log.series("evaluation_loss")[0].tolist() == [50 * (k + 1) for k in epochs]
    assert any("goes by epochs, of 50 steps" in remark for remark in log.remarks)


def test_calls_of_log_are_remarked(tmp_path):
    chart = '"Step","a - train/loss","a - train/loss__MIN"\n' + "".join(f'"{k}","{loss(k)}","1"\n' for k in range(120))
    (remark,) = read(tmp_path / "a.csv", chart).remarks
    assert remark.startswith("'Step' is 0, 1, 2, …: it may count calls of log")
    assert "step='Step*N'" in remark
    log = read(tmp_path / "a.csv", chart, step="Step*200")
    assert (log.step[-1], log.columns["step"], log.remarks) == (23_800, "Step*200", ())
    assert read(tmp_path / "b.jsonl", as_json([{"_step": k, "loss": loss(k)} for k in range(9)])).remarks
    for apart in ([10 * k for k in range(9)], range(1000, 1009)):
        assert not read(tmp_path / "b.jsonl", as_json([{"_step": k, "loss": loss(k)} for k in apart])).remarks


def test_columns_that_separate_runs_are_tested(tmp_path):
    """A table of runs whose run_name is shared by seeds; seeds of one table; a restart, which stays one run."""
    rows = [
        {
            "Name": f"sky-{k}-{seed}",
            "run_name": f"lr{k}",
            "seed": seed,
            "iter": 20_000,
            "batch_size": 2**k,
            "train/loss": 2.5 + k,
        }
        for k in range(3)
        for seed in range(4)
    ]
    (tmp_path / "a.csv").write_text(as_csv(rows))
    logs = st.logs.read_logs(tmp_path / "a.csv")
    assert [log.name for log in logs] == [row["Name"] for row in rows]
    assert logs[0].remarks == ("runs are separated by 'Name': rows of one 'run_name' have the same step",)
    for row in rows:
        row["Name"] = "same"
    (tmp_path / "a.csv").write_text(as_csv(rows))
    assert [log.name for log in st.logs.read_logs(tmp_path / "a.csv")][:2] == ["lr0, seed 0", "lr0, seed 1"]
    (tmp_path / "a.csv").write_text(
        as_csv([{"step": t, "seed": seed, "loss": loss(t)} for t in range(9) for seed in (3, 5)])
    )
    assert [(log.name, log.step.size) for log in st.logs.read_logs(tmp_path / "a.csv")] == [
        ("a, seed 3", 9),
        ("a, seed 5", 9),
    ]
    again = [*range(10, 500, 10), *range(400, 900, 10)]
    (tmp_path / "a.csv").write_text(
        as_csv([{"step": t, "id": k, "seed": 0, "loss": loss(t)} for k, t in enumerate(again)])
    )
    assert [log.name for log in st.logs.read_logs(tmp_path / "a.csv")] == ["a"]


def test_tokens_that_grow_on():
    steps = np.arange(10.0, 110, 10)
    series = {
        "loss": (steps, 3 + 1 / steps),
        "learning_rate": (steps, 0 * steps + 1),
        "tokens": (steps[:4], 700 * steps[:4]),
    }
    curve = st.logs.loss_curve(st.logs.TrainingLog.from_series("a", "test", series))
    np.testing.assert_allclose(curve.tokens, 700 * steps)
    assert curve.remark == "tokens are logged up to step 40, and are taken to grow on at the same pace"


def test_consumed_tokens_of_megatron_deepspeed(tmp_path):
    run = random_run(0)
    lines = [
        line.replace(
            " | elapsed", f" | consumed tokens: {int(line.split('samples:')[1].split('|')[0]) * 128:12d} | elapsed"
        )
        for line in megatron(run)
        if "consumed samples" in line
    ]
    log = read(tmp_path / "a.log", "\n".join(lines) + "\n")
    np.testing.assert_array_equal(log.tokens[~np.isnan(log.tokens)], run.steps * run.batch * 128)
    assert log.settings["sequence_length"] == 128


def test_nan_for_blank_is_a_gap_and_at_the_end_a_divergence(tmp_path):
    """The table was written without blanks; a training loss beside an evaluation at the same step stays."""
    rows = [{"_step": t, "train/loss": loss(t), "eval/loss": np.nan} for t in range(10, 210, 10)]
    rows += [{"_step": t, "train/loss": np.nan, "eval/loss": 3.0} for t in (100, 200)]
    rows.sort(key=lambda row: row["_step"])
    (tmp_path / "a.jsonl").write_text(as_json(rows))
    (log,) = st.logs.read_logs(tmp_path / "a.jsonl")
    np.testing.assert_array_equal(log.loss, loss(np.arange(10, 210, 10.0)))
    assert log.series("evaluation_loss")[0].tolist() == [100, 200]
    assert log.remarks == (
        "'eval/loss' is nan or inf in 18 rows between steps 10 and 190, and finite later: 18 rows are taken as not "
        "logged",
    )
    diverged = read(
        tmp_path / "b.csv", "step,lr,loss\n" + "".join(f"{t},1,{'nan' if t > 6 else loss(t)}\n" for t in range(1, 10))
    )
    assert np.isinf(diverged.loss[6:]).all()
    assert diverged.remarks == ()
    for use in ("curves", "grid"):
        text = " ".join(str(st.logs.preview(tmp_path / "b.csv", use=use)).split())
        assert "∞" not in text
        assert ("cut at step 7" if use == "curves" else "the loss is nan or inf from step 7 on") in text


@pytest.mark.parametrize("values", [[3, 2, -1, 1, 1, 1], [3, 2, 0, 1, 1, 1], [-3, -4, -5, -6, -7, -8]])
def test_losses_that_are_not_positive_are_named(values, tmp_path):
    log = read(
        tmp_path / "a.csv",
        "step,lr,nll\n" + "".join(f"{10 * t},1,{value}\n" for t, value in enumerate(values)),
        loss="nll",
    )
    count = sum(value <= 0 for value in values)
    for use in (st.logs.loss_curve, lambda log: st.logs.loss_grid([log], batch_size=1)):
        with pytest.raises(ValueError, match=f"losses must be positive, and 'nll' is 0 or less in {count} of 6 rows"):
            use(log)


def test_zeros_at_the_end_are_a_run_that_was_lost():
    steps = np.arange(1.0, 10)
    series = {"loss": (steps, np.where(steps > 6, 0, loss(steps))), "learning_rate": (steps, steps * 0 + 1)}
    assert st.logs.loss_curve(st.logs.TrainingLog.from_series("a", "test", series)).step[-1] == 6


def test_schedules_that_a_log_prints_are_applied_and_others_remarked(tmp_path):
    """To a learning rate that is given as a number."""
    run = random_run(0)
    (tmp_path / "a.log").write_text(PRINTINGS["torchtitan"].text(run))  # it says (warmup 200)
    (curve,) = st.read_training_log(tmp_path / "a.log", learning_rate=8e-4)
    np.testing.assert_allclose(curve.learning_rate, 8e-4 * np.minimum(run.steps / 200, 1))
    assert curve.warmup == run.steps[0]
    assert curve.assumed[0] == "the learning rate 0.0008 rises over 200 steps, as the log says"
    assert "torchtitan decays it linearly by default" in curve.assumed[1]
    text = PRINTINGS["modded-nanogpt"].text(run)
    down = text.replace(
        "    sequence_length",
        "    num_iterations : int = 1000\n    warmdown_iters : int = 900 # linear\n    sequence_length",
    )
    (tmp_path / "a.log").write_text(down.replace("/10000", "/1000"))
    (curve,) = st.read_training_log(tmp_path / "a.log", learning_rate=1.0)
    np.testing.assert_allclose(curve.learning_rate, np.clip((1000 - curve.step) / 900, 0, 1))
    assert curve.assumed[0] == "the learning rate 1 falls to 0 over the last 900 of 1000 steps, as the log says"
    (tmp_path / "a.log").write_text(text)
    (curve,) = st.read_training_log(tmp_path / "a.log", learning_rate=1.0)
    assert set(curve.learning_rate) == {1}
    assert "decays it linearly to 0 over its last steps by default" in curve.assumed[0]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_files_in_utf_16(encoding, tmp_path):
    mark = "" if encoding == "utf-16" else "\ufeff"
    for text in (
        as_csv([{"step": t, "loss": loss(t)} for t in range(9)]),
        "".join(f"step: {t}, loss: {loss(t)}\r\n" for t in range(9)),
    ):
        (tmp_path / "a.log").write_bytes((mark + text).encode(encoding))
        (log,) = st.logs.read_logs(tmp_path / "a.log")
        np.testing.assert_allclose(log.loss, loss(np.arange(9.0)))


def test_pointers_of_git_lfs_are_named(tmp_path):
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5048\n"
    events = tmp_path / "runs" / "a" / "events.out.tfevents.1.host"
    events.parent.mkdir(parents=True)
    events.write_text(pointer)
    for path in (events, tmp_path / "runs"):
        with pytest.raises(ValueError, match=r"events.* is a Git LFS pointer, .* git lfs pull"):
            st.logs.read_logs(path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "model.bin").write_text(pointer)
    with pytest.raises(ValueError, match="holds no log of a known format; model.bin is a Git LFS pointer"):
        st.logs.read_logs(tmp_path / "out")
    (tmp_path / "out" / "model.bin").rename(tmp_path / "out" / "training_args.bin")
    rows = [{"step": t, "loss": loss(t), "learning_rate": 1} for t in range(1, 9)]
    (tmp_path / "out" / "trainer_state.json").write_text(json.dumps({"log_history": rows}))
    (log,) = st.logs.read_logs(tmp_path / "out")
    assert log.remarks == (
        "training_args.bin is a Git LFS pointer, not the file itself: git lfs pull fetches the settings in it",
    )


def test_a_text_log_is_not_taken_for_csv(tmp_path):
    """DeepSpeed's lines have steps and learning rates, and no loss."""
    first = "[2026-01-02 15:45:19,529] [INFO] [accelerator.py:222:get] Setting accelerator to cuda\n"
    lines = [
        f"[2026-01-02 15:46:10,110] [INFO] [Rank 0] step={t}, skipped=0, lr=[5e-05, 5e-05]\n" for t in range(10, 60, 10)
    ]
    log = read(tmp_path / "a.log", first + "".join(lines))
    assert (log.step.tolist(), log.has("loss")) == ([10, 20, 30, 40, 50], False)
    with pytest.raises(ValueError, match="no training loss is recognized"):
        st.logs.loss_curve(log)


@pytest.mark.parametrize("kind", [pa.int64(), pa.string()])
def test_runs_of_a_parquet_file_by_number_or_by_name(tmp_path, kind):
    cells = pa.array([7, 7, 8, 8, 8]).cast(kind)
    columns = {"run": cells, "step": pa.array([1, 2, 1, 2, 3]), "loss": pa.array([5.0, 4.0, 3.0, 2.0, 1.0])}
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    found = {log.name: log.loss.tolist() for log in st.logs.read_logs(tmp_path / "a.parquet")}
    assert found == {"7": [5, 4], "8": [3, 2, 1]}


def test_tables_without_rows_or_without_a_number_of_a_log(tmp_path):
    for text in ("step,other\n1,2\n2,3\n", "step,loss,run\n1,,a\n2,,a\n"):
        log = read(tmp_path / "a.csv", text)
        assert log.step.size == 0
    parquet.write_table(
        pa.table({"step": pa.array([], pa.int64()), "loss": pa.array([], pa.float64())}), tmp_path / "a"
    )
    assert [(log.name, log.step.size) for log in st.logs.read_logs(tmp_path / "a")] == [("a", 0)]
