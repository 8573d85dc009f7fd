"""`sgdtheory fit-grid`, `fit-rates` and `fit-law`: laws of a grid of losses, from a CSV file or from logs."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from sgdtheory import fits
from sgdtheory._common.files import write_atomically
from sgdtheory._common.sheets import Sheet
from sgdtheory.cli.flags import Files
from sgdtheory.cli.function_command import Drawn, Keywords, Progress
from sgdtheory.cli.log_flags import GridFlags
from sgdtheory.cli.output import print_note
from sgdtheory.cli.settings import ConventionFlags, Overhead


def fit_grid(
    progress: Progress,
    logs: GridFlags,
    definition: ConventionFlags,
    files: Files = (),
    target: tuple[float, ...] = (),
    degradation: Overhead = 0.01,
    steps_csv: Path | None = None,
    **options: Annotated[Any, Keywords(fits.fit_loss_grid, "edges optimal_batch_size")],
) -> Drawn:
    """Critical batch size from losses at several batch sizes, data sizes and learning rates; no steps to a target.

    Losses stand in a CSV file, or are the ends of logs of runs of any program, files and folders. With several groups
    --plot draws a figure of each, NAME_GROUP.png.

    Args:
        files: CSV file with a header, one row a run, or a point of its loss curve, an empty loss of a run that
            diverged; or logs, or folders of them.
        group: Column that separates grids, for example the model's name.
        target: Losses to reach; None: three that as many batch sizes as possible reach.
        reference: Reference batch size of B*, in the regime of linear scaling; None: the smallest that reaches all
            targets.
        degradation: By how much the loss at fixed data may be worse than that of the best batch size: 0.01 or 1%.
        steps_csv: Write the steps to the targets at each batch size to this CSV file, for `plan`.
    """
    losses, remarks = logs.losses(files, "fit-grid")
    progress("fitting the grid, and its intervals from resampled ones")
    grid = fits.fit_loss_grid(
        losses,
        convention=fits.Convention(definition.reference, definition.overhead),
        targets=target or None,
        degradation=degradation,
        level=definition.level,
        **options,
    )
    if steps_csv:
        print_note(f"wrote {write_atomically(steps_csv, _steps(grid))}")

    def draw() -> dict[str, Any]:
        compared = {each.group for each in grid.degradations}  # groups that have data sizes to compare at
        if not compared:
            why = "plot needs a data size that the smallest batch size shares with two others, got none: leave it out"
            raise ValueError(why)
        return {each.group: grid.plot(group=each.group) for each in grid.groups if each.group in compared}

    return Drawn(_noted(grid.sheet(), remarks), draw=draw)


def _steps(grid: fits.LossGrid) -> str:
    """CSV of steps to the targets and B*, with the columns of `fit` and `plan`."""
    measurements = []
    for each in grid.targets:
        # `plan` has to count extra steps from the batch size that this target was counted from.
        convention = fits.Convention(each.convention.reference_among(each.batch_sizes), each.convention.overhead)
        ends = each.critical_batch_size, *each.interval
        found = fits.FittedCriticalBatchSize(*ends, convention, grid.level, isinstance(each.law, fits.UShapedLaw))
        name = " ".join(filter(None, [each.group, f"loss {each.target:.6g}"]))
        measurements.append(fits.StepsMeasurement(name, each.size, each.batch_sizes, each.steps, critical=found))
    return fits.steps_text(measurements, remarks={"target_loss": [each.target for each in grid.targets]})


def fit_rates(
    progress: Progress,
    logs: GridFlags,
    files: Files = (),
    rates_alone: bool = False,
    level: float = 0.95,
) -> Drawn:
    """Best learning rate as a law of batch size and duration, and the critical batch size at its kink.

    Losses stand in a CSV file, or are the ends of logs of runs of any program, files and folders. Each batch size and
    duration needs several learning rates.

    Args:
        files: CSV file with a header, one row a run, an empty loss of a run that diverged; or logs, or folders of them.
        group: Column that separates models, each with a level of learning rates of its own.
        rates_alone: Leave out B* from losses, which is counted from the smallest batch size and from the best one.
    """
    losses, remarks = logs.losses(files, "fit-rates")
    progress("fitting the law of the best learning rate, and its intervals")
    found = fits.fit_rates(losses, level=level, compare=not rates_alone)
    return Drawn(_noted(found.sheet(), remarks), draw=found.plot)


def fit_law(
    progress: Progress,
    logs: GridFlags,
    files: Files = (),
    parameters: float | None = None,
    num_samples: float | None = None,
    compute: tuple[float, ...] = (),
    steps_csv: Path | None = None,
    **options: Annotated[Any, Keywords(fits.fit_joint_law, "edges level")],
) -> Drawn:
    """Loss as one law of model size, data and batch size, and with it critical batch sizes and the best runs.

    Losses stand in a CSV file, or are the ends of logs of runs of any program, files and folders. --size names the
    column with the model size, of which there must be at least two.

    Args:
        files: CSV file with a header, one row a run, an empty loss of a run that diverged; or logs, or folders of them.
        group: Column that separates models; None: the column of sizes.
        parameters: Model size to predict a loss and B* for, with --num-samples.
        num_samples: Data to predict a loss and B* for, in the unit of the column of samples.
        compute: Budgets C = 6 N D of the best model size, data and batch size.
        steps_csv: Write the steps to the loss of --parameters and --num-samples to this CSV file, for `plan`; steps are
            D/B, so that data and batch sizes must have one unit.
    """
    asked = (parameters, num_samples) if parameters is not None and num_samples is not None else None
    if asked is None and (parameters is not None or num_samples is not None or steps_csv):
        raise ValueError("--parameters and --num-samples belong together, and --steps-csv needs both")
    losses, remarks = logs.losses(files, "fit-law")
    progress("fitting the law of the loss, and its intervals")
    found = fits.fit_joint_law(losses, **options)
    if asked and steps_csv:
        steps = found.steps_table(*asked)
        named = fits.StepsMeasurement("law", asked[0], steps.batch_sizes, steps.steps, critical=steps.critical)
        print_note(f"wrote {write_atomically(steps_csv, fits.steps_text([named]))}")
    return Drawn(_noted(found.sheet(at=asked, compute=compute), remarks), draw=found.plot)


def _noted(sheet: Sheet, remarks: Sequence[str]) -> Sheet:
    """Return a sheet with the remarks of logs below its own."""
    return replace(sheet, remarks=[*sheet.remarks, *remarks])
