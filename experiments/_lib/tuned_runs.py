"""Tuned steps to a target of one way of training: a sweep whose grid grows until its best choices are inside of it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from experiments._lib.network_sweeps import Task, task_configs, tell_sweep
from sgdtheory.sweep import BestSteps, SweepTable, best_steps, missing_runs, sweep, unseen_steps
from sgdtheory.training import ENDING, TrainConfig, TrainResult, interpolated_steps

DURATIONS = (
    0.35,
    0.5,
    0.71,
    1.0,
    1.41,
)  # of runs whose learning rate decays, over the steps of those where it does not
Points = Sequence[BestSteps]
SPACING = 2.0  # of learning rates
FURTHER = 1.41  # from one duration to the next


def tuned_points(task: Task, changes: Mapping[str, Any], folder: Path, *, rounds: int, sequences: int = 1) -> Points:
    """Fewest steps to the task's last target at each batch size.

    Args:
        task: of one width.
        changes: flat fields of its runs.
        folder: store of the runs.
        rounds: how often the grid may grow.
        sequences: samples of the task for which one sample of these runs stands; batch sizes are those of the task.
    """
    configs = [
        each.with_fields(**{**changes, "batch_size": each.batch_size // sequences})
        for each in task_configs(task, parametrization="mup")
    ]
    target = task.targets[-1]
    table = sweep(configs, folder, progress=tell_sweep)
    for _ in range(rounds):
        more = missing_runs(table, target)
        if not more:
            break
        configs += more
        table = sweep(configs, folder, progress=tell_sweep)
    points = best_steps(table, target_loss=target).points
    return [replace(point, batch_size=point.batch_size * sequences) for point in points]


def decaying_points(task: Task, changes: Mapping[str, Any], folder: Path, *, rounds: int, steady: Points) -> Points:
    """The same where the learning rate decays to the end of the run: the fewest steps whose last loss is the target.

    Every duration is a run of its own, `DURATIONS` times the steps without decay; between them losses are on a line of
    log loss against log steps. Learning rates beyond those at an end of the grid are added as in a sweep.

    Args:
        task, changes, folder, rounds: as of `tuned_points`.
        steady: its points without decay.
    """
    found = []
    for point in steady:
        plain = [each for each in task_configs(task, parametrization="mup") if each.batch_size == point.batch_size]
        steps = [max(2, round(share * point.mean)) for share in DURATIONS]
        own = [
            (each, {**changes, "max_steps": n, "eval_every": n, "target_loss": None}) for n in steps for each in plain
        ]
        configs = [each.with_fields(**fields) for each, fields in own]
        assert all(isinstance(each.schedule, ENDING) for each in configs)
        best = _best_decaying(point, task.targets[-1], sweep(configs, folder, progress=tell_sweep))
        for _ in range(rounds):
            if not best.edges:
                break
            configs += _beyond(best, configs)
            best = _best_decaying(point, task.targets[-1], sweep(configs, folder, progress=tell_sweep))
        found.append(best)
    return found


def _beyond(best: BestSteps, configs: Sequence[TrainConfig]) -> list[TrainConfig]:
    """Runs beyond the ends of the grid at which the best choice lies."""
    found = []
    if "learning_rate" in best.edges:
        same = [each for each in configs if each.learning_rate == best.choice["learning_rate"]]
        found += [replace(each, learning_rate=float(best.edges["learning_rate"])) for each in same]
    if "max_steps" in best.edges:
        steps = [each.max_steps for each in configs]
        beyond = int(best.edges["max_steps"])
        nearest = min(steps) if beyond < min(steps) else max(steps)
        same = [each for each in (*configs, *found) if each.max_steps == nearest]
        found += [replace(each, max_steps=beyond, eval_every=beyond) for each in same]
    return found


def _best_decaying(point: BestSteps, target: float, table: SweepTable) -> BestSteps:
    """The learning rate with the fewest steps, those of every seed; without one, where to look further."""
    runs: dict[float, dict[int, list[TrainResult]]] = {}
    for result in table.finished:
        runs.setdefault(result.config.learning_rate, {}).setdefault(result.config.seed, []).append(result)
    steps = {rate: np.array([_to_target(each, target) for each in seeds.values()]) for rate, seeds in runs.items()}
    means = {rate: float(np.exp(np.log(each).mean())) for rate, each in steps.items() if np.isfinite(each).all()}
    durations = [result.config.max_steps for result in table.finished]
    best = min(means, key=means.__getitem__) if means else _nearest(table, max(durations))
    ends = {min(runs): best / SPACING, max(runs): best * SPACING}
    edges = {"learning_rate": f"{ends[best]:.17g}"} if best in ends else {}
    if means and steps[best].min() <= min(durations):
        edges["max_steps"] = f"{max(1, round(min(durations) / FURTHER))}"
    elif not means and not edges:
        edges["max_steps"] = f"{round(max(durations) * FURTHER)}"
    found = unseen_steps(np.array([steps[rate] for rate in means])) if means else np.array([])
    choice = {"learning_rate": best, "average": "iterate"}
    number = sum(len(seeds) for seeds in runs.values())
    return replace(point, steps=found, choice=choice, edges=edges, reached=len(means), runs=number)


def _nearest(table: SweepTable, duration: int) -> float:
    """The learning rate whose longest runs end with the lowest losses, by their mean over seeds."""
    losses: dict[float, list[float]] = {}
    for result in table.finished:
        if result.config.max_steps == duration:
            losses.setdefault(result.config.learning_rate, []).append(_last(result))
    return min(losses, key=lambda rate: float(np.mean(losses[rate])))


def _last(result: TrainResult) -> float:
    """The last loss; inf of a run that diverged."""
    return float("inf") if result.diverged else float(result.losses[-1, 0])


def _to_target(results: Sequence[TrainResult], target: float) -> float:
    """Steps at which the last losses of runs of several durations reach the target; nan if they do not."""
    ordered = sorted(results, key=lambda result: result.config.max_steps)
    steps = np.array([result.config.max_steps for result in ordered], float)
    return interpolated_steps(steps, np.array([_last(result) for result in ordered]), target)
