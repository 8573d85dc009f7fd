"""Many steps whose coefficients vary smoothly: collocation on panels that grow with the time since the last kink.

On a panel the moments are polynomials in the step number, exact at p Radau points t, the last step among them:

    M_j = T(t_j) M(t_j) + w(t_j) (P(t_j) + σ²),    M_j = M(t_j + 1),    j = 1 … p.

That is the recursion itself, not a differential equation, so nothing but the polynomials approximates. A direction that
has been learnt follows the others, one that has hardly moved is a straight line, and one in between is smooth in
log t: panels whose length is a fixed multiple of their distance from the last kink, and on which the coefficients
change by a bounded factor, converge geometrically in p at a cost that grows with log n. Directions meet in the p
numbers P(t_j) alone: their p×p systems are inverted one by one, and one small system couples them.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial import legendre

from sgdtheory.problems import Modes
from sgdtheory.risk.linear import inverses
from sgdtheory.risk.moments import Generators, Keeping, Moments, pack, pairs, shown_rows, shown_weights, unpack

LONG_PANEL = 200.0  # steps: differences by derivatives


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
    slopes = _nodes(order)[2]
    term = np.eye(order + 1)
    powers = []
    for power in range(1, order + 1):  # derivatives of higher order vanish
        term = -term @ slopes / power
        powers.append(-term)
    return np.array(powers)


@lru_cache
def _highest(order: int) -> np.ndarray:
    """(2, p + 1) of the two highest Legendre coefficients of a polynomial, from its values at the nodes."""
    return np.linalg.inv(legendre.legvander(_nodes(order)[0], order))[-2:]


def tails(values: np.ndarray, least: float) -> np.ndarray:
    """(…,) the two highest Legendre coefficients over the last of values (…, p + 1) at the nodes, or over `least`.

    Where they are small the polynomial follows what it stands for; a jump at the panel's start, what decays too fast
    for it, or a bend within the panel leave them large.
    """
    highest = np.abs(values @ _highest(values.shape[-1] - 1).T).max(-1)
    return highest / np.maximum(np.abs(values[..., -1]), least)


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
    """What L panels say of the steps within them.

    Attributes:
        nodes: (L, p + 1) step numbers, the first is the panel's start.
        iterate: (2, L, p + 1) Σ oᵀM o.
        cross: (2, L, p + 1) Σ oᵀx.
        square: (2, L, p + 1) Σ S².
        vectors: (2, L, k, p + 1) Σ λ E u_j² of the k vectors.
    """

    nodes: np.ndarray
    iterate: np.ndarray
    cross: np.ndarray
    square: np.ndarray
    vectors: np.ndarray


class System(NamedTuple):
    """`f(s) = (1 − decay) f(s − 1) + forcing` at the p equations of L panels, for vectors of q numbers, solved.

    Attributes:
        inverse: (p q, p q, L, K) of the values at the p nodes.
        first: (p, q, q, L, K) what multiplies the values at the start.
    """

    inverse: np.ndarray
    first: np.ndarray

    def values(self, start: np.ndarray, forcing: np.ndarray | float = 0.0) -> np.ndarray:
        """(2, p, q, L, K) at the nodes, for the start (2, q, L, K) and forcing (2, p, q, L, K)."""
        right = forcing - np.einsum("jablk,dblk->djalk", self.first, start)
        found = np.einsum("rslk,dslk->drlk", self.inverse, right.reshape(2, -1, *start.shape[-2:]))
        return found.reshape(right.shape)

    def some(self, panels: slice) -> "System":
        """Of some of the panels."""
        return System(self.inverse[:, :, panels], self.first[:, :, :, panels])


class Prepared(NamedTuple):
    """What does not depend on the moments, for L panels.

    Attributes:
        nodes: (L, p + 1) step numbers.
        before: (L, p, p + 1) values one step before the p equations, from the values at the nodes.
        propagator: (p, k, k, L, K) A_i.
        own, cross, square: systems of M, x and Σ S²; the latter where something is averaged.
        forced: (p, q, p, L, K) M at the nodes for a unit of noise at each equation.
        seen: (L, p, p + 1, q) P at the equations from ΣM at the nodes.
        coupling: (L, p, p) P + σ² from what they would be without coupling.
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

    def some(self, panels: slice) -> "Prepared":
        """Some of the panels."""
        nodes, before, seen, coupling = (each[panels] for each in (self.nodes, self.before, self.seen, self.coupling))
        own, cross, square = (each and each.some(panels) for each in (self.own, self.cross, self.square))
        assert own is not None
        forced, propagator = (each[:, :, :, panels] for each in (self.forced, self.propagator))
        return Prepared(nodes, before, propagator, own, cross, square, forced, seen, coupling)


def panel_nodes(order: int, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Step numbers (L, p + 1) of panels of more than p steps, from `low` to `high`, (L,) each."""
    return low[:, None] + (_nodes(order)[0] + 1) / 2 * (high - low)[:, None]


def prepared(nodes: np.ndarray, maps: Generators, modes: Modes, keeping: Keeping | None) -> Prepared:
    """L panels together.

    Args:
        nodes: (L, p + 1).
        maps: of the L p steps that end at the nodes but the first.
        modes: K modes.
        keeping: (L,) of each panel's run.
    """
    panels = nodes.shape[0]
    order = nodes.shape[1] - 1
    difference = backward_differences(order, nodes[:, -1] - nodes[:, 0])
    maps = Generators(*(each.reshape(panels, order, *each.shape[1:]) for each in maps))
    before = np.eye(order + 1)[1:] - difference  # f(s_j − 1) from the values at the nodes
    own = systems(maps.decay, difference, before)
    cross = square = None
    if keeping is not None:
        forgetting = keeping.forgetting[:, None, None, None, None]
        k = maps.propagator.shape[2]
        rest = (1 - forgetting) * maps.propagator_decay
        cross = systems(forgetting * np.eye(k)[..., None] + rest, difference, before)
        square = systems(np.repeat(forgetting * (2 - forgetting), order, axis=1), difference, before)
    forced = _forced(own.inverse, np.moveaxis(maps.drive, 0, 2) * modes.multiplicity)
    seen = maps.seen[:, :, None] * before[..., None]
    kernel = np.einsum("ljnq,nqil->lji", seen[:, :, 1:], forced.sum(-1))
    coupling = np.linalg.inv(np.eye(order) - kernel)
    return Prepared(nodes, before, np.moveaxis(maps.propagator, 0, 3), own, cross, square, forced, seen, coupling)


def systems(decay: np.ndarray, difference: np.ndarray, before: np.ndarray) -> System:
    """Of L panels, from decay (L, p, q, q, K): `f(s) − (1 − decay) f(s − 1)` as matrices, inverted."""
    panels, p, q, _, size = decay.shape
    same = np.eye(q)[:, None, :, None, None] * np.moveaxis(difference, 0, -1)[:, None, :, None, :, None]
    blocks = np.moveaxis(decay, 0, 3)[:, :, None] * np.moveaxis(before, 0, -1)[:, None, :, None, :, None]
    blocks += same  # (p, q, p + 1, q, L, K)
    inverse = inverses(np.ascontiguousarray(blocks[:, :, 1:]).reshape(p * q, p * q, panels * size))
    return System(inverse.reshape(p * q, p * q, panels, size), blocks[:, :, 0])


def _forced(inverse: np.ndarray, drive: np.ndarray) -> np.ndarray:
    """M at the nodes for a unit of noise at each equation, (p, q, p, L, K), with drive (p, q, L, K)."""
    p, q, panels, size = drive.shape
    found = inverse.reshape(p * q, p, q, panels, size)
    found = (found * drive).sum(2) if q > 1 else found[:, :, 0] * drive[:, 0]
    return found.reshape(p, q, p, panels, size)


def across(moments: Moments, panel: Prepared, output: np.ndarray, keeping: Keeping | None) -> tuple[Moments, Along]:
    """Moments of L runs, (2, L, …) each, at the ends of their panels, and along these."""
    before = panel.before
    start = np.swapaxes(pack(moments.own), 1, 2)
    k = output.size
    free = panel.own.values(start)
    noise = np.einsum("ljq,dql->dlj", panel.seen[:, :, 0], start.sum(-1))
    noise += np.einsum("ljnq,dnql->dlj", panel.seen[:, :, 1:], free.sum(-1))
    noise[1] += 1.0
    own = free + np.einsum("nqilk,dil->dnqlk", panel.forced, np.einsum("lij,dlj->dil", panel.coupling, noise))
    own = np.concatenate([start[:, None], own], axis=1)
    sums = own.sum(-1)
    iterate = np.einsum("dnql,q->dln", sums, shown_weights(output))
    vectors = np.moveaxis(sums[:, :, [i == j for i, j in pairs(k)]], 1, 3).swapaxes(1, 2)
    ends = unpack(np.swapaxes(own[:, -1], 1, 2), k)
    if keeping is None or panel.cross is None or panel.square is None:
        square = np.broadcast_to(moments.square[..., None], iterate.shape)
        return moments._replace(own=ends), Along(panel.nodes, iterate, np.zeros_like(iterate), square, vectors)
    rho = 1 - keeping.forgetting
    omega = keeping.weight
    shown = np.einsum("iq,dnqlk->dnilk", shown_rows(output), own)
    shown = np.einsum("ljn,dnilk->djilk", before, shown)  # M o before the steps
    moved = omega[:, None] * np.einsum("jabl...,djbl...->djal...", panel.propagator, shown)
    begin = np.swapaxes(moments.cross, 1, 2)
    cross = np.concatenate([begin[:, None], panel.cross.values(begin, moved)], axis=1)
    with_sum = np.einsum("dnil,i->dln", cross.sum(-1), output)
    gained = 2 * (rho * omega)[:, None] * np.einsum("ljn,dln->dlj", before, with_sum)
    gained += (omega**2)[:, None] * np.einsum("djil,i->dlj", shown.sum(-1), output)
    forcing = np.moveaxis(gained, 2, 1)[:, :, None, :, None]
    square = panel.square.values(moments.square[:, None, :, None], forcing)[:, :, 0, :, 0]
    square = np.concatenate([moments.square[..., None], np.moveaxis(square, 1, 2)], axis=2)
    along = Along(panel.nodes, iterate, with_sum, square, vectors)
    return Moments(ends, np.swapaxes(cross[:, -1], 1, 2), square[..., -1]), along
