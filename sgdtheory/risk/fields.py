"""What a step of a nonlinear method does to each direction, given the loss: deterministic equivalents (THEORY.md T37).

Coordinates are `u_i = √λ_i (w − w*)_i`, Gaussian with mean a_i and variance r_i, and the loss T = σ² + R of all
directions does not fluctuate. Given χ, the length of a batch's residuals in units of √T, the gradient's coordinates are
Gaussian (T36): the mean of a step over u and χ is taken exactly.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import special

from sgdtheory.algorithms import NonlinearMethod, SignSGD
from sgdtheory.risk.chi import ChiRule
from sgdtheory.risk.ensemble import Ensemble


class Step(NamedTuple):
    """What a step does, (P, K) each: `a ← a − drift`, `r ← (1 − 2 response) r + scatter`.

    Attributes:
        drift: mean of −Δu.
        response: its derivative by a: −Cov(u, Δu) = response · r for a Gaussian u.
        scatter: variance of Δu.
    """

    drift: np.ndarray
    response: np.ndarray
    scatter: np.ndarray


def sign_step(
    ensemble: Ensemble, mean: np.ndarray, variance: np.ndarray, loss: np.ndarray, rate: np.ndarray, chi: ChiRule
) -> Step:
    """Of `w ← w − γ sign(g)`.

    With T' = T − E u_i², the others' part of the loss, and z ~ N(0, 1), g_i has the sign of `χ u_i + √T' z`, so that

        E sign(g_i) = E_χ erf(χ a_i/√(2 (T' + χ² r_i))),    E sign(g_i)² = 1.
    """
    others = np.maximum(loss - (mean**2 + variance), np.finfo(float).tiny)
    sign = np.zeros_like(mean)
    slope = np.zeros_like(mean)
    for k in range(chi.node.shape[1]):
        node, weight = (each[:, k, None] for each in chi)
        width = node / np.sqrt(2 * (others + node**2 * variance))
        place = width * mean
        sign += weight * special.erf(place)
        slope += weight * width * np.exp(-(place**2))
    slope *= 2 / np.sqrt(np.pi)
    moved = rate * ensemble.root
    return Step(moved * sign, moved * slope, rate**2 * ensemble.spread * (1 - sign**2))


Field = Callable[[Ensemble, np.ndarray, np.ndarray, np.ndarray, np.ndarray, ChiRule], Step]
FIELDS: dict[type[NonlinearMethod], Field] = {SignSGD: sign_step}


def field_of(method: NonlinearMethod) -> Field | None:
    """The field of a method, if one is known: without momentum, where coordinates are eigenvectors."""
    known = FIELDS.get(type(method))
    plain = getattr(method, "momentum", 0.0) == 0
    return known if known and plain and method.basis == "eigenvectors" else None
