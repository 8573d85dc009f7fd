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

from sgdtheory.algorithms import StepMatrices
from sgdtheory.problems import Modes
from sgdtheory.risk.linear import inverses
from sgdtheory.risk.moments import Generators, Keeping, Moments, generators, pack, pairs, shown_rows, shown_weights, unpack
from sgdtheory.risk.runs import Coefficients
from sgdtheory.risk.thinning import FAST_MODES, LEBESGUE, Slow, chosen, slow_decay, weights

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
        determinant: (L, K) of what is inverted.
    """

    inverse: np.ndarray
    first: np.ndarray
    determinant: np.ndarray

    def values(self, start: np.ndarray, forcing: np.ndarray | float = 0.0) -> np.ndarray:
        """(d, p, q, L, K) at the nodes, for the start (d, q, L, K) and forcing (d, p, q, L, K)."""
        right = forcing - np.einsum("jablk,dblk->djalk", self.first, start)
        found = np.einsum("rslk,dslk->drlk", self.inverse, right.reshape(right.shape[0], -1, *right.shape[-2:]))
        return found.reshape(right.shape)


def systems(decay: np.ndarray, difference: np.ndarray) -> System:
    """Of L panels, from decay (L, p, q, q, K): `f(s) − (1 − decay) f(s − 1)` as matrices, inverted."""
    panels, p, q, _, size = decay.shape
    before = np.eye(p + 1)[1:] - difference
    same = np.eye(q)[:, None, :, None, None] * np.moveaxis(difference, 0, -1)[:, None, :, None, :, None]
    blocks = np.moveaxis(decay, 0, 3)[:, :, None] * np.moveaxis(before, 0, -1)[:, None, :, None, :, None]
    blocks += same  # (p, q, p + 1, q, L, K)
    inverse, determinant = inverses(np.ascontiguousarray(blocks[:, :, 1:]).reshape(p * q, p * q, panels * size))
    shape = panels, size
    return System(inverse.reshape(p * q, p * q, *shape), blocks[:, :, 0], determinant.reshape(shape))


class Responses(NamedTuple):
    """What modes answer on L panels to u units: of each of q moments M and of k of x at the start, and of noise.

    Attributes:
        own: (q + k + p, p + 1, q, L, K) M at the nodes; the noise is a unit of λ⁻²(P + σ²) at one of the p equations.
        cross: (q + k + p, p + 1, k, L, K) x; k is 0 where nothing is averaged.
        determinant: (L, K) of the systems that were inverted.
    """

    own: np.ndarray
    cross: np.ndarray
    determinant: np.ndarray


class Panels(NamedTuple):
    """L panels as linear maps; what is averaged is in them.

    Z = q + k numbers of a mode, M and x, of which m modes or nodes in λ that stand for them are sampled.

    Attributes:
        nodes: (L, p + 1) step numbers.
        before: (L, p, p + 1) values one step before the p equations, from the values at the nodes.
        weights: (L, m, K) of the nodes in λ at the modes; None where the modes stand for themselves.
        noise: (L, p, Z m) P at the equations from the sample at the start; (L, p, 1) and from σ² = 1.
        inside: (L, (p + 1) R, Z m) R = q + 1 sums of M and of oᵀx at the nodes, from the sample at the start,
        driven: (L, (p + 1) R, p) and from P + σ² at the equations.
        ends: (L, Z, Z, K) M and x at the end from those at the start,
        driven_ends: (L, Z m, p) and from λ⁻²(P + σ²) at the equations.
        square: (L, p, p) and (L, p, 1): Σ S² at the nodes from what it gains at the equations, and from the start.
    """

    nodes: np.ndarray
    before: np.ndarray
    weights: np.ndarray | None
    noise: np.ndarray
    noise_alone: np.ndarray
    inside: np.ndarray
    driven: np.ndarray
    ends: np.ndarray
    driven_ends: np.ndarray
    square: np.ndarray | None
    square_start: np.ndarray | None

    def some(self, panels: slice) -> "Panels":
        """Some of the panels."""
        return Panels(*(each if each is None else each[panels] for each in self))


def panel_nodes(order: int, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Step numbers (L, p + 1) of panels of more than p steps, from `low` to `high`, (L,) each."""
    return low[:, None] + (_nodes(order)[0] + 1) / 2 * (high - low)[:, None]


def responses(nodes: np.ndarray, steps: Coefficients, eigenvalue: np.ndarray, run: "Travelling") -> Responses:
    """On L panels with nodes (L, p + 1), whose L p equations are `steps`, at eigenvalues (L, K)."""
    panels, order = nodes.shape[0], nodes.shape[1] - 1
    maps = generators(steps.matrices, steps.batch, np.repeat(eigenvalue, order, axis=0))
    maps = Generators(*(each.reshape(panels, order, *each.shape[1:]) for each in maps))
    q = maps.seen.shape[2]
    k = 0 if run.keeping is None else run.output.size
    difference = backward_differences(order, nodes[:, -1] - nodes[:, 0])
    system = systems(maps.decay, difference)
    own = np.zeros((q + k + order, order + 1, q, *eigenvalue.shape))
    own[:q, 0] = np.eye(q)[:, :, None, None]
    own[:q, 1:] = system.values(own[:q, 0])
    own[q + k :, 1:] = np.moveaxis(_forced(system.inverse, _force(steps, panels)), 2, 0)
    if run.keeping is None:
        return Responses(own, own[:, :, :0], system.determinant)
    forgetting = run.keeping.forgetting[:, None, None, None, None]
    rest = (1 - forgetting) * maps.propagator_decay
    crossing = systems(forgetting * np.eye(k)[..., None] + rest, difference)
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
    """(p, q, L) b bᵀ/B of the steps at the equations of L panels."""
    b = steps.matrices.b
    packed = np.stack([b[:, i] * b[:, j] / steps.batch for i, j in pairs(b.shape[1])])
    return np.moveaxis(packed.reshape(packed.shape[0], panels, -1), 2, 0)


def _forced(inverse: np.ndarray, force: np.ndarray) -> np.ndarray:
    """M at the nodes for a unit of noise at each equation, (p, q, p, L, K), with force (p, q, L)."""
    p, q, panels = force.shape
    found = inverse.reshape(p * q, p, q, panels, -1)
    found = (found * force[..., None]).sum(2) if q > 1 else found[:, :, 0] * force[:, 0, :, None]
    return found.reshape(p, q, p, panels, -1)


class Travelling(NamedTuple):
    """Of L runs, each on a panel: how they are averaged, and o."""

    keeping: Keeping | None
    output: np.ndarray


def prepared(nodes: np.ndarray, steps: Coefficients, modes: Modes, run: Travelling) -> Panels:
    """L panels together, with nodes (L, p + 1), whose L p equations are `steps`."""
    thin = _thinned(nodes, steps, modes, run)
    if thin is not None:
        return _mapped(nodes, steps, *thin, modes, run)
    eigenvalue = np.broadcast_to(modes.eigenvalue, (nodes.shape[0], modes.eigenvalue.size))
    return _mapped(nodes, steps, responses(nodes, steps, eigenvalue, run), None, modes, run)


def _thinned(
    nodes: np.ndarray, steps: Coefficients, modes: Modes, run: Travelling
) -> tuple[Responses, np.ndarray] | None:
    """The responses of a few nodes in λ, and their weights at the modes; None where the modes are sooner done."""
    order = nodes.shape[1] - 1
    fast = modes.eigenvalue > FAST_MODES * modes.eigenvalue.max()
    slow = np.flatnonzero(~fast)
    if slow.size < 2 * order + 1 + (order if run.keeping else 0):
        return None
    panels = nodes.shape[0]
    matrices = StepMatrices(*(each.reshape(panels, order, *each.shape[1:]) for each in steps.matrices))
    found = chosen(float(modes.eigenvalue[slow].max()), _poles(nodes, slow_decay(matrices), run.keeping), order)
    large = np.flatnonzero(fast)
    eigenvalue = np.concatenate([np.tile(modes.eigenvalue[large], (panels, 1)), found], axis=1)
    answers = responses(nodes, steps, eigenvalue, run)
    determinant = answers.determinant[:, large.size :]
    spread = weights(found, np.sign(determinant), np.log(np.abs(determinant)), modes.eigenvalue[slow])
    if not np.abs(spread).sum(1).max() < LEBESGUE:
        return None
    every = np.zeros((panels, eigenvalue.shape[1], modes.eigenvalue.size))
    every[:, np.arange(large.size), large] = 1.0
    every[:, large.size :][:, :, slow] = spread
    return answers, every


def _poles(nodes: np.ndarray, slow: Slow, keeping: Keeping | None) -> list[np.ndarray]:
    """Of M, and of x where something is averaged: −λ at which they would grow by e^(p + 1) on a panel."""
    order = nodes.shape[1] - 1
    reach = (order + 1) / (nodes[:, -1] - nodes[:, 0])
    found = [reach / 2 + slow.offset]
    if keeping is not None:
        found.append(reach + slow.offset + keeping.forgetting)
    return [each / slow.slope for each in found]


def _mapped(
    nodes: np.ndarray,
    steps: Coefficients,
    answers: Responses,
    spread: np.ndarray | None,
    modes: Modes,
    run: Travelling,
) -> Panels:
    own, cross, _ = answers
    units, points, q, panels, size = own.shape
    order = points - 1
    k = cross.shape[2]
    state = q + k
    force = modes.multiplicity * modes.eigenvalue**2
    force = np.broadcast_to(force, (panels, size)) if spread is None else spread @ force
    difference = backward_differences(order, nodes[:, -1] - nodes[:, 0])
    before = np.eye(points)[1:] - difference
    inside = own if not k else np.concatenate([own, np.einsum("dnilk,i->dnlk", cross, run.output)[:, :, None]], axis=2)
    driven = np.einsum("dnrlk,lk->lnrd", inside[state:], force)
    inside = np.moveaxis(inside[:state], 3, 0)  # (L, Z, p + 1, R, m)
    seen = pack_seen(steps, panels)
    noise = np.einsum("ljq,ljn,lznqk->ljzk", seen, before, inside[:, :, :, :q], optimize=True)
    kernel = np.einsum("ljq,ljn,lnqd->ljd", seen, before, driven[:, :, :q], optimize=True)
    coupling = np.linalg.inv(np.eye(order) - kernel)
    rows = points * inside.shape[3]
    ends = np.concatenate([own[:, -1], cross[:, -1]], axis=1)  # (u, Z, L, m)
    driven_ends = np.moveaxis(ends[state:], 0, -1).swapaxes(0, 1).reshape(panels, state * size, order)
    ends = np.moveaxis(ends[:state], 2, 0).swapaxes(1, 2)
    if spread is not None:
        ends = (ends.reshape(panels, state * state, size) @ spread).reshape(panels, state, state, -1)
    square = square_start = None
    if run.keeping is not None:
        forgetting = run.keeping.forgetting[:, None, None, None, None]
        one = systems(np.repeat(forgetting * (2 - forgetting), order, axis=1), difference)
        square = np.moveaxis(one.inverse[..., 0], 2, 0)
        square_start = -square @ np.moveaxis(one.first[:, 0, 0, :, 0], 1, 0)[..., None]
    return Panels(
        nodes,
        before,
        spread,
        coupling @ noise.reshape(panels, order, state * size),
        coupling.sum(2)[..., None],
        np.moveaxis(inside, 1, 3).reshape(panels, rows, state * size),
        driven.reshape(panels, rows, order),
        np.ascontiguousarray(ends),
        driven_ends,
        square,
        square_start,
    )


def pack_seen(steps: Coefficients, panels: int) -> np.ndarray:
    """(L, p, q) ℓ of the steps at the equations of L panels: P = Σ ℓ·M."""
    c = steps.matrices.c
    packed = np.stack([c[:, i] * c[:, j] * (1 if i == j else 2) for i, j in pairs(c.shape[1])], axis=1)
    return packed.reshape(panels, -1, packed.shape[1])


def across(moments: Moments, panel: Panels, modes: Modes, run: Travelling) -> tuple[Moments, Along]:
    """Moments of L runs, (2, L, …) each, at the ends of their panels, and along these."""
    output = run.output
    k = output.size
    begin = pack(moments.own)
    q = begin.shape[2]
    if run.keeping is not None:
        begin = np.concatenate([begin, moments.cross], axis=2)
    panels, state = begin.shape[1:3]
    sample = begin if panel.weights is None else begin @ panel.weights.swapaxes(1, 2)
    sample = sample.reshape(2, panels, -1, 1)
    noise = panel.noise @ sample
    noise[1] += panel.noise_alone
    inside = (panel.inside @ sample + panel.driven @ noise).reshape(2, *panel.nodes.shape, -1)
    forced = (panel.driven_ends @ noise).reshape(2, panels, state, -1)
    if panel.weights is not None:
        forced = forced @ panel.weights
    ended = np.einsum("lyzk,dlzk->dlyk", panel.ends, begin)
    ended += forced * (modes.multiplicity * modes.eigenvalue**2)
    iterate = inside[..., :q] @ shown_weights(output)
    vectors = np.moveaxis(inside[..., [place for place, (i, j) in enumerate(pairs(k)) if i == j]], 3, 2)
    ends = unpack(ended[:, :, :q], k)
    if run.keeping is None or panel.square is None:
        square = np.broadcast_to(moments.square[..., None], iterate.shape)
        return moments._replace(own=ends), Along(panel.nodes, iterate, np.zeros_like(iterate), square, vectors)
    rho = 1 - run.keeping.forgetting
    omega = run.keeping.weight
    with_sum = inside[..., q]
    gained = 2 * (rho * omega)[:, None] * with_sum + (omega**2)[:, None] * iterate
    square = panel.square @ (panel.before @ gained[..., None]) + panel.square_start * moments.square[..., None, None]
    square = np.concatenate([moments.square[..., None], square[..., 0]], axis=2)
    return Moments(ends, ended[:, :, q:], square[..., -1]), Along(panel.nodes, iterate, with_sum, square, vectors)
