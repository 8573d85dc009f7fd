import json
import os
import shlex
import subprocess
import sys

import pytest

from sgdtheory._common.interrupts import Interrupts
from sgdtheory.cli import main
from sgdtheory.training import trainer

SMALL = ["train", "--width", "16", "--batch-size", "8", "--max-steps", "20", "--holdout-size", "32"]


def test_a_run_is_kept_and_continued(tmp_path, capsys):
    main([*SMALL, "--directory", str(tmp_path / "run"), "--json", "--averages", "0.5"])
    first = json.loads(capsys.readouterr().out)
    assert first["num_steps"] == 20
    assert (first["outcome"], first["config"]["width"]) == ("steps", 16)
    main(["resume", str(tmp_path / "run"), "--max-steps", "30", "--plot", str(tmp_path / "curve.png")])
    assert "did all its steps at step 30" in capsys.readouterr().out
    assert (tmp_path / "curve.png").stat().st_size > 1000
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        "checkpoint.npz",
        "config.json",
        "curve.csv",
        "result.json",
    ]


@pytest.mark.slow
def test_a_run_is_continued_in_a_new_process(tmp_path, capsys):
    """With the optimizations that users have, and tests do not, `resume` ended with an error of nested programs."""
    main([*SMALL, "--directory", str(tmp_path / "run")])
    command = [sys.executable, "-m", "sgdtheory", "resume", str(tmp_path / "run"), "--max-steps", "30"]
    plain = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    done = subprocess.run(command, env=plain, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "did all its steps at step 30" in done.stdout


def test_an_interrupted_run_says_how_it_goes_on(tmp_path, capsys, monkeypatch):
    def stopped(path):
        """A run of which Ctrl-C comes at its first look at the progress."""

        class Pressed(Interrupts):
            def __enter__(self):
                super().__enter__()
                self.pending = True
                return self

        with monkeypatch.context() as patch:
            patch.setattr(trainer, "Interrupts", Pressed)
            with pytest.raises(SystemExit) as stop:
                main([*SMALL, *path])
        assert stop.value.code == 130
        return capsys.readouterr().err

    nothing = "nothing of it was kept: with --directory a run can go on"
    assert stopped(["--json"]) == f"sgdtheory: note: interrupted; {nothing}\n"
    place = tmp_path / "my run"
    note = stopped(["--directory", str(place)])
    assert note == f"sgdtheory: note: interrupted; to go on: sgdtheory resume '{place}'\n"
    command = shlex.split(note.partition("to go on: sgdtheory ")[2])
    main(command)
    assert "did all its steps at step 20" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "fields", "absent"),
    [
        ("--preset teacher", {"width": 16, "depth": 2, "max_steps": 20}, set()),
        (
            "--preset bytes --model=mlp --data teacher --optimizer sgd --depth 1",
            {"clip_norm": 1},
            {"num_heads", "context", "beta2"},
        ),
        (
            "--optimizer muon --update-rms 0.1",
            {"optimizer": "muon", "momentum": 0.95, "update_rms": 0.1, "beta1": 0.9},
            set(),
        ),
    ],
)
def test_presets_are_defaults_and_kinds_have_fields_of_their_own(monkeypatch, flags, fields, absent):
    """The config that is trained; fields of another kind than the preset's are left behind."""
    configs = []
    monkeypatch.setattr("sgdtheory.training.train", lambda config, *_, **__: configs.append(config) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main([*SMALL, *flags.split()])
    found = configs[0].as_fields()
    assert {name: found[name] for name in fields} == fields
    assert not absent & found.keys()


def test_the_table_of_exponents(run):
    table = run.json("parametrizations")
    assert table["mup"]["hidden"] == {
        "multiplier": 0,
        "init": -0.5,
        "sgd_rate": 0,
        "adam_rate": -1,
        "muon_rate": 0,
        "adam_epsilon": -1,
    }
    assert table["mup"]["attention"] == -1


@pytest.mark.slow
def test_a_failed_coordinate_check_exits_1(capsys, tmp_path):
    arguments = ["--widths", "32", "128", "--steps", "3", "--seeds", "4", "--plot", str(tmp_path / "c.png")]
    with pytest.raises(SystemExit) as stop:
        main(["coordcheck", "--parametrization", "standard", "--batch-size", "8", *arguments])
    assert stop.value.code == 1
    assert "coordinate check fails" in capsys.readouterr().out
    assert (tmp_path / "c.png").exists()
