"""`sgdtheory fit`: from steps to a target, in a CSV file or read off logs, to the critical batch size."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import tyro
from rich.table import Table
from scipy import special

from sgdtheory._common.arguments import positive_array
from sgdtheory._common.files import csv_text, write_atomically
from sgdtheory.cli.fit_rows import definition_text, law_row, laws_table
from sgdtheory.cli.measurement_input import (
    LOG_FLAGS,
    MeasurementFlags,
    only_table,
    runs_report,
    runs_table,
    steps_csv,
)
from sgdtheory.cli.output import (
    interval_text,
    print_json,
    print_note,
    print_tables,
    print_text,
    require_figure_suffix,
    write_figure,
)
from sgdtheory.cli.settings import Overhead
from sgdtheory.fits import (
    PAPER,
    AbstractStepsLaw,
    Convention,
    ExampleName,
    PowerFit,
    Scatter,
    StepsMeasurement,
    UShapedLaw,
    common_convention,
    example_measurements,
    fit_power_law,
    fit_steps_law,
    law_remarks,
    pooled_scatter,
    read_measurements,
    sensitivity,
)

POOR = 0.5  # standard deviation of log steps about a law, from which on it is none
COLUMNS = {"batch_size": "batch_size", "steps": "steps", "group": None, "size": None, "standard_error": None}


@dataclass(frozen=True, kw_only=True)
class FitCommand(MeasurementFlags):
    """Critical batch size from steps-to-target measurements: B*, intervals, exponent, sensitivity.

    Measurements stand in a CSV file; with --target-loss files and folders are logs of runs at several batch sizes, of
    any program, and the steps are read off them.
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
    """CSV file with a header, one row a batch size; with --target-loss logs, or folders of them. Without, `--data`."""
    batch_size: str = "batch_size"
    """Column with the batch size; of logs also the number, or that of each run: run7=64,run8=256."""
    steps: str = "steps"
    """Column with the steps to the target."""
    group: str | None = None
    """Column that tells targets apart, for example the model's name."""
    size: str | None = None
    """Column with the model or data size, for the exponent of B* against it."""
    standard_error: str | None = None
    """Column with the standard error of the steps, which then count by it; the law's lack of fit is tested."""
    target_loss: float | None = None
    """Loss whose first step is read off logs: the best run of each batch size counts, and seeds are averaged."""
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
        found = None if self.target_loss is None else self.steps_of_logs(self._logs, self.target_loss)
        measurements = self._measurements() if found is None else list(found.measurements)
        convention = self._convention(measurements)
        laws = self._laws(measurements)
        scatter = pooled_scatter(laws) if self.pool_scatter else None
        groups = list(zip(measurements, laws, strict=True))
        rows = [law_row(m, law, convention, self.level, scatter) for m, law in groups]
        sizes = [m.size for m in measurements]
        critical = [row["critical_batch_size"] for row in rows]
        with_power = len(set(sizes)) > 1 and np.isfinite([*sizes, *critical]).all()
        power = fit_power_law(sizes, critical) if with_power else None
        if self.forecast and power is None:
            raise ValueError(
                "forecast needs a column of sizes (--size) with at least two different ones, and finite B*"
            )
        notes = [] if found is None else list(found.remarks)
        notes += [note for m, law in groups for note in self._notes(m, law, convention, scatter)]
        notes += self._notes_on_sizes(power)
        report = {"groups": rows, "convention": vars(convention), "level": self.level, "notes": notes}
        if scatter:
            report["scatter"] = scatter._asdict()
        if power:
            report |= self._power(power, laws, sizes)
        if self.steps_csv:
            notes.append(f"wrote {write_atomically(self.steps_csv, steps_csv(measurements))}")
        if self.plot:
            self._draw(self.plot, measurements, laws, sizes, power, convention)
        if found is not None:
            report["runs"] = runs_report(found)
            if not self.json:
                print_tables(runs_table(found))
        if self.json:
            print_json(report)
        else:
            self._print(report, convention)
        for note in notes:
            print_note(note)

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
            advice = "give the loss whose steps are to be read off logs, --target-loss"
            return read_measurements(only_table(self.files, advice), **columns)
        if columns != COLUMNS:
            raise ValueError(f"{', '.join(COLUMNS).replace('_', '-')} name columns of a CSV file: give the file too")
        return example_measurements(self.data)

    @property
    def _logs(self) -> tuple[Path, ...]:
        """The logs from which steps to the target are read."""
        if not self.files:
            raise ValueError("target_loss needs logs to read its steps off: name files or folders")
        return self.files

    def _convention(self, measurements: list[StepsMeasurement]) -> Convention:
        """One reference for all groups; the five models of the paper have the paper's."""
        if self.reference is None and not self.files and self.data == "c4":
            return Convention(PAPER.reference, self.overhead)
        return common_convention([m.batch_sizes for m in measurements], self.reference, self.overhead)

    def _notes(
        self, measurement: StepsMeasurement, law: AbstractStepsLaw, convention: Convention, scatter: Scatter | None
    ) -> list[str]:
        """Return reasons to trust B* of this group less than its interval suggests."""
        name = measurement.group or "the measurements"
        notes = [f"{name}: {remark}" for remark in law_remarks(law, convention, scatter)]
        if law.residual_std > POOR:
            notes.append(
                f"{name}: steps lie off the law by {law.residual_std:.0%}, which does not describe them: B* means "
                "nothing; give steps to one target, each batch size tuned"
            )
        if measurement.computed:
            notes.append(f"{name}: steps of a theory do not scatter: the intervals are how far they are off the law")
        if measurement.critical is not None:
            value = measurement.critical.batch_size
            ends = interval_text(measurement.critical.interval)
            notes.append(f"{name}: the fit that wrote these steps has B* {value:.4g} ({ends}), which plan takes")
        if law.freedom == 1 and not self.pool_scatter:
            notes.append(f"{name}: {law.steps.size} batch sizes for {law.steps.size - 1} parameters {self._one_left}")
        return notes

    def _notes_on_sizes(self, power: PowerFit | None) -> list[str]:
        """Return reasons to trust the exponent less than its interval suggests."""
        if power and power.num_points == 2:
            return ["two sizes show no scatter: the exponent's interval is unlimited; measure five or more"]
        if power and power.num_points == 3:
            return [f"three sizes for the exponent and its coefficient {self._one_left}"]
        return []

    @property
    def _one_left(self) -> str:
        """End of a sentence on as many points as parameters but for one."""
        quantile = special.stdtrit(1, (1 + self.level) / 2)
        return (
            f"leave one degree of freedom (t = {quantile:.1f} at {self.level:.0%}): the intervals are as wide as the "
            "one residual happens to be; measure two more"
        )

    def _power(self, power: PowerFit, laws: list[AbstractStepsLaw], sizes: list[float]) -> dict[str, Any]:
        low, high = power.prediction_interval(np.array(self.forecast), self.level)
        forecasts = zip(self.forecast, power.predict(np.array(self.forecast)), low, high, strict=True)
        table = sensitivity(laws, sizes, level=self.level)
        return {
            "power_law": {
                "coefficient": power.coefficient,
                "exponent": power.exponent,
                "exponent_interval": power.interval(self.level),
            },
            "forecasts": [
                {"size": size, "critical_batch_size": value, "interval": (bottom, top)}
                for size, value, bottom, top in forecasts
            ],
            "sensitivity": [
                {
                    "reference": row.reference,
                    "overhead": row.overhead,
                    "critical_batch_sizes": row.critical_batch_sizes,
                    "exponent": row.exponent,
                    "exponent_interval": row.interval,
                }
                for row in table
            ],
        }

    def _print(self, report: dict[str, Any], convention: Convention) -> None:
        level = f"{self.level:.0%}"
        law = "a + b/B + c/B²" if self.optimal_batch_size else "a + b/B^α"
        defined = definition_text(convention, curved=self.optimal_batch_size)
        title = f"steps = {law};  B*: {defined};  {level} intervals"
        print_tables(laws_table(report["groups"], title, alpha_fitted=self.fit_alpha))
        if "power_law" in report:
            self._print_power(report, level)

    def _print_power(self, report: dict[str, Any], level: str) -> None:
        law = report["power_law"]
        interval = interval_text(law["exponent_interval"])
        print_text(f"B* = {law['coefficient']:.4g} · size^{law['exponent']:.4f}   (exponent, {level}: {interval})")
        forecasts = Table(title="forecasts")
        for header in ("size", "B*", f"{level}, new measurement"):
            forecasts.add_column(header, justify="right")
        for row in report["forecasts"]:
            forecasts.add_row(f"{row['size']:g}", f"{row['critical_batch_size']:.5g}", interval_text(row["interval"]))
        sensitive = Table(title="how much is convention: B* and its exponent against the definition's two numbers")
        for header in ("overhead", "reference B", "B* of each group", "exponent", level):
            sensitive.add_column(header, justify="right")
        for row in report["sensitivity"]:
            critical = "  ".join(f"{value:.0f}" for value in row["critical_batch_sizes"])
            numbers = f"{row['exponent']:.3f}", interval_text(row["exponent_interval"])
            sensitive.add_row(f"{row['overhead']:.0%}", f"{row['reference']:g}", critical, *numbers)
        print_tables(*([forecasts] if report["forecasts"] else []), sensitive)

    def _draw(
        self,
        path: Path,
        measurements: list[StepsMeasurement],
        laws: list[AbstractStepsLaw],
        sizes: list[float],
        power: PowerFit | None,
        convention: Convention,
    ) -> None:
        from sgdtheory import plotting  # matplotlib is slow to import
        from sgdtheory.plotting.style import plain_label

        if convention.reference is None and not self.optimal_batch_size:
            write_figure(plotting.scaled_steps(measurements, laws), path)  # pyright: ignore[reportArgumentType]
            return
        figure, axes = plotting.new_figure(1, 2 if power else 1, width=4.8, height=3.9)
        if power:
            label = f"size $N$ ({plain_label(self.size)})" if self.size else "model size $N$ (10⁶ parameters)"
            shown: dict[str, Any] = {"level": self.level, "forecasts": self.forecast, "size_label": label}
            plotting.critical_batch_sizes(sizes, laws, fit=power, convention=convention, axes=axes[0, 1], **shown)
        curved = [law for law in laws if isinstance(law, UShapedLaw)]
        if curved:
            plotting.useful_range(measurements, curved, convention=convention, axes=axes[0, 0])
        else:
            plotting.steps_laws(measurements, laws, convention=convention, axes=axes[0, 0])
        write_figure(figure, path)


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
