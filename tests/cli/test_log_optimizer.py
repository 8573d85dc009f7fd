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
NOTHING = "nothing says which optimizer it is: sgd is taken; give --optimizer if it is another"


def log_of(folder, name, optimizer):
    """As a program prints it, with its line for the optimizer where it has one."""
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
        ("megatron", "adam", None, "adam", "from the log: optimizer adam"),
        ("maxtext", "adamw", "sgd", "sgd", "the log says optimizer adamw, --optimizer sgd counts"),
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
        ("adam_pax", None, "adam", "from the log: optimizer adam_pax, taken as adam", ""),
        ("sgd", None, "sgd", "from the log: optimizer sgd", ""),
        ("muon", None, "adam", "from the log: optimizer muon, taken as adam", ""),
        ("shampoo", None, "sgd", "", "the log's optimizer shampoo is taken as sgd; give --optimizer if it is another"),
        ("shampoo", "adam", "adam", "", "the log says optimizer shampoo, --optimizer adam counts"),
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
    assert taken.notes == ["from the log: optimizer adamw_torch and adamw_torch_fused, taken as adam"]
    mixed = taken_optimizer(None, names_in([*settings, {"optimizer": "SGD"}]), "sgd", optimizer_of_curves)
    assert mixed.optimizer == "sgd"
    assert "SGD and adamw_torch and adamw_torch_fused is taken as sgd" in mixed.doubt
