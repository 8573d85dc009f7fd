"""The stability edge of methods that repeat every H steps, and the rate of growth beyond it (THEORY.md T40)."""

from collections.abc import Callable

import numpy as np
from scipy.optimize import elementwise

from sgdtheory.algorithms import LinearMethod
from sgdtheory.problems import AbstractProblem, Modes
from sgdtheory.risk.solvers.rounds import PeriodStage, load
from sgdtheory.risk.solvers.spectrum import displacement
from sgdtheory.risk.systems.periodic import period_of

# Below this value of λ/λ_1 the denominators of the sum that decides about stability are 1 to this accuracy:
# `problem.modes` merges such directions.
EDGE_RESOLVED = 1e-2
# The threshold is searched upwards from this value of γλ_1, and downwards in steps of this factor if that is
# unstable.
EDGE_SEARCHED_FROM = 1e-3
# A method that is stable at this value of γλ_1 has no threshold.
LARGEST_EDGE = 1e9
# A method that is not stable at this value of γλ_1 never is.
SMALLEST_EDGE = 1e-60
# A method that moves this many times as far as SGD is unstable; more would overflow.
LARGEST_GAIN = 1e30
# After so many steps a method moves at its final speed.
MANY_STEPS = 1e6
# Relative width of the bracket at which the search for the threshold ends.
EDGE_TOLERANCE = 1e-12
# Ratio of the learning rates that are tried first: a method that is unstable on a narrower interval only is taken for
# stable.
STRIDE = 1.25
# So many learning rates are tried together: a period of each is built, which takes memory.
RATES_AT_ONCE = 6
TOLERANCES = {"xatol": EDGE_TOLERANCE, "xrtol": 0.0, "fatol": 0.0, "frtol": 0.0}  # of log γ
# Loads are cut at this value, next to the threshold of a single direction or beyond it, so that their logarithm is
# finite.
LARGEST_LOAD = 1e6


def edge_modes(problem: AbstractProblem, method: LinearMethod, rate: float) -> Modes:
    """Return the modes that resolve what decides about stability; beyond the edge a method may go any distance."""
    gain = min(max(displacement(method, rate, MANY_STEPS) / (MANY_STEPS * rate), 1.0), LARGEST_GAIN)
    return problem.modes(EDGE_RESOLVED * problem.largest_eigenvalue / gain**2)


def edges_of_rounds(
    problem: AbstractProblem, method: LinearMethod, batch: np.ndarray, stable: float = 0.0
) -> np.ndarray:
    """Return (N,) of increasing batch sizes of all workers: the first γ at which a round leaves some moment as it is.

    Larger batches have no smaller edge: where learning rates are tried one after another, that of the smallest comes
    first. `stable`: learning rates known to be below it; 0 where none are.
    """
    largest = problem.largest_eigenvalue
    if largest == 0:
        return np.full(batch.size, np.inf)
    modes = edge_modes(problem, method, 1.0)

    def log_loads(log_rate: np.ndarray, size: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            result = load(period_of(method, size, np.exp(log_rate), modes))
        return np.log(np.minimum(np.where(np.isnan(result), np.inf, result), LARGEST_LOAD))

    low = np.log(stable or EDGE_SEARCHED_FROM / largest)
    while not log_loads(np.array([low]), batch[:1])[0] < 0:
        low += np.log(EDGE_SEARCHED_FROM)
        if np.exp(low) * largest < SMALLEST_EDGE:
            return np.zeros(batch.size)
    ends = np.empty((2, batch.size))
    for some in (slice(0, 1), slice(1, batch.size)):
        ends[:, some] = _brackets(log_loads, batch[some], low, np.log(LARGEST_EDGE / largest))
        low = ends[0, 0]
    result = ends[0].copy()
    if (bounded := np.flatnonzero(ends[1] > ends[0])).size:
        root = elementwise.find_root(log_loads, tuple(ends[:, bounded]), args=(batch[bounded],), tolerances=TOLERANCES)
        result[bounded] = root.x
    return np.exp(result)


def _brackets(
    log_loads: Callable[[np.ndarray, np.ndarray], np.ndarray], size: np.ndarray, low: float, most: float
) -> np.ndarray:
    """Return (2, N) neighbours, log γ at equal strides upwards from `low`, between which stability ends first.

    The same two if it never does.
    """
    ends = np.full((2, size.size), low)
    open_ = np.arange(size.size)
    strides = np.log(STRIDE) * np.arange(RATES_AT_ONCE + 1)
    while open_.size and low <= most:
        tried = low + strides
        beyond = np.zeros((open_.size, tried.size), dtype=bool)
        rows = log_loads(np.tile(tried[1:], open_.size), np.repeat(size[open_], RATES_AT_ONCE))
        beyond[:, 1:] = rows.reshape(open_.size, RATES_AT_ONCE) >= 0
        propagated = beyond.any(1)
        after = np.where(propagated, beyond.argmax(1), RATES_AT_ONCE)
        ends[:, open_] = tried[np.where(propagated, [after - 1, after], after)]
        open_ = open_[~propagated]
        low = tried[-1]
    return ends


def growths_of_rounds(
    problem: AbstractProblem, method: LinearMethod, batch: np.ndarray, rate: np.ndarray
) -> np.ndarray:
    """(N,) rates per step at which moments grow with a batch size of all workers and a constant γ, 0 where not."""
    with np.errstate(all="ignore"):
        period = period_of(method, batch, rate, edge_modes(problem, method, float(rate[0])))
        return np.maximum(PeriodStage(period).growths(np.full(rate.size, np.inf)), 0.0) / method.period
