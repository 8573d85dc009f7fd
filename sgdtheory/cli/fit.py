"""`sgdtheory fit`: from steps to a target, in a CSV file or interpolated in logs, to the critical batch size."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import tyro

from sgdtheory._common.arguments import positive_array
from sgdtheory._common.files import csv_text, write_atomically
from sgdtheory.cli.measurement_input import LOG_FLAGS, MeasurementFlags, only_table
from sgdtheory.cli.output import print_note, print_sheet, require_figure_suffix, write_figures
from sgdtheory.cli.progress import phases
from sgdtheory.cli.settings import Overhead
from sgdtheory.fits import (
    PAPER,
    AbstractStepsLaw,
    Convention,
    ExampleName,
    LawsOfGroups,
    StepsMeasurement,
    UShapedLaw,
    common_convention,
    example_measurements,
    fit_steps_law,
    pooled_scatter,
    read_measurements,
    steps_text,
)

COLUMNS = {"batch_size": "batch_size", "steps": "steps", "group": None, "size": None, "standard_error": None}


@dataclass(frozen=True, kw_only=True)
class FitCommand(MeasurementFlags):
    """Critical batch size from steps-to-target measurements: B*, intervals, exponent, sensitivity.

    Measurements stand in a CSV file; with --target-loss files and folders are logs of runs at several batch sizes, of
    any program, in which the steps are interpolated.
    """

    USE = "steps"
    FLAG_GROUPS: ClassVar[dict[str, tuple[str, ...]]] = {
        "measurements": ("files", "batch_size", "steps", "group", "size", "standard_error", "data", "example"),
        "logs": ("target_loss", "loss", "learning_rate", *LOG_FLAGS),
        "law and forecast": ("fit_alpha", "optimal_batch_size", "pool_scatter", "forecast"),
        "definition of B* and of intervals": ("reference", "overhead", "level"),
        "output": ("steps_csv", "plot", "json"),
    }

    files: Annotated[tuple[Path, ...], tyro.conf.Positional] = ()
    """CSV file with a header, one row a batch size; with --target-loss logs, or folders of them. Without files the
    measurements of `--data` are fitted."""
    batch_size: str = "batch_size"
    """Column with the batch size; of logs also the number, or that of each run: run7=64,run8=256."""
    steps: str = "steps"
    """Column with the steps to the target."""
    group: str | None = None
    """Column that separates targets, for example the model's name."""
    size: str | None = None
    """Column with the model or data size, for the exponent of B* against it."""
    standard_error: str | None = None
    """Column with the standard error of the steps, which weights them; the law's lack of fit is tested."""
    target_loss: float | None = None
    """Loss to which steps are counted in logs: the best run of each batch size counts, and seeds are averaged."""
    loss: str | None = None
    """Which loss of logs: train, eval, or the name of its column. None: evaluations, where every run has them."""
    learning_rate: str | None = None
    """Of logs: column with the learning rate, or the number, or that of each run: run7=1e-3,run8=2e-3."""
    data: ExampleName = "c4"
    """Without a file: c4, language models of five sizes, or mlperf, twelve of MLPerf's benchmarks."""
    example: bool = False
    """Print these data as a file to try the command with, and fit nothing: `sgdtheory fit --example > steps.csv`."""
    fit_alpha: bool = False
    """Fit α in steps = a + b/B^α; otherwise α = 1."""
    optimal_batch_size: bool = False
    """Fit steps = a + b/B + c/B²: an optimal batch size, the useful range around it, and a test whether c is needed."""
    pool_scatter: bool = False
    """With the optimal batch size: one scatter of steps about the laws of all groups, for tests and intervals."""
    forecast: tuple[float, ...] = ()
    """Sizes at which to forecast B*."""
    reference: float | None = None
    """Reference batch size of B*, in the regime of linear scaling; by default the smallest that all groups have."""
    overhead: Overhead = 0.2
    """Extra data, relative to the reference batch size, that defines B*: 0.2 or 20%."""
    level: float = 0.95
    """Level of the confidence intervals."""
    steps_csv: Path | None = None
    """Write the measurements to this CSV file, for `plan`."""
    plot: Path | None = None
    """Write a figure here (.png, .pdf or .svg)."""
    json: bool = False
    """Print JSON; null stands for what is absent, "inf" for what is infinite."""

    def run(self) -> None:
        """Fit and print, or print the example."""
        if self.example:
            if self != FitCommand(example=True, data=self.data):
                raise ValueError("example prints a file and fits nothing: leave everything else out")
            print(example_file(self.data), end="")
            return
        require_figure_suffix(self.plot)
        positive_array("forecast", self.forecast)
        if self.preview:
            self.print_preview(self.files)
            return
        runs = None if self.target_loss is None else self.steps_of_logs(self._logs, self.target_loss)
        measurements = self._measurements() if runs is None else list(runs.measurements)
        with phases("fitting a law to the steps of each group, and its intervals"):
            laws = self._laws(measurements)
            scatter = pooled_scatter(laws) if self.pool_scatter else None
            options = self._convention(measurements), self.level, scatter, self.forecast
            found = LawsOfGroups(tuple(measurements), tuple(laws), *options)
            sheet = found.sheet()
        if runs is not None:
            said = runs.sheet()
            sheet = replace(sheet, tables=[*said.tables, *sheet.tables], remarks=[*said.remarks, *sheet.remarks])
        if self.steps_csv:
            print_note(f"wrote {write_atomically(self.steps_csv, _steps(measurements))}")
        if self.plot:
            self._draw(self.plot, found)
        print_sheet(sheet, self.json)

    def _laws(self, measurements: list[StepsMeasurement]) -> list[AbstractStepsLaw]:
        """One a group."""
        if self.pool_scatter and not self.optimal_batch_size:
            raise ValueError("pool-scatter is of the law with an optimal batch size: give optimal-batch-size too")
        if self.optimal_batch_size and self.fit_alpha:
            raise ValueError("fit-alpha and optimal-batch-size are two laws: give one of them")
        form: dict[str, Any] = {
            "alpha": None if self.fit_alpha else 1.0,
            "optimal_batch_size": self.optimal_batch_size,
        }
        return [fit_steps_law(m.batch_sizes, m.steps, standard_errors=m.standard_errors, **form) for m in measurements]

    def _measurements(self) -> list[StepsMeasurement]:
        """Return the measurements of the file or, without one, of the example."""
        columns: dict[str, Any] = {name: getattr(self, name) for name in COLUMNS}
        if self.files:
            if self.data != "c4":
                raise ValueError("data names measurements of the package: leave it out, or the file")
            advice = "add --target-loss LOSS, the loss to which steps are counted"
            return read_measurements(only_table(self.files, advice), **columns)
        if columns != COLUMNS:
            raise ValueError(f"{', '.join(COLUMNS).replace('_', '-')} name columns of a CSV file: give the file too")
        return example_measurements(self.data)

    @property
    def _logs(self) -> tuple[Path, ...]:
        """The logs from which steps to the target are read."""
        if not self.files:
            raise ValueError("target_loss needs logs: name files or folders")
        return self.files

    def _convention(self, measurements: list[StepsMeasurement]) -> Convention:
        """One reference for all groups; the five models of the paper have the paper's."""
        if self.reference is None and not self.files and self.data == "c4":
            return Convention(PAPER.reference, self.overhead)
        return common_convention([m.batch_sizes for m in measurements], self.reference, self.overhead)

    def _draw(self, path: Path, found: LawsOfGroups) -> None:
        from sgdtheory import plotting  # matplotlib is slow to import
        from sgdtheory.plotting.style import plain_label

        measurements, laws, power = found.measurements, found.laws, found.power
        convention: Any = found.convention
        if convention.reference is None and not self.optimal_batch_size:
            write_figures(plotting.scaled_steps(measurements, laws), path)  # pyright: ignore[reportArgumentType]
            return
        figure, axes = plotting.new_figure(1, 2 if power else 1, width=4.8, height=3.9)
        if power:
            label = f"size $N$ ({plain_label(self.size)})" if self.size else "model size $N$ (10⁶ parameters)"
            shown: dict[str, Any] = {"level": self.level, "forecasts": self.forecast, "size_label": label}
            plotting.critical_batch_sizes(found.sizes, laws, fit=power, convention=convention, axes=axes[0, 1], **shown)
        curved = [law for law in laws if isinstance(law, UShapedLaw)]
        if curved:
            plotting.useful_range(measurements, curved, convention=convention, axes=axes[0, 0])
        else:
            plotting.steps_laws(measurements, laws, convention=convention, axes=axes[0, 0])
        write_figures(figure, path)


def _steps(measurements: list[StepsMeasurement]) -> str:
    """CSV of measurements; their one group is called as the tables call it, for a cell of a group is not empty."""
    return steps_text([replace(each, group=each.group or "all") for each in measurements])


def example_file(data: ExampleName) -> str:
    """The example's measurements as a CSV file: what its columns are called is up to a file's author."""
    if data == "mlperf":
        rows = [
            (one.group, int(batch), float(steps), float(f"{steps * error:.3g}"))
            for one in example_measurements(data)
            for batch, steps, error in zip(one.batch_sizes, one.steps, np.array(one.standard_errors), strict=True)
        ]
        return csv_text(("benchmark", "bs", "steps", "se"), rows)
    rows = [
        (model.group, int(model.size), int(batch), int(steps))
        for model in example_measurements()
        for batch, steps in zip(model.batch_sizes, model.steps, strict=True)
    ]
    return csv_text(("model", "params", "bs", "steps"), rows)
