"""Display of a run of the experiments: a live line on a terminal, plain lines in a pipe."""

import contextlib
import time
from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from experiments._lib.progress import listening
from experiments._lib.registry import EXPERIMENTS, Scale
from experiments._lib.results import COLORS, Verdict
from experiments._lib.schedule import Schedule, duration

PIPE_SECONDS = 30.0  # between lines about one experiment
PIPE_WIDTH = 160


class Display:
    """Says which experiment runs, how far it is and when all should be done, and what each has found."""

    def __init__(self, names: Sequence[str], scale: Scale):
        self._names, self._schedule = names, Schedule(names, scale)
        self._console = Console()
        if not self._console.is_terminal:
            self._console.width = PIPE_WIDTH

    def start(self) -> None:
        """The total."""
        number = len(self._names)
        what = f"{number} experiments" if number > 1 else self._names[0]
        self.line(f"{what}, about {duration(self._schedule.seconds_left)}")

    def line(self, text: str) -> None:
        """A line that stays; at once, in a pipe too."""
        self._console.print(text, highlight=False, soft_wrap=True)
        self._console.file.flush()

    @contextlib.contextmanager
    def running(self, name: str) -> Iterator[None]:
        """A context in which one experiment runs and says how far it is."""
        show = self._live if self._console.is_terminal else self._plain
        with show(name):
            yield
        self._schedule.set(name, 1.0)

    def finished(self, name: str, verdicts: Sequence[Verdict], seconds: float) -> None:
        """Print the results of an experiment."""
        left = f"; {self._schedule.share:.0%} of all, about {duration(self._schedule.seconds_left)} left"
        end = left if name != self._names[-1] else ""
        self.line(f"{name} ({self._place(name)}): {summary(verdicts)} ({duration(seconds)}{end})")

    def table(self, verdicts: Sequence[Verdict]) -> None:
        """All verdicts."""
        table = Table(show_lines=True)
        for header in ("claim", "predicted", "measured", "verdict"):
            table.add_column(header, overflow="fold")
        for verdict in verdicts:
            cells = [f"{v:.4g}" if isinstance(v, float) else str(v) for v in (verdict.predicted, verdict.measured)]
            if verdict.interval and isinstance(verdict.measured, float):  # A text states its own range.
                low, high = verdict.interval
                cells[1] += f" ({low:.4g} … {high:.4g})"
            row = [escape(cell) for cell in (verdict.claim, *cells)]
            table.add_row(*row, f"[{COLORS[verdict.verdict]}]{verdict.verdict}[/]")
        self._console.print(table)

    def _place(self, name: str) -> str:
        return f"{self._names.index(name) + 1} of {len(self._names)}"

    def _words(self, name: str, stage: str, share: float) -> str:
        return f"{name} ({self._place(name)}){f', {stage}' if stage else ''}: {share:.0%}"

    @contextlib.contextmanager
    def _live(self, name: str) -> Iterator[None]:
        columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(20), TextColumn("{task.fields[whole]}")
        with Progress(*columns, TimeElapsedColumn(), console=self._console, transient=True) as bar:
            task = bar.add_task(self._words(name, "", 0.0), total=1.0, whole="")

            def listen(stage: str, share: float) -> None:
                self._schedule.set(name, share)
                left = duration(self._schedule.seconds_left)
                whole = f"all: {self._schedule.share:.0%}, about {left} left"
                bar.update(task, description=self._words(name, stage, share), completed=share, whole=whole)

            with listening(listen):
                yield

    @contextlib.contextmanager
    def _plain(self, name: str) -> Iterator[None]:
        last = time.perf_counter()

        def listen(stage: str, share: float) -> None:
            nonlocal last
            self._schedule.set(name, share)
            if time.perf_counter() - last > PIPE_SECONDS:
                last = time.perf_counter()
                left = duration(self._schedule.seconds_left)
                self.line(f"  {self._words(name, stage, share)}, all: {self._schedule.share:.0%}, about {left} left")

        with listening(listen):
            yield


def print_list(names: Sequence[str]) -> None:
    """A table: name, what it asks, how long it takes at either scale."""
    console = Console()
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    table = Table("name", "what it asks", "quick", "full", show_lines=True)
    for each in map(EXPERIMENTS.__getitem__, names):
        quick = f"{duration(each.quick)}{' *' if each.by_name_only else ''}"
        table.add_row(each.name, escape(each.question), quick, duration(each.full))
    console.print(table)
    if any(EXPERIMENTS[name].by_name_only for name in names):
        console.print("On two cores. * runs by name only: python -m experiments --only NAME", highlight=False)


def summary(verdicts: Sequence[Verdict]) -> str:
    """Return the number of claims that hold, and the names of those that fail."""
    counts = Counter(verdict.verdict for verdict in verdicts)
    parts = [f"{counts[name]} {_plural(name, counts[name])}" for name in COLORS if counts[name]]
    failing = [verdict.claim for verdict in verdicts if verdict.verdict == "fails"]
    return ", ".join(parts) + (f": {'; '.join(failing)}" if failing else "") if parts else "no claims"


def _plural(name: str, number: int) -> str:
    return {"holds": "hold", "fails": "fail"}.get(name, name) if number > 1 else name
