"""SGD over explicit orders of the rows, many replicas side by side: no formula is shared with the library."""

import numpy as np


def reshuffled_runs(random, covariance, start, rows, *, batch, rate, steps, replicas):
    """Mean excess risks of the last iterate and of the average, with standard errors: (2,) and (2,).

    Args:
        random: a NumPy generator.
        covariance: (d,) eigenvalues of H.
        start: (d,) w_0 − w*.
        rows: (N, d) features and (N,) label noise; of every replica its own where they have one axis more, in front.
        batch, rate, steps: B, γ and n.
        replicas: how many.
    """
    features, noise = rows
    number = features.shape[-2]
    size = min(batch, number)
    length = number // size
    error = np.tile(start, (replicas, 1))
    total = np.zeros_like(error)
    own = np.arange(replicas)[:, None]
    for step in range(steps):
        if step % length == 0:
            order = random.permuted(np.tile(np.arange(number), (replicas, 1)), axis=1)
        taken = order[:, step % length * size :][:, :size]
        x, y = (features[taken], noise[taken]) if features.ndim == 2 else (features[own, taken], noise[own, taken])
        total += error
        residual = np.einsum("rbd,rd->rb", x, error) - y
        error = error - rate / size * np.einsum("rb,rbd->rd", residual, x)
    risks = np.stack([each**2 @ covariance for each in (error, total / steps)])
    return risks.mean(1), risks.std(1, ddof=1) / np.sqrt(replicas)
