"""The list of experiments: every module is in it, it can be loaded and run, and the fast ones come first."""

import os
import re
import sys
from pathlib import Path

import pytest

import experiments
from experiments._lib import command
from experiments._lib.registry import EXPERIMENTS, names, seconds
from experiments._lib.schedule import duration

FOLDER = Path(experiments.__file__).parent


def output_of(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["experiments", *map(str, arguments)])
    assert command.main() == 0
    return capsys.readouterr().out


def test_every_module_is_registered():
    assert set(EXPERIMENTS) == {path.stem for path in FOLDER.glob("[a-z]*.py")}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_two_scales_and_runs(name):
    module = EXPERIMENTS[name].load()
    assert set(module.SCALES) == {"quick", "full"}
    assert callable(module.run)
    assert all(isinstance(config, module.Config) for config in module.SCALES.values())


def test_a_verdict_is_soon_on_the_screen():
    assert EXPERIMENTS[names("quick")[0]].quick <= 10


def test_quick_leaves_out_what_runs_by_name():
    assert names("full") == tuple(EXPERIMENTS)
    assert set(EXPERIMENTS) - set(names("quick")) == {name for name, each in EXPERIMENTS.items() if each.by_name_only}
    assert seconds("quick") == sum(each.quick for each in EXPERIMENTS.values() if not each.by_name_only)
    assert seconds("full") == sum(each.full for each in EXPERIMENTS.values())


def test_quick_scale_compiles_quickly_unless_told_otherwise(monkeypatch):
    monkeypatch.setattr(command, "version", lambda name: "0.10.2")
    monkeypatch.setenv("XLA_FLAGS", "--own")
    command._compile_quickly()
    assert os.environ["XLA_FLAGS"] == "--own"
    monkeypatch.delenv("XLA_FLAGS")
    command._compile_quickly()
    assert os.environ["XLA_FLAGS"] == command.QUICK_FLAGS
    monkeypatch.delenv("XLA_FLAGS")
    monkeypatch.setattr(command, "version", lambda name: "0.11.0")
    command._compile_quickly()
    assert "XLA_FLAGS" not in os.environ


def test_list(monkeypatch, capsys):
    text = output_of(monkeypatch, capsys, "--list")
    for name, each in EXPERIMENTS.items():
        row = next(line for line in text.splitlines() if f"│ {name} " in line)
        assert each.question.split()[0] in row
        assert duration(each.full) in row
        assert bool(re.search(r" \* +│", row)) == each.by_name_only
    one = output_of(monkeypatch, capsys, "--list", "--only", "why")
    assert "why" in one
    assert "theorem7" not in one


def test_redraw_writes_every_recorded_figure(monkeypatch, capsys, tmp_path):
    from matplotlib.figure import Figure

    from experiments._lib import redraw

    monkeypatch.setattr(redraw, "figures", lambda: {name: Figure((1, 1)) for name in redraw.SHOWN.values()})
    text = output_of(monkeypatch, capsys, "--redraw", "--output", tmp_path)
    assert {path.stem for path in tmp_path.iterdir()} == set(redraw.SHOWN.values())
    assert all(str(path) in text for path in tmp_path.iterdir())
    monkeypatch.setattr(redraw, "FOLDER", tmp_path / "recorded")
    monkeypatch.setattr(redraw, "DARK", {"why.png": tmp_path / "dark.png"})
    (tmp_path / "recorded").mkdir()
    Figure((1, 1)).savefig(tmp_path / "recorded" / "why.png")  # no table is recorded of it
    output_of(monkeypatch, capsys, "--redraw")
    assert set(redraw.SHOWN) <= {path.name for path in (tmp_path / "recorded").iterdir()}
    assert (tmp_path / "dark.png").stat().st_size > 100
