"""Many steps whose coefficients vary smoothly: collocation on panels that grow with the time since the last kink.

On a panel the moments are polynomials in the step number, exact at p Radau points t, the last step among them:

    M_j = T(t_j) M(t_j) + w(t_j) (P(t_j) + σ²),    M_j = M(t_j + 1),    j = 1 … p.

That is the recursion itself, not a differential equation, so nothing but the polynomials approximates. A direction that
has been learnt follows the others, one that has hardly moved is a straight line, and one in between is smooth in
log t: panels whose length is a fixed multiple of their distance from the last kink, and on which the coefficients
change by a bounded factor, converge geometrically in p at a cost that grows with log n. Directions meet in the p
numbers P(t_j) alone: their p×p systems are inverted one by one, and one small system couples them.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial import legendre

from sgdtheory.theory.linear import inverses
from sgdtheory.theory.methods import StepMatrices
from sgdtheory.theory.modes import Modes
from sgdtheory.theory.moments import Generators, Keeping, Moments, generators, pack, shown_weights, unpack
from sgdtheory.theory.thresholds import LONG_PANEL, PANEL_MODES


class Coefficients(NamedTuple):
    """Of T steps: I − A, b, c, and batch sizes (T,)."""

    matrices: StepMatrices
    batch: np.ndarray


@lru_cache
def _nodes(order: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """−1 and the right Radau points on [−1, 1], barycentric weights, and the differentiation matrix."""
    polynomial = np.zeros(order + 1)
    polynomial[-2:] = 1.0, -1.0
    inner = np.sort(legendre.legroots(polynomial).real)
    inner[-1] = 1.0
    nodes = np.concatenate([[-1.0], inner])
    gaps = nodes[:, None] - nodes + np.eye(order + 1)
    weights = 1 / gaps.prod(1)
    slopes = weights / weights[:, None] / gaps
    np.fill_diagonal(slopes, 0.0)
    np.fill_diagonal(slopes, -slopes.sum(1))
    return nodes, weights, slopes


@lru_cache
def _slope_powers(order: int) -> np.ndarray:
    """−(−d/ds)^k/k! on the nodes, k = 1 … p, (p, p + 1, p + 1): `1 − e^{−d/ds}` but for powers of the step."""
    slopes, term, powers = _nodes(order)[2], np.eye(order + 1), []
    for power in range(1, order + 1):  # derivatives of higher order vanish
        term = -term @ slopes / power
        powers.append(-term)
    return np.array(powers)


def radau_nodes(order: int) -> np.ndarray:
    """−1 and the p right Radau points on [−1, 1], (p + 1,)."""
    return _nodes(order)[0]


def backward_differences(order: int, length: np.ndarray) -> np.ndarray:
    """f(s_j) − f(s_j − 1) at the last p of p + 1 nodes, from values at all of them, for L panels: (L, p, p + 1).

    For long panels by derivatives, exact for polynomials: the difference of two interpolated values would lose digits.
    """
    nodes, weights, _ = _nodes(order)
    step = 2 / length
    found = np.einsum("lk,kij->lij", step[:, None] ** np.arange(1, order + 1), _slope_powers(order)[:, 1:])
    for place in np.flatnonzero(length < LONG_PANEL):
        gaps = nodes[1:, None] - step[place] - nodes
        hit = np.abs(gaps) < 1e-13
        before = np.where(hit.any(1, keepdims=True), hit, weights / np.where(hit, 1.0, gaps))
        found[place] = np.eye(order + 1)[1:] - before / before.sum(1, keepdims=True)
    return found


class Along(NamedTuple):
    """What a panel says of the steps within it.

    Attributes:
        nodes: (p + 1,) step numbers, the first is the panel's start.
        iterate: (2, p + 1) Σ oᵀM o.
        square: (2, p + 1) Σ S².
    """

    nodes: np.ndarray
    iterate: np.ndarray
    square: np.ndarray


class System(NamedTuple):
    """`f(s) = (1 − decay) f(s − 1) + forcing` at the p equations of a panel, for vectors of q numbers, solved.

    Attributes:
        inverse: (p q, p q, K) of the values at the p nodes.
        first: (p, q, q, K) what multiplies the values at the start.
    """

    inverse: np.ndarray
    first: np.ndarray

    def values(self, start: np.ndarray, forcing: np.ndarray | float = 0.0) -> np.ndarray:
        """(2, p, q, K) at the nodes, for the start (2, q, K) and forcing (2, p, q, K)."""
        right = forcing - np.einsum("jabk,dbk->djak", self.first, start)
        found = np.einsum("rsk,dsk->drk", self.inverse, right.reshape(2, -1, start.shape[-1]))
        return found.reshape(right.shape)


class Prepared(NamedTuple):
    """What does not depend on the moments, for one panel.

    Attributes:
        nodes: (p + 1,) step numbers.
        before: (p, p + 1) values one step before the p equations, from the values at the nodes.
        propagator: (p, k, k, K) A_i.
        own, cross, square: systems of M, x and Σ S²; the latter where something is averaged.
        forced: (p, q, p, K) M at the nodes for a unit of noise at each equation.
        seen: (p, p + 1, q) P at the equations from ΣM at the nodes.
        coupling: (p, p) P + σ² from what they would be without coupling.
    """

    nodes: np.ndarray
    before: np.ndarray
    propagator: np.ndarray
    own: System
    cross: System | None
    square: System | None
    forced: np.ndarray
    seen: np.ndarray
    coupling: np.ndarray


def prepared(
    panels: list[tuple[float, float]],
    coefficients: Callable[[np.ndarray], Coefficients],
    modes: Modes,
    order: int,
    keeping: Keeping | None,
) -> Iterator[Prepared]:
    """Panels of more than `order` steps, many prepared at once."""
    at_once = max(1, PANEL_MODES // modes.eigenvalue.size)
    for begin in range(0, len(panels), at_once):
        low, high = np.array(panels[begin : begin + at_once]).T
        nodes = low[:, None] + (_nodes(order)[0] + 1) / 2 * (high - low)[:, None]
        found = coefficients(nodes[:, 1:].ravel() - 1)
        maps = generators(found.matrices, found.batch, modes.eigenvalue)
        maps = Generators(*(each.reshape(low.size, order, *each.shape[1:]) for each in maps))
        yield from _together(nodes, backward_differences(order, high - low), maps, modes, keeping)


def _together(
    nodes: np.ndarray, difference: np.ndarray, maps: Generators, modes: Modes, keeping: Keeping | None
) -> Iterator[Prepared]:
    """L panels, from their nodes (L, p + 1), differences (L, p, p + 1) and maps (L, p, …)."""
    order = difference.shape[1]
    before = np.eye(order + 1)[1:] - difference  # f(s_j − 1) from the values at the nodes
    own = systems(maps.decay, difference, before)
    cross = square = [None] * len(nodes)
    if keeping is not None:
        rho, k = 1 - keeping.forgetting, maps.propagator.shape[2]
        cross = systems(keeping.forgetting * np.eye(k)[..., None] + rho * maps.propagator_decay, difference, before)
        loss = np.full((*difference.shape[:2], 1, 1, 1), keeping.forgetting * (1 + rho))
        square = systems(loss, difference, before)
    for place, system in enumerate(own):
        forced = _forced(system.inverse, maps.drive[place] * modes.multiplicity)
        seen = maps.seen[place][:, None] * before[place][..., None]
        kernel = np.einsum("jnq,nql->jl", seen[:, 1:], forced.sum(-1))
        coupling = np.linalg.inv(np.eye(order) - kernel)
        here = nodes[place], before[place], maps.propagator[place], system, cross[place], square[place]
        yield Prepared(*here, forced, seen, coupling)


def systems(decay: np.ndarray, difference: np.ndarray, before: np.ndarray) -> list[System]:
    """Of L panels, from decay (L, p, q, q, K): `f(s) − (1 − decay) f(s − 1)` as matrices, inverted."""
    panels, p, q, _, size = decay.shape
    same = np.eye(q)[:, None, :, None, None] * np.moveaxis(difference, 0, -1)[:, None, :, None, :, None]
    blocks = np.moveaxis(decay, 0, 3)[:, :, None] * np.moveaxis(before, 0, -1)[:, None, :, None, :, None]
    blocks += same  # (p, q, p + 1, q, L, K)
    inverse = inverses(np.ascontiguousarray(blocks[:, :, 1:]).reshape(p * q, p * q, panels * size))
    inverse = inverse.reshape(p * q, p * q, panels, size)
    return [System(inverse[:, :, place], blocks[:, :, 0, :, place]) for place in range(panels)]


def _forced(inverse: np.ndarray, drive: np.ndarray) -> np.ndarray:
    """M at the nodes for a unit of noise at each equation, (p, q, p, K), with drive (p, q, K)."""
    p, q, size = drive.shape
    found = inverse.reshape(p * q, p, q, size)
    found = (found * drive).sum(2) if q > 1 else found[:, :, 0] * drive[:, 0]
    return found.reshape(p, q, p, size)


def across(moments: Moments, panel: Prepared, output: np.ndarray, keeping: Keeping | None) -> tuple[Moments, Along]:
    """Moments at the end of a panel, and along it."""
    before, start, k = panel.before, pack(moments.own), output.size
    free = panel.own.values(start)
    noise = np.einsum("jq,dq->dj", panel.seen[:, 0], start.sum(-1))
    noise += np.einsum("jnq,dnq->dj", panel.seen[:, 1:], free.sum(-1))
    noise[1] += 1.0
    own = free + np.einsum("nqlk,dl->dnqk", panel.forced, noise @ panel.coupling.T)
    own = np.concatenate([start[:, None], own], axis=1)
    iterate = np.einsum("dpqk,q->dp", own, shown_weights(output))
    ends = unpack(own[:, -1], k)
    if keeping is None or panel.cross is None or panel.square is None:
        square = np.broadcast_to(moments.square[:, None], iterate.shape)
        return moments._replace(own=ends), Along(panel.nodes, iterate, square)
    rho, omega = 1 - keeping.forgetting, keeping.weight
    shown = np.einsum("pn,dnijk,j->dpik", before, unpack(own, k), output, optimize=True)  # M o before the steps
    cross = panel.cross.values(moments.cross, omega * np.einsum("pijk,dpjk->dpik", panel.propagator, shown))
    seen = np.concatenate([moments.cross[:, None], cross], axis=1).sum(-1) @ output
    gained = seen @ before.T * (2 * rho * omega) + omega**2 * (shown.sum(-1) @ output)
    square = panel.square.values(moments.square[:, None, None], gained[:, :, None, None])[..., 0, 0]
    square = np.concatenate([moments.square[:, None], square], axis=1)
    return Moments(ends, cross[:, -1], square[:, -1]), Along(panel.nodes, iterate, square)
