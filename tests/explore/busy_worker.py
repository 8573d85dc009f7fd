"""A worker's process with computations that tests can hold in their hands; it warms up in no time."""

import importlib
import signal
import sys
import time

from sgdtheory.explore.registry import JOBS
from sgdtheory.explore.spec import Job
from sgdtheory.explore.worker import work


def count(times, name, tell):
    """Tell so many numbers, one every millisecond."""
    for number in range(times):
        time.sleep(0.001)
        tell((name, number))


def flood(times, name, tell):
    """Send as many messages as asked for."""
    for number in range(times):
        tell((name, number))


def refuse(sentence, name, tell):
    raise ValueError(sentence)


def fail(sentence, name, tell):
    raise RuntimeError(sentence)


def importing(folder, name, tell):
    """Import a module of the folder that takes half a second, and tell before and after."""
    sys.path.insert(0, folder)
    tell("begun")
    tell(importlib.import_module("half_a_second").end)


def deaf(seconds, name, tell):
    """Take no notice of interrupts for so long, as compiled code may."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    tell("begun")
    time.sleep(seconds)


def nothing(state, slot, tell):
    """Do nothing, instead of warming the worker up."""


def slowly(state, slot, tell):
    time.sleep(0.3)


def run_worker(connection, nice):
    """Run `work` with jobs that are busy instead of computing."""
    mine = {each.__name__: each for each in (count, flood, refuse, fail, importing, deaf)}
    mine |= dict.fromkeys(("run", "tuned"), nothing) | {"critical": slowly}
    JOBS.update({name: Job(name, compute, "", "", None, turn=0) for name, compute in mine.items()})
    work(connection, nice)
