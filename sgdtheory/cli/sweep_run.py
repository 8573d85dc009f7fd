"""Common parts of the commands on a store of runs: flags, training with its progress, and the table of runs."""

import contextlib
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from sgdtheory._common.files import write_atomically
from sgdtheory._common.sheets import Quantity, Sheet, Table
from sgdtheory.cli import ctrl_c
from sgdtheory.cli.function_command import Output
from sgdtheory.cli.output import announce_models, print_note
from sgdtheory.cli.progress import phases
from sgdtheory.training import CHECKPOINT_SECONDS

STORE = Path("runs")


@dataclass(frozen=True, kw_only=True)
class SweepingFlags:
    """The flags of a command that trains runs into a store."""

    FLAG_GROUPS: ClassVar[dict[str, tuple[str, ...]]] = {
        "runs": ("grid", "store", "target_loss", "by", "where", "entry_point", "csv"),
        "how they run": ("cluster", "jobs", "lanes", "checkpoint_seconds"),
    }

    cluster: str | None = None
    """HOST:PORT of a dask scheduler, or slurm; the store has to be on a file system that its workers share."""
    jobs: int = 1
    """Number of SLURM jobs."""
    lanes: int | None = None
    """Runs that advance side by side; by default 16, fewer for large networks."""
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    """Time between checkpoints."""

    def sweep(self, configs: list[Any], store: Path) -> Any:
        """Return the table of the configs' runs, trained where they were not."""
        from sgdtheory.sweep import cluster_executor, sweep

        announce_models(configs)
        options = {"lanes": self.lanes, "checkpoint_seconds": self.checkpoint_seconds}
        with contextlib.ExitStack() as stack:
            executor = None
            if self.cluster is not None:
                stack.enter_context(ctrl_c.Unwinding())  # Ctrl-C closes what has been started
                executor = stack.enter_context(cluster_executor(self.cluster, self.jobs))
            show = stack.enter_context(phases("reading the store"))
            return sweep(configs, store, executor=executor, progress=lambda each: show(_progress(each)), **options)


def output(table: Any, store: Path, csv: Path | None) -> Output:
    """Write a table of runs and return what is printed of it; the exit status is 130 if Ctrl-C came before its end."""
    if csv:
        write_atomically(csv, table.to_csv())
    from sgdtheory.sweep import Store

    place = Store(store).directory  # of a run; one that has none has not begun
    outcomes = Counter(
        result.outcome if result else "unfinished" if place(config).exists() else "not begun"
        for config, result in zip(table.configs, table.results, strict=True)
    )
    names = sorted(outcomes)
    quantities = [Quantity("", "outcome", names), Quantity("", "runs", [outcomes[name] for name in names])]
    seconds = sum(result.seconds for result in table.finished)
    legend = f"{seconds:.0f} s of training, runs side by side counted each"
    settings = {"runs": table.columns(), "outcomes": outcomes}
    shown = Table(quantities, legend=legend)
    return Output(
        Sheet(f"{len(table.configs)} runs in {store}", [shown], table.notes, settings),
        _interrupted if table.interrupted else lambda: None,
    )


def _interrupted() -> None:
    print_note("interrupted; the same command goes on")
    sys.exit(130)


def _progress(progress: Any) -> str:
    """Return how far a sweep is."""
    left = progress.seconds_left
    estimate = f", about {_duration(left)} left" if left > 0 else ""
    return f"{progress.finished} of {progress.total} runs finished{estimate}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
