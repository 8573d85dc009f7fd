"""Does the optimizer move the critical batch size of networks? SGD, Adam, signSGD and Muon, each tuned alike."""

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

from experiments._lib.network_sweeps import FULL_TEXT, TEACHER, Task
from experiments._lib.progress import tracked
from experiments._lib.redraw import Recorded
from experiments._lib.results import Result, Verdict, VerdictName
from experiments._lib.rows import columns_of, rows_of
from experiments._lib.tuned_runs import tuned_points
from experiments._lib.variants import common_ratio
from sgdtheory.fits import Convention, PairedRatio, StepsMeasurement
from sgdtheory.plotting.style import (
    BLACK,
    BLUE,
    GRAY,
    VERMILLION,
    categories,
    legend,
    log_axes,
    new_figure,
    tick_measured,
)
from sgdtheory.sweep import unseen_steps

OTHER_SEEDS = 1000  # of the control: none is another run's


class Arm(NamedTuple):
    """One way of training.

    Attributes:
        words: in tables and figures.
        fields: flat fields of its runs.
        shift, steeper: of the learning rates' grid, log2 γ at the smallest batch size and its slope in log2 B, to what
            the task has for Adam; the grid grows until the best rates are inside.
    """

    words: str
    fields: Mapping[str, Any]
    shift: float = 0.0
    steeper: float = 0.0


ARMS = {
    "sgd": Arm("SGD", {"optimizer": "sgd"}, 2.5, 0.1),
    "momentum": Arm("SGD, momentum 0.9", {"optimizer": "sgd", "momentum": 0.9}),
    "adam": Arm("Adam", {}),
    "sign": Arm("signSGD, momentum 0.9", {"optimizer": "sign", "momentum": 0.9}, -2.0, 0.1),
    "muon": Arm("Muon", {"optimizer": "muon"}, 0.0, 0.15),
    "control": Arm("Adam, other seeds", {}),
}
# Three layers: most weights are in hidden matrices, which Muon is for. At B = 2 the longest averages are the best.
TASK = replace(
    TEACHER,
    fields=TEACHER.fields | {"depth": 3, "averages": (0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999)},
    widths=(64,),
    batch_sizes=(2, 5, 12, 30, 75, 190, 480),
    log2_rate=-9.0,
    rate_offsets=(-1, 0, 1),
    num_seeds=24,
    targets=(0.07,),
    plateau_steps=100,
    samples=16_000,
    evaluations=100,
)
ON_TEXT = replace(
    FULL_TEXT,
    fields=FULL_TEXT.fields | {"averages": (*FULL_TEXT.fields["averages"], 0.99)},
    widths=(32,),
    batch_sizes=(2, 6, 18, 54, 160),
    log2_rate=-6.4,
    rate_offsets=(-1, 0, 1),
    num_seeds=3,
    targets=(2.7,),
    evaluations=40,
)
SMALL = replace(TASK, batch_sizes=(5, 20, 80, 320), num_seeds=2, targets=(0.1,), samples=6000, evaluations=40)


@dataclass(frozen=True)
class Config:
    """Tasks, each trained with every optimizer.

    Attributes:
        tasks: name → task, of one width and target; its grid of learning rates is Adam's.
        arms: names; "adam" is what the others are compared with, "control" what must be like it.
        rounds: how often a grid of learning rates may grow.
        margin: factor within which B* counts as the same.
        overhead, level: of useful batch sizes and intervals.
        store: folder that keeps the runs; None: a temporary one.
    """

    tasks: dict[str, Task] = field(default_factory=lambda: {"teacher": SMALL})
    arms: tuple[str, ...] = tuple(ARMS)
    rounds: int = 6
    margin: float = 1.5
    overhead: float = 0.2
    level: float = 0.95
    store: str | None = None


SCALES = {"quick": Config(), "full": Config({"teacher": TASK, "text": ON_TEXT}, store="runs")}
UNITS = {
    "task": "name",
    "arm": "way of training, by its name",
    "batch_size": "B, samples (sequences, on text)",
    "seed": "number of the run",
    "steps": "fewest steps Y to the target with the choice that is best for the other seeds; nan: not reached by all",
    "tuned": "1 if the best γ and τ are inside of their grids",
    "learning_rate": "best γ at the base width",
    "average": "best decay rate τ of the average, or iterate",
}


class Row(NamedTuple):
    """One seed at one batch size."""

    task: str
    arm: str
    batch_size: float
    seed: float
    steps: float
    tuned: float
    learning_rate: float
    average: str


def run(config: Config) -> Result:
    """Tune every optimizer at every batch size, and compare."""
    rows: list[Row] = []
    seconds: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as temporary:
        for task in tracked(list(config.tasks)):
            start = time.perf_counter()
            for arm in tracked(config.arms):
                rows += _trained(config, task, arm, Path(config.store or temporary))
            seconds[task] = time.perf_counter() - start
    verdicts = [verdict for task in config.tasks for verdict in verdicts_of(config, rows, task, seconds[task])]
    return Result(columns_of(rows), UNITS, _figures(config, rows), tuple(verdicts))


def redraw(config: Config, recorded: Recorded) -> dict[str, Figure]:
    """The figures, from a recorded table."""
    return _figures(config, rows_of(Row, recorded.rows))


def _trained(config: Config, name: str, arm: str, folder: Path) -> list[Row]:
    """Tuned steps of one task and optimizer."""
    task = config.tasks[name]
    own = ARMS[arm]
    grid = {"log2_rate": task.log2_rate + own.shift, "rate_exponent": task.rate_exponent + own.steeper}
    first = OTHER_SEEDS if arm == "control" else 0
    points = tuned_points(replace(task, **grid, first_seed=first), own.fields, folder, rounds=config.rounds)
    rows = []
    for point in points:
        steps = point.steps if point.steps.size else np.full(task.num_seeds, np.nan)
        choice = point.choice.get("learning_rate", np.nan), str(point.choice.get("average", ""))
        for seed, value in enumerate(steps, start=first):
            rows.append(Row(name, arm, point.batch_size, seed, float(value), int(point.tuned), *choice))
    return rows


def measured(rows: Sequence[Row], task: str, arm: str) -> tuple[np.ndarray, np.ndarray]:
    """(K,) batch sizes at which an optimizer is tuned, and (S, K) steps of its seeds."""
    own = [row for row in rows if (row.task, row.arm, row.tuned) == (task, arm, 1)]
    sizes = sorted({row.batch_size for row in own})
    steps = [[row.steps for row in own if row.batch_size == size] for size in sizes]
    return np.array(sizes), np.array(steps).T


def critical_ratio(config: Config, rows: Sequence[Row], task: str, pair: tuple[str, str]) -> PairedRatio | None:
    """B* of the second over that of the first, by a + b/B; None with fewer than four batch sizes tuned in both."""
    means = []
    for arm in pair:
        sizes, steps = measured(rows, task, arm)
        means.append(StepsMeasurement(arm, np.nan, sizes, np.exp(np.log(steps).mean(axis=0)) if sizes.size else sizes))
    return common_ratio(means, Convention(float(config.tasks[task].batch_sizes[0]), config.overhead))


class Waste(NamedTuple):
    """Log of the data at the smallest batch size over the least at others, its standard error, the number of seeds."""

    log: float
    error: float
    seeds: int

    def interval(self, level: float) -> tuple[float, float]:
        """By Student's t over seeds."""
        half = float(stats.t.ppf((1 + level) / 2, self.seeds - 1)) * self.error
        return float(np.exp(self.log - half)), float(np.exp(self.log + half))


def waste(batch_sizes: np.ndarray, steps: np.ndarray) -> Waste:
    """Return every seed's waste, with the larger batch size that is best for the other seeds.

    The least of several noisy means is too low; at a batch size in whose choice a seed had no say it is not.

    Args:
        batch_sizes: (K,), increasing.
        steps: (S, K).
    """
    data = batch_sizes * steps
    logs = np.log(data[:, 0] / unseen_steps(data[:, 1:].T))
    return Waste(float(logs.mean()), float(logs.std(ddof=1) / len(logs) ** 0.5), len(logs))


# ------------------------------------------------------------------ verdicts


class Claim(NamedTuple):
    """B* of one optimizer over another's: above (1) or below (−1), or within the margin (0); and who says so."""

    first: str
    second: str
    side: int
    source: str


CLAIMS = (
    Claim("adam", "sgd", -1, "Zhang et al. 2019"),
    Claim("sgd", "momentum", 1, "Zhang et al. 2019"),
    Claim("adam", "sign", 0, "both move weights by ±γ"),
    Claim("adam", "muon", 1, "Shah et al. 2025"),
)


def verdicts_of(config: Config, rows: Sequence[Row], task: str, seconds: float) -> list[Verdict]:
    """Return the verdicts of one task: ratios of B*, small batches, controls."""
    claims = [claim for claim in CLAIMS if {claim.first, claim.second} <= set(config.arms)]
    verdicts = [_ratio_verdict(config, rows, task, claim, seconds) for claim in claims]
    verdicts += [_waste_verdict(config, rows, task, arm) for arm in config.arms if arm != "control"]
    if "control" in config.arms:
        verdicts += _controls(config, task, critical_ratio(config, rows, task, ("adam", "control")))
    return verdicts


def _ratio_verdict(config: Config, rows: Sequence[Row], task: str, claim: Claim, seconds: float) -> Verdict:
    first = ARMS[claim.first].words
    second = ARMS[claim.second].words
    words = {-1: f"is below {first}'s", 0: f"equals {first}'s", 1: f"is above {first}'s"}[claim.side]
    name = f"{task}: B* of {second} {words} ({claim.source})"
    ratio = critical_ratio(config, rows, task, (claim.first, claim.second))
    if ratio is None:
        text = f"fewer than four batch sizes are tuned with {first} and {second}"
        return Verdict(name, text, _predicted(config, claim), "—", None, "inconclusive", seconds)
    text = f"B* {ratio.second:.1f} over {ratio.first:.1f}, seeds in common; {_rule(config, claim)}"
    return replace(_judged(config, name, text, claim, ratio), seconds=seconds)


def _judged(config: Config, name: str, text: str, claim: Claim, ratio: PairedRatio) -> Verdict:
    measured = float(np.exp(ratio.log_ratio))
    interval = ratio.interval(config.level)
    return Verdict(name, text, _predicted(config, claim), measured, interval, answer(config, claim, ratio))


def _predicted(config: Config, claim: Claim) -> str:
    return {-1: "below 1", 0: f"1 within a factor of {config.margin:g}", 1: "above 1"}[claim.side]


def _rule(config: Config, claim: Claim) -> str:
    if not claim.side:
        return f"holds if the {2 * config.level - 1:.0%} interval is within the margin"
    return f"decided by the interval at {_counted(config):.2%}, corrected for {_looks(config)} comparisons"


def _looks(config: Config) -> int:
    """Ratios that are looked at together."""
    return len(config.tasks) * len(CLAIMS)


def _counted(config: Config) -> float:
    """Level at which all looks together miss with a probability of 1 − level (Bonferroni)."""
    return 1 - (1 - config.level) / _looks(config)


def answer(config: Config, claim: Claim, ratio: PairedRatio) -> VerdictName:
    """Judge a ratio: on the side that is claimed, or within the margin; "fails" if it is certain to be elsewhere."""
    low, high = ratio.interval(_counted(config))
    if claim.side:
        beyond = {1: low > 1, -1: high < 1}
        return "holds" if beyond[claim.side] else "fails" if beyond[-claim.side] else "inconclusive"
    inner = ratio.interval(2 * config.level - 1)
    if 1 / config.margin < inner[0] and inner[1] < config.margin:
        return "holds"
    return "inconclusive" if low <= 1 <= high else "fails"


def _waste_verdict(config: Config, rows: Sequence[Row], task: str, arm: str) -> Verdict:
    """Judge whether the smallest batch size is in the useful range."""
    limit = 1 + config.overhead
    smallest = config.tasks[task].batch_sizes[0]
    name = f"{task}: with {ARMS[arm].words} B = {smallest} is a useful batch size"
    sizes, steps = measured(rows, task, arm)
    if sizes.size < 3 or sizes[0] != smallest:
        return Verdict(name, f"B = {smallest} is not tuned", f"below {limit:g}", "—", None, "inconclusive")
    found = waste(sizes, steps)
    interval = found.interval(config.level)
    verdict = "holds" if interval[1] < limit else "fails" if interval[0] > limit else "inconclusive"
    text = f"data at B = {smallest} over the least at {sizes.size - 1} larger ones, {found.seeds} seeds"
    return Verdict(name, text, f"below {limit:g}", float(np.exp(found.log)), interval, verdict)


def _controls(config: Config, task: str, ratio: PairedRatio | None) -> list[Verdict]:
    """Adam with other seeds is Adam; counted with every sample as two it is not."""
    same = Claim("adam", "control", 0, "")
    above = Claim("adam", "control", 1, "")
    names = f"{task}, control: other seeds do not change B*", f"{task}, control: a B* twice as large is detected"
    if ratio is None:
        return [
            Verdict(name, "fewer than four batch sizes are tuned", _predicted(config, claim), "—", None, "inconclusive")
            for name, claim in zip(names, (same, above), strict=True)
        ]
    text = f"B* of Adam with other seeds over Adam's: {ratio.second:.1f} over {ratio.first:.1f}; {_rule(config, same)}"
    twice = replace(ratio, second=2 * ratio.second, log_ratio=ratio.log_ratio + float(np.log(2)))
    doubled = f"the same with every sample counted as two; {_rule(config, above)}"
    return [_judged(config, names[0], text, same, ratio), _judged(config, names[1], doubled, above, twice)]


# ------------------------------------------------------------------ figures


def _figures(config: Config, rows: Sequence[Row]) -> dict[str, Figure]:
    return {f"optimizers_networks_{task}": _figure(config, rows, task) for task in config.tasks}


def _figure(config: Config, rows: Sequence[Row], task: str) -> Figure:
    """Data and steps to the target of every optimizer, and ratios of B*."""
    figure, axes = new_figure(1, 3, width=4.4, height=4.2)
    means: dict[str, dict[float, float]] = {}
    for arm in config.arms:
        sizes, steps = measured(rows, task, arm)
        means[arm] = dict(zip(sizes, np.exp(np.log(steps).mean(axis=0)), strict=True)) if sizes.size else {}
    own = config.tasks[task]
    figure.suptitle(f"{task}, loss {own.targets[-1]:g}: optimizers with equal tuning, µP, width {own.widths[0]}")
    data = {arm: {size: size * steps for size, steps in found.items()} for arm, found in means.items()}
    _lines(axes[0, 0], data, "samples to the target", "How much data does a batch size take?")
    ratios = {
        arm: {size: steps / means["adam"][size] for size, steps in found.items() if size in means["adam"]}
        for arm, found in means.items()
    }
    _lines(axes[0, 1], ratios, "steps to the target, over Adam's", "Who takes the fewest steps?")
    _ratio_panel(config, axes[0, 2], rows, task)
    legend(axes[0, 0])
    return figure


def _lines(axis: Axes, found: Mapping[str, Mapping[float, float]], what: str, title: str) -> None:
    """One line an optimizer against the batch size."""
    for (arm, values), style in zip(found.items(), categories(len(found)), strict=True):
        axis.plot(list(values), list(values.values()), label=ARMS[arm].words, **style)
    axis.set(xlabel="batch size $B$ (samples)", ylabel=what, title=title)
    log_axes(axis)
    tick_measured(axis, [size for values in found.values() for size in values])


def _ratio_panel(config: Config, axis: Axes, rows: Sequence[Row], task: str) -> None:
    """Ratios of B* with their intervals."""
    others = [arm for arm in config.arms if arm != "adam"]
    axis.axvspan(1 / config.margin, config.margin, color=GRAY, alpha=0.18, lw=0)
    axis.axvline(1, color=BLACK, ls=":", lw=1)
    for place, arm in enumerate(others):
        ratio = critical_ratio(config, rows, task, ("adam", arm))
        if ratio is None:
            axis.text(1.1, place, "too few batch sizes are tuned", fontsize=7, va="center")
            continue
        value = float(np.exp(ratio.log_ratio))
        low, high = ratio.interval(config.level)
        color = BLUE if low <= 1 <= high else VERMILLION
        axis.errorbar(value, place, xerr=[[value - low], [high - value]], fmt="o", color=color, ms=5, capsize=2)
    axis.set(xscale="log", xlim=(1 / 16, 16), ylim=(len(others) - 0.5, -0.5), xlabel="$B^*$ / $B^*$ of Adam")
    axis.set_xticks([1 / 16, 0.25, 1, 4, 16], ["1/16", "¼", "1", "4", "16"])
    axis.set_xticks([], minor=True)
    axis.set_yticks(range(len(others)), [ARMS[arm].words for arm in others], fontsize=7)
    axis.set_title(f"{config.level:.0%} intervals; red: excludes 1\ngray: a factor of {config.margin:g}")
