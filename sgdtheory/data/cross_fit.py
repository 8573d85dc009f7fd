"""Spectrum and signal from second moments: of the rows themselves, or cross-fitted, without the bias of noise."""

from typing import NamedTuple

import numpy as np

from sgdtheory.data.moments import GROUPS, Moments

FIRST_HALF = np.arange(GROUPS) % 2 == 0
NULL = 1e-12  # The rows lack directions whose eigenvalue is below this fraction of the largest.
# A half does not resolve a direction whose sample eigenvalue is below this fraction of the cross-fitted one.
THIN = 1 / 8
RESOLVED = 2.0  # A block of signal must exceed this many standard errors of its noise.
TURNS = 4999  # The p-value of noise is computed from this many random changes of the groups' signs.
NUMBERS = 1 << 22  # Their signals are computed in chunks of at most this many numbers.


class Spectrum(NamedTuple):
    """Estimated spectrum of a population.

    Attributes:
        eigenvalues: (d,) λ_i, decreasing but for noise where cross-fitted.
        signal: (d,) s_i, unbiased and so possibly negative where cross-fitted.
        square: E |y|².
        rows: N' that directions were found with.
        exact: whether the rows are the population, so that λ_i and s_i have no noise of sampling.
    """

    eigenvalues: np.ndarray
    signal: np.ndarray
    square: float
    rows: float
    exact: bool = False


def sample_spectrum(moments: Moments, groups: np.ndarray) -> Spectrum:
    """Return the spectrum of the rows themselves: `λ_i = v_iᵀĤv_i`, `s_i = |v_iᵀĈ|²/λ_i`, both 0 beyond their rank."""
    covariance, correlation, square = moments.mean(groups)
    eigenvalues, vectors = _eigen(covariance)
    kept = eigenvalues > NULL * eigenvalues[0]
    power = ((vectors.T @ correlation) ** 2).sum(1)
    signal = np.divide(power, eigenvalues, out=np.zeros_like(power), where=kept)
    number = float(moments.count[groups].sum())
    return Spectrum(np.where(kept, eigenvalues, 0.0), signal, square, number, exact=True)


def cross_fitted_spectrum(moments: Moments, groups: np.ndarray) -> Spectrum:
    """Directions v_i from one half of the rows, what is along them from the other; both ways averaged (THEORY.md T32).

        λ_i = v_iᵀĤ₂v_i,   s_i = (v_iᵀŵ₁)(v_iᵀĈ₂),   v_iᵀŵ₁ = v_iᵀĈ₁/Λ_i

    with Λ_i the eigenvalue of the first half, and ŵ₁ its least-squares fit. Noise of the two halves is independent, so
    their product has no bias from it, and over all directions `Σ s_i` has the mean `w*ᵀHw*`.
    """
    first, second = (moments.mean(groups & half) for half in (FIRST_HALF, ~FIRST_HALF))
    ways = [_one_way(first, second), _one_way(second, first)]
    eigenvalues, signal = np.mean(ways, axis=0)
    square = moments.mean(groups)[2]
    eigenvalues = np.where(eigenvalues > NULL * eigenvalues.max(), eigenvalues, 0.0)
    return Spectrum(eigenvalues, signal, square, float(moments.count[groups].sum()) / 2)


class _Directions(NamedTuple):
    """Directions of the first half, moments of the second along them, and 1/Λ_i, 0 where they are not resolved."""

    vectors: np.ndarray
    eigenvalues: np.ndarray
    inverse: np.ndarray


def _directions(first: np.ndarray, second: np.ndarray) -> _Directions:
    own, vectors = _eigen(first)
    eigenvalues = np.einsum("ji,ji->i", vectors, second @ vectors)
    kept = (own > NULL * own[0]) & (own > THIN * eigenvalues)
    return _Directions(vectors, eigenvalues, np.divide(1, own, out=np.zeros_like(own), where=kept))


def _one_way(first: tuple[np.ndarray, np.ndarray, float], second: tuple) -> tuple[np.ndarray, np.ndarray]:
    found = _directions(first[0], second[0])
    products = ((found.vectors.T @ first[1]) * (found.vectors.T @ second[1])).sum(1)
    return found.eigenvalues, products * found.inverse


def _eigen(covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    eigenvalues, vectors = np.linalg.eigh(covariance)
    return np.maximum(eigenvalues[::-1], 0.0), vectors[:, ::-1]


def noise_probability(moments: Moments, seed: int) -> float:
    """Return the probability that noise alone looks as much like signal as these rows (THEORY.md T32).

        T = max_k Σ_{i≤k} s_i / √k

    Targets that features say nothing about have E xy = 0, and Σ x yᵀ of a group is as likely as its negative. So the
    signs of the 16 groups are turned at random: p = (1 + turns with a T that is no smaller)/(1 + turns).
    """
    signs = np.random.default_rng([seed, TURNS]).choice([-1.0, 1.0], (1 + TURNS, GROUPS))
    signs[0] = 1.0  # the rows as they are
    signal = np.zeros((1 + TURNS, moments.covariance.shape[1]))
    known = np.zeros(signal.shape[1])
    for half in (FIRST_HALF, ~FIRST_HALF):
        found = _directions(moments.mean(half)[0], moments.mean(~half)[0])
        signal += _turned(moments, found, signs, half)
        known += found.inverse > 0
    largest = (signal.cumsum(1) / np.sqrt(np.maximum(known.cumsum(), 1))).max(1)
    return float((largest >= largest[0]).mean())


def _turned(moments: Moments, found: _Directions, signs: np.ndarray, half: np.ndarray) -> np.ndarray:
    """(turns, d) `Σ_gh ε_g ε_h v_iᵀC_g C_hᵀv_i/Λ_i`, g of the half that found v_i, h of the other: N'² times s_i."""
    along = np.einsum("ji,gjk->gik", found.vectors, moments.correlation)
    piece = max(1, NUMBERS // along[0].size)
    signal = np.empty((len(signs), len(found.inverse)))
    for start in range(0, len(signs), piece):
        turned = signs[start : start + piece]
        first = np.tensordot(turned[:, half], along[half], 1)
        second = np.tensordot(turned[:, ~half], along[~half], 1)
        signal[start : start + piece] = (first * second).sum(2) * found.inverse
    return signal


def pooled_signal(spectrum: Spectrum) -> np.ndarray:
    """(d,) signal that is not negative, with the same sum as far as that is positive.

    Neighbouring directions are pooled until their sum exceeds `RESOLVED` standard errors of its noise; within a block
    it is spread evenly. Each direction keeps its own signal where the rows are the population.
    """
    if spectrum.exact:
        return spectrum.signal
    noise = spectrum.square / spectrum.rows  # standard deviation of s_i without signal
    pooled, start, total = np.zeros_like(spectrum.signal), 0, 0.0
    for i, value in enumerate(spectrum.signal):
        total += value
        if total > RESOLVED * noise * np.sqrt(i + 1 - start):
            pooled[start : i + 1] = total / (i + 1 - start)
            start, total = i + 1, 0.0
    if start < pooled.size:
        pooled[start:] = max(total, 0.0) / (pooled.size - start)
    return pooled
