"""The theory's loss along runs: the last iterate's risk on a power law, for many candidates of its numbers at once."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from sgdtheory._common.compiled import compiled_loop
from sgdtheory.curves.panels import Optimizer, Panels, weight_norms

LEADING = 16  # This many leading directions are computed one by one.
BLOCKS = 8  # The quadrature in log i over the other directions has this many blocks.
NODES = 6  # A block has this many Gauss–Legendre nodes: the sum of the signal is then right to 1e-4.
UNMOVED = 1e-4  # Directions with nγλ below this count as unmoved: their signal stays in the loss.
ROUNDS = 2  # Adam's v and the risk depend on each other, and each panel solves for both in this many iterations.
EDGE = 2.0  # SGD diverges, and its loss is inf, from a step with this γλ_1 on.
LARGEST_STEP = 1.99  # Larger γλ are replaced by this value: the closed form divides by 2γλ − (γλ)², which is 0 at 2.
BLOCK = 2**14  # Panels of SGD are computed in groups of at most this many array elements, which fit into a cache.
# A compiled loop pads candidates and runs to one of these numbers, or to a multiple of the last, to limit its shapes.
LANES = 1, 2, 4, 8, 16, 32, 64
PANELS_AT_ONCE = 64  # A compiled loop pads the number of panels to a multiple of this.


class LossModel(NamedTuple):
    """Numbers of the theory, (Q,) each for Q candidates, or (1,) where they share one: decays are computed once then.

    Attributes:
        capacity, source: a and b of `λ_i = i^−a`, `s_i ∝ i^−b`.
        signal: A, in units of the loss: `s_i = A i^−b`.
        noise: σ²/B, or σ² where batch sizes are known, in units of the loss.
        step_size: γ̄λ_1 at the learning rate γ̄ of the `Optimizer` and the weights' first norm.
        floor: L0, the loss that is left.
        growth: g of `weight_norms`.
    """

    capacity: np.ndarray
    source: np.ndarray
    signal: np.ndarray
    noise: np.ndarray
    step_size: np.ndarray
    floor: np.ndarray
    growth: np.ndarray


class Directions(NamedTuple):
    """(Q, K) eigenvalue, how many directions a node stands for, their signal; (Q,) the signal beyond them."""

    eigenvalue: np.ndarray
    count: np.ndarray
    signal: np.ndarray
    unmoved: np.ndarray


def directions(model: LossModel, moved: np.ndarray) -> Directions:
    """Return the directions of an infinite power law as nodes that move smoothly with its exponents.

    Args:
        model: Q candidates.
        moved: (Q,) `Σ_t γ_t λ_1`.
    """
    first = LEADING + 0.5
    end = np.maximum((moved / UNMOVED) ** (1 / model.capacity), 4 * first)
    low, width = np.log(first), (np.log(end) - np.log(first)) / BLOCKS  # (Q,)
    unit, weight = np.polynomial.legendre.leggauss(NODES)
    place = (np.arange(BLOCKS)[:, None] + (unit + 1) / 2).ravel()
    log_index = low + width[:, None] * place
    count = width[:, None] / 2 * np.tile(weight, BLOCKS) * np.exp(log_index)
    leading = np.broadcast_to(np.log(np.arange(1.0, LEADING + 1)), (end.size, LEADING))
    log_index = np.concatenate([leading, log_index], axis=1)
    count = np.concatenate([np.ones_like(leading), count], axis=1)
    a = model.capacity[:, None]
    b = model.source[:, None]
    signal = model.signal[:, None] * count * np.exp(-b * log_index)
    unmoved = model.signal * end ** (1 - model.source) / (model.source - 1)
    return Directions(np.exp(-a * log_index), count, signal, unmoved)


def in_batches(model: LossModel, batch: float, optimizer: Optimizer) -> LossModel:
    """Return the model with SGD's noise and Adam's step at a batch size that is given in batches of the curves."""
    longer = np.sqrt(batch) if optimizer.adaptive else 1.0
    return model._replace(noise=model.noise / batch, step_size=model.step_size * longer)


def losses(model: LossModel, panels: Panels, optimizer: Optimizer) -> np.ndarray:
    """(Q, J, M + 1) loss at the ends of the panels of J runs.

        r_i ← [(1 − x)² + x²/B] r_i + (x²/B)(σ² + Σ_j r_j),   x = γ_t λ_i,   loss = L0 + Σ_i r_i

    in closed form over a panel, at its mean learning rate; noise with the rate at which what is left of it was made;
    what the sum adds to the noise frozen at its mean over the panel (THEORY.md T1, T34). Where B is not known, noise is
    σ²/B alone: the sum is small beside σ² then. Beyond a step with γλ_1 ≥ 2 the loss is inf.

    Adam divides by the root of the gradient's mean square v (T38), σ̄²/B̄ being that of noise alone at the curves' B̄:

        x_i = γ_t λ_i √(σ²/(B̄ v_i)),   v_i = (σ² + Σ_j r_j)/B + (1 + 1/B) r_i,   r_i of a single direction.
    """
    share = 1 / np.where(np.isnan(panels.batch), 1.0, panels.batch)
    own = np.where(np.isnan(panels.batch), 0.0, share)  # of what is multiplied
    norms = weight_norms(panels, model.growth, optimizer)
    x_top = model.step_size[:, None, None] * (panels.rate / optimizer.learning_rate) / np.sqrt(norms)
    if optimizer.adaptive:
        of_curves = 1.0 if np.isnan(optimizer.batch) else optimizer.batch
        x_top = x_top / np.sqrt(share * of_curves)  # where noise alone makes up v
    modes = directions(model, (x_top * panels.steps).sum(-1).max(1))
    risk = np.repeat(modes.signal[:, None, :], panels.steps.shape[0], axis=1)
    every = Panel(panels.steps.T, panels.change.T, own.T, model.noise[:, None] * share.T[:, None, :])
    course = _adaptive_course if optimizer.adaptive else _plain_course
    total = np.concatenate([risk.sum(-1)[None], course(modes, every, np.moveaxis(x_top, -1, 0), risk)])
    if not optimizer.adaptive:
        diverged = np.logical_or.accumulate(np.moveaxis(x_top >= EDGE, -1, 0))
        total[1:] = np.where(diverged, np.inf, total[1:])
    return model.floor[:, None, None] + modes.unmoved[:, None, None] + np.moveaxis(total, 0, -1)


class Panel(NamedTuple):
    """A panel of J runs: (J,) steps, change of the rate, 1/B or 0 if unknown; (Q, J) σ²/B. M panels put M first."""

    steps: np.ndarray
    change: np.ndarray
    own: np.ndarray
    noise: np.ndarray

    def at(self, place: int | slice) -> "Panel":
        """One of M, or some."""
        return Panel(*(each[place] for each in self))


def _plain_course(modes: Directions, panels: Panel, x_top: np.ndarray, risk: np.ndarray) -> np.ndarray:
    """(M, Q, J) sum of the risk after each panel of SGD, `x_i = x_1 λ_i`.

    What panels keep and gain does not depend on the risk: of many at once, which is where the time goes.
    """
    found = []
    alike = (x_top == x_top[:, :, :1]).all() and (panels.own == panels.own[:, :1]).all()
    runs = slice(1) if alike else slice(None)  # with one rate and different numbers of steps: one x for all
    block = max(1, BLOCK // risk.size)
    for first in range(0, len(x_top), block):
        part = panels.at(slice(first, first + block))
        x = np.minimum(x_top[first : first + block, :, runs, None] * modes.eigenvalue[:, None, :], LARGEST_STEP)
        kept, gain = _kept_and_gained(modes.count[:, None, :], part._replace(own=part.own[:, runs]), x)
        for m in range(len(kept)):
            risk = _plain(part.at(m), kept[m], gain[m], risk)
            found.append(risk.sum(-1))
    return np.array(found)


def _plain(panel: Panel, kept: np.ndarray, gain: np.ndarray, risk: np.ndarray) -> np.ndarray:
    """(Q, J, K) risk after a panel of SGD."""
    base = kept * risk
    after = base + gain * panel.noise[:, :, None]
    if panel.own.any():
        total = risk.sum(-1)
        for _ in range(2):
            mean = (total + after.sum(-1)) / 2
            after = base + gain * (panel.noise + panel.own * mean)[:, :, None]
    return after


def _adaptive_course(modes: Directions, panels: Panel, x_top: np.ndarray, risk: np.ndarray) -> np.ndarray:
    """(M, Q, J) sum of the risk after each panel of Adam, in a compiled loop of panels.

    The loop has room for more panels, candidates and runs than there are, so that few shapes are compiled. Panels
    beyond the last one have no steps; candidates and runs beyond the last one repeat it.
    """
    panel_count, candidates, runs = x_top.shape
    more = -panel_count % PANELS_AT_ONCE, _room(candidates) - candidates, _room(runs) - runs

    def filled(values: np.ndarray, *axes: int, mode: Any = "edge") -> np.ndarray:
        return np.pad(values, [(0, more[axis]) if axis >= 0 else (0, 0) for axis in axes], mode)

    course = Panel(
        filled(filled(panels.steps, 0, -1, mode="constant"), -1, 2),
        filled(panels.change, 0, 2),
        filled(panels.own, 0, 2),
        filled(np.broadcast_to(panels.noise, x_top.shape), 0, 1, 2),
    )
    directions = filled(modes.eigenvalue, 1, -1), filled(modes.count, 1, -1)
    found = _adaptive_loop()(*directions, course, filled(x_top, 0, 1, 2), filled(risk, 1, 2, -1))
    return found[:panel_count, :candidates, :runs]


def _room(count: int) -> int:
    """Return the least of the lanes that has room, or the next multiple of the largest one."""
    return next((each for each in LANES if each >= count), count + -count % LANES[-1])


@functools.cache
def _adaptive_loop() -> Callable[..., np.ndarray]:
    """Return the compiled loop over panels of Adam, which has v in the middle of a panel's steps.

    A step larger than `c (1 − hx/2)^½`, c that of noise alone and h = 1 + 1/B, does not last: then the direction's risk
    is above `x/(2 − hx)` of the noise, and v with it. So Adam has no edge.
    """
    import jax
    import jax.numpy as jnp

    def run(eigenvalue: Any, count: Any, panels: Panel, x_top: Any, risk: Any) -> Any:
        count = count[:, None, :]

        def after(risk: Any, now: tuple[Panel, Any]) -> tuple[Any, Any]:
            panel, top = now
            x_noise = top[:, :, None] * eigenvalue[:, None, :]
            own = 1 + panel.own[:, None]
            way = (1 - 1 / jnp.maximum(panel.steps[:, None], 1.0)) / 2  # to the end, of where its steps begin
            after = risk
            for _ in range(ROUNDS):
                middle = ((1 - way) * jnp.sqrt(risk) + way * jnp.sqrt(after)) ** 2
                noise = (panel.noise + panel.own * middle.sum(-1))[:, :, None]
                square = x_noise**2 * panel.noise[:, :, None]
                x = jnp.sqrt(square / (noise + own * middle / count))
                bend = own * square / noise / 4
                x = jnp.minimum(x, jnp.sqrt(bend**2 + square / noise) - bend)
                kept, gain = _kept_and_gained(count, panel, x, jnp)
                after = kept * risk + gain * noise
            return after, after.sum(-1)

        return jax.lax.scan(after, risk, (panels, x_top))[1]

    return compiled_loop(run)


def _kept_and_gained(count: Any, panel: Panel, x: Any, library: Any = np) -> tuple[Any, Any]:
    """(…, Q, J, K) what a panel keeps of a node's risk, and what it adds in units of the noise of a batch.

    Args:
        count: (Q, 1, K) how many directions a node stands for.
        panel: one of them, or several.
        x: (…, Q, J, K) γλ.
        library: NumPy, or that of JAX in a compiled loop.
    """
    steps = panel.steps[..., None, :, None]
    square = x * x
    loss_rate = 2 * x - square * (1 + panel.own[..., None, :, None])  # 1 − α
    kept = library.exp(steps * library.log1p(-library.clip(loss_rate, -0.5, 1 - 1e-15)))
    gain = count * square / library.maximum(loss_rate, 1e-300) * (1 - kept)
    if library is not np or panel.change.any():
        gain = gain * (1 + panel.change[..., None, :, None] * _lateness(loss_rate * steps, library))
    return kept, gain


def _lateness(decay: Any, library: Any = np) -> Any:
    """Return how much later than the middle of a panel, in panels, the noise was made that is left at its end.

    `½ − 1/z + 1/(e^z − 1)` for a decay by e^−z over the panel: 0 for slow directions, ½ for fast ones.
    """
    z = library.maximum(decay, 1e-2)
    return library.where(decay > 1e-2, 0.5 - 1 / z + 1 / library.expm1(library.minimum(z, 700.0)), decay / 12)
