"""Normalized SGD: steps of length γ, coordinates do not matter (THEORY.md T37).

The law of g/‖g‖ is exact, by integrals, where u is Gaussian and T does not fluctuate.
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

from sgdtheory.algorithms import NormalizedSGD
from sgdtheory.risk.mean_field.chi import chi_rules
from sgdtheory.risk.mean_field.closure import Closure, shares
from sgdtheory.risk.mean_field.ensemble import TINY, Ensemble
from sgdtheory.risk.mean_field.field import MEAN, VARIANCE, Field, Known, second_moment

APART = 0.7  # nodes of y; with s E‖h‖² = e^y e^{−e^{−y}} both ends of the integrals fall off fast,
LOWEST = -2.8  # from here
FARTHEST = 16.0  # to here at most, which is as far as one direction alone needs
VANISHED = 14.0  # −log Φ where integrals end
SPECTRUM = np.exp(np.arange(-5.0, 40.0, 0.5))  # s E‖h‖² at which that is looked for
MOST = 300.0  # exponent: where it is larger Φ is 0
PLACES = 6  # of u that stand for a Gaussian


class Directions(NamedTuple):
    """Directions at the beginning of P steps.

    Attributes:
        signal, spread: (P, K) a² and r.
        loss, pull: (P, 1) T and Σ λ E u².
        batch: (P, 1) B.
        chi, share: (P, M) nodes and weights of χ.
    """

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
        """Return the (P, N, K) factors D at N nodes (χ, s)."""
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
    """Integrands by which directions act on each other, (P, N) each, of P steps and N nodes (χ, s).

    S is E‖h‖² at χ² = B.

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
        """Return the integrands with s, Φ ds and the derivative themselves, for another S, (P, 1)."""
        return Integrals(self.chi, self.place / size, self.weight / size, self.own, self.by_loss / size)


class Means(NamedTuple):
    """Means of h_i/‖h‖, (P, K) each: `E = √λ_i a_i gain`, `∂E/∂a_i = √λ_i slope`, `E (h_i/‖h‖)² = λ_i square`."""

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


NODES = {0.0: 6, 4.0: 5, 16.0: 4, 256.0: 3}  # B → nodes of the mean over χ from there on: to 1e-3 of a step's mean
SIDES = 2  # row of values: what of the variance is two-sided
NOTICED = 0.05  # share of E‖h‖² from which it is asked whether a direction is,
HALF = 0.3  # and at which half of the answer counts
SOFT = 0.01  # of the answer: fewer have no square root that a polynomial could follow
# Relative errors of the pull over q, for which 3/8 is derived, s², s² B r/T_i and the square of the largest share of
# ‖g‖². Larger factors state larger errors; these cover all of 375 simulated settings.
DOUBTS = 0.5, 1.6, 0.13, 0.4
# Error of the mean square of a step, relative: Σ λ_i E(h_i/‖h‖)² is 1 to 2.2e-4 in one direction, to 1e-5 in three.
INTEGRATED = 2.5e-4
MOST_SCATTER = 1e6  # relative error of the scatter: beyond, numbers would overflow


def field_of_normalized(method: NormalizedSGD) -> Field | None:
    """Return the field of normalized SGD, None with momentum, which is simulated only."""
    return None if method.momentum else NormalizedField()


class NormalizedField(Field):
    """`w ← w − γ g/‖g‖`.

    A direction that holds much of ‖g‖ jumps to and fro, at a distance A from its optimum, and is no Gaussian about 0:
    then ‖g‖ would often be small, and all other steps large. What happens to a direction and to its mirror image is the
    same, and so u is ±A and a Gaussian beside it, `A² = a² + b`: values are E u = a, Var u = r, and its part b.
    """

    first = 128.0  # with two sides
    in_loss_alone = False

    def closure(
        self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known, decay: np.ndarray
    ) -> Closure:
        """Wrong where T fluctuates, and where what fluctuates in one direction makes up much of ‖g‖.

        The scatter is a difference of integrals: nothing is left of it where steps are as good as certain.
        """
        seen = shares(ensemble, values, loss, known.batch)
        trace = ensemble.multiplicity @ ensemble.spread
        size = np.maximum(loss[:, :1] * trace + (known.batch - 1) * loss[:, 1:], TINY)
        largest = np.max(known.batch * ensemble.root**2 * np.maximum(values[VARIANCE], 0.0), axis=-1, keepdims=True)
        fluctuation, spread, saturated, share = DOUBTS
        pull = fluctuation * seen.fluctuation + spread * seen.spread**2 + saturated * seen.saturated
        pull = pull + share * np.minimum(largest / size, 1.0) ** 2
        given = _given(values, loss, known)
        found = means(ensemble, given, Integrals(*known.together))
        uncertain = np.maximum(found.square - given.signal * found.gain**2, TINY)
        scatter = np.minimum(INTEGRATED * found.square / uncertain, MOST_SCATTER)
        return Closure(pull, scatter, np.zeros_like(pull), np.zeros_like(pull))

    def looked_up(self, number: np.ndarray, batch: np.ndarray) -> tuple[np.ndarray, ...]:
        """Rules of χ, (P, M) nodes and weights."""
        return chi_rules(batch, NODES)

    def totals(self, ensemble: Ensemble) -> np.ndarray:
        """Return the weights of R, and of what signal adds to `‖h‖²`."""
        return np.stack([ensemble.multiplicity, ensemble.multiplicity * ensemble.root**2])

    def start(self, ensemble: Ensemble) -> np.ndarray:
        """w_0."""
        return np.stack([ensemble.start, np.zeros_like(ensemble.start), np.zeros_like(ensemble.start)])

    def together(
        self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known
    ) -> tuple[np.ndarray, ...]:
        """`Integrals`."""
        return integrals(ensemble, _given(values, loss, known))

    def change(self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known) -> np.ndarray:
        """(3, P, K)."""
        given = _given(values, loss, known)
        found = means(ensemble, given, Integrals(*known.together))
        moved = known.rate * ensemble.root**2
        gain = moved * found.gain
        scatter = moved**2 * np.maximum(found.square - given.signal * found.gain**2, 0.0)
        sides = given.signal - values[MEAN] ** 2
        variance = scatter - 2 * moved * found.slope * given.spread - gain * (2 - gain) * sides
        mean_square = (1 - gain) ** 2 * given.signal
        square = (1 - gain) ** 2 * values[MEAN] ** 2 + np.maximum(values[VARIANCE] + variance, 0.0)
        if known.smooth:  # A leads to and fro about where it stays, and so may the mean
            mean = np.where(gain > 1, -1.0, -gain) * values[MEAN]
            return np.stack([mean, variance + np.where(gain > 1, (1 - gain) * values[MEAN], 0.0) ** 2, -sides])
        away = self._away(ensemble, given, known, mean_square, square) - gain * (2 - gain) * sides
        return np.stack([-gain * values[MEAN], variance, np.clip(away, -sides, values[VARIANCE] + variance - sides)])

    def _away(
        self, ensemble: Ensemble, given: Directions, known: Known, mean_square: np.ndarray, square: np.ndarray
    ) -> np.ndarray:
        """(P, K) by how much A² is more than (E u)² of one side: by the fourth moment, where steps are not linear."""
        found = np.zeros_like(square)
        share = known.batch * ensemble.root**2 * (given.signal + given.spread) / given.size(ensemble, known.batch)
        some = np.flatnonzero((share > NOTICED).any(axis=0) & (ensemble.multiplicity <= 1))
        if some.size:
            shared = Integrals(*known.together)
            sides = np.maximum(two_sided(ensemble, given, shared, known.rate, some), 0.0)
            counts = 1 / (1 + (HALF / np.maximum(share[:, some], TINY)) ** 4)
            found[:, some] = counts * (square[:, some] * sides / np.sqrt(sides + SOFT) - mean_square[:, some])
        return found

    def mixing(self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known) -> np.ndarray:
        """`Cov(u, Δu)` over Var u: of the two sides and of what is Gaussian."""
        given = _given(values, loss, known)
        found = means(ensemble, given, Integrals(*known.together))
        sides = (given.signal - values[MEAN] ** 2) / np.maximum(values[VARIANCE], TINY)
        pull = sides * found.gain + (1 - sides) * found.slope
        return (1 - known.rate * ensemble.root**2 * pull)[None, None]

    def with_iterate(self, values: np.ndarray) -> np.ndarray:
        """r."""
        return values[[VARIANCE]]

    def scales(self, values: np.ndarray) -> np.ndarray:
        """Return the scales of a, r and b."""
        size = second_moment(values[MEAN], values[VARIANCE])
        return np.stack([np.sqrt(size), size, size])


def _given(values: np.ndarray, loss: np.ndarray, known: Known) -> Directions:
    """A² in the place of a², r − b in that of r."""
    sides = np.clip(values[SIDES], 0.0, values[VARIANCE])
    return Directions(
        values[MEAN] ** 2 + sides, values[VARIANCE] - sides, loss[:, :1], loss[:, 1:], known.batch, *known.table
    )
