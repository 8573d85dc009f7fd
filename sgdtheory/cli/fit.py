"""`sgdtheory fit`: from steps to a target, in a CSV file or interpolated in logs, to the critical batch size."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from sgdtheory import fits
from sgdtheory._common.arguments import positive_array
from sgdtheory._common.files import csv_text, write_atomically
from sgdtheory.cli.flags import Files
from sgdtheory.cli.function_command import Drawn, Keywords, Progress
from sgdtheory.cli.log_flags import LogFlags, is_table
from sgdtheory.cli.output import print_note
from sgdtheory.cli.settings import ConventionFlags
from sgdtheory.cli.target_logs import once_for_all, steps_of_logs

COLUMNS = {"batch_size": "batch_size", "steps": "steps", "group": None, "size": None, "standard_error": None}
WITH_EXAMPLE = {"example", "data"}  # Only these flags may be given together with --example.


def fit(
    given: frozenset[str],
    progress: Progress,
    logs: LogFlags,
    definition: ConventionFlags,
    files: Files = (),
    steps: str = "steps",
    size: str | None = None,
    standard_error: str | None = None,
    target_loss: tuple[float, ...] = (),
    data: fits.ExampleName = "c4",
    example: bool = False,
    fit_alpha: bool = False,
    pool_scatter: bool = False,
    forecast: tuple[float, ...] = (),
    steps_csv: Path | None = None,
    **options: Annotated[Any, Keywords(fits.fit_steps_law, "alpha_range optimal_batch_size")],
) -> Drawn | None:
    """Critical batch size from steps-to-target measurements: B*, intervals, exponent, sensitivity.

    Measurements stand in a CSV file; with --target-loss files and folders are logs of runs at several batch sizes, of
    any program, in which the steps are interpolated.

    Args:
        files: CSV file with a header, one row a batch size; with --target-loss logs, or folders of them. Without files
            the measurements of `--data` are fitted.
        batch_size: Column with the batch size; of logs also the number, or that of each run: run7=64,run8=256; None:
            batch_size, and guessed of logs.
        steps: Column with the steps to the target.
        group: Column that separates targets, for example the model's name.
        size: Column with the model or data size, for the exponent of B* against it.
        standard_error: Column with the standard error of the steps, which weights them; the law's lack of fit is
            tested.
        target_loss: Loss to which steps are counted in logs: the best run of each batch size counts, and seeds are
            averaged. Several losses give a group each, from which `plan` makes a batch ramp.
        loss: Which loss of logs: train, eval, or the name of its column; None: evaluations, where every run has them.
        learning_rate: Of logs: column with the learning rate, or the number, or that of each run: run7=1e-3,run8=2e-3.
        data: Without a file: c4, language models of five sizes, or mlperf, twelve of MLPerf's benchmarks.
        example: Print these data as a file to try the command with, and fit nothing: `sgdtheory fit --example >
            steps.csv`.
        fit_alpha: Fit α in steps = a + b/B^α; otherwise α = 1.
        pool_scatter: With the optimal batch size: one scatter of steps about the laws of all groups, for tests and
            intervals.
        forecast: Sizes at which to forecast B*.
        steps_csv: Write the measurements to this CSV file, for `plan`.
    """
    if example:
        if files or given - WITH_EXAMPLE:
            raise ValueError("example prints a file and fits nothing: leave everything else out")
        print(example_file(data), end="")
        return None
    positive_array("forecast", forecast)
    columns: dict[str, Any] = {"batch_size": logs.batch_size or "batch_size", "steps": steps, "group": logs.group}
    columns |= {"size": size, "standard_error": standard_error}
    of_logs = steps_of_logs(logs, files, target_loss) if target_loss else None
    measurements = of_logs.measurements if of_logs else _measurements(files, columns, data)
    progress("fitting a law to the steps of each group, and its intervals")
    optimal_batch_size = options["optimal_batch_size"]
    if pool_scatter and not optimal_batch_size:
        raise ValueError("pool_scatter needs the law with an optimal batch size: give --optimal-batch-size too")
    if optimal_batch_size and fit_alpha:
        raise ValueError("--fit-alpha and --optimal-batch-size are two laws: give one of them")
    if options["alpha_range"] is not None and (fit_alpha or optimal_batch_size):
        raise ValueError("--alpha-range is of the law a + b/B: leave out --fit-alpha and --optimal-batch-size")
    options |= {"alpha": None if fit_alpha else 1.0}
    laws = [
        fits.fit_steps_law(each.batch_sizes, each.steps, standard_errors=each.standard_errors, **options)
        for each in measurements
    ]
    if definition.reference is None and not files and data == "c4":  # the five models of the paper have its reference
        convention = fits.Convention(fits.PAPER.reference, definition.overhead)
    else:
        batch_sizes = [m.batch_sizes for m in measurements]
        convention = fits.common_convention(batch_sizes, definition.reference, definition.overhead)
    scatter = fits.pooled_scatter(laws) if pool_scatter else None
    found = fits.LawsOfGroups(tuple(measurements), tuple(laws), convention, definition.level, scatter, forecast)
    sheet = found.sheet()
    if of_logs:
        runs = of_logs.sheet()
        doubts = once_for_all(sheet.remarks, [each.group for each in measurements if each.group])
        sheet = replace(sheet, tables=[*runs.tables, *sheet.tables], remarks=[*runs.remarks, *doubts])
    if steps_csv:
        # A single group is called as tables call it, for the cell must not be empty.
        named = [replace(each, group=each.group or "all") for each in measurements]
        losses = {"target_loss": [loss for loss, _ in of_logs.named]} if of_logs else {}
        print_note(f"wrote {write_atomically(steps_csv, fits.steps_text(named, remarks=losses))}")
    return Drawn(sheet, draw=lambda: found.plot(size=size or ""))


def _measurements(
    files: tuple[Path, ...], columns: dict[str, Any], data: fits.ExampleName
) -> list[fits.StepsMeasurement]:
    """Return the measurements of the file or, without one, of the example."""
    if not files:
        if columns != COLUMNS:
            raise ValueError(f"{', '.join(COLUMNS).replace('_', '-')} name columns of a CSV file: give the file too")
        return fits.example_measurements(data)
    if data != "c4":
        raise ValueError("data names measurements of the package: leave it out, or the file")
    if not is_table(files, columns["batch_size"], columns["steps"]):
        what = "several files are no table of measurements"
        if len(files) == 1:
            what = f"{files[0]} is a {'folder' if files[0].is_dir() else 'log'}, not a table of measurements"
        raise ValueError(f"{what}; add --target-loss LOSS, the loss to which steps are counted")
    return fits.read_measurements(files[0], **columns)


def example_file(data: fits.ExampleName) -> str:
    """The example's measurements as a CSV file: what its columns are called is up to a file's author."""
    rows = []
    for one in fits.example_measurements(data):
        for place, (batch, steps) in enumerate(zip(one.batch_sizes, one.steps, strict=True)):
            if one.standard_errors is None:
                rows.append((one.group, int(one.size), int(batch), int(steps)))
            else:
                error = steps * np.array(one.standard_errors)[place]
                rows.append((one.group, int(batch), float(steps), float(f"{error:.3g}")))
    header = ("benchmark", "bs", "steps", "se") if data == "mlperf" else ("model", "params", "bs", "steps")
    return csv_text(header, rows)
