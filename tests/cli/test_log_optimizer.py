"""One rule for the optimizer in every command: the flag, then the log's word, then Adam by the marks of a log."""

import numpy as np
import pytest

from sgdtheory import curves
from sgdtheory.cli.log_optimizer import (
    LANGUAGE_MODELS,
    USUAL,
    UnknownOptimizerError,
    optimizer_named,
    optimizer_of_curves,
    taken_optimizer,
)
from sgdtheory.logs import FORMATS, TrainingLog
from tests.cli.made import run_of
from tests.cli.test_every_format import MadeUp
from tests.logs.text_writers import PRINTINGS

SETTINGS = {"megatron": "  optimizer {} {}\n", "maxtext": "Config param opt_type: {}{}\n"}
BY_FORMAT = (
    "the optimizer is not named; Adam is assumed, since MaxText trains language models; --optimizer names another"
)


def log_of(folder, name, optimizer):
    """Return a log as a program prints it, with its line for the optimizer if it has one."""
    text = PRINTINGS[name].text(run_of(128, 1500))
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


COMMANDS = {"fit-curves": (), "plan": ("--throughput", "10"), "forecast": ("--num-steps", "20000")}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("log", "name", "flag", "taken", "said"),
    [
        ("megatron", "adam", None, "adam", "optimizer, from the log: adam"),
        ("maxtext", "adamw", "sgd", "sgd", "the log names the optimizer adamw, but --optimizer sgd overrides it"),
        ("maxtext", None, None, "adam", BY_FORMAT),
    ],
)
def test_a_flag_then_the_log_then_its_marks(asked, notes, tmp_path, command, log, name, flag, taken, said):
    path = log_of(tmp_path, log, name)
    flags = ["--optimizer", flag] if flag else []
    flags += ["--learning-rate", "0.001"] if log == "maxtext" else []
    _, lines = notes(command, path, *flags, "--batch-size", 128, *COMMANDS[command])
    assert asked[-1]["optimizer"] == taken
    (note,) = [line for line in lines if "optimizer" in line]
    assert said in note


@pytest.mark.parametrize(
    ("name", "flag", "taken", "said", "doubt"),
    [
        ("adam_pax", None, "adam", "optimizer, from the log: adam_pax, treated as adam", ""),
        ("sgd", None, "sgd", "optimizer, from the log: sgd", ""),
        ("muon", None, "adam", "optimizer, from the log: muon, treated as adam", ""),
        ("shampoo", "adam", "adam", "", "the log names the optimizer shampoo, but --optimizer adam overrides it"),
        ("adamw", "adam", "adam", "", ""),
        ("", "adam", "adam", "", ""),
    ],
)
def test_what_a_name_is_taken_as(name, flag, taken, said, doubt):
    assert taken_optimizer(flag, [log_with({"optimizer": name})], optimizer_of_curves) == (taken, said, doubt)


def log_with(settings, format="CSV", column="loss", **series):
    """A log of ten rows, with these settings."""
    steps = np.arange(1.0, 11)
    values = {"loss": 3 - steps / 10} | {name: np.full(10, value) for name, value in series.items()}
    named = {name: (steps, each) for name, each in values.items()}
    return TrainingLog.from_series("run", format, named, settings=settings, columns={"loss": column})


@pytest.mark.parametrize(
    ("log", "flags", "since"),
    [
        (log_with({"weight_decay": 0.1}), {}, "the log has a weight decay, 0.1"),
        (log_with({"beta2": 0.95}), {}, "the log has settings of Adam"),
        (log_with({}, column="opt/adam_eps"), {}, "the log has settings of Adam"),
        (log_with({"sequence_length": 1024}), {}, "the log counts tokens"),
        (log_with({}, tokens=1e6), {}, "the log counts tokens"),
        (log_with({}, format="nanoGPT"), {}, "nanoGPT trains language models"),
        (log_with({}, column="train/lm loss"), {}, "the log has numbers of a language model"),
        (log_with({"optimizer": "shampoo", "weight_decay": 0.1}), {}, "shampoo is not known here; Adam is assumed"),
        (log_with({}), {"weight_decay": 0.1}, "the weight decay is 0.1"),
        (log_with({}), {"beta2": 0.95}, "β₂ is given"),
        (log_with({}), {"sequence_length": 1024.0}, "the run is of sequences of tokens"),
    ],
)
def test_marks_of_adam(log, flags, since):
    taken = taken_optimizer(None, [log], optimizer_of_curves, flags)
    assert taken.optimizer == "adam"
    assert since in taken.doubt


@pytest.mark.parametrize(
    ("kind", "taken", "as_what"), [(optimizer_named, "muon", ""), (optimizer_of_curves, "adam", ", treated as adam")]
)
def test_a_program_whose_default_is_known(kind, taken, as_what):
    """Only where its log names none, and the flag overrides it without a doubt about the log."""
    said = f"modded-nanogpt trains with muon by default{as_what}; --optimizer names another"
    assert taken_optimizer(None, [log_with({}, format="modded-nanogpt")], kind) == (taken, "", said)
    assert taken_optimizer("adam", [log_with({}, format="modded-nanogpt")], kind) == ("adam", "", "")
    named = log_with({"optimizer": "sgd"}, format="modded-nanogpt")
    assert taken_optimizer(None, [named], kind) == ("sgd", "optimizer, from the log: sgd", "")


@pytest.mark.parametrize("settings", [{}, {"weight_decay": 0.0}, {"optimizer": "shampoo"}, {"num_steps": 10}])
def test_without_a_mark_the_optimizer_is_asked_for(settings):
    with pytest.raises(UnknownOptimizerError, match="give --optimizer, for example --optimizer adam"):
        taken_optimizer(None, [log_with(settings)], optimizer_of_curves)


def test_the_formats_of_language_models_are_formats():
    assert {each.name for each in FORMATS} >= LANGUAGE_MODELS
    assert set(USUAL) <= LANGUAGE_MODELS


def test_examples_are_what_they_are(asked, notes):
    """No log is there to say anything."""
    assert not any("optimizer" in line for line in notes("fit-curves")[1])
    assert asked[-1]["optimizer"] == "adam"


def test_several_logs():
    logs = [log_with({"optimizer": "adamw_torch"}), log_with({}), log_with({"optimizer": "adamw_torch_fused"})]
    taken = taken_optimizer(None, logs, optimizer_of_curves)
    assert taken.optimizer == "adam"
    assert taken.notes == ["optimizer, from the log: adamw_torch and adamw_torch_fused, treated as adam"]
    with pytest.raises(UnknownOptimizerError, match="SGD and adamw_torch and adamw_torch_fused: give --optimizer"):
        taken_optimizer(None, [*logs, log_with({"optimizer": "SGD"})], optimizer_of_curves)
