"""The law of g/‖g‖ where u is Gaussian and T does not fluctuate: exact, by integrals (THEORY.md T37).

Given χ the gradient is `χ/B` times h, `h_i = √λ_i (χ u_i + √T z_i)`, a Gaussian vector of mean χη, `η_i = √λ_i a_i`,
and covariance `diag(v) − ηηᵀ`, `v_i = λ_i (T + (χ² − 1) r_i)`. With `‖h‖^{−1} = π^{−½} ∫ s^{−½} e^{−s‖h‖²} ds` and
`‖h‖^{−2} = ∫ e^{−s‖h‖²} ds` all means of h_i/‖h‖ and of its square are integrals over s of

    Φ(s) = E e^{−s‖h‖²} = (c Π_j D_j)^{½} e^{−χ²(c − 1)/2},    D_i = 1/(1 + 2s v_i),    c = 1/(1 − 2s Σ_j η_j² D_j),
    E[h_i e^{−s‖h‖²}] = χη_i c D_i Φ,    E[h_i² e^{−s‖h‖²}] = (v_i D_i + (χ²c² − c) η_i² D_i²) Φ.
"""

from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial.hermite_e import hermegauss

from sgdtheory.risk.ensemble import Ensemble

APART = 0.7  # nodes of y; with s E‖h‖² = e^y e^{−e^{−y}} both ends of the integrals fall off fast,
LOWEST = -2.8  # from here
FARTHEST = 16.0  # to here at most, which is as far as one direction alone needs
VANISHED = 14.0  # −log Φ where integrals end
SPECTRUM = np.exp(np.arange(-5.0, 40.0, 0.5))  # s E‖h‖² at which that is looked for
MOST = 300.0  # exponent: where it is larger Φ is 0
PLACES = 6  # of u that stand for a Gaussian
TINY = np.finfo(float).tiny


class Directions(NamedTuple):
    """What P steps begin with: a² and r (P, K); T and Σ λ E u² (P, 1); B (P, 1); nodes and weights of χ, (P, M)."""

    signal: np.ndarray
    spread: np.ndarray
    loss: np.ndarray
    pull: np.ndarray
    batch: np.ndarray
    chi: np.ndarray
    share: np.ndarray

    def size(self, ensemble: Ensemble, chi_square: np.ndarray) -> np.ndarray:
        """`E‖h‖² = T tr H + (χ² − 1) Σ λ_i E u_i²`, in the shape of χ²."""
        trace = ensemble.multiplicity @ ensemble.spread
        return np.maximum(self.loss * trace + (chi_square - 1) * self.pull, TINY)

    def fall(self, ensemble: Ensemble, chi: np.ndarray, place: np.ndarray) -> np.ndarray:
        """(P, N, K) D at N nodes (χ, s)."""
        eigenvalue = ensemble.root**2
        far = np.empty((*place.shape, 2))
        far[..., 0] = self.loss
        far[..., 1] = chi**2 - 1
        far *= 2 * place[..., None]
        seen = np.empty((len(place), 2, eigenvalue.size))
        seen[:, 0] = eigenvalue
        seen[:, 1] = eigenvalue * self.spread
        shaken = far @ seen
        shaken += 1
        return np.reciprocal(shaken, out=shaken)


class Integrals(NamedTuple):
    """What directions do to each other: over P steps and N nodes (χ, s), (P, N) each; S is E‖h‖² at χ² = B.

    Attributes:
        chi: χ.
        place: s S.
        weight: Φ(s) ds S, and the weight of χ.
        own: c.
        by_loss: ∂ log(cΦ)/∂T times S.
    """

    chi: np.ndarray
    place: np.ndarray
    weight: np.ndarray
    own: np.ndarray
    by_loss: np.ndarray

    def at(self, size: np.ndarray) -> "Integrals":
        """With s, Φ ds and the derivative themselves, for another S: (P, 1)."""
        return Integrals(self.chi, self.place / size, self.weight / size, self.own, self.by_loss / size)


class Means(NamedTuple):
    """Of h_i/‖h‖, (P, K) each: `E = √λ_i a_i gain`, `∂E/∂a_i = √λ_i slope`, `E (h_i/‖h‖)² = λ_i square`."""

    gain: np.ndarray
    slope: np.ndarray
    square: np.ndarray


def integrals(ensemble: Ensemble, given: Directions) -> Integrals:
    """Φ and c. The directions left out are many and small: `Π D^½ = e^{−s Σ v}`."""
    chi, place, weight = _nodes(ensemble, given)
    many = ensemble.multiplicity
    eigenvalue = ensemble.root**2
    signal = many * eigenvalue * given.signal
    fall = given.fall(ensemble, chi, place)
    own = 1 / np.maximum(1 - 2 * place * _sum(fall, signal), TINY)
    left = many @ (ensemble.spread - eigenvalue)
    small = place * given.loss * left
    log_phi = np.log(fall) @ many / 2 - small + np.log(own) / 2 - chi**2 * (own - 1) / 2
    by_loss = -2 * place * _sum(fall**2, eigenvalue * signal)
    moved = place * (3 * own - (chi * own) ** 2) * by_loss - place * (fall @ (many * eigenvalue) + left)
    size = given.size(ensemble, given.batch)
    return Integrals(chi, place * size, weight * np.exp(log_phi) * size, own, moved * size)


def means(ensemble: Ensemble, given: Directions, shared: Integrals) -> Means:
    """By the formulas above. T moves with u_i: its part of the slope is `2a_i ∂/∂T`."""
    chi, place, weight, own, by_loss = shared.at(given.size(ensemble, given.batch))
    first = weight * chi * own / np.sqrt(np.pi * place)
    fall = given.fall(ensemble, chi, place)
    bent = 2 * place * (3 * own - (chi * own) ** 2 - 2) * first
    once = np.stack([first, 2 * by_loss * first, weight, chi**2 * weight], axis=1) @ fall
    twice = np.stack([bent, ((chi * own) ** 2 - own) * weight], axis=1) @ fall**2
    slope = once[:, 0] + given.signal * (once[:, 1] + ensemble.root**2 * twice[:, 0])
    square = (given.loss - given.spread) * once[:, 2] + given.spread * once[:, 3] + given.signal * twice[:, 1]
    return Means(once[:, 0], slope, square)


def two_sided(
    ensemble: Ensemble, given: Directions, shared: Integrals, rate: np.ndarray, some: np.ndarray
) -> np.ndarray:
    """(P, J) `(3 − E u⁴/(E u²)²)/2` after the step, of `some` directions: 1 where u is ±A, 0 where it is Gaussian.

    Given u_i the others' part of Φ stays, `h_i ~ N(χ√λ_i u_i, λ_i T_i)`, and T_i is what of T is not u_i's. The noise
    of a step is as good as Gaussian then.
    """
    chi, place, weight, _, _ = (each[..., None] for each in shared.at(given.size(ensemble, given.batch)))
    eigenvalue = ensemble.root[some] ** 2
    signal = given.signal[:, None, some]
    spread = given.spread[:, None, some]
    others = np.maximum(given.loss[..., None] - signal - spread, TINY)
    alone = 1 / (1 + 2 * place * eigenvalue * others)
    fall = 1 / (1 + 2 * place * eigenvalue * (others + chi**2 * spread))
    seen = place * chi**2 * eigenvalue
    without = weight * np.sqrt(alone / fall)
    first = chi * alone / np.sqrt(np.pi * place)
    nodes, shares = _gauss_rule()
    u = np.sqrt(signal)[..., None] + np.sqrt(spread)[..., None] * nodes  # (P, 1, J, M)
    apart = seen[..., None] * ((signal * fall)[..., None] - alone[..., None] * u**2)
    law = without[..., None] * np.exp(np.minimum(apart, MOST))
    square = (law * ((others * alone)[..., None] + (chi * alone)[..., None] ** 2 * u**2)).sum(1)
    gain = (law * first[..., None]).sum(1)
    u = u[:, 0]
    moved = (rate * eigenvalue)[..., None]
    noise = moved**2 * np.maximum(square - (u * gain) ** 2, 0.0)
    mean = u * (1 - moved * gain)
    second = (mean**2 + noise) @ shares
    fourth = (mean**4 + 6 * mean**2 * noise + 3 * noise**2) @ shares
    return (3 - fourth / np.maximum(second**2, TINY)) / 2


@cache
def _gauss_rule() -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of N(0, 1)."""
    nodes, weights = hermegauss(PLACES)
    return nodes, weights / weights.sum()


def _nodes(ensemble: Ensemble, given: Directions) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(P, N) χ and s, and the weights of both. The noise alone says where Φ has vanished."""
    size = given.size(ensemble, given.chi**2)
    end = _vanished(ensemble) / given.loss
    farthest = min(FARTHEST, np.log(np.max(end * size)))  # in this order: FARTHEST where a diverging run has nan
    y = LOWEST + APART * np.arange(np.ceil((farthest - LOWEST) / APART) + 1)
    place = np.exp(y - np.exp(-y)) / size[..., None]
    weight = APART * (1 + np.exp(-y)) * place * given.share[..., None]
    chi = np.broadcast_to(given.chi[..., None], place.shape)
    steps = len(size)
    return chi.reshape(steps, -1), place.reshape(steps, -1), weight.reshape(steps, -1)


@lru_cache(maxsize=64)
def _vanished(ensemble: Ensemble) -> float:
    """`sT` at which noise alone has made Φ vanish."""
    many = ensemble.multiplicity
    eigenvalue = ensemble.root**2
    trace = many @ ensemble.spread
    left = many @ (ensemble.spread - eigenvalue) / trace
    lost = np.log1p(2 * np.outer(SPECTRUM, eigenvalue / trace)) @ many / 2 + SPECTRUM * left
    return SPECTRUM[min(np.searchsorted(lost, VANISHED), SPECTRUM.size - 1)] / trace


def _sum(terms: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(P, N) over the directions of (P, N, K), with weights (P, K)."""
    return (terms @ weights[..., None])[..., 0]
