"""Ctrl-C on the command line: one sentence and exit status 130, at once."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

STATUS = 130  # 128 + SIGINT, as shells have it
SHOW_CURSOR = b"\x1b[?25h\r\n"  # a progress bar hides it


def take_over() -> None:
    """From here on Ctrl-C ends the process; a parent that has it ignored, as of a background job, is obeyed.

    It does not unwind: an exception that comes in the middle of an import, or of compiled code with threads of its own,
    is printed as a traceback, gets lost, or crashes. What has something to keep takes Ctrl-C over again, for as long
    as it runs (`sgdtheory.interrupts`).
    """
    in_main = threading.current_thread() is threading.main_thread()
    if in_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def leave() -> NoReturn:
    """End the process as Ctrl-C does."""
    with contextlib.suppress(OSError):
        if os.isatty(2):
            os.write(2, SHOW_CURSOR)
        os.write(2, b"sgdtheory: interrupted\n")
    os._exit(STATUS)


@contextlib.contextmanager
def unwinding() -> Iterator[None]:
    """Where a Ctrl-C raises KeyboardInterrupt, for what has to be closed (jobs of a cluster); a second one ends."""
    if signal.getsignal(signal.SIGINT) is not _end:
        yield
        return
    signal.signal(signal.SIGINT, _unwind)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, _end)


def _end(number: int, frame: FrameType | None) -> None:
    leave()


def _unwind(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGINT, _end)
    raise KeyboardInterrupt
