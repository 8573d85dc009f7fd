import os
import subprocess
import sys

import pytest

from sgdtheory import cli
from tests.cli.text import COLUMNS, RISK, strict_json


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nothing"],
        ["risk"],
        ["fit", "--nope"],
        ["fit", "--level", "high"],
        [*RISK, "--num-samples", "1", "--dim", "1.5"],
    ],
)
def test_bad_usage(capsys, arguments):
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    assert caught.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        ([], ["risk", "fit"]),
        (["risk"], ["--capacity", "--source", "--batch-size", "--learning-rate", "--num-samples", "--dim", "--json"]),
        (["fit"], ["CSV", "--group", "--size", "--fit-alpha", "--reference", "--overhead", "--forecast", "--plot"]),
    ],
)
def test_help(capsys, command, flags):
    with pytest.raises(SystemExit) as caught:
        cli.main([*command, "--help"])
    assert caught.value.code in (0, None)
    out = capsys.readouterr().out
    for flag in flags:
        assert flag in out


def process(*arguments, stdout=subprocess.PIPE):
    command = [sys.executable, "-m", "sgdtheory", *map(str, arguments)]
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, encoding="utf-8")


def test_risk_process(run):
    done = process(*RISK, "--num-samples", 1e4, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert strict_json(done.stdout) == strict_json(run(*RISK, "--num-samples", 1e4, "--json"))


def test_fit_process(run, table_file):
    done = process("fit", table_file, *COLUMNS)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == run("fit", table_file, *COLUMNS)


def test_failing_process():
    done = process("fit", "/nothing.csv")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "sgdtheory: cannot read /nothing.csv: No such file or directory\n"


@pytest.mark.parametrize("arguments", [["fit"], ["fit", "--json"]])
def test_reader_that_has_seen_enough(arguments):
    """As in `sgdtheory fit | head -0`: no complaint."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        assert process(*arguments, stdout=writing).stderr == ""
    finally:
        os.close(writing)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Expected one of {risk, simulate, cbs, fit, train, sweep, coordcheck}"),
        (("rsik",), "Unrecognized options: rsik"),
        (("risk", "--capacity", "2"), "Missing from sgdtheory risk"),
        (("fit", "--level", "high"), "Error parsing --level: could not convert string to float: 'high'"),
        (("fit", "--bogus", "1"), "Unrecognized options: --bogus"),
    ],
)
def test_usage_errors_are_one_line(arguments, message, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(list(arguments))
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("sgdtheory: ")
    assert message in error
    assert error.count("\n") == 1
