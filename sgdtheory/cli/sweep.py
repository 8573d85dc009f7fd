"""`sgdtheory sweep`: a grid of training runs into a store, or what a store holds."""

import contextlib
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import tyro
from rich.table import Table

from sgdtheory._common.files import write_atomically
from sgdtheory.cli import ctrl_c
from sgdtheory.cli.output import live_line, print_json, print_note, print_tables, print_text
from sgdtheory.sweep.grid import read_grid
from sgdtheory.training.config import CHECKPOINT_SECONDS


@dataclass(frozen=True)
class SweepCommand:
    """Train every run of a grid, in a store that keeps what is finished and resumes what is not."""

    FLAG_GROUPS: ClassVar[dict[str, tuple[str, ...]]] = {
        "runs": ("toml", "store", "status", "extend", "target_loss", "by", "where"),
        "plan": ("plan", "scatter", "margin"),
        "how they run": ("cluster", "jobs", "lanes", "checkpoint_seconds"),
        "output": ("csv", "json"),
    }

    toml: Annotated[Path | None, tyro.conf.Positional] = None
    """TOML file: [fixed] fields of a training run, [grid] lists of values, [[cases.NAME]] fields that go together."""
    store: Path = Path("runs")
    """Folder of the runs."""
    status: Path | None = None
    """Print what this store holds, and run nothing."""
    extend: Path | None = None
    """Add to this store what its fit lacks: values beyond the grid's ends, longer runs where the target was missed."""
    target_loss: tuple[float, ...] = ()
    """With --extend, or of the pilot with --plan: losses to reach; by default the runs' own."""
    by: tuple[str, ...] = ("width",)
    """With --extend: fields that tell groups apart."""
    plan: bool = False
    """Train nothing: say how many runs, steps and minutes the TOML file asks for, and how likely it is to decide."""
    scatter: float | None = None
    """With --plan: scatter of the log steps of one seed; by default that of the pilot in --store, if it has one."""
    margin: float = 0.2
    """With --plan: |slope| of log B* on log width below which B* counts as constant."""
    where: tuple[str, ...] = ()
    """With --extend or --status: only the store's runs with these fields, as width=32,64 optimizer=adam."""
    cluster: str | None = None
    """HOST:PORT of a dask scheduler, or slurm; the store has to be on a file system that its workers share."""
    jobs: int = 1
    """Number of SLURM jobs."""
    lanes: int | None = None
    """Runs that advance side by side; by default 16, fewer for large networks."""
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    """Time between checkpoints."""
    csv: Path | None = None
    """Write the table of runs here."""
    json: bool = False
    """Print JSON; null stands for what is infinite or absent."""

    def run(self) -> None:
        """Sweep, or read the store, and print."""
        if sum(each is not None for each in (self.toml, self.status, self.extend)) != 1:
            raise ValueError(
                "sweep needs a TOML file with the runs, or --status STORE to see what a store holds, or --extend STORE"
            )
        if self.extend is None and ((self.target_loss and not self.plan) or self.by != ("width",)):
            raise ValueError("target-loss and by are about a store to add to: give --extend STORE too")
        if not self.plan and (self.scatter is not None or self.margin != 0.2):
            raise ValueError("scatter and margin are about what a sweep will say: give --plan too")
        if self.toml is not None and self.where:
            raise ValueError("where is about the runs of a store: give --extend STORE or --status STORE too")
        if self.plan:
            self._plan()
            return
        table = self._table()
        if table is None:
            why = "every batch size is tuned, or more of the same would not help"
            print_text(f"nothing to add to {self.extend}: {why}")
            return
        if self.csv:
            write_atomically(self.csv, table.to_csv())
        self._show(table)
        if table.interrupted:
            print_note("interrupted; the same command goes on")
            sys.exit(130)

    def _plan(self) -> None:
        """Time a pilot, predict the verdict, and print both."""
        from sgdtheory.cli.plan import print_plan

        if self.toml is None:
            raise ValueError("plan needs the TOML file with the runs: sgdtheory sweep --plan sweep.toml")
        target = self.target_loss[0] if self.target_loss else None
        options = {"scatter": self.scatter, "margin": self.margin, "target_loss": target}
        print_plan(read_grid(self.toml), self.store, as_json=self.json, **options)

    def _table(self) -> Any:
        """The runs that were asked for; None if there is nothing to add."""
        if self.toml is not None:
            return self._sweep(read_grid(self.toml), self.store)
        from sgdtheory.sweep.table import SweepTable, conditions

        store = self.status or self.extend
        assert store is not None
        table = SweepTable.from_store(store).where(**conditions(self.where))
        if self.status is not None:
            return table
        configs = self._missing(table)
        return self._sweep(configs, store) if configs else None

    def _missing(self, table: Any) -> list:
        """The runs that a fit of the table lacks."""
        from sgdtheory.sweep.extension import missing_runs

        targets = self.target_loss or sorted({config.target_loss for config in table.configs} - {None})
        if not targets:
            raise ValueError("target-loss must be given: the runs of the store have none of their own")
        open_runs = [config for config, result in zip(table.configs, table.results, strict=True) if result is None]
        found = [config for target in targets for config in missing_runs(table, target, self.by)]
        return [*open_runs, *found]

    def _sweep(self, configs: list, store: Path) -> Any:
        from sgdtheory.sweep.runner import sweep

        options = {"lanes": self.lanes, "checkpoint_seconds": self.checkpoint_seconds}
        with contextlib.ExitStack() as stack:
            executor = None
            if self.cluster is not None:
                from sgdtheory.sweep.cluster import cluster_executor

                stack.enter_context(ctrl_c.Unwinding())  # Ctrl-C closes what has been started
                executor = stack.enter_context(cluster_executor(self.cluster, self.jobs))
            report = stack.enter_context(live_line("reading the store", _progress))
            return sweep(configs, store, executor, report=report, **options)

    def _show(self, table: Any) -> None:
        outcomes = Counter(result.outcome if result else "unfinished" for result in table.results)
        seconds = sum(result.seconds for result in table.finished)
        if self.json:
            print_json({"runs": table.columns(), "outcomes": outcomes, "notes": table.notes})
        else:
            shown = Table(title=f"{len(table.configs)} runs in {self.status or self.extend or self.store}")
            shown.add_column("outcome")
            shown.add_column("runs", justify="right")
            for name, number in sorted(outcomes.items()):
                shown.add_row(name, f"{number}")
            print_tables(shown)
            print_text(f"{seconds:.0f} s of training, runs side by side counted each")
        for note in table.notes:
            print_note(note)


def _progress(progress: Any) -> str:
    """How far a sweep is."""
    left = progress.seconds_left
    estimate = f", about {_duration(left)} left" if left > 0 else ""
    return f"{progress.finished} of {progress.total} runs finished{estimate}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
