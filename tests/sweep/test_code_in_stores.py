"""Runs, stores and checkpoints are data: nothing that reads them imports what they name."""

import contextlib
import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sgdtheory import cli
from sgdtheory.sweep import SweepTable, loss_columns, pilot_scatter, plan, sweep
from sgdtheory.training import Custom, RunDirectory, TrainConfig, coordinate_check, read_weights, resume, train

FIELDS = {
    "model": "custom", "entry_point": "mine:net", "width": 4, "base_width": 4, "batch_size": 4, "holdout_size": 16,
    "max_steps": 2, "averages": [], "target_loss": -1.0,
}  # fmt: skip
MINE = "from sgdtheory.training import Custom\nfrom tests.training.own_networks import apply, init\n"
MINE += "net = Custom(init=init, apply=apply, entry_point={place!r})\n"
GRID = (
    "[fixed]\nmodel = 'custom'\nentry_point = 'mine:net'\nwidth = 4\nbase_width = 4\n[grid]\nbatch_size = [2, 4, 8]\n"
)


class Trap:
    """A store whose runs name code that leaves a mark when it is run."""

    def __init__(self, folder, good, store, place, modules):
        self.store, self.place, self.mark = Path(store), place, folder / "PWNED"
        fields = FIELDS | {"entry_point": place}
        self.config = TrainConfig.from_fields(fields)
        self.run = self.store / self.config.fingerprint
        shutil.copytree(good, self.run)
        (self.run / "contents.json").unlink()
        (self.run / "config.json").write_text(json.dumps(TrainConfig.from_fields(fields).as_fields()))
        _rewrite_checkpoint(self.run / "checkpoint.npz", place)
        for name in modules:
            path = Path(str(name).replace("RUN", self.run.name))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(
                f"import pathlib\npathlib.Path({str(self.mark)!r}).write_text('x')\n" + MINE.format(place=place)
            )


def _marking(mark, place):
    return f"import pathlib\npathlib.Path({str(mark)!r}).write_text('x')\n" + MINE.format(place=place)


def _rewrite_checkpoint(path, place):
    with np.load(path) as arrays:
        found = dict(arrays)
    head = json.loads(found["head"].tobytes())
    head["config"]["entry_point"] = place
    np.savez(path, **found | {"head": np.frombuffer(json.dumps(head).encode(), np.uint8)})


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A run of a model of one's own, trained."""
    folder = tmp_path_factory.mktemp("mine")
    (folder / "mine.py").write_text(MINE.format(place="mine:net"))
    sys.path.insert(0, str(folder))
    try:
        train(TrainConfig.from_fields(FIELDS), folder / "run")
    finally:
        sys.path.remove(str(folder))
        sys.modules.pop("mine")
    return folder / "run"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The current folder, which is on the path, as it is for `python` itself."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    for name in [name for name in sys.modules if name.split(".")[0] in ("mine", "evil", "lib", "link", "runs")]:
        sys.modules.pop(name)


def namespace(folder, good):
    """The store itself is a package without an __init__: its folders carry the code."""
    return Trap(folder, good, "runs", "runs.code.evil:net", ["runs/code/evil.py"])


def current_folder(folder, good):
    return Trap(folder, good, ".", "evil:net", ["evil.py"])


def beside(folder, good):
    return Trap(folder, good, "runs", "evil:net", ["evil.py"])


def package_beside(folder, good):
    """Looking for a module in a package imports the package."""
    return Trap(folder, good, "runs", "evil.inner:net", ["evil/__init__.py", "evil/inner.py"])


def link_to_the_store(folder, good):
    trap = Trap(folder, good, "runs", "link.evil:net", ["runs/evil.py"])
    (folder / "link").symlink_to(folder / "runs")
    return trap


def link_out_of_the_store(folder, good):
    trap = Trap(folder, good, "runs", "runs.evil:net", ["elsewhere/evil.py"])
    (folder / "runs" / "evil.py").symlink_to(folder / "elsewhere" / "evil.py")
    return trap


def linked_module(folder, good):
    trap = Trap(folder, good, "runs", "evil:net", ["runs/evil.py"])
    (folder / "evil.py").symlink_to(folder / "runs" / "evil.py")
    return trap


INSIDE = namespace, current_folder, link_to_the_store, link_out_of_the_store, linked_module
BESIDE = beside, package_beside
TRICKS = *INSIDE, *BESIDE


def quietly(*words):
    """Run a command whatever comes of it."""
    with contextlib.suppress(SystemExit):
        cli.main([str(word) for word in words])


@pytest.mark.parametrize("trick", TRICKS)
def test_commands_that_read_import_nothing(trick, here, good, capsys):
    trap = trick(here, good)
    (here / "grid.toml").write_text(GRID)
    (here / "mine.py").write_text(MINE.format(place="mine:net"))
    store, modules = trap.store, set(sys.modules)
    cli.main(["show-sweep", str(store)])
    assert "1 run in" in capsys.readouterr().out
    quietly("show-sweep", store, "--losses", "losses.csv", "--csv", "table.csv", "--json")
    quietly("fit-sweep", store, "--target-loss", "1")
    assert f"{trap.run.name},4,0.003,4," in (here / "table.csv").read_text()
    quietly("extend-sweep", store)
    assert trap.place in capsys.readouterr().err
    quietly("resume", trap.run, "--max-steps", "4")
    assert f"--entry-point {trap.place}" in capsys.readouterr().err
    assert not {name for name in set(sys.modules) - modules if name.split(".")[0] in ("evil", "runs", "link")}
    assert not trap.mark.exists()


@pytest.mark.parametrize("trick", TRICKS)
def test_functions_that_read_import_nothing(trick, here, good):
    trap = trick(here, good)
    table = SweepTable.from_store(trap.store)
    assert len(table.finished) == 1
    assert table.columns()["outcome"] == ["steps"]
    assert loss_columns(table)["batch_size"]
    with pytest.raises(ValueError, match=r"batch|target"):
        pilot_scatter(trap.store, 1.0, like=[trap.config])
    directory = RunDirectory(trap.run)
    config = directory.config()
    assert config == trap.config
    assert config.fingerprint == config.with_fields(seed=0).fingerprint
    assert directory.result(config).num_steps == 2
    assert directory.progress(config)[0]
    assert directory.begun(config)
    directory.check(config)
    for refused in (
        lambda: read_weights(trap.run),
        lambda: resume(trap.run, max_steps=4),
        lambda: train(config, trap.run),
        lambda: train(replace(config, seed=1)),
        lambda: train(config.with_fields(seed=1)),  # as of `missing_runs`
        lambda: sweep([config.with_fields(learning_rate=0.1)], "other"),
        lambda: plan([config]),
        lambda: coordinate_check(config),
        lambda: config.network,
    ):
        with pytest.raises(ValueError, match=f"names the model {trap.place} .* if the code is yours, name it too"):
            refused()
    assert not trap.mark.exists()


@pytest.mark.parametrize("trick", INSIDE)
def test_a_model_in_the_store_is_refused_though_it_is_named(trick, here, good, capsys):
    """The caller who copies the name from the store runs nothing of it."""
    trap = trick(here, good)
    with pytest.raises(SystemExit):
        cli.main(["extend-sweep", str(trap.store), "--entry-point", trap.place])
    assert f"--entry-point {trap.place} would run " in capsys.readouterr().err
    table = SweepTable.from_store(trap.store, entry_point=trap.place)
    with pytest.raises(ValueError, match="which lies in .*, a folder of runs"):
        sweep(table.configs, trap.store)
    with pytest.raises(ValueError, match="which lies in .*, a folder of runs"):
        sweep([trap.config], trap.store)  # as of a TOML file
    assert not trap.mark.exists()


def test_a_model_in_the_directory_of_a_run_is_refused(here, good, capsys):
    trap = Trap(here, good, "runs", "evil:net", [])
    (trap.run / "evil.py").write_text(
        f"import pathlib\npathlib.Path({str(trap.mark)!r}).write_text('x')\n" + MINE.format(place="evil:net")
    )
    sys.path.insert(0, str(trap.run))
    try:
        for go_on in (resume, read_weights):
            with pytest.raises(ValueError, match="entry_point evil:net would run .*, a folder of runs: runs are data"):
                go_on(trap.run, entry_point="evil:net")
        quietly("resume", trap.run, "--entry-point", "evil:net", "--max-steps", "4")
    finally:
        sys.path.remove(str(trap.run))
    assert "note: the model evil:net is Python code in" in capsys.readouterr().err
    assert not trap.mark.exists()


def test_a_relative_entry_of_the_path_leads_into_no_store(here, good, monkeypatch):
    trap = Trap(here, good, "runs", "evil:net", ["runs/evil.py"])
    monkeypatch.setattr(sys, "path", ["runs/../runs", *sys.path])
    with pytest.raises(ValueError, match="which lies in runs, a folder of runs"):
        sweep([trap.config], "runs")
    assert not trap.mark.exists()


def test_the_same_code_outside_of_the_store_is_run_when_it_is_named(here, good, capsys):
    """The control: every trap works once the caller names it, and it lies in no store."""
    trap = Trap(here, good, "runs", "evil:net", ["evil.py"])
    assert resume(trap.run, entry_point="evil:net", max_steps=3).num_steps == 3
    assert trap.mark.read_text() == "x"
    with pytest.raises(ValueError, match="entry_point must be that of the run in .*, evil:net, got mine:net"):
        resume(trap.run, entry_point="mine:net")
    with pytest.raises(ValueError, match="entry_point must be that of runs in runs, got mine:net, which none of them"):
        SweepTable.from_store("runs", entry_point="mine:net")
    capsys.readouterr()
    assert Custom.from_place("evil:net").source == Custom.source_of("evil:net")


def test_a_store_of_ones_own_goes_on(here, good, capsys):
    (here / "mine.py").write_text(MINE.format(place="mine:net"))
    config = TrainConfig.from_fields(FIELDS)
    shutil.copytree(good, here / "runs" / config.fingerprint)
    cli.main(["extend-sweep", "runs", "--entry-point", "mine:net"])
    out, err = capsys.readouterr()
    assert f"the model mine:net is Python code in {here / 'mine.py'}" in err
    assert "1 run in runs" in out
    table = SweepTable.from_store("runs")
    assert [each.num_steps for each in table.finished] == [2, 4]


def test_an_edited_model_is_noticed_by_who_reads_alone(here, good):
    config = TrainConfig.from_fields(FIELDS)
    shutil.copytree(good, here / "runs" / config.fingerprint)
    (here / "mine.py").write_text(MINE.format(place="mine:net") + "\n# edited")
    (note,) = SweepTable.from_store("runs").notes
    assert "entry_point mine:net has been edited since" in note
    assert "mine" not in sys.modules


@pytest.mark.parametrize(
    "text", ["../evil:net", ".evil:net", "evil:", "evil:net.x", "evil", 3, None, "a b:net", ":net"]
)
def test_what_is_no_entry_point(text):
    with pytest.raises(ValueError, match="entry_point must be module:name"):
        TrainConfig.from_fields({"model": "custom", "entry_point": text})
