"""Relative errors of the closure of a deterministic equivalent in one step (THEORY.md T37).

An equivalent leaves out that T fluctuates and that u is not Gaussian. To second order the pull of T^{−½} on a direction
is wrong by 3/8 of the relative variance of T without that direction,

    q_i = Σ_{j≠i} (2 r_j² + 4 a_j² r_j)/T_i²,    T_i = T − E u_i².

A Gaussian in the place of another law of u_i does not matter while gradients are linear in u_i, that is while the
share of the batch's signal s_i = B r_i/(T_i + B r_i) is small. Where it is not, the pull is wrong by up to κ s_i/6, κ
the excess kurtosis of u_i. Few steps make κ = −2 at most, in proportion to the grain of r_i, the variance of one step
over that of all; steps that are not linear make κ grow like s_i B r_i/T_i. The factors in the fields' `closure` are
fitted to simulations of 1,100 random settings (docs/equivalents.md).
"""

from typing import NamedTuple

import numpy as np

from sgdtheory.risk.mean_field.ensemble import TINY, Ensemble

# The fluctuation q is at most this: no closure is right beyond it, and with a few directions q has no bound.
MOST_FLUCTUATION = 4.0
MOST_SATURATION = 100.0  # The ratio B r/T_i is at most this, because no closure is right beyond it.
LEAST_OTHERS = 1e-12  # Other directions have at least this share of T: a smaller difference is rounding.


class Closure(NamedTuple):
    """Relative errors of a step, (P, K) each, and how they depend on the errors before it.

    Attributes:
        pull: error of the pull towards the optimum.
        scatter: error of the scatter that the step adds.
        by_mean: the pull's relative change for a relative change of a direction's own a².
        by_variance: likewise for a change of its own r.
    """

    pull: np.ndarray
    scatter: np.ndarray
    by_mean: np.ndarray
    by_variance: np.ndarray


class Shares(NamedTuple):
    """The quantities on which the errors of a closure depend, (P, K) each.

    Attributes:
        fluctuation: q, the relative variance of T without the direction.
        spread: s = B r/(T_i + B r).
        signal: y = B E u²/(T_i + B E u²).
        over: B r/T_i.
    """

    fluctuation: np.ndarray
    spread: np.ndarray
    signal: np.ndarray
    over: np.ndarray

    @property
    def saturated(self) -> np.ndarray:
        """Return s² B r/T_i."""
        return self.spread**2 * self.over


def shares(ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, batch: np.ndarray) -> Shares:
    """Return the shares of (q, P, K) values with losses (P, Q) at B (P, 1)."""
    total = np.maximum(loss[:, :1], TINY)
    square = values[0] ** 2
    variance = np.maximum(values[1], 0.0)
    own = square + variance
    each = 2 * variance**2 + 4 * square * variance
    others = np.maximum(total - own, LEAST_OTHERS * total)
    rest = np.maximum((each @ ensemble.multiplicity)[:, None] - each, 0.0)
    learns = ensemble.root > 0
    over = np.minimum(batch * variance / others, MOST_SATURATION) * learns
    spread = np.where(learns, batch * variance / (others + batch * variance), 0.0)
    signal = np.where(learns, batch * own / (others + batch * own), 0.0)
    fluctuation = np.minimum(rest / others**2, MOST_FLUCTUATION)
    return Shares(fluctuation, spread, signal, over)


def grain(ensemble: Ensemble, values: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """Return min(γ²λ/r, 1), (P, K), the variance of a sign step over that of u: from (q, P, K) values and γ (P, 1)."""
    return np.minimum(rate**2 * ensemble.spread / np.maximum(values[1], TINY), 1.0)


def decay_of(mixing: np.ndarray) -> np.ndarray:
    """Return the decay of a direction's mean in a step, (P, K): −log of the largest eigenvalue of mixing (k, k, P, K).

    Without a memory a direction that steps beyond its optimum has a negative eigenvalue, and has forgotten its start.
    """
    if len(mixing) == 1:
        stays = mixing[0, 0]
    else:
        # The larger eigenvalue of a 2 × 2 matrix, or the size of both where they are complex.
        half = (mixing[0, 0] + mixing[1, 1]) / 2
        determinant = mixing[0, 0] * mixing[1, 1] - mixing[0, 1] * mixing[1, 0]
        apart = half**2 - determinant
        real = np.abs(half) + np.sqrt(np.maximum(apart, 0.0))
        stays = np.where(apart >= 0, real, np.sqrt(np.maximum(determinant, 0.0)))
    return -np.log(np.clip(stays, TINY, 1.0))
