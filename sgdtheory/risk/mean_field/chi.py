"""Means over the length of a batch's residuals, in units of their standard deviation: χ with B degrees of freedom."""

from functools import cache, lru_cache
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


@cache
def _fine_rule() -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights of the fine Gauss–Legendre rule on [−1, 1]."""
    return legendre.leggauss(FINE)


def chi_rule(batch: float, nodes: int) -> ChiRule:
    """Return the Gauss rule of χ_B, whose density is ∝ χ^{B−1} e^{−χ²/2}; B need not be whole."""
    return ChiRule(*(each[0] for each in _rules((batch,), nodes)))


@lru_cache(maxsize=256)
def _rules(batches: tuple[float, ...], nodes: int) -> ChiRule:
    """Return the Gauss rules of P densities, (P, M) each.

    The density on a fine grid has a Jacobi matrix that Lanczos' iteration finds (Golub & Welsch). All batch sizes are
    iterated together: a batch ramp has thousands of them.
    """
    batch = np.array(batches)[:, None]
    peak = np.sqrt(batch)
    low = np.maximum(0.0, peak - WIDTH)
    points, weights = _fine_rule()
    fine = low + (peak + WIDTH - low) * (points + 1) / 2
    log_density = (batch - 1) * np.log(fine) - fine**2 / 2
    density = weights * np.exp(log_density - log_density.max(axis=1, keepdims=True))
    basis = [np.sqrt(density / density.sum(axis=1, keepdims=True))]
    jacobi = np.zeros((len(batches), nodes, nodes))
    for k in range(nodes):
        moved = fine * basis[k]
        for _ in range(2):  # orthogonal to all before it, to rounding
            for j, vector in enumerate(basis):
                part = (vector * moved).sum(axis=1)
                moved = moved - part[:, None] * vector
                jacobi[:, j, k] += part
        size = np.linalg.norm(moved, axis=1)
        basis.append(moved / size[:, None])
        if k + 1 < nodes:
            jacobi[:, k + 1, k] = size
    node, vectors = np.linalg.eigh(np.tril(jacobi))
    large = batch > LARGE
    return ChiRule(np.where(large, peak, node), np.where(large, 1 / nodes, vectors[:, 0] ** 2))


def chi_rules(batches: np.ndarray, table: dict[float, int] = NODES) -> ChiRule:
    """Return the rules of P batch sizes, (P, M) each, with as many nodes as the smallest needs.

    Args:
        batches: (P,) B.
        table: B → nodes from there on, increasing, from 0 on.
    """
    nodes = next(number for least, number in reversed(table.items()) if batches.min() >= least)
    sizes, places = np.unique(batches, return_inverse=True)
    found = _rules(tuple(sizes.tolist()), nodes)
    return ChiRule(*(each[places] for each in found))
