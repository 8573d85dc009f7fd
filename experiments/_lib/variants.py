"""Does a way of computing the same training move the critical batch size? Two sweeps with common seeds, compared."""

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments._lib.network_sweeps import (
    TEACHER,
    TEXT,
    Curve,
    Task,
    curves_of,
    steps_panel,
    task_configs,
    tell_sweep,
    tuned_of,
)
from experiments._lib.results import Result, Verdict
from sgdtheory.fits import Convention, PairedRatio, StepsMeasurement, paired_ratio
from sgdtheory.plotting.style import BLACK, BLUE, legend, log_axes, new_figure, show_at_least, tick_measured
from sgdtheory.sweep import SweepFit, fit_sweep, fit_tuned, sweep
from sgdtheory.training import TrainConfig

SMALL = replace(TEACHER, widths=(64,), batch_sizes=(16, 40, 100, 256, 640), num_seeds=3)
FULL = {
    "teacher": replace(SMALL, widths=(128,), num_seeds=6, targets=(0.08,), samples=16_000),
    "text": replace(TEXT, widths=(64,), batch_sizes=(4, 8, 20, 48, 120), targets=(2.6,)),
}


@dataclass(frozen=True)
class Config:
    """Sweeps of tasks, as they are and changed.

    Attributes:
        tasks: name → task, of one width and target.
        margin: factor within which B* counts as the same.
        overhead, level: of B* and its intervals.
        store: folder that keeps the runs; None: a temporary one.
    """

    tasks: dict[str, Task] = field(default_factory=lambda: {"teacher": SMALL})
    margin: float = 1.25
    overhead: float = 0.2
    level: float = 0.95
    store: str | None = None


SCALES = {"quick": Config(), "full": Config(FULL, store="runs")}
UNITS = {
    "task": "network and data",
    "changed": "1 in the changed sweep",
    "batch_size": "B, samples (sequences, on text)",
    "steps": "geometric mean over seeds of the fewest steps Y to the target",
    "tuned": "1 if the best γ and τ are inside of their grids",
    "critical_batch_size": "B*, by the law a + b/B",
}


def compare(config: Config, name: str, change: Callable[[TrainConfig], TrainConfig], words: tuple[str, str]) -> Result:
    """Sweep the tasks as they are and changed, and compare their B*.

    Args:
        config: of the experiment.
        name: of the figure.
        change: makes the changed config of a run.
        words: what the run is as it is, and changed.
    """
    rows, figures, verdicts = [], {}, []
    for task_name, task in config.tasks.items():
        start, fits = time.perf_counter(), []
        plain = task_configs(task, parametrization="mup")
        with tempfile.TemporaryDirectory() as temporary:
            for configs in plain, [change(each) for each in plain]:
                table = sweep(configs, Path(config.store or temporary), progress=tell_sweep)
                options: dict[str, Any] = {"overhead": config.overhead, "level": config.level}
                fits.append(
                    fit_sweep(table, target_loss=task.targets[-1], reference=float(task.batch_sizes[0]), **options)
                )
        rows += _rows(task_name, fits)
        ratio = _ratio(fits)
        verdicts.append(_verdict(config, task_name, words, ratio, time.perf_counter() - start))
        figures[f"{name}_{task_name}"] = _figure(config, task, fits, words, ratio)
    columns = {column: list(values) for column, values in zip(UNITS, zip(*rows, strict=True), strict=True)}
    return Result(columns, UNITS, figures, tuple(verdicts))


def _ratio(fits: list[SweepFit]) -> PairedRatio | None:
    """B* changed over B* as it is, from batch sizes that are tuned in both; None with fewer than four."""
    if not all(fit.measurements for fit in fits):
        return None
    return common_ratio([fit.measurements[0] for fit in fits], Convention(fits[0].reference, fits[0].overhead))


def common_ratio(measured: Sequence[StepsMeasurement], convention: Convention) -> PairedRatio | None:
    """B* of the second over that of the first, from the batch sizes of both; None with fewer than four."""
    common = sorted(set.intersection(*(set(each.batch_sizes) for each in measured)))
    if len(common) < 4:
        return None
    pair = []
    for each in measured:
        kept = np.isin(each.batch_sizes, common)
        pair.append(replace(each, batch_sizes=np.array(common), steps=each.steps[kept]))
    return paired_ratio(*pair, convention=convention)


def figures(config: Config, name: str, rows: list[dict[str, str]], words: tuple[str, str]) -> dict[str, Figure]:
    """The figures of `compare`, from the rows of the table that it wrote."""
    drawn = {}
    for task_name, task in config.tasks.items():
        fits = []
        for changed in "01":
            own = [row for row in rows if (row["task"], row["changed"]) == (task_name, changed)]
            tuned = tuned_of([{**row, "width": f"{task.widths[0]}"} for row in own], task.targets[-1])
            options: dict[str, Any] = {"overhead": config.overhead, "level": config.level}
            fits.append(fit_tuned(tuned, reference=float(task.batch_sizes[0]), **options))
        drawn[f"{name}_{task_name}"] = _figure(config, task, fits, words, _ratio(fits))
    return drawn


def _rows(task: str, fits: list[SweepFit]) -> list[list[Any]]:
    rows = []
    for changed, fit in enumerate(fits):
        critical = [law.critical_batch_size(fit.reference, fit.overhead) for law in fit.laws] or [np.nan]
        for point in fit.tuned.points:
            rows.append([task, changed, point.batch_size, point.mean, int(point.tuned), critical[0]])
    return rows


def _verdict(config: Config, task: str, words: tuple[str, str], ratio: PairedRatio | None, seconds: float) -> Verdict:
    claim = f"B* is the same with {words[1]} ({task})"
    predicted = f"1 within a factor of {config.margin:g}"
    if ratio is None:
        return Verdict(claim, "fewer than four batch sizes are tuned", predicted, "—", None, "inconclusive", seconds)
    low, high = ratio.interval(2 * config.level - 1)
    statement = (
        f"B* with {words[1]} divided by B* with {words[0]}, with common seeds: {ratio.second:.1f} divided by "
        f"{ratio.first:.1f}. Holds if the {2 * config.level - 1:.0%} interval {low:.3f} … {high:.3f} lies within the "
        f"margin"
    )
    measured, interval = float(np.exp(ratio.log_ratio)), ratio.interval(config.level)
    verdict = ratio.verdict(config.margin, config.level)
    return Verdict(claim, statement, predicted, measured, interval, verdict, seconds)


def _figure(
    config: Config, task: Task, fits: list[SweepFit], words: tuple[str, str], ratio: PairedRatio | None
) -> Figure:
    """Steps of both sweeps, and their ratio on an axis that rounding does not fill."""
    figure, axes = new_figure(1, 2, width=4.6, height=3.8)
    figure.suptitle(f"Critical batch size with {words[1]} against {words[0]}: µP, width {task.widths[0]}")
    axes[0, 0].set_title(f"Steps to loss {task.targets[-1]:g} with {words[0]} and {words[1]}")
    axes[0, 1].set_title("Their ratio at each batch size")
    if ratio is not None:
        low, high = ratio.interval(config.level)
        text = f"{config.level:.0%} interval {low:.3f} … {high:.3f}, {ratio.verdict(config.margin, config.level)}"
        axes[0, 1].set_title(f"$B^*$ changes by a factor {np.exp(ratio.log_ratio):.3f}:\n{text}")
    _ratio_panel(config, axes[0, 1], fits, words)
    curves = [Curve(word, *curve[1:]) for fit, word in zip(fits, words, strict=True) for curve in curves_of(fit)[:1]]
    steps_panel(axes[0, 0], curves, fits[0].reference, "")
    return figure


def _ratio_panel(config: Config, axis: Axes, fits: list[SweepFit], words: tuple[str, str]) -> None:
    steps = [{point.batch_size: point.mean for point in fit.tuned.points} for fit in fits]
    ratios = {size: steps[1][size] / steps[0][size] for size in sorted(steps[0])}
    axis.plot(list(ratios), list(ratios.values()), "o-", color=BLUE, ms=5, label="measured")
    axis.axhline(1, color=BLACK, ls=":", lw=1, label="no change")
    axis.set(xlabel="batch size $B$ (samples)", ylabel=f"steps with {words[1]} /\nsteps with {words[0]}")
    log_axes(axis)
    tick_measured(axis, list(ratios))
    show_at_least(axis, 1 + (config.margin - 1) / 2)
    legend(axis)
