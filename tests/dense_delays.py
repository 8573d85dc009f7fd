"""Second moments of SGD with late gradients as full matrices, in any basis: an oracle without modes or closed forms.

The state is (w_t, …, w_{t−τ}, S) − w*, blocks of d numbers, and E[ĤMĤ] = HMH + (HMH + tr(HM)H)/B (THEORY.md T1).
"""

import numpy as np


def risks(covariance, start, noise, law, rates, batches, keep=(1.0, 1.0), first=0, noise_at=None):
    """λ-weighted E w², E wS and E S² after all steps, (3,), S ← ρS + ωw from step `first` on.

    `noise_at`: the delay at which the noise takes the risk, if it is a wrong one.
    """
    d = len(start)
    k = len(law)
    rho, omega = keep
    M = np.kron(np.pad(np.ones((k, k)), [(0, 1), (0, 1)]), np.outer(start, start))
    blocks = [slice(j * d, (j + 1) * d) for j in range(k + 1)]
    for number, (rate, batch) in enumerate(zip(rates, batches, strict=True)):
        after = np.zeros_like(M)
        for delay, share in enumerate(law):
            A = np.zeros_like(M)
            A[blocks[0], blocks[0]] = np.eye(d)
            A[blocks[0], blocks[delay]] -= rate * covariance
            for j in range(1, k):
                A[blocks[j], blocks[j - 1]] = np.eye(d)
            averaged = number >= first
            A[blocks[k], blocks[k]] = np.eye(d) * (rho if averaged else 1.0)
            A[blocks[k], blocks[0]] = np.eye(d) * (omega if averaged else 0.0)
            after += share * A @ M @ A.T
            seen = M[blocks[delay], blocks[delay]]
            risk = seen if noise_at is None else M[blocks[noise_at], blocks[noise_at]]
            kick = covariance @ risk @ covariance + (np.trace(covariance @ risk) + noise) * covariance
            after[blocks[0], blocks[0]] += share * rate**2 / batch * kick
        M = after
    pairs = (0, 0), (0, k), (k, k)
    return np.array([np.trace(covariance @ M[blocks[i], blocks[j]]) for i, j in pairs])
