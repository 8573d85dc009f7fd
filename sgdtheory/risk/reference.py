"""Slow, transparent computations of the same risk, for tests and for readers: no code shared with the solvers."""

import numpy as np

from sgdtheory._common.array_like import ArrayLike


def risk_by_recursion(
    eigenvalues: ArrayLike,
    signal: ArrayLike,
    noise_variance: float,
    *,
    batch_size: float,
    learning_rate: float,
    num_steps: int,
    fourth_moment: tuple[float, float] = (1.0, 2.0),
) -> tuple[float, float]:
    """Return bias and variance by the O(nd) recursion on second moments (THEORY.md T2–T4, S2).

    In units of risk (`r_i = λ_i m_i`), with c_i = λ_i E[η_i Σ_{τ<t} η_i(τ)] and, for whitened data z with
    `E[z_i² (zᵀu)²] = χ ‖u‖² + δ u_i²`, α_i = q_i² + (δ − 1) v_i (Gaussian data: χ = 1, δ = 2):

        r_i ← α_i r_i + v_i (χ Σ_j r_j + σ²),   c_i ← q_i (c_i + r_i),   n² Δ = Σ_t Σ_i (r_i + 2 c_i).

    Args:
        eigenvalues, signal: (d,) λ_i and s_i.
        noise_variance: σ².
        batch_size, learning_rate, num_steps: B, γ and n, one number each.
        fourth_moment: (χ, δ) of the data, isotropic and diagonal.

    Returns:
        (bias, variance).
    """
    chi, delta = fourth_moment
    x = learning_rate * np.asarray(eigenvalues, dtype=float)
    q = 1 - x
    v = x**2 / batch_size
    alpha = q**2 + (delta - 1) * v
    parts = []
    for start, noise in ((np.array(signal, dtype=float), 0.0), (np.zeros_like(x), noise_variance)):
        r = start
        c = np.zeros_like(x)
        total = 0.0
        for _ in range(int(num_steps)):
            risk = r.sum()
            total += risk + 2 * c.sum()
            c = q * (c + r)
            r = alpha * r + v * (chi * risk + noise)
        parts.append(total / num_steps**2)
    return parts[0], parts[1]


def risk_by_covariance(
    covariance: ArrayLike,
    initial_error: ArrayLike,
    noise_variance: float,
    *,
    batch_size: float,
    learning_rate: float,
    num_steps: int,
    paper: bool = False,
) -> tuple[float, float]:
    """Return bias and variance by propagating full d×d second moments, in any basis, from any initial error.

    With `M_t = E η_t η_tᵀ` and the cross moment `X_t = E η_t (Σ_{τ<t} η_τ)ᵀ`,

        M ← (I − γH) M (I − γH) + (γ²/B) [HMH + tr(HM) H + σ² H],   X ← (I − γH)(X + M),

    and n² Δ = Σ_t tr H (M_t + 2 X_t): the Gaussian fourth moment (THEORY.md T1), nothing diagonalised.

    Args:
        covariance: (d, d) H, symmetric.
        initial_error: (d,) w_0 − w*.
        noise_variance: σ².
        batch_size, learning_rate, num_steps: B, γ and n, one number each.
        paper: put the bracket `2 tr(HM) H + σ² H` of the paper's proof in the place of T1's.

    Returns:
        (bias, variance).
    """
    h = np.asarray(covariance, dtype=float)
    contraction = np.eye(len(h)) - learning_rate * h
    gain = learning_rate**2 / batch_size
    parts = []
    for start, noise in ((np.asarray(initial_error, dtype=float), 0.0), (np.zeros(len(h)), noise_variance)):
        m = np.outer(start, start)
        x = np.zeros_like(h)
        total = 0.0
        for _ in range(int(num_steps)):
            total += np.trace(h @ (m + 2 * x))
            x = contraction @ (x + m)
            coupling = np.trace(h @ m) * h if paper else h @ m @ h
            m = contraction @ m @ contraction + gain * (coupling + (np.trace(h @ m) + noise) * h)
        parts.append(total / num_steps**2)
    return parts[0], parts[1]
