"""Mean-square stability of constant-step mini-batch SGD: the edge, and the rate of growth beyond it."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import elementwise

from sgdtheory._common.arguments import checked_problem, whole_array
from sgdtheory.algorithms import DEFAULT, SGD, Algorithm, LinearMethod, checked_algorithm
from sgdtheory.problems import AbstractProblem, FiniteSampleProblem, Modes
from sgdtheory.risk.solvers.round_stability import (
    EDGE_RESOLVED,
    EDGE_SEARCHED_FROM,
    EDGE_TOLERANCE,
    LARGEST_EDGE,
    SMALLEST_EDGE,
    STRIDE,
    edge_modes,
    edges_of_rounds,
    growths_of_rounds,
)
from sgdtheory.risk.solvers.spectrum import growths, own_responses, radii, step_spectrum
from sgdtheory.risk.systems.delayed import gains as late_gains
from sgdtheory.risk.systems.delayed import growth as late_growth
from sgdtheory.risk.systems.finite_sample import sample_edge
from sgdtheory.risk.systems.moments import Generators, generators

# A relative step of the threshold's root that is this small is rounding: Newton's method has converged.
NEWTON_TOLERANCE = 1e-15
# Ten steps of Newton's method are enough in practice; more than this do not converge.
MOST_NEWTON_STEPS = 100
# So many learning rates are tried together, fewer where modes are many: see RATES_TIMES_MODES.
RATES_AT_ONCE = 24
# So many numbers, 3 MB, are in the maps that are tried together.
RATES_TIMES_MODES = 400_000
# Two learning rates are tried on both sides of where a straight line through the margins crosses 0, at a distance of
# this share of the squared width of the bracket: it then narrows quadratically.
NEARER = 0.1
# A response that is below 0 by this share of the largest one is rounded, and is 0.
ROUNDED_BELOW_0 = 1e-9

TOLERANCES = {"xatol": 0.0, "xrtol": 4e-16, "fatol": 0.0, "frtol": 0.0}


def max_stable_learning_rate(problem: AbstractProblem, *, batch_size: ArrayLike, algorithm: Algorithm = DEFAULT) -> Any:
    """Return the largest γ for which the second moments stay bounded as n → ∞ (THEORY.md T5, T20).

    Stable iff `γλ_1 < 2B/(B+1)` and `Σ_i γλ_i / (2B − (B+1)γλ_i) < 1`; the edge is the root of "= 1". With
    `ρ_i = λ_i/λ_1` and `γλ_1 = 2B/(B+1) · t/(1+t)` it is the root of `Σ ρ_i t/(1 + t(1 − ρ_i)) = B + 1`. Other methods:
    stable iff every `A − λ_i b cᵀ` is and `Σ_i g_i/(1 − g_i) < 1`, all g_i < 1, with `g_i = (λ_i²/B) Σ_j (cᵀA_i^j b)²`.
    Methods that repeat every H steps: the first γ at which a round no longer shrinks the moments (T40).

    Example:
        >>> import sgdtheory as st
        >>> edge = st.max_stable_learning_rate(st.PowerLaw(2.0, 3.0), batch_size=[1, 1_000_000])
        >>> print(" ".join(f"{rate:.4f}" for rate in edge))
        0.6110 2.0000

    Args:
        problem: PowerLaw, LeastSquares or your own AbstractProblem.
        batch_size: B, of one worker where there are several, whole numbers ≥ 1; scalar or array.
        algorithm: with constant learning rate and batch size, steps or rounds all alike; its average does not matter.

    Returns:
        γ, in units of 1/λ, with the shape of `batch_size`; `inf` where every eigenvalue is 0.

    Raises:
        ValueError: batch_size not whole or below 1, or an algorithm whose steps are not all alike.
    """
    checked_problem(problem)
    batch = whole_array("batch_size", batch_size)
    checked_algorithm(algorithm)
    if not algorithm.steady:
        raise ValueError(
            "algorithm must have constant learning rate, batch size and coefficients to have a stability edge, got "
            f"{algorithm}; whether a schedule diverges its excess_risk says"
        )
    first = np.zeros(1)
    batch = np.maximum(np.rint(batch * algorithm.batch_schedule.factors(first, 1.0)[0]), 1.0)
    factor = float(algorithm.schedule.factors(first, 1.0)[0])  # of every step: a schedule may be one stage below 1
    if isinstance(problem, FiniteSampleProblem):
        edge = sample_edge(problem, algorithm, batch, method_edge)
    else:
        edge = method_edge(problem, algorithm.method, batch)
    with np.errstate(divide="ignore"):  # steps of γ = 0 are stable
        return (edge / factor)[()]


def method_edge(problem: AbstractProblem, method: LinearMethod, batch: np.ndarray, stable: float = 0.0) -> np.ndarray:
    """Return the stability edge of a method with constant coefficients, for any real B > 0.

    `stable`: a γ that is known to be stable with these B, which may spare a search of smaller ones; 0 where none is.
    """
    if method == SGD():
        return stability_edge(problem, batch)
    if not batch.size:
        return np.empty(batch.shape)
    sizes, place = np.unique(method.workers * batch, return_inverse=True)
    if method.step_dependence == "none":
        return _edges(problem, method, sizes)[place].reshape(batch.shape)
    return edges_of_rounds(problem, method, sizes, stable)[place].reshape(batch.shape)


def _edges(problem: AbstractProblem, method: LinearMethod, batch: np.ndarray) -> np.ndarray:
    """Return the first γ at which `_margins` is 0, (N,) for increasing B, from more and more closely spaced γ."""
    largest = problem.largest_eigenvalue
    if largest == 0:
        return np.full(batch.size, np.inf)
    low = EDGE_SEARCHED_FROM / largest
    while not _margins(problem, method, batch[:1], np.array([low]))[0, 0] > 0:
        low *= EDGE_SEARCHED_FROM
        if low * largest < SMALLEST_EDGE:
            return np.zeros(batch.size)
    modes = problem.modes(EDGE_RESOLVED * largest).eigenvalue.size
    number = int(np.clip(RATES_TIMES_MODES // modes, 2, RATES_AT_ONCE))
    ends = np.empty((2, batch.size))
    left = np.arange(batch.size)
    while left.size and low * largest <= LARGEST_EDGE:
        rates = low * STRIDE ** np.arange(number + 1)
        ends[:, left], _ = _brackets(problem, method, batch[left], rates)
        low = rates[-1]
        left = left[ends[0, left] == low]
    bounded = ends[0] < ends[1]
    if not bounded.any():
        return ends[0]
    rates = np.unique(np.linspace(ends[0, bounded], ends[1, bounded], number + 1))
    ends[:, bounded] = _refined(problem, method, batch[bounded], *_brackets(problem, method, batch[bounded], rates))
    return ends.mean(0)


def _brackets(
    problem: AbstractProblem, method: LinearMethod, batch: np.ndarray, rates: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return neighbours of increasing γ, (2, N), between which stability ends first, and the margins there.

    The first γ is stable with all B.
    """
    margins = _margins(problem, method, batch, rates)
    beyond = ~(margins > 0)
    after = np.where(beyond.any(1), beyond.argmax(1), rates.size)
    indices = np.minimum([after - 1, after], rates.size - 1)
    return rates[indices], margins[np.arange(batch.size), indices]


def _refined(
    problem: AbstractProblem, method: LinearMethod, batch: np.ndarray, ends: np.ndarray, margins: np.ndarray
) -> np.ndarray:
    """Return brackets of the threshold, (2, N), of width `EDGE_TOLERANCE`.

    By two γ on both sides of where a straight line through the margins crosses 0, the nearer the narrower the bracket,
    so that it narrows quadratically; by a third of the bracket where that has failed.
    """
    stuck = np.zeros(batch.size, dtype=bool)
    while (open_ := np.flatnonzero(ends[1] - ends[0] > EDGE_TOLERANCE * ends[1])).size:
        low, high = ends[:, open_]
        above, below = margins[:, open_]
        width = high - low
        with np.errstate(all="ignore"):  # A margin may be infinite, where no batch is too small.
            line = low + width * above / (above - below)
        centre = np.where(stuck[open_] | ~np.isfinite(line), (low + high) / 2, line)
        near = np.maximum(NEARER * width**2 / high, EDGE_TOLERANCE * high / 4)
        reach = np.where(stuck[open_], width / 6, np.minimum(near, width / 6))
        pair = np.clip([centre - reach, centre + reach], low, high)
        with np.errstate(all="ignore"):  # A mode that drives no noise may be at its own threshold: 0/0.
            values = batch[open_] * _least_inverses(problem, method, pair.ravel()).reshape(pair.shape) - 1
        for rate, value in zip(pair, values, strict=True):
            side = (~(value > 0)).astype(int)
            inside = (rate > ends[0, open_]) & (rate < ends[1, open_])
            ends[side[inside], open_[inside]] = rate[inside]
            margins[side[inside], open_[inside]] = value[inside]
        stuck[open_] = ~stuck[open_] & (ends[1, open_] - ends[0, open_] > width / 2)
    return ends


def _margins(problem: AbstractProblem, method: LinearMethod, batch: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """Return (N, T) by how much B exceeds, relative, the smallest with which γ is stable: 0 at the edge."""
    return batch[:, None] * _least_inverses(problem, method, rates) - 1


def _least_inverses(problem: AbstractProblem, method: LinearMethod, rates: np.ndarray) -> np.ndarray:
    """Return (T,) 1/B of the smallest B with which learning rates are stable; 0 or less where none is.

    The root of `Σ_i G_i/(B − G_i) = 1`, `G_i = B g_i`, as g_i ∝ 1/B. Beyond the edge of a direction alone its G is
    below 0, and 1/2G goes on as 1/B does on its way to it.
    """
    gain, settles, modes = _gains(problem, method, rates)
    largest = gain.max(1)
    stable = settles & (gain >= -ROUNDED_BELOW_0 * largest[:, None]).all(1)
    result = np.minimum(1 / (2 * np.where(gain < 0, gain, -np.inf)), 0.0).min(1)
    gain = np.maximum(gain[stable], 0.0)
    batch = (gain * (1 + modes.driving)).max(1)  # with which one direction would be at its edge alone
    for _ in range(MOST_NEWTON_STEPS):  # 1/Σ is concave in B: from below Newton's steps rise, never too far
        share = modes.driving * gain / (batch[:, None] - gain)
        total = share.sum(1)
        step = total * (total - 1) / (share / (batch[:, None] - gain)).sum(1)
        batch += step
        if not (step > NEWTON_TOLERANCE * batch).any():
            break
    result[stable] = 1 / batch
    return result


def _gains(problem: AbstractProblem, method: LinearMethod, rates: np.ndarray) -> tuple[np.ndarray, np.ndarray, Modes]:
    """Return (T, K) G_i, (T,) whether the mean comes to rest, and modes that resolve what decides about stability."""
    if method.late:
        modes = problem.modes(EDGE_RESOLVED * problem.largest_eigenvalue)
        return *late_gains(rates[:, None] * modes.eigenvalue, method), modes
    maps, modes = _maps(problem, method, np.ones(rates.size), rates)
    return own_responses(maps), radii(maps.propagator_decay) <= 1 + 1e-14, modes


def _maps(
    problem: AbstractProblem, method: LinearMethod, batch: np.ndarray, rates: np.ndarray
) -> tuple[Generators, Modes]:
    """Return the maps of steps without a mode's own part, and modes that resolve what decides about stability."""
    matrices = method.matrices(rates, np.zeros(rates.size))
    modes = edge_modes(problem, method, float(rates[0]))
    return generators(matrices, batch, modes.eigenvalue, itself=False), modes


def is_stable(problem: AbstractProblem, method: LinearMethod, batch: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """Return (N,) whether second moments stay bounded with a constant γ and any real B > 0; all steps are alike."""
    with np.errstate(all="ignore"):
        if method == SGD():
            modes = problem.modes(EDGE_RESOLVED * problem.largest_eigenvalue)
            return _settles(modes, rate[:, None] * modes.eigenvalue, batch[:, None])
        batch = method.workers * batch
        gain, settles, modes = _gains(problem, method, rate)
        gain = np.where(gain < -ROUNDED_BELOW_0 * gain.max(1, keepdims=True), np.inf, np.maximum(gain, 0.0))
        margin = batch[:, None] - gain
        return settles & (margin > 0).all(1) & ((modes.driving * gain / margin).sum(1) < 1)


def growths_beyond(problem: AbstractProblem, method: LinearMethod, batch: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """Return (N,) rates per step at which second moments grow with B and a constant γ, 0 where they do not."""
    if method.late:
        modes = problem.modes(EDGE_RESOLVED * problem.largest_eigenvalue)
        each = [late_growth(modes, method, *one) for one in zip(rate.tolist(), batch.tolist(), strict=True)]
        return np.maximum(each, 0.0)
    batch = method.workers * batch
    if method.step_dependence == "period":
        return growths_of_rounds(problem, method, batch, rate)
    maps, modes = _maps(problem, method, batch, rate)
    with np.errstate(all="ignore"):
        slowest = step_spectrum(maps.propagator_decay).slowest
        return np.maximum(growths(maps, modes.driving, slowest, np.full(rate.size, np.inf)), 0.0)


def stability_edge(problem: AbstractProblem, batch: np.ndarray) -> np.ndarray:
    """Return `max_stable_learning_rate` for a checked problem and any real B > 0."""
    if problem.largest_eigenvalue == 0:
        return np.full(batch.shape, np.inf)
    modes = problem.modes(EDGE_RESOLVED * problem.largest_eigenvalue)
    ratio = modes.eigenvalue / problem.largest_eigenvalue

    weight = modes.driving * ratio
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


def _settles(modes: Modes, x: np.ndarray, batch: np.ndarray) -> np.ndarray:
    """Return (P,) whether the second moments of SGD stay bounded, for (P, K) γλ and (P, 1) B (THEORY.md T5)."""
    margin = 2 - x * ((batch + 1) / batch)  # (1 − α)/x
    loads = (modes.driving * x / np.where(margin > 0, margin, 1.0)).sum(1) / batch[:, 0]
    return (margin > 0).all(1) & (loads < 1)


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
    unstable = ~_settles(modes, x, batch)
    rate = np.zeros(x.shape[0])
    if unstable.any():
        x = x[unstable]
        batch = batch[unstable]
        source = modes.driving * x**2 / batch
        lag = -x * (2 - x * ((batch + 1) / batch))  # α − 1
        top = np.maximum(lag.max(1), 0.0)
        rate[unstable] = np.log1p(top + _largest_root(source, top[:, None] - lag))
    return rate


def _largest_root(source: np.ndarray, gap: np.ndarray) -> np.ndarray:
    """Return the root δ > 0 of `Σ_k source_k/(δ + gap_k) = 1`, row by row; gap ≥ 0. 0 where it is below e^−60."""
    rows = np.arange(source.shape[0])

    def excess(log_delta: np.ndarray, row: np.ndarray) -> np.ndarray:
        return (source[row] / (np.exp(log_delta)[..., None] + gap[row])).sum(-1) - 1

    low = np.log(np.maximum(np.where(gap == 0, source, 0.0).sum(1), np.exp(-60.0))) - 1e-9
    high = np.log(source.sum(1)) + 1e-9
    root = elementwise.find_root(excess, (low, high), args=(rows,), tolerances=TOLERANCES)
    return np.where(root.success, np.exp(root.x), 0.0)
