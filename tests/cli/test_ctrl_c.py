"""Ctrl-C in the commands that have nothing to keep: one sentence, status 130, never a traceback."""

import io
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sgdtheory import __version__, cli
from sgdtheory._common.sheets import Quantity, Table
from sgdtheory.cli import ctrl_c
from sgdtheory.cli.output import print_tables
from tests.marks import slow

ROOT = Path(__file__).parents[2]
SENTENCE = "sgdtheory: interrupted\n"
PREPARED = b"prepared\n"
PROGRAM = """
import os, signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job inherits that it is ignored
import sgdtheory.cli
sgdtheory.cli.ctrl_c.take_over()  # as `main` does first of all
os.write(1, b"prepared\\n")
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


ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}


def interrupted(arguments, delays):
    """Output of a command to which SIGINT is sent so long after it is prepared: its first import."""
    command = [sys.executable, "-c", PROGRAM, *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "encoding": "utf-8"}
    process = subprocess.Popen(command, env=ENVIRONMENT, **pipes)
    try:
        # A buffered reader might take the answer too, which `communicate` would then not find.
        assert os.read(process.stdout.fileno(), len(PREPARED)) == PREPARED
        for delay in delays:
            time.sleep(delay)
            os.kill(process.pid, signal.SIGINT)  # which has not been waited for, and has its number to the end
        out, err = process.communicate(timeout=300)
    finally:
        process.kill()
    return process.returncode, out, err


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("delays", [(0.02,), (0.3, 0.0)], ids=str)
def test_ctrl_c_is_one_sentence(name, delays):
    agrees(*interrupted(COMMANDS[name], delays))


def agrees(status, out, err):
    """The whole answer and status 0, or no answer, one sentence and status 130; whether it is the answer."""
    if status == 0:  # it was quicker
        assert out
        assert all(line.startswith("sgdtheory: note: ") for line in err.splitlines())
    else:
        allowed = SENTENCE, "sgdtheory: note: interrupted before any replica had finished\n"
        assert (status, out) == (130, "")
        assert err in allowed
    return status == 0


@pytest.mark.slow
def test_exit_status_and_output_agree_whenever_ctrl_c_comes_twice():
    """Delays that are random but fixed, from the first import to beyond the end of the process."""
    rng, begun = random.Random(6), time.perf_counter()
    assert agrees(*interrupted(COMMANDS["risk"], ()))
    whole = time.perf_counter() - begun
    delays = [(rng.uniform(0, whole), rng.choice([0.0, rng.uniform(0, 0.1)])) for _ in range(12)]
    assert sum(agrees(*interrupted(COMMANDS["risk"], each)) for each in delays) < 12


# ------------------------------------------------------------------ moments

BEGIN = """
import atexit, os, signal, sys, threading
signal.signal(signal.SIGINT, signal.default_int_handler)
import sgdtheory.cli
from sgdtheory._common.sheets import Quantity, Table
from sgdtheory.cli import ctrl_c

def press(kill=os.kill, own=os.getpid()):  # an interpreter that ends takes names away
    kill(own, 2)

"""


AT_THE_END = {  # where a signal comes after the answer or the refusal
    "after main": "sgdtheory.cli.main(); press()",
    "while threads are waited for": """
def wait():
    threading.main_thread().join()
    press()
sgdtheory.cli.main()
threading.Thread(target=wait).start()
""",
    "in a function at exit": "atexit.register(press); sgdtheory.cli.main()",
    "when handlers are gone": """
class Last:
    def __del__(self, press=press):
        press()
last = Last()
sgdtheory.cli.main()
""",
}
ANSWERED = 0, f"{__version__}\n", ""
REFUSED = 2, "", "sgdtheory: rsik is not a command, did you mean risk? (see sgdtheory --help)\n"
STOPPED = ctrl_c.STATUS, "", SENTENCE
MOMENTS = {
    "a second signal, in the middle of what the first one does": (
        "write = os.write; os.write = lambda *arguments: (press(), write(*arguments)); ctrl_c.take_over(); press()",
        ("--version", STOPPED),
    ),
    "what has to be closed is closed": (
        """
ctrl_c.take_over()
try:
    with ctrl_c.Unwinding():
        press()
except KeyboardInterrupt:
    print("closed", flush=True)
press()
""",
        ("--version", (ctrl_c.STATUS, "closed\n", SENTENCE)),
    ),
    "a process that ignores it goes on": (
        "signal.signal(signal.SIGINT, signal.SIG_IGN); ctrl_c.take_over(); press()",
        ("--version", (0, "", "")),
    ),
} | {
    f"{arguments}, {name}": (AT_THE_END[name], (arguments, outcome))
    for name in AT_THE_END
    for arguments, outcome in (("--version", ANSWERED), ("rsik", REFUSED))
    if arguments == "--version" or name in ("in a function at exit", "when handlers are gone")
}
LONG = "--version, while threads are waited for", "--version, in a function at exit", "rsik, when handlers are gone"


def ended(program, *arguments):
    """Exit status, standard output and standard error of a program."""
    command = [sys.executable, "-c", BEGIN + program, *arguments]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, encoding="utf-8")
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("name", [slow(name) if name in LONG else name for name in MOMENTS])
def test_moments(name):
    """A signal after the answer used to kill the process once Python had restored its default action."""
    program, (arguments, outcome) = MOMENTS[name]
    assert ended(program, arguments) == outcome


AT_EVERY_LINE = """
import json, tempfile
file, kept = tempfile.TemporaryFile(), os.dup(1)
os.dup2(file.fileno(), 1)
files = sgdtheory.cli.__file__, ctrl_c.__file__
seen, place, outcomes = 0, None, []  # place: the line at which this process, a child, sends itself the first signal
def child():
    global place
    pipes = os.pipe(), os.pipe()
    number = os.fork()
    if number == 0:
        place = seen
        for stream, (_, write) in zip((1, 2), pipes):
            os.dup2(write, stream)
            os.close(write)
        return
    for _, write in pipes:
        os.close(write)
    out, err = (open(read, encoding="utf-8").read() for read, _ in pipes)
    written = os.pread(file.fileno(), 1000, 0).decode()  # before the child began
    outcomes.append((os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]), written + out, err))
def trace(frame, event, argument):
    global seen
    if frame.f_code.co_filename not in files:
        return None
    if event == "line":
        seen += 1
        if place is None:
            child()
        if place is not None and place <= seen <= place + 1:
            os.kill(os.getpid(), 2)
    return trace
ctrl_c.take_over()
sys.settrace(trace)
sgdtheory.cli.main()
sys.settrace(None)
if place is None:
    os.dup2(kept, 1)
    print(json.dumps(outcomes))
"""


@pytest.mark.slow
def test_exit_status_and_output_agree_at_every_line():
    """Two signals at two lines of the command line, one after the other, from the first of `main` to the last.

    At each line a child of the process begins there, as a process of its own would be: it alone gets the signals.
    """
    status, out, _ = ended(AT_EVERY_LINE, "--version")
    outcomes = [tuple(each) for each in json.loads(out)]
    assert status == 0
    assert len(outcomes) > 20
    assert set(outcomes) == {ANSWERED, STOPPED}


LATE = """
import ctypes
ctrl_c.take_over()
memory = ctypes.create_string_buffer(1024)  # a struct sigaction, whose first field is the handler
ctypes.CDLL(None).sigaction(signal.SIGINT, None, memory)
note = ctypes.CFUNCTYPE(None, ctypes.c_int)(ctypes.c_void_p.from_buffer(memory).value)
if sys.argv[1] == "ours":
    ctrl_c.ignore_for_good()
else:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
note(signal.SIGINT)  # as the handler that a signal called just before
class Broken:
    def __del__(self):
        raise OSError("another")
Broken()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads a struct as Linux has it")
def test_a_signal_just_before_it_is_ignored_leaves_no_traceback():
    """Python writes one for a signal that was noted under a handler and is looked at under SIG_IGN."""
    status, _, err = ended(LATE, "plain")
    assert (status, "race condition" in err, "another" in err) == (0, True, True)
    status, _, err = ended(LATE, "ours")
    assert (status, "race condition" in err, "another" in err) == (0, False, True)


def test_a_table_waits_until_the_command_ends(monkeypatch):
    """A console of its own would write each line at once, and a Ctrl-C after the last leave an answer and 130."""
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8"))
    table = Table([Quantity("risk", "risk", [0.25])], title="R")
    print_tables(table, table)
    assert raw.getvalue() == b""
    sys.stdout.flush()
    assert raw.getvalue().decode().count("0.25") == 2


def test_until_it_hears_ctrl_c_the_command_imports_next_to_nothing():
    """`typing` alone would take five times as long as all the rest."""
    command = [sys.executable, "-S", "-c", IMPORTED]
    found = subprocess.check_output(command, env={"PYTHONPATH": str(ROOT)}, text=True).split()
    assert "sgdtheory.cli.ctrl_c" in found
    assert not {"typing", "re", "threading", "contextlib", "numpy", "tyro"} & set(found)


def test_a_call_from_python_leaves_ctrl_c_alone(capsys):
    before = signal.getsignal(signal.SIGINT)
    cli.main(["--version"])
    assert signal.getsignal(signal.SIGINT) is before
