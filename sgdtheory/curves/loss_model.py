"""The theory's loss along runs: the last iterate's risk on a power law, for many candidates of its numbers at once."""

from typing import NamedTuple

import numpy as np

from sgdtheory.curves.panels import Optimizer, Panels, weight_norms

LEADING = 16  # directions that are kept by themselves
BLOCKS, NODES = 8, 6  # of Gauss–Legendre nodes in log i beyond
UNMOVED = 1e-4  # of n γ λ: directions below it have hardly moved
EDGE, LARGEST_STEP = 2.0, 1.99  # of γλ: from which on a step is unstable, and up to which it is computed


class LossModel(NamedTuple):
    """Numbers of the theory, (Q,) each for Q candidates.

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
    """Of a power law without end, as nodes that move smoothly with its exponents.

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


def losses(model: LossModel, panels: Panels, optimizer: Optimizer) -> np.ndarray:
    """(Q, J, M + 1) loss at the ends of the panels of J runs.

        r_i ← [(1 − x)² + x²/B] r_i + (x²/B)(σ² + Σ_j r_j),   x = γ_t λ_i,   loss = L0 + Σ_i r_i

    in closed form over a panel, at its mean learning rate; noise with the rate at which what is left of it was made;
    what the sum adds to the noise frozen at its mean over the panel (THEORY.md T1, T34). Where B is not known, noise is
    σ²/B alone: the sum is small beside σ² then. Beyond a step with γλ_1 ≥ 2 the loss is inf.
    """
    norms = weight_norms(panels, model.growth, optimizer)
    x_top = model.step_size[:, None, None] * (panels.rate / optimizer.learning_rate) / np.sqrt(norms)
    modes = directions(model, (x_top * panels.steps).sum(-1).max(1))
    share = 1 / np.where(np.isnan(panels.batch), 1.0, panels.batch)
    own = np.where(np.isnan(panels.batch), 0.0, share)  # of what is multiplied
    risk = np.repeat(modes.signal[:, None, :], panels.steps.shape[0], axis=1)
    total = risk.sum(-1)
    found = [total]
    diverged = np.zeros_like(total, dtype=bool)
    multiplied = bool(own.any())
    for m in range(panels.steps.shape[1]):
        x = np.minimum(x_top[:, :, m, None] * modes.eigenvalue[:, None, :], LARGEST_STEP)
        square = x * x
        loss_rate = 2 * x - square * (1 + own[:, m, None])  # 1 − α
        kept = np.exp(panels.steps[:, m, None] * np.log1p(-np.clip(loss_rate, -0.5, 1 - 1e-15)))
        gain = modes.count[:, None, :] * square / np.maximum(loss_rate, 1e-300) * (1 - kept)
        if panels.change[:, m].any():
            gain *= 1 + panels.change[:, m, None] * _lateness(loss_rate * panels.steps[:, m, None])
        base = kept * risk
        noise = model.noise[:, None] * share[:, m]
        risk = base + gain * noise[:, :, None]
        if multiplied:
            for _ in range(2):
                mean = (total + risk.sum(-1)) / 2
                risk = base + gain * (noise + own[:, m] * mean)[:, :, None]
        total = risk.sum(-1)
        diverged |= x_top[:, :, m] >= EDGE
        found.append(np.where(diverged, np.inf, total))
    return model.floor[:, None, None] + modes.unmoved[:, None, None] + np.stack(found, axis=-1)


def _lateness(decay: np.ndarray) -> np.ndarray:
    """How much later than the middle of a panel, in panels, the noise was made that is left at its end.

    `½ − 1/z + 1/(e^z − 1)` for a decay by e^−z over the panel: 0 for slow directions, ½ for fast ones.
    """
    z = np.maximum(decay, 1e-2)
    return np.where(decay > 1e-2, 0.5 - 1 / z + 1 / np.expm1(np.minimum(z, 700.0)), decay / 12)
