"""Weighted modes: a spectrum of any size, even an infinite one, represented by a few hundred numbers.

The exact theory only computes sums over directions, `Σ_i f(λ_i)` or `Σ_i s_i f(λ_i)`, with `f(λ) = O(λ)` in the first.
For a power law both terms are smooth in log i, so that a quadrature for the counting measure on the integers replaces
all except the leading directions.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial import chebyshev, legendre

from sgdtheory.problems.power_sums import MIDPOINT_COEFFICIENTS, power_sum


class Rule(NamedTuple):
    """A quadrature rule for a power law, which determines the number of modes.

    Attributes:
        leading: first direction that is not a mode of its own.
        nodes: Gauss–Legendre nodes in a block of log i, at least 6.
        width: width of blocks, relative to the largest width that is accurate with 16 nodes.
    """

    leading: int
    nodes: int
    width: float = 1.0


# Sums have this measured relative error with this rule (tests/problems/test_modes.py). The first is exact to about
# 1e-12.
RULES = {0.0: Rule(64, 16), 1e-8: Rule(24, 10), 1e-6: Rule(20, 8), 1e-4: Rule(12, 6, 2.0)}
EXACT = RULES[0.0]
BLOCK_WIDTH_INDEX = 0.9  # A block has at most this width in log i.
BLOCK_WIDTH_EIGENVALUE = 1.6  # A block has at most this width in log λ.
TAIL_NODES = 12  # The tail has this many nodes; f is a polynomial in λ there, to rounding error.

# Lists of up to this many eigenvalues stay as they are: a risk of that many modes takes milliseconds.
MOST_LISTED = 1000
# Eigenvalues below this share of the largest are merged in longer lists. At any stable learning rate their γλ is below
# 0.02, far from the poles of directions that overshoot, which must be modes of their own.
MERGED_BELOW = 1e-2
BIN_WIDTH = BLOCK_WIDTH_EIGENVALUE / 2  # A bin of modes has this width in log λ.
# A bin is represented by this many nodes, which interpolate. With them risks of averaged SGD are right to 1e-14 and
# those of a cosine to 2e-12; with half as many nodes to 1e-7 (tests/problems/test_merged.py).
BIN_NODES = 20

# Derivatives d^r/dx^r are sums of d/d(log x): x^r f^(r) = Σ_k _STIRLING[r][k] d^k f/d(log x)^k.
_STIRLING = {1: (0, 1), 3: (0, 2, -3, 1), 5: (0, 24, -50, 35, -10, 1)}
LARGEST_EXPONENT = 1000.0  # This exponent of 2 is safely within the range of a float (1023).


@dataclass(frozen=True)
class Modes:
    """A pair of discrete measures on the eigenvalues.

    `Σ_i f(λ_i) = Σ_k multiplicity_k f(eigenvalue_k)` and `Σ_i s_i f(λ_i) = Σ_k signal_k f(eigenvalue_k)`.

    Attributes:
        eigenvalue: (K,) nonnegative, and nonincreasing up to the tail.
        multiplicity: (K,) number of directions that a mode stands for. It need not be whole, nor positive in a tail of
            few directions.
        signal: (K,) sum of the initial risks of these directions.
        trained: (K,) loss that drives the gradient noise, per unit of a mode's risk. For a finite sample it is the
            training loss (THEORY.md T42). None: the risk itself drives the noise.
        unresolved: (K,) share of a mode's oscillation that sums over the modes may miss, from 0 to 1. None: none.
    """

    eigenvalue: np.ndarray
    multiplicity: np.ndarray
    signal: np.ndarray
    trained: np.ndarray | None = None
    unresolved: np.ndarray | None = None

    @property
    def driving(self) -> np.ndarray:
        """(K,) multiplicity in the loss that drives the gradient noise."""
        return self.multiplicity if self.trained is None else self.multiplicity * self.trained


def rule_within(tolerance: float) -> Rule:
    """Return the rule with the fewest modes whose relative error is below a tolerance."""
    return RULES[max(error for error in RULES if error <= tolerance)]


@lru_cache(maxsize=256)
def power_law_modes(capacity: float, source: float, dim: int | None, reach_exponent: int, rule: Rule = EXACT) -> Modes:
    """Compute the modes of `λ_i = i^−capacity`, `s_i = i^−source`, `i = 1 … dim` (None: infinitely many).

    There are three ranges of i. Directions below `rule.leading` are single modes. Then follow blocks of Gauss–Legendre
    nodes in log i. From the index with `λ_i = 2^reach_exponent` on, f is a low-degree polynomial in λ (`f(λ)/λ` in the
    sum without signal), which is integrated exactly from sums of powers.
    """
    last = math.inf if dim is None else dim
    if last < 2 * rule.leading:
        index = np.arange(1.0, last + 1)
        return Modes(index**-capacity, np.ones_like(index), index**-source)
    leading = np.arange(1.0, rule.leading)
    tail_start = max(2 * rule.leading, math.ceil(2.0 ** min(-reach_exponent / capacity, LARGEST_EXPONENT)))
    block_end = min(tail_start, last + 1)
    nodes, weights = _block_rule(block_end, capacity, rule)
    index = np.concatenate([leading, nodes])
    count = np.concatenate([np.ones_like(leading), weights])
    eigenvalue, multiplicity, signal = index**-capacity, count, count * index**-source
    if last >= tail_start:
        tail = tail_rule(capacity, source, tail_start, last)
        eigenvalue = np.concatenate([eigenvalue, tail.eigenvalue])
        multiplicity = np.concatenate([multiplicity, tail.multiplicity])
        signal = np.concatenate([signal, tail.signal])
    return Modes(eigenvalue, multiplicity, signal)


def _block_rule(end: float, capacity: float, rule: Rule) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights with Σ_{leading ≤ i < end} f(i) ≈ Σ_k w_k f(x_k) for f smooth in log i.

    The rule is composite Gauss–Legendre in log i for `∫_{first−½}^{end−½} f`, plus the Euler–Maclaurin terms at the two
    ends. Their derivatives are those of the polynomial through the nodes of the outermost blocks.
    """
    low, high = math.log(rule.leading - 0.5), math.log(end - 0.5)
    width = rule.width * min(BLOCK_WIDTH_INDEX, BLOCK_WIDTH_EIGENVALUE / capacity)
    num_nodes = rule.nodes
    num_blocks = max(1, math.ceil((high - low) / width))
    half = (high - low) / num_blocks / 2
    centers = low + half * (2 * np.arange(num_blocks) + 1)
    unit_nodes, unit_weights = _gauss_legendre(num_nodes)
    nodes = np.exp(centers[:, None] + half * unit_nodes)
    weights = half * unit_weights * nodes
    weights[0] -= _seam(-1.0, math.exp(low), half, num_nodes)
    weights[-1] += _seam(+1.0, math.exp(high), half, num_nodes)
    return nodes.ravel(), weights.ravel()


def _seam(side: float, x: float, half: float, num_nodes: int) -> np.ndarray:
    """Express Σ_k B_2k(½)/(2k)! f^(2k−1)(x) at one end (side = ∓1) of a block as weights on the block's nodes."""
    slopes = _end_slopes(side, num_nodes) / half ** np.arange(6)[:, None]
    total = np.zeros(num_nodes)
    for order, coefficient in zip((1, 3, 5), MIDPOINT_COEFFICIENTS, strict=False):
        total += coefficient * (1 / x) ** order * np.array(_STIRLING[order]) @ slopes[: order + 1]
    return total


@lru_cache
def _gauss_legendre(num_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    return legendre.leggauss(num_nodes)


@lru_cache
def _end_slopes(side: float, num_nodes: int) -> np.ndarray:
    """Return (6, num_nodes) derivatives 0 … 5 at ∓1 of the polynomial through values at the Gauss–Legendre nodes."""
    nodes, node_weights = _gauss_legendre(num_nodes)
    basis = legendre.legvander(nodes, num_nodes - 1)
    to_coefficients = (np.arange(num_nodes) + 0.5)[:, None] * (basis * node_weights[:, None]).T
    slopes = [legendre.legval(side, legendre.legder(np.eye(num_nodes), k)) for k in range(6)]
    return np.array(slopes) @ to_coefficients


@lru_cache(maxsize=256)
def tail_rule(capacity: float, source: float, first: int, last: float) -> Modes:
    """Return modes for i ≥ first, where every f is a polynomial of low degree in λ to rounding error.

    The rule interpolates at Chebyshev nodes `λ_first · y`, 0 < y ≤ 1, and has the exact moments `Σ s_i (λ_i/λ_first)^k`
    and `Σ λ_i (λ_i/λ_first)^k`. The node next to 0 stands for the directions that never move.
    """
    y = (1.0 + chebyshev.chebpts2(TAIL_NODES)) / 2.0
    y[0] = 1e-9
    degrees = np.arange(TAIL_NODES)

    def rule(exponent: float) -> np.ndarray:
        moments = power_sum(exponent + capacity * degrees, first, last, unit=first)
        return np.linalg.solve(np.vander(y, increasing=True).T, moments)

    return Modes(
        eigenvalue=float(first) ** -capacity * y,
        multiplicity=rule(capacity) / y,
        signal=float(first) ** -source * rule(source),
    )


def merged_modes(eigenvalues: np.ndarray, signal: np.ndarray) -> Modes:
    """Compute the modes of a list of directions, with eigenvalues in decreasing order.

    Equal eigenvalues of a long list are one mode, and its small eigenvalues are merged, whatever their signal: without
    momentum the terms of all sums are smooth functions of log λ. With momentum they oscillate, the faster the longer
    its memory, and a bin would need as many nodes as it has directions.
    """
    if eigenvalues.size <= MOST_LISTED:
        return Modes(eigenvalues, np.ones_like(eigenvalues), signal)
    value, first, count = np.unique(-eigenvalues, return_index=True, return_counts=True)
    modes = Modes(-value, count.astype(float), np.add.reduceat(signal, first))
    if value.size <= MOST_LISTED:
        return modes
    start = np.searchsorted(value, -MERGED_BELOW * eigenvalues[0])
    end = np.searchsorted(value, 0.0)
    small = Modes(*(column[start:end] for column in (modes.eigenvalue, modes.multiplicity, modes.signal)))
    merged = merge_bins(small, -np.log(small.eigenvalue), lambda q: np.exp(-q), BIN_WIDTH, BIN_NODES)
    return Modes(
        np.concatenate([modes.eigenvalue[:start], merged.eigenvalue, modes.eigenvalue[end:]]),
        np.concatenate([modes.multiplicity[:start], merged.multiplicity, modes.multiplicity[end:]]),
        np.concatenate([modes.signal[:start], merged.signal, modes.signal[end:]]),
    )


def merge_bins(
    modes: Modes, q: np.ndarray, eigenvalue_at: Callable[[np.ndarray], np.ndarray], width: float, num_nodes: int
) -> Modes:
    """Replace the modes in each bin of q by Gauss–Legendre nodes, for sums of functions that are smooth in q.

    The nodes have the same sums of as many Legendre polynomials. Bins of up to `num_nodes` modes stay as they are.

    Args:
        modes: modes to replace.
        q: (K,) coordinate of each mode.
        eigenvalue_at: eigenvalues at given values of q.
        width: width of a bin.
        num_nodes: number of nodes in a bin.
    """
    if q.size == 0:
        return modes
    bins = np.floor((q - q.min()) / width).astype(int)
    unit, weights = _gauss_legendre(num_nodes)
    basis = legendre.legvander
    to_nodes = (weights[:, None] * basis(unit, num_nodes - 1)) * (np.arange(num_nodes) + 0.5)
    parts = []
    for index in np.unique(bins):
        inside = bins == index
        if inside.sum() <= num_nodes:
            parts.append((modes.eigenvalue[inside], modes.multiplicity[inside], modes.signal[inside]))
            continue
        middle = q.min() + (index + 0.5) * width
        shares = to_nodes @ basis((q[inside] - middle) / (width / 2), num_nodes - 1).T
        nodes = eigenvalue_at(middle + width / 2 * unit)
        parts.append((nodes, shares @ modes.multiplicity[inside], shares @ modes.signal[inside]))
    return Modes(*(np.concatenate(column) for column in zip(*parts, strict=True)))
