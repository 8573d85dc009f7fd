"""Deviation of data from a Gaussian shape: the two numbers of S2, from fourth moments."""

from typing import NamedTuple

import numpy as np

from sgdtheory._common.rows import Rows

MOST_ROWS = 20_000


class Kurtosis(NamedTuple):
    """`E[z_i² (zᵀu)²] = spread ‖u‖² + own u_i²` of whitened data (THEORY.md S2); 1 and 2 for Gaussian data.

    Attributes:
        spread: χ, mean of `E z_i² z_j²` over pairs of directions, weighted with λ_i λ_j.
        own: δ, mean of `E z_i⁴` weighted with λ_i², less χ.
    """

    spread: float
    own: float


def kurtosis_of(rows: Rows, eigenvalues: np.ndarray, vectors: np.ndarray) -> Kurtosis:
    """Return the kurtosis from `E|x|⁴` and `E x_i⁴` in the eigenbasis, over at most `MOST_ROWS` evenly spaced rows.

    With one direction alone the kurtosis κ is shared as that of elliptical data: κ/3 and 2κ/3.
    """
    every = -(-len(rows) // MOST_ROWS)
    fourth, whole, count = np.zeros_like(eigenvalues), 0.0, 0
    for where, x, _ in rows.pieces():
        squares = (x[-where.start % every :: every] @ vectors) ** 2
        fourth += (squares**2).sum(0)
        whole += (squares.sum(1) ** 2).sum()
        count += len(squares)
    same, all_pairs = fourth.sum() / count, whole / count
    own_weight, weight = (eigenvalues**2).sum(), eigenvalues.sum() ** 2
    if weight - own_weight < 1e-9 * weight:
        return Kurtosis(same / own_weight / 3, 2 * same / own_weight / 3)
    spread = (all_pairs - same) / (weight - own_weight)
    return Kurtosis(float(spread), float(same / own_weight - spread))
