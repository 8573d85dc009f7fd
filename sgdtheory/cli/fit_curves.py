"""`sgdtheory fit-curves`: from loss curves to the theory's numbers, predictions and the critical batch size."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sgdtheory import curves as loss_curves
from sgdtheory._common.files import write_atomically
from sgdtheory._common.sheets import Sheet, between, number
from sgdtheory.cli.flags import Files
from sgdtheory.cli.function_command import Drawn, Progress
from sgdtheory.cli.log_flags import CurveFlags
from sgdtheory.cli.output import print_note
from sgdtheory.cli.settings import Overhead
from sgdtheory.cli.target_logs import law_of
from sgdtheory.curves import LossCurve
from sgdtheory.fits import Convention, FittedCriticalBatchSize, StepsMeasurement, steps_text
from sgdtheory.logs import TrainingLog, steps_to_target

END = 0.05  # The loss at the end of a run is its mean over this last share of the steps.
ABOVE_ENDS = 0.01  # A loss that is this share above the ends of the runs is reached before them in spite of noise.
EXAMPLE_FITTED = "cosine_24000", "constant_24000", "wsdcon_9"
EXAMPLE_DECAY, EXAMPLE_OPTIMIZER = 0.1, "adam"  # The examples were trained by AdamW.


class Model(NamedTuple):
    """Curves of one model: those that are fitted together, those that are held out, and how they were trained."""

    fitted: list[LossCurve]
    held_out: list[LossCurve]
    optimizer: str
    weight_decay: float | None = None
    logs: Sequence[TrainingLog] = ()  # of the curves that are fitted
    notes: Sequence[str] = ()  # what was taken from the logs, and what is in doubt

    @property
    def curves(self) -> list[LossCurve]:
        """Return all curves of the model."""
        return [*self.fitted, *self.held_out]


@dataclass(frozen=True, kw_only=True)
class FittedCurveFlags(CurveFlags):
    """The flags of a command that fits the theory to loss curves."""

    hold_out: tuple[str, ...] = ()
    """Names of curves that are predicted instead of fitted."""
    max_learning_rate: float | None = None
    """Largest learning rate at B*; None: the largest of the curves."""

    def models(self, paths: Sequence[Path]) -> list[Model]:
        """Return the models whose curves are in logs."""
        runs: dict[str, list[tuple[TrainingLog, LossCurve]]] = {}
        for log, curve in self.read_runs(paths):
            runs.setdefault(curve.group, []).append((log, curve))
        found = []
        for pairs in runs.values():
            logs = [log for log, _ in pairs]
            decay, notes = self.taken_weight_decay(logs)
            fitted, held_out = _divided([curve for _, curve in pairs], self.hold_out)
            taken = self.taken_optimizer(logs)
            logs = [log for log, curve in pairs if curve.name not in self.hold_out]
            found.append(Model(fitted, held_out, taken.optimizer, decay, logs, [*taken.notes, *notes]))
        return found

    def example_model(self, name: str) -> Model:
        """Return a public language model, of whose curves three are fitted unless the flags hold others out."""
        curves = list(loss_curves.example_loss_curves(name).values())
        rest = tuple(curve.name for curve in curves if curve.name not in EXAMPLE_FITTED)
        decay = EXAMPLE_DECAY if self.weight_decay is None else self.weight_decay
        return Model(*_divided(curves, self.hold_out or rest), self.optimizer or EXAMPLE_OPTIMIZER, decay or None)


def _divided(curves: list[LossCurve], held_out: tuple[str, ...]) -> tuple[list[LossCurve], list[LossCurve]]:
    """Return the curves that are fitted, and those that are held out by their names."""
    names = [curve.name for curve in curves]
    missing = [name for name in held_out if name not in names]
    if missing:
        raise ValueError(f"--hold-out must name curves, got {missing[0]}; there are {', '.join(names)}")
    fitted = [curve for curve in curves if curve.name not in held_out]
    if not fitted:
        raise ValueError("--hold-out must leave curves to fit, got all of them; name fewer")
    return fitted, [curve for curve in curves if curve.name in held_out]


def fit_curves(
    progress: Progress,
    columns: FittedCurveFlags,
    logs: Files = (),
    example: str = "100M",
    num_samples: tuple[float, ...] = (),
    overhead: Overhead = 0.2,
    level: float = 0.95,
    steps_csv: Path | None = None,
) -> Drawn:
    """Fit the theory's loss, L0 plus the risk of SGD on a power law, to loss curves, and predict others.

    Files are logs as other programs write them, recognized by content: trainer_state.json, W&B's exports, TensorBoard
    folders, text logs, CSV. Curves of one model under different learning rates are fitted together. Without files it
    takes language models that come with the package: three of nine curves are fitted, six predicted. With several
    models --plot draws a figure of each, NAME_MODEL.png.

    Args:
        logs: Logs: files or folders, of one run each unless the format or --curve says otherwise.
        example: Which example is fitted where no file is given: 25M, 100M or 400M.
        num_samples: Data sizes D for which to print B*; None: those of the longest curve.
        overhead: Extra data that defines B*: 0.2 or 20%.
        steps_csv: Write the theory's steps to the least loss of each D at several batch sizes to this CSV file, for
            `plan`.
    """
    reports, notes = [], []
    for model in columns.models(logs) if logs else [columns.example_model(example)]:
        notes += model.notes
        found = fitted(model, level, progress)
        critical = found.critical_batch_size(
            num_samples or longest(model.curves),
            max_learning_rate=columns.max_learning_rate,
            overhead=overhead,
            progress=progress,
        )
        reports.append(loss_curves.CurvesReport(found, critical, tuple(model.held_out)))
        notes += beside_fit(model, critical, columns.loss or "train", columns.sequence_length)
    if steps_csv:
        print_note(f"wrote {write_atomically(steps_csv, _steps(reports, columns.max_learning_rate, overhead))}")
    sheet = Sheet("", [], notes, {"level": level}, [report.sheet() for report in reports])
    return Drawn(
        sheet,
        draw=lambda: {each.fit.curves[0].group: each.fit.plot(others=list(each.held_out)) for each in reports},
    )


def fitted(model: Model, level: float, progress: Progress) -> "loss_curves.CurvesFit":
    """Return the fit of a model's curves; `progress` is called with the phase of the work."""
    rows = sum(curve.step.size for curve in model.fitted)
    work = f"fitting {len(model.fitted)} curve{'s' * (len(model.fitted) > 1)}, {rows} rows"
    progress(work)
    options = {"weight_decay": model.weight_decay, "optimizer": model.optimizer, "level": level}
    return loss_curves.fit_loss_curves(model.fitted, **options, progress=lambda text: progress(f"{work}: {text}"))


def beside_fit(
    model: Model, critical: "loss_curves.CurvesCriticalBatchSize", loss: str, sequence_length: float | None
) -> list[str]:
    """Return a sentence on the B* that `sgdtheory fit` has of the same logs, from steps to a loss near their ends.

    `critical` is B* of whole curves, at one data size or more.
    """
    whole = next((each for each in critical.compared if each is not None), None)
    if whole is None or not model.logs:
        return []
    ends: dict[float, float] = {}  # the lowest loss at the end of a run, by batch size
    sizes = {curve.name: float(curve.batch_size[-1]) for curve in model.fitted}
    for curve in model.fitted:
        last = float(curve.loss[curve.step > (1 - END) * curve.step[-1]].mean())
        ends[sizes[curve.name]] = min(last, ends.get(sizes[curve.name], np.inf))
    target = float(f"{max(ends.values()) * (1 + ABOVE_ENDS):.3g}")
    try:
        constant = {curve.name: sizes[curve.name] for curve in model.fitted if np.ptp(curve.batch_size) == 0}
        options = {"loss": loss, "sequence_length": sequence_length, "batch_size": constant}
        steps = steps_to_target(model.logs, target_loss=target, **options)
    except ValueError:  # Too few batch sizes reach a common loss.
        return []
    (measured,) = steps.measurements
    law = law_of(measured)
    convention = Convention(whole.smallest, critical.overhead)
    size = law.critical_batch_size(convention=convention)
    low, high = law.interval("critical_batch_size", critical.level, convention=convention)
    said = f"B* from B = {whole.smallest:g} is {number(size)} ({between(low, high)})"
    first, last = whole.from_smallest_interval
    if max(low, first) <= min(high, last):
        return [f"`sgdtheory fit --target-loss {target:g}` agrees on these logs: {said}"]
    return [
        f"`sgdtheory fit --target-loss {target:g}` disagrees on these logs: {said}, here it is "
        f"{number(whole.from_smallest)} ({between(first, last)}). `fit` compares the steps to one loss, this command "
        "whole curves: B* may change along the runs, or learning rates that decay before the loss may shift it. "
        "Compare several losses, `fit --target-loss A B C`, before you trust either"
    ]


def _steps(reports: "list[loss_curves.CurvesReport]", max_learning_rate: float | None, overhead: float) -> str:
    """Return the theory's steps as CSV, with the columns of `fit` and `plan`."""
    measurements = []
    remarks = {"num_samples": [], "target_loss": []}
    convention = Convention(None, overhead)
    for report in reports:
        found = report.critical
        rows = zip(found.num_samples, found.batch_size, found.interval, found.loss, strict=True)
        for samples, size, ends, loss in rows:
            low, high = ends.tolist()
            critical = FittedCriticalBatchSize(float(size), low, high, convention, report.fit.level)
            law = report.fit.steps_law(float(samples), max_learning_rate=max_learning_rate, critical=critical)
            name = f"{report.fit.curves[0].group} loss {loss:.4f}".strip()
            measurements.append(StepsMeasurement(name, np.nan, law.batch_sizes, law.steps, None, True, critical))
            remarks["num_samples"].append(samples)
            remarks["target_loss"].append(loss)
    return steps_text(measurements, remarks=remarks)


def longest(curves: Sequence[LossCurve]) -> tuple[float, ...]:
    """Return the samples that the longest curve has seen, in batches of it where batch sizes are not known."""
    ends = [curve.step[-1] * (1.0 if curve.batch_size is None else curve.batch_size[-1]) for curve in curves]
    return (float(np.max(ends)),)
