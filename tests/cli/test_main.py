import io
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory import cli
from sgdtheory.cli import progress
from sgdtheory.cli.commands import BRIEF, COMMANDS, GROUPS, command_named
from sgdtheory.cli.completion import SHELLS
from sgdtheory.cli.help import overview
from sgdtheory.cli.output import print_json, print_json_line
from sgdtheory.cli.parsing import parse
from sgdtheory.cli.plain import _spelled
from tests.cli.text import RISK, numbers
from tests.marks import slow

COMMANDS_IN_ANY_ENCODING = [
    ["--help"],
    ["risk", "--help"],
    [*RISK, "--num-samples", 1e4, 1e5],
    ["cbs", "--capacity", 2, "--source", 3, "--dim", 20, "--num-samples", 40, 80],
    ["fit", "--forecast", 7000],
    ["parametrizations"],
    ["risk", "--capacity", "γ"],
]


def test_a_reader_that_has_seen_enough_causes_no_complaint():
    """A reader such as `sgdtheory parametrizations | head -0`."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        command = [sys.executable, "-m", "sgdtheory", "parametrizations"]
        assert subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True).stderr == ""
    finally:
        os.close(writing)


def printed(monkeypatch, arguments, encoding):
    """Exit status and standard output, which has that encoding, of a command in this process."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setenv("COLUMNS", "80")
    try:
        status = cli.main([str(argument) for argument in arguments])
    except SystemExit as stop:
        status = stop.code
    stream.flush()
    return status, stream.buffer.getvalue().decode(encoding)


@pytest.mark.parametrize("encoding", ["ascii", slow("latin-1")])
@pytest.mark.parametrize("arguments", COMMANDS_IN_ANY_ENCODING, ids=lambda arguments: arguments[0])
def test_any_encoding_of_standard_output(monkeypatch, encoding, arguments):
    """Every number of the table is there; what the encoding does not have is spelt out, and fits the screen."""
    (status, out), expected = (printed(monkeypatch, arguments, each) for each in (encoding, "utf-8"))
    assert status == expected[0]
    assert not numbers(expected[1].replace("−", "-")) - numbers(out)
    assert all(len(line) <= 80 for line in out.splitlines())
    assert "?" not in out.replace("grows?", "").replace("sgdtheory COMMAND", "")


def test_letters_are_spelt_out(monkeypatch):
    for encoding, square in (("ascii", "^2"), ("latin-1", "²")):
        _, out = printed(monkeypatch, [*RISK, "--num-samples", 1e4], encoding)
        assert out.startswith(f"lambda_i = i^-2, s_i = i^-3, sigma{square} = 1\n+--")
        assert "| learning rate gamma | 0.3 |" in re.sub(" +", " ", out)
    assert "".join(map(_spelled, "γΛΣτ²é…±∞→─│\ud800€")) == "gammaLambdaSigmatau^2e...+-infinity->-|??"


def test_the_version(run):
    """The printed version is that of the clone, whatever is installed."""
    assert run("--version") == f"{st.__version__}\n"
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert st.__version__ == project["version"]


def test_nothing_is_help_that_fits_a_screen_with_an_example(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    out = run()
    assert out == run("--help") == run("-h")
    assert len(out.splitlines()) < 28  # of these 18 are commands with what they do
    assert max(map(len, out.splitlines())) <= 80
    (example,) = (line.split() for line in out.splitlines() if line.startswith("Example: "))
    assert example[1] == "sgdtheory"
    assert len(run(*example[2:-2])) > 100  # the example works (at its smallest D)
    assert all(f"\n  {name} " in out for name in COMMANDS if name not in GROUPS[BRIEF])
    assert f" {BRIEF}: {', '.join(GROUPS[BRIEF])} Example: " in " ".join(out.split())


def test_the_overview_has_one_line_a_command():
    lines = overview(80).splitlines()
    for name, entry in COMMANDS.items():
        assert sum(line.endswith(f"  {entry.summary}") for line in lines) == (name not in GROUPS[BRIEF])


@pytest.mark.parametrize("name", COMMANDS)
def test_the_example_of_a_command_is_understood(name, run):
    """It begins with the command, parses, and stands above all else in the command's help but its usage."""
    arguments = shlex.split(COMMANDS[name].example)
    assert arguments[0] == name
    assert parse(arguments).func == command_named(name).run
    assert f"\nexample: sgdtheory {name} " in run(name, "--help").partition("\n\n")[0]


@pytest.mark.parametrize("shell", [each if each == "bash" else slow(each) for each in SHELLS])
def test_completion_scripts_know_every_command_and_flag(run, shell, tmp_path):
    script = run("--print-completion", shell)
    assert all(word in script for word in (*COMMANDS, "--overhead", "--num-replicas"))
    if shell == "bash":
        (tmp_path / "script").write_text(script)
        subprocess.run(["bash", "-n", tmp_path / "script"], check=True)
        words = 'COMP_WORDS=(sgdtheory fit); COMP_CWORD=1; _tyro_sgdtheory; echo "${COMPREPLY[@]}"'
        done = subprocess.run(["bash", "-c", f"source {tmp_path}/script; {words}"], capture_output=True, text=True)
        assert done.stdout == "fit fit-curves fit-grid fit-law fit-rates fit-sweep\n"


@pytest.mark.parametrize("show", [print_json, print_json_line])
def test_json_tells_what_is_infinite_from_what_is_absent(capsys, show):
    """Whole numbers are integers, as long as a float counts them one by one."""
    show({"a": [np.inf, -np.inf, np.nan, None], "b": np.array([2.0, 0.5]), "c": 1e300, "d": True})
    found = json.loads(capsys.readouterr().out)
    assert found == {"a": ["inf", "-inf", None, None], "b": [2, 0.5], "c": 1e300, "d": True}
    assert [type(each) for each in (*found["b"], found["c"], found["d"])] == [int, float, float, bool]


def test_a_slow_search_shows_how_far_it_is(capsys, monkeypatch):
    """Without a terminal the progress appears as notes, after a moment; a library call reports to its caller."""
    monkeypatch.setattr(progress, "FIRST", 1e-3)
    monkeypatch.setattr(progress, "LONGEST", 1e-3)
    cli.main(["cbs", "--capacity", "2", "--source", "3", "--num-samples", "1234", "12345"])
    lines = capsys.readouterr().err.splitlines()
    assert any(re.search(r"note: \d+ s: D = 1234, 1 of 2: γ is tuned for \d+ B and n$", line) for line in lines)
    said = []
    st.testing.assert_bound(st.bounds.bach_moulines_2013, max_examples=20, progress=said.append)
    assert said[-1] == "problem 20 of 20"
