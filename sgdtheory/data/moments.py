"""Second moments of rows in groups: all that a spectrum, its cross-fit and its resampling need, in one pass."""

from dataclasses import dataclass

import numpy as np

from sgdtheory._common.rows import Rows

GROUPS = 16  # Half of the groups find directions, half measure along them; intervals leave out one at a time.


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums over the rows of each of G groups.

    Attributes:
        count: (G,) rows.
        covariance: (G, d, d) Σ x xᵀ.
        correlation: (G, d, k) Σ x yᵀ.
        square: (G,) Σ |y|².
        constant: columns of the features that hold one value in all rows.
    """

    count: np.ndarray
    covariance: np.ndarray
    correlation: np.ndarray
    square: np.ndarray
    constant: tuple[int, ...]

    def mean(self, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """E x xᵀ, E x yᵀ and E |y|² over the groups that a mask keeps."""
        count = self.count[groups].sum()
        means = (part[groups].sum(0) / count for part in (self.covariance, self.correlation))
        return *means, float(self.square[groups].sum() / count)  # pyright: ignore[reportReturnType]

    def uncertainty(self) -> tuple[float, float]:
        """Relative standard errors of E |x|² and E |y|², by their scatter between groups; near 1 if one row decides."""
        squares = np.einsum("gii->g", self.covariance), self.square
        means = np.stack(squares) / self.count
        features, targets = means.std(1, ddof=1) / (np.sqrt(len(self.count)) * means.mean(1))
        return float(features), float(targets)


def grouped_moments(rows: Rows, seed: int) -> Moments:
    """Each row into a group at random; groups differ in size by at most one row."""
    size, dim, outputs = len(rows), rows.features.shape[1], rows.targets.shape[1]
    group = np.random.default_rng(seed).permutation(size) % GROUPS
    covariance, correlation = np.zeros((GROUPS, dim, dim)), np.zeros((GROUPS, dim, outputs))
    square = np.zeros(GROUPS)
    low, high = np.full(dim, np.inf), np.full(dim, -np.inf)
    for where, x, y in rows.pieces():
        low, high = np.minimum(low, x.min(0)), np.maximum(high, x.max(0))
        for index in np.unique(group[where]):
            own = group[where] == index
            covariance[index] += x[own].T @ x[own]
            correlation[index] += x[own].T @ y[own]
            square[index] += (y[own] ** 2).sum()
    constant = tuple(int(column) for column in np.flatnonzero(low == high))
    return Moments(np.bincount(group, minlength=GROUPS).astype(float), covariance, correlation, square, constant)
