"""Theorem 4's consequence: at fixed data the critical batch size does not move with the width."""

import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.network_sweeps import (
    FULL_TEACHER,
    TEACHER,
    TEXT,
    Task,
    critical_of,
    curves_of,
    steps_panel,
    task_configs,
    tell_sweep,
)
from experiments.results import Result, Verdict
from sgdtheory.plotting import new_figure
from sgdtheory.sweep import SweepTable, sweep
from sgdtheory.sweep.fit import SweepFit, fit_sweep

NAMES = {"mup": "µP", "standard": "standard"}


@dataclass(frozen=True)
class Config:
    """Sweeps of tasks under parametrizations.

    Attributes:
        tasks: name → task.
        contrast: tasks that are swept in standard parametrization too, of which nothing is claimed.
        contrast_widths: widths there.
        contrast_offsets: of the learning rates there: the optimum moves down as the width grows.
        margin: |slope| of log B* on log width above which B* is said to move.
        overhead: extra data that defines B*.
        level: of the intervals.
        store: folder that keeps the runs; None: a temporary one.
    """

    tasks: dict[str, Task] = field(default_factory=lambda: {"teacher": TEACHER})
    contrast: tuple[str, ...] = ()
    contrast_widths: tuple[int, ...] = (32, 64, 128, 256)
    contrast_offsets: tuple[float, ...] = (-5, -4, -3, -2, -1, 0, 1, 2)
    margin: float = 0.2
    overhead: float = 0.2
    level: float = 0.95
    store: str | None = None


SCALES = {
    "quick": Config(),
    "full": Config({"teacher": FULL_TEACHER, "text": TEXT}, ("teacher",), store="runs"),
}
UNITS = {
    "task": "network and data",
    "parametrization": "of the network",
    "target_loss": "loss on the hold-out: excess risk in units of the teacher's variance, or nats a byte",
    "width": "w, units of a hidden layer, d_model of the transformer",
    "batch_size": "B, samples (sequences, on text)",
    "steps": "geometric mean over seeds of the fewest steps Y to the target; nan: not reached",
    "learning_rate": "best γ at the base width",
    "average": "best decay rate τ of the average",
    "tuned": "1 if the best γ and τ are inside of their grids",
    "critical_batch_size": "B* of the width, by the law a + b/B; nan: too few tuned batch sizes",
    "critical_low": "lower end of its interval",
    "critical_high": "upper end of its interval",
}


@dataclass(frozen=True, eq=False)
class Found:
    """One task's fit under one parametrization at one target."""

    task: str
    parametrization: str
    target: float
    fit: SweepFit


def run(config: Config) -> Result:
    """Sweep, tune, fit, and test."""
    start = time.perf_counter()
    found = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(config.store or temporary)
        for name, task in config.tasks.items():
            for table in ("mup", "standard") if name in config.contrast else ("mup",):
                grid = {"widths": config.contrast_widths, "rate_offsets": config.contrast_offsets}
                own = task if table == "mup" else replace(task, **grid)
                swept = sweep(task_configs(own, parametrization=table), folder, report=tell_sweep)
                found += [Found(name, table, target, _fit(config, task, swept, target)) for target in task.targets]
    seconds = time.perf_counter() - start
    return Result(_points(found), UNITS, _figures(config, found), _verdicts(config, found, seconds))


def _fit(config: Config, task: Task, table: SweepTable, target: float) -> SweepFit:
    options: dict[str, Any] = {"overhead": config.overhead, "margin": config.margin, "level": config.level}
    return fit_sweep(table, target, reference=float(task.batch_sizes[0]), **options)


def _points(found: list[Found]) -> dict[str, list]:
    """One row a cell of the sweeps."""
    rows = []
    for each in found:
        dependence = each.fit.dependence.get("law")
        for point in each.fit.tuned.points:
            width = point.group[0]
            rate, average = (point.choice.get(name, np.nan) for name in ("learning_rate", "average"))
            row = [each.task, each.parametrization, each.target, width, point.batch_size, point.mean, rate, average]
            rows.append([*row, int(point.tuned), *critical_of(dependence, width)])
    return {name: list(column) for name, column in zip(UNITS, zip(*rows, strict=True), strict=True)}


def _verdicts(config: Config, found: list[Found], seconds: float) -> tuple[Verdict, ...]:
    verdicts = []
    contrast = {(each.task, each.target): each for each in found if each.parametrization == "standard"}
    for each in found:
        for method in ("law", "interpolation", "balance"):
            if each.parametrization == "mup" and (method != "interpolation" or method in each.fit.dependence):
                verdicts.append(_verdict(config, each, contrast.get((each.task, each.target)), method, seconds))
                seconds = 0.0
    return tuple(verdicts)


def _verdict(config: Config, each: Found, contrast: Found | None, method: str, seconds: float) -> Verdict:
    dependence = each.fit.dependence.get(method)
    what = {"law": "B*", "interpolation": "B* read off without a law", "balance": "b/a"}[method]
    claim = f"{what} does not move with the width ({each.task}, loss {each.target:g})"
    predicted = f"0 within ±{config.margin:g}"
    untuned = sum(not point.tuned for point in each.fit.tuned.points)
    left = f"{untuned} of {len(each.fit.tuned.points)} cells are not tuned and left out"
    if dependence is None:
        why = [note for note in each.fit.notes if "no exponent" in note or "no fit" in note]
        statement = f"{'; '.join(why)}; {left}"
        return Verdict(claim, statement, predicted, "—", None, "inconclusive", seconds)
    low, high = dependence.equivalence_interval
    critical = f"{dependence.critical.min():.0f} … {dependence.critical.max():.0f}"
    statement = (
        f"slope of log {what} on log w under {NAMES[each.parametrization]}, w = {dependence.sizes.min():.0f} … "
        f"{dependence.sizes.max():.0f}: {critical}; the {2 * config.level - 1:.0%} interval {low:.2f} … {high:.2f} "
        f"decides against a margin of {config.margin:g}; log steps scatter by {dependence.scatter:.3f}; {left}"
    )
    if contrast is not None:
        statement += f"; {_contrast(each.fit, contrast.fit, method)}"
    return Verdict(claim, statement, predicted, dependence.slope, dependence.interval, dependence.verdict, seconds)


def _contrast(mup: SweepFit, standard: SweepFit, method: str) -> str:
    """What standard parametrization does to B* and to the learning rate that has to be tuned."""
    dependence = standard.dependence.get(method)
    rates = f"the best γ goes like w^{_rate_exponent(standard):.2f}, under µP like w^{_rate_exponent(mup):.2f}"
    if dependence is None:
        return f"in standard parametrization there is no such slope; {rates}"
    low, high = dependence.interval
    sizes = f"w = {dependence.sizes.min():.0f} … {dependence.sizes.max():.0f}"
    slope = f"{dependence.slope:.2f} ({low:.2f} … {high:.2f})"
    return f"in standard parametrization, tuned at {sizes}, the slope is {slope}; {rates}"


def _rate_exponent(fit: SweepFit) -> float:
    """Slope of the log of the best learning rate, its mean over batch sizes, on log width."""
    points = [point for point in fit.tuned.points if point.steps.size]
    widths = sorted({point.group[0] for point in points})
    rates = [[point.choice["learning_rate"] for point in points if point.group[0] == width] for width in widths]
    return float(np.polyfit(np.log(widths), [np.log(each).mean() for each in rates], 1)[0])


def _figures(config: Config, found: list[Found]) -> dict[str, Figure]:
    """One figure a task and target, a row of panels for each parametrization."""
    figures = {}
    for task in config.tasks:
        for target in config.tasks[task].targets:
            rows = [each for each in found if (each.task, each.target) == (task, target)]
            figure, axes = new_figure(len(rows), 2, width=4.6, height=3.7)
            for row, each in zip(axes, rows, strict=True):
                steps_panel(row[0], curves_of(each.fit), each.fit.reference, "width $w$")
                title = f"{NAMES[each.parametrization]}: steps to the target and $a + b/B$ (×: not tuned)"
                row[0].set_title(title, fontsize=9)
                _critical_panel(config, row[1], each)
            figure.suptitle(f"Does the critical batch size move with the width? {task}, to loss {target:g}")
            name = "width_invariance" if len(config.tasks) == 1 else f"width_invariance_{task}"
            figures[name if len(config.tasks[task].targets) == 1 else f"{name}_{target:g}"] = figure
    return figures


def _critical_panel(config: Config, axis: Axes, each: Found) -> None:
    """B* against the width."""
    kinds = {"law": ("$B^*$, law", "tab:blue", 1.0), "interpolation": ("$B^*$, read off", "tab:orange", 1.04)}
    kinds["balance"] = ("$b/a$", "tab:green", 0.96)
    for method, (label, color, shift) in kinds.items():
        dependence = each.fit.dependence.get(method)
        if dependence is None:
            continue
        low, high = dependence.critical_intervals
        bars = [dependence.critical - low, high - dependence.critical]
        axis.errorbar(shift * dependence.sizes, dependence.critical, yerr=bars, fmt="o", ms=4, capsize=2, color=color)
        x, y = np.log(dependence.sizes), np.log(dependence.critical)
        weights = dependence.standard_errors**-2.0
        center = np.exp(weights @ (y - dependence.slope * x) / weights.sum())
        below, above = dependence.interval
        text = f"{label}: $w^{{{dependence.slope:.2f}}}$ ({below:.2f} … {above:.2f})"
        axis.plot(dependence.sizes, center * dependence.sizes**dependence.slope, color=color, lw=1, label=text)
    axis.set(xscale="log", yscale="log", xlabel="width $w$", ylabel="batch size (samples)")
    widths = [group[0] for group in each.fit.tuned.groups]
    axis.set_xticks(widths, [f"{width}" for width in widths])
    axis.minorticks_off()
    low, high = axis.get_ylim()
    axis.set_ylim(low / 1.5, high * 2)
    title = f"{config.overhead:.0%} overhead over $B_{{ref}}$ = {each.fit.reference:g}, {config.level:.0%} intervals"
    axis.set_title(title, fontsize=9)
    axis.legend(frameon=False, fontsize=7.5, loc="upper left")
