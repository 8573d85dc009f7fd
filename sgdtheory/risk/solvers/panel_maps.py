"""Panels as linear maps: prepared for many panels at once, crossed by a few products (THEORY.md T20).

Modes meet in P + σ² at the p equations alone. With `f = λ² × (how many directions a mode stands for)`, its moments M at
the panel's start and the answers of `collocation.responses` to units of them and of noise, E and F,

    ΣM(t_n) = Σ_i E_i(t_n) M_i + Σ_j [Σ_i f_i F_ij(t_n)] (P + σ²)_j,    P_j = ℓ_j·ΣM(t_j),

is solved for the p numbers P_j, and M_i at the end is E_i M_i + f_i Σ_j F_ij (P + σ²)_j. For these sums and ends the
answers at some nodes in λ do for all modes (`mode_reduction`).
"""

from typing import NamedTuple

import numpy as np

from sgdtheory.problems import Modes
from sgdtheory.risk.solvers.collocation import Averaging, backward_differences, collocation_systems, responses
from sgdtheory.risk.solvers.mode_reduction import ReducedModes, reduce_modes
from sgdtheory.risk.systems.moments import Moments, pack, pairs, shown_weights, unpack
from sgdtheory.risk.systems.runs import Coefficients


class AlongPanel(NamedTuple):
    """Sums over the modes at the nodes of L panels.

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


class Map(NamedTuple):
    """Linear maps of L panels, from z numbers of each mode at the start to r sums over modes and y numbers of each.

    Attributes:
        inside: (L, p r, z m) the sums at the nodes but the first, from m modes or nodes in λ,
        driven: (L, p r, p) and from P + σ² at the equations.
        ends: (L, y, z, K) the numbers at the end,
        driven_ends: (L, y m, p) and from P + σ² over f.
        force: (L, K) f.
    """

    inside: np.ndarray
    driven: np.ndarray
    ends: np.ndarray
    driven_ends: np.ndarray
    force: np.ndarray


class Square(NamedTuple):
    """Σ S² at the nodes but the first, from what it gains at the equations, (L, p, p), and from the start, (L, p)."""

    gained: np.ndarray
    start: np.ndarray


class PanelMap(NamedTuple):
    """L panels.

    Attributes:
        nodes: (L, p + 1) step numbers.
        before: (L, p, p + 1) values one step before the p equations, from the values at the nodes.
        node_weights: (L, m, K) weights of nodes in λ at the modes; None where these stand for themselves.
        falloff: (L, K) by which moments M are multiplied before x is made of them (`mode_reduction.ReducedModes`).
        noise: (L, p, (p + 1) q) P + σ² from ΣM at the nodes without noise,
        noise_alone: (L, p) and from σ² = 1.
        own, cross, square: M, x and Σ S², the latter where something is averaged.
        felt, trained: M as the loss that drives the noise sees it, and (L, K) by what; None where it sees M itself.
    """

    nodes: np.ndarray
    before: np.ndarray
    node_weights: np.ndarray | None
    falloff: np.ndarray
    noise: np.ndarray
    noise_alone: np.ndarray
    own: Map
    cross: Map | None
    square: Square | None
    felt: Map | None = None
    trained: np.ndarray | None = None


def panel_maps(nodes: np.ndarray, steps: Coefficients, modes: Modes, run: Averaging) -> PanelMap:
    """Return the maps of L panels with nodes (L, p + 1), whose L p equations are `steps`."""
    result = reduce_modes(nodes, steps, modes.eigenvalue, run)
    if result is None:
        eigenvalue = np.broadcast_to(modes.eigenvalue, (nodes.shape[0], modes.eigenvalue.size))
        one = np.ones_like(eigenvalue)
        result = ReducedModes(responses(nodes, steps, eigenvalue, run), None, one, one)
    return _panel_map(nodes, steps, modes, run, result)


def _panel_map(nodes: np.ndarray, steps: Coefficients, modes: Modes, run: Averaging, result: ReducedModes) -> PanelMap:
    answers, node_weights, falloff, inverse_falloff = result
    order = nodes.shape[1] - 1
    q = answers.own.shape[2]
    k = answers.cross.shape[2]
    difference = backward_differences(order, nodes[:, -1] - nodes[:, 0])
    before = np.eye(order + 1)[1:] - difference
    force = np.broadcast_to(modes.multiplicity * modes.eigenvalue**2, (nodes.shape[0], modes.eigenvalue.size))
    units = np.r_[:q, q + k : q + k + order]
    own = _map(answers.own[units], answers.own[units, -1], force, node_weights)
    # P at the equations from ΣM at the nodes
    seen = (_seen(steps, nodes.shape[0])[:, :, None] * before[..., None]).reshape(nodes.shape[0], order, -1)
    felt = trained = None
    if modes.trained is not None:
        trained = np.broadcast_to(modes.trained, force.shape)
        felt = _map(answers.own[units], answers.own[units, -1], force * trained, node_weights)
    coupling = np.linalg.inv(np.eye(order) - seen[:, :, q:] @ (felt or own).driven)
    cross = square = None
    if run.keeping is not None:
        answer = answers.cross.copy()
        answer[units] *= inverse_falloff
        with_sum = np.einsum("dnilk,i->dnlk", answer, run.output)[:, :, None]
        cross = _map(with_sum, answer[:, -1], force * falloff, node_weights)
        forgetting = run.keeping.forgetting[:, None, None, None, None]
        one = collocation_systems(np.repeat(forgetting * (2 - forgetting), order, axis=1), difference)
        gained = np.moveaxis(one.inverse[..., 0], 2, 0)
        square = Square(gained, -np.einsum("ljn,nl->lj", gained, one.first[:, 0, 0, :, 0]))
    return PanelMap(
        nodes, before, node_weights, falloff, coupling @ seen, coupling.sum(2), own, cross, square, felt, trained
    )


def _map(sums: np.ndarray, ends: np.ndarray, force: np.ndarray, node_weights: np.ndarray | None) -> Map:
    """Return the map from answers to z units at the start and to p units of noise.

    Args:
        sums: (z + p, p + 1, r, L, m) answers at the nodes.
        ends: (z + p, y, L, m) answers at the end.
        force: (L, K) f.
        node_weights: (L, m, K) of nodes in λ at the modes; None where the modes stand for themselves.
    """
    _, points, r, panels, size = sums.shape
    order = points - 1
    z = sums.shape[0] - order
    y = ends.shape[1]
    sampled = force if node_weights is None else (node_weights @ force[..., None])[..., 0]
    driven = np.einsum("jnrlm,lm->lnrj", sums[z:, 1:], sampled).reshape(panels, order * r, order)
    inside = sums[:z, 1:].transpose(3, 1, 2, 0, 4).reshape(panels, order * r, z * size)
    driven_ends = ends[z:].transpose(2, 1, 3, 0).reshape(panels, y * size, order)
    ends = ends[:z].transpose(2, 1, 0, 3)
    if node_weights is not None:
        ends = (ends.reshape(panels, y * z, size) @ node_weights).reshape(panels, y, z, -1)
    return Map(inside, driven, ends, driven_ends, force)


def _seen(steps: Coefficients, panels: int) -> np.ndarray:
    """Return (L, p, q) ℓ of the steps at the equations of L panels: P = Σ ℓ·M."""
    c = steps.matrices.c
    packed = np.stack([c[:, i] * c[:, j] * (1 if i == j else 2) for i, j in pairs(c.shape[1])], axis=1)
    return packed.reshape(panels, -1, packed.shape[1])


def propagate_panel(moments: Moments, panel: PanelMap, run: Averaging) -> tuple[Moments, AlongPanel]:
    """Return the moments of L runs, (2, L, …) each, at the ends of their panels, and along these."""
    k = run.output.size
    start = pack(moments.own)
    sums = _free(panel.own, start, start.sum(-1), panel.node_weights)
    loss = sums
    if panel.felt is not None and panel.trained is not None:
        seen = start * panel.trained[:, None]
        loss = _free(panel.felt, seen, seen.sum(-1), panel.node_weights)
    noise = (panel.noise @ loss.reshape(*loss.shape[:2], -1, 1))[..., 0]
    noise[1] += panel.noise_alone
    ended = _driven(panel.own, start, sums, noise, panel.node_weights)
    iterate = sums @ shown_weights(run.output)
    vectors = sums[..., [place for place, (i, j) in enumerate(pairs(k)) if i == j]].swapaxes(2, 3)
    ends = unpack(ended, k)
    if run.keeping is None or panel.cross is None or panel.square is None:
        square = np.broadcast_to(moments.square[..., None], iterate.shape)
        return moments._replace(own=ends), AlongPanel(panel.nodes, iterate, np.zeros_like(iterate), square, vectors)
    begin = np.concatenate([start * panel.falloff[:, None], moments.cross], axis=2)
    sums = _free(panel.cross, begin, (moments.cross.sum(-1) @ run.output)[..., None], panel.node_weights)
    cross = _driven(panel.cross, begin, sums, noise, panel.node_weights)
    with_sum = sums[..., 0]
    rho = 1 - run.keeping.forgetting
    omega = run.keeping.weight
    gained = 2 * (rho * omega)[:, None] * with_sum + (omega**2)[:, None] * iterate
    square = panel.square.gained @ (panel.before @ gained[..., None])
    square = square[..., 0] + panel.square.start * moments.square[..., None]
    square = np.concatenate([moments.square[..., None], square], axis=2)
    return Moments(ends, cross, square[..., -1]), AlongPanel(panel.nodes, iterate, with_sum, square, vectors)


def _free(maps: Map, start: np.ndarray, first: np.ndarray, node_weights: np.ndarray | None) -> np.ndarray:
    """Return (2, L, p + 1, r) sums without noise, from the start (2, L, z, K) and what they are there, (2, L, r)."""
    sample = start if node_weights is None else start @ node_weights.swapaxes(1, 2)
    inside = maps.inside @ sample.reshape(*start.shape[:2], -1, 1)
    return np.concatenate([first[:, :, None], inside.reshape(*first.shape[:2], -1, first.shape[2])], axis=2)


def _driven(
    maps: Map, start: np.ndarray, sums: np.ndarray, noise: np.ndarray, node_weights: np.ndarray | None
) -> np.ndarray:
    """Return (2, L, y, K) numbers at the end; what noise (2, L, p) adds to `sums` is added."""
    noise = noise[..., None]
    sums[:, :, 1:] += (maps.driven @ noise).reshape(*sums.shape[:2], -1, sums.shape[3])
    forced = (maps.driven_ends @ noise).reshape(*start.shape[:2], maps.ends.shape[1], -1)
    forced = forced if node_weights is None else forced @ node_weights
    forced *= maps.force[:, None]
    if maps.ends.shape[1:3] == (1, 1):
        return forced + maps.ends[:, 0] * start
    return forced + np.einsum("lyzk,dlzk->dlyk", maps.ends, start)
