"""One convention for the optimizer, whichever command reads the log: flag, then log, then what the command has always
taken; and it is said.
"""

import numpy as np
import pytest

from sgdtheory import cli, curves
from sgdtheory.cli.log_optimizer import names_in, optimizer_of_curves, taken_optimizer
from tests.cli.test_every_format import MadeUp, run_of
from tests.logs.text_writers import PRINTINGS

SETTINGS = {"megatron": "  optimizer {} {}\n", "maxtext": "Config param opt_type: {}{}\n"}
NOTHING = "the logs name no optimizer, so sgd is assumed; give --optimizer if it is another"


def log_of(folder, name, optimizer):
    """Return a log as a program prints it, with its line for the optimizer if it has one."""
    text = PRINTINGS[name].text(run_of(128))
    line = SETTINGS[name].format("." * 39 if name == "megatron" else "", optimizer) if optimizer else ""
    path = folder / "train.log"
    first, _, rest = text.partition("\n")
    path.write_text(f"{first}\n{line}{rest}")
    return path


@pytest.fixture
def asked(monkeypatch):
    """The options of each fit and forecast, which are made up."""
    seen = []

    def fit(given, **options):
        seen.append(options)
        return MadeUp(given)

    def forecast(given, *, num_steps, **options):
        seen.append(options)
        path = curves.LossPrediction(*np.ones((5, 2)))
        return curves.Forecast(num_steps, 2.0, (1.9, 2.1), 0.95, 1500, 2.1, 0.01, "", "", path, given[-1])

    monkeypatch.setattr(curves, "fit_loss_curves", fit)
    monkeypatch.setattr(curves, "forecast_loss", forecast)
    return seen


COMMANDS = {
    "fit-curves": (),
    "plan": ("--throughput", "10"),
    "forecast": ("--num-steps", "20000"),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("log", "name", "flag", "taken", "said"),
    [
        ("megatron", "adam", None, "adam", "optimizer, from the log: adam"),
        ("maxtext", "adamw", "sgd", "sgd", "the log names the optimizer adamw, but --optimizer sgd overrides it"),
        ("maxtext", None, None, "sgd", NOTHING),
    ],
)
def test_a_flag_then_the_log_then_sgd(asked, capsys, tmp_path, command, log, name, flag, taken, said):
    path = log_of(tmp_path, log, name)
    flags = ["--optimizer", flag] if flag else []
    flags += ["--learning-rate", "0.001"] if log == "maxtext" else []
    cli.main([command, str(path), *flags, "--batch-size", "128", *COMMANDS[command]])
    assert asked[-1]["optimizer"] == taken
    (note,) = [line for line in capsys.readouterr().err.splitlines() if "optimizer" in line]
    assert said in note


@pytest.mark.parametrize(
    ("name", "flag", "taken", "said", "doubt"),
    [
        ("adam_pax", None, "adam", "optimizer, from the log: adam_pax, treated as adam", ""),
        ("sgd", None, "sgd", "optimizer, from the log: sgd", ""),
        ("muon", None, "adam", "optimizer, from the log: muon, treated as adam", ""),
        (
            "shampoo",
            None,
            "sgd",
            "",
            "the log's optimizer shampoo is not known here and treated as sgd; give --optimizer if that is wrong",
        ),
        ("shampoo", "adam", "adam", "", "the log names the optimizer shampoo, but --optimizer adam overrides it"),
        ("adamw", "adam", "adam", "", ""),
        ("", "adam", "adam", "", ""),
    ],
)
def test_what_a_name_is_taken_as(name, flag, taken, said, doubt):
    found = taken_optimizer(flag, names_in([{"optimizer": name}]), "sgd", optimizer_of_curves)
    assert found == (taken, said, doubt)


def test_examples_are_what_they_are(asked, capsys):
    """No log is there to say anything."""
    cli.main(["fit-curves"])
    assert asked[-1]["optimizer"] == "sgd"
    assert "optimizer" not in capsys.readouterr().err


def test_several_logs():
    settings = {"optimizer": "adamw_torch"}, {}, {"optimizer": "adamw_torch_fused"}
    taken = taken_optimizer(None, names_in(settings), "sgd", optimizer_of_curves)
    assert taken.optimizer == "adam"
    assert taken.notes == ["optimizer, from the log: adamw_torch and adamw_torch_fused, treated as adam"]
    mixed = taken_optimizer(None, names_in([*settings, {"optimizer": "SGD"}]), "sgd", optimizer_of_curves)
    assert mixed.optimizer == "sgd"
    assert "SGD and adamw_torch and adamw_torch_fused is not known here and treated as sgd" in mixed.doubt
