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
from sgdtheory.risk.mean_field.signs import gradient_signs

# Covariances of signs take this many Gauss nodes of χ; their time is in proportion. With 2 risks change by 2e-4, with 8
# by 9e-6.
CHI_NODES = 4
# The integral over angles from 0 to arcsin ρ takes this many Gauss–Legendre nodes. With 2 risks change by 1e-4, with 6
# by 9e-6.
ANGLE_NODES = 3
_ANGLE_NODES_AND_WEIGHTS = tuple(zip(*legendre.leggauss(ANGLE_NODES), strict=True))
# If no mean is larger than this, in units of its standard deviation, covariances of signs are those of means 0, which
# need no integral. Risks change by 6e-7.
LARGEST_NEGLIGIBLE_MEAN = 0.03


class GradientLaw(NamedTuple):
    """Moments of the gradients of d coordinates by error and by noise, in units of their standard deviation over √T.

    Attributes:
        mean: (d,) a, of `u = H'δ/√diag H'`.
        covariance: (d, d) R, of u.
        noise: (d, d) N, of the noise of a batch.
        size: (d,) √diag H', by which gradients in their own units are larger.
    """

    mean: np.ndarray
    covariance: np.ndarray
    noise: np.ndarray
    size: np.ndarray


class Reaction(NamedTuple):
    """Moments of the steps −d of all coordinates.

    Attributes:
        mean: (d,) E d.
        slope: (d,) its derivative by a, by which `Cov(d, δ) = slope Cov(u, δ)`.
        covariance: (d, d) Cov(d).
    """

    mean: np.ndarray
    slope: np.ndarray
    covariance: np.ndarray


def signs(law: GradientLaw, batch: float) -> Reaction:
    """Return the moments of `sign(χ u + n)`, χ with B degrees of freedom."""
    noise = np.maximum(np.diag(law.noise), TINY)
    variance = np.diag(law.covariance)
    rules = chi_rules(np.array([batch]))
    (mean,), (slope,) = gradient_signs(law.mean[None], variance[None], noise[None], rules)
    # Variances are exact, since sign² = 1; covariances take fewer nodes.
    covariance = _covariance(law, noise, batch)
    np.fill_diagonal(covariance, 1 - mean**2)
    return Reaction(mean, slope, covariance)


def _covariance(law: GradientLaw, noise: np.ndarray, batch: float) -> np.ndarray:
    """Return the covariances of signs, (d, d), to be used off the diagonal.

    They are means over χ of covariances given χ, and the covariance of the means given χ.
    """
    products = np.zeros_like(law.noise)
    means = np.zeros_like(law.mean)
    for node, weight in zip(*chi_rule(batch, CHI_NODES), strict=True):
        root = np.sqrt(noise + node**2 * np.diag(law.covariance))
        scaled = node * law.mean / root
        mean = special.erf(scaled / np.sqrt(2))
        correlation = np.clip((law.noise + node**2 * law.covariance) / np.outer(root, root), -1, 1)
        products += weight * (sign_covariance(scaled, correlation) + np.outer(mean, mean))
        means += weight * mean
    return products - np.outer(means, means)


def sign_covariance(scaled: np.ndarray, correlation: np.ndarray) -> np.ndarray:
    """Return the covariances (d, d) of the signs of Gaussians with these means and correlations, and variances 1."""
    angle = np.arcsin(correlation)
    if np.abs(scaled).max() < LARGEST_NEGLIGIBLE_MEAN:
        return 2 / np.pi * angle
    half = scaled**2 / 2
    squares = half[:, None] + half
    products = np.outer(scaled, scaled)
    density = np.zeros_like(angle)
    for node, weight in _ANGLE_NODES_AND_WEIGHTS:
        # ρ = ±1 is the end of the integral and no node, except for rounding: the bound keeps 0/0 out.
        sine = np.sin((node + 1) / 2 * angle)
        density += weight / 2 * np.exp(-(squares - sine * products) / np.maximum(1 - sine**2, TINY))
    return 2 / np.pi * angle * density
