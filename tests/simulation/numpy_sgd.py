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
