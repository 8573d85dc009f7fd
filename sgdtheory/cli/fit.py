"""`sgdtheory fit`: from steps to a target, in a CSV file or read off logs, to the critical batch size."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import tyro
from rich.markup import escape
from rich.table import Table
from scipy import special

from sgdtheory._common.arguments import positive_array
from sgdtheory._common.files import csv_text, write_atomically
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
    Convention,
    ExampleName,
    PowerFit,
    StepsLaw,
    StepsMeasurement,
    example_measurements,
    fit_power_law,
    fit_steps_law,
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

    FLAG_GROUPS: ClassVar[dict[str, tuple[str, ...]]] = {
        "measurements": ("files", "batch_size", "steps", "group", "size", "standard_error", "data", "example"),
        "logs": ("target_loss", "loss", "learning_rate", *LOG_FLAGS),
        "law and forecast": ("fit_alpha", "forecast"),
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
    forecast: tuple[float, ...] = ()
    """Sizes at which to forecast B*."""
    reference: float | None = None
    """Reference batch size of B*, inside the regime of linear scaling. None: 256; of mlperf, each one's smallest."""
    overhead: Overhead = 0.2
    """Extra data, relative to the reference batch size, that defines B*: 0.2 or 20%."""
    level: float = 0.95
    """Level of the confidence intervals."""
    steps_csv: Path | None = None
    """Write the measurements to this CSV file, for `plan`."""
    plot: Path | None = None
    """Write a figure here (.png, .pdf or .svg)."""
    json: bool = False
    """Print JSON; null stands for what is infinite or absent."""

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
        alpha = None if self.fit_alpha else 1.0
        laws = [fit_steps_law(m.batch_sizes, m.steps, alpha, standard_errors=m.standard_errors) for m in measurements]
        rows = [self._row(m, law) for m, law in zip(measurements, laws, strict=True)]
        sizes = [m.size for m in measurements]
        critical = [row["critical_batch_size"] for row in rows]
        with_power = len(set(sizes)) > 1 and np.isfinite([*sizes, *critical]).all()
        power = fit_power_law(sizes, critical) if with_power else None
        if self.forecast and power is None:
            raise ValueError(
                "forecast needs a column of sizes (--size) with at least two different ones, and finite B*"
            )
        notes = [] if found is None else list(found.remarks)
        notes += [note for m, law in zip(measurements, laws, strict=True) for note in self._notes(m, law)]
        notes += self._notes_on_sizes(power)
        report = {"groups": rows, "convention": vars(self._convention), "level": self.level, "notes": notes}
        if power:
            report |= self._power(power, laws, sizes)
        if self.steps_csv:
            notes.append(f"wrote {write_atomically(self.steps_csv, steps_csv(measurements))}")
        if self.plot:
            self._draw(self.plot, measurements, laws, sizes, power)
        if found is not None:
            report["runs"] = runs_report(found)
            if not self.json:
                print_tables(runs_table(found))
        if self.json:
            print_json(report)
        else:
            self._print(report)
        for note in notes:
            print_note(note)

    def _measurements(self) -> list[StepsMeasurement]:
        """Of the file or, where there is none, the example's."""
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
        """Those that steps are read off."""
        if not self.files:
            raise ValueError("target_loss needs logs to read its steps off: name files or folders")
        return self.files

    @property
    def _convention(self) -> Convention:
        if self.reference is None and self.data == "c4":
            return Convention(overhead=self.overhead)
        return Convention(self.reference, self.overhead)

    def _notes(self, measurement: StepsMeasurement, law: StepsLaw) -> list[str]:
        """What makes a B* of this group worth less than its interval says."""
        name = measurement.group or "the measurements"
        low, high = measurement.batch_sizes[[0, -1]]
        reference = self._convention.reference_among(measurement.batch_sizes)
        critical = law.critical_batch_size(convention=self._convention)
        notes = []
        if not low <= reference <= high:
            notes.append(f"{name}: reference {reference:g} lies outside the batch sizes {low:g} … {high:g}")
        if law.b == 0:
            notes.append(f"{name}: steps do not fall with the batch size, so B* is the convention alone")
        elif np.isinf(critical):
            notes.append(f"{name}: no plateau was measured, so B* is not bounded from above")
        elif not low <= critical <= high:
            notes.append(f"{name}: B* = {critical:.4g} lies outside the batch sizes {low:g} … {high:g}")
        if law.residual_std > POOR:
            notes.append(
                f"{name}: steps lie off the law by {law.residual_std:.0%}, which does not describe them: B* means "
                "nothing; give steps to one target, each batch size tuned"
            )
        if measurement.computed:
            notes.append(f"{name}: steps of a theory do not scatter: the intervals are how far they are off a + b/B")
        freedom = law.steps.size - (3 if law.alpha_fitted else 2)
        if freedom == 1:
            notes.append(f"{name}: {law.steps.size} batch sizes for {law.steps.size - 1} parameters {self._one_left}")
        return notes

    def _notes_on_sizes(self, power: PowerFit | None) -> list[str]:
        """What makes the exponent worth less than its interval says."""
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

    def _row(self, measurement: StepsMeasurement, law: StepsLaw) -> dict[str, Any]:
        convention = self._convention
        row: dict[str, Any] = {"group": measurement.group, "size": measurement.size}
        row |= {"a": law.a, "b": law.b, "alpha": law.alpha, "residual_std": law.residual_std}
        if law.standard_errors is not None:
            row |= {"misfit": law.misfit, "lack_of_fit": law.lack_of_fit._asdict()}
        row["critical_batch_size"] = law.critical_batch_size(convention=convention)
        for name in ("a", "b", "alpha", "critical_batch_size"):
            row[f"{name}_interval"] = law.interval(name, self.level, convention=convention)
        return row

    def _power(self, power: PowerFit, laws: list[StepsLaw], sizes: list[float]) -> dict[str, Any]:
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

    def _print(self, report: dict[str, Any]) -> None:
        level = f"{self.level:.0%}"
        title = (
            f"steps = a + b/B^α;  B*: {self.overhead:.0%} more data than at {self._reference_text};  {level} intervals"
        )
        table = Table(title=title)
        tested = "lack_of_fit" in report["groups"][0]
        if tested:
            table.caption = (
                "p: probability of so large a χ² if the law holds; misfit: scatter of steps beyond their errors"
            )
        for header in ("group", "a", "b", "α", "B*", *(["χ², p", "misfit"] if tested else [])):
            table.add_column(header, justify="left" if header == "group" else "right")
        for row in report["groups"]:
            cells = [escape(row["group"]) or "all"]
            for name in ("a", "b", "alpha", "critical_batch_size"):
                fixed = name == "alpha" and not self.fit_alpha
                cells.append(f"{row[name]:.5g}\n{'fixed' if fixed else interval_text(row[f'{name}_interval'])}")
            if tested:
                cells += [_test_text(row["lack_of_fit"]), f"{row['misfit']:.1%}"]
            table.add_row(*cells)
        print_tables(table)
        if "power_law" in report:
            self._print_power(report, level)

    @property
    def _reference_text(self) -> str:
        reference = self._convention.reference
        return "the smallest B" if reference is None else f"B = {reference:g}"

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
        laws: list[StepsLaw],
        sizes: list[float],
        power: PowerFit | None,
    ) -> None:
        from sgdtheory import plotting  # matplotlib is slow to import
        from sgdtheory.plotting.style import plain_label

        if self._convention.reference is None:
            write_figure(plotting.scaled_steps(measurements, laws), path)
            return
        figure, axes = plotting.new_figure(1, 2 if power else 1, width=4.8, height=3.9)
        if power:
            label = f"size $N$ ({plain_label(self.size)})" if self.size else "model size $N$ (10⁶ parameters)"
            shown: dict[str, Any] = {"level": self.level, "forecasts": self.forecast, "size_label": label}
            plotting.critical_batch_sizes(sizes, laws, power, convention=self._convention, axes=axes[0, 1], **shown)
        plotting.steps_laws(measurements, laws, convention=self._convention, axes=axes[0, 0])
        write_figure(figure, path)


def _test_text(test: dict[str, Any]) -> str:
    """χ² over degrees of freedom, and p."""
    return f"{test['chi_square']:.3g} / {test['freedom']}\n{test['p_value']:.1g}"


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
