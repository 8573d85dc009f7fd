"""Means over the length of a batch's residuals, in units of their standard deviation: χ with B degrees of freedom."""

from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial import legendre

# From each batch size on, means over χ take this many Gauss nodes. More nodes take time in proportion. Against rules
# with many more nodes means of signs are right to 3e-4 at B = 1, 5e-5 at B = 2, 1e-5 at B = 4, 1e-6 at B = 16 and
# 5e-9 at B = 128. Different numbers of nodes are compiled apart (`single_steps`).
NODES_BY_BATCH = {0.0: 14, 16.0: 6, 128.0: 4}
# The density of χ is represented at this many Gauss–Legendre points. With half or twice as many risks of
# signSGD change by 2e-13.
DENSITY_POINTS = 400
# The density is cut off at this distance from √B on either side. Its standard deviation is below 0.71, so that less
# than e^{−80} of it lies beyond. With 6 risks of signSGD change by 3e-11.
DENSITY_HALF_WIDTH = 9.0
# From this batch size on χ is √B: its relative standard deviation 1/√(2B) is below 1e-4, and means of smooth functions
# change by its square. With 1e6 no risk of two problems changes.
LARGEST_BATCH = 1e8


class ChiRule(NamedTuple):
    """Nodes and weights, (M,) each: `E f(χ) = Σ weight f(node)`, exact for polynomials of degree 2M − 1."""

    node: np.ndarray
    weight: np.ndarray


def chi_rule(batch: float, nodes: int) -> ChiRule:
    """Return the Gauss rule of χ_B, whose density is ∝ χ^{B−1} e^{−χ²/2}; B need not be whole."""
    rules = _rules((batch,), nodes)
    return ChiRule(rules.node[0], rules.weight[0])


def chi_rules(batches: np.ndarray, nodes_by_batch: dict[float, int] = NODES_BY_BATCH) -> ChiRule:
    """Return the rules of P batch sizes, (P, M) each, with as many nodes as the smallest batch size needs.

    Args:
        batches: (P,) B.
        nodes_by_batch: number of nodes from each batch size on, in increasing order from 0.
    """
    nodes = next(number for least, number in reversed(nodes_by_batch.items()) if batches.min() >= least)
    sizes, index = np.unique(batches, return_inverse=True)
    rules = _rules(tuple(sizes.tolist()), nodes)
    return ChiRule(rules.node[index], rules.weight[index])


@cache
def _density_rule() -> tuple[np.ndarray, np.ndarray]:
    """Return the nodes and weights of the fine Gauss–Legendre rule on [−1, 1], which take 30 ms to compute."""
    return legendre.leggauss(DENSITY_POINTS)


@lru_cache(maxsize=256)
def _rules(batches: tuple[float, ...], nodes: int) -> ChiRule:
    """Return the Gauss rules of P densities, (P, M) each.

    Lanczos' iteration finds the Jacobi matrix of the density on a fine grid, and the eigenvectors of that matrix give
    the rule (Golub & Welsch 1969). All batch sizes are iterated together: a batch ramp has thousands of them.
    """
    batch = np.array(batches)[:, None]
    peak = np.sqrt(batch)
    low = np.maximum(0.0, peak - DENSITY_HALF_WIDTH)
    points, weights = _density_rule()
    fine = low + (peak + DENSITY_HALF_WIDTH - low) * (points + 1) / 2
    log_density = (batch - 1) * np.log(fine) - fine**2 / 2
    density = weights * np.exp(log_density - log_density.max(axis=1, keepdims=True))
    basis = [np.sqrt(density / density.sum(axis=1, keepdims=True))]
    jacobi = np.zeros((len(batches), nodes, nodes))
    for k in range(nodes):
        vector = fine * basis[k]
        # Lanczos vectors lose their orthogonality to rounding: a second round of Gram–Schmidt restores it.
        for _ in range(2):
            for j, earlier in enumerate(basis):
                part = (earlier * vector).sum(axis=1)
                vector = vector - part[:, None] * earlier
                jacobi[:, j, k] += part
        size = np.linalg.norm(vector, axis=1)
        basis.append(vector / size[:, None])
        if k + 1 < nodes:
            jacobi[:, k + 1, k] = size
    node, vectors = np.linalg.eigh(np.tril(jacobi))
    # The grid around √B cannot resolve so narrow a density beside rounding of √B.
    large = batch > LARGEST_BATCH
    return ChiRule(np.where(large, peak, node), np.where(large, 1 / nodes, vectors[:, 0] ** 2))
