"""Numerics of `Y = a + b/B^α`: least squares in logs, and the batch sizes that take a given share of data more."""

import numpy as np
from scipy import optimize

from sgdtheory.fits.profile_likelihood import best_ratio, mean_of, root, safe_exp


def fit_numbers(
    log_batch: np.ndarray, log_steps: np.ndarray, weights: np.ndarray, alpha: float | None
) -> tuple[float, float, float, float]:
    """Return (log a, log b/a, α, RSS) of weighted least squares, at fixed α or with α fitted."""
    if alpha is None:
        log_ratio, alpha = _fit_with_alpha(log_batch, log_steps, weights)
    else:
        log_ratio = best_ratio(log_batch, log_steps, weights, alpha)
    gap = log_steps - np.logaddexp(0.0, log_ratio - alpha * log_batch)
    (log_a,) = mean_of(gap, weights)
    return float(log_a), log_ratio, alpha, float((weights * (gap - log_a) ** 2).sum())


def _fit_with_alpha(log_batch: np.ndarray, log_steps: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Return (log(b/a), α) of weighted least squares, from the best of a range of α."""
    root_weights = np.sqrt(weights)

    def gap(parameters: np.ndarray) -> np.ndarray:
        log_ratio, log_alpha = parameters
        rest = log_steps - np.logaddexp(0.0, log_ratio - np.exp(log_alpha) * log_batch)
        return root_weights * (rest - mean_of(rest, weights))

    starts = [(best_ratio(log_batch, log_steps, weights, alpha), np.log(alpha)) for alpha in np.geomspace(0.2, 5, 15)]
    start = min(starts, key=lambda point: (gap(np.array(point)) ** 2).sum())
    fit = optimize.least_squares(gap, start, xtol=1e-15, ftol=1e-15, gtol=1e-15, x_scale="jac")
    return float(fit.x[0]), float(np.exp(fit.x[1]))


def largest_root(log_ratio: float, alpha: float, reference: float, overhead: float) -> float:
    """Return the largest root B of `(1 + ρ/B^α) B = (1 + ω)(1 + ρ/B_ref^α) B_ref` with ρ = b/a = e^log_ratio."""
    if alpha == 1.0:
        return overhead * float(np.exp(log_ratio)) + (1 + overhead) * reference
    log_reference = np.log(reference)
    target = np.log1p(overhead) + log_data(log_reference, log_ratio, alpha)
    # the data needed have one minimum at most, so beyond the reference they cross the target once
    return safe_exp(root(lambda log_batch: log_data(log_batch, log_ratio, alpha) - target, log_reference, target + 1.0))


def smallest_root(log_ratio: float, alpha: float, reference: float, overhead: float) -> float:
    """Return the smallest root of the same equation, for α > 1."""
    log_reference = np.log(reference)
    target = np.log1p(overhead) + log_data(log_reference, log_ratio, alpha)
    least = (log_ratio - target) / (alpha - 1) - 1.0  # below the root of `ρ B^{1−α}` alone there is too much of it
    return safe_exp(root(lambda log_batch: log_data(log_batch, log_ratio, alpha) - target, least, log_reference))


def log_data(log_batch: float, log_ratio: float, alpha: float) -> float:
    """Return log(B + ρ B^{1−α})."""
    return float(log_batch + np.logaddexp(0.0, log_ratio - alpha * log_batch))
