"""Runs that stop and go on: the same bits as one that never stopped."""

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import pytest

from sgdtheory._common.files import csv_number
from sgdtheory.training import Run, read_weights, resume, train
from sgdtheory.training.checkpoint import write_checkpoint
from sgdtheory.training.engine import init, initial_program, stacked
from sgdtheory.training.history import History
from tests.runs import changed, run_of

CONFIG = run_of(
    width=16, base_width=8, depth=1, input_dim=4, batch_size=4, holdout_size=16, max_steps=50, eval_every=20,
    averages=(0.5, 0.9), uniform_average=True,
)  # fmt: skip
LONG = changed(CONFIG, max_steps=87, schedule_steps=50)
KILLED = changed(CONFIG, max_steps=4000, eval_every=10, averages=(0.9,))
PROGRAM = """
import json, sys
from sgdtheory.training import TrainConfig, train
with open(sys.argv[2]) as file:
    config = TrainConfig.from_fields(json.load(file))
train(config, sys.argv[1], checkpoint_seconds=0.05)
"""


def arrays(directory):
    with np.load(directory / "checkpoint.npz") as found:
        return {name: found[name] for name in found.files if name != "head"}


def same(first, second):
    assert first.outcome == second.outcome
    assert first.num_steps == second.num_steps
    for name in ("steps", "losses", "train_loss", "squared_gradient", "gradient_variance"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))


def same_directories(first, second):
    first, second = arrays(first), arrays(second)
    assert first.keys() == second.keys()
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name], err_msg=name)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    directory = tmp_path_factory.mktemp("whole")
    return directory, train(LONG, directory)


def test_more_steps_are_the_same_bits(whole, tmp_path):
    train(CONFIG, tmp_path)
    first = resume(tmp_path, max_steps=63)  # the end of a part is off the schedule
    assert first.steps[-1] == first.num_steps == 63
    same(resume(tmp_path, max_steps=87), whole[1])
    same_directories(tmp_path, whole[0])
    assert whole[1].steps.tolist() == [0, 1, 2, 4, 8, 16, 20, 32, 35, 38, 40, 43, 45, 48, 50, 53, 55, 58, 60] + [
        63, 64, 65, 68, 70, 73, 75, 78, 80, 83, 85, 87,
    ]  # fmt: skip


def test_a_lower_target_is_the_same_bits(whole, tmp_path):
    curve = whole[1].losses.min(axis=1)
    high, low = float(curve[6]), float(curve[-4:].min())
    first = train(changed(LONG, target_loss=high), tmp_path)
    assert first.outcome == "target"
    assert first.num_steps < 60
    second = resume(tmp_path, target_loss=low)
    brute = next(step for step, loss in zip(whole[1].steps, curve, strict=True) if loss <= low)
    assert (second.outcome, second.num_steps) == ("target", brute)
    number = len(second.steps)
    np.testing.assert_array_equal(second.losses, whole[1].losses[:number])
    np.testing.assert_array_equal(second.train_loss, whole[1].train_loss[:number])
    reached = [loss for loss in second.steps_to_target.values() if np.isfinite(loss)]
    assert min(reached) == brute


def test_a_checkpoint_in_the_middle_is_the_same_bits(whole, tmp_path):
    kept = []

    def keep(group):
        path = tmp_path / "checkpoint.npz"
        if path.exists() and group.step < LONG.max_steps:
            kept.append((group.step, path.read_bytes()))

    train(LONG, tmp_path, checkpoint_seconds=0.0, progress=keep)
    assert len(kept) > 5
    _, middle = kept[len(kept) // 2]
    (tmp_path / "checkpoint.npz").write_bytes(middle)
    same(resume(tmp_path), whole[1])
    same_directories(tmp_path, whole[0])


def test_result_files(whole):
    """They are not written again for a run that has ended."""
    before = (whole[0] / "checkpoint.npz").stat().st_mtime_ns
    same(resume(whole[0]), whole[1])
    assert (whole[0] / "checkpoint.npz").stat().st_mtime_ns == before
    summary = json.loads((whole[0] / "result.json").read_text())
    assert (summary["outcome"], summary["num_steps"]) == ("steps", 87)
    assert summary["noise_scale"] is None
    header, *rows = (whole[0] / "curve.csv").read_text().splitlines()
    columns = "loss_iterate,loss_0.5,loss_0.9,loss_uniform,squared_gradient,gradient_variance,noise_scale"
    assert header == f"step,train_loss,{columns}"
    table = np.array([[csv_number(cell) for cell in row.split(",")] for row in rows])
    assert all(row.endswith(",,") for row in rows)  # no micro-batches, no gradient noise
    np.testing.assert_array_equal(table[:, 2:6], whole[1].losses)
    assert not list(whole[0].glob(".writing-*"))


def test_weights_by_name(whole):
    found = {name: read_weights(whole[0], name) for name in ("iterate", "0.5", "uniform")}
    assert found["iterate"]["input"].shape == (4, 16)
    assert found["iterate"]["output"].shape == (16, 1)
    assert not np.isclose(found["iterate"]["input"], found["uniform"]["input"]).all()
    with pytest.raises(ValueError, match="average must be one of iterate, 0.5, 0.9, uniform, got 0.7"):
        read_weights(whole[0], "0.7")


def kill_and_finish(number, config, directory, seed):
    fields = directory / "fields.json"
    fields.write_text(json.dumps(config.as_fields()))
    command = [sys.executable, "-c", PROGRAM, str(directory / "run"), str(fields)]
    checkpoint, rng, killed = directory / "run" / "checkpoint.npz", random.Random(seed), 0
    for _ in range(number):
        before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
        process = subprocess.Popen(command, env=os.environ | {"JAX_PLATFORMS": "cpu"})
        try:
            end = time.monotonic() + 600
            while process.poll() is None and time.monotonic() < end:
                if checkpoint.exists() and checkpoint.stat().st_mtime_ns != before:
                    break
                time.sleep(0.005)
            time.sleep(0.1 * rng.random())
            process.send_signal(signal.SIGKILL)
            killed += process.wait() == -signal.SIGKILL
        finally:
            process.kill()
    train(config, directory / "run")
    train(config, directory / "other")
    same_directories(directory / "run", directory / "other")
    assert int(arrays(directory / "run")["state.step"]) == config.max_steps
    return killed


@pytest.mark.slow
def test_killed_at_random_moments(tmp_path):
    assert kill_and_finish(6, changed(KILLED, max_steps=10_000), tmp_path, 10) >= 3


def test_damaged_checkpoints(whole, tmp_path):
    content = (whole[0] / "checkpoint.npz").read_bytes()
    flipped = bytearray(content)
    flipped[content.index(b"state.params") + 400] ^= 255
    (tmp_path / "config.json").write_bytes((whole[0] / "config.json").read_bytes())
    for damaged in (*(content[:length] for length in (0, 1, 100, len(content) // 2, len(content) - 1)), flipped):
        (tmp_path / "checkpoint.npz").write_bytes(damaged)
        with pytest.raises(ValueError, match=r"checkpoint .*checkpoint.npz is damaged \(.+\); move it away"):
            resume(tmp_path)


def rewritten(source, target, **changes):
    with np.load(source / "checkpoint.npz") as found:
        content = {name: found[name] for name in found.files}
    head = json.loads(content["head"].tobytes()) | changes
    content["head"] = np.frombuffer(json.dumps(head).encode(), np.uint8)
    return content, target / "checkpoint.npz"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        *((name, rf"is damaged \(.*{name}.*\); move it away to start the run") for name in ("losses", "sums", "head")),
        ("state.params['output']", r"does not fit its config at \.params\['output'\]"),
        (None, "has version 99, this is version 1; move it away"),
    ],
)
def test_checkpoint_that_lacks_an_entry(whole, tmp_path, name, message):
    content, path = rewritten(whole[0], tmp_path, **({} if name else {"version": 99}))
    content.pop(name, None)
    np.savez(path, **content)
    with pytest.raises(ValueError, match=message):
        train(LONG, tmp_path)


@pytest.mark.parametrize(
    ("schedule", "name", "goes_on"),
    [
        ({"schedule": "cosine"}, "cosine", False),
        ({"warmup": 0.5}, "constant", True),
        ({"schedule": "schedule_free", "warmup": 0.5}, "schedule_free", True),
        ({"schedule": "stages", "stages": "0:1,0.5:0.3"}, "stages", True),
    ],
)
def test_two_schedules_are_not_spliced(schedule, name, goes_on, tmp_path):
    """Half of the course of 50 steps and half of that of 100 are neither; what ends at 50 steps cannot go on."""
    first = changed(CONFIG, **schedule)
    history = History(first)
    history.add(0, np.ones(4), np.zeros(3), -1)
    state = jax.eval_shape(lambda: init(stacked([first]), config=initial_program(first)))
    zeros = jax.tree.map(lambda leaf: np.zeros(leaf.shape[1:], leaf.dtype), state)
    write_checkpoint(tmp_path, zeros, history)
    message = rf"{name} over schedule_steps = 50, now over 100, .*; take another directory for a run of 100 steps"
    remedy = ", or go on with schedule_steps = 50" if goes_on else "$"
    with pytest.raises(ValueError, match=message + remedy):
        Run(changed(first, max_steps=100), tmp_path)
    if goes_on:
        assert Run(changed(first, max_steps=100, schedule_steps=50), tmp_path).num_steps == 0


@pytest.mark.slow
def test_a_constant_rate_goes_on(tmp_path):
    """A longer config continues too; training losses are means since the evaluation before, under either config."""
    plain = changed(CONFIG, averages=(), uniform_average=False)
    train(changed(plain, max_steps=43, schedule_steps=50), tmp_path)
    found = train(changed(plain, max_steps=100), tmp_path)
    single = train(changed(plain, max_steps=100, eval_every=1))
    np.testing.assert_allclose(found.losses[:, 0], single.losses[found.steps, 0], rtol=1e-6)
    each = single.train_loss[1:]
    means = [each[start:end].mean() for start, end in itertools.pairwise(found.steps.tolist())]
    np.testing.assert_allclose(found.train_loss[1:], means, rtol=1e-5)


@pytest.mark.parametrize(("name", "value"), [("width", 32), ("seed", 1), ("averages", (0.5,)), ("learning_rate", 0.1)])
def test_checkpoint_of_another_config(whole, name, value):
    with pytest.raises(ValueError, match=rf"is of another config: {name} was .*, now it is .*; take another directory"):
        train(changed(LONG, **{name: value}), whole[0])


def test_what_cannot_go_on(whole, tmp_path):
    with pytest.raises(ValueError, match="max_steps must be at least the run's own, 87, to continue it, got 5"):
        resume(whole[0], max_steps=5)
    with pytest.raises(ValueError, match="is not the directory of a run"):
        resume(tmp_path)
    with pytest.raises(ValueError, match="is not the directory of a run"):
        read_weights(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(LONG.as_fields() | {"target_loss": 0.1}))
    with pytest.raises(ValueError, match="target_loss must be at most the run's own, 0.1, to continue it, got 0.2"):
        resume(tmp_path, target_loss=0.2)
    with pytest.raises(ValueError, match="has no checkpoint yet: run it first"):
        read_weights(tmp_path)
