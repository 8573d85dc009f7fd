"""`sgdtheory fit-curves`: from loss curves to the theory's numbers, predictions and the critical batch size."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import numpy as np
import tyro
from rich.table import Table

from sgdtheory._common.files import write_atomically
from sgdtheory.cli.log_flags import LOG_GROUPS, LogFlags, log_notes
from sgdtheory.cli.log_optimizer import TakenOptimizer
from sgdtheory.cli.output import (
    interval_text,
    live_line,
    print_json,
    print_note,
    print_tables,
    require_figure_suffix,
    write_figure,
)
from sgdtheory.cli.settings import Overhead

if TYPE_CHECKING:
    from sgdtheory.curves import CurvesCriticalBatchSize, CurvesFit, LossCurve
    from sgdtheory.logs import TrainingLog

NUMBERS = {  # of a CurvesFit → symbol and what it is
    "capacity": ("a", "capacity exponent, λ_i ∝ i^−a"),
    "source": ("b", "source exponent, s_i ∝ i^−b"),
    "signal": ("A", "signal, s_i = A i^−b (loss)"),
    "noise": ("σ²/B", "noise of a batch (loss)"),
    "step_size": ("γλ_1", "at the largest learning rate"),
    "irreducible_loss": ("L0", "loss that is left"),
    "growth": ("g", "growth of the weights' squared norm in a step"),
}
EXAMPLE_FITTED = "cosine_24000", "constant_24000", "wsdcon_9"
EXAMPLE_DECAY = 0.1


@dataclass(frozen=True, kw_only=True)
class FitCurvesCommand(LogFlags):
    """Fit the theory's loss, L0 plus the risk of SGD on a power law, to loss curves, and predict others.

    Files are logs as other programs write them, recognized by content: trainer_state.json, W&B's exports, TensorBoard
    folders, text logs, CSV. Curves of one model under different learning rates are fitted together. Without files it
    takes language models that come with the package: three of nine curves are fitted, six predicted.
    """

    FLAG_GROUPS: ClassVar[dict[str, tuple[str, ...]]] = {
        "curves": ("logs", "hold_out", "example"),
        **LOG_GROUPS,
        "training": ("weight_decay", "optimizer"),
        "critical batch size": ("num_samples", "max_learning_rate", "overhead"),
        "output": ("level", "steps_csv", "plot", "json"),
    }

    logs: Annotated[tuple[Path, ...], tyro.conf.Positional] = ()
    """Logs: files or folders, of one run each unless the format or --curve says otherwise."""
    hold_out: tuple[str, ...] = ()
    """Names of curves that are predicted instead of fitted."""
    example: str = "100M"
    """Which example is fitted where no file is given: 25M, 100M or 400M."""
    weight_decay: float | None = None
    """Weight decay of AdamW; None: none."""
    num_samples: tuple[float, ...] = ()
    """Data sizes D for which to print B*; None: those of the longest curve."""
    max_learning_rate: float | None = None
    """Largest learning rate at B*; None: the largest of the curves."""
    overhead: Overhead = 0.2
    """Extra data that defines B*: 0.2 or 20%."""
    level: float = 0.95
    """Level of the intervals."""
    steps_csv: Path | None = None
    """Write the theory's steps to the least loss of each D at several batch sizes to this CSV file, for `plan`."""
    plot: Path | None = None
    """Draw curves, theory and errors to this .png, .pdf or .svg; with several groups their names are put in."""
    json: bool = False
    """Print JSON; null stands for what is absent, "inf" for what is infinite."""

    def run(self) -> None:
        """Fit, predict and print."""
        require_figure_suffix(self.plot)
        if self.preview:
            self._preview()
            return
        reports, notes = [], []
        for group, model in self.groups().items():
            notes += [*model.taken.notes, *log_notes(model.curves)]
            found, others = self.fitted(model)
            with live_line("looking for B* and its interval", str):
                critical = found.critical_batch_size(
                    self.num_samples or longest(model.curves),
                    max_learning_rate=self.max_learning_rate,
                    overhead=self.overhead,
                )
            reports.append(Report(group, found, others, critical))
            remarks = filter(None, (found.remark, critical.remark))
            notes += [f"{group + ': ' if group else ''}{remark}" for remark in remarks]
            if self.plot:
                place = self.plot.with_stem(f"{self.plot.stem}_{group}") if len(reports) > 1 else self.plot
                write_figure(found.plot(others=others), place)
        if self.steps_csv:
            print_note(f"wrote {write_atomically(self.steps_csv, self._steps(reports))}")
        if self.json:
            print_json({"groups": [_json(each) for each in reports], "level": self.level, "notes": notes})
        else:
            print_tables(*(table for each in reports for table in self._tables(each)))
        for note in notes:
            print_note(note)

    def _steps(self, reports: list["Report"]) -> str:
        """CSV with the columns of `fit` and `plan`."""
        from sgdtheory.fits import Convention, FittedCriticalBatchSize, StepsMeasurement, steps_text

        measurements = []
        remarks = {"num_samples": [], "target_loss": []}
        for each in reports:
            for samples, size, ends, loss in zip(*each.critical[:4], strict=True):
                convention = Convention(None, self.overhead)
                low, high = ends.tolist()
                critical = FittedCriticalBatchSize(float(size), low, high, convention, each.found.level)
                options = {"max_learning_rate": self.max_learning_rate, "critical": critical}
                law = each.found.steps_law(float(samples), **options)
                name = " ".join(filter(None, [each.group, f"loss {loss:.4f}"]))
                measurements.append(StepsMeasurement(name, np.nan, law.batch_sizes, law.steps, None, True, critical))
                remarks["num_samples"].append(samples)
                remarks["target_loss"].append(loss)
        return steps_text(measurements, remarks=remarks)

    def _preview(self) -> None:
        if not self.logs:
            raise ValueError("preview needs files: name logs")
        self.print_preview(self.logs)

    def groups(self) -> dict[str, "Model"]:
        """The curves of each model."""
        from sgdtheory.curves import example_loss_curves

        if not self.logs:
            curves = list(example_loss_curves(self.example).values())
            return {curves[0].group: Model(curves, TakenOptimizer(self.optimizer or "sgd", "", ""))}
        runs: dict[str, list[tuple[TrainingLog, LossCurve]]] = {}
        for log, curve in self.read_runs(self.logs):
            runs.setdefault(curve.group, []).append((log, curve))
        return {
            group: Model([curve for _, curve in pairs], self.taken_optimizer(log.settings for log, _ in pairs))
            for group, pairs in runs.items()
        }

    def _split(self, curves: list["LossCurve"]) -> tuple[list["LossCurve"], list["LossCurve"]]:
        """Return the curves to fit, and the curves that are held out."""
        names = [curve.name for curve in curves]
        held = self.hold_out if self.logs or self.hold_out else [name for name in names if name not in EXAMPLE_FITTED]
        missing = [name for name in held if name not in names]
        if missing:
            raise ValueError(f"hold-out must name curves, got {missing[0]}; there are {', '.join(names)}")
        fitted = [curve for curve in curves if curve.name not in held]
        if not fitted:
            raise ValueError("hold-out must leave curves to fit, got all of them; name fewer")
        return fitted, [curve for curve in curves if curve.name in held]

    def fitted(self, model: "Model") -> tuple["CurvesFit", list["LossCurve"]]:
        """The fit of a model's curves, and those that are held out of it."""
        from sgdtheory.curves import fit_loss_curves

        chosen, others = self._split(model.curves)
        decay = self.weight_decay if self.logs or self.weight_decay is not None else EXAMPLE_DECAY
        with live_line("fitting", str) as show:
            options = {"weight_decay": decay, "optimizer": model.taken.optimizer}
            progress = show or _said_once(_work(chosen, model.taken.optimizer))
            return fit_loss_curves(chosen, **options, level=self.level, progress=progress), others

    def _tables(self, report: "Report") -> list[Table]:
        found, others, critical = report.found, report.others, report.critical
        count = len(found.curves)
        rows = sum(curve.step.size for curve in found.curves)
        title = f"{report.group + ': ' if report.group else ''}{count} curve{'s' * (count > 1)}, {rows} rows"
        numbers = Table(title=f"{title}; theory off by {found.scatter:.2%}", show_header=False)
        for name, (symbol, text) in NUMBERS.items():
            value = getattr(found, name)
            if value is None:
                continue
            symbol = "σ²" if name == "noise" and found.knows_batch_size else symbol
            numbers.add_row(symbol, text, f"{value.value:.4g}", interval_text(value.interval))
        tables = [numbers, _errors_table("curves fitted", found, found.curves)]
        if others:
            tables.append(_errors_table("curves held out", found, others))
        unit = "" if found.knows_batch_size else ", in batches of these runs"
        sizes = Table(
            title=f"critical batch size at {100 * self.overhead:.3g}% overhead{unit}",
            caption=f"learning rate decays to 0, tuned up to {critical.max_learning_rate:.3g}; B* grows with it",
        )
        for header in ("D", "B*", f"{self.level:.0%} interval", "least loss"):
            sizes.add_column(header, justify="right")
        for samples, size, ends, loss in zip(*critical[:4], strict=True):
            sizes.add_row(f"{samples:g}", f"{size:.4g}", interval_text(ends), f"{loss:.4f}")
        return [*tables, sizes]


def _work(curves: "Sequence[LossCurve]", optimizer: str) -> str:
    """Return in words what the command is about to do, for a user who waits."""
    rows = sum(curve.step.size for curve in curves)
    many = f"{len(curves)} curve{'s' * (len(curves) > 1)}"
    return f"fitting the law of {optimizer} to {many}, {rows} rows; with B* it takes a minute or so"


def _said_once(text: str) -> Callable[[str], None]:
    """Progress where there is no terminal: a note when work begins."""
    unsaid = [text]

    def progress(_: str) -> None:
        while unsaid:
            print_note(unsaid.pop())

    return progress


class Model(NamedTuple):
    """Curves that are fitted together, or held out, and the optimizer that made them."""

    curves: "list[LossCurve]"
    taken: TakenOptimizer


def longest(curves: "Sequence[LossCurve]") -> tuple[float, ...]:
    """Samples that the longest curve has seen, in batches of it where batch sizes are not known."""
    ends = [curve.step[-1] * (1.0 if curve.batch_size is None else curve.batch_size[-1]) for curve in curves]
    return (float(np.max(ends)),)


class Report(NamedTuple):
    """Results of the fit to one group."""

    group: str
    found: "CurvesFit"
    others: list["LossCurve"]
    critical: "CurvesCriticalBatchSize"


def _errors_table(title: str, found: "CurvesFit", curves: "Sequence[LossCurve]") -> Table:
    """A row a curve: what it ends with, how far the theory is off, and where it was cut."""
    table = Table(title=title)
    for header in ("curve", "rows", "last step", "loss", "theory", "R²", "largest error", ""):
        table.add_column(header, justify="left" if header in ("curve", "") else "right")
    for curve in curves:
        loss, r_square, largest = _errors(found, curve)
        last = f"{curve.step.size}", f"{curve.step[-1]:g}", f"{curve.loss[-1]:.4f}", f"{loss:.4f}"
        table.add_row(curve.name, *last, f"{r_square:.5f}", f"{largest:.2%}", curve.remark)
    return table


def _errors(found: "CurvesFit", curve: "LossCurve") -> tuple[float, float, float]:
    """Predicted last loss, R² of the curve (nan where its loss is constant), and the largest relative error."""
    predicted = found.predict_curve(curve).loss
    left = ((curve.loss - predicted) ** 2).sum()
    spread = ((curve.loss - curve.loss.mean()) ** 2).sum()
    r_square = 1 - left / spread if spread else np.nan
    return float(predicted[-1]), float(r_square), float(np.abs(predicted / curve.loss - 1).max())


def _json(report: Report) -> dict[str, Any]:
    found, critical = report.found, report.critical
    numbers = {name: vars(getattr(found, name)) for name in NUMBERS if getattr(found, name) is not None}
    held = [
        dict(
            zip(("curve", "predicted", "r_square", "largest_error"), (curve.name, *_errors(found, curve)), strict=True)
        )
        for curve in report.others
    ]
    return {
        "group": report.group,
        "fitted": [curve.name for curve in found.curves],
        "cut": {curve.name: curve.remark for curve in (*found.curves, *report.others) if curve.remark},
        **numbers,
        "scatter": found.scatter,
        "not_identified": found.not_identified,
        "held_out": held,
        "num_samples": critical.num_samples,
        "critical_batch_size": critical.batch_size,
        "interval": critical.interval,
        "least_loss": critical.loss,
        "max_learning_rate": critical.max_learning_rate,
    }
