"""Défossez & Bach 2015: what averaged SGD tends to after many steps, exactly."""

import numpy as np

from sgdtheory.bounds.published import Asked, PublishedBound, Statement, nowhere


def _statement(asked: Asked) -> Statement:
    """`2 (E f(w̄) − f*) → tr H (H_L^{−1} + H_R^{−1} − γ) T^{−1} [δδᵀ/(γn)² + σ²H/(Bn)]`, to leading order in 1/n.

    On diagonal matrices `(T x)_i = d_i x_i − (γ/B) λ_i Σ_j λ_j x_j`, `d_i = 2λ_i − (1 + 1/B) γλ_i²`, so that
    `Σ_i (2 − γλ_i) (T^{−1} y)_i = Σ (2 − γλ) y/d + (γ/B) Σ (2 − γλ) λ/d · Σ λ y/d / (1 − (γ/B) Σ λ²/d)`.
    """
    if asked.spectrum.dim is None:
        return nowhere(asked, "finitely many directions")
    eigenvalues, signal = asked.spectrum.directions()
    positive = eigenvalues > 0
    size = eigenvalues[positive]
    rate = asked.rate[..., None]
    share = rate / asked.batch[..., None]
    drift = 2 * size - rate * size**2 - share * size**2
    coupled = 1 - np.sum(share * size**2 / drift, axis=-1)

    def traced(source: np.ndarray) -> np.ndarray:
        alone = np.sum((2 - rate * size) * source / drift, axis=-1)
        shared = np.sum(share * (2 - rate * size) * size / drift, axis=-1)
        return alone + shared * np.sum(size * source / drift, axis=-1) / coupled

    bias = traced(signal[positive] / size) / (asked.rate * asked.steps) ** 2
    variance = traced(size) * asked.noise / (asked.batch * asked.steps)
    return Statement(
        bias + variance,
        {
            "finitely many directions, none with λ = 0": np.broadcast_to(positive.all(), asked.rate.shape),
            "γ < γ_max, the edge of stability": np.logical_and((drift > 0).all(axis=-1), coupled > 0),
        },
    )


defossez_bach_2015 = PublishedBound(
    name="defossez_bach_2015",
    side="both",
    source="Défossez & Bach, AISTATS 2015 (arXiv 1412.0156), asymptotic covariance",
    read="as derived in lecture notes that quote it (Somani); its leading terms derived here",
    about="f(w̄) − f(w*), f half of the mean square error, w̄ the mean of w_0 … w_{n−1}: a limit, n → ∞, no bound",
    batches="B = 1; the same algebra with the fourth moments of a batch",
    statement=_statement,
    standing="order",
)
