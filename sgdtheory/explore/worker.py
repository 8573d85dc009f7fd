"""One process that computes: it takes a job at a time, sends answers on the way, and ends a job on request."""

import _thread
import contextlib
import os
import queue
import signal
import sys
import threading
from multiprocessing.connection import Connection
from types import FrameType
from typing import Any, NamedTuple

SOON = 0.01  # An interrupt that did not end its job is repeated after this many seconds.
# Half an import or half a compilation cannot be taken up again: afterwards every job that needs the module fails.
WHOLE = "importlib", "_frozen_importlib", "jax"
NICE = 10  # Workers for long jobs have this niceness, so that quick jobs and the browser come first.


class Job(NamedTuple):
    """Computation for a worker: a number of its own, the name of the computation, and its arguments."""

    number: int
    name: str
    arguments: tuple[Any, ...]


class Message(NamedTuple):
    """Report of a worker on a job: "taken", an "answer", or its end: "done", "stopped", "refused" or "failed"."""

    number: int
    kind: str
    content: Any = None


def work(connection: Connection, nice: bool) -> None:
    """Until the connection is closed. Runs in a process of its own."""
    with contextlib.suppress(AttributeError, OSError):
        os.nice(NICE if nice else 0)
        os.setsid()  # Ctrl-C at the terminal is the server's, which then closes the connection
    worker = _Worker(connection)
    signal.signal(signal.SIGINT, worker.stop)
    sys.unraisablehook = worker.again
    threading.Thread(target=worker.listen, daemon=True).start()
    worker.warm_up()
    while True:
        worker.next_job()


def may_end(frame: FrameType | None) -> bool:
    """Return whether a job may be ended here, which is outside of imports and of JAX."""
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] in WHOLE:
            return False
        frame = frame.f_back
    return True


class _Worker:
    """The state that the thread which listens and the one that computes share."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self.running: int | None = None  # number of the job that may be stopped
        self.stopped: int | None = None  # number of the job that is to be

    def listen(self) -> None:
        """Take jobs, and numbers of jobs to stop."""
        try:
            while True:
                received = self.connection.recv()
                if isinstance(received, Job):
                    self.jobs.put(received)
                    continue
                self.interrupt(received)
        except (EOFError, OSError):
            os._exit(0)  # the server has gone

    def stop(self, signum: int = 0, frame: FrameType | None = None) -> None:
        """Handler of the signal: end the job that runs, once, if it is to be stopped; soon, if not here."""
        if self.stopped is None or self.running != self.stopped:
            return
        if not may_end(frame):
            self._interrupt_soon()
            return
        self.stopped = None
        raise KeyboardInterrupt

    def again(self, lost: Any) -> None:
        """Raise an interrupt again soon if it came where it is lost, for example in the garbage collector."""
        if isinstance(lost.exc_value, KeyboardInterrupt):
            self._interrupt_soon()
        else:
            sys.__unraisablehook__(lost)

    def _interrupt_soon(self) -> None:
        threading.Timer(SOON, self.interrupt, (self.running,)).start()

    def interrupt(self, number: int | None) -> None:
        """Have a job end, now or when it may."""
        self.stopped = number  # noted: it may be too early to stop it, or the worker be telling of it
        if number == self.running:
            _thread.interrupt_main()

    def warm_up(self) -> None:
        """Import and compute what first calls take long for."""
        from sgdtheory.explore.registry import JOBS
        from sgdtheory.explore.state import State

        for name in ("run", "tuned", "critical"):
            JOBS[name].compute(State(), 0, lambda answer: None)

    def next_job(self) -> None:
        """Wait for one, do it, and tell how it ended."""
        job = self.jobs.get()
        self.tell(job, "taken")
        kind, content = "stopped", None
        with contextlib.suppress(KeyboardInterrupt):
            self.running = job.number
            self.stop()
            kind, content = self.outcome(job)
            self.running = None
        self.running = None
        self.tell(job, kind, content)

    def outcome(self, job: Job) -> tuple[str, Any]:
        """Do it: how it ended, and what is to be said of that."""
        from sgdtheory.explore.downloads import FILES
        from sgdtheory.explore.registry import JOBS

        try:
            if job.name in FILES:
                return "done", FILES[job.name](*job.arguments)
            state, slot = job.arguments
            JOBS[job.name].compute(state, slot, lambda answer: self.tell(job, "answer", answer))
        except ValueError as error:
            return "refused", str(error)
        except Exception as error:  # whatever it is, the page says it, and the worker lives on
            return "failed", f"{type(error).__name__}: {error}"
        return "done", None

    def tell(self, job: Job, kind: str, content: Any = None) -> None:
        """Send a message about a job, whole."""
        stoppable, self.running = self.running, None
        try:
            self.connection.send(Message(job.number, kind, content))
        except OSError:
            os._exit(0)
        self.running = stoppable
        self.stop()
