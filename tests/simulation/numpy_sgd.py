"""Mini-batch SGD as it is defined: batches of dense data from NumPy's generator, in a rotated basis.

It shares nothing with the library, and of THEORY.md only the setting.
"""

import numpy as np


def _basis(rng, dim):
    return np.linalg.qr(rng.standard_normal((dim, dim)))[0]


def _gradient(rng, x, error, sigma):
    """(R, d) mean over the batch of (xᵀη − ξ) x, for data (R, B, d) and errors (R, d)."""
    residual = np.einsum("rbd,rd->rb", x, error) - sigma * rng.standard_normal(x.shape[:2])
    return np.einsum("rb,rbd->rd", residual, x) / x.shape[1]


def one_step(rng, eigenvalues, u, noise_variance, *, batch_size, learning_rate, size):
    """(size, d) values of H^{1/2} η, in the eigenbasis, one step after it was u."""
    eigenvalues, u = np.asarray(eigenvalues), np.asarray(u)
    basis = _basis(rng, u.size)
    error = np.tile(basis @ (u / np.sqrt(eigenvalues)), (size, 1))
    x = rng.standard_normal((size, batch_size, u.size)) * np.sqrt(eigenvalues) @ basis.T
    error = error - learning_rate * _gradient(rng, x, error, np.sqrt(noise_variance))
    return error @ basis * np.sqrt(eigenvalues)


def second_moments(problem, *, batch_size, learning_rate, num_steps, first=0):
    """Expected excess risks of the average of w_first … w_{first+n−1}, and of w_n, by moments of (η, Σ η) jointly.

    Isserlis in u = H^{1/2} η: E[(g − u)(g − u)ᵀ] = (uuᵀ + (‖u‖² + σ²) I)/B for the whitened mean gradient g.
    """
    eigenvalues = np.asarray(problem.eigenvalues)
    d = eigenvalues.size
    drift = np.eye(d) - learning_rate * np.diag(eigenvalues)
    gain = learning_rate * np.diag(eigenvalues)
    now = np.outer(np.sqrt(problem.signal), np.sqrt(problem.signal))
    cross, square, last = np.zeros((d, d)), np.zeros((d, d)), None
    for step in range(first + num_steps):
        if step == num_steps:
            last = np.trace(now)
        if step >= first:
            square = square + cross + cross.T + now
            cross = cross + now
        noise = (now + (np.trace(now) + problem.noise_variance) * np.eye(d)) / batch_size
        cross, now = drift @ cross, drift @ now @ drift + gain @ noise @ gain
    return np.trace(square) / num_steps**2, np.trace(now) if last is None else last
