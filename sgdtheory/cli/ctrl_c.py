"""Ctrl-C on the command line: one sentence and exit status 130, at once; after the answer, nothing any more.

Exit status and output agree at every moment. Until `answered` is called Ctrl-C ends the process with 130, and what
waits in the buffer of standard output is lost. After that the command has its answer, which is written whole, and its
own exit status stays.

The module imports next to nothing: until it has been imported, Ctrl-C ends in a traceback.
"""

import atexit
import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, NoReturn

STATUS = 130  # Shells report 128 + SIGINT for an interrupted program.
SHOW_CURSOR = b"\x1b[?25h\r\n"  # The code shows the cursor, which a progress bar hides.


class _Process:
    """The one handler of Ctrl-C of this process: there is one SIGINT."""

    taken = False  # whether `take_over` has Ctrl-C end the process
    ending = False  # whether the exit status is settled, so that Ctrl-C has nothing to add
    status: "int | None" = None  # with which Ctrl-C ends a process whose output is written; None before


def take_over() -> None:
    """Let Ctrl-C end the process from now on, unless the parent ignores it, as for a background job.

    It does not unwind: an exception that comes in the middle of an import, or of compiled code with threads of its own,
    is printed as a traceback, gets lost, or crashes. What has something to keep takes Ctrl-C over again, for as long
    as it runs (`sgdtheory.interrupts`).

    Raises:
        ValueError: this is not the main thread.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)
        _Process.taken = True
        atexit.register(_ignore_to_the_end)  # the first that is registered is the last that is called


def answered(status: "int | None" = None) -> None:
    """Let the process end with its own exit status: from here on a Ctrl-C prints nothing.

    It is called before the last of the output is written, and again with the exit status once that is done: then a
    Ctrl-C ends what an interpreter waits for at its end, other processes of a distributed run for example.
    """
    if _Process.taken:
        _Process.ending = True
        _Process.status = status


def leave() -> "NoReturn":
    """End the process as Ctrl-C does. Called from the main thread."""
    _Process.ending = True  # a second one has nothing to add
    try:
        if os.isatty(2):
            os.write(2, SHOW_CURSOR)
        os.write(2, b"sgdtheory: interrupted\n")
    finally:
        os._exit(STATUS)


def ignore_for_good() -> None:
    """Ignore Ctrl-C until the process is gone.

    An interpreter that ends puts the default action in the place of every handler, and SIGINT then kills the process
    whatever its exit status was to be. Only SIG_IGN stays.
    """
    # A signal that came just before SIG_IGN was set finds no handler, about which Python writes a traceback.
    before = sys.unraisablehook

    def hook(unraisable: "Any") -> None:
        if not (unraisable.exc_type is OSError and "race condition" in str(unraisable.exc_value)):
            before(unraisable)

    sys.unraisablehook = hook
    signal.signal(signal.SIGINT, signal.SIG_IGN)


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
    if _Process.status is not None:
        os._exit(_Process.status)
    if not _Process.ending:
        leave()


def _ignore_to_the_end() -> None:
    if _Process.ending or signal.getsignal(signal.SIGINT) is _end:
        ignore_for_good()


def _unwind(number: int, frame: "FrameType | None") -> None:
    signal.signal(signal.SIGINT, _end)
    raise KeyboardInterrupt
