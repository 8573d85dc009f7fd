"""Ctrl-C on the command line: one sentence and exit status 130, at once.

The module imports next to nothing: until it has been imported, Ctrl-C ends in a traceback.
"""

import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn

STATUS = 130  # 128 + SIGINT, as shells have it
SHOW_CURSOR = b"\x1b[?25h\r\n"  # a progress bar hides it


def take_over() -> None:
    """From here on Ctrl-C ends the process; a parent that has it ignored, as of a background job, is obeyed.

    It does not unwind: an exception that comes in the middle of an import, or of compiled code with threads of its own,
    is printed as a traceback, gets lost, or crashes. What has something to keep takes Ctrl-C over again, for as long
    as it runs (`sgdtheory.interrupts`).

    Raises:
        ValueError: this is not the main thread.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def leave() -> "NoReturn":
    """End the process as Ctrl-C does. Called from the main thread."""
    try:
        signal.signal(signal.SIGINT, _heard)  # a second one has nothing to add
        if os.isatty(2):
            os.write(2, SHOW_CURSOR)
        os.write(2, b"sgdtheory: interrupted\n")
    finally:
        os._exit(STATUS)


class Unwinding:
    """A context in which a Ctrl-C raises KeyboardInterrupt, for what has to be closed: jobs of a cluster."""

    def __enter__(self) -> None:
        """Have it raise, where it would have ended the process."""
        self._taken = signal.getsignal(signal.SIGINT) is _end
        if self._taken:
            signal.signal(signal.SIGINT, _unwind)

    def __exit__(self, *error: object) -> None:
        """Have it end the process again."""
        if self._taken:
            signal.signal(signal.SIGINT, _end)


def _end(number: int, frame: "FrameType | None") -> None:
    leave()


def _heard(number: int, frame: "FrameType | None") -> None:
    """Nothing; for SIG_IGN in its place Python prints a traceback if a signal came just before."""


def _unwind(number: int, frame: "FrameType | None") -> None:
    signal.signal(signal.SIGINT, _end)
    raise KeyboardInterrupt
