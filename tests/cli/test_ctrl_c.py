"""Ctrl-C in the commands that have nothing to keep: one sentence, status 130, never a traceback."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sgdtheory import cli
from sgdtheory.cli import ctrl_c
from tests.marks import slow

ROOT = Path(__file__).parents[2]
SENTENCE = "sgdtheory: interrupted\n"
PROGRAM = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job inherits that it is ignored
import sgdtheory.cli
sgdtheory.cli.ctrl_c.take_over()  # as `main` does first of all
print("prepared", flush=True)
sgdtheory.cli.main()
"""
PROBLEM = ["--capacity", "2", "--source", "3"]
COMMANDS = {
    "risk": ["risk", *PROBLEM, "--batch-size", "16", "--learning-rate", "0.3", "--num-samples", "1e4"],
    "cbs": ["cbs", *PROBLEM, "--num-samples", *(f"{2 * 10**n}" for n in range(3, 13))],
    "fit": ["fit", "--fit-alpha"],
    "simulate": ["simulate", *PROBLEM, "--batch-size", "4", "--learning-rate", "0.3", "--num-samples", "4e9"],
}
IMPORTED = """
import sys
before = set(sys.modules)
import sgdtheory.cli
print(*sorted(set(sys.modules) - before))
"""


def interrupted(arguments, delays):
    """Output of a command to which SIGINT is sent so long after its first import."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", PROGRAM, *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "encoding": "utf-8"}
    process = subprocess.Popen(command, env=environment, **pipes)
    try:
        assert process.stdout.readline() == "prepared\n"
        for delay in delays:
            time.sleep(delay)
            process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
    finally:
        process.kill()
    return process.returncode, out, err


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("delays", [(0.02,), slow((0.3,)), (0.3, 0.0), slow((0.7, 0.02))], ids=str)
def test_ctrl_c_is_one_sentence(name, delays):
    status, out, err = interrupted(COMMANDS[name], delays)
    if status == 0:  # it was quicker
        assert out
        assert all(line.startswith("sgdtheory: note: ") for line in err.splitlines())
    else:
        allowed = SENTENCE, "sgdtheory: note: interrupted before any replica had finished\n"
        assert (status, out) == (130, "")
        assert err in allowed


def test_until_it_hears_ctrl_c_the_command_imports_next_to_nothing():
    """`typing` alone would take five times as long as all the rest."""
    environment = {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-S", "-c", IMPORTED], env=environment, capture_output=True, text=True)
    found = done.stdout.split()
    assert "sgdtheory.cli.ctrl_c" in found
    assert not {"typing", "re", "threading", "contextlib", "numpy", "tyro"} & set(found)


def test_a_call_from_python_leaves_ctrl_c_alone(capsys):
    before = signal.getsignal(signal.SIGINT)
    cli.main(["--version"])
    assert signal.getsignal(signal.SIGINT) is before


def test_what_has_to_be_closed_is_closed():
    program = """
import os, signal
from sgdtheory.cli import ctrl_c
signal.signal(signal.SIGINT, signal.default_int_handler)
ctrl_c.take_over()
try:
    with ctrl_c.Unwinding():
        os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt:
    print("closed", flush=True)
os.kill(os.getpid(), signal.SIGINT)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (ctrl_c.STATUS, "closed\n", SENTENCE)


def test_a_process_that_ignores_ctrl_c_goes_on():
    program = """
import os, signal
from sgdtheory.cli import ctrl_c
signal.signal(signal.SIGINT, signal.SIG_IGN)
ctrl_c.take_over()
os.kill(os.getpid(), signal.SIGINT)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
