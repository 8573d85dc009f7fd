"""Least risk over γ of m outputs, simulated: what the experiment `muon` and `python -m benchmarks.muon` share."""

from collections.abc import Iterable
from typing import NamedTuple

import jax
import numpy as np

import sgdtheory as st
from experiments._lib.optimizers import decayed

SGD = "SGD"
SIGN = "sign"
ROTATED_SIGN = "sign, rotated"
MUON = "Muon"
PUBLISHED = "Muon, published"
ADAM = "Adam"
ROTATED_ADAM = "Adam, rotated"
METHODS: dict[str, st.LinearMethod | st.NonlinearMethod] = {
    SGD: st.SGD(),
    SIGN: st.SignSGD(),
    ROTATED_SIGN: st.SignSGD(basis="random"),
    MUON: st.Muon(0.0),
    "Muon, β = 0.9": st.Muon(0.9),
    PUBLISHED: st.Muon(0.95, nesterov=True, newton_schulz=5),
    ADAM: st.Adam(0.9, 0.99),
    ROTATED_ADAM: st.Adam(0.9, 0.99, basis="random"),
}
# Each is spread about the best of the one before: 4, 1.49 and 1.12 apart.
GRIDS = 4.0 ** np.arange(-4, 4), 16.0 ** (np.arange(-3.5, 4) / 7), 2.2 ** (np.arange(-3.5, 4) / 7)


class Runs(NamedTuple):
    """Risks at learning rates about the best.

    Attributes:
        rate: γ, (8,).
        risk: of replicas, (8, R).
    """

    rate: np.ndarray
    risk: np.ndarray


class Least(NamedTuple):
    """A least risk over γ, the γ, and the relative standard error of the risk."""

    rate: float
    risk: float
    error: float


def runs_about_the_best(
    problem: st.PowerLaw,
    method: st.NonlinearMethod,
    *,
    batch_size: float,
    num_samples: float,
    outputs: int,
    replicas: Iterable[int],
) -> Runs:
    """The last of the grids, after a linear decay to 0 and of the last iterate; `replicas` has those of each grid."""
    setting = {"batch_size": batch_size, "num_samples": num_samples, "algorithm": decayed(method), "outputs": outputs}
    rate = _first_rate(problem, method, int(num_samples // batch_size), outputs)
    rates = np.empty(0)
    risks = np.empty((0, 0))
    for grid, runs in zip(GRIDS, replicas, strict=True):
        rates = rate * grid
        found = st.simulate(jax.random.key(0), problem, **setting, learning_rate=rates, num_replicas=runs)
        risks = np.asarray(found.excess_risk)
        rate = rates[np.argmin(risks.mean(1))]
    return Runs(rates, risks)


def _first_rate(problem: st.PowerLaw, method: st.NonlinearMethod, steps: int, outputs: int) -> float:
    """Return the learning rate that leads from the start to the optimum in the given steps."""
    travelled = 2.0 / steps / np.sqrt(outputs)
    return travelled * np.sqrt(problem.dim or 1) if isinstance(method, st.Muon) else travelled


def exact_least(problem: st.PowerLaw, method: st.LinearMethod, batch_size: float, num_samples: float) -> Least:
    """Return the least risk of a linear method, which is the same with every number of outputs."""
    setting = {"batch_size": batch_size, "num_samples": num_samples, "algorithm": decayed(method)}
    found = st.optimal_learning_rate(problem, **setting)
    return Least(float(found.learning_rate), float(found.risk), 0.0)


def least(runs: Runs) -> Least:
    """γ is chosen by half of the replicas and judged by the others, and the other way round.

    The least of eight noisy means would be too low, and with few steps the risk is no parabola in log γ.
    """
    half = runs.risk.shape[1] // 2
    ends = runs.risk[:, :half], runs.risk[:, half:]
    chosen = [int(np.argmin(each.mean(1))) for each in ends]
    judged = np.concatenate([ends[1][chosen[0]], ends[0][chosen[1]]])
    error = judged.std(ddof=1) / np.sqrt(judged.size)
    rate = np.sqrt(runs.rate[chosen[0]] * runs.rate[chosen[1]])
    return Least(float(rate), float(judged.mean()), float(error / judged.mean()))
