"""`sgdtheory fit-grid`: from a grid of losses, a CSV file or logs, to critical batch sizes, degradation and laws."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

import tyro

from sgdtheory._common.files import write_atomically
from sgdtheory.cli.measurement_input import LOG_FLAGS, MeasurementFlags, is_table
from sgdtheory.cli.output import print_note, print_sheet, require_figure_suffix, write_figures
from sgdtheory.cli.progress import phases
from sgdtheory.cli.settings import Overhead
from sgdtheory.fits import (
    Convention,
    FittedCriticalBatchSize,
    LossGrid,
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
    """Column that separates grids, for example the model's name."""
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
        with phases("fitting the grid, and its intervals from resampled ones"):
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
        sheet = grid.sheet()
        print_sheet(replace(sheet, remarks=[*sheet.remarks, *remarks]), self.json)

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
            write_figures(loss_grid(grid, group=name), file)


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
