"""Modes of a power law for runs whose moments oscillate in λ, as those of momentum do (THEORY.md T24).

After n steps the moments of a direction contain the factor `μⁿ`, with a product μ of two eigenvalues of its step. Where
μ is complex, `μⁿ = e^{−E + iφ}` turns by φ(λ), and a quadrature in λ has to resolve φ as long as e^{−E} is not
negligible. All sums here are taken over blocks of consecutive integers i, by Gauss's rule for the counting measure on
them, which needs no correction at the ends of a block.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from sgdtheory.problems.modes import (
    BLOCK_WIDTH_EIGENVALUE,
    BLOCK_WIDTH_INDEX,
    LARGEST_EXPONENT,
    Modes,
    Rule,
    power_law_modes,
    tail_rule,
)
from sgdtheory.problems.power_sums import power_sum

POINTS = 128  # The density of blocks is computed at this many points, log-spaced in i; it varies slowly between them.
# Sums over a block in which the moments oscillate have this relative error with the rule that is exact otherwise.
LEAST_ERROR = 1e-13
# A rule that misses more than this share of an oscillation says nothing about it.
LARGEST_ERROR = 0.1
# A direction with λ = 0.5/(nγ) keeps at least this share of its initial risk. Elsewhere it is an estimate.
KEPT = 0.25
# More modes than this are not taken: 1e5 steps of 2,190 modes take 3 s, and time grows with both. The oscillations
# that fewer modes do not resolve are stated as an error (`Modes.unresolved`).
MOST_MODES = 20_000


class Phases(NamedTuple):
    """Oscillations of the moments of runs as functions of λ, over W parts of these runs.

    Attributes:
        log_eigenvalue: (G,) log λ, increasing.
        phase: (W, G) angle φ in radians by which second moments turn.
        decay: (W, G) log of the factor e^{−E} that is left of them, at most 0 where they do not grow.
    """

    log_eigenvalue: np.ndarray
    phase: np.ndarray
    decay: np.ndarray

    def at(self, log_eigenvalue: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return |dφ/d(log λ)|, an upper bound from the neighbouring intervals, and the log of e^{−E}, (W, N) each."""
        slope = np.abs(np.diff(self.phase, axis=1)) / np.diff(self.log_eigenvalue)
        wide = np.pad(slope, ((0, 0), (1, 1)), mode="edge")
        slope = np.maximum(np.maximum(wide[:, :-2], wide[:, 1:-1]), wide[:, 2:])
        place = np.searchsorted(self.log_eigenvalue, log_eigenvalue) - 1
        place = np.clip(place, 0, slope.shape[1] - 1)
        largest = np.maximum(self.decay[:, :-1], self.decay[:, 1:])
        return slope[:, place], largest[:, place]


def oscillating_power_law_modes(
    capacity: float, source: float, dim: int | None, reach_exponent: int, rule: Rule, error: float, phases: Phases
) -> Modes:
    """Compute the modes of `λ_i = i^−capacity`, `s_i = i^−source` for moments that oscillate in λ.

    Directions are modes of their own as long as neighbours differ in phase by about a radian. Blocks of integers
    follow, each of which turns by at most as much as its Gauss nodes resolve, and the tail of `power_law_modes`.
    """
    last = math.inf if dim is None else float(dim)
    tail_start = float(max(2 * rule.leading, math.ceil(2.0 ** min(-reach_exponent / capacity, LARGEST_EXPONENT))))
    end = min(tail_start, last + 1)
    plain = power_law_modes(capacity, source, dim, reach_exponent, rule)
    if end <= 2 * rule.leading:
        return plain
    log_i = np.linspace(math.log(rule.leading), math.log(end), POINTS)
    oscillating, interpolated, left = _density(
        log_i, capacity, source, last, tail_start, rule, max(error, LEAST_ERROR), phases
    )
    standard = 1 / (rule.width * min(BLOCK_WIDTH_INDEX, BLOCK_WIDTH_EIGENVALUE / capacity))
    if (interpolated <= standard).all():
        return plain
    wanted = np.maximum(oscillating, standard)
    density = wanted
    nodes, first = _blocks(log_i, density, end, rule.nodes)
    while nodes.index.size > MOST_MODES:
        density = np.maximum(density * (0.8 * MOST_MODES / nodes.index.size), standard)
        nodes, first = _blocks(log_i, density, end, rule.nodes)
        if (density <= standard).all():
            break
    leading = np.arange(1.0, first)
    index = np.concatenate([leading, nodes.index])
    count = np.concatenate([np.ones_like(leading), nodes.count])
    columns = [index**-capacity, count, count * index**-source]
    if last >= tail_start:
        tail = tail_rule(capacity, source, int(tail_start), last)
        columns = [
            np.append(*each) for each in zip(columns, (tail.eigenvalue, tail.multiplicity, tail.signal), strict=True)
        ]
    if (density >= wanted).all():
        return Modes(*columns)
    unresolved = np.zeros(columns[0].size)
    place = np.log(nodes.index)
    lost = np.interp(place, log_i, np.where(density < wanted, left, 0.0))
    unresolved[leading.size : leading.size + place.size] = np.where(nodes.count == 1, 0.0, lost)
    return Modes(*columns, unresolved=unresolved)


def _density(
    log_i: np.ndarray,
    capacity: float,
    source: float,
    last: float,
    tail_start: float,
    rule: Rule,
    error: float,
    phases: Phases,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the blocks per unit of log i that oscillations need, and the largest share that is left of them.

    The second array is the number of blocks with which the nodes interpolate as well as they sum. The rule of moments
    that decay interpolates at the ends of blocks. N nodes interpolate polynomials of half the degree that they sum.

    A block may miss `error` of its own oscillations, and more of those that have decayed: the risk is at least about a
    fourth of the signal of directions that hardly move, and of those that have decayed least.
    """
    first = float(rule.leading)
    moving = float(_sum(source, first, min(tail_start - 1, last)))
    still = KEPT * float(_sum(source, tail_start, last)) / moving
    slope, decay = phases.at(-capacity * log_i)
    left = np.exp(np.minimum(decay, 0.0))
    slowest = KEPT * (left * np.exp((1 - source) * log_i)).max(1, keepdims=True) / moving
    floor = np.minimum(np.maximum(still, slowest), 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        allowed = error * np.maximum(1.0, floor / left)
    summed, interpolated = (resolved_angle(number, allowed) for number in (rule.nodes, rule.nodes // 2))
    half = capacity * slope / 2
    return (half / summed).max(0), (half / interpolated).max(0), left.max(0)


@lru_cache(maxsize=256)
def _sum(source: float, first: float, last: float) -> float:
    """Return Σ i^−source over first ≤ i ≤ last; 0 if there are none."""
    return float(power_sum(source, first, last, unit=first)) * first**-source if last >= first else 0.0


class _Nodes(NamedTuple):
    """Nodes in the index i, and the number of directions that each of them stands for."""

    index: np.ndarray
    count: np.ndarray


def _blocks(log_i: np.ndarray, density: np.ndarray, end: float, num_nodes: int) -> tuple[_Nodes, float]:
    """Return the nodes of blocks up to `end`, and the first index that is in a block.

    Indices up to the last one at which blocks would have fewer directions than nodes are modes of their own.
    """
    crowded = np.flatnonzero(num_nodes * density >= np.exp(log_i))
    first = math.exp(log_i[min(crowded[-1] + 1, log_i.size - 1)]) if crowded.size else math.exp(log_i[0])
    first = min(math.ceil(first - 1e-6), end)
    cumulative = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(log_i))])
    low = float(np.interp(math.log(first), log_i, cumulative))
    number = max(1, math.ceil(cumulative[-1] - low))
    edges = np.exp(np.interp(np.linspace(low, cumulative[-1], number + 1), cumulative, log_i))
    edges = np.unique(np.concatenate([[first], np.rint(edges[1:-1]), [end]]))
    sizes = np.diff(edges)
    small = sizes <= num_nodes
    singles = [np.arange(begin, begin + size) for begin, size in zip(edges[:-1][small], sizes[small], strict=True)]
    unit, share = counting_rule(sizes[~small], num_nodes)
    middle = (edges[:-1][~small] + edges[1:][~small] - 1) / 2
    index = np.concatenate([*singles, (middle[:, None] + sizes[~small][:, None] / 2 * unit).ravel()])
    count = np.concatenate([np.ones(each.size) for each in singles] + [(sizes[~small][:, None] * share).ravel()])
    order = np.argsort(index)
    return _Nodes(index[order], count[order]), first


def counting_rule(sizes: np.ndarray, num_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return Gauss nodes, in units of half a block, and weights with sum 1 for blocks of M consecutive integers.

    The rule sums polynomials of degree 2N − 1 over the integers exactly. The recurrence of their orthogonal
    polynomials, those of Chebyshev and Gram, has the coefficients `n² (1 − n²/M²)/(4n² − 1)`.

    Args:
        sizes: (L,) numbers of integers M > N in each block.
        num_nodes: N.

    Returns:
        (L, N) nodes and weights.
    """
    order = np.arange(1.0, num_nodes)
    beta = order**2 * (1 - (order / sizes[:, None]) ** 2) / (4 * order**2 - 1)
    matrix = np.zeros((sizes.size, num_nodes, num_nodes))
    here = np.arange(num_nodes - 1)
    matrix[:, here, here + 1] = matrix[:, here + 1, here] = np.sqrt(beta)
    nodes, vectors = np.linalg.eigh(matrix)
    return nodes, vectors[:, 0] ** 2


def resolved_angle(num_nodes: int, error: np.ndarray) -> np.ndarray:
    """Return half the angle by which a function may turn on a block, if Gauss's rule may miss this share of it."""
    angles, errors = _missed(num_nodes)
    with np.errstate(divide="ignore"):
        result = np.interp(np.log(error), np.log(errors), angles)
    return np.where(error > LARGEST_ERROR, np.inf, result)


@lru_cache
def _missed(num_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return angles ω, and the error of Gauss–Legendre's rule for the mean of e^{iωx} over |x| ≤ 1, increasing."""
    nodes, weights = np.polynomial.legendre.leggauss(num_nodes)
    angles = np.linspace(0.25, 2.5 * num_nodes, 400)
    exact = np.sin(angles) / angles
    errors = np.abs(np.cos(angles[:, None] * nodes) @ weights / 2 - exact)
    errors = np.maximum.accumulate(np.maximum(errors, 1e-15))
    return angles, errors * (1 + 1e-9 * np.arange(angles.size))
