"""Ctrl-C at a moment when everything is whole."""

import signal
import threading
from types import FrameType


class Interrupts:
    """A context in which Ctrl-C sets `pending`, for a loop to look at; a second one does what it did before."""

    def __init__(self) -> None:
        self.pending = False

    def __enter__(self) -> "Interrupts":
        """Take Ctrl-C over, where this thread may."""
        self._in_main = threading.current_thread() is threading.main_thread()
        if self._in_main:
            self._previous = signal.getsignal(signal.SIGINT)  # before `_note`, which needs it, can be called
            signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *error: object) -> None:
        """Give it back."""
        if self._in_main:
            signal.signal(signal.SIGINT, self._previous)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.pending:
            if callable(self._previous):
                self._previous(number, frame)
            raise KeyboardInterrupt
        self.pending = True
