"""Sweeps of networks that several experiments share: tasks, their grids, the picture of steps against batch size."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes

from experiments._lib.progress import report
from sgdtheory._common.files import csv_number
from sgdtheory.fits import SizeDependence, StepsLaw
from sgdtheory.plotting.style import GRAY, MARKERS, colors, few, legend, log_axes, tick_measured
from sgdtheory.sweep import BestSteps, Progress, SweepFit, TunedSteps
from sgdtheory.training import TrainConfig

MOST_LINES = 5  # of a panel


@dataclass(frozen=True)
class Task:
    """A network and its data, with the grid that is swept.

    Attributes:
        fields: of every run.
        widths, batch_sizes: of the sweep; the first batch size is the reference of B*.
        log2_rate, rate_exponent, rate_offsets: learning rates 2^(log2_rate + offset) (B/B_ref)^rate_exponent; the
            middle one is rounded to a power of two.
        num_seeds: of initial weights and of the order of the data.
        targets: losses on the hold-out, descending.
        plateau_steps, samples: a run ends after plateau_steps + samples/B steps.
        evaluations: evenly spaced ones of a run; on small networks they take longer than the training.
        first_seed: of num_seeds in a row.
    """

    fields: dict[str, Any]
    widths: tuple[int, ...]
    batch_sizes: tuple[int, ...]
    log2_rate: float
    rate_exponent: float
    rate_offsets: tuple[float, ...]
    num_seeds: int
    targets: tuple[float, ...]
    plateau_steps: int
    samples: int
    evaluations: int = 20
    first_seed: int = 0


TEACHER = Task(
    fields={
        "base_width": 32,
        "input_dim": 32,
        "noise_variance": 1.0,
        "holdout_size": 512,
        "averages": (0.8, 0.9, 0.95, 0.98, 0.99),
    },
    widths=(32, 64, 128, 256, 512),
    batch_sizes=(16, 40, 100, 250, 625),
    log2_rate=-7.0,
    rate_exponent=0.4,
    rate_offsets=(-2, -1, 0, 1, 2),
    num_seeds=2,
    targets=(0.1,),
    plateau_steps=50,
    samples=6000,
)


# Fewer evaluations miss the first time that a noisy loss is at its target; with the last average the smallest batch
# size is tuned at the lowest target.
FULL_TEACHER = replace(
    TEACHER,
    fields=TEACHER.fields | {"averages": (*TEACHER.fields["averages"], 0.995)},
    widths=(32, 48, 64, 96, 128, 192, 256, 384, 512),
    num_seeds=6,
    targets=(0.12, 0.1, 0.08),
    plateau_steps=80,
    samples=16_000,
    evaluations=100,
)
TEXT = Task(
    fields={
        "model": "transformer",
        "data": "stdlib",
        "base_width": 32,
        "num_heads": 4,
        "depth": 2,
        "context": 32,
        "clip_norm": 1.0,
        "holdout_size": 64,
        "averages": (0.8, 0.9, 0.95, 0.98),
    },
    widths=(32, 64, 128),
    batch_sizes=(4, 10, 25, 64),
    log2_rate=-6.4,
    rate_exponent=0.1,
    rate_offsets=(-2, -1, 0, 1),
    num_seeds=3,
    targets=(2.7, 2.5),
    plateau_steps=60,
    samples=800,
)

# Batch sizes between which B* is read off are far apart, which scatter moves it less; large ones have larger rates.
FULL_TEXT = replace(
    TEXT, widths=(32, 48, 64, 96, 128, 192, 256), batch_sizes=(4, 12, 20, 32, 64), log2_rate=-6.2, rate_exponent=0.25
)


def task_configs(task: Task, **changes: Any) -> list[TrainConfig]:
    """The runs of a task's sweep."""
    found = []
    for width in task.widths:
        for batch_size in task.batch_sizes:
            middle = round(task.log2_rate + task.rate_exponent * np.log2(batch_size / task.batch_sizes[0]))
            steps = task.plateau_steps + task.samples // batch_size
            for offset in task.rate_offsets:
                for seed in range(task.first_seed, task.first_seed + task.num_seeds):
                    fields = {"width": width, "batch_size": batch_size, "learning_rate": 2.0 ** (middle + offset)}
                    fields |= {
                        "max_steps": steps,
                        "eval_every": max(2, steps // task.evaluations),
                        "target_loss": task.targets[-1],
                    }
                    own = {**task.fields, **fields, **changes}
                    found.append(TrainConfig.from_fields(own | {"seed": seed, "data_seed": seed}))
    return found


def critical_of(dependence: SizeDependence | None, size: float) -> tuple[float, float, float]:
    """B* of a size and its interval; nan if it was not fitted."""
    if dependence is None or size not in dependence.sizes:
        return np.nan, np.nan, np.nan
    place = int(np.flatnonzero(dependence.sizes == size)[0])
    low, high = dependence.critical_intervals
    return float(dependence.critical[place]), float(low[place]), float(high[place])


def tell_sweep(progress: Progress) -> None:
    """Report how far a sweep is."""
    report(progress.finished / progress.total)


class Curve(NamedTuple):
    """Steps against batch size of one group, and their law."""

    label: str
    points: list[BestSteps]
    law: StepsLaw


def curves_of(fit: SweepFit) -> list[Curve]:
    """The groups of a fit that have a law."""
    laws = {each.group: law for each, law in zip(fit.measurements, fit.laws, strict=True)}
    return [
        Curve(str(group[0]), [point for point in fit.tuned.points if point.group == group], laws[name])
        for group in fit.tuned.groups
        if (name := fit.tuned.name(group)) in laws
    ]


def tuned_of(rows: Sequence[dict[str, str]], target_loss: float) -> TunedSteps:
    """Tuned steps of every width and batch size from rows of a table that an experiment wrote."""
    points = []
    for row in rows:
        steps = csv_number(row["steps"])
        points.append(
            BestSteps(
                group=(int(row["width"]),),
                batch_size=int(row["batch_size"]),
                steps=np.array([steps] if np.isfinite(steps) else []),
                choice={name: row[name] for name in ("learning_rate", "average") if name in row},
                edges={} if int(row["tuned"]) else {"average": "not tuned"},
                reached=0,
                runs=0,
            )
        )
    return TunedSteps(target_loss, ("width",), tuple(points))


def steps_panel(axis: Axes, curves: Sequence[Curve], reference: float, what: str) -> None:
    """Steps relative to the law's at the reference batch size, curves overlaid; × for what is not tuned.

    At most MOST_LINES of the curves: more have colours that are too near.
    """
    largest, untuned = reference, False
    places = sorted(few(len(curves), MOST_LINES)) if curves else []
    shown = [curves[place] for place in places]
    for place, (curve, color) in enumerate(zip(shown, colors(len(shown)), strict=True)):
        scale = float(np.asarray(curve.law.predict(reference)))
        for tuned, marker in (True, MARKERS[place % len(MARKERS)]), (False, "x"):
            chosen = [point for point in curve.points if point.tuned == tuned and point.steps.size]
            x, y = [point.batch_size for point in chosen], [point.mean / scale for point in chosen]
            filled: dict[str, Any] = {"mfc": "none"} if place % 2 else {}  # what lies on top of each other is seen
            axis.plot(x, y, marker, ms=4 + 2 * (place % 2), color=color, label=curve.label if tuned else None, **filled)
            largest, untuned = max([largest, *x]), untuned or (not tuned and bool(chosen))
        batch = np.geomspace(reference, largest, 60)
        axis.plot(batch, np.asarray(curve.law.predict(batch)) / scale, color=color, lw=1)
    if untuned:
        axis.plot([], [], "x", ms=4, color=GRAY, label="not tuned")
    if not curves:
        axis.text(0.5, 0.95, "nowhere three tuned batch sizes", ha="center", va="top", transform=axis.transAxes)
    linear = np.array([reference, 12 * reference])
    axis.plot(linear, reference / linear, ":", color=GRAY, lw=1, label="linear scaling")
    axis.set(xlabel="batch size $B$ (samples)", ylabel=r"steps $Y(B) / Y(B_\mathrm{ref})$")
    log_axes(axis)
    tick_measured(axis, [point.batch_size for curve in curves for point in curve.points])
    legend(axis, title=what if len(shown) == len(curves) else f"{what}, {len(shown)} of {len(curves)}", ncols=2)
