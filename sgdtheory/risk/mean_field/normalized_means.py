"""Means of g/‖g‖ in all directions, for normalized SGD (THEORY.md T37).

The law of g/‖g‖ is exact, by integrals, if u is Gaussian and T does not fluctuate. Given χ the gradient is `χ/B` times
h, `h_i = √λ_i (χ u_i + √T z_i)`, a Gaussian vector of mean χη, `η_i = √λ_i a_i`, and covariance `diag(v) − ηηᵀ`,
`v_i = λ_i (T + (χ² − 1) r_i)`. With `‖h‖^{−1} = π^{−½} ∫ s^{−½} e^{−s‖h‖²} ds` and `‖h‖^{−2} = ∫ e^{−s‖h‖²} ds` all
means of h_i/‖h‖ and of its square are integrals over s of

    Φ(s) = E e^{−s‖h‖²} = (c Π_j D_j)^{½} e^{−χ²(c − 1)/2},    D_i = 1/(1 + 2s v_i),    c = 1/(1 − 2s Σ_j η_j² D_j),
    E[h_i e^{−s‖h‖²}] = χη_i c D_i Φ,    E[h_i² e^{−s‖h‖²}] = (v_i D_i + (χ²c² − c) η_i² D_i²) Φ.
"""

from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial.hermite_e import hermegauss

from sgdtheory.risk.mean_field.ensemble import TINY, Ensemble

# Integrals over s are trapezoidal sums over y, s E‖h‖² = e^y e^{−e^{−y}}, by which integrands fall off fast at both
# ends. This is the spacing of y. Half of it changes risks by 3e-5, 1.0 by 5e-4; time is in inverse proportion.
SPACING = 0.7
LOWEST = -2.8  # The sums begin at this y. From −2 risks change by 4e-3, from −3.5 by 6e-7.
# The largest y is where −log Φ of the noise alone is this much. With 10 risks change by 1e-7, with 20 by 2e-9.
VANISHED = 14.0
# No y is larger than this, which a single direction needs and many directions do not reach. With 12 no risk of two
# problems changes.
LARGEST = 16.0
# The law of u in a direction is represented by this many Gauss nodes where it may become two-sided. With 40 of them
# risks change by 8e-4 (a = 1.5, b = 2) and 2% (a = 2.5, b = 3.25) where their stated error is above a half, with 8 by
# half as much.
GAUSS_NODES = 6
# Compiled steps have a multiple of this number of nodes y, because each number of them is compiled once.
FEW_SHAPES = 12


class Directions(NamedTuple):
    """State of the directions at the beginning of P steps.

    Attributes:
        signal, spread: (P, K) a² and r.
        loss, pull: (P, 1) T and Σ λ E u².
        batch: (P, 1) B.
        size: (P, 1) S, E‖h‖² at χ² = B.
        chi, chi_weight: (P, M) nodes and weights of χ.
        y: (P, N) nodes of the integrals over s, the same in all steps.
    """

    signal: np.ndarray
    spread: np.ndarray
    loss: np.ndarray
    pull: np.ndarray
    batch: np.ndarray
    size: np.ndarray
    chi: np.ndarray
    chi_weight: np.ndarray
    y: np.ndarray

    def damping(self, ensemble: Ensemble, chi: np.ndarray, s: np.ndarray) -> np.ndarray:
        """Return the factors D at N nodes (χ, s), (P, N, K)."""
        xp = s.__array_namespace__()
        eigenvalue = xp.broadcast_to(ensemble.root**2, self.spread.shape)
        # 2 s v is a sum of two products of a node and a direction, which one product of matrices computes.
        by_node = xp.stack([xp.broadcast_to(self.loss, s.shape), chi**2 - 1], axis=-1) * (2 * s)[..., None]
        damping = by_node @ xp.stack([eigenvalue, eigenvalue * self.spread], axis=1)
        damping += 1  # In place, as a large temporary array takes longer than its numbers.
        damping **= -1
        return damping


class Integrals(NamedTuple):
    """Integrands by which directions act on each other, (P, N) each, of P steps and N nodes (χ, s).

    S is E‖h‖² at χ² = B. Factors of S make the integrands almost the same in all steps, so that Newton's method may
    take them as given while S changes.

    Attributes:
        chi: χ.
        s: s S.
        weight: Φ(s) ds S, times the weight of χ.
        own: c.
        by_loss: ∂ log(cΦ)/∂T times S.
    """

    chi: np.ndarray
    s: np.ndarray
    weight: np.ndarray
    own: np.ndarray
    by_loss: np.ndarray

    def at(self, size: np.ndarray) -> "Integrals":
        """Return s, Φ ds and the derivative without their factors S, given another S, (P, 1)."""
        return Integrals(self.chi, self.s / size, self.weight / size, self.own, self.by_loss / size)


class Means(NamedTuple):
    """Means of h_i/‖h‖, (P, K) each.

    Attributes:
        gain: E h_i/‖h‖ over √λ_i a_i.
        slope: ∂E[h_i/‖h‖]/∂a_i over √λ_i.
        square: E (h_i/‖h‖)² over λ_i.
    """

    gain: np.ndarray
    slope: np.ndarray
    square: np.ndarray


def integrals(ensemble: Ensemble, given: Directions) -> Integrals:
    """Return Φ and c at the nodes.

    The directions that are left out are many and small, so that their `Π D^½ = e^{−s Σ v}`.
    """
    xp = given.loss.__array_namespace__()
    chi, s, weight = _nodes(ensemble, given)
    multiplicity = ensemble.multiplicity
    eigenvalue = ensemble.root**2
    signal = multiplicity * eigenvalue * given.signal
    damping = given.damping(ensemble, chi, s)
    own = 1 / xp.maximum(1 - 2 * s * _sum(damping, signal), TINY)
    left_out = multiplicity @ (ensemble.spread - eigenvalue)
    log_phi = xp.log(damping) @ multiplicity / 2 - s * given.loss * left_out
    log_phi = log_phi + xp.log(own) / 2 - chi**2 * (own - 1) / 2
    by_loss = -2 * s * _sum(damping**2, eigenvalue * signal)
    by_loss = s * (3 * own - (chi * own) ** 2) * by_loss - s * (damping @ (multiplicity * eigenvalue) + left_out)
    weight = weight * xp.exp(log_phi) * given.size
    return Integrals(chi, s * given.size, weight, own, by_loss * given.size)


def means(ensemble: Ensemble, given: Directions, shared: Integrals) -> Means:
    """Return the means of h_i/‖h‖ by the formulas of this file.

    T moves with u_i, which adds `2a_i ∂/∂T` to the slope.
    """
    xp = given.loss.__array_namespace__()
    chi, s, weight, own, by_loss = shared.at(given.size)
    by_root = weight * chi * own / xp.sqrt(np.pi * s)
    damping = given.damping(ensemble, chi, s)
    of_slope = 2 * s * (3 * own - (chi * own) ** 2 - 2) * by_root
    once = xp.stack([by_root, 2 * by_loss * by_root, weight, chi**2 * weight], axis=1) @ damping
    twice = xp.stack([of_slope, ((chi * own) ** 2 - own) * weight], axis=1) @ damping**2
    slope = once[:, 0] + given.signal * (once[:, 1] + ensemble.root**2 * twice[:, 0])
    square = (given.loss - given.spread) * once[:, 2] + given.spread * once[:, 3] + given.signal * twice[:, 1]
    return Means(once[:, 0], slope, square)


def two_sided(
    ensemble: Ensemble, given: Directions, shared: Integrals, rate: np.ndarray, chosen: np.ndarray
) -> np.ndarray:
    """Return `(3 − E u⁴/(E u²)²)/2` after the step in the J chosen directions, (P, J).

    It is 1 where u is ±A, and 0 where u is Gaussian. Given u_i the others' part of Φ stays,
    `h_i ~ N(χ√λ_i u_i, λ_i T_i)`, and T_i is T without the part of u_i. The noise of a step is as good as Gaussian
    then.
    """
    xp = given.loss.__array_namespace__()
    chi, s, weight, _, _ = (values[..., None] for values in shared.at(given.size))
    eigenvalue = ensemble.root[chosen] ** 2
    signal = given.signal[:, None, chosen]
    spread = given.spread[:, None, chosen]
    others = xp.maximum(given.loss[..., None] - signal - spread, TINY)
    given_u = 1 / (1 + 2 * s * eigenvalue * others)  # D of h_i given u_i
    damping = 1 / (1 + 2 * s * eigenvalue * (others + chi**2 * spread))
    weight = weight * xp.sqrt(given_u / damping)
    by_root = chi * given_u / xp.sqrt(np.pi * s)
    nodes, node_weights = _gauss_rule()
    u = xp.sqrt(signal)[..., None] + xp.sqrt(spread)[..., None] * nodes  # (P, 1, J, M)
    exponent = (s * chi**2 * eigenvalue)[..., None] * ((signal * damping)[..., None] - given_u[..., None] * u**2)
    # Where the exponent is so large the weight is 0: the bound keeps 0 times infinity out.
    law = weight[..., None] * xp.exp(xp.minimum(exponent, np.log(np.finfo(float).max) / 2))
    square = (law * ((others * given_u)[..., None] + (chi * given_u)[..., None] ** 2 * u**2)).sum(1)
    gain = (law * by_root[..., None]).sum(1)
    u = u[:, 0]
    step = (rate * eigenvalue)[..., None]
    noise = step**2 * xp.maximum(square - (u * gain) ** 2, 0.0)
    mean = u * (1 - step * gain)
    # Moments of u after the step, whose noise given u counts as Gaussian.
    second = (mean**2 + noise) @ node_weights
    fourth = (mean**4 + 6 * mean**2 * noise + 3 * noise**2) @ node_weights
    return (3 - fourth / xp.maximum(second**2, TINY)) / 2


def mean_square(ensemble: Ensemble, loss: np.ndarray, pull: np.ndarray, chi_square: np.ndarray) -> np.ndarray:
    """Return `E‖h‖² = T tr H + (χ² − 1) Σ λ_i E u_i²`, in the shape of χ²."""
    xp = loss.__array_namespace__()
    trace = ensemble.multiplicity @ ensemble.spread
    return xp.maximum(loss * trace + (chi_square - 1) * pull, TINY)


@cache
def _gauss_rule() -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights of N(0, 1)."""
    nodes, weights = hermegauss(GAUSS_NODES)
    return nodes, weights / weights.sum()


def _nodes(ensemble: Ensemble, given: Directions) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return χ, s and their common weights at the nodes, (P, N) each."""
    xp = given.loss.__array_namespace__()
    size = mean_square(ensemble, given.loss, given.pull, given.chi**2)
    y = given.y[0]
    if xp is np:  # Compiled steps, whose shapes are fixed, do not leave out the nodes beyond the end of the integrals.
        # In this order `min` returns LARGEST where a diverging run has nan.
        largest = min(LARGEST, np.log(np.max(_end_of_noise(ensemble) / given.loss * size)))
        y = _grid(largest)
    # One grid in y serves every χ, because s is measured by the E‖h‖² of that χ.
    s = xp.exp(y - xp.exp(-y)) / size[..., None]
    weight = SPACING * (1 + xp.exp(-y)) * s * given.chi_weight[..., None]
    chi = xp.broadcast_to(given.chi[..., None], s.shape)
    steps = len(size)
    return chi.reshape(steps, -1), s.reshape(steps, -1), weight.reshape(steps, -1)


def y_nodes(ensemble: Ensemble, batch: float) -> np.ndarray:
    """Return the nodes y that compiled steps with a batch size need; there are few different numbers of them."""
    size = ensemble.multiplicity @ ensemble.spread + batch * ensemble.root.max() ** 2
    number = _grid(min(LARGEST, np.log(_end_of_noise(ensemble) * size))).size
    return _grid(LARGEST)[: -(-number // FEW_SHAPES) * FEW_SHAPES]


def _grid(largest: float) -> np.ndarray:
    """Return the nodes y up to the largest one."""
    return LOWEST + SPACING * np.arange(np.ceil((largest - LOWEST) / SPACING) + 1)


@lru_cache(maxsize=64)
def _end_of_noise(ensemble: Ensemble) -> float:
    """Return sT from which on the noise alone has made Φ vanish; the signal makes it smaller still."""
    multiplicity = ensemble.multiplicity
    eigenvalue = ensemble.root**2
    trace = multiplicity @ ensemble.spread
    left_out = multiplicity @ (ensemble.spread - eigenvalue) / trace
    # The grid over s T tr H is rough, since risks depend on the end of the integral by 1e-7 only. A single direction
    # has −log Φ = log(1 + 2s)/2, which is below VANISHED even at the end of this grid.
    s = np.exp(np.arange(-5.0, 40.0, 0.5))
    log_phi = np.log1p(2 * np.outer(s, eigenvalue / trace)) @ multiplicity / 2 + s * left_out
    return s[min(np.searchsorted(log_phi, VANISHED), s.size - 1)] / trace


def _sum(terms: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the sums (P, N) over the directions of (P, N, K), with weights (P, K)."""
    return (terms @ weights[..., None])[..., 0]
