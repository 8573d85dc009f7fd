"""Signs of correlated Gaussians: means, slopes, and covariances (THEORY.md T37).

With `X_j = χ u_j + n_j`, u and n Gaussian and n's covariance given, X_j given χ has mean χ a_j and variance
`v_j = N_jj + χ² R_jj`, in units of whose root the mean is m_j. Covariances of signs grow with the correlation like
Gaussian densities (Plackett 1954):

    Cov(sign X_j, sign X_k | χ) = (2/π) ∫_0^{arcsin ρ} exp(−(m_j² − 2 m_j m_k sin θ + m_k²)/(2 cos² θ)) dθ.
"""

from typing import NamedTuple

import numpy as np
from numpy.polynomial import legendre
from scipy import special

from sgdtheory.risk.mean_field.chi import chi_rule, chi_rules
from sgdtheory.risk.mean_field.ensemble import TINY

COVARIANCE_NODES = 4  # of the mean over χ: covariances, smooth, are right to 1e-3
ANGLES = 3  # at which the density is looked at between 0 and arcsin ρ
SMALL = 0.03  # m: covariances of smaller ones are those of means 0, to 1e-3


class Seen(NamedTuple):
    """Moments of the gradients by error and by noise, in units in which the noise of each gradient is T.

    Attributes:
        mean: (d,) a, of `u = H'δ/√diag H'`.
        covariance: (d, d) R, of u.
        noise: (d, d) N, of what a batch adds.
        size: (d,) √diag H': gradients are as many times as large.
    """

    mean: np.ndarray
    covariance: np.ndarray
    noise: np.ndarray
    size: np.ndarray


class Reaction(NamedTuple):
    """Moments of steps −d: mean (d,), covariance (d, d), and slope (d,) by a, with `Cov(d, δ) = slope Cov(u, δ)`."""

    mean: np.ndarray
    slope: np.ndarray
    covariance: np.ndarray


def signs(seen: Seen, batch: float) -> Reaction:
    """Return the moments of `sign(χ u + n)`, χ with B degrees of freedom."""
    node, weight = (each[0] for each in chi_rules(np.array([batch])))
    node = node[:, None]
    noise = np.maximum(np.diag(seen.noise), TINY)
    root = np.sqrt(noise + node**2 * np.diag(seen.covariance))
    place = node * seen.mean / root
    mean = weight @ special.erf(place / np.sqrt(2))
    slope = weight @ (node / root * np.sqrt(2 / np.pi) * np.exp(-(place**2) / 2))
    covariance = _covariance(seen, noise, batch)
    np.fill_diagonal(covariance, 1 - mean**2)
    return Reaction(mean, slope, covariance)


def _covariance(seen: Seen, noise: np.ndarray, batch: float) -> np.ndarray:
    """(d, d), off the diagonal; between lengths χ too."""
    found = np.zeros_like(seen.noise)
    means = np.zeros_like(seen.mean)
    for node, weight in zip(*chi_rule(batch, COVARIANCE_NODES), strict=True):
        root = np.sqrt(noise + node**2 * np.diag(seen.covariance))
        place = node * seen.mean / root
        mean = special.erf(place / np.sqrt(2))
        correlation = np.clip((seen.noise + node**2 * seen.covariance) / np.outer(root, root), -1, 1)
        found += weight * (sign_covariance(place, correlation) + np.outer(mean, mean))
        means += weight * mean
    return found - np.outer(means, means)


def sign_covariance(place: np.ndarray, correlation: np.ndarray) -> np.ndarray:
    """(d, d) covariances of the signs of Gaussians with variance 1, means `place` and these correlations."""
    angle = np.arcsin(correlation)
    if np.abs(place).max() < SMALL:
        return 2 / np.pi * angle
    half = place**2 / 2
    squares = half[:, None] + half
    products = np.outer(place, place)
    density = np.zeros_like(angle)
    for node, weight in zip(*legendre.leggauss(ANGLES), strict=True):
        sine = np.sin((node + 1) / 2 * angle)
        density += weight / 2 * np.exp(-(squares - sine * products) / np.maximum(1 - sine**2, TINY))
    return 2 / np.pi * angle * density
