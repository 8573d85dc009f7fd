"""Common part of the commands on a store of runs: flags, running a sweep with a live line, and the table of runs."""

import contextlib
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from sgdtheory._common.files import write_atomically
from sgdtheory.cli import ctrl_c
from sgdtheory.cli.output import announce_models, live_line, print_json, print_note, print_tables, print_text
from sgdtheory.training import CHECKPOINT_SECONDS

STORE = Path("runs")


@dataclass(frozen=True, kw_only=True)
class TableCommand:
    """A command that prints the table of runs."""

    csv: Path | None = None
    """Write the table of runs here."""
    json: bool = False
    """Print JSON; null stands for what is absent, "inf" for what is infinite."""

    def show(self, table: Any, store: Path) -> None:
        """Write and print a table of runs; the exit status is 130 if Ctrl-C came before its end."""
        if self.csv:
            write_atomically(self.csv, table.to_csv())
        outcomes = Counter(result.outcome if result else "unfinished" for result in table.results)
        if self.json:
            print_json({"runs": table.columns(), "outcomes": outcomes, "notes": table.notes})
        else:
            _print(table, store, outcomes)
        for note in table.notes:
            print_note(note)
        if table.interrupted:
            print_note("interrupted; the same command goes on")
            sys.exit(130)


@dataclass(frozen=True, kw_only=True)
class SweepingCommand(TableCommand):
    """A command that trains runs into a store."""

    cluster: str | None = None
    """HOST:PORT of a dask scheduler, or slurm; the store has to be on a file system that its workers share."""
    jobs: int = 1
    """Number of SLURM jobs."""
    lanes: int | None = None
    """Runs that advance side by side; by default 16, fewer for large networks."""
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    """Time between checkpoints."""

    def sweep(self, configs: list[Any], store: Path) -> Any:
        """The table of the configs' runs, trained where they were not."""
        from sgdtheory.sweep import cluster_executor, sweep

        announce_models(configs)
        options = {"lanes": self.lanes, "checkpoint_seconds": self.checkpoint_seconds}
        with contextlib.ExitStack() as stack:
            executor = None
            if self.cluster is not None:
                stack.enter_context(ctrl_c.Unwinding())  # Ctrl-C closes what has been started
                executor = stack.enter_context(cluster_executor(self.cluster, self.jobs))
            report = stack.enter_context(live_line("reading the store", _progress))
            return sweep(configs, store, executor=executor, progress=report, **options)


def _print(table: Any, store: Path, outcomes: Counter[str]) -> None:
    shown = Table(title=f"{len(table.configs)} runs in {store}")
    shown.add_column("outcome")
    shown.add_column("runs", justify="right")
    for name, number in sorted(outcomes.items()):
        shown.add_row(name, f"{number}")
    print_tables(shown)
    seconds = sum(result.seconds for result in table.finished)
    print_text(f"{seconds:.0f} s of training, runs side by side counted each")


def _progress(progress: Any) -> str:
    """Return in words how far a sweep is."""
    left = progress.seconds_left
    estimate = f", about {_duration(left)} left" if left > 0 else ""
    return f"{progress.finished} of {progress.total} runs finished{estimate}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
