"""Means over the length of a batch's residuals, in units of their standard deviation: χ with B degrees of freedom."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial import legendre

# B → nodes of the rule from there on: means of the functions that signs need are right to 3e-4 at B = 1, 5e-5 at 2 and
# 1e-5 from 4 on
NODES = {0.0: 14, 4.0: 10, 16.0: 6, 256.0: 4}
FINE = 400  # points that stand for the density itself
WIDTH = 9.0  # of it on either side of its peak: its standard deviation is below 0.71
LARGE = 1e8  # B: beyond, χ is √B


class ChiRule(NamedTuple):
    """Nodes and weights, (M,) each: `E f(χ) = Σ weight f(node)`, exact for polynomials of degree 2M − 1."""

    node: np.ndarray
    weight: np.ndarray


@lru_cache(maxsize=4096)
def chi_rule(batch: float, nodes: int) -> ChiRule:
    """Of χ_B, whose density is ∝ χ^{B−1} e^{−χ²/2}; B need not be whole.

    The Gauss rule of the density on a fine grid, from the Jacobi matrix that Lanczos' iteration finds (Golub & Welsch).
    """
    if batch > LARGE:
        return ChiRule(np.full(nodes, np.sqrt(batch)), np.full(nodes, 1 / nodes))
    peak = np.sqrt(batch)
    low = max(0.0, peak - WIDTH)
    points, weights = legendre.leggauss(FINE)
    fine = low + (peak + WIDTH - low) * (points + 1) / 2
    log_density = (batch - 1) * np.log(fine) - fine**2 / 2
    density = weights * np.exp(log_density - log_density.max())
    basis = [np.sqrt(density / density.sum())]
    jacobi = np.zeros((nodes, nodes))
    for k in range(nodes):
        moved = fine * basis[k]
        for _ in range(2):  # orthogonal to all before it, to rounding
            for j, vector in enumerate(basis):
                part = vector @ moved
                moved = moved - part * vector
                jacobi[j, k] += part
        size = np.linalg.norm(moved)
        basis.append(moved / size)
        if k + 1 < nodes:
            jacobi[k + 1, k] = size
    node, vectors = np.linalg.eigh(np.tril(jacobi))
    return ChiRule(node, vectors[0] ** 2)


def chi_rules(batches: np.ndarray, table: dict[float, int] = NODES) -> ChiRule:
    """Of P batch sizes: (P, M) each, with as many nodes as the smallest needs.

    Args:
        batches: (P,) B.
        table: B → nodes from there on, increasing, from 0 on.
    """
    nodes = next(number for least, number in reversed(table.items()) if batches.min() >= least)
    rules = [chi_rule(batch, nodes) for batch in batches.tolist()]
    return ChiRule(*(np.stack(each) for each in zip(*rules, strict=True)))
