"""The stability edge of methods that repeat every H steps, and the rate of growth beyond it (THEORY.md T40)."""

from typing import Any

import numpy as np
from scipy.optimize import brentq

from sgdtheory.algorithms import LinearMethod
from sgdtheory.problems import AbstractProblem, Modes
from sgdtheory.risk.period import period_of
from sgdtheory.risk.rounds import PeriodStage, load
from sgdtheory.risk.spectrum import displacement

# below this a sum over directions is, to rounding, a polynomial in λ: what `problem.modes` is asked for
EDGE_RESOLVED = 1e-2  # λ/λ_1: the sum of the stability edge, whose denominators are 1 to this accuracy
EDGE_SEARCHED_FROM = 1e-3  # γλ_1, from which the edge of a method is looked for upwards
LARGEST_EDGE = 1e9  # of γλ_1
SMALLEST_EDGE = 1e-60  # of γλ_1: a method that is not stable there never is
LARGEST_GAIN = 1e30  # times as far as SGD: what goes farther is unstable
MANY_STEPS = 1e6  # after which a method moves at its final speed
EDGE_TOLERANCE = 1e-12  # relative
STRIDE = 1.25  # between the learning rates that are looked at first
RATES_AT_ONCE = 6  # so many of them together
BEFORE = 1e-6  # of the edge with fewer samples in a batch: from there on that with more is looked for
LARGEST_LOAD = 1e6  # of a learning rate next to the edge of a direction alone, or beyond it


def edge_modes(problem: AbstractProblem, method: LinearMethod, rate: float) -> Modes:
    """Modes that resolve what decides about stability; beyond the edge a method may go any distance."""
    gain = min(max(displacement(method, rate, MANY_STEPS) / (MANY_STEPS * rate), 1.0), LARGEST_GAIN)
    return problem.modes(EDGE_RESOLVED * problem.largest_eigenvalue / gain**2)


def edges_of_rounds(problem: AbstractProblem, method: LinearMethod, batch: np.ndarray) -> np.ndarray:
    """(N,) of increasing batch sizes of all workers: the first γ at which a round leaves some moment as it is.

    Larger batches have no smaller edge, so that each search begins where the one before it has ended.
    """
    largest = problem.largest_eigenvalue
    if largest == 0:
        return np.full(batch.size, np.inf)
    modes = edge_modes(problem, method, 1.0)

    def loads(size: float, rates: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            found = load(period_of(method, np.full(rates.size, size), rates, modes))
        return np.minimum(np.where(np.isnan(found), np.inf, found), LARGEST_LOAD)

    low = EDGE_SEARCHED_FROM / largest
    while not loads(float(batch[0]), np.array([low]))[0] < 1:
        low *= EDGE_SEARCHED_FROM
        if low * largest < SMALLEST_EDGE:
            return np.zeros(batch.size)
    found = np.empty(batch.size)
    for place, size in enumerate(batch.tolist()):
        beyond = np.zeros(1, dtype=bool)
        while not beyond.any() and low * largest <= LARGEST_EDGE:
            rates = low * STRIDE ** np.arange(1, RATES_AT_ONCE + 1)
            beyond = loads(size, rates) >= 1
            last = int(beyond.argmax()) if beyond.any() else RATES_AT_ONCE
            high = rates[min(last, RATES_AT_ONCE - 1)]
            low = rates[last - 1] if last else low
        if not beyond.any():
            found[place:] = low
            break

        def above(log_rate: float, size: float = size) -> float:
            return float(np.log(loads(size, np.array([np.exp(log_rate)]))[0]))

        root: Any = brentq(above, np.log(low), np.log(high), xtol=EDGE_TOLERANCE)
        found[place] = np.exp(root)
        low = found[place] * (1 - BEFORE)
    return found


def growths_of_rounds(
    problem: AbstractProblem, method: LinearMethod, batch: np.ndarray, rate: np.ndarray
) -> np.ndarray:
    """(N,) rates per step at which moments grow with a batch size of all workers and a constant γ, 0 where not."""
    with np.errstate(all="ignore"):
        period = period_of(method, batch, rate, edge_modes(problem, method, float(rate[0])))
        return np.maximum(PeriodStage(period).growths(np.full(rate.size, np.inf)), 0.0) / method.period
