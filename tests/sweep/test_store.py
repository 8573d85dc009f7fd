"""Stores with damaged runs, with unknown files, with a second user, and on a full or protected disk."""

import errno
import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from sgdtheory.sweep import Store, SweepTable, sweep
from sgdtheory.sweep.runner import run_unit
from sgdtheory.training import train
from sgdtheory.training.checkpoint import VERSION
from tests.runs import changed, run_of
from tests.sweep.small import CONFIGS, LANES, curves

HURT = CONFIGS[3]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    store = tmp_path_factory.mktemp("whole")
    return store, sweep(CONFIGS, store, lanes=LANES)


@pytest.fixture
def copy(whole, tmp_path):
    return Path(shutil.copytree(whole[0], tmp_path / "store"))


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def runs(folder):
    """Contents of what is no lock."""
    return {path: content for path, content in contents(folder).items() if not path.startswith(".locks")}


def test_a_finished_sweep_is_read_and_not_run(whole, tmp_path):
    """Results are in the order of what varies: here learning rate, then seed."""
    before = {path: path.stat().st_mtime_ns for path in whole[0].rglob("*.*")}
    table = sweep(CONFIGS, whole[0], lanes=LANES)
    assert (table.to_csv(), table.notes, table.interrupted) == (whole[1].to_csv(), (), False)
    assert {path: path.stat().st_mtime_ns for path in whole[0].rglob("*.*")} == before
    read = SweepTable.from_store(whole[0])
    assert sorted(read.to_csv().splitlines()) == sorted(whole[1].to_csv().splitlines())
    rows = [(config.learning_rate, config.seed) for config in read.configs]
    assert rows == [(config.learning_rate, config.seed) for config in CONFIGS]
    with pytest.raises(ValueError, match="store must be a folder of runs, got .*none, which is not there"):
        SweepTable.from_store(tmp_path / "none")


def test_a_unit_that_another_process_has_finished_takes_no_steps(copy):
    report = run_unit(copy, tuple(CONFIGS[:LANES]))
    assert (report.done, report.notes, report.taken.steps) == (True, (), 0)


def test_edited_data_are_trained_on_anew(tmp_path):
    """One process has compiled the old data into its programs; the old result is kept aside."""
    x, store = np.random.default_rng(0).normal(size=(40, 3)), tmp_path / "store"
    paths = {"features": str(tmp_path / "X.npy"), "targets": str(tmp_path / "y.npy")}
    np.save(paths["features"], x)
    np.save(paths["targets"], x[:, 0])
    fields = {"width": 8, "base_width": 8, "batch_size": 4, "max_steps": 4, "averages": (), "depth": 1}
    config = run_of(data="arrays", **paths, **fields)
    before = sweep([config], store)
    np.save(paths["targets"], 100 + x[:, 1])
    (entry,) = Store(store).entries()
    assert entry.problem.startswith(f"targets {paths['targets']} has been edited since: its hash was ")
    after = sweep([config], store)
    assert after.notes == (f"{entry.name} was set aside as {store}/set-aside/{entry.name}: {entry.problem}",)
    assert [result.to_csv() for result in after.finished] == [train(config).to_csv()]
    assert (store / "set-aside" / entry.name / "curve.csv").read_text() == before.finished[0].to_csv()
    for losses in (after.finished[0].losses[:, 0], after.finished[0].train_loss[1:]):  # (f − y)², y = 100
        assert losses.min() > 5000
    assert sweep([config], store).notes == ()


# ------------------------------------------------------------------ damage


def truncate(directory):
    (directory / "result.json").unlink()
    path = directory / "checkpoint.npz"
    path.write_bytes(path.read_bytes()[:-100])


def written(name, content):
    return lambda directory: (directory / name).write_bytes(content)


def enlarged(key):
    def enlarge(directory):
        path = directory / "result.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {key: 10**400}))

    return enlarge


def rewritten(name, **changes):
    """Return the damage that changes keys of a JSON file, or removes those that are None."""

    def rewrite(directory):
        path = directory / name
        fields = json.loads(path.read_text()) | changes
        path.write_text(json.dumps({key: value for key, value in fields.items() if value is not None}))

    return rewrite


def with_cell(column, cell):
    """Return the damage that writes a cell into the last row of the curve."""

    def rewrite(directory):
        path = directory / "curve.csv"
        header, *rows = (line.split(",") for line in path.read_text().splitlines())
        rows[-1][header.index(column)] = cell
        path.write_text("\n".join(map(",".join, [header, *rows])) + "\n")

    return rewrite


def head_of_checkpoint(head):
    """Return the damage that removes the result and replaces the head of the checkpoint, or removes the head."""

    def rewrite(directory):
        (directory / "result.json").unlink()
        path = directory / "checkpoint.npz"
        with np.load(path) as arrays:
            saved = {name: arrays[name] for name in arrays.files if name != "head"}
        if head is not None:
            saved["head"] = np.frombuffer(json.dumps(head).encode(), np.uint8)
        np.savez(path, **saved)

    return rewrite


def repeated_row(directory):
    path = directory / "curve.csv"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines, lines[-1]]))


def folder_of(name):
    def replace(directory):
        (directory / name).unlink()
        (directory / name).mkdir()

    return replace


def link_to_nothing(name):
    def replace(directory):
        (directory / name).unlink()
        (directory / name).symlink_to(directory / "nowhere")

    return replace


def shorten_curve(directory):
    path = directory / "curve.csv"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))


def a_file(directory):
    shutil.rmtree(directory)
    directory.write_text("dear")


def junk(directory):
    shutil.rmtree(directory)
    directory.mkdir()
    (directory / "letter.txt").write_text("dear")


DAMAGES = {
    "truncated checkpoint": truncate,
    "garbled result": written("result.json", b"\xff\x00 {"),
    "empty result": written("result.json", b"[]"),
    "number of steps beyond floats": enlarged("num_steps"),
    "seconds beyond floats": enlarged("seconds"),
    "shortened curve": shorten_curve,
    "no curve": lambda directory: (directory / "curve.csv").unlink(),
    "garbled curve": written("curve.csv", b"x" * 200_000),  # more than a field of CSV may have
    "another config": written("config.json", json.dumps(changed(HURT, seed=9).as_fields()).encode()),
    "garbled config": written("config.json", b"{"),
    "no config": lambda directory: (directory / "config.json").unlink(),
    "empty config": written("config.json", b""),
    "config of numbers": written("config.json", b"[1, 2]"),
    "unknown key of a config": rewritten("config.json", colour=1),
    "text for a number of a config": rewritten("config.json", max_steps="many"),
    "nan in a config": rewritten("config.json", learning_rate=float("nan")),
    "folder for a config": folder_of("config.json"),
    "folder for a result": folder_of("result.json"),
    "folder for a curve": folder_of("curve.csv"),
    "link to no curve": link_to_nothing("curve.csv"),
    "text for a number of steps": rewritten("result.json", num_steps="many"),
    "no number of weights": rewritten("result.json", num_weights=None),
    "unknown outcome": rewritten("result.json", outcome="happy"),
    "empty curve": written("curve.csv", b""),
    "word in a curve": with_cell("train_loss", "many"),
    "row of a curve twice": repeated_row,
    "row of a curve with a cell more": with_cell("train_loss", "1,2"),
    "checkpoint without a head": head_of_checkpoint(None),
    "checkpoint with a list for a head": head_of_checkpoint([1]),
    "checkpoint of another version": head_of_checkpoint({"version": 10**6}),
    "checkpoint without a config": head_of_checkpoint({"version": VERSION}),
    "a letter": junk,
    "a file": a_file,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_run_is_set_aside_whole_and_run_again(whole, copy, damage):
    name = HURT.fingerprint
    DAMAGES[damage](copy / name)
    broken = (copy / name).read_bytes() if damage == "a file" else contents(copy / name)
    table = sweep(CONFIGS, copy, lanes=LANES)
    aside = copy / "set-aside" / name
    (note,) = table.notes
    assert not re.search(r"\n|Error|Errno|unpack|shape|indices|mapping|convert", note), (
        "words of Python, not of the project"
    )
    assert note.startswith(f"{name} was set aside as {aside}: ")
    assert (aside.read_bytes() if damage == "a file" else contents(aside)) == broken
    assert table.to_csv() == whole[1].to_csv()
    assert curves(copy, CONFIGS) == curves(whole[0], CONFIGS)


def test_what_is_set_aside_twice_is_kept_twice(copy):
    for name in ("a", "b", "c"):
        junk(copy / HURT.fingerprint)
        (copy / HURT.fingerprint / name).touch()
        sweep(CONFIGS, copy, lanes=LANES)
    assert {path.name for path in (copy / "set-aside").glob("*/?")} == {"a", "b", "c"}


def test_what_a_killed_process_left_is_cleared_away(whole, copy):
    """Killed between a last checkpoint and its result, or between a directory and its config."""
    (copy / HURT.fingerprint / "result.json").unlink()
    (copy / HURT.fingerprint / ".writing-x").write_text("half")
    shutil.rmtree(copy / CONFIGS[1].fingerprint)
    (copy / CONFIGS[1].fingerprint).mkdir()
    table = sweep(CONFIGS, copy, lanes=LANES)
    assert (table.to_csv(), table.notes) == (whole[1].to_csv(), ())
    assert not (copy / HURT.fingerprint / ".writing-x").exists()


def test_strangers_are_named_and_left_alone(whole, copy):
    (copy / "holiday").mkdir()
    (copy / "holiday" / "picture.jpg").write_bytes(b"\xff")
    (copy / "empty").mkdir()
    (copy / "notes.txt").write_text("mine")
    shutil.copytree(copy / CONFIGS[0].fingerprint, copy / "backup")
    DAMAGES["garbled result"](copy / HURT.fingerprint)
    before = runs(copy)
    table = SweepTable.from_store(copy)
    assert runs(copy) == before
    assert len(table.configs) == len(CONFIGS) - 1
    notes = dict(note.split(" is left out: ") for note in table.notes)
    assert notes.keys() == {"holiday", "empty", "backup", HURT.fingerprint}
    assert "has no config.json" in notes["holiday"]
    assert notes["backup"] == "its config is another run's"
    assert "is damaged" in notes[HURT.fingerprint]
    sweep(CONFIGS, copy, lanes=LANES)
    after = runs(copy)
    assert all(path.startswith(HURT.fingerprint) or after[path] == content for path, content in before.items())


# ------------------------------------------------------------------ another user


def test_locks_exclude_one_another_and_are_freed(tmp_path):
    store = Store(tmp_path)
    store.prepare()
    other = Store(tmp_path)
    with store.locked(CONFIGS[:3]) as first, store.locked(CONFIGS[2:]) as second, other.locked(CONFIGS[3:]) as third:
        assert (first, second, third) == (True, False, True)
    with store.locked(CONFIGS) as again:
        assert again


# ------------------------------------------------------------------ where nothing can be written


def test_a_store_below_a_file(tmp_path):
    (tmp_path / "file").touch()
    for store in (tmp_path / "file", tmp_path / "file" / "store"):
        with pytest.raises(OSError, match=f"^cannot write to the store {store}: .+"):
            sweep(CONFIGS, store)


@pytest.mark.parametrize("writes", [0, 1, 7, 20])
def test_a_full_disk_leaves_finished_runs(whole, tmp_path, monkeypatch, writes):
    left, sync = [writes], os.fsync

    def full(descriptor):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left on device") as caught:
            sweep(CONFIGS, tmp_path / "store", lanes=LANES)
    assert str(tmp_path / "store") in str(caught.value)
    assert "\n" not in str(caught.value)
    finished = {path: path.stat().st_mtime_ns for path in (tmp_path / "store").glob("*/result.json")}
    table = sweep(CONFIGS, tmp_path / "store", lanes=LANES)
    assert (table.to_csv(), table.notes) == (whole[1].to_csv(), ())
    assert {path: path.stat().st_mtime_ns for path in finished} == finished
    assert curves(tmp_path / "store", CONFIGS) == curves(whole[0], CONFIGS)


def test_a_run_of_train_is_one_of_a_store(whole, tmp_path):
    """Its directory has the same files; the sweep takes the result as it is."""
    train(HURT, tmp_path / HURT.fingerprint)
    before = contents(tmp_path / HURT.fingerprint)
    table = sweep(CONFIGS, tmp_path, lanes=LANES)
    assert contents(tmp_path / HURT.fingerprint) == before
    assert table.notes == ()
