"""Simulated against exact risk for every method under every kind of schedule and average, and for mistaken theories."""

from typing import Any

import jax
import numpy as np

import sgdtheory as st
from experiments._lib.progress import report, tracked

METHODS: dict[str, tuple[st.LinearMethod, float]] = {  # with a learning rate, in units of 1/λ_1
    "SGD": (st.SGD(), 0.2),
    "weight decay": (st.SGD(weight_decay=0.05), 0.2),
    "heavy ball": (st.HeavyBall(0.8), 0.05),
    "Nesterov": (st.Nesterov(0.8), 0.05),
    "schedule-free": (st.ScheduleFree(0.8), 0.2),
    "accelerated": (st.AcceleratedSGD(0.9, 0.1, 3.0), 0.05),
}
SHAPES: dict[str, tuple[Any, Any]] = {  # of learning rate and batch size
    "constant": (st.Constant(), st.Constant()),
    "cosine, batches doubling": (st.Cosine(warmup=0.1), st.Linear(final=2)),
    "stages": (st.Stages([0, 0.4, 0.8], [1, 0.5, 0.2]), st.Stages([0, 0.6], [0.5, 2])),
}
AVERAGES: dict[str, Any] = {
    "tail": st.TailAverage(0.5),
    "exponential": st.ExponentialAverage(window=0.2),
    "last": st.LastIterate(),
}


class _LaterShare(st.ScheduleFree):
    """c_t = 1/(t + 2)."""

    def coefficients(self, rate: Any, step: Any) -> st.Coefficients:
        return super().coefficients(rate, step + 1)


LAST = st.LastIterate()
WHOLE = st.Algorithm(average=st.TailAverage(1.0))
# what is simulated, and a theory that is not of it: all must be found out
MISTAKES: dict[str, tuple[st.Algorithm, st.Algorithm, float]] = {
    "β off by 2%": (
        st.Algorithm(st.HeavyBall(0.8), average=LAST),
        st.Algorithm(st.HeavyBall(0.784), average=LAST),
        0.05,
    ),
    "Nesterov for heavy ball": (
        st.Algorithm(st.HeavyBall(0.8), average=LAST),
        st.Algorithm(st.Nesterov(0.8), average=LAST),
        0.4,
    ),
    "c_t a step late": (
        st.Algorithm(st.ScheduleFree(0.8), average=LAST),
        st.Algorithm(_LaterShare(0.8), average=LAST),
        0.2,
    ),
    "w_1 … w_n averaged": (WHOLE, st.Algorithm(st.ScheduleFree(0.0), average=LAST), 0.2),  # which is their mean
}


def grid() -> dict[str, tuple[st.Algorithm, float]]:
    """Names, algorithms and learning rates."""
    return {
        f"{method}; {shape}; {average}": (st.Algorithm(each, *shapes, kept), rate)
        for method, (each, rate) in METHODS.items()
        for shape, shapes in SHAPES.items()
        for average, kept in AVERAGES.items()
    }


def scored(key: Any, problem: st.PowerLaw, batch: np.ndarray, num_steps: int, replicas: int) -> dict[str, np.ndarray]:
    """One row for each algorithm of the grid and batch size: columns as the experiment's."""
    rows: list[dict[str, Any]] = []
    for number, (name, (algorithm, rate)) in enumerate(tracked(grid().items())):
        setting = {"batch_size": batch, "learning_rate": rate, "num_samples": batch * num_steps}
        drawn = jax.random.fold_in(key, number)
        found = st.simulate(drawn, problem, **setting, num_replicas=replicas, algorithm=algorithm, progress=report)
        exact = st.excess_risk(problem, **setting, algorithm=algorithm).total
        columns = {
            "algorithm": name,
            "batch_size": batch,
            "learning_rate": rate,
            "num_steps": found.num_steps,
            "simulated": found.mean,
            "standard_error": found.standard_error,
            "exact": exact,
            "z": found.z_score(exact),
            "score": found.normal_score(exact),
        }
        rows.append({column: np.broadcast_to(values, batch.shape) for column, values in columns.items()})
    return {column: np.concatenate([row[column] for row in rows]) for column in rows[0]}


def mistaken(key: Any, problem: st.PowerLaw, batch: np.ndarray, num_steps: int, replicas: int) -> dict[str, float]:
    """The largest |score| over the batch sizes of each simulation against the theory of something else."""
    scores = {}
    for number, (name, (right, wrong, rate)) in enumerate(MISTAKES.items()):
        setting = {"batch_size": batch, "learning_rate": rate, "num_samples": batch * num_steps}
        found = st.simulate(jax.random.fold_in(key, number), problem, **setting, num_replicas=replicas, algorithm=right)
        exact = st.excess_risk(problem, **setting, algorithm=wrong).total
        scores[name] = float(np.abs(found.normal_score(exact)).max())
    return scores
