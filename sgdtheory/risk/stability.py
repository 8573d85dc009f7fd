"""Mean-square stability of constant-step mini-batch SGD: the edge, and the rate of growth beyond it."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import elementwise

from sgdtheory._common.arguments import checked_problem, whole_array
from sgdtheory.algorithms import DEFAULT, SGD, Algorithm, LinearMethod, checked_algorithm
from sgdtheory.problems import AbstractProblem, Modes
from sgdtheory.risk.moments import Generators, generators
from sgdtheory.risk.spectrum import displacement, growth, loads, radii, step_spectrum

# below this a sum over directions is, to rounding, a polynomial in λ: what `problem.modes` is asked for
EDGE_RESOLVED = 1e-2  # λ/λ_1: the sum of the stability edge, whose denominators are 1 to this accuracy
NEWTON_TOLERANCE = 1e-15  # relative: a step of the edge's root this small, or downwards, is rounding
MOST_NEWTON_STEPS = 100  # ten are enough
EDGE_SEARCHED_FROM = 1e-3  # γλ_1, from which the edge of a method is looked for upwards
LARGEST_EDGE = 1e9  # of γλ_1
LARGEST_GAIN = 1e30  # times as far as SGD: what goes farther is unstable
EDGE_TOLERANCE = 1e-12  # relative
# sections of the range in which the edge of a method lies that are looked at together, and times modes
MOST_SECTIONS = 24
SECTIONS_TIMES_MODES = 400_000
MANY_STEPS = 1e6  # after which a method moves at its final speed

TOLERANCES = {"xatol": 0.0, "xrtol": 4e-16, "fatol": 0.0, "frtol": 0.0}


def max_stable_learning_rate(problem: AbstractProblem, *, batch_size: ArrayLike, algorithm: Algorithm = DEFAULT) -> Any:
    """Largest γ for which the second moments stay bounded as n → ∞ (THEORY.md T5, T20).

    Stable iff `γλ_1 < 2B/(B+1)` and `Σ_i γλ_i / (2B − (B+1)γλ_i) < 1`; the edge is the root of "= 1". With
    `ρ_i = λ_i/λ_1` and `γλ_1 = 2B/(B+1) · t/(1+t)` it is the root of `Σ ρ_i t/(1 + t(1 − ρ_i)) = B + 1`. Other methods:
    stable iff every `A − λ_i b cᵀ` is and `Σ_i g_i/(1 − g_i) < 1`, all g_i < 1, with `g_i = (λ_i²/B) Σ_j (cᵀA_i^j b)²`.

    Example:
        >>> import sgdtheory as st
        >>> edge = st.max_stable_learning_rate(st.PowerLaw(2.0, 3.0), batch_size=[1, 1_000_000])
        >>> print(" ".join(f"{rate:.4f}" for rate in edge))
        0.6110 2.0000

    Args:
        problem: PowerLaw, LeastSquares or your own AbstractProblem.
        batch_size: B, whole numbers ≥ 1; scalar or array.
        algorithm: with constant learning rate, batch size and coefficients; its average does not matter.

    Returns:
        γ, in units of 1/λ, with the shape of `batch_size`; `inf` where every eigenvalue is 0.

    Raises:
        ValueError: batch_size not whole or below 1, or an algorithm whose steps are not all alike.
    """
    checked_problem(problem)
    batch = whole_array("batch_size", batch_size)
    if not checked_algorithm(algorithm).constant:
        raise ValueError(
            "algorithm must have constant learning rate, batch size and coefficients to have a stability edge, got "
            f"{algorithm}; whether a schedule diverges its excess_risk says"
        )
    return method_edge(problem, algorithm.method, batch)[()]


def method_edge(problem: AbstractProblem, method: LinearMethod, batch: np.ndarray) -> np.ndarray:
    """The stability edge of a method with constant coefficients, for any real B > 0."""
    if method == SGD():
        return stability_edge(problem, batch)
    edges = {size: _edge(problem, method, size) for size in np.unique(batch).tolist()}
    return np.vectorize(edges.get, otypes=[float])(batch) if batch.size else np.empty(batch.shape)


def _edge(problem: AbstractProblem, method: LinearMethod, batch: float) -> float:
    """By sections of what `_stable` says, from far below up: the first γ at which it changes."""
    largest = problem.largest_eigenvalue
    if largest == 0:
        return np.inf
    low = EDGE_SEARCHED_FROM / largest
    while not _stable(problem, method, batch, np.array([low]))[0]:
        low *= EDGE_SEARCHED_FROM
        if low * largest < 1e-60:
            return 0.0
    modes = problem.modes(EDGE_RESOLVED * largest).eigenvalue.size
    sections = int(np.clip(SECTIONS_TIMES_MODES // modes, 2, MOST_SECTIONS))
    high = low
    while high == low:
        if low * largest > LARGEST_EDGE:
            return low
        low, high = _first_change(problem, method, batch, low * 1.25 ** np.arange(sections + 1))
    while high - low > EDGE_TOLERANCE * high:
        low, high = _first_change(problem, method, batch, np.linspace(low, high, sections + 1))
    return (low + high) / 2


def _first_change(
    problem: AbstractProblem, method: LinearMethod, batch: float, rates: np.ndarray
) -> tuple[float, float]:
    """The neighbours of increasing γ between which stability ends first, (last, last) if it does not.

    The first is known to be stable.
    """
    unstable = np.flatnonzero(~_stable(problem, method, batch, rates)[1:])
    if unstable.size == 0:
        return float(rates[-1]), float(rates[-1])
    return float(rates[unstable[0]]), float(rates[unstable[0] + 1])


def _stable(problem: AbstractProblem, method: LinearMethod, batch: float, rates: np.ndarray) -> np.ndarray:
    """Whether second moments stay bounded with each of T learning rates."""
    maps, modes = _maps(problem, method, batch, rates)
    return (radii(maps.propagator_decay) <= 1 + 1e-14) & (loads(maps, modes.multiplicity) < 1)


def _maps(problem: AbstractProblem, method: LinearMethod, batch: float, rates: np.ndarray) -> tuple[Generators, Modes]:
    """Maps of steps, without a mode's own part, and modes that resolve what decides about stability."""
    matrices = method.matrices(rates, np.zeros(rates.size))
    first = float(rates[0])  # beyond the edge a method may go any distance
    gain = min(max(displacement(method, first, MANY_STEPS) / (MANY_STEPS * first), 1.0), LARGEST_GAIN)
    modes = problem.modes(EDGE_RESOLVED * problem.largest_eigenvalue / gain**2)
    return generators(matrices, np.full(rates.size, batch), modes.eigenvalue, itself=False), modes


def growth_beyond(problem: AbstractProblem, method: LinearMethod, batch: float, rate: float) -> float:
    """Rate per step at which second moments grow with a constant γ, 0 where they do not."""
    maps, modes = _maps(problem, method, batch, np.array([rate]))
    with np.errstate(all="ignore"):
        slowest = step_spectrum(maps.propagator_decay).at(0).slowest
        return max(growth(maps, modes.multiplicity, slowest, np.inf), 0.0)


def stability_edge(problem: AbstractProblem, batch: np.ndarray) -> np.ndarray:
    """`max_stable_learning_rate` for a checked problem and any real B > 0."""
    if problem.largest_eigenvalue == 0:
        return np.full(batch.shape, np.inf)
    modes = problem.modes(EDGE_RESOLVED * problem.largest_eigenvalue)
    ratio = modes.eigenvalue / problem.largest_eigenvalue

    weight = modes.multiplicity * ratio
    gap = 1 - ratio
    target = (batch + 1).ravel()
    t = target / weight.sum() * (1 - 1e-12)
    index = np.arange(target.size)
    for _ in range(MOST_NEWTON_STEPS):  # the sum is concave in t: from below Newton's steps rise, never too far
        inverse = 1 / (1 + t[index, None] * gap)
        terms = weight * inverse
        step = (target[index] - t[index] * terms.sum(1)) / (terms * inverse).sum(1)
        t[index] += step
        index = index[step > NEWTON_TOLERANCE * t[index]]
        if not index.size:
            break
    t = t.reshape(batch.shape)
    return 2 * batch / ((batch + 1) * problem.largest_eigenvalue) * t / (1 + t)


def growth_rate(modes: Modes, x: np.ndarray, batch: np.ndarray) -> np.ndarray:
    """log of the largest eigenvalue μ of the one-step map of the second moments, where it exceeds 0.

    μ is the largest root of `Σ_i v_i/(μ − α_i) = 1` (THEORY.md T2). Where the map is stable the result is 0.

    Args:
        modes: K weighted modes.
        x: (P, K) γλ.
        batch: (P, 1) batch sizes.

    Returns:
        (P,) rates per step, not negative.
    """
    margin = 2 - x * ((batch + 1) / batch)  # (1 − α)/x
    load = (modes.multiplicity * x / np.where(margin > 0, margin, 1.0)).sum(1) / batch[:, 0]
    unstable = ~((margin > 0).all(1) & (load < 1))
    rate = np.zeros(x.shape[0])
    if unstable.any():
        x = x[unstable]
        batch = batch[unstable]
        source = modes.multiplicity * x**2 / batch
        lag = -x * (2 - x * ((batch + 1) / batch))  # α − 1
        top = np.maximum(lag.max(1), 0.0)
        rate[unstable] = np.log1p(top + _largest_root(source, top[:, None] - lag))
    return rate


def _largest_root(source: np.ndarray, gap: np.ndarray) -> np.ndarray:
    """The root δ > 0 of `Σ_k source_k/(δ + gap_k) = 1`, row by row; gap ≥ 0. 0 where it is below e^−60."""
    rows = np.arange(source.shape[0])

    def excess(log_delta: np.ndarray, row: np.ndarray) -> np.ndarray:
        return (source[row] / (np.exp(log_delta)[..., None] + gap[row])).sum(-1) - 1

    low = np.log(np.maximum(np.where(gap == 0, source, 0.0).sum(1), np.exp(-60.0))) - 1e-9
    high = np.log(source.sum(1)) + 1e-9
    root = elementwise.find_root(excess, (low, high), args=(rows,), tolerances=TOLERANCES)
    return np.where(root.success, np.exp(root.x), 0.0)
