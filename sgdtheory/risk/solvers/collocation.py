"""Many steps whose coefficients vary smoothly: collocation on panels that grow with the time since the last kink.

On a panel the moments are polynomials in the step number, exact at p Radau points t, the last step among them:

    M_j = T(t_j) M(t_j) + w(t_j) (P(t_j) + σ²),    M_j = M(t_j + 1),    j = 1 … p.

That is the recursion itself, not a differential equation, so nothing but the polynomials approximates. A direction that
has been learnt follows the others, one that has hardly moved is a straight line, and one in between is smooth in
log t: panels whose length is a fixed multiple of their distance from the last kink, and on which the coefficients
change by a bounded factor, converge geometrically in p at a cost that grows with log n. Directions meet in the p
numbers P(t_j) alone: their p×p systems are inverted one by one, and one small system couples them (`panel_maps`).
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial import legendre

from sgdtheory.risk.solvers.small_systems import inverses
from sgdtheory.risk.systems.moments import Generators, Keeping, generators, pairs, shown_rows
from sgdtheory.risk.systems.runs import Coefficients

# On panels with more steps differences are formed from derivatives: the difference of two interpolated values would
# lose digits.
LONG_PANEL = 200.0


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
    """Return (2, p + 1) of the two highest Legendre coefficients of a polynomial, from its values at the nodes."""
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
    powers = step[:, None] ** np.arange(1, order + 1)
    result = (powers @ _slope_powers(order)[:, 1:].reshape(order, -1)).reshape(length.size, order, order + 1)
    short = np.flatnonzero(length < LONG_PANEL)
    if short.size:
        gaps = nodes[1:, None] - step[short, None, None] - nodes
        hit = np.abs(gaps) < 1e-13
        before = np.where(hit.any(2, keepdims=True), hit, weights / np.where(hit, 1.0, gaps))
        result[short] = np.eye(order + 1)[1:] - before / before.sum(2, keepdims=True)
    return result


def panel_nodes(order: int, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Step numbers (L, p + 1) of panels of more than p steps, from `low` to `high`, (L,) each."""
    return low[:, None] + (_nodes(order)[0] + 1) / 2 * (high - low)[:, None]


class Averaging(NamedTuple):
    """Output o of L runs, each on a panel, and how their iterates are averaged, if they are."""

    output: np.ndarray
    keeping: Keeping | None


class System(NamedTuple):
    """`f(s) = (1 − decay) f(s − 1) + forcing` at the p equations of L panels, for vectors of q numbers, solved.

    Attributes:
        inverse: (p q, p q, L, K) of the values at the p nodes.
        first: (p, q, q, L, K) what multiplies the values at the start.
        determinant: (L, K) of what is inverted.
    """

    inverse: np.ndarray
    first: np.ndarray
    determinant: np.ndarray

    def values(self, start: np.ndarray, forcing: np.ndarray | float = 0.0) -> np.ndarray:
        """Return (d, p, q, L, K) at the nodes, for the start (d, q, L, K) and forcing (d, p, q, L, K)."""
        right = forcing - np.einsum("jablk,dblk->djalk", self.first, start)
        result = np.einsum("rslk,dslk->drlk", self.inverse, right.reshape(right.shape[0], -1, *right.shape[-2:]))
        return result.reshape(right.shape)


def collocation_systems(decay: np.ndarray, difference: np.ndarray) -> System:
    """Return the solved systems `f(s) − (1 − decay) f(s − 1)` of L panels, from decay (L, p, q, q, K)."""
    panels, p, q, _, size = decay.shape
    before = np.eye(p + 1)[1:] - difference
    same = np.eye(q)[:, None, :, None, None] * np.moveaxis(difference, 0, -1)[:, None, :, None, :, None]
    blocks = np.moveaxis(decay, 0, 3)[:, :, None] * np.moveaxis(before, 0, -1)[:, None, :, None, :, None]
    blocks += same  # (p, q, p + 1, q, L, K)
    inverse, determinant = inverses(np.ascontiguousarray(blocks[:, :, 1:]).reshape(p * q, p * q, panels * size))
    shape = panels, size
    return System(inverse.reshape(p * q, p * q, *shape), blocks[:, :, 0], determinant.reshape(shape))


class Responses(NamedTuple):
    """Answers of modes on L panels to u units: of the q moments M and the k of x at the start, and of noise.

    Attributes:
        own: (q + k + p, p + 1, q, L, K) M at the nodes; the noise is a unit of λ⁻²(P + σ²) at one of the p equations.
        cross: (q + k + p, p + 1, k, L, K) x; k is 0 where nothing is averaged.
        determinant: (L, K) of the systems that were inverted.
    """

    own: np.ndarray
    cross: np.ndarray
    determinant: np.ndarray


def responses(nodes: np.ndarray, steps: Coefficients, eigenvalue: np.ndarray, run: Averaging) -> Responses:
    """Return the answers of modes on L panels with nodes (L, p + 1), whose L p equations are `steps`."""
    panels, order = nodes.shape[0], nodes.shape[1] - 1
    maps = generators(steps.matrices, steps.batch, np.repeat(eigenvalue, order, axis=0))
    maps = Generators(*(each.reshape(panels, order, *each.shape[1:]) for each in maps))
    q = maps.seen.shape[2]
    k = 0 if run.keeping is None else run.output.size
    difference = backward_differences(order, nodes[:, -1] - nodes[:, 0])
    system = collocation_systems(maps.decay, difference)
    own = np.zeros((q + k + order, order + 1, q, *eigenvalue.shape))
    own[:q, 0] = np.eye(q)[:, :, None, None]
    own[:q, 1:] = system.values(own[:q, 0])
    own[q + k :, 1:] = np.moveaxis(_forced(system.inverse, _force(steps, panels)), 2, 0)
    if run.keeping is None:
        return Responses(own, own[:, :, :0], system.determinant)
    forgetting = run.keeping.forgetting[:, None, None, None, None]
    rest = (1 - forgetting) * maps.propagator_decay
    crossing = collocation_systems(forgetting * np.eye(k)[..., None] + rest, difference)
    shown = np.einsum("iq,dnqlk->dnilk", shown_rows(run.output), own)
    before = np.eye(order + 1)[1:] - difference
    shown = np.einsum("ljn,dnilk->djilk", before, shown)  # M o before the steps
    propagator = np.moveaxis(maps.propagator, 0, 3)
    moved = run.keeping.weight[:, None] * np.einsum("jablk,djblk->djalk", propagator, shown)
    cross = np.zeros((q + k + order, order + 1, k, *eigenvalue.shape))
    cross[q : q + k, 0] = np.eye(k)[:, :, None, None]
    cross[:, 1:] = crossing.values(cross[:, 0], moved)
    return Responses(own, cross, system.determinant * crossing.determinant)


def _force(steps: Coefficients, panels: int) -> np.ndarray:
    """Return (p, q, L) b bᵀ/B of the steps at the equations of L panels."""
    b = steps.matrices.b
    packed = np.stack([b[:, i] * b[:, j] / steps.batch for i, j in pairs(b.shape[1])])
    return np.moveaxis(packed.reshape(packed.shape[0], panels, -1), 2, 0)


def _forced(inverse: np.ndarray, force: np.ndarray) -> np.ndarray:
    """M at the nodes for a unit of noise at each equation, (p, q, p, L, K), with force (p, q, L)."""
    p, q, panels = force.shape
    result = inverse.reshape(p * q, p, q, panels, -1)
    result = (result * force[..., None]).sum(2) if q > 1 else result[:, :, 0] * force[:, 0, :, None]
    return result.reshape(p, q, p, panels, -1)
