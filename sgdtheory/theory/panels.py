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
from sgdtheory.theory.thresholds import LONG_PANEL, PANEL_NUMBERS


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


class Prepared(NamedTuple):
    """What does not depend on the moments: a panel's nodes, its differences and the maps at its p equations."""

    nodes: np.ndarray
    difference: np.ndarray
    maps: Generators


def prepared(
    panels: list[tuple[float, float]],
    coefficients: Callable[[np.ndarray], Coefficients],
    modes: Modes,
    order: int,
) -> Iterator[Prepared]:
    """Panels of more than `order` steps, many prepared at once."""
    at_once = max(1, PANEL_NUMBERS // (order * modes.eigenvalue.size))
    for begin in range(0, len(panels), at_once):
        low, high = np.array(panels[begin : begin + at_once]).T
        nodes = low[:, None] + (_nodes(order)[0] + 1) / 2 * (high - low)[:, None]
        found = coefficients(nodes[:, 1:].ravel() - 1)
        maps = generators(found.matrices, found.batch, modes.eigenvalue)
        differences = backward_differences(order, high - low)
        for place in range(low.size):
            mine = slice(place * order, (place + 1) * order)
            yield Prepared(nodes[place], differences[place], Generators(*(each[mine] for each in maps)))


def across(
    moments: Moments, panel: Prepared, modes: Modes, output: np.ndarray, keeping: Keeping | None
) -> tuple[Moments, Along]:
    """Moments at the end of a panel, and along it."""
    nodes, difference, maps = panel
    order = difference.shape[0]
    before = np.eye(order + 1)[1:] - difference  # f(s_j − 1) from the values at the nodes
    start, k = pack(moments.own), output.size
    own = _coupled(start, maps, difference, before, modes.multiplicity)  # (2, p + 1, q, K)
    iterate = np.einsum("dpqk,q->dp", own, shown_weights(output))
    ends = unpack(own[:, -1], k)
    if keeping is None:
        square = np.broadcast_to(moments.square[:, None], iterate.shape)
        return moments._replace(own=ends), Along(nodes, iterate, square)
    shown = np.einsum("pn,dnijk,j->dpik", before, unpack(own, k), output, optimize=True)  # M o before the steps
    cross = _driven(
        moments.cross,
        keeping.forgetting * np.eye(k)[:, :, None] + (1 - keeping.forgetting) * maps.propagator_decay,
        keeping.weight * np.einsum("pijk,dpjk->dpik", maps.propagator, shown),
        difference,
        before,
    )
    rho, omega = 1 - keeping.forgetting, keeping.weight
    seen = np.einsum("dnik,i->dn", cross, output)
    gained = seen @ before.T * (2 * rho * omega) + omega**2 * np.einsum("dpik,i->dp", shown, output)
    loss = np.full((order, 1, 1, 1), keeping.forgetting * (1 + rho))
    square = _driven(moments.square[:, None, None], loss, gained[:, :, None, None], difference, before)[..., 0, 0]
    return Moments(ends, cross[:, -1], square[:, -1]), Along(nodes, iterate, square)


def _blocks(decay: np.ndarray, difference: np.ndarray, before: np.ndarray) -> np.ndarray:
    """The collocation matrices of `f(s) − (1 − decay) f(s − 1)`, (p, q, p + 1, q, K), from decay (p, q, q, K)."""
    q = decay.shape[1]
    same = np.eye(q)[None, :, None, :, None] * difference[:, None, :, None, None]
    return same + decay[:, :, None] * before[:, None, :, None, None]


def _coupled(
    start: np.ndarray, maps: Generators, difference: np.ndarray, before: np.ndarray, multiplicity: np.ndarray
) -> np.ndarray:
    """Packed moments at the nodes, (2, p + 1, q, K), with the coupling by P."""
    p, q, size = difference.shape[0], start.shape[1], start.shape[2]
    blocks = _blocks(maps.decay, difference, before)
    inverse = inverses(np.ascontiguousarray(blocks[:, :, 1:]).reshape(p * q, p * q, size))
    pushed = np.einsum("jabk,dbk->djak", blocks[:, :, 0], start).reshape(2, p * q, size)
    free = -np.einsum("rsk,dsk->drk", inverse, pushed).reshape(2, p, q, size)
    drive = maps.drive * multiplicity
    forced = inverse.reshape(p * q, p, q, size)
    forced = (forced * drive).sum(2) if q > 1 else forced[:, :, 0] * drive[:, 0]
    forced = forced.reshape(p, q, p, size)  # M at node n for noise 1 at equation l
    seen = np.einsum("jq,jn->jnq", maps.seen, before)  # P(t_j) from the values at the nodes
    kernel = np.einsum("jnq,nql->jl", seen[:, 1:], forced.sum(-1))
    noise = np.einsum("jq,dq->dj", seen[:, 0], start.sum(-1)) + np.einsum("jnq,dnq->dj", seen[:, 1:], free.sum(-1))
    noise[1] += 1.0
    coupled = np.linalg.solve(np.eye(p) - kernel, noise.T).T
    own = free + np.einsum("nqlk,dl->dnqk", forced, coupled)
    return np.concatenate([start[:, None], own], axis=1)


def _driven(
    start: np.ndarray, decay: np.ndarray, forcing: np.ndarray, difference: np.ndarray, before: np.ndarray
) -> np.ndarray:
    """Solutions of `f(s) = (1 − decay) f(s − 1) + forcing` at the nodes, (2, p + 1, k, K); forcing (2, p, k, K)."""
    p, k, size = forcing.shape[1:]
    blocks = _blocks(decay, difference, before)
    inverse = inverses(np.ascontiguousarray(blocks[:, :, 1:]).reshape(p * k, p * k, blocks.shape[-1]))
    right = forcing - np.einsum("jabk,dbk->djak", blocks[:, :, 0], start)
    inner = np.einsum("rsk,dsk->drk", inverse, right.reshape(2, p * k, size)).reshape(2, p, k, size)
    return np.concatenate([start[:, None], inner], axis=1)
