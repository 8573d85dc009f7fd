"""The likeliest numbers of a law from rows and a prior, and their covariance, for correlated residuals."""

from collections.abc import Callable
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import least_squares

from sgdtheory.curves.correlated_residuals import correlation
from sgdtheory.curves.experience import Prior
from sgdtheory.curves.robust_fit import not_gross, robust_scale, slopes_at
from sgdtheory.curves.run_under_way import Rows

LENGTHS = 0.02, 0.05, 0.14, 0.36, 0.93  # The scatter is searched over these correlation lengths in log step.
ALONE = 0.05, 0.25, 0.5, 0.9  # The scatter is searched over these independent shares of a cell's variance.
DEVIATIONS = np.geomspace(2e-4, 0.3, 30)  # The scatter is searched over these standard deviations of log loss.
FIRST_DEVIATION = 3e-3
ROUNDS = 3  # Parameters and scatter are estimated in turn this many times.
MOST_EVALUATIONS = 40
DIFFERENCE = 1e-4  # Central differences for slopes move each coordinate by this much.
FAR = 9.0  # A log loss that is not finite is replaced by this value, −inf by its negative.
INSIDE = 1e-3  # A search starts at least this far inside the bounds of the coordinates.


class Scatter(NamedTuple):
    """Scatter of cells about the law: covariance (N, N) of log losses, and the standard deviation of one."""

    covariance: np.ndarray
    deviation: float


class Posterior(NamedTuple):
    """By Laplace's approximation.

    Attributes:
        coordinates: (P,) the likeliest.
        covariance: (P, P).
        scatter: s, the standard deviation of a cell's log loss.
        now: log loss of the last cell, as predicted.
        ahead: (M,) of the rows ahead.
        slopes: (M, P) of these by the coordinates.
        used: (N,) cells that are no spikes.
    """

    coordinates: np.ndarray
    covariance: np.ndarray
    scatter: float
    now: float
    ahead: np.ndarray
    slopes: np.ndarray
    used: np.ndarray


def posterior(rows: Rows, prior: Prior) -> Posterior:
    """The numbers of largest posterior density, and how far they are known.

        exp −½ [rᵀ C⁻¹ r + |prior|²] / |C|^½,   r = log measured − log predicted,

    and C in turn the scatter of largest marginal likelihood, the numbers integrated out about these.
    """
    size = rows.log_loss.size
    low, high = rows.law.bounds
    point = np.clip(prior.coordinates, low + INSIDE, high - INSIDE)
    used = np.ones(size, dtype=bool)
    scatter = Scatter(FIRST_DEVIATION**2 * np.eye(size), FIRST_DEVIATION)
    for _ in range(ROUNDS):
        point = _likeliest(rows, prior, scatter, used, point)
        predicted = _finite(rows.predicted(point[None])[0])
        left = rows.log_loss - predicted
        used = not_gross(left, robust_scale(left))
        slopes = _slopes(rows.predicted, rows, point)
        scatter = _scatter(rows, prior, left, slopes, used)
    whitened = _whitened(scatter.covariance, used, slopes)
    covariance = np.linalg.inv(whitened.T @ whitened + prior.matrix.T @ prior.matrix)
    ahead = _finite(rows.foretold(point[None])[0])
    slopes = _slopes(rows.foretold, rows, point)
    return Posterior(point, covariance, scatter.deviation, float(predicted[-1]), ahead, slopes, used)


def _finite(values: np.ndarray) -> np.ndarray:
    return np.nan_to_num(values, nan=FAR, posinf=FAR, neginf=-FAR)


def _slopes(function: Callable[[np.ndarray], np.ndarray], rows: Rows, point: np.ndarray) -> np.ndarray:
    """(K, P) of log losses (Q, K)."""
    return slopes_at(lambda points: _finite(function(points)), point, rows.law.bounds, DIFFERENCE)


def _whitened(covariance: np.ndarray, used: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Rows that are used, in units in which they scatter independently by 1."""
    factor = cholesky(covariance[np.ix_(used, used)], lower=True)
    return solve_triangular(factor, values[used], lower=True)


def _likeliest(rows: Rows, prior: Prior, scatter: Scatter, used: np.ndarray, start: np.ndarray) -> np.ndarray:
    def gap(point: np.ndarray) -> np.ndarray:
        left = _finite(rows.predicted(point[None])[0]) - rows.log_loss
        return np.concatenate([_whitened(scatter.covariance, used, left), prior.matrix @ point - prior.centre])

    def slopes(point: np.ndarray) -> np.ndarray:
        by_numbers = _slopes(rows.predicted, rows, point)
        return np.concatenate([_whitened(scatter.covariance, used, by_numbers), prior.matrix])

    found = least_squares(
        gap,
        start,
        jac=slopes,  # pyright: ignore[reportArgumentType]
        bounds=rows.law.bounds,
        max_nfev=MOST_EVALUATIONS,
    )
    return found.x


def _scatter(rows: Rows, prior: Prior, left: np.ndarray, slopes: np.ndarray, used: np.ndarray) -> Scatter:
    """Return the scatter of largest marginal likelihood: `log|C| + rᵀC⁻¹r + log|JᵀC⁻¹J + prior|` is least.

    What a cell has by itself falls with the number of rows in it.
    """
    information = prior.matrix.T @ prior.matrix
    both = np.column_stack([slopes, left])
    best = np.inf
    found = Scatter(np.eye(left.size), 1.0)
    for length, alone in product(LENGTHS, ALONE):
        shape = correlation(rows.log_steps, length, alone)
        shape += np.diag(alone * (np.median(rows.count) / rows.count - 1))
        factor = cholesky(shape[np.ix_(used, used)], lower=True)
        whitened = solve_triangular(factor, both[used], lower=True)
        products = whitened.T @ whitened
        size = 2 * np.log(np.diag(factor)).sum()
        for deviation in DEVIATIONS:
            precision = products[:-1, :-1] / deviation**2 + information
            value = size + 2 * used.sum() * np.log(deviation) + products[-1, -1] / deviation**2
            value += np.linalg.slogdet(precision)[1]
            if value < best:
                best = value
                found = Scatter(deviation**2 * shape, float(deviation))
    return found
