"""Workers with local steps in the trainer: frozen features beside their exact theory, and networks tuned alike."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple

import numpy as np

import sgdtheory as st
from experiments._lib.frozen_features import features_of, measured_risk
from experiments._lib.local_sgd_theory import DILOCO, MEAN, Row
from experiments._lib.progress import tracked
from sgdtheory.training import Lanes, TrainConfig

ARMS = {"mean": MEAN, "DiLoCo": DILOCO}
SLOWER = 2.0  # −log2 of what an outer step with Nesterov's momentum multiplies the best inner rate by


@dataclass(frozen=True)
class Task:
    """A network that is trained with K workers.

    Attributes:
        fields: of every run, flat.
        num_workers, batch_size: K, and B of one worker.
        local_steps: H; the first is 1.
        max_steps: n of every worker.
        log2_rates: log2 γ of workers that take their mean; with DiLoCo's outer step `SLOWER` lower.
        num_seeds: of weights and data.
    """

    fields: Mapping[str, Any] = field(default_factory=dict)
    num_workers: int = 8
    batch_size: int = 4
    local_steps: tuple[int, ...] = (1, 4, 16, 64)
    max_steps: int = 256
    log2_rates: tuple[float, ...] = (-6.0, -5.0, -4.0, -3.0)
    num_seeds: int = 4


class Frozen(NamedTuple):
    """Frozen features: K workers with batches of B, H, steps n at which the risk is read, seeds, inputs of moments."""

    fields: Mapping[str, Any]
    num_workers: int
    batch_size: int
    local_steps: tuple[int, ...]
    max_steps: int
    num_seeds: int
    num_inputs: int


def frozen_rows(task: Frozen) -> list[Row]:
    """Excess risk of every seed's uniform average, and what the theory of the features' spectrum says; γ is its best.

    γ is the theory's best at the largest H, for either outer step, and the same for all H.
    """
    own = TrainConfig.from_fields({**task.fields, "num_workers": task.num_workers, "local_steps": 2})
    features = features_of(TrainConfig.from_fields(dict(task.fields)), task.num_inputs)
    samples = task.num_workers * task.batch_size * task.max_steps
    rows = []
    for outer in tracked(list(ARMS.values())):
        setting: Any = {"batch_size": task.batch_size, "num_samples": samples}
        method = st.LocalSGD(task.num_workers, task.local_steps[-1], *outer)
        rate = float(
            st.optimal_learning_rate(features.problem, **setting, algorithm=st.Algorithm(method)).learning_rate
        )
        for steps in task.local_steps:
            algorithm = st.Algorithm(st.LocalSGD(task.num_workers, steps, *outer))
            risk = st.excess_risk(features.problem, **setting, learning_rate=rate, algorithm=algorithm).total
            run = own.with_fields(local_steps=steps, outer_learning_rate=outer[0], outer_momentum=outer[1])
            found = measured_risk(
                run, features, task.batch_size, np.array([rate]), np.array([task.max_steps]), num_seeds=task.num_seeds
            )
            for seed, value in enumerate(found[0, :, 0]):
                head = "features", np.nan, np.nan, task.num_workers, steps, *outer, task.batch_size
                rows.append(Row(*head, rate, seed, float(value), float(risk)))
    return rows


def network_rows(name: str, task: Task) -> list[Row]:
    """Hold-out loss of every seed with the γ and average that are best for the other seeds; and of one worker alone."""
    rows = []
    cells = [(outer, steps) for outer in ARMS.values() for steps in task.local_steps]
    losses = _losses(task, task.num_workers, cells)
    alone = _losses(task, 1, [(MEAN, 1)])
    for workers, ((outer, steps), found) in [
        *((task.num_workers, each) for each in zip(cells, losses, strict=True)),
        (1, ((MEAN, 1), alone[0])),
    ]:
        values, rates = unseen_best(found)
        chosen = np.array(_rates(task, outer))[rates]
        predicted = predicted_ratio(task, outer, steps) if workers > 1 else np.nan
        inside = (rates > 0) & (rates < len(task.log2_rates) - 1)
        for seed, value in enumerate(values):
            head = name, np.nan, np.nan, workers, steps, *outer, task.batch_size
            rows.append(Row(*head, float(chosen[seed]), seed, float(value), predicted, float(inside[seed])))
    return rows


def unseen_best(losses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(S,) loss of every seed at the rate and average that have the least mean loss of the other seeds; (S,) the rates.

    Args:
        losses: (G, S, A) of rates, seeds, averages; a run that diverged has inf.
    """
    seeds = losses.shape[1]
    found = np.empty(seeds)
    rates = np.empty(seeds, int)
    for seed in range(seeds):
        others = np.delete(losses, seed, axis=1).mean(axis=1)
        rate, average = np.unravel_index(int(others.argmin()), others.shape)
        found[seed] = losses[rate, seed, average]
        rates[seed] = rate
    return found, rates


def _rates(task: Task, outer: tuple[float, float]) -> list[float]:
    shift = SLOWER if outer[1] else 0.0
    return [2.0 ** (log2 - shift) for log2 in task.log2_rates]


def _losses(task: Task, workers: int, cells: Sequence[tuple[tuple[float, float], int]]) -> np.ndarray:
    """(C, G, S, A) losses at the end, all runs of a cell side by side."""
    found = []
    for outer, steps in tracked(list(cells)):
        rounds = {"local_steps": steps, "outer_learning_rate": outer[0], "outer_momentum": outer[1]}
        shared = {**task.fields, "batch_size": task.batch_size, "max_steps": task.max_steps, "num_workers": workers}
        configs = [
            TrainConfig.from_fields(shared | rounds | {"learning_rate": rate, "seed": seed, "data_seed": seed})
            for rate, seed in product(_rates(task, outer), range(task.num_seeds))
        ]
        lanes = Lanes(configs)
        lanes.advance(task.max_steps)
        losses = lanes.evaluate().astype(float)
        losses = np.where(np.isfinite(losses), losses, np.inf)
        found.append(losses.reshape(len(task.log2_rates), task.num_seeds, -1))
    return np.stack(found)


def ratio_of_means(rows: Sequence[Row], base: Sequence[Row]) -> tuple[float, float]:
    """r = mean x/mean y over seeds in common, and its standard error, that of the mean of (x − r y)/mean y."""
    pairs = {row.seed: row.value for row in base}
    x = np.array([row.value for row in rows])
    y = np.array([pairs[row.seed] for row in rows])
    value = float(x.mean() / y.mean())
    return value, float((x - value * y).std(ddof=1) / len(x) ** 0.5 / y.mean())


def predicted_ratio(task: Task, outer: tuple[float, float], local_steps: int) -> float:
    """Tuned risk with H over that with H = 1, by the power law of the teacher's inputs, uniform averages; nan: text."""
    teacher = TrainConfig.from_fields(dict(task.fields))
    capacity, source = teacher.value("capacity"), teacher.value("source")
    if capacity is None:
        return np.nan
    scale = float(np.sum(np.arange(1, 10**5, dtype=float) ** -source))
    problem = st.PowerLaw(capacity, source, noise_variance=scale * teacher.value("noise_variance"))
    setting: Any = {
        "batch_size": task.batch_size,
        "num_samples": task.num_workers * task.batch_size * task.max_steps,
    }
    risks = [
        float(
            st.optimal_learning_rate(
                problem, **setting, algorithm=st.Algorithm(st.LocalSGD(task.num_workers, steps, *outer))
            ).risk
        )
        for steps in (local_steps, 1)
    ]
    return risks[0] / risks[1]
