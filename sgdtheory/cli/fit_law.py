"""`sgdtheory fit-law`: from a grid of losses to one law in model size, data and batch size, and what it predicts."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import tyro

from sgdtheory import fits
from sgdtheory._common.files import write_atomically
from sgdtheory._common.sheets import Quantity, Sheet, Table, between, number
from sgdtheory.cli.function_command import Drawn, Output
from sgdtheory.cli.log_flags import GridFlags
from sgdtheory.cli.output import print_note


def fit_law(
    logs: GridFlags,
    files: Annotated[tuple[Path, ...], tyro.conf.Positional] = (),
    parameters: float | None = None,
    num_samples: float | None = None,
    compute: tuple[float, ...] = (),
    edges: bool = False,
    steps_csv: Path | None = None,
    level: float = 0.95,
    *,
    progress: Callable[[str], None],
) -> Drawn | Output:
    """Loss as one law of model size, data and batch size, and with it critical batch sizes and the best runs.

    Losses stand in a CSV file, or are the ends of logs of runs of any program, files and folders. --size names the
    column with the model size, of which there must be at least two.

    Args:
        files: CSV file with a header, one row a run, an empty loss of a run that diverged; or logs, or folders of them.
        group: Column that separates models; None: the column of sizes.
        parameters: Model size to predict a loss and B* for, with --num-samples.
        num_samples: Data to predict a loss and B* for, in the unit of the column of samples.
        compute: Budgets C = 6 N D of the best model size, data and batch size.
        edges: Use losses whose best learning rate is at an end of the rates too.
        steps_csv: Write the steps to the loss of --parameters and --num-samples to this CSV file, for `plan`; steps are
            D/B, so that data and batch sizes must have one unit.
        level: Level of the confidence intervals.
    """
    if logs.preview:
        return Output(logs.preview_of(files, "grid"))
    if not files:
        raise ValueError("fit-law needs a CSV file of losses, or logs: name files or folders")
    asked = (parameters, num_samples) if parameters is not None and num_samples is not None else None
    if asked is None and (parameters is not None or num_samples is not None or steps_csv):
        raise ValueError("--parameters and --num-samples belong together, and --steps-csv needs both")
    losses, remarks = logs.losses(files)
    progress("fitting the law of the loss, and its intervals")
    found = fits.fit_joint_law(losses, level=level, edges=edges)
    sheet = found.sheet()
    sheet = replace(sheet, remarks=[*sheet.remarks, *remarks])
    if compute:
        first, *rest = sheet.tables
        sheet = replace(sheet, tables=[first, _runs(found, compute), *rest])
    if asked:
        sheet = _with_prediction(sheet, found, *asked)
        if steps_csv:
            steps = found.steps_table(*asked)
            named = fits.StepsMeasurement("law", asked[0], steps.batch_sizes, steps.steps, critical=steps.critical)
            print_note(f"wrote {write_atomically(steps_csv, fits.steps_text([named]))}")
    return Drawn(sheet, draw=found.plot)


def _with_prediction(sheet: Sheet, law: fits.JointLaw, size: float, samples: float) -> Sheet:
    """Return the sheet with the best and the critical batch size of a model and data in its first line."""
    critical = law.critical_batch_size(size, samples)
    best = law.best_batch_size(size, samples)
    settings = {
        "parameters": size,
        "num_samples": samples,
        "best_batch_size": best,
        "critical_batch_size": critical.batch_size,
        "critical_batch_size_interval": critical.interval,
    }
    counted = f"at the best batch size {number(best)}" if best else "vanishing batches need"
    fitted, interval = f"B* = {number(critical.batch_size)}", between(*critical.interval)
    value = f"{fitted} ({interval})"
    if 0 in critical.interval or math.inf in critical.interval:
        value = f"B* is not determined: its {law.level:.0%} interval is {interval}; the law has {fitted}"
    answer = f"N = {size:.4g}, D = {samples:.4g}: {value}, with 20% more data than {counted}"
    if best:
        low, high = law.loss_interval(size, samples, best)
        settings |= {"loss": float(law.loss(size, samples, best)), "loss_interval": (float(low), float(high))}
        answer += f", where the loss is {number(settings['loss'])} ({between(low, high)})"
    return replace(sheet, answer=answer, settings={**sheet.settings, **settings})


def _runs(law: fits.JointLaw, budgets: tuple[float, ...]) -> Table:
    """Return the best run of each budget."""
    runs = [law.best_run(each) for each in budgets]
    columns = {"size": "model size N", "samples": "data D", "batch_size": "batch size B", "loss": "loss"}
    return Table(
        [
            Quantity("compute", "compute 6ND", list(budgets)),
            *(
                Quantity(
                    *(name, label),
                    [getattr(each, name).value for each in runs],
                    [getattr(each, name).interval for each in runs],
                )
                for name, label in columns.items()
            ),
        ],
        "best_runs",
        "least loss of each budget",
        f"{law.level:.0%}",
    )
