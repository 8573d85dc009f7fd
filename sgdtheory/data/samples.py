"""Rows of one's own as a finite sample: all of them, or some, of all as the population."""

import numpy as np

from sgdtheory._common.arguments import whole_number
from sgdtheory._common.rows import Rows, singular_directions
from sgdtheory.problems import FiniteSampleProblem, GivenSample, LeastSquares


def samples_of_rows(rows: Rows, num_samples: int | None, seed: int) -> FiniteSampleProblem:
    """So many of the rows, or all, with w_0 = 0.

    Raises:
        ValueError: more rows than there are, or several targets.
    """
    features, targets = rows.whole()
    number, several = targets.shape
    if several != 1:
        raise ValueError(f"targets must be a single one for samples, got {several}; take them one by one")
    size = number if num_samples is None else whole_number("num_samples", num_samples, 1)
    if size > number:
        raise ValueError(f"num_samples must be at most the number of rows, {number}, got {size}")
    chosen = np.arange(number)
    if size < number:
        chosen = np.random.default_rng(whole_number("seed", seed, 0)).permutation(number)[:size]
    return _sample(features, targets[:, 0], chosen)


def _sample(features: np.ndarray, targets: np.ndarray, chosen: np.ndarray) -> FiniteSampleProblem:
    """Return the problem of the chosen rows in the eigenbasis of all rows."""
    singular, vectors = singular_directions(features)
    eigenvalue = singular**2 / len(features)
    rotated = features @ vectors.T
    best = rotated.T @ targets / len(features) / eigenvalue
    noise = targets - rotated @ best
    problem = LeastSquares(eigenvalue, eigenvalue * best**2, float(np.mean(noise**2)))
    rows = GivenSample(rotated[chosen], noise[chosen], np.sqrt(eigenvalue), -best)
    return FiniteSampleProblem(problem, chosen.size, rows=rows)
