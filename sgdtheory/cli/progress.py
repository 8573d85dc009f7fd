"""Progress of a command: the elapsed time and the phase of its work, on a terminal and where there is none."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.text import Text

from sgdtheory.cli.output import print_note

FIRST, LONGEST = 3.0, 30.0  # The seconds between two notes double from the first to the longest.


@contextlib.contextmanager
def phases(begin: str) -> Iterator[Callable[[str], None]]:
    """Show the elapsed time and the phase of the work inside; the function that is yielded names the next phase.

    A terminal has one line that is kept up to date. Elsewhere notes are printed, from three seconds on and ever
    more rarely, so that the log of a job shows that work goes on and is not flooded.
    """
    phase = _Phase(begin)
    console = Console(stderr=True)
    if console.is_terminal:
        with console.status(phase):  # pyright: ignore[reportArgumentType] (any renderable will do)
            yield phase.change
        return
    ended = threading.Event()
    thread = threading.Thread(target=_print_notes, args=(phase, ended), daemon=True)
    thread.start()
    try:
        yield phase.change
    finally:
        ended.set()
        thread.join()


class _Phase:
    """The phase of the work, and the time since the command began."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.begin = time.monotonic()

    def change(self, text: str) -> None:
        """Begin the next phase."""
        self.text = text

    def __str__(self) -> str:
        return f"{time.monotonic() - self.begin:.0f} s: {self.text}"

    def __rich__(self) -> Text:
        """Return the line as it is now: a terminal asks for it several times a second."""
        return Text(str(self))


def _print_notes(phase: _Phase, ended: threading.Event) -> None:
    pause = FIRST
    while not ended.wait(pause):
        print_note(str(phase))
        pause = min(2 * pause, LONGEST)
