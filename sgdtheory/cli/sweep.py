"""`sgdtheory sweep` and the commands on its store: what a sweep will take, what it holds, lacks and says about B*."""

import contextlib
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

from sgdtheory import sweep as sweeps
from sgdtheory._common.files import csv_columns, write_atomically
from sgdtheory._common.sheets import Sheet
from sgdtheory.cli import ctrl_c
from sgdtheory.cli.flags import File
from sgdtheory.cli.function_command import OWN, Drawn, Keywords, Output, Progress
from sgdtheory.cli.output import announce_models, print_note
from sgdtheory.cli.progress import phases
from sgdtheory.cli.settings import ConventionFlags
from sgdtheory.fits import Convention
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
        announce_models(config.value("entry_point") for config in configs)
        options: dict[str, Any] = {"lanes": self.lanes, "checkpoint_seconds": self.checkpoint_seconds}
        with contextlib.ExitStack() as stack:
            executor = None
            if self.cluster is not None:
                stack.enter_context(ctrl_c.Unwinding())  # Ctrl-C closes what has been started
                executor = stack.enter_context(sweeps.cluster_executor(self.cluster, self.jobs))
            show = stack.enter_context(phases("reading the store"))
            options["progress"] = lambda each: show(str(each))
            return sweeps.sweep(configs, store, executor=executor, **options)


@dataclass(frozen=True, kw_only=True)
class StoredFlags:
    """The flags of a command on the runs of a store."""

    GROUP: ClassVar[str] = OWN

    store: File = STORE
    """Folder of the runs (`sgdtheory sweep`)."""
    by: tuple[str, ...] = ("width",)
    """Fields that separate groups; the first is the size."""
    where: tuple[str, ...] = ()
    """Only the runs with these fields, as width=32,64 optimizer=adam."""

    def table(self, entry_point: str | None = None) -> sweeps.SweepTable:
        """Return the runs that the flags choose."""
        table = sweeps.SweepTable.from_store(self.store, entry_point=entry_point)
        return table.where(**sweeps.conditions(self.where))


def sweep(sweeping: SweepingFlags, grid: File, store: Path = STORE, csv: Path | None = None) -> Output:
    """Train every run of a grid, in a store that keeps what is finished and resumes what is not.

    Args:
        grid: TOML file: [fixed] fields of a training run, [grid] lists of values, [[cases.NAME]] fields that go
            together.
        store: Folder of the runs.
        csv: Write the table of runs to this CSV file.
    """
    return _output(sweeping.sweep(sweeps.read_grid(grid), store), store, csv)


def show_sweep(stored: StoredFlags, csv: Path | None = None, losses: Path | None = None) -> Output:
    """Print the runs that a store holds, and train nothing.

    Args:
        csv: Write the table of runs to this CSV file.
        losses: Write the runs' loss curves to this CSV file, a grid of losses that `sgdtheory fit-grid` reads.
        by: Fields that separate groups of loss curves; the first is the size.
    """
    table = stored.table()
    if losses:
        write_atomically(losses, csv_columns(sweeps.loss_columns(table, stored.by)))
    return _output(table, stored.store, csv)


def extend_sweep(
    stored: StoredFlags,
    sweeping: SweepingFlags,
    target_loss: tuple[float, ...] = (),
    entry_point: str | None = None,
    csv: Path | None = None,
) -> Output:
    """Add to a store what its fit lacks: values beyond the grid's ends, longer runs where the target was missed.

    Args:
        target_loss: Losses to reach; None: the runs' own.
        entry_point: Model of your own that these runs train, module:name. The store names it too, but runs no code by
            itself.
        csv: Write the table of runs to this CSV file.
    """
    table = stored.table(entry_point)
    missing = [config for config, result in zip(table.configs, table.results, strict=True) if result is None]
    for target in _targets(table, target_loss):
        missing += sweeps.missing_runs(table, target, stored.by)
    if not missing:
        why = "every batch size is tuned, or more of the same would not help"
        return Output(Sheet("", [], answer=f"nothing to add to {stored.store}: {why}"))
    return _output(sweeping.sweep(missing, stored.store), stored.store, csv)


def _targets(table: sweeps.SweepTable, target_loss: tuple[float, ...]) -> list[float]:
    """Return the losses to reach, those that are given or the runs' own, the highest first."""
    targets = sorted(target_loss, reverse=True) or table.target_losses
    if not targets:
        raise ValueError("target_loss must be given: the runs of the store have none of their own")
    return targets


def _output(table: sweeps.SweepTable, store: Path, csv: Path | None) -> Output:
    """Write a table of runs and return what is printed of it; the exit status is 130 if Ctrl-C came before its end."""
    if csv:
        write_atomically(csv, table.to_csv())

    def end() -> None:
        if table.interrupted:
            print_note("interrupted; the same command goes on")
            sys.exit(130)

    return Output(table.sheet(store), end)


def plan_sweep(
    grid: File,
    store: Path = STORE,
    scatter: float | None = None,
    target_loss: float | None = None,
    margin: float = 0.2,
) -> Sheet:
    """Train nothing: say how many runs, steps and minutes a grid asks for, and how likely it is to decide.

    Args:
        grid: TOML file of the sweep, as of sgdtheory sweep.
        store: Folder of the sweep; finished runs of the same task in it are the pilot, and counted as finished.
        scatter: Scatter of the log steps of one seed; None: that of the pilot, if there is one.
        target_loss: Target loss of the pilot; None: its runs' own.
        margin: Largest |slope| of log B* on log width with which B* counts as constant.
    """
    configs = sweeps.read_grid(grid)
    announce_models(config.value("entry_point") for config in configs)
    unknown = ""
    assumed: sweeps.Scatter | float | None = scatter
    if scatter is None and not store.is_dir():
        unknown = f"there are no pilot runs in {store}; train some, or give --scatter 0.05"
    elif scatter is None:
        try:
            assumed = sweeps.pilot_scatter(store, target_loss, like=configs)
        except ValueError as error:
            unknown = f"{error}; --scatter 0.05 assumes a scatter"
    sheet = sweeps.plan(configs, store, scatter=assumed, margin=margin).sheet()
    return replace(sheet, remarks=[f"no verdict is predicted: {unknown}"]) if unknown else sheet


def fit_sweep(
    progress: Progress,
    definition: ConventionFlags,
    stored: StoredFlags,
    target_loss: tuple[float, ...] = (),
    steps_csv: Path | None = None,
    **options: Annotated[Any, Keywords(sweeps.fit_sweep, "edges margin")],
) -> Drawn:
    """Critical batch sizes from a store of runs: tune, fit a + b/B, and test whether B* depends on the size.

    Args:
        target_loss: Losses to reach; None: the runs' own.
        reference: Reference batch size of B*, in the regime of linear scaling; None: the smallest of the runs.
        steps_csv: Write the tuned steps here, in columns that `sgdtheory fit` reads.
    """
    table = stored.table()
    nothing = f"nothing to fit in {stored.store}"
    if not table.finished:
        raise ValueError(f"{nothing}: none of its {len(table.configs)} runs has ended; sweep first")
    targets = _targets(table, target_loss)
    progress("tuning and fitting every group and target")
    convention = Convention(definition.reference, definition.overhead)
    options |= {"level": definition.level, "convention": convention}
    fits = [sweeps.fit_sweep(table, target_loss=target, by=stored.by, **options) for target in targets]
    found = sweeps.SweepFits(tuple(fits), options["margin"], definition.level)
    if steps_csv:
        write_atomically(steps_csv, found.steps_text())
    advice = _advice(stored, targets) if any(fit.tuned.notes() for fit in fits) else ""
    if found.unfitted:
        raise ValueError("; ".join(filter(None, [f"{nothing}: {found.unfitted}", advice])))
    sheet = found.sheet()
    left = len(table.configs) - len(table.finished)
    unfinished = f"{left} of {len(table.configs)} runs have not ended: sweep again to finish them" if left else ""
    return Drawn(replace(sheet, remarks=[*table.notes, unfinished, *sheet.remarks, advice]), draw=found.plot)


def _advice(stored: StoredFlags, targets: Sequence[float]) -> str:
    """Return the command that adds the runs that are missing."""
    words = ["sgdtheory", "extend-sweep", str(stored.store), "--target-loss", *(f"{target:g}" for target in targets)]
    words += ["--by", *stored.by] if stored.by != ("width",) else []
    words += ["--where", *stored.where] if stored.where else []
    return f"to add what is missing and then fit again: {shlex.join(words)}"
