"""Uncertainty of fitted numbers where residuals are correlated along each curve, by restricted likelihood."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import block_diag

from sgdtheory.curves.row_covariance import RIDGE, RowCovariance

LENGTHS = np.geomspace(0.02, 1.5, 10)  # The likelihood is searched over these correlation lengths ℓ in log step.
ALONE = 0.0, 0.25, 0.5, 0.75, 0.95  # The likelihood is searched over these independent shares ν of a row's variance.
FEWEST = 1.0  # Intervals have at least this many degrees of freedom.


class Scatter(NamedTuple):
    """Residuals as a process `s² [(1 − ν) exp(−|log t − log t'|/ℓ) + ν δ]` along each curve.

    Attributes:
        covariance: (P, P) of the numbers, by least squares; 0 for those that no row identifies.
        identified: (P,) whether the rows identify them.
        freedom: degrees of freedom for their intervals.
        length: ℓ.
        alone: ν.
        deviation: s.
    """

    covariance: np.ndarray
    identified: np.ndarray
    freedom: float
    length: float
    alone: float
    deviation: float


def scatter_of(slopes: np.ndarray, residuals: np.ndarray, log_steps: Sequence[np.ndarray]) -> Scatter:
    """The process of largest restricted likelihood, which allows for what the numbers have taken out of residuals.

        −2 log L(C) = log|C| + log|JᵀC⁻¹J| + (N − P) log rᵀ(C⁻¹ − C⁻¹J(JᵀC⁻¹J)⁻¹JᵀC⁻¹) r

    Degrees of freedom: the rows' effective number, `(tr C)²/tr C²`, less P.

    Args:
        slopes: (N, P) J, of log losses by the numbers.
        residuals: (N,) r.
        log_steps: of each curve, log t of its rows.

    Reference:
        Patterson & Thompson 1971.
    """
    size = np.linalg.norm(slopes, axis=0)
    identified = size > 0
    unit = slopes[:, identified] / size[identified]
    candidates = [(length, alone) for length in LENGTHS for alone in ALONE]
    fits = [_restricted(unit, residuals, RowCovariance(log_steps, *each)) for each in candidates]
    best = int(np.argmin([value for value, _ in fits]))
    shape = RowCovariance(log_steps, *candidates[best])
    variance = fits[best][1]
    bread = np.linalg.pinv(unit.T @ unit, rcond=1e-13, hermitian=True)
    covariance = np.zeros((identified.size, identified.size))
    covariance[np.ix_(identified, identified)] = variance * bread @ (unit.T @ (shape @ unit)) @ bread
    covariance[np.ix_(identified, identified)] /= np.outer(size[identified], size[identified])
    freedom = max(shape.effective_rows - unit.shape[1], FEWEST)
    return Scatter(covariance, identified, freedom, *candidates[best], float(np.sqrt(variance)))


def correlation(log_steps: Sequence[np.ndarray], length: float, alone: float) -> np.ndarray:
    """(N, N) of the rows of all curves."""
    parts = []
    for log_step in log_steps:
        apart = np.abs(log_step[:, None] - log_step)
        parts.append((1 - alone) * np.exp(-apart / length) + (alone + RIDGE) * np.eye(log_step.size))
    return np.asarray(block_diag(*parts))


def _restricted(slopes: np.ndarray, residuals: np.ndarray, shape: RowCovariance) -> tuple[float, float]:
    """−2 log of the restricted likelihood, s² at its best, and that s²."""
    whitened = shape.whitened(np.column_stack([slopes, residuals]))
    independent, left = whitened[:, :-1], whitened[:, -1]
    information = independent.T @ independent
    pull = independent.T @ left
    inverse = np.linalg.pinv(information, rcond=1e-13, hermitian=True)
    freedom = residuals.size - slopes.shape[1]
    square = float(left @ left - pull @ inverse @ pull) / freedom
    own = np.linalg.eigvalsh(information)
    determinant = shape.log_determinant + np.log(np.maximum(own, 1e-13 * own.max(initial=0.0))).sum()
    return float(determinant + freedom * np.log(max(square, 1e-300))), max(square, 1e-300)
