"""Normalized SGD: what is known exactly of g/‖g‖ where u is Gaussian and T does not fluctuate (THEORY.md T37).

Given χ the gradient is `χ/B` times h, `h_i = √λ_i (χ u_i + √T z_i)`, a Gaussian vector of mean χη, `η_i = √λ_i a_i`, and
covariance `diag(v) − ηηᵀ`, `v_i = λ_i (T + (χ² − 1) r_i)`. With `‖h‖^{−1} = π^{−½} ∫ s^{−½} e^{−s‖h‖²} ds` and
`‖h‖^{−2} = ∫ e^{−s‖h‖²} ds` all means of h_i/‖h‖ and of its square are integrals over s of

    Φ(s) = E e^{−s‖h‖²} = (c Π_j D_j)^{½} e^{−χ²(c − 1)/2},    D_i = 1/(1 + 2s v_i),    c = 1/(1 − 2s Σ_j η_j² D_j),
    E[h_i e^{−s‖h‖²}] = χη_i c D_i Φ,    E[h_i² e^{−s‖h‖²}] = (v_i D_i + (χ²c² − c) η_i² D_i²) Φ.

Directions meet in c and Φ, which derivatives hold, as functions of s E‖h‖². That is the second sum of E u² they see.
"""

from typing import NamedTuple

import numpy as np

from sgdtheory.risk.chi import chi_rules
from sgdtheory.risk.ensemble import Ensemble
from sgdtheory.risk.field import MEAN, VARIANCE, Known, MemorylessField, Step

NODES = {0.0: 6, 4.0: 5, 16.0: 4, 256.0: 3}  # B → nodes of the mean over χ from there on
APART = 0.7  # nodes of y; with s E‖h‖² = e^y e^{−e^{−y}} both ends of the integrals fall off fast,
LOWEST = -2.8  # from here
FARTHEST = 16.0  # to here at most, which is as far as one direction alone needs
VANISHED = 14.0  # −log Φ where integrals end
SPECTRUM = np.exp(np.arange(-5.0, 40.0, 0.5))  # s E‖h‖² at which that is looked for
TINY = np.finfo(float).tiny


class Integrals(NamedTuple):
    """What directions do to each other: over P steps and N nodes (χ, s), (P, N) each.

    Attributes:
        chi: χ.
        place: s S, where S is E‖h‖² at χ² = B.
        weight: Φ(s) ds S, and the weight of χ.
        own: c.
        by_loss: ∂ log(cΦ)/∂T times S.
    """

    chi: np.ndarray
    place: np.ndarray
    weight: np.ndarray
    own: np.ndarray
    by_loss: np.ndarray


class NormalizedField(MemorylessField):
    """`w ← w − γ g/‖g‖`."""

    def looked_up(self, number: np.ndarray, batch: np.ndarray) -> tuple[np.ndarray, ...]:
        """Rules of χ, (P, M) nodes and weights."""
        return chi_rules(batch, NODES)

    def totals(self, ensemble: Ensemble) -> np.ndarray:
        """Of R, and of what signal adds to `‖h‖²`."""
        return np.stack([ensemble.multiplicity, ensemble.multiplicity * ensemble.root**2])

    def together(
        self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known
    ) -> tuple[np.ndarray, ...]:
        """`Integrals`."""
        chi, place, weight = _nodes(ensemble, loss, known)
        many = ensemble.multiplicity
        eigenvalue = ensemble.root**2
        signal = many * eigenvalue * values[MEAN] ** 2
        level = loss[:, :1]
        fall = _fall(ensemble, values, level, chi, place)
        seen = _sum(fall, signal)
        by_loss = -2 * place * _sum(fall**2, eigenvalue * signal)
        own = 1 / np.maximum(1 - 2 * place * seen, TINY)
        left = many @ (ensemble.spread - eigenvalue)  # of the directions left out, each of them small
        log_phi = np.log(fall) @ many / 2 - place * level * left + np.log(own) / 2 - chi**2 * (own - 1) / 2
        moved = place * (3 * own - (chi * own) ** 2) * by_loss - place * (_sum(fall, many * eigenvalue) + left)
        size = _size(ensemble, loss, known.batch)
        return Integrals(chi, place * size, weight * np.exp(log_phi) * size, own, moved * size)

    def step(self, ensemble: Ensemble, values: np.ndarray, loss: np.ndarray, known: Known) -> Step:
        """Means of h_i/‖h‖ and of its square. T moves with u_i: its part of the slope is `2a_i ∂/∂T`.

        E[h_i/‖h‖] = √λ_i a_i E_χ π^{−½} ∫ s^{−½} χ c D_i Φ ds
        """
        chi, place, weight, own, by_loss = Integrals(*known.together)
        size = _size(ensemble, loss, known.batch)
        place = place / size
        square = weight / size
        mean = np.sqrt(1 / (np.pi * np.maximum(place, TINY))) * square * chi * own
        eigenvalue = ensemble.root**2
        signal, spread = values[MEAN] ** 2, values[VARIANCE]
        fall = _fall(ensemble, values, loss[:, :1], chi, place)
        bent = 2 * place * (3 * own - (chi * own) ** 2 - 2) * mean
        first = np.stack([mean, 2 * by_loss / size * mean, square, chi**2 * square], axis=1) @ fall
        second = np.stack([bent, ((chi * own) ** 2 - own) * square], axis=1) @ fall**2
        gain = first[:, 0]
        slope = gain + signal * (first[:, 1] + eigenvalue * second[:, 0])
        both = (loss[:, :1] - spread) * first[:, 2] + spread * first[:, 3] + signal * second[:, 1]
        moved = known.rate * eigenvalue
        return Step(moved * gain * values[MEAN], moved * slope, moved**2 * np.maximum(both - signal * gain**2, 0.0))


def _size(ensemble: Ensemble, loss: np.ndarray, chi_square: np.ndarray) -> np.ndarray:
    """`E‖h‖² = T tr H + (χ² − 1) Σ λ_i E u_i²`, in the shape of χ²."""
    trace = ensemble.multiplicity @ ensemble.spread
    return np.maximum(loss[:, :1] * trace + (chi_square - 1) * loss[:, 1:], TINY)


def _nodes(ensemble: Ensemble, loss: np.ndarray, known: Known) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(P, N) χ and s, and the weights of both. The noise alone says where Φ has vanished."""
    chi, share = known.table
    size = _size(ensemble, loss, chi**2)
    many = ensemble.multiplicity
    eigenvalue = ensemble.root**2
    trace = many @ ensemble.spread
    left = many @ (ensemble.spread - eigenvalue) / trace
    lost = np.log1p(2 * np.outer(SPECTRUM, eigenvalue / trace)) @ many / 2 + SPECTRUM * left
    end = SPECTRUM[min(np.searchsorted(lost, VANISHED), SPECTRUM.size - 1)] / trace / loss[:, :1]
    farthest = min(np.log(np.max(end * size)), FARTHEST)
    y = LOWEST + APART * np.arange(np.ceil((farthest - LOWEST) / APART) + 1)
    place = np.exp(y - np.exp(-y)) / size[..., None]
    weight = APART * (1 + np.exp(-y)) * place * share[..., None]
    chi = np.broadcast_to(chi[..., None], place.shape)
    return tuple(each.reshape(len(size), -1) for each in (chi, place, weight))


def _fall(
    ensemble: Ensemble, values: np.ndarray, level: np.ndarray, chi: np.ndarray, place: np.ndarray
) -> np.ndarray:
    """(P, N, K) D, from T (P, 1) and (P, N) nodes."""
    shaken = level[:, None] + (chi**2 - 1)[..., None] * values[VARIANCE][:, None]
    return 1 / (1 + 2 * place[..., None] * ensemble.root**2 * shaken)


def _sum(terms: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(P, N) over the directions of (P, N, K)."""
    return (terms @ weights[..., None])[..., 0]
