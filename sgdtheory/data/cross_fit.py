"""Spectrum and signal from second moments: of the rows themselves, or cross-fitted, without the bias of noise."""

from typing import NamedTuple

import numpy as np

from sgdtheory.data.moments import GROUPS, Moments

FIRST_HALF = np.arange(GROUPS) % 2 == 0
NULL = 1e-12  # of the largest eigenvalue: a direction that the rows do not have
THIN = 1 / 8  # sample over cross-fitted eigenvalue, below which a direction is one that the half does not resolve
RESOLVED = 2.0  # standard errors of noise that a block of signal must exceed


class Spectrum(NamedTuple):
    """Of a population, estimated.

    Attributes:
        eigenvalues: (d,) λ_i, decreasing but for noise where cross-fitted.
        signal: (d,) s_i, unbiased and so possibly negative where cross-fitted.
        square: E |y|².
        rows: N' that directions were found with.
    """

    eigenvalues: np.ndarray
    signal: np.ndarray
    square: float
    rows: float


def sample_spectrum(moments: Moments, groups: np.ndarray) -> Spectrum:
    """Of the rows themselves: `λ_i = v_iᵀĤv_i`, `s_i = |v_iᵀĈ|²/λ_i`, both 0 beyond their rank."""
    covariance, correlation, square = moments.mean(groups)
    eigenvalues, vectors = _eigen(covariance)
    kept = eigenvalues > NULL * eigenvalues[0]
    power = ((vectors.T @ correlation) ** 2).sum(1)
    signal = np.divide(power, eigenvalues, out=np.zeros_like(power), where=kept)
    return Spectrum(np.where(kept, eigenvalues, 0.0), signal, square, float(moments.count[groups].sum()))


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


def _one_way(first: tuple[np.ndarray, np.ndarray, float], second: tuple) -> tuple[np.ndarray, np.ndarray]:
    own, vectors = _eigen(first[0])
    eigenvalues = np.einsum("ji,ji->i", vectors, second[0] @ vectors)
    kept = (own > NULL * own[0]) & (own > THIN * eigenvalues)
    products = ((vectors.T @ first[1]) * (vectors.T @ second[1])).sum(1)
    return eigenvalues, np.divide(products, own, out=np.zeros_like(products), where=kept)


def _eigen(covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    eigenvalues, vectors = np.linalg.eigh(covariance)
    return np.maximum(eigenvalues[::-1], 0.0), vectors[:, ::-1]


def pooled_signal(spectrum: Spectrum) -> np.ndarray:
    """(d,) signal that is not negative, with the same sum as far as that is positive.

    Neighbouring directions are pooled until their sum exceeds `RESOLVED` standard errors of its noise; within a block
    it is spread evenly.
    """
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
