"""`sgdtheory fit-grid`: from a grid of losses, a CSV file or logs, to critical batch sizes, degradation and laws."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from sgdtheory import fits
from sgdtheory._common.files import write_atomically
from sgdtheory.cli.function_command import Drawn, Output
from sgdtheory.cli.log_flags import GridFlags
from sgdtheory.cli.output import print_note
from sgdtheory.cli.settings import ConventionFlags, Overhead


def fit_grid(
    logs: GridFlags,
    definition: ConventionFlags,
    files: Annotated[tuple[Path, ...], tyro.conf.Positional] = (),
    target: tuple[float, ...] = (),
    edges: bool = False,
    optimal_batch_size: bool = False,
    degradation: Overhead = 0.01,
    steps_csv: Path | None = None,
    *,
    progress: Callable[[str], None],
) -> Drawn | Output:
    """Critical batch size from losses at several batch sizes, data sizes and learning rates; no steps to a target.

    Losses stand in a CSV file, or are the ends of logs of runs of any program, files and folders. With several groups
    --plot draws a figure of each, NAME_GROUP.png.

    Args:
        files: CSV file with a header, one row a run, or a point of its loss curve, an empty loss of a run that
            diverged; or logs, or folders of them.
        group: Column that separates grids, for example the model's name.
        target: Losses to reach; None: three that as many batch sizes as possible reach.
        edges: Use losses whose best learning rate is at an end of the rates too; they make B* wrong.
        optimal_batch_size: Fit steps = a + b/B + c/B²: an optimal batch size, the useful range around it, and a test
            whether c is needed.
        reference: Reference batch size of B*, in the regime of linear scaling; None: the smallest that reaches all
            targets.
        degradation: By how much the loss at fixed data may be worse than that of the best batch size: 0.01 or 1%.
        steps_csv: Write the steps to the targets at each batch size to this CSV file, for `plan`.
    """
    if logs.preview:
        return Output(logs.preview_of(files, "grid"))
    if not files:
        raise ValueError("fit-grid needs a CSV file of losses, or logs: name files or folders")
    losses, remarks = logs.losses(files)
    progress("fitting the grid, and its intervals from resampled ones")
    grid = fits.fit_loss_grid(
        losses,
        convention=fits.Convention(definition.reference, definition.overhead),
        targets=target or None,
        degradation=degradation,
        level=definition.level,
        edges=edges,
        optimal_batch_size=optimal_batch_size,
    )
    if steps_csv:
        print_note(f"wrote {write_atomically(steps_csv, _steps(grid))}")
    sheet = grid.sheet()
    return Drawn(replace(sheet, remarks=[*sheet.remarks, *remarks]), draw=lambda: _figures(grid))


def _figures(grid: fits.LossGrid) -> dict[str, Any]:
    """Return the figure of each group that has data sizes to compare at."""
    names = [group.group for group in grid.groups if any(each.group == group.group for each in grid.degradations)]
    if not names:
        raise ValueError(
            "plot needs a data size that the smallest batch size shares with two others, got none: leave it out"
        )
    return {name: grid.plot(group=name) for name in names}


def _steps(grid: fits.LossGrid) -> str:
    """CSV of steps to the targets and B*, with the columns of `fit` and `plan`."""
    measurements = []
    for each in grid.targets:
        convention = fits.Convention(each.convention.reference_among(each.batch_sizes), each.convention.overhead)
        ends = each.critical_batch_size, *each.interval
        found = fits.FittedCriticalBatchSize(*ends, convention, grid.level, isinstance(each.law, fits.UShapedLaw))
        name = " ".join(filter(None, [each.group, f"loss {each.target:.6g}"]))
        measurements.append(fits.StepsMeasurement(name, each.size, each.batch_sizes, each.steps, critical=found))
    return fits.steps_text(measurements, remarks={"target_loss": [each.target for each in grid.targets]})
