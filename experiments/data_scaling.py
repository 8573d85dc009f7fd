"""Does the critical batch size at fixed width grow with the data needed to reach a target?"""

import re
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments._lib.network_sweeps import (
    FULL_TEACHER,
    FULL_TEXT,
    TEACHER,
    Task,
    task_configs,
    tell_sweep,
)
from experiments._lib.redraw import Recorded
from experiments._lib.results import Result, Verdict, VerdictName
from sgdtheory._common.files import csv_number
from sgdtheory.fits import Convention, SizeDependence, size_dependence
from sgdtheory.plotting.style import BLACK, BLUE, MARKERS, VERMILLION, colors, few, legend, log_axes, new_figure
from sgdtheory.sweep import SweepFit, data_dependence, fit_sweep, sweep


@dataclass(frozen=True)
class Config:
    """Sweeps of tasks, each to several targets.

    Attributes:
        tasks: name → task, with its targets descending.
        overhead, level: of B* and its intervals.
        store: folder that keeps the runs; None: a temporary one.
    """

    tasks: dict[str, Task] = field(
        default_factory=lambda: {
            "teacher": replace(TEACHER, widths=(64,), targets=(0.2, 0.15, 0.12, 0.1, 0.08), samples=14_000)
        }
    )
    overhead: float = 0.2
    level: float = 0.95
    store: str | None = None


SCALES = {
    "quick": Config(),
    "full": Config(
        {
            "teacher": replace(FULL_TEACHER, targets=(0.2, 0.16, 0.14, 0.12, 0.11, 0.1, 0.09, 0.08)),
            "text": replace(FULL_TEXT, widths=(32, 48, 64, 96, 128), targets=(3.0, 2.9, 2.8, 2.7, 2.6, 2.5)),
        },
        store="runs",
    ),
}
MOST_LINES = 5  # of a panel: more have colours that are too near
UNITS = {
    "task": "network and data",
    "width": "w, units of a hidden layer, d_model of the transformer",
    "target_loss": "loss on the hold-out: excess risk in units of the teacher's variance, or nats a byte",
    "data": "D = B_ref Y(B_ref) by the law, samples (sequences, on text)",
    "critical_batch_size": "B*, by the law a + b/B",
    "balance": "b/a, batch size at which steps and data are twice their least",
}


@dataclass(frozen=True, eq=False)
class Found:
    """One task's fits, one a target, and how B* depends on data: group → exponent; "all": widths grow with data."""

    task: str
    fits: list[SweepFit]
    exponents: dict[str, SizeDependence]


def run(config: Config) -> Result:
    """Sweep once to the lowest target, and fit at all of them."""
    start, found = time.perf_counter(), []
    with tempfile.TemporaryDirectory() as temporary:
        for name, task in config.tasks.items():
            table = sweep(
                task_configs(task, parametrization="mup"), Path(config.store or temporary), progress=tell_sweep
            )
            options: dict[str, Any] = {"overhead": config.overhead, "level": config.level}
            reference = float(task.batch_sizes[0])
            fits = [fit_sweep(table, target_loss=target, reference=reference, **options) for target in task.targets]
            found.append(Found(name, fits, _exponents(config, fits)))
    verdicts = _verdicts(found, time.perf_counter() - start)
    points = _points(found)
    slopes = {each.task: {name: _ends(exponent) for name, exponent in each.exponents.items()} for each in found}
    return Result(points, UNITS, figures(config, points, slopes), verdicts)


def _ends(exponent: SizeDependence) -> tuple[float, float, float]:
    return exponent.slope, *exponent.interval


def _exponents(config: Config, fits: list[SweepFit]) -> dict[str, SizeDependence]:
    """Judge how B* depends on data at every width, and if the width grows with the data."""
    groups = dict.fromkeys(each.group for fit in fits for each in fit.measurements)
    found = {}
    for group in groups:
        if sum(any(each.group == group for each in fit.measurements) for fit in fits) > 2:
            found[group] = data_dependence(fits, group, level=config.level)
    if len(groups) > 2:
        both = [_cell(fit, place) for fit, place in zip(fits, np.linspace(0, 1, len(fits)), strict=True)]
        convention = Convention(fits[0].reference, fits[0].overhead)
        found["both"] = size_dependence([each for each in both if each], convention=convention, level=config.level)
    return found


def _cell(fit: SweepFit, place: float) -> Any:
    """The measurement of the width at `place` between the least (0) and the largest (1), with D as its size."""
    if not fit.measurements:
        return None
    measured = sorted(fit.measurements, key=lambda each: each.size)
    chosen = measured[round(place * (len(measured) - 1))]
    law = fit.laws[fit.measurements.index(chosen)]
    return replace(chosen, size=fit.reference * float(np.asarray(law.predict(fit.reference))))


def _points(found: list[Found]) -> dict[str, list]:
    """One row a task, target and width."""
    rows = []
    for each in found:
        for fit in each.fits:
            for measurement, law in zip(fit.measurements, fit.laws, strict=True):
                data = fit.reference * float(np.asarray(law.predict(fit.reference)))
                critical = law.critical_batch_size(fit.reference, fit.overhead)
                balance = law.b / law.a if law.a else np.inf
                rows.append([each.task, measurement.size, fit.tuned.target_loss, data, critical, balance])
    return {name: list(column) for name, column in zip(UNITS, zip(*rows, strict=True), strict=True)}


def _verdicts(found: list[Found], seconds: float) -> tuple[Verdict, ...]:
    verdicts = []
    for each in found:
        for group, exponent in each.exponents.items():
            what = "width and data grow together" if group == "both" else f"at {group}"
            low, high = exponent.interval
            answer: VerdictName = "holds" if low > 0 else "fails" if high < 0 else "inconclusive"
            statement = (
                f"slope of log B* on log D, D = {exponent.sizes.min():.0f} … {exponent.sizes.max():.0f} samples: "
                f"B* = {exponent.critical.min():.0f} … {exponent.critical.max():.0f}; its targets share their runs"
            )
            claim = f"B* grows with the data ({each.task}, {what})"
            verdicts.append(Verdict(claim, statement, "above 0", exponent.slope, exponent.interval, answer, seconds))
            seconds = 0.0
    return tuple(verdicts)


def redraw(config: Config, recorded: Recorded) -> dict[str, Figure]:
    """The figures, from a recorded table; the slopes of log B* on log D from the recorded verdicts."""
    slopes: dict[str, dict[str, tuple[float, float, float]]] = {}  # task → group → slope and ends of its interval
    for verdict in recorded.verdicts:
        place = re.search(r"\((\w+), (?:at )?(.+)\)", verdict["claim"])
        assert place, verdict["claim"]
        group = "both" if "grow together" in place[2] else place[2]
        slopes.setdefault(place[1], {})[group] = (verdict["measured"], *verdict["interval"])
    return figures(config, points_of(recorded.rows), slopes)


def points_of(rows: list[dict[str, str]]) -> dict[str, list]:
    """Columns of the table that `run` wrote, from its rows."""
    return {name: [row[name] if name == "task" else csv_number(row[name]) for row in rows] for name in UNITS}


def figures(
    config: Config, points: dict[str, list], slopes: dict[str, dict[str, tuple[float, float, float]]]
) -> dict[str, Figure]:
    """One figure a task.

    Args:
        config: of the experiment.
        points: columns of the table.
        slopes: task → group → slope of log B* on log D and the ends of its interval.
    """
    drawn = {}
    for task in slopes:
        figure, axes = new_figure(1, 2, width=4.8, height=4.0)
        figure.suptitle(f"Does the critical batch size grow with the data? {task}, µP")
        axes[0, 0].set_title(f"{config.overhead:.0%} overhead, one point per target loss")
        chosen = np.array(points["task"]) == task
        columns = {name: np.array(points[name])[chosen] for name in ("width", "data", "critical_batch_size")}
        _slope_panel(config, axes[0, 1], slopes[task])
        _data_panel(axes[0, 0], columns)
        drawn[f"data_scaling_{task}"] = figure
    return drawn


def _data_panel(axis: Axes, columns: dict[str, np.ndarray]) -> None:
    """B* against D, one line a width, of at most MOST_LINES widths; the slopes of all are in the other panel."""
    every = np.unique(columns["width"])
    widths = every[sorted(few(len(every), MOST_LINES))]
    for place, (width, color) in enumerate(zip(widths, colors(len(widths)), strict=True)):
        own = columns["width"] == width
        order = np.argsort(columns["data"][own])
        data, critical = (columns[name][own][order] for name in ("data", "critical_batch_size"))
        shown = np.isfinite(critical)
        look = {"color": color, "marker": MARKERS[place % len(MARKERS)], "label": f"{width:g}"}
        axis.plot(data[shown], critical[shown], ms=4, lw=1, **look)
    axis.set(xlabel=r"data $D = B_\mathrm{ref}\,Y(B_\mathrm{ref})$ to the target (samples)")
    axis.set(ylabel="critical batch size $B^*$ (samples)")
    log_axes(axis)
    title = "width $w$" if len(widths) == len(every) else f"width $w$, {len(widths)} of {len(every)}"
    legend(axis, title=title, corners=("upper left", "lower right"))


def _slope_panel(config: Config, axis: Axes, slopes: dict[str, tuple[float, float, float]]) -> None:
    """Slopes of log B* on log D with intervals, one row a width, and where the width grows with the data."""
    axis.axvline(0.0, color=BLACK, lw=1)
    for row, (name, (slope, low, high)) in enumerate(slopes.items()):
        color, marker = (VERMILLION, "s") if name == "both" else (BLUE, "o")
        axis.errorbar(slope, row, xerr=[[slope - low], [high - slope]], fmt=marker, color=color, ms=5, capsize=3)
    names = ["width grows\nwith the data" if name == "both" else name for name in slopes]
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(len(names) - 0.4, -0.6)
    axis.set_xlim(min(-0.1, axis.get_xlim()[0]))
    axis.set_xlabel("$p$ of $B^* \\propto D^p$ (0: $B^*$ does not grow)")
    axis.set_title(f"Slopes of log $B^*$ on log $D$, {config.level:.0%} intervals")
