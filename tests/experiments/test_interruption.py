"""Ctrl-C during `python -m experiments`: soon, with 130, one line, and nothing left behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.marks import slow

ROOT = Path(__file__).parents[2]
PATIENCE = 300  # seconds
LINE = "experiments: interrupted in theorem7; no experiment had finished"
BEGIN = """
import hashlib, os, signal, sys, time
from pathlib import Path
from experiments._lib.interruption import Interrupted, interruptible, protected, take_over
take_over()
def ctrl_c(): os.kill(os.getpid(), signal.SIGINT)
"""


LISTEN = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.executable, sys.argv[1:])"


def start(*arguments):
    """A process that a shell in the foreground might have started: one of a script's background ignores Ctrl-C."""
    return subprocess.Popen(
        [sys.executable, "-c", LISTEN, sys.executable, *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run_script(text):
    """Exit status, standard error and seconds of a script."""
    process, begun = start("-c", BEGIN + text), time.perf_counter()
    _, errors = process.communicate(timeout=PATIENCE)
    return process.returncode, errors, time.perf_counter() - begun


def members(session):
    """Processes of a session that run."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, own = (folder / "stat").read_text().rsplit(")", 1)[1].split()[:4]
        except OSError:  # it has ended
            continue
        if int(own) == session and state != "Z":
            found.append(int(folder.name))
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="on one core an experiment has no workers")
@pytest.mark.parametrize("times", [slow(1), 2])
def test_experiments_end_soon(tmp_path, times):
    """The signal comes as from a terminal, with workers at work: it goes to them as well."""
    process = start("-m", "experiments", "--only", "theorem7", "--output", tmp_path)
    assert process.stdout.readline().startswith("theorem7, about")
    waited = time.perf_counter() + PATIENCE
    while len(members(process.pid)) < 2 and time.perf_counter() < waited and process.poll() is None:
        time.sleep(0.05)
    time.sleep(1)
    begun = time.perf_counter()
    for _ in range(times):
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.1)
    _, errors = process.communicate(timeout=PATIENCE)
    assert time.perf_counter() - begun < 60  # 0.1 s to 2 s on a machine that does nothing else
    assert (process.returncode, errors.strip()) == (130, LINE)
    waited = time.perf_counter() + 5
    while (left := members(process.pid)) and time.perf_counter() < waited:  # killed, and not yet gone
        time.sleep(0.05)
    assert left == []
    assert [path.name for path in tmp_path.rglob("*")] == ["report.md"]


def test_during_import():
    status, errors, _ = run_script("""
import runpy
class Stop:
    def find_spec(self, name, path=None, target=None):
        if name == "tyro":
            ctrl_c()
sys.meta_path.insert(0, Stop())
sys.argv = ["experiments", "--only", "theorem7"]
runpy.run_module("experiments", run_name="__main__", alter_sys=True)
""")
    assert (status, errors) == (130, "experiments: interrupted before anything ran\n")


def test_in_compiled_code():
    """No handler of Python's runs there: the process is ended from outside."""
    status, errors, seconds = run_script("""
import threading
threading.Timer(0.1, ctrl_c).start()
with interruptible(lambda: "words"):
    hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)
""")
    assert (status, errors) == (130, "experiments: words\n")
    assert seconds < 30  # that computation takes minutes


def test_files_that_belong_together_are_all_written(tmp_path):
    status, errors, _ = run_script(f"""
with interruptible(lambda: "words"):
    with protected():
        ctrl_c()
        Path({str(tmp_path)!r}, "first").write_text("")
        time.sleep(0.2)
        Path({str(tmp_path)!r}, "second").write_text("")
    Path({str(tmp_path)!r}, "third").write_text("")
""")
    assert (status, errors) == (130, "experiments: words\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "second"]


@pytest.mark.slow
def test_a_simulation_that_stops_early_is_no_result(tmp_path):
    """A simulation interrupted by Ctrl-C returns only a part: the next report of progress ends it."""
    status, errors, _ = run_script(f"""
import jax, sgdtheory as st
from experiments._lib.progress import report
def stop(share):
    if share > 0:
        ctrl_c()
    report(share)
with interruptible(lambda: "words"):
    setting = dict(batch_size=1, learning_rate=0.2, num_samples=1e4, num_replicas=64)
    st.simulate(jax.random.key(0), st.PowerLaw(2.0, 3.0, 8), **setting, progress=stop)
    report(1.0)
    Path({str(tmp_path)!r}, "result").write_text("")
""")
    assert (status, errors) == (130, "experiments: words\n")
    assert not list(tmp_path.iterdir())


def test_training_that_stops_early_is_no_result(tmp_path):
    """A trainer takes Ctrl-C over and returns: the next word about progress ends the experiment."""
    status, errors, _ = run_script(f"""
from experiments._lib.progress import tracked
from sgdtheory._common.interrupts import Interrupts
with interruptible(lambda: "words"):
    for number in tracked(range(2)):
        with Interrupts() as interrupts:
            ctrl_c()
            assert interrupts.pending
        Path({str(tmp_path)!r}, f"{{number}}").write_text("")
""")
    assert (status, errors) == (130, "experiments: words\n")
    assert [path.name for path in tmp_path.iterdir()] == ["0"]


def test_temporary_files_go():
    status, errors, _ = run_script("""
import tempfile
with interruptible(lambda: scratch):
    folder = tempfile.mkdtemp()
    scratch = os.path.dirname(folder)
    ctrl_c()
    time.sleep(30)
""")
    scratch = Path(errors.removeprefix("experiments: ").strip())
    assert status == 130
    assert scratch.name.startswith("experiments-")
    assert not scratch.exists()


def test_a_process_that_was_told_to_ignore_it_does():
    process = start("-c", "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)" + BEGIN + "ctrl_c(); print(1)")
    output, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, output, errors) == (0, "1\n", "")


def test_nothing_is_raised_inside_of_a_library():
    """Only where it does no harm: an exception inside of JAX can end in a segmentation fault."""
    status, errors, _ = run_script("""
from experiments._lib.interruption import check
raised = 0
def words():
    return f"raised {raised} times"
with interruptible(words):
    try:
        ctrl_c()
        time.sleep(0.5)
    except BaseException:
        raised += 1
    check()
""")
    assert (status, errors) == (130, "experiments: raised 0 times\n")


@pytest.mark.slow
def test_what_has_ended_keeps_its_exit_status():
    """A signal after signal handlers are gone: Python's default action would kill the process."""
    status, errors, _ = run_script("""
import runpy
class Last:
    def __del__(self, kill=os.kill, own=os.getpid()):
        kill(own, 2)
last = Last()
sys.argv = ["experiments", "--only", "nothing"]
runpy.run_module("experiments", run_name="__main__", alter_sys=True)
""")
    assert status == 2
    assert errors.startswith("experiments: only must be one of ")
    assert errors.count("\n") == 1
