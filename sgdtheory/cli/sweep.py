"""`sgdtheory sweep`, `show-sweep` and `extend-sweep`: a store of training runs."""

import contextlib
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import tyro

from sgdtheory._common.files import csv_columns, write_atomically
from sgdtheory._common.sheets import Quantity, Sheet, Table
from sgdtheory.cli import ctrl_c
from sgdtheory.cli.function_command import Output
from sgdtheory.cli.output import announce_models, print_note
from sgdtheory.cli.progress import phases
from sgdtheory.sweep import read_grid
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

        announce_models(config.value("entry_point") for config in configs)
        options = {"lanes": self.lanes, "checkpoint_seconds": self.checkpoint_seconds}
        with contextlib.ExitStack() as stack:
            executor = None
            if self.cluster is not None:
                stack.enter_context(ctrl_c.Unwinding())  # Ctrl-C closes what has been started
                executor = stack.enter_context(cluster_executor(self.cluster, self.jobs))
            show = stack.enter_context(phases("reading the store"))
            return sweep(configs, store, executor=executor, progress=lambda each: show(_progress(each)), **options)


def sweep(
    sweeping: SweepingFlags,
    grid: Annotated[Path, tyro.conf.Positional],
    store: Path = STORE,
    csv: Path | None = None,
) -> Output:
    """Train every run of a grid, in a store that keeps what is finished and resumes what is not.

    Args:
        grid: TOML file: [fixed] fields of a training run, [grid] lists of values, [[cases.NAME]] fields that go
            together.
        store: Folder of the runs.
        csv: Write the table of runs to this CSV file.
    """
    return _output(sweeping.sweep(read_grid(grid), store), store, csv)


def show_sweep(
    store: Annotated[Path, tyro.conf.Positional] = STORE,
    where: tuple[str, ...] = (),
    csv: Path | None = None,
    losses: Path | None = None,
    by: tuple[str, ...] = ("width",),
) -> Output:
    """Print the runs that a store holds, and train nothing.

    Args:
        store: Folder of the runs.
        where: Only the runs with these fields, as width=32,64 optimizer=adam.
        csv: Write the table of runs to this CSV file.
        losses: Write the runs' loss curves to this CSV file, a grid of losses that `sgdtheory fit-grid` reads.
        by: Fields that tell groups of loss curves apart; the first is the size.
    """
    from sgdtheory.sweep import SweepTable, conditions, loss_columns

    table = SweepTable.from_store(store).where(**conditions(where))
    if losses:
        write_atomically(losses, csv_columns(loss_columns(table, by)))
    return _output(table, store, csv)


def extend_sweep(
    sweeping: SweepingFlags,
    store: Annotated[Path, tyro.conf.Positional] = STORE,
    target_loss: tuple[float, ...] = (),
    by: tuple[str, ...] = ("width",),
    where: tuple[str, ...] = (),
    entry_point: str | None = None,
    csv: Path | None = None,
) -> Output:
    """Add to a store what its fit lacks: values beyond the grid's ends, longer runs where the target was missed.

    Args:
        store: Folder of the runs.
        target_loss: Losses to reach; None: the runs' own.
        by: Fields that tell groups apart.
        where: Only the store's runs with these fields, as width=32,64 optimizer=adam.
        entry_point: Model of your own that these runs train, module:name. The store names it too, but runs no code by
            itself.
        csv: Write the table of runs to this CSV file.
    """
    from sgdtheory.sweep import SweepTable, conditions

    table = SweepTable.from_store(store, entry_point=entry_point)
    configs = _missing(table.where(**conditions(where)), target_loss, by)
    if not configs:
        why = "every batch size is tuned, or more of the same would not help"
        return Output(Sheet("", [], answer=f"nothing to add to {store}: {why}"))
    return _output(sweeping.sweep(configs, store), store, csv)


def _missing(table: Any, target_loss: tuple[float, ...], by: tuple[str, ...]) -> list[Any]:
    """Return the runs that have not ended, and those that a fit of the table lacks."""
    from sgdtheory.sweep import missing_runs

    targets = target_loss or sorted({config.target_loss for config in table.configs} - {None})
    if not targets:
        raise ValueError("target_loss must be given: the runs of the store have none of their own")
    open_runs = [config for config, result in zip(table.configs, table.results, strict=True) if result is None]
    return [*open_runs, *(config for target in targets for config in missing_runs(table, target, by))]


def _output(table: Any, store: Path, csv: Path | None) -> Output:
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
        Sheet(f"{len(table.configs)} run{'s' * (len(table.configs) != 1)} in {store}", [shown], table.notes, settings),
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
