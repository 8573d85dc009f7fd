"""Loss curves at several batch sizes, of networks and of the theory, and the steps that they need to a target."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

import sgdtheory as st
from sgdtheory.training import SGD, Adam, Cosine, TrainConfig, train_many

WINDOW = 0.06  # of log t to either side, over which log losses of one run are averaged
FIRST = 32  # step of the first row that is fitted
ROWS = 50  # of a curve that is fitted
EVALUATIONS = 20  # steps between them
DECAY = Cosine(final=0.01)
SHAPES = {"constant": st.Constant(), "cosine": st.Cosine(final=0.1), "drop": st.Stages((0.0, 0.4), (1.0, 0.3))}
FLOOR = 2.0  # L0 of the theory's curves
LENGTH = 0.1  # of the correlation of their scatter, in log t


class Losses(NamedTuple):
    """Losses of one run.

    Attributes:
        step: (K,).
        loss: (K,).
    """

    step: np.ndarray
    loss: np.ndarray

    def steps_to(self, target: float) -> float:
        """Return where the loss first reaches a target, between rows by a line in log loss; nan if it does not."""
        below = np.flatnonzero(self.loss <= target)
        if not below.size:
            return float("nan")
        k = int(below[0])
        if k == 0:
            return float(self.step[0])
        share = np.log(self.loss[k - 1] / target) / np.log(self.loss[k - 1] / self.loss[k])
        return round(float(self.step[k - 1] + share * (self.step[k] - self.step[k - 1])), 2)

    def smooth(self) -> "Losses":
        """Smooth log losses by means over steps within a factor of e^±WINDOW."""
        known = (self.step > 0) & np.isfinite(self.loss)
        place, value = np.log(self.step[known]), np.log(self.loss[known])
        mean = [value[np.abs(place - center) < WINDOW].mean() for center in place]
        return Losses(self.step[known], np.exp(mean))


def thinned(run: Losses, rates: np.ndarray, batch: float) -> st.LossCurve:
    """ROWS rows, evenly in log t from FIRST on."""
    grid = np.geomspace(FIRST, run.step[-1], ROWS)
    kept = np.unique([int(np.argmin(np.abs(run.step - place))) for place in grid])
    return st.LossCurve(run.step[kept], rates[kept], run.loss[kept], batch)


# ------------------------------------------------------------------ networks


def num_steps(batch: float, reference: float, steps: int, fewest: int, most: int) -> int:
    """Length of a run: it falls more slowly than 1/B, as the steps to a target do."""
    return int(np.clip(steps * (reference / batch) ** 0.7, fewest, most))


def network(optimizer: str, **fields: object) -> TrainConfig:
    """A network of width 64 on the nonlinear teacher."""
    kind = SGD() if optimizer == "SGD" else Adam()
    return replace(TrainConfig(optimizer=kind, averages=(), width=64, eval_every=EVALUATIONS), **fields)  # pyright: ignore[reportArgumentType]


def network_runs(base: TrainConfig, rates: Sequence[float], trials: int) -> dict[tuple[float, int], Losses]:
    """(γ, trial) → the loss on the hold-out; a trial has its own data and initial weights."""
    keys = [(rate, trial) for rate in rates for trial in range(trials)]
    found = train_many([replace(base, learning_rate=rate, seed=trial, data_seed=trial) for rate, trial in keys])
    return {
        key: Losses(np.array(one.steps, float), np.array(one.curve())) for key, one in zip(keys, found, strict=True)
    }


def decaying(rate: float, steps: np.ndarray, length: int) -> np.ndarray:
    """Learning rates of DECAY at these steps."""
    return rate * np.asarray(DECAY.factors(np.minimum(steps, length - 1), length))


# ------------------------------------------------------------------ theory


def theory_run(problem: st.PowerLaw, shape: str, rate: float, batch: float, length: int) -> Losses:
    """Risk of the last iterate by the exact engine, on L0 = FLOOR."""
    algorithm = st.Algorithm(schedule=SHAPES[shape], average=st.LastIterate())
    setting = {"batch_size": batch, "learning_rate": rate, "num_samples": batch * length}
    path = st.risk_path(problem, **setting, algorithm=algorithm, points=200)
    return Losses(path.num_steps, np.asarray(path.iterate.total) + FLOOR)


def theory_curve(
    problem: st.PowerLaw,
    shape: str,
    rate: float,
    batch: float,
    length: int,
    scatter: float,
    random: np.random.Generator,
) -> st.LossCurve:
    """A curve to fit, whose log loss scatters by an Ornstein–Uhlenbeck process in log t."""
    run = theory_run(problem, shape, rate, batch, length)
    step = np.unique(np.append(np.round(np.geomspace(FIRST, length, ROWS)), round(0.4 * length)))
    kept = np.exp(-np.diff(np.log(step), prepend=0) / LENGTH)
    noise = np.zeros(step.size)
    for k in range(step.size):
        noise[k] = kept[k] * noise[k - 1] + np.sqrt(1 - kept[k] ** 2) * random.standard_normal()
    risk = np.exp(np.interp(np.log(step), np.log(np.maximum(run.step, 0.5)), np.log(run.loss - FLOOR)))
    rates = rate * SHAPES[shape].factors(np.minimum(step, length - 1), length)
    return st.LossCurve(step, rates, (FLOOR + risk) * np.exp(scatter * noise), batch)
