"""Ctrl-C ends the experiments within seconds, says what is kept, and exits with 130.

An exception may not be raised just anywhere: inside of JAX it can end in a segmentation fault, and in compiled code,
where the main thread may be for a minute, it comes late. So Ctrl-C is only noted. `check`, which every word about
progress calls, raises `Interrupted` at a place where that does no harm; and a thread ends the process if that takes too
long.
"""

import contextlib
import multiprocessing
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing import resource_tracker
from typing import Any

GRACE_SECONDS = 1.5  # for checkpoints and cleaning up, before the process is ended from outside
FILES_SECONDS = 5.0  # for files that are being written
EXIT_STATUS = 130


class Interrupted(BaseException):
    """Ctrl-C came. Not a KeyboardInterrupt, which a simulation takes for "return what has finished"."""


class _Interruption:
    """State of this process with respect to Ctrl-C; there is one of each signal, and so one of these."""

    def __init__(self) -> None:
        self.reader: socket.socket | None = None  # of what Python itself writes: the numbers of signals
        self.writer: socket.socket | None = None
        self.pending = threading.Event()
        self.files = threading.Lock()  # held while files are written that belong together
        self.started = False
        self.describe: Callable[[], str] = lambda: "interrupted before anything ran"
        self.scratch: str | None = None
        self._ending = threading.Lock()

    def handle(self, number: int, frame: Any) -> None:
        """Note the signal; before anything runs there is nothing to wait for. A second one changes nothing."""
        first, _ = not self.pending.is_set(), self.pending.set()
        if first and not self.started:
            self.end()

    def came(self) -> bool:
        """Return whether the signal came, whoever handled it."""
        if self.reader is not None and not self.pending.is_set():
            with contextlib.suppress(BlockingIOError):
                if signal.SIGINT in self.reader.recv(64, socket.MSG_PEEK | socket.MSG_DONTWAIT):
                    self.pending.set()
        return self.pending.is_set()

    def watch(self, reader: socket.socket) -> None:
        """Hear of the signal, whoever handles it, and end the process if it does not end by itself."""
        while signal.SIGINT not in reader.recv(64, socket.MSG_PEEK):
            reader.recv(1)
        self.pending.set()
        if self.started:
            time.sleep(GRACE_SECONDS)
        self.end()

    def end(self) -> None:
        """Say what is kept and leave, without the joins and finalizers that a thread in compiled code would hold up."""
        self._ending.acquire()  # whoever comes second waits until the process is gone
        self.files.acquire(timeout=FILES_SECONDS)
        if self.scratch is not None:
            shutil.rmtree(self.scratch, ignore_errors=True)
        for process in multiprocessing.active_children():
            process.kill()
        clear = "\r\x1b[K\x1b[?25h" if sys.stderr.isatty() else ""  # a live line, and the cursor that it hid
        text = f"{clear}experiments: {self.describe()}\n"
        os.write(sys.stderr.fileno(), text.encode(sys.stderr.encoding or "utf-8", "replace"))
        os._exit(EXIT_STATUS)


_STATE = _Interruption()


def take_over() -> None:
    """Let Ctrl-C end this process as the module says; to be called once, in the main thread.

    A process that was started to ignore Ctrl-C, in the background of a script, goes on ignoring it.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        return
    _STATE.reader, _STATE.writer = socket.socketpair()
    _STATE.writer.setblocking(False)
    signal.set_wakeup_fd(_STATE.writer.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGINT, _STATE.handle)
    threading.Thread(target=_STATE.watch, args=(_STATE.reader,), daemon=True).start()


@contextlib.contextmanager
def interruptible(describe: Callable[[], str]) -> Iterator[None]:
    """A context that Ctrl-C ends, once `take_over` was called, with the line that `describe` returns.

    Temporary files of the experiments go to one folder, which goes with the context.
    """
    before = tempfile.tempdir
    with tempfile.TemporaryDirectory(prefix="experiments-") as scratch:
        _STATE.describe, _STATE.scratch, _STATE.started = describe, scratch, True
        tempfile.tempdir = scratch
        try:
            check()
            yield
            check()
        except BaseException:
            if _STATE.came():  # an error now is what the interruption left undone
                _STATE.end()
            raise
        finally:
            _STATE.started, _STATE.scratch, tempfile.tempdir = False, None, before


def check() -> None:
    """Raise `Interrupted` if Ctrl-C came; in the main thread alone."""
    if _STATE.came() and threading.current_thread() is threading.main_thread():
        raise Interrupted


@contextlib.contextmanager
def protected() -> Iterator[None]:
    """A context that Ctrl-C lets finish, of milliseconds: files that belong together are all written, or none."""
    check()
    with finishing():
        yield
    check()


@contextlib.contextmanager
def finishing() -> Iterator[None]:
    """The same for what is still to be written after Ctrl-C."""
    with _STATE.files:
        yield


@contextlib.contextmanager
def hidden_from_children() -> Iterator[None]:
    """A context in which new processes learn to ignore Ctrl-C, which a terminal sends to them as well."""
    resource_tracker.ensure_running()  # multiprocessing starts it with the first process, and lets Ctrl-C in again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
