"""What the page computes, all of it by the library: each function tells its answers as soon as it has them.

They run in a worker's process. A worker may end one at any moment, by KeyboardInterrupt.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sgdtheory.algorithms import Algorithm
from sgdtheory.bounds import theorem7
from sgdtheory.critical import (
    ApproximateCriticalBatchSize,
    CriticalBatchSize,
    approximate_critical_batch_size,
    critical_batch_size,
    optimal_learning_rate,
    predicted_exponent,
)
from sgdtheory.explore.state import SLOTS, State
from sgdtheory.risk import RiskPath, excess_risk, method_edge, risk_path
from sgdtheory.simulation import simulate

# Over the edge, where γ against risk is computed; close to it the risk of few steps has narrow valleys.
RATES = np.union1d(np.geomspace(1e-4, 1.0, 41), 1 - np.geomspace(0.002, 0.4, 24))
FEW_RATES = RATES[::4]  # first, where a risk takes long
PATH_POINTS = 80
BATCHES_PER_DECADE = 5
GROWTH = 10.0 ** np.arange(-3, 3.5)  # data sizes over D at which B* is computed for its growth
MOST_SAMPLES, LEAST_SAMPLES = 1e15, 20.0
REPLICAS, CHECKED_POINTS, MOST_SIMULATED = 128, 16, 200_000
LEAST_PROGRESS = 0.01  # share of a simulation between two answers

Columns = dict[str, Any]  # (K,) arrays


@dataclass(frozen=True)
class Answer:
    """What a panel shows of one algorithm.

    Attributes:
        panel: its name.
        columns: (K,) arrays of its lines.
        marks: numbers of its marks and of its readings.
        words: sentences for its reader.
    """

    panel: str
    columns: Columns = field(default_factory=dict)
    marks: dict[str, float] = field(default_factory=dict)
    words: tuple[str, ...] = ()


Tell = Callable[[Answer], None]


def best_rate(state: State, algorithm: Algorithm) -> float:
    """The state's learning rate, or the best one."""
    if state.learning_rate is not None:
        return state.learning_rate
    setting = {"batch_size": state.batch_size, "num_samples": state.num_samples}
    return float(optimal_learning_rate(state.problem, **setting, algorithm=algorithm).learning_rate)


def stability_edge(state: State, algorithm: Algorithm) -> float:
    """The largest stable learning rate of the method's constant steps at batch size B, whatever schedule it has."""
    return float(method_edge(state.problem, algorithm.method, np.array([float(state.batch_size)]))[0])


def run(state: State, slot: int, tell: Tell) -> None:
    """The risk at the setting, and the loss curve up to it."""
    problem, algorithm, rate = state.problem, state.algorithms[slot], best_rate(state, state.algorithms[slot])
    setting = {"batch_size": state.batch_size, "num_samples": state.num_samples}
    risk = excess_risk(problem, **setting, learning_rate=rate, algorithm=algorithm)
    edge = stability_edge(state, algorithm)
    marks = {name: float(getattr(risk, name)) for name in ("bias", "variance", "total")}
    marks |= {"learning_rate": rate, "edge": edge, "missed": float(getattr(problem, "approximation_risk", 0.0))}
    if algorithm.is_default:
        marks["theorem7"] = float(theorem7(problem, **setting, learning_rate=rate).total)
    path = risk_path(problem, **setting, learning_rate=rate, algorithm=algorithm, points=PATH_POINTS)
    marks["num_steps"] = float(path.num_steps[-1])
    tell(Answer("path", path_columns(path), marks, _unstable(state, algorithm, rate, edge)))


def path_columns(path: RiskPath) -> Columns:
    """A loss curve without its start, where there are no samples yet."""
    columns = {name: getattr(path, name) for name in ("num_steps", "num_samples", "learning_rate", "batch_size")}
    columns |= {"iterate": path.iterate.total, "average": path.average.total}
    return {name: np.asarray(values)[1:] for name, values in columns.items()}


def rates(state: State, slot: int, tell: Tell) -> None:
    """Risks at D of learning rates up to the edge: a few first where one takes long."""
    algorithm = state.algorithms[slot]
    edge, setting = stability_edge(state, algorithm), {"batch_size": state.batch_size, "num_samples": state.num_samples}
    for shares in (RATES,) if algorithm.is_default else (FEW_RATES, RATES):
        risk = excess_risk(state.problem, **setting, learning_rate=edge * shares, algorithm=algorithm)
        columns = {"learning_rate": edge * shares, "risk": risk.total, "bias": risk.bias, "variance": risk.variance}
        tell(Answer("rate", columns, {"edge": edge}))


def _unstable(state: State, algorithm: Algorithm, rate: float, edge: float) -> tuple[str, ...]:
    if rate <= edge or state.learning_rate is None:
        return ()
    if algorithm.schedule.flat:
        return (f"γ = {rate:.3g} is beyond the stability edge {edge:.3g}: the risk grows without bound. Lower γ.",)
    return (f"The peak γ = {rate:.3g} is beyond the stability edge {edge:.3g}: the risk grows until γ has come down.",)


def batch_sizes(num_samples: float) -> np.ndarray:
    """Whole batch sizes from 1 to D/2, that waste as few samples as can be: those of `CriticalBatchSize.curve`."""
    end = max(num_samples / 2, 1.0)
    grid = np.floor(np.geomspace(1.0, end, int(BATCHES_PER_DECADE * np.log10(end)) + 2))
    return np.unique(np.floor(num_samples / np.floor(num_samples / grid)))


def ahead(state: State, slot: int, tell: Tell) -> None:
    """R(D, B) and B* to some 1%, to be shown until the exact ones have come."""
    setting = {"num_samples": state.num_samples, "overhead": state.overhead, "algorithm": state.algorithms[slot]}
    found = approximate_critical_batch_size(state.problem, **setting)
    tell(Answer("samples", {}, critical_marks(found) | {"approximate": 1.0}))
    sizes = batch_sizes(state.num_samples)
    tell(Answer("risk", {"batch_size": sizes, "risk": found.risk_at(sizes)}, missed(state)))


def tuned(state: State, slot: int, tell: Tell) -> None:
    """R(D, B), learning rate tuned, with its bias and variance."""
    setting = {"batch_size": batch_sizes(state.num_samples), "num_samples": state.num_samples}
    best = optimal_learning_rate(state.problem, **setting, algorithm=state.algorithms[slot]).learning_rate
    risk = excess_risk(state.problem, **setting, learning_rate=best, algorithm=state.algorithms[slot])
    lines = {"batch_size": setting["batch_size"], "learning_rate": best}
    lines |= {"risk": risk.total, "bias": risk.bias, "variance": risk.variance}
    tell(Answer("risk", lines, missed(state)))


def missed(state: State) -> dict[str, float]:
    """The risk that M features leave however much is learnt."""
    return {"missed": float(getattr(state.problem, "approximation_risk", 0.0))}


def critical(state: State, slot: int, tell: Tell) -> None:
    """B* and R_opt at D, and the samples that each batch size needs."""
    setting = {"num_samples": state.num_samples, "overhead": state.overhead, "algorithm": state.algorithms[slot]}
    for curve in (True,) if state.algorithms[slot].is_default else (False, True):
        found = critical_batch_size(state.problem, **setting, curve=curve)
        names = "batch_size", "num_steps", "samples_needed", "overhead"
        columns = {name: getattr(found.curve, name) for name in names} if curve else {}
        tell(Answer("samples", columns, critical_marks(found), (found.remark,) if found.remark else ()))


def critical_marks(found: CriticalBatchSize | ApproximateCriticalBatchSize) -> dict[str, float]:
    """Its numbers."""
    names = "batch_size", "learning_rate", "num_steps", "optimal_risk", "optimal_batch_size", "num_samples", "overhead"
    return {name: float(getattr(found, name)) for name in names}


def growth_samples(num_samples: float) -> np.ndarray:
    """Data sizes for the growth of B*, from three decades below D to three above."""
    return np.unique(np.clip(num_samples * GROWTH, LEAST_SAMPLES, MOST_SAMPLES))


def growth(state: State, slot: int, tell: Tell) -> None:
    """B* at data sizes around D, those nearest to it first, beside Corollary 8's exponent: to some 1%, then exactly."""
    sizes = growth_samples(state.num_samples)
    exponent = float(predicted_exponent(state.capacity, state.source))
    order = sizes[np.argsort(np.abs(np.log(sizes / state.num_samples)), kind="stable")].tolist()
    algorithm, found, exact = state.algorithms[slot], dict[float, float](), 0
    setting = {"overhead": state.overhead, "algorithm": algorithm}

    def show() -> None:
        columns = {"num_samples": np.array(sorted(found)), "critical": np.array([found[at] for at in sorted(found)])}
        tell(Answer("growth", columns, {"exponent": exponent, "share": exact / sizes.size}))

    for samples in () if algorithm.is_default else order:
        with contextlib.suppress(ValueError):  # the exact one will say it
            found[samples] = approximate_critical_batch_size(state.problem, num_samples=samples, **setting).batch_size
            show()
    for samples in order:
        one = critical_batch_size(state.problem, num_samples=samples, **setting, curve=False)
        found[samples], exact = float(one.real_batch_size), exact + 1
        show()


def simulated(state: State, slot: int, tell: Tell) -> None:
    """Simulated risks along the run: means of replicas and their standard errors."""
    import jax  # half a second that the exact theory does not need

    algorithm, rate = state.algorithms[slot], best_rate(state, state.algorithms[slot])
    setting: Any = {"batch_size": state.batch_size, "learning_rate": rate, "num_samples": state.num_samples}
    path = risk_path(state.problem, **setting, algorithm=algorithm, points=200)
    if path.num_steps[-1] > MOST_SIMULATED:
        raise ValueError(
            f"n = {path.num_steps[-1]:.3g} steps would take long to simulate; raise B or lower D until there are at "
            f"most {MOST_SIMULATED:,}"
        )

    told = -1.0

    def progress(share: float) -> None:
        nonlocal told
        if share >= told + LEAST_PROGRESS:
            told = share
            tell(Answer("simulated", {}, {"share": share}))

    progress(0.0)
    result = simulate(
        jax.random.key(0),
        state.problem,
        **setting,
        num_replicas=REPLICAS,
        algorithm=algorithm,
        trajectory=CHECKED_POINTS,
        progress=progress,
    )
    assert result.trajectory is not None, "a trajectory was asked for"
    steps, first = np.unique(result.trajectory.num_steps, return_index=True)
    risks = result.trajectory.excess_risk[first]
    finished = ~np.isnan(risks[-1])
    marks = {"share": 1.0, "replicas": float(finished.sum())}
    if finished.sum() < 2:
        tell(Answer("simulated", {}, marks, ("Stopped before two replicas had finished.",)))
        return
    with np.errstate(all="ignore"):
        mean, error = risks[:, finished].mean(1), risks[:, finished].std(1, ddof=1) / np.sqrt(finished.sum())
    samples = np.interp(steps, path.num_steps, path.num_samples)
    low = np.maximum(mean - error, mean / 10)
    columns = {"num_steps": steps, "num_samples": samples, "risk": mean, "low": low, "high": mean + error}
    kept = np.isfinite(mean)
    tell(Answer("simulated", {name: values[kept] for name, values in columns.items()}, marks))


COMPUTATIONS = {each.__name__: each for each in (run, ahead, rates, tuned, critical, growth, simulated)}
LAW = "capacity", "source", "noise_variance", "num_features", "num_samples"
DEPENDS_ON: dict[str, tuple[str, ...]] = {  # computation → parts of the state, beside the algorithm
    "run": (*LAW, "batch_size", "learning_rate"),
    "ahead": (*LAW, "overhead"),
    "rates": (*LAW, "batch_size"),
    "tuned": LAW,
    "critical": (*LAW, "overhead"),
    "growth": (*LAW, "overhead"),
}


def inputs_of(state: State, computation: str, slot: int) -> tuple[Any, ...]:
    """What a computation depends on: with the same it need not be done again."""
    return (getattr(state, SLOTS[slot]), *(getattr(state, name) for name in DEPENDS_ON[computation]))
