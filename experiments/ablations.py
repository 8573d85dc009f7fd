"""What moves the critical batch size of networks: context, depth, optimizer, schedule, architecture?"""

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

from experiments._lib.comparisons import COMPARISONS, DECAYING, TASKS, Comparison
from experiments._lib.network_sweeps import Task
from experiments._lib.progress import tracked
from experiments._lib.redraw import Recorded
from experiments._lib.results import Result, Verdict, VerdictName
from experiments._lib.tuned_runs import Points, decaying_points, tuned_points
from experiments._lib.variants import common_ratio
from sgdtheory._common.files import csv_number
from sgdtheory.fits import Convention, PairedRatio, StepsMeasurement
from sgdtheory.plotting.style import BLACK, BLUE, GRAY, VERMILLION, legend, new_figure


@dataclass(frozen=True)
class Config:
    """Tasks, and what is compared on them.

    Attributes:
        tasks: name → task, of one width and target.
        comparisons: names.
        rounds: how often a grid of learning rates may grow.
        margin: factor within which B* counts as the same.
        slope: of log B* on log width within which it does where the width is what changes, as in `width_invariance`.
        overhead, level: of B* and its intervals.
        store: folder that keeps the runs; None: a temporary one.
    """

    tasks: dict[str, Task] = field(default_factory=lambda: {"teacher": replace(TASKS["teacher"], num_seeds=2)})
    comparisons: tuple[str, ...] = ("beta1 0", "no average", "tanh")
    rounds: int = 6
    margin: float = 1.5
    slope: float = 0.2
    overhead: float = 0.2
    level: float = 0.95
    store: str | None = None


SCALES = {"quick": Config(), "full": Config(TASKS, tuple(COMPARISONS), store="runs")}
UNITS = {
    "comparison": "name",
    "changed": "1 for the changed runs",
    "batch_size": "B, samples (sequences of the first context length, on text)",
    "steps": "geometric mean over seeds of the fewest steps Y to the target; nan: not reached",
    "tuned": "1 if the best γ and τ are inside of their grids",
    "learning_rate": "best γ at the base width",
    "average": "best decay rate τ of the average, or iterate",
}


def run(config: Config) -> Result:
    """Tune both ways of every comparison, and compare their B*."""
    rows, verdicts = [], []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(config.store or temporary)
        for name in tracked(config.comparisons):
            start = time.perf_counter()
            pair = _pair(config, COMPARISONS[name], folder)
            rows += [row for changed, points in enumerate(pair) for row in _rows(name, changed, points)]
            measured = [_measurement(points) for points in pair]
            verdicts.append(_verdict(config, name, _ratio(config, name, measured), time.perf_counter() - start))
    columns = {column: list(values) for column, values in zip(UNITS, zip(*rows, strict=True), strict=True)}
    named = [{key: f"{value}" for key, value in zip(UNITS, row, strict=True)} for row in rows]
    return Result(columns, UNITS, {"ablations": _figure(config, named)}, tuple(verdicts))


def redraw(config: Config, recorded: Recorded) -> dict[str, Figure]:
    """The figure, from a recorded table."""
    return {"ablations": _figure(config, recorded.rows)}


def _pair(config: Config, comparison: Comparison, folder: Path) -> tuple[Points, Points]:
    """Tuned steps as it is, and changed."""
    task = config.tasks[comparison.task]
    before = tuned_points(task, comparison.before, folder, rounds=config.rounds)
    changed = replace(task, log2_rate=task.log2_rate + comparison.shift)
    if comparison.coarse:
        changed = replace(changed, rate_offsets=tuple(2 * offset for offset in task.rate_offsets))
    if comparison.changes.get("schedule") in DECAYING:
        return before, decaying_points(changed, comparison.changes, folder, rounds=config.rounds, steady=before)
    changes = {**comparison.before, **comparison.changes}
    return before, tuned_points(changed, changes, folder, rounds=config.rounds, sequences=comparison.sequences)


def _rows(name: str, changed: int, points: Points) -> list[list[Any]]:
    rows = []
    for point in points:
        choice = point.choice.get("learning_rate", np.nan), point.choice.get("average", "")
        rows.append([name, changed, point.batch_size, point.mean, int(point.tuned), *choice])
    return rows


def _measurement(points: Points) -> StepsMeasurement:
    """Steps at the batch sizes that are tuned."""
    tuned = [point for point in points if point.tuned]
    sizes = np.array([point.batch_size for point in tuned], float)
    return StepsMeasurement("", np.nan, sizes, np.array([point.mean for point in tuned]))


def _ratio(config: Config, name: str, measured: Sequence[StepsMeasurement]) -> PairedRatio | None:
    """B* changed over B* as it is; None with fewer than four batch sizes that are tuned in both."""
    reference = float(config.tasks[COMPARISONS[name].task].batch_sizes[0])
    return common_ratio(measured, Convention(reference, config.overhead))


def _margin(config: Config, name: str) -> float:
    """Factor within which B* counts as the same: of widths, what the slope allows."""
    ratio = COMPARISONS[name].width_ratio
    return config.margin if ratio == 1 else ratio**config.slope


def _decided(config: Config, name: str, ratio: PairedRatio | None) -> VerdictName:
    """Judge the claim that B* is the same, one of several claims that are tested together.

    "holds" if two one-sided tests at 1 − level reject a ratio outside of the margin, each comparison for itself; else
    "fails" if 1 is outside of the interval at a level at which all comparisons together leave it out by chance with a
    probability of 1 − level at most (Bonferroni).
    """
    if ratio is None:
        return "inconclusive"
    margin = _margin(config, name)
    inner = ratio.interval(2 * config.level - 1)
    if 1 / margin < inner[0] and inner[1] < margin:
        return "holds"
    low, high = ratio.interval(1 - (1 - config.level) / len(config.comparisons))
    return "inconclusive" if low <= 1 <= high else "fails"


def _verdict(config: Config, name: str, ratio: PairedRatio | None, seconds: float) -> Verdict:
    topic, task, words = COMPARISONS[name][:3]
    claim = f"{topic}: {words[0]} → {words[1]} does not change B*"
    predicted = f"1 within a factor of {_margin(config, name):.3g}"
    if ratio is None:
        text = f"fewer than four batch sizes are tuned with {words[0]} and {words[1]} ({task})"
        return Verdict(claim, text, predicted, "—", None, "inconclusive", seconds)
    low, high = ratio.interval(2 * config.level - 1)
    chance = 2 * float(stats.t.sf(abs(ratio.log_ratio) / ratio.standard_error, ratio.freedom))
    looks = len(config.comparisons)
    statement = (
        f"B* with {words[1]} divided by B* with {words[0]} ({task}), with common seeds: {ratio.second:.1f} divided by "
        f"{ratio.first:.1f}. Holds if the {2 * config.level - 1:.0%} interval {low:.2f} … {high:.2f} lies within the "
        f"margin. The hypothesis of no change has p = {chance:.2g}, and corrected for {looks} comparisons "
        f"{min(1.0, looks * chance):.2g}"
    )
    measured, interval = float(np.exp(ratio.log_ratio)), ratio.interval(config.level)
    return Verdict(claim, statement, predicted, measured, interval, _decided(config, name, ratio), seconds)


class Drawn(NamedTuple):
    """One comparison in the figure: its ratio of B*, and of steps at the smallest and the largest common B."""

    name: str
    ratio: PairedRatio | None
    steps: tuple[float, float]


def _drawn(config: Config, name: str, rows: list[dict[str, str]]) -> Drawn:
    measured, steps = [], []
    for changed in "01":
        own = [row for row in rows if (row["comparison"], row["changed"], row["tuned"]) == (name, changed, "1")]
        sizes, means = (np.array([csv_number(row[key]) for row in own]) for key in ("batch_size", "steps"))
        measured.append(StepsMeasurement("", np.nan, sizes, means))
        steps.append(dict(zip(sizes, means, strict=True)))
    common = sorted(steps[0].keys() & steps[1].keys())
    ends = (common[0], common[-1]) if common else ()
    first, last = (steps[1][size] / steps[0][size] for size in ends) if ends else (np.nan, np.nan)
    return Drawn(name, _ratio(config, name, measured), (first, last))


def _figure(config: Config, rows: list[dict[str, str]]) -> Figure:
    """Ratios of B*, and of steps, one line a comparison."""
    drawn = [_drawn(config, name, rows) for name in config.comparisons]
    figure, axes = new_figure(1, 2, width=5.2, height=2.6 + 0.24 * len(drawn))
    verdicts = [_decided(config, each.name, each.ratio) for each in drawn]
    moved = verdicts.count("fails") or "none"
    figure.suptitle(
        f"{verdicts.count('holds')} of {len(drawn)} changes keep $B^*$ within the band; "
        f"{moved} of them changes it significantly, corrected for all comparisons"
    )
    for axis in axes[0]:
        axis.set_ylim(len(drawn) - 0.4, -0.6)
    _critical_panel(config, axes[0, 0], drawn)
    _steps_panel(axes[0, 1], drawn)
    axes[0, 0].set_yticks(range(len(drawn)), [_label(each.name) for each in drawn], fontsize=7)
    axes[0, 1].set_yticks([])
    return figure


def _label(name: str) -> str:
    topic, _, words = COMPARISONS[name][:3]
    return f"{topic}: {words[0]} → {words[1]}"


COLORS = {"holds": BLUE, "fails": VERMILLION, "inconclusive": GRAY}


def _critical_panel(config: Config, axis: Axes, drawn: Sequence[Drawn]) -> None:
    for row, each in enumerate(drawn):
        margin = _margin(config, each.name)
        axis.fill_betweenx([row - 0.5, row + 0.5], 1 / margin, margin, color=GRAY, alpha=0.18, lw=0)
    axis.axvline(1, color=BLACK, ls=":", lw=1, label="no change")
    for row, each in enumerate(drawn):
        if each.ratio is None:
            axis.text(1.1, row, "too few batch sizes are tuned", fontsize=7, va="center")
            continue
        value, (low, high) = float(np.exp(each.ratio.log_ratio)), each.ratio.interval(config.level)
        color = COLORS[_decided(config, each.name, each.ratio)]
        axis.errorbar(value, row, xerr=[[value - low], [high - value]], fmt="o", color=color, ms=5, capsize=2)
    axis.set(xscale="log", xlabel=r"$B^*$ after the change / $B^*$ before", xlim=(1 / 8, 8))
    axis.set_xticks([0.125, 0.25, 0.5, 1, 2, 4, 8], ["⅛", "¼", "½", "1", "2", "4", "8"])
    axis.set_xticks([], minor=True)
    axis.set_title(
        f"Critical batch size, {config.level:.0%} intervals\nblue: unchanged, red: changed, gray: inconclusive"
    )


def _steps_panel(axis: Axes, drawn: Sequence[Drawn]) -> None:
    axis.axvline(1, color=BLACK, ls=":", lw=1)
    for place, (label, marker) in enumerate((("smallest $B$", "o"), ("largest $B$", "s"))):
        axis.plot(
            [each.steps[place] for each in drawn], range(len(drawn)), marker, ms=5, mfc="none", color=BLACK, label=label
        )
    axis.set(xscale="log", xlabel="steps after the change / steps before", xlim=(1 / 4, 8))
    axis.set_xticks([0.25, 0.5, 1, 2, 4, 8], ["¼", "½", "1", "2", "4", "8"])
    axis.set_xticks([], minor=True)
    axis.set_title("Does the change save steps?\nSteps to the same loss")
    legend(axis)
