import json
import shlex

import pytest

from sgdtheory._common.interrupts import Interrupts
from sgdtheory.cli import main
from sgdtheory.training import trainer

SMALL = ["train", "--width", "16", "--batch-size", "8", "--max-steps", "20", "--holdout-size", "32"]


def test_a_run_is_kept_and_continued(tmp_path, capsys):
    main([*SMALL, "--directory", str(tmp_path / "run"), "--json", "--averages", "0.5"])
    first = json.loads(capsys.readouterr().out)
    assert first["num_steps"] == 20
    assert first["outcome"] == "steps"
    main(["resume", str(tmp_path / "run"), "--max-steps", "30", "--plot", str(tmp_path / "curve.png")])
    assert "did all its steps at step 30" in capsys.readouterr().out
    assert (tmp_path / "curve.png").stat().st_size > 1000
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        "checkpoint.npz",
        "config.json",
        "curve.csv",
        "result.json",
    ]


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


def test_presets_are_defaults_of_the_flags(capsys):
    main(["train", "--preset", "teacher", "--width", "16", "--max-steps", "2", "--holdout-size", "32", "--json"])
    config = json.loads(capsys.readouterr().out)["config"]
    assert (config["width"], config["depth"], config["max_steps"]) == (16, 2, 2)


def test_another_kind_than_the_presets_leaves_its_fields_behind(capsys):
    kinds = ["--model=mlp", "--data", "teacher", "--optimizer", "sgd", "--depth", "1"]
    main([*SMALL, "--preset", "bytes", *kinds, "--json"])
    config = json.loads(capsys.readouterr().out)["config"]
    assert config["clip_norm"] == 1
    assert not {"num_heads", "context", "beta2"} & config.keys()


def test_an_optimizer_and_its_numbers(capsys):
    main([*SMALL, "--optimizer", "muon", "--update-rms", "0.1", "--json"])
    config = json.loads(capsys.readouterr().out)["config"]
    assert [config[name] for name in ("optimizer", "momentum", "update_rms", "beta1")] == ["muon", 0.95, 0.1, 0.9]


def test_help_has_the_defaults_of_each_kind(run):
    out = " ".join(run("train", "--help-all").split())
    assert "sgd: decay rate of the sum of past gradients (0)." in out
    assert "of hidden weights (0.95). --beta1" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "--preset", "86M"], "preset must be one of"),
        (["train", "--preset", "85M"], "give --tokens FILE"),
        (["resume", "nowhere"], "nowhere is not the directory of a run"),
        (["resume", "nowhere", "--width", "32"], "--width is not a flag of sgdtheory resume"),
        (["resume", "--max-steps", "3"], "resume needs DIRECTORY too"),
        (["train", "--num-heads", "4"], "--num-heads 4 does not matter with model mlp: leave it out"),
        (["train", "--preset", "bytes", "--momentum", "0.5"], "momentum = 0.5 does not matter with optimizer adam"),
        (["coordcheck", "--beta2", "0.99", "--optimizer=sgd"], "beta2 = 0.99 does not matter with optimizer sgd"),
        (["train", "--plot", "curve.txt"], "plot must end in"),
    ],
)
def test_bad_input_is_one_line(arguments, message, fails):
    assert message in fails(*arguments)


def test_the_table_of_exponents(capsys):
    main(["parametrizations", "--json"])
    table = json.loads(capsys.readouterr().out)
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
