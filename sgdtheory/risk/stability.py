"""Mean-square stability of constant-step mini-batch SGD: the edge, and the rate of growth beyond it."""

from collections.abc import Callable
from functools import partial
from typing import Any, overload

import numpy as np

from sgdtheory._common.arguments import checked_problem, whole_array
from sgdtheory._common.array_like import ArrayLike
from sgdtheory.algorithms import DEFAULT, SGD, Algorithm, LinearMethod, checked_algorithm
from sgdtheory.problems import AbstractProblem, FiniteSampleProblem, Modes
from sgdtheory.risk.solvers.rounds import PeriodStage, load
from sgdtheory.risk.solvers.spectrum import (
    LARGEST_LOAD,
    ROOT_TOLERANCE,
    final_speed,
    own_responses,
    radii,
    root_between,
)
from sgdtheory.risk.systems.constant import make_stage
from sgdtheory.risk.systems.delayed import gains as delayed_gains
from sgdtheory.risk.systems.delayed import growth as delayed_growth
from sgdtheory.risk.systems.finite_sample import sample_edge
from sgdtheory.risk.systems.moments import generators
from sgdtheory.risk.systems.periodic import period_of
from sgdtheory.risk.systems.runs import Coefficients

# A relative step of the threshold's root that is this small is rounding: Newton's method has converged.
NEWTON_TOLERANCE = 1e-15
# Ten steps of Newton's method are enough in practice; more than this do not converge.
MOST_NEWTON_STEPS = 100
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
EDGE_TOLERANCE = 1e-12  # The search for the threshold ends at a bracket of this relative width.
# The learning rates that are tried first have this ratio: a method that is unstable on a narrower interval only is
# taken for stable.
STRIDE = 1.25
# This many learning rates of a method with rounds are tried together: a period of each is built, which takes memory.
ROUNDS_AT_ONCE = 6
# At most this many learning rates are tried together, fewer where modes are many: see RATES_TIMES_MODES.
RATES_AT_ONCE = 24
RATES_TIMES_MODES = 400_000  # Maps that are tried together have at most this many numbers, 3 MB.
# A response that is below 0 by this share of the largest one is rounded, and is 0.
ROUNDED_BELOW_0 = 1e-9


@overload
def max_stable_learning_rate(
    problem: AbstractProblem, *, batch_size: float, algorithm: Algorithm = DEFAULT
) -> float: ...
@overload
def max_stable_learning_rate(
    problem: AbstractProblem, *, batch_size: ArrayLike, algorithm: Algorithm = DEFAULT
) -> np.ndarray: ...
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
    largest = problem.largest_eigenvalue
    if largest == 0 or not batch.size:
        return np.full(batch.shape, np.inf)
    sizes, place = np.unique(method.workers * batch, return_inverse=True)
    if method.step_dependence == "none":
        modes = problem.modes(EDGE_RESOLVED * largest).eigenvalue.size
        number = int(np.clip(RATES_TIMES_MODES // modes, 2, RATES_AT_ONCE))
        result = _edges(partial(_margins_of_steps, problem, method), sizes, largest, 0.0, number, closer=True)
    else:
        margins = partial(_margins_of_rounds, edge_modes(problem, method, 1.0), method)
        result = _edges(margins, sizes, largest, stable, ROUNDS_AT_ONCE)
    return result[place].reshape(batch.shape)


Margins = Callable[[np.ndarray, np.ndarray], np.ndarray]  # of B and γ: positive where these are stable


def _edges(
    margins: Margins, batch: np.ndarray, largest: float, stable: float, number: int, closer: bool = False
) -> np.ndarray:
    """Return the first γ at which margins are 0, (N,) for increasing B.

    Args:
        margins: of B and γ.
        batch: (N,) B.
        largest: λ_1.
        stable: a γ that is known to be stable; 0 where none is.
        number: how many γ are tried together.
        closer: whether so many more are tried between the first that are not stable and the last that are.
    """
    low = stable or EDGE_SEARCHED_FROM / largest
    while not margins(batch[:1], np.array([low]))[0] > 0:
        low *= EDGE_SEARCHED_FROM
        if low * largest < SMALLEST_EDGE:
            return np.zeros(batch.size)
    ends = np.full((2, batch.size), low)
    # Larger batches have no smaller edge, so that they begin where that of the smallest has been found.
    for left in (np.arange(1), np.arange(1, batch.size)):
        while left.size and low * largest <= LARGEST_EDGE:
            rates = low * STRIDE ** np.arange(number + 1)
            ends[:, left] = _brackets(margins, batch[left], rates)
            low = rates[-1]  # stable with those that are left
            left = left[ends[0, left] == ends[1, left]]
        low = ends[0, 0]
    bounded = np.flatnonzero(ends[0] < ends[1])
    if bounded.size:
        if closer:
            rates = np.unique(np.linspace(ends[0, bounded], ends[1, bounded], number + 1))
            ends[:, bounded] = _brackets(margins, batch[bounded], rates)
        low, high = np.log(ends[:, bounded])

        def margin(log_rate: np.ndarray, indices: np.ndarray) -> np.ndarray:
            """Return a margin whose sign says, even where it is 0/0, whether all moments settle."""
            return np.nan_to_num(margins(batch[indices], np.exp(log_rate)), nan=-1.0)

        ends[0, bounded] = np.exp(root_between(margin, low, high, EDGE_TOLERANCE, bounded))
    return ends[0]


def _brackets(margins: Margins, batch: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """Return (2, N) neighbours of increasing γ, (T,), between which stability ends first.

    The last γ twice where all are stable. The first γ is known to be stable with all B.
    """
    beyond = ~(margins(batch[:, None], rates[1:]) > 0)
    after = np.where(beyond.any(1), beyond.argmax(1) + 1, rates.size)
    return rates[np.minimum([after - 1, after], rates.size - 1)]


def _margins_of_steps(
    problem: AbstractProblem, method: LinearMethod, batch: np.ndarray, rates: np.ndarray
) -> np.ndarray:
    """Return by how much B exceeds, relative, the smallest with which γ is stable."""
    with np.errstate(all="ignore"):  # A mode that drives no noise may be at its own threshold: 0/0.
        return batch * _least_inverses(problem, method, rates.ravel()).reshape(rates.shape) - 1


def _margins_of_rounds(modes: Modes, method: LinearMethod, batch: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """Return −log of the loads of rounds, cut next to the threshold of a direction or beyond it."""
    batch, rates = np.broadcast_arrays(batch, rates)
    with np.errstate(all="ignore"):
        loads = load(period_of(method, batch.ravel(), rates.ravel(), modes)).reshape(rates.shape)
        return -np.log(np.minimum(np.where(np.isnan(loads), np.inf, loads), LARGEST_LOAD))


def edge_modes(problem: AbstractProblem, method: LinearMethod, rate: float) -> Modes:
    """Return the modes that resolve what decides about stability; beyond the edge a method may go any distance."""
    gain = min(max(final_speed(method, rate) / rate, 1.0), LARGEST_GAIN)
    return problem.modes(EDGE_RESOLVED * problem.largest_eigenvalue / gain**2)


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
        return *delayed_gains(rates[:, None] * modes.eigenvalue, method), modes
    modes = edge_modes(problem, method, float(rates[0]))
    matrices = method.matrices(rates, np.zeros(rates.size))
    maps = generators(matrices, np.ones(rates.size), modes.eigenvalue, itself=False)
    return own_responses(maps), radii(maps.propagator_decay) <= 1 + 1e-14, modes


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
    endless = np.full(rate.size, np.inf)
    with np.errstate(all="ignore"):
        if method.late:
            modes = problem.modes(EDGE_RESOLVED * problem.largest_eigenvalue)
            return np.maximum(delayed_growth(modes, method, rate, batch, endless), 0.0)
        modes = edge_modes(problem, method, float(rate[0]))
        batch = method.workers * batch
        if method.step_dependence == "period":
            stage = PeriodStage(period_of(method, batch, rate, modes))
            return np.maximum(stage.growths(endless), 0.0) / method.period
        here = Coefficients(method.matrices(rate, np.zeros(rate.size)), batch)
        stage = make_stage(here, modes, np.asarray(method.output, dtype=float), None)
        return np.maximum(stage.growths(endless), 0.0)


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
        # Next to the threshold μ − 1 is small: everything is written as a distance from 1.
        lag = -x * (2 - x * ((batch + 1) / batch))  # α − 1
        top = np.maximum(lag.max(1), 0.0)
        rate[unstable] = np.log1p(top + _largest_root(source, top[:, None] - lag))
    return rate


def _largest_root(source: np.ndarray, gap: np.ndarray) -> np.ndarray:
    """Return the root δ > 0 of `Σ_k source_k/(δ + gap_k) = 1`, row by row; gap ≥ 0. 0 where it is below e^−60."""
    rows = np.arange(source.shape[0])

    def excess(log_delta: np.ndarray, row: np.ndarray) -> np.ndarray:
        return (source[row] / (np.exp(log_delta)[:, None] + gap[row])).sum(-1) - 1

    # Terms without a gap bound the root from below, and all sources as if without gaps from above.
    low = np.log(np.maximum(np.where(gap == 0, source, 0.0).sum(1), np.exp(-60.0))) - 1e-9
    high = np.log(source.sum(1)) + 1e-9
    return np.exp(root_between(excess, low, high, ROOT_TOLERANCE, rows))
