"""Flags as help shows them are those that are accepted, each under a heading; what an overhead may be."""

import contextlib
import io
import re

import pytest
import tyro

from sgdtheory.cli.commands import COMMANDS, command_class
from sgdtheory.cli.flags import OPTIONS, flags_of
from tests.cli.text import COLUMNS, RISK, strict_json


def accepted(kind):
    """The flags in the help of the library that parses them."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), pytest.raises(SystemExit):
        tyro.cli(kind, args=["--help"])
    return set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", out.getvalue())) - {"--help"}


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_what_is_accepted(name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    kind = command_class(name)
    flags = flags_of(kind, {})
    spelled = {spelling for flag in flags for spelling in flag.spellings if not flag.positional}
    mentioned = {word for flag in flags for word in re.findall(r"--[a-z-]+", flag.text + kind.__doc__)}
    assert accepted(kind) - mentioned <= spelled <= accepted(kind)
    assert all(flag.text for flag in flags)
    if name not in ("simulate", "cbs"):  # these have a few, without a better heading
        assert OPTIONS not in {flag.group for flag in flags}


def test_groups_have_no_strangers():
    known = {flag.name for name in COMMANDS for flag in flags_of(command_class(name), {})}
    for name in COMMANDS:
        groups = getattr(command_class(name), "FLAG_GROUPS", {})
        assert {field for fields in groups.values() for field in fields} <= known


def test_train_has_headings(run):
    out = run("train", "--help-all")
    headings = [line for line in out.splitlines() if re.fullmatch("[a-z][a-z ]+:", line)]
    assert headings[:5] == ["run:", "model:", "data:", "optimizer:", "duration and schedule:"]
    assert headings[-1] == "output:"


def test_help_of_a_preset_shows_its_defaults(run):
    out = run("train", "--preset", "bytes", "--help-all")
    assert "(default: transformer)" in out
    assert "(default: mlp)" not in out


@pytest.mark.parametrize("written", ["0.4", "40%", "40.0%"])
def test_overheads(run, table_file, written):
    convention = strict_json(run("fit", table_file, *COLUMNS, "--overhead", written, "--json"))["convention"]
    assert convention["overhead"] == 0.4
    small = ["cbs", "--capacity", 2, "--source", 3, "--dim", 5, "--num-samples", 20, "--json"]
    assert strict_json(run(*small, "--overhead", written))["overhead"] == 0.4


def test_overheads_above_one_say_what_they_are(run, fails, table_file):
    fitted = ["fit", table_file, *COLUMNS, "--json", "--overhead"]
    assert "overhead is a fraction, 0.2 is 20%; got 20: write 20% or 2000%" in fails(*fitted, "20")
    assert "got 1.5: write 1.5% or 150%" in fails(*fitted, "1.5")
    assert strict_json(run(*fitted, "1"))["convention"]["overhead"] == 1
    assert strict_json(run(*fitted, "150%"))["convention"]["overhead"] == 1.5


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_a_screen_and_help_all_has_every_flag(name, run, monkeypatch):
    """The main flags and those without which nothing works; a screen has 40 lines of 100 characters."""
    monkeypatch.setenv("COLUMNS", "100")
    brief, whole = run(name, "--help"), run(name, "--help-all")
    flags = flags_of(command_class(name), {})
    assert len(brief.splitlines()) <= 40
    assert all(flag.usage in " ".join(whole.split()) for flag in flags)
    assert all(flag.usage in " ".join(brief.split()) for flag in flags if flag.required)
    assert set(COMMANDS[name].main.split()) <= {flag.name for flag in flags}


def test_counts_are_whole_numbers_however_written(run, fails):
    small = ["cbs", "--capacity", 2, "--source", 3, "--num-samples", 20, "--json", "--dim"]
    assert run(*small, "1e1") == run(*small, "1_0") == run(*small, 10)
    for wrong in ("2.5", "nan", "1e999999999"):
        assert f"--dim must be a whole number, got {wrong}" in fails(*small, wrong)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["risk", "--lr", "3"], "--lr is not a flag of sgdtheory risk, did you mean --learning-rate?"),
        (["cbs", "--lr", "3"], "--lr is not a flag of sgdtheory cbs (see"),  # which tunes the learning rate
        ([*RISK, "--num-samples", 9, "--schedule", "cosin"], "got cosin, did you mean cosine?"),
        ([*RISK, "--num-samples", 9], "--num-samples must be at least --batch-size (one step)"),
    ],
)
def test_errors_speak_of_flags_and_say_what_was_meant(fails, arguments, message):
    assert message in fails(*arguments)
