"""Does the critical batch size at fixed data stay the same as the width grows, as follows from Theorem 4?"""

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
    critical_of,
    curves_of,
    steps_panel,
    task_configs,
    tell_sweep,
    tuned_of,
)
from experiments._lib.redraw import Recorded
from experiments._lib.results import Result, Verdict
from sgdtheory.plotting.style import (
    GRAY,
    categories,
    legend,
    log_axes,
    new_figure,
    range_text,
    show_at_least,
    tick_measured,
)
from sgdtheory.sweep import SweepFit, SweepTable, fit_sweep, fit_tuned, sweep

NAMES = {"mup": "µP", "standard": "standard"}


@dataclass(frozen=True)
class Config:
    """Sweeps of tasks under parametrizations.

    Attributes:
        tasks: name → task.
        contrast: tasks that are swept in standard parametrization too, of which nothing is claimed.
        contrast_widths: widths there.
        contrast_offsets: of the learning rates there: the optimum moves down as the width grows.
        contrast_seeds: there.
        margin: |slope| of log B* on log width above which B* is said to move.
        overhead: extra data that defines B*.
        level: of the intervals.
        store: folder that keeps the runs; None: a temporary one.
    """

    tasks: dict[str, Task] = field(default_factory=lambda: {"teacher": TEACHER})
    contrast: tuple[str, ...] = ()
    contrast_widths: tuple[int, ...] = (32, 64, 128, 256)
    contrast_offsets: tuple[float, ...] = (-5, -4, -3, -2, -1, 0, 1, 2)
    contrast_seeds: int = 3
    margin: float = 0.2
    overhead: float = 0.2
    level: float = 0.95
    store: str | None = None


# Runs end sooner than at full scale, after the slowest best cell has reached the target; evaluations are as far apart.
QUICK_TEACHER = replace(TEACHER, plateau_steps=40, samples=4500, evaluations=16)
SCALES = {
    "quick": Config({"teacher": QUICK_TEACHER}),
    "full": Config({"teacher": FULL_TEACHER, "text": FULL_TEXT}, ("teacher",), store="runs"),
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
                own = task if table == "mup" else _contrasted(config, task)
                swept = sweep(task_configs(own, parametrization=table), folder, progress=tell_sweep)
                found += fits_of(config, name, table, swept)
    return result_of(config, found, time.perf_counter() - start)


def result_of(config: Config, found: list[Found], seconds: float) -> Result:
    """Table, figures and verdicts of what was found in so many seconds."""
    return Result(_points(found), UNITS, figures(config, found), _verdicts(config, found, seconds))


def _contrasted(config: Config, task: Task) -> Task:
    """The task as it is swept in standard parametrization."""
    return replace(
        task,
        widths=config.contrast_widths,
        rate_offsets=config.contrast_offsets,
        num_seeds=min(task.num_seeds, config.contrast_seeds),
    )


def fits_of(config: Config, name: str, parametrization: str, table: SweepTable) -> list[Found]:
    """A fit of a task's sweep at each of its targets."""
    task = config.tasks[name]
    options: dict[str, Any] = {"reference": float(task.batch_sizes[0]), **_options(config)}
    return [Found(name, parametrization, each, fit_sweep(table, target_loss=each, **options)) for each in task.targets]


def _options(config: Config) -> dict[str, Any]:
    return {"overhead": config.overhead, "margin": config.margin, "level": config.level}


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
    what = {"law": "B*", "interpolation": "B* by interpolation, without a law", "balance": "b/a"}[method]
    claim = f"{what} does not change with the width ({each.task}, loss {each.target:g})"
    predicted = f"0 within ±{config.margin:g}, by the {2 * config.level - 1:.0%} interval"
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
    """Judge the effect of standard parametrization on B* and on the best learning rate."""
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


def redraw(config: Config, recorded: Recorded) -> dict[str, Figure]:
    """The figures, from a recorded table."""
    return figures(config, found_of(config, recorded.rows))


def found_of(config: Config, rows: list[dict[str, str]]) -> list[Found]:
    """Return the results from the rows of the table that `run` wrote."""
    cells: dict[tuple[str, str, str], list[dict[str, str]]] = {}
    for row in rows:
        cells.setdefault((row["task"], row["parametrization"], row["target_loss"]), []).append(row)
    found = []
    for (task, table, text), own in cells.items():
        tuned = tuned_of(own, float(text))
        fit = fit_tuned(tuned, reference=float(config.tasks[task].batch_sizes[0]), **_options(config))
        found.append(Found(task, table, tuned.target_loss, fit))
    return found


def figures(config: Config, found: list[Found]) -> dict[str, Figure]:
    """One figure a task and target, a row of panels for each parametrization."""
    drawn = {}
    for task in config.tasks:
        for target in config.tasks[task].targets:
            rows = [each for each in found if (each.task, each.target) == (task, target)]
            name = "width_invariance" if len(config.tasks) == 1 else f"width_invariance_{task}"
            name = name if len(config.tasks[task].targets) == 1 else f"{name}_{target:g}"
            drawn[name] = _figure(config, rows)
    return drawn


def _figure(config: Config, rows: list[Found]) -> Figure:
    figure, axes = new_figure(len(rows), 3, width=4.1, height=3.7)
    first, level = rows[0], f"{config.level:.0%}"
    figure.suptitle(
        f"Does the critical batch size change with the width? {first.task}, to loss {first.target:g}; "
        f"$B^*$: {config.overhead:.0%} more data than at $B_\\mathrm{{ref}} = {first.fit.reference:g}$; bars {level}"
    )
    for row, each in zip(axes, rows, strict=True):
        name = NAMES[each.parametrization]
        row[0].set_title(f"{name}: steps to the target and $a + b/B$")
        row[1].set_title(f"{name}: $B^*$ against the width")
        row[2].set_title(f"{name}: $b/a$ against the width")
    for row, each in zip(axes, rows, strict=True):
        _width_panel(config, row[1], each, {"law": "law", "interpolation": "interpolated"}, "critical batch size $B^*$")
        _width_panel(config, row[2], each, {"balance": "$b/a$"}, "$b/a$")
        steps_panel(row[0], curves_of(each.fit), each.fit.reference, "width $w$")
    return figure


def _width_panel(config: Config, axis: Axes, each: Found, methods: dict[str, str], what: str) -> None:
    """Batch sizes against the width with fitted powers; slopes within the margin are shaded about the law's."""
    unit = "sequences" if config.tasks[each.task].fields.get("model") == "transformer" else "samples"
    axis.set(xlabel="width $w$", ylabel=f"{what} ({unit})")
    found = {method: each.fit.dependence[method] for method in methods if method in each.fit.dependence}
    for place, (method, dependence) in enumerate(found.items()):
        look: dict[str, Any] = {**categories(len(methods))[place], "ls": "", "ms": 4, "capsize": 2}
        sizes = dependence.sizes
        low, high = dependence.critical_intervals
        bars = [dependence.critical - low, high - dependence.critical]
        x, weights = np.log(sizes), np.maximum(dependence.standard_errors, 1e-12) ** -2.0
        middle, center = (weights @ each / weights.sum() for each in (x, np.log(dependence.critical)))
        text = f"{methods[method]}: slope {range_text(dependence.interval, dependence.slope)}"
        look["label"] = text + (f", {dependence.verdict}" if each.parametrization == "mup" else "")
        axis.errorbar(1.04**place * sizes, dependence.critical, yerr=bars, **look)
        axis.plot(sizes, np.exp(center + dependence.slope * (x - middle)), color=look["color"], lw=1)
        if not place:
            reach = np.exp(config.margin * np.abs(x - middle))
            level = np.exp(center)
            label = f"slopes within the margin, ±{config.margin:g}"
            axis.fill_between(sizes, level / reach, level * reach, color=GRAY, alpha=0.15, lw=0, label=label)
    log_axes(axis)
    tick_measured(axis, [group[0] for group in each.fit.tuned.groups])
    if found:
        show_at_least(axis, 2.0)
        legend(axis, corners=("upper left", "lower left"))
    else:
        axis.text(0.5, 0.5, "not fitted", ha="center", transform=axis.transAxes)
