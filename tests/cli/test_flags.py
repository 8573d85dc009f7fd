"""Flags as help shows them are those that are accepted, each under a heading; what an overhead may be."""

import re

import pytest

from sgdtheory.cli.commands import COMMANDS, command_named
from sgdtheory.cli.flags import OPTIONS
from tests.cli.text import strict_json


@pytest.mark.parametrize("name", COMMANDS)
def test_every_flag_has_a_text_and_a_heading(name):
    flags = command_named(name).flags
    assert len({spelling for flag in flags for spelling in flag.spellings}) == sum(
        len(each.spellings) for each in flags
    )
    assert all(flag.text for flag in flags)
    if name not in ("simulate", "cbs"):  # these have a few, without a better heading
        assert OPTIONS not in {flag.group for flag in flags}


def test_groups_have_no_strangers():
    commands = [command_named(name) for name in COMMANDS]
    known = {flag.name for command in commands for flag in command.flags}
    for kind in {kind for command in commands for kind in command.shared.values()}:
        assert {name for names in getattr(kind, "FLAG_GROUPS", {}).values() for name in names} <= known


def test_train_has_headings_and_the_defaults_of_each_kind(run):
    out = run("train", "--help-all")
    words = " ".join(out.split())
    assert "sgd: decay rate of the sum of past gradients (0)." in words
    assert "of hidden weights (0.95). --beta1" in words
    headings = [line for line in out.splitlines() if re.fullmatch("[a-z][a-z ]+:", line)]
    assert headings[:5] == ["run:", "model:", "data:", "optimizer:", "duration and schedule:"]
    assert headings[-1] == "output:"


def test_help_of_a_preset_shows_its_defaults(run):
    out = run("train", "--preset", "bytes", "--help-all")
    assert "(default: transformer)" in out
    assert "(default: mlp)" not in out


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_a_screen_and_help_all_has_every_flag(name, run, monkeypatch):
    """The main flags and those without which nothing works; a screen has 40 lines of 80 characters."""
    monkeypatch.setenv("COLUMNS", "80")
    brief, whole = run(name, "--help"), run(name, "--help-all")
    flags = command_named(name).flags
    assert len(brief.splitlines()) <= 40
    assert all(flag.usage in " ".join(whole.split()) for flag in flags)
    assert all(flag.usage in " ".join(brief.split()) for flag in flags if flag.required)
    assert set(COMMANDS[name].main.split()) <= {flag.name for flag in flags}


def test_numbers_in_other_spellings(run, folder):
    """Overheads as fractions and percentages; counts with exponents and underscores."""
    fitted = ["fit", folder / "steps.csv", "--group", "g", "--json", "--overhead"]
    for written, value in (("0.4", 0.4), ("40%", 0.4), ("40.0%", 0.4), ("1", 1), ("150%", 1.5)):
        assert strict_json(run(*fitted, written))["convention"]["overhead"] == value
    small = ["risk", "--capacity", 2, "--source", 3, "--batch-size", 1, "--learning-rate", 0.1, "--num-samples", 9]
    assert run(*small, "--dim", "1e1") == run(*small, "--dim", "1_0") == run(*small, "--dim", 10)
