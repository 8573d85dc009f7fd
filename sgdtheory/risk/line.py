"""Coefficients of generating functions with poles anywhere within the unit circle, by an integral along a circle.

On `z = e^−p`, p = growth + c/n + iω, the coefficient of z^n is `(e^{n growth + c}/π) Re ∫_0^π f e^{inω} dω`. Panels are
halved until 16 Legendre polynomials follow f, which does not depend on n; `∫ P_k(u) e^{iau} du = 2 i^k j_k(a)` does the
rest, however fast e^{inω} turns. Where what oscillates has died out the parabola of `contour` takes a few points.
"""

from collections.abc import Callable

import numpy as np
from numpy.polynomial import legendre
from scipy.special import spherical_jn

from sgdtheory.risk.contour import QUIET_CONTOUR

ORDER = 16  # points of a panel
RIGHT = 1.5  # c: how far right of all poles, which amplifies rounding by e^c
TAIL = 1e-13
SHORTEST = 1e-3  # panels, times c/n: poles are no nearer
MOST_EXPONENT = 709.0  # e^709 is about the largest float
MOST_ROUNDS = 60

_NODES, _WEIGHTS = legendre.leggauss(ORDER)
_DEGREES = np.arange(ORDER)
_TRANSFORM = (legendre.legvander(_NODES, ORDER - 1) * _WEIGHTS[:, None]).T * (_DEGREES[:, None] + 0.5)

Transform = Callable[[np.ndarray], np.ndarray]  # (C,) p → (…, C) values


def coefficients(
    transform: Transform, num_steps: float, growth: float, settled: bool, tail: float = TAIL
) -> np.ndarray:
    """(…) coefficients of z^n, n ≥ 1, of real functions whose poles have Re p ≤ growth.

    Args:
        transform: the functions, of p.
        num_steps: n.
        growth: of the farthest pole.
        settled: whether those that are not real have died out by n.
        tail: of the largest contribution of a panel: what its last polynomials may hold.
    """
    if num_steps * growth > MOST_EXPONENT:
        return np.full(transform(np.array([growth + 1.0])).shape[:-1], np.inf)
    if settled:
        p = growth + QUIET_CONTOUR.points / num_steps
        found = (QUIET_CONTOUR.weights * transform(p)).sum(-1).real / num_steps
    else:
        found = _along_the_line(transform, num_steps, growth, tail)
    return found * np.exp(num_steps * growth)


def _along_the_line(transform: Transform, num_steps: float, growth: float, most: float) -> np.ndarray:
    right = RIGHT / num_steps
    first = min(right, np.pi)
    doublings = int(np.ceil(np.log2(np.pi / first)))
    edges = np.concatenate([[0.0], np.pi * 2.0 ** -np.arange(doublings, -1, -1.0)])
    low, high = edges[:-1], edges[1:]
    total: np.ndarray | float = 0.0
    largest = 0.0
    for _ in range(MOST_ROUNDS):
        middle = (low + high) / 2
        half = (high - low) / 2
        omega = middle[:, None] + half[:, None] * _NODES
        values = transform(growth + right + 1j * omega.ravel())
        values = values.reshape(*values.shape[:-1], *omega.shape)
        series = values @ _TRANSFORM.T  # (…, L, ORDER)
        size = np.abs(series).max(-1) * half
        scale = np.maximum(largest, size.max(-1, keepdims=True))
        largest = scale
        tail = np.abs(series[..., -2:]).max(-1) * half
        open_ = (tail > most * scale).reshape(-1, half.size).any(0) & (half > SHORTEST * right)
        done = np.flatnonzero(~open_)
        turned = 2 * (1j**_DEGREES) * spherical_jn(_DEGREES, num_steps * half[done, None])
        waves = half[done, None] * np.exp(1j * num_steps * middle[done, None]) * turned
        total = total + np.einsum("...lk,lk->...", series[..., done, :], waves)
        if not open_.any():
            break
        low, middle, high = low[open_], middle[open_], high[open_]
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
    return np.asarray(np.exp(RIGHT) / np.pi * np.real(total))
