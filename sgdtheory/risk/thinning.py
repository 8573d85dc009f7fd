"""A few eigenvalues that stand for all modes on a panel: rational interpolation in λ.

What p collocation points make of a mode is X(λ)⁻¹ times polynomials of λ, and X(λ) a matrix polynomial. So it is
N(λ)/det X(λ), with polynomials N, and interpolated at nodes λ_m by

    f(λ) = Σ_m W_m(λ) f(λ_m),    W_m ∝ v_m det X(λ_m)/(λ − λ_m),    v_m = 1/Π_{l≠m} (λ_m − λ_l),    Σ_m W_m = 1

(the barycentric formula), exactly where N and det X are of lower degree than there are nodes: for SGD 2p + 1 nodes are
enough, however many modes there are. The nodes are zeros of a rational Chebyshev function with p poles where those of
the panel are, about λ = −(p + 1)/(the way γ t of the panel), and the others at infinity, so that no digits are lost.
"""

from typing import NamedTuple

import numpy as np

from sgdtheory.algorithms import StepMatrices

FAST_MODES = 0.25  # of the largest eigenvalue: larger ones, which may be next to the edge, stand for themselves
HALVINGS = 14  # of an interval of log λ in which a node is sought: to 1%, as any nodes near them do
LEBESGUE = 100.0  # Σ|W|, by which rounding errors grow: with more the interpolation is not used


class Slow(NamedTuple):
    """The decay `offset + slope·λ` a step of a mode's slowest direction, (L,) each, where λ is small."""

    offset: np.ndarray
    slope: np.ndarray


def slow_decay(matrices: StepMatrices) -> Slow:
    """On L panels from their steps, (L, p, …): det(1 − A + λ b cᵀ) over its minors, at the mean of the steps."""
    decay = matrices.decay.mean(1)
    k = decay.shape[-1]
    if k == 1:
        return Slow(decay[:, 0, 0], (matrices.b * matrices.c).mean(1)[:, 0])
    driven = (matrices.b[..., :, None] * matrices.c[..., None, :]).mean(1)
    rest = [np.delete(np.delete(decay, i, 1), i, 2) for i in range(k)]
    minors = sum(np.linalg.det(each) for each in rest)
    fixed = np.linalg.det(decay)
    return Slow(fixed / minors, (np.linalg.det(decay + driven) - fixed) / minors)


def chosen(top: float, poles: list[np.ndarray], order: int) -> np.ndarray:
    """(L, m) nodes in (0, top] for functions with p poles near each −`poles`, (L,), and p at infinity."""
    scales = [1 / (1 / pole + 1 / top) for pole in poles]  # of u = λ/(1 − λ/top), to which (0, top) is (0, ∞)
    powers = [order] * len(poles) + [order + 1]
    scales.append(np.full_like(scales[0], top))
    low = np.log(np.minimum.reduce(scales) * 1e-5)
    high = np.log(np.maximum.reduce(scales) * 1e5)
    aim = (np.arange(sum(powers)) + 0.5) * (np.pi / 2)
    middle = np.repeat(((low + high) / 2)[:, None], aim.size, axis=1)
    width = (high - low)[:, None] / 4
    for _ in range(HALVINGS):
        phase = sum(
            power * np.arctan(np.exp((middle - np.log(scale)[:, None]) / 2))
            for power, scale in zip(powers, scales, strict=True)
        )
        middle = middle + np.where(phase < aim, width, -width)
        width = width / 2
    found = np.exp(middle)
    return found / (1 + found / top)


def weights(nodes: np.ndarray, sign: np.ndarray, log: np.ndarray, eigenvalue: np.ndarray) -> np.ndarray:
    """(L, m, K) W_m(λ) of nodes (L, m) with determinants `sign·e^log`."""
    gaps = nodes[:, :, None] - nodes[:, None]
    gaps += np.eye(nodes.shape[1])
    log = log - np.log(np.abs(gaps)).sum(2)
    alternating = (-1.0) ** np.arange(nodes.shape[1])
    factor = alternating * sign * np.exp(log - log.max(1, keepdims=True))
    away = eigenvalue - nodes[:, :, None]
    found = factor[:, :, None] / np.where(away == 0, 1e-20 * nodes[:, :, None], away)
    found /= found.sum(1, keepdims=True)
    return found
