"""`sgdtheory fit-curves`: from loss curves to the theory's numbers, predictions and the critical batch size."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

import numpy as np
import tyro

from sgdtheory._common.files import write_atomically
from sgdtheory._common.sheets import Sheet
from sgdtheory.cli.log_flags import LOG_GROUPS, LogFlags
from sgdtheory.cli.log_optimizer import TakenOptimizer
from sgdtheory.cli.output import print_note, print_sheet, require_figure_suffix, write_figures
from sgdtheory.cli.progress import phases
from sgdtheory.cli.settings import Overhead

if TYPE_CHECKING:
    from sgdtheory.curves import CurvesFit, CurvesReport, LossCurve
    from sgdtheory.logs import TrainingLog

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
            if not self.logs:
                raise ValueError("preview needs files: name logs")
            self.print_preview(self.logs)
            return
        from sgdtheory.curves import CurvesReport

        reports, notes = [], []
        for model in self.models():
            notes += model.taken.notes
            with phases("") as show:
                found, others = self.fitted(model, show)
                critical = found.critical_batch_size(
                    self.num_samples or longest(model.curves),
                    max_learning_rate=self.max_learning_rate,
                    overhead=self.overhead,
                    progress=show,
                )
            reports.append(CurvesReport(found, critical, tuple(others)))
            if self.plot:
                group = model.curves[0].group
                place = self.plot.with_stem(f"{self.plot.stem}_{group}") if len(reports) > 1 else self.plot
                write_figures(found.plot(others=others), place)
        if self.steps_csv:
            print_note(f"wrote {write_atomically(self.steps_csv, self._steps(reports))}")
        groups = [report.sheet() for report in reports]
        print_sheet(Sheet("", [], notes, {"level": self.level}, groups), self.json)

    def _steps(self, reports: "list[CurvesReport]") -> str:
        """CSV with the columns of `fit` and `plan`."""
        from sgdtheory.fits import Convention, FittedCriticalBatchSize, StepsMeasurement, steps_text

        measurements = []
        remarks = {"num_samples": [], "target_loss": []}
        convention = Convention(None, self.overhead)
        for report in reports:
            found = report.critical
            rows = zip(found.num_samples, found.batch_size, found.interval, found.loss, strict=True)
            for samples, size, ends, loss in rows:
                low, high = ends.tolist()
                critical = FittedCriticalBatchSize(float(size), low, high, convention, report.fit.level)
                options = {"max_learning_rate": self.max_learning_rate, "critical": critical}
                law = report.fit.steps_law(float(samples), **options)
                name = f"{report.fit.curves[0].group} loss {loss:.4f}".strip()
                measurements.append(StepsMeasurement(name, np.nan, law.batch_sizes, law.steps, None, True, critical))
                remarks["num_samples"].append(samples)
                remarks["target_loss"].append(loss)
        return steps_text(measurements, remarks=remarks)

    def models(self) -> "list[Model]":
        """The curves of each model, and their optimizer."""
        from sgdtheory.curves import example_loss_curves

        if not self.logs:
            curves = list(example_loss_curves(self.example).values())
            return [Model(curves, TakenOptimizer(self.optimizer or "sgd", "", ""))]
        runs: dict[str, list[tuple[TrainingLog, LossCurve]]] = {}
        for log, curve in self.read_runs(self.logs):
            runs.setdefault(curve.group, []).append((log, curve))
        return [
            Model([curve for _, curve in pairs], self.taken_optimizer(log.settings for log, _ in pairs))
            for pairs in runs.values()
        ]

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

    def fitted(self, model: "Model", show: Callable[[str], None]) -> tuple["CurvesFit", list["LossCurve"]]:
        """The fit of a model's curves, and those that are held out of it; `show` is called with its progress."""
        from sgdtheory.curves import fit_loss_curves

        chosen, others = self._split(model.curves)
        decay = self.weight_decay if self.logs or self.weight_decay is not None else EXAMPLE_DECAY
        rows = sum(curve.step.size for curve in chosen)
        work = f"fitting {len(chosen)} curve{'s' * (len(chosen) > 1)}, {rows} rows"
        show(work)
        options = {"weight_decay": decay, "optimizer": model.taken.optimizer, "level": self.level}
        return fit_loss_curves(chosen, **options, progress=lambda text: show(f"{work}: {text}")), others


class Model(NamedTuple):
    """Curves that are fitted together, or held out, and the optimizer that made them."""

    curves: "list[LossCurve]"
    taken: TakenOptimizer


def longest(curves: "Sequence[LossCurve]") -> tuple[float, ...]:
    """Samples that the longest curve has seen, in batches of it where batch sizes are not known."""
    ends = [curve.step[-1] * (1.0 if curve.batch_size is None else curve.batch_size[-1]) for curve in curves]
    return (float(np.max(ends)),)
