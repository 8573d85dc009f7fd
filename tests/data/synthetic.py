"""Rows of power-law data: λ_i = i^−a, s_i = i^−b."""

import numpy as np


def power_law_rows(random, rows, dim, capacity, source, noise=0.5, tails=None):
    """(N, d) Gaussian features, or Student's t with `tails` degrees of freedom (elliptical), and (N,) targets."""
    index = np.arange(1.0, dim + 1)
    white = random.standard_normal((rows, dim))
    if tails:
        white = white / np.sqrt(random.chisquare(tails, (rows, 1)) / (tails - 2))
    labels = white @ index ** (-source / 2) + noise * random.standard_normal(rows)
    return white * index ** (-capacity / 2), labels
