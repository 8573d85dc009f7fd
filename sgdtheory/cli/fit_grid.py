"""`sgdtheory fit-grid`: from a grid of losses, a CSV file or logs, to critical batch sizes, degradation and laws."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import tyro
from rich.markup import escape
from rich.table import Table

from sgdtheory._common.files import write_atomically
from sgdtheory.cli.fit_rows import definition_text
from sgdtheory.cli.measurement_input import LOG_FLAGS, MeasurementFlags, is_table
from sgdtheory.cli.output import (
    interval_text,
    print_json,
    print_note,
    print_tables,
    require_figure_suffix,
    write_figure,
)
from sgdtheory.cli.settings import Overhead
from sgdtheory.fits import (
    Convention,
    FittedCriticalBatchSize,
    LossGrid,
    LossTarget,
    StepsMeasurement,
    UShapedLaw,
    fit_loss_grid,
    read_loss_grid,
    steps_text,
)

COLUMNS = "batch_size", "samples", "learning_rate", "loss", "group", "size", "seed"


@dataclass(frozen=True, kw_only=True)
class FitGridCommand(MeasurementFlags):
    """Critical batch size from losses at several batch sizes, data sizes and learning rates; no steps to a target.

    Losses stand in a CSV file, or are the ends of logs of runs of any program, files and folders.
    """

    USE = "grid"
    FLAG_GROUPS: ClassVar[dict[str, tuple[str, ...]]] = {
        "losses": ("files", *COLUMNS),
        "logs": LOG_FLAGS,
        "what to fit": ("target", "edges", "optimal_batch_size"),
        "definition of B* and of intervals": ("reference", "overhead", "degradation", "level"),
        "output": ("steps_csv", "plot", "json"),
    }

    files: Annotated[tuple[Path, ...], tyro.conf.Positional] = ()
    """CSV file with a header, one row a run, or a point of its loss curve, an empty loss of a run that diverged; or
    logs, or folders of them."""
    batch_size: str = "batch_size"
    """Column with the batch size; of logs also the number, or that of each run: run7=64,run8=256."""
    samples: str = "samples"
    """Column with the data, in the unit of the batch size."""
    learning_rate: str = "learning_rate"
    """Column with the learning rate; of logs also the number, or that of each run: run7=1e-3,run8=2e-3."""
    loss: str = "loss"
    """Column with the loss; of logs also train or eval, by default evaluations where every run has them."""
    group: str | None = None
    """Column that tells grids apart, for example the model's name."""
    size: str | None = None
    """Column with the model size."""
    seed: str | None = None
    """Column with the seed: rows of one batch size, learning rate and seed are then points of one run."""
    target: tuple[float, ...] = ()
    """Losses to reach; by default three that as many batch sizes as possible reach."""
    edges: bool = False
    """Use losses whose best learning rate is at an end of the rates too; they make B* wrong."""
    optimal_batch_size: bool = False
    """Fit steps = a + b/B + c/B²: an optimal batch size, the useful range around it, and a test whether c is needed."""
    reference: float | None = None
    """Reference batch size of B*, in the regime of linear scaling; by default the smallest that reaches all targets."""
    overhead: Overhead = 0.2
    """Extra data, relative to the reference batch size, that defines B*: 0.2 or 20%."""
    degradation: Overhead = 0.01
    """By how much the loss at fixed data may be worse than that of the best batch size: 0.01 or 1%."""
    level: float = 0.95
    """Level of the confidence intervals."""
    steps_csv: Path | None = None
    """Write the steps to the targets at each batch size to this CSV file, for `plan`."""
    plot: Path | None = None
    """Write a figure here (.png, .pdf or .svg), of several groups one each: NAME_GROUP.png."""
    json: bool = False
    """Print JSON; null stands for what is absent, "inf" for what is infinite."""

    def run(self) -> None:
        """Read, fit and print."""
        require_figure_suffix(self.plot)
        if self.preview:
            self.print_preview(self.files)
            return
        losses, remarks = self._losses()
        grid = fit_loss_grid(
            losses,
            convention=Convention(self.reference, self.overhead),
            targets=self.target or None,
            degradation=self.degradation,
            level=self.level,
            edges=self.edges,
            optimal_batch_size=self.optimal_batch_size,
        )
        if self.steps_csv:
            print_note(f"wrote {write_atomically(self.steps_csv, _steps(grid))}")
        if self.plot:
            self._draw(self.plot, grid)
        notes = [*grid.remarks, *remarks]
        if self.json:
            print_json(_report(grid) | {"notes": notes})
        else:
            _print(grid)
        for note in notes:
            print_note(note)

    def _losses(self) -> tuple[dict[str, list[Any]], list[str]]:
        """Columns of the file, or of the logs, and the remarks of these."""
        if not self.files:
            raise ValueError("fit-grid needs a CSV file of losses, or logs: name files or folders")
        if is_table(self.files, self.samples):
            columns: dict[str, Any] = {name: getattr(self, name) for name in COLUMNS}
            return read_loss_grid(self.files[0], **columns), []
        return self.grid_of_logs(self.files)

    def _draw(self, path: Path, grid: LossGrid) -> None:
        from sgdtheory.plotting import loss_grid  # matplotlib is slow to import

        names = [group.group for group in grid.groups if any(each.group == group.group for each in grid.degradations)]
        if not names:
            raise ValueError(
                "plot needs a data size that the smallest batch size shares with two others, got none: leave it out"
            )
        for name in names:
            file = path if len(names) == 1 else path.with_name(f"{path.stem}_{_file_name(name)}{path.suffix}")
            write_figure(loss_grid(grid, group=name), file)


def _steps(grid: LossGrid) -> str:
    """CSV of steps to the targets and B*, with the columns of `fit` and `plan`."""
    measurements = []
    for each in grid.targets:
        convention = Convention(each.convention.reference_among(each.batch_sizes), each.convention.overhead)
        ends = each.critical_batch_size, *each.interval
        found = FittedCriticalBatchSize(*ends, convention, grid.level, isinstance(each.law, UShapedLaw))
        name = " ".join(filter(None, [each.group, f"loss {each.target:.6g}"]))
        measurements.append(StepsMeasurement(name, each.size, each.batch_sizes, each.steps, critical=found))
    return steps_text(measurements, remarks={"target_loss": [each.target for each in grid.targets]})


def _file_name(group: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in group)


def _report(grid: LossGrid) -> dict[str, Any]:
    return {
        "groups": [
            {
                "group": each.group,
                "size": each.size,
                "batch_sizes": each.batch_sizes,
                "samples": each.samples,
                "loss": each.loss,
                "learning_rate": each.learning_rate,
                "state": each.state,
            }
            for each in grid.groups
        ],
        "targets": [_target(each) for each in grid.targets],
        "degradation": [
            {
                "group": each.group,
                "samples": each.samples,
                "batch_sizes": each.batch_sizes,
                "ratios": each.ratios,
                "intervals": each.intervals,
                "batch_size": each.batch_size,
                "batch_size_interval": each.interval,
                "best_batch_size": each.best_batch_size,
            }
            for each in grid.degradations
        ],
        "laws": [
            {
                "quantity": each.quantity,
                "group": each.group,
                "coefficient": each.fit.coefficient,
                "exponents": each.fit.exponents,
                "intervals": {name: each.fit.interval(name, grid.level) for name in each.fit.exponents},
            }
            for each in grid.laws
        ],
        "convention": vars(grid.convention),
        "level": grid.level,
    }


def _target(found: LossTarget) -> dict[str, Any]:
    curved: dict[str, Any] = {}
    if isinstance(found.law, UShapedLaw):
        curved = {
            "c": found.law.c,
            "curvature_test": found.law.curvature_test()._asdict(),
            "smallest_batch_size": found.smallest_batch_size,
            "smallest_batch_size_interval": found.smallest_interval,
            "optimal_batch_size": found.optimal_batch_size,
            "optimal_batch_size_interval": found.optimal_interval,
        }
    return {
        "group": found.group,
        "size": found.size,
        "target_loss": found.target,
        "reference": found.reference,
        "batch_sizes": found.batch_sizes,
        "steps": found.steps,
        "a": found.law.a,
        "b": found.law.b,
        "critical_batch_size": found.critical_batch_size,
        "critical_batch_size_interval": found.interval,
        "interpolated": found.interpolated,
        "samples": found.samples,
    } | curved


def _print(grid: LossGrid) -> None:
    """The tables that have rows."""
    tables = [table for table in (_critical(grid), _worse(grid), _laws(grid)) if table.row_count]
    print_tables(*tables)


def _table(title: str, *headers: str) -> Table:
    table = Table(title=title)
    for header in headers:
        table.add_column(header, justify="left" if header in ("group", "of") else "right")
    return table


def _critical(grid: LossGrid) -> Table:
    level = f"{grid.level:.0%}"
    curved = any(isinstance(each.law, UShapedLaw) for each in grid.targets)
    defined = definition_text(grid.convention, curved=curved)
    title = f"steps = {'a + b/B + c/B²' if curved else 'a + b/B'};  B*: {defined};  {level} intervals"
    numbers = ["a", "b", *(["least B", "B_opt", "c = 0"] if curved else [])]
    table = _table(title, "group", "target loss", "batch sizes", *numbers, "B*", level, "B*, interpolated")
    if curved:
        table.caption = "c = 0: probability of so large an F if no c is needed"
    for each in grid.targets:
        cells = [f"{each.target:g}", f"{each.batch_sizes.size}", f"{each.law.a:.4g}", f"{each.law.b:.4g}"]
        if isinstance(each.law, UShapedLaw):
            cells += [
                f"{each.smallest_batch_size:.4g}\n{interval_text(each.smallest_interval)}",
                f"{each.optimal_batch_size:.4g}\n{interval_text(each.optimal_interval)}",
                f"{each.law.curvature_test().p_value:.2g}",
            ]
        cells += [f"{each.critical_batch_size:.4g}", interval_text(each.interval), f"{each.interpolated:.4g}"]
        table.add_row(escape(each.group) or "all", *cells)
    return table


def _worse(grid: LossGrid) -> Table:
    share = grid.degradations[0].share if grid.degradations else 0.0
    title = f"at fixed data: the largest batch size whose loss is within {share:.3g} of the best one's"
    table = _table(
        title.replace(f"{share:.3g}", f"{100 * share:.3g}%"), "group", "data", "B", f"{grid.level:.0%}", "best B"
    )
    for each in grid.degradations:
        largest = f"{each.batch_size:.4g}" if np.isfinite(each.batch_size) else f"> {each.batch_sizes[-1]:g}"
        best = f"{each.best_batch_size:.4g}" if np.isfinite(each.best_batch_size) else "at an end"
        table.add_row(escape(each.group) or "all", f"{each.samples:.4g}", largest, interval_text(each.interval), best)
    return table


def _laws(grid: LossGrid) -> Table:
    table = _table(
        f"powers, with {grid.level:.0%} intervals", "of", "group", "coefficient", "batch size", "data", "size"
    )
    for each in grid.laws:
        cells = [
            f"{each.fit.exponents[name]:+.3f}\n{interval_text(each.fit.interval(name, grid.level))}"
            if name in each.fit.exponents
            else ""
            for name in ("batch_size", "samples", "size")
        ]
        table.add_row(each.quantity, escape(each.group) or "all", f"{each.fit.coefficient:.4g}", *cells)
    return table
