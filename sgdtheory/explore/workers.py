"""Scheduling of computations on workers: a newer position of a slider replaces an older one.

A job belongs to a page and to a subject of that page. At most one job of a subject waits, the newest; the one before it
is stopped after a grace period. Pages take turns. Quick jobs have workers of their own, one per algorithm, so that
neither a long job nor the other algorithm delays the answer to a slider.
"""

import contextlib
import itertools
import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from typing import Any

from sgdtheory.explore.state import SLOTS
from sgdtheory.explore.worker import Job, Message, work

GRACE = 0.4  # A job has this many seconds until a newer one stops it: else nothing moves while a slider moves.
MOST_LONG = 4  # At most this many workers run jobs that may take long.
PATIENCE = 5.0  # The process of a stopped job is killed if the job has not ended after this many seconds.
PATIENCE_ASKED = 30.0  # Jobs that visitors ask for have this many seconds to end, because replicas end together.
RESTARTED_AFTER = 1.0  # A worker is restarted after this many seconds: one that cannot start does not fill the machine.
THREADS = "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"

DIED = "the computing process ended; move a control to try again"

Hear = Callable[[Message], None]


class Task:
    """A job, whose it is, and who hears of it."""

    def __init__(self, page: Hashable, subject: Hashable, job: Job, hear: Hear, grace: float) -> None:
        self.page, self.subject, self.job, self.hear, self.grace = page, subject, job, hear, grace
        self.begun = 0.0
        self.taken = False  # by a process that has warmed up
        self.told_to_stop = False


class Lane:
    """Workers that share what waits, `nice` ones after all else of the machine. Called from any thread."""

    def __init__(self, number: int, nice: bool = False, patience: float = PATIENCE) -> None:
        self.nice, self.patience = nice, patience
        self.lock = threading.RLock()
        self._waiting: list[Task] = []
        self._served: list[Hashable] = []  # pages, the one served last at the end
        self._workers = [_Process(self) for _ in range(number)]

    @property
    def waiting(self) -> int:
        """Return the number of jobs that no worker has begun."""
        return len(self._waiting)

    def submit(self, task: Task) -> None:
        """Compute it when a worker is free; what it overtakes is dropped."""
        with self.lock:
            self._waiting = [each for each in self._waiting if (each.page, each.subject) != (task.page, task.subject)]
            self._waiting.append(task)
            for worker in self._workers:
                running = worker.task
                if running and (running.page, running.subject) == (task.page, task.subject):
                    worker.stop_after(running.grace)
        self.distribute()

    def stop(self, page: Hashable, subject: Hashable = None) -> None:
        """Drop what waits and stop what runs of a page, or of one subject of it."""
        with self.lock:

            def meant(task: Task) -> bool:
                return task.page == page and subject in (None, task.subject)

            dropped = [task for task in self._waiting if meant(task)]
            self._waiting = [task for task in self._waiting if not meant(task)]
            for worker in self._workers:
                if worker.task and meant(worker.task):
                    worker.stop_after(0.0)
        for task in dropped:
            task.hear(Message(task.job.number, "stopped"))

    def distribute(self) -> None:
        """Give free workers what waits, of the page served longest ago first."""
        with self.lock:
            for worker in self._workers:
                if worker.task is None and worker.alive and self._waiting:
                    self._waiting.sort(key=lambda task: self._turn(task.page))
                    task = self._waiting.pop(0)
                    self._served = [page for page in self._served if page != task.page][-100:] + [task.page]
                    worker.begin(task)

    def _turn(self, page: Hashable) -> int:
        return self._served.index(page) if page in self._served else -1

    def close(self) -> None:
        """End its processes."""
        for worker in self._workers:
            worker.close()


class _Process:
    """A worker's process, seen from the server."""

    def __init__(self, lane: Lane) -> None:
        self.lane, self.task = lane, None
        self.alive, self.closed = True, False
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        before = {name: os.environ.get(name) for name in THREADS}
        os.environ.update(dict.fromkeys(THREADS, "1"))  # workers share the cores already
        try:
            self.process = context.Process(target=work, args=(other, self.lane.nice), daemon=True)
            self.process.start()
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})
        other.close()
        threading.Thread(target=self._listen, daemon=True).start()

    def begin(self, task: Task) -> None:
        """Compute it."""
        self.task, task.begun = task, time.monotonic()
        with contextlib.suppress(OSError):  # it has died: `_listen` will hear of that, and tell
            self.connection.send(task.job)

    def stop_after(self, grace: float) -> None:
        """Stop what runs when it has had so many seconds."""
        task = self.task
        if task is None or (task.told_to_stop and grace > 0):
            return
        task.told_to_stop = True
        left = task.begun + grace - time.monotonic()
        if left <= 0:
            self._stop(task)
        else:
            timer = threading.Timer(left, self._stop, (task,))
            timer.daemon = True
            timer.start()

    def _stop(self, task: Task) -> None:
        with self.lane.lock, contextlib.suppress(OSError):
            if self.task is task and not self.closed:
                self.connection.send(task.job.number)
                self._end_later(task)

    def _end_later(self, task: Task) -> None:
        end = threading.Timer(self.lane.patience, self._end, (task,))
        end.daemon = True
        end.start()

    def _end(self, task: Task) -> None:
        """End the process that has not ended this job: an interrupt in compiled code may be lost, or hold a lock.

        One that still warms up will not begin it; another would have to warm up as well.
        """
        with self.lane.lock:
            if self.task is not task or self.closed:
                return
            if task.taken:
                self.process.kill()  # `_listen` hears of it, and starts another
            else:
                self._end_later(task)

    def _listen(self) -> None:
        """Pass on what the worker tells; one that has died is replaced."""
        try:
            while True:
                message = self.connection.recv()
                task = self.task
                if task is None or message.number != task.job.number:
                    continue
                if message.kind == "taken":
                    task.taken = True
                    continue
                if message.kind != "answer":
                    self.task = None
                self._tell(task, message)
                if message.kind != "answer":
                    self.lane.distribute()
        except (EOFError, OSError):
            if self.closed:
                return
        with self.lane.lock:
            self.alive = False  # until it has been replaced nothing may be sent to it
            task, self.task = self.task, None
        self.process.join(RESTARTED_AFTER)
        time.sleep(RESTARTED_AFTER)
        if self.closed:
            return
        self._start()
        self.alive = True
        if task:
            self._tell(task, Message(task.job.number, "failed", DIED))
        self.lane.distribute()

    def _tell(self, task: Task, message: Message) -> None:
        """Whoever hears of it must not keep the worker from going on."""
        try:
            task.hear(message)
        except Exception:
            logging.getLogger(__name__).exception("a page could not be informed of a job")

    def close(self) -> None:
        """End the process."""
        self.closed = True
        self.process.kill()
        self.process.join(5)
        self.connection.close()


@contextlib.contextmanager
def _ctrl_c_ignored() -> Iterator[None]:
    """For processes that begin: until one has its own handler, Ctrl-C would have it print a traceback."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)


class Workers:
    """All workers of a server: for quick jobs one an algorithm, two for what is asked for, others for the rest."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        others = max(1, min(MOST_LONG, (os.cpu_count() or 2) - 1))
        with _ctrl_c_ignored():
            quick = {slot: Lane(1) for slot in SLOTS}
            self.lanes = {
                **quick,
                "asked": Lane(2, nice=True, patience=PATIENCE_ASKED),
                "long": Lane(others, nice=True),
            }

    def submit(
        self,
        lane: str,
        page: Hashable,
        subject: Hashable,
        name: str,
        arguments: tuple[Any, ...],
        hear: Hear,
        grace: float = GRACE,
    ) -> int:
        """Have `name` computed for a page; returns the job's number. `hear` is called from another thread."""
        job = Job(next(self._numbers), name, arguments)
        self.lanes[lane].submit(Task(page, subject, job, hear, grace))
        return job.number

    def stop(self, page: Hashable, subject: Hashable = None) -> None:
        """Stop what is computed for a page, or one subject of it."""
        for lane in self.lanes.values():
            lane.stop(page, subject)

    def close(self) -> None:
        """End all processes."""
        for lane in self.lanes.values():
            lane.close()
