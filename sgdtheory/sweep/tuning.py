"""Fewest steps to a target over learning rate, the optimizer's numbers and averages; notes on what is not tuned."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sgdtheory._common.arguments import checked_name
from sgdtheory.fits import StepsMeasurement
from sgdtheory.sweep.table import SweepTable, sortable, varying
from sgdtheory.training import FIELDS, TrainConfig, TrainResult, interpolated_steps

SCHEDULED = "schedule", "warmup", "final", "decay", "power", "exponent", "stages"
TUNED = "learning_rate", "momentum", "update_rms", "beta1", "beta2", "epsilon", "weight_decay", "clip_norm", *SCHEDULED
NEAR_ONE = "momentum", "beta1", "beta2"  # The grids of these decay rates τ are geometric in 1 − τ.
DIGITS = 10  # A suggested decay rate has this many decimals, so that 1 − (1 − 0.9)²/(1 − 0.99) is 0 and not 1.3e-15.
FRACTIONS = "warmup", "decay"
SEEDS = "seed", "data_seed"
# These fields only change how a run is observed and computed: runs that differ in no others have the same iterates.
ASIDE = "max_steps", "schedule_steps", "eval_every", "target_loss", "averages", "uniform_average", "micro_batch"


@dataclass(frozen=True, eq=False)
class BestSteps:
    """Fewest steps to a target at one batch size of a group, over all tuned fields.

    Attributes:
        group: values of the fields that distinguish groups.
        batch_size: B.
        steps: (S,) steps of every seed with the choice that is best for the other seeds (`unseen_steps`); a single seed
            has its own best choice. Empty if no choice reached the target with all seeds.
        choice: the best value of each tuned field over all seeds, and the average that reached the target first with
            most of them.
        edges: field → value to add to the grid, for fields whose best value lies at an end of the grid with the other
            fields fixed at the choice.
        reached, runs: number of runs that reached the target, and of all runs.
    """

    group: tuple[Any, ...]
    batch_size: int
    steps: np.ndarray
    choice: dict[str, Any]
    edges: dict[str, str]
    reached: int
    runs: int

    @property
    def mean(self) -> float:
        """Geometric mean of the steps over seeds; nan if the target was not reached."""
        return float(np.exp(np.log(self.steps).mean())) if self.steps.size else float("nan")

    @property
    def tuned(self) -> bool:
        """Return whether the target was reached with a best choice in the interior of the grid."""
        return bool(self.steps.size) and not self.edges


@dataclass(frozen=True, eq=False)
class TunedSteps:
    """Steps to one target against batch size, for every group.

    Attributes:
        target_loss: loss on the hold-out.
        by: fields that distinguish groups.
        points: fewest steps of every group and batch size.
    """

    target_loss: float
    by: tuple[str, ...]
    points: tuple[BestSteps, ...]

    @property
    def groups(self) -> list[tuple[Any, ...]]:
        """The groups in sorted order."""
        return sorted({point.group for point in self.points}, key=lambda group: [sortable(value) for value in group])

    @property
    def smallest_batch_size(self) -> float:
        """The smallest batch size that all groups were swept at."""
        sizes = [{point.batch_size for point in self.points if point.group == group} for group in self.groups]
        if not sizes:
            raise ValueError("table must have runs that have ended, got none: sweep first")
        common = set.intersection(*sizes)
        if not common:
            raise ValueError("reference must be given: no batch size was swept in all groups")
        return float(min(common))

    def name(self, group: tuple[Any, ...]) -> str:
        """Return the name of a group, such as "width 64"."""
        return ", ".join(map(_named, self.by, group))

    def notes(self) -> list[str]:
        """List what is not tuned or was not reached, one sentence each."""
        notes = []
        for point in self.points:
            cell = *map(_named, self.by, point.group), f"batch size {point.batch_size}"
            where = ", ".join((f"loss {self.target_loss:g}", *cell))
            if not point.steps.size:
                notes.append(
                    f"{where}: not reached by all seeds of any choice "
                    f"({point.reached} of {point.runs} runs reached it): raise max_steps or the target"
                )
            for name, value in point.edges.items():
                notes.append(
                    f"{where}: not tuned, the best {name} {point.choice[name]} is at the grid's end: add {value}"
                )
        return notes

    def measurements(self, *, edges: bool = False) -> list[StepsMeasurement]:
        """Return the geometric means over seeds of each group with at least three batch sizes.

        Args:
            edges: include batch sizes whose best choice lies at an end of the grid, whose steps are upper bounds.
        """
        measurements = []
        for group in self.groups:
            points = [point for point in self.points if point.group == group]
            points = [each for each in points if each.tuned or (edges and each.steps.size)]
            points.sort(key=lambda point: point.batch_size)
            if len(points) >= 3:
                size = group[0] if self.by and isinstance(group[0], int | float) else float("nan")
                batch_sizes = np.array([point.batch_size for point in points], float)
                steps = np.array([point.mean for point in points])
                measurements.append(StepsMeasurement(self.name(group), size, batch_sizes, steps))
        return measurements


def best_steps(table: SweepTable, *, target_loss: float, by: Sequence[str] = ("width",)) -> TunedSteps:
    """Find the fewest steps to a target for every group and batch size, over all other fields that vary.

    >>> import tempfile
    >>> from sgdtheory.sweep import best_steps, sweep
    >>> from sgdtheory.training import TrainConfig
    >>> shared = {"width": 8, "holdout_size": 32, "averages": (), "max_steps": 200}
    >>> pairs = [(batch, rate) for batch in (4, 8, 16) for rate in (0.01, 0.03, 0.1)]
    >>> configs = [TrainConfig(batch_size=batch, learning_rate=rate, **shared) for batch, rate in pairs]
    >>> with tempfile.TemporaryDirectory() as store:  # doctest: +SKIP
    ...     table = sweep(configs, store)
    >>> tuned = best_steps(table, target_loss=0.8)  # doctest: +SKIP
    >>> [point.batch_size for point in tuned.points]  # doctest: +SKIP
    [4, 8, 16]

    A run's steps are those of the iterate or the average that reaches the target first, interpolated between
    evaluations. The best choice of the tuned fields has the smallest geometric mean over seeds, among the choices that
    reached the target with every seed. The steps of a seed are those with the choice that is best for the other seeds.
    With the choice that is best for the same runs they would be too few, and more so with a larger scatter
    (`unseen_steps`).

    Args:
        table: table of a sweep.
        target_loss: loss on the hold-out.
        by: fields that distinguish groups.

    Raises:
        ValueError: if a field is unknown, the target is below a run's own (which stopped there), or a field varies
            that is neither tuned, nor a seed, nor in `by`.
    """
    by = tuple(checked_name("by", name, FIELDS) for name in by)
    results = table.finished
    tuned = _tuned_fields([result.config for result in results], by)
    _check_target(results, target_loss)
    points = [_best(group, size, cell, target_loss, tuned) for (group, size), cell in cells_of(results, by).items()]
    points.sort(key=lambda point: ([sortable(value) for value in point.group], point.batch_size))
    return TunedSteps(target_loss, by, tuple(points))


def cells_of(results: Sequence[TrainResult], by: Sequence[str]) -> dict[tuple[tuple[Any, ...], int], list[TrainResult]]:
    """Return the runs of each group, by the fields that distinguish groups, and batch size."""
    cells: dict[tuple[tuple[Any, ...], int], list[TrainResult]] = {}
    for result in results:
        group = tuple(_plain(result.config.value(name)) for name in by)
        cells.setdefault((group, result.config.batch_size), []).append(result)
    return cells


def stopped_above(results: Sequence[TrainResult], target: float) -> list[TrainResult]:
    """List the runs that stopped at a higher target, unless another run with the same iterates went further."""
    longest: dict[str, TrainResult] = {}
    for result in results:
        other = longest.setdefault(result.config.trajectory, result)
        longest[result.config.trajectory] = max(result, other, key=_reach)
    ended = (result for result in longest.values() if result.outcome == "target")
    return [result for result in ended if target < (result.config.target_loss or target)]


def _reach(result: TrainResult) -> tuple[int, float]:
    """Return a key that orders runs by their steps, then by how low their target is."""
    return result.num_steps, -(-math.inf if result.config.target_loss is None else result.config.target_loss)


def _check_target(results: Sequence[TrainResult], target: float) -> None:
    for result in stopped_above(results, target):
        raise ValueError(
            f"target_loss must be at least {result.config.target_loss:g}, where run {result.config.fingerprint} "
            f"stopped, got {target:g}; sweep with a lower target_loss, which goes on with the runs of the store"
        )


def _tuned_fields(configs: Sequence[TrainConfig], by: Sequence[str]) -> list[str]:
    names = [name for name in varying(configs) if name not in (*by, *SEEDS, *ASIDE, "batch_size")]
    for name in names:
        if name not in TUNED:
            raise ValueError(
                f"{name} varies between the runs and is nothing to tune: add it to by, or filter the runs "
                "(--where FIELD=VALUE)"
            )
    return names


def _best(group: tuple, batch_size: int, cell: list[TrainResult], target: float, tuned: list[str]) -> BestSteps:
    """Find the best choice at one batch size of a group."""
    choices: dict[tuple, dict[tuple, tuple[float, str]]] = {}  # Choice → seed → steps and average.
    observed = _observed(batch_size, cell, tuned)
    for (choice, seed), runs in observed.items():
        choices.setdefault(choice, {})[seed] = _first(runs, target)
    seeds = sorted({seed for found in choices.values() for seed in found})
    means = {
        choice: float(np.mean([np.log(found[seed][0]) for seed in seeds]))
        for choice, found in choices.items()
        if len(found) == len(seeds) and all(np.isfinite(steps) for steps, _ in found.values())
    }
    reached = sum(bool(np.isfinite(steps)) for found in choices.values() for steps, _ in found.values())
    number = sum(len(found) for found in choices.values())
    if not means:
        return BestSteps(group, batch_size, np.empty(0), {}, {}, reached, number)
    best = min(means, key=lambda choice: means[choice])
    averages = [choices[best][seed][1] for seed in seeds]
    steps = unseen_steps(np.array([[choices[choice][seed][0] for seed in seeds] for choice in means]))
    chosen = dict(zip(tuned, best, strict=True)) | {"average": max(averages, key=averages.count)}
    tried = [choice for choice, found in choices.items() if len(found) == len(seeds)]
    edges = _edges(dict(zip(tuned, best, strict=True)), [dict(zip(tuned, each, strict=True)) for each in tried])
    decays = {name for seed in seeds for run in observed[best, seed] for name in run.names}
    if value := _average_edge(chosen["average"], decays):
        edges["average"] = value
    return BestSteps(group, batch_size, steps, chosen, edges, reached, number)


def unseen_steps(steps: np.ndarray) -> np.ndarray:
    """Return (S,) steps of each seed with the choice whose geometric mean over the other seeds is smallest.

    The smallest of several noisy means is biased low. For K equally good choices, and log steps with standard deviation
    σ, its bias is 0.56 σ/√S (K = 2) to 1.16 σ/√S (K = 5). If the scatter falls with the batch size, this bias tilts the
    steps as a function of batch size, and with them B*. The steps of a seed that did not take part in the choice have
    no such bias: their mean is that of the choice. If choices differ by about their scatter, it is above the best
    choice's mean by at most 0.24 σ/√(S − 1) (K = 2) to 0.53 σ/√(S − 1) (K = 5).

    >>> import numpy as np
    >>> from sgdtheory.sweep import unseen_steps
    >>> unseen_steps(np.array([[10.0, 20.0], [12.0, 15.0]]))  # each seed takes the choice that the other prefers
    array([12., 20.])

    Args:
        steps: (K, S) steps of K choices and S seeds; with a single seed its fewest steps are returned.
    """
    logs = np.log(steps)
    others = logs.sum(axis=1, keepdims=True) - logs if steps.shape[1] > 1 else logs
    best = others.argmin(axis=0)
    return steps[best, np.arange(steps.shape[1])]


def _observed(batch_size: int, cell: list[TrainResult], tuned: list[str]) -> dict[tuple, list[TrainResult]]:
    """Group runs by choice and seed: those of one group have the same iterates, but may observe different averages."""
    groups: dict[tuple, list[TrainResult]] = {}
    for result in cell:
        choice = tuple(result.config.value(name) for name in tuned)
        seed = tuple(result.config.value(name) for name in SEEDS)
        runs = groups.setdefault((choice, seed), [])
        if runs and runs[0].config.trajectory != result.config.trajectory:
            different = " and ".join(varying([runs[0].config, result.config]))
            raise ValueError(
                f"two runs with batch_size {batch_size}, seed {seed[0]} and {dict(zip(tuned, choice, strict=True))} "
                f"differ only in {different}: add one of these fields to by, or filter the runs (--where FIELD=VALUE)"
            )
        runs.append(result)
    return groups


def _first(runs: list[TrainResult], target: float) -> tuple[float, str]:
    """Return the steps and the name of the iterate or average that reaches the target first; nan if none does."""
    steps = [(interpolated_steps(run.steps, run.curve(name), target), name) for run in runs for name in run.names]
    return min((each for each in steps if np.isfinite(each[0])), default=(float("nan"), "iterate"))


def _edges(best: dict[str, Any], tried: list[dict[str, Any]]) -> dict[str, str]:
    """Return the value to add for each field whose best value is at an end of those tried with the other fields fixed.

    If the other fields always determine a field's value, these fields change together. Each is then compared with all
    its values.
    """
    edges = {}
    for name in best:
        lines: dict[tuple, set[Any]] = {}
        for choice in tried:
            others = tuple(value for other, value in choice.items() if other != name)
            lines.setdefault(others, set()).add(choice[name])
        everywhere = set.union(*lines.values())
        along = lines[tuple(value for other, value in best.items() if other != name)]
        together = all(len(values) == 1 for values in lines.values())
        if value := _edge(name, best[name], everywhere if together else along, everywhere):
            edges[name] = value
    return edges


def _edge(name: str, best: Any, along: Iterable[Any], everywhere: Iterable[Any]) -> str | None:
    """Return the value to add if the best one is at an end; None if it is in the interior or there is nothing to tune.

    Args:
        name: name of the field.
        best: value of the field in the best choice.
        along: values that were tried with the other fields of that choice.
        everywhere: values that were tried with any other fields. If `along` has only the best value, the next value
            among these is to be tried, the larger one if there is one.
    """
    line = _numbers(along)
    if best not in line:  # The value is a word, or there is none.
        return None
    if len(line) == 1:
        grid = _numbers(everywhere)
        if len(grid) > 1 and best != grid[-1]:
            return f"{grid[grid.index(best) + 1]:.10g}"
        line = grid
    if len(line) < 2 or best not in (line[0], line[-1]):
        return None
    if name in NEAR_ONE:
        return _beyond_decay_rate(best, line)
    if best <= 0:
        return None
    neighbour = line[1] if best == line[0] else line[-2]
    value = min(best * best / neighbour, 1.0 if name in FRACTIONS else math.inf) if neighbour > 0 else best
    return f"{value:.10g}" if value != best else None


def _beyond_decay_rate(best: float, line: list[float]) -> str | None:
    """Return the next decay rate τ beyond an end of the grid, geometrically in 1 − τ; None below τ = 0."""
    if best == 0:
        return None
    neighbour = line[1] if best == line[0] else line[-2]
    value = 1 - (1 - best) ** 2 / (1 - neighbour)
    return f"{max(0.0, round(value, DIGITS)):.10g}"


def _average_edge(best: str, names: Iterable[str]) -> str | None:
    """Return the average to add if the best one is the longest; at the other end there is the iterate."""
    if best in ("iterate", "uniform"):
        return None
    decays = _numbers(float(name) for name in names if name not in ("iterate", "uniform"))
    if float(best) != decays[-1]:
        return None
    return _beyond_decay_rate(decays[-1], decays) if len(decays) > 1 else f"{1 - (1 - decays[0]) / 2:.10g}"


def _numbers(values: Iterable[Any]) -> list[float]:
    return sorted(value for value in set(values) if isinstance(value, int | float))


def _named(name: str, value: Any) -> str:
    return f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"


def _plain(value: Any) -> Any:
    return getattr(value, "name", value)
