"""Covariance of rows that scatter as a process along each curve, applied and inverted in a time that grows like N."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

RIDGE = 1e-9  # Each row has this share of the variance to itself, so that rows at one step are never quite the same.
POWERS = 100  # This many power iterations give the largest eigenvalue to a few percent or better.


class RowCovariance:
    """`C = s² [(1 − ν) exp(−|log t − log t'|/ℓ) + ν δ]` between rows of one curve, 0 between curves.

    The first part is an Ornstein–Uhlenbeck process in log t, which forgets by φ_i = exp(−(log t_i − log t_{i−1})/ℓ)
    from row to row, so that products and factors are recursions.

    Args:
        log_steps: of each curve, log t of its rows, rising; N rows in all.
        length: ℓ.
        alone: ν, share of the variance that a row has by itself.
        deviation: s.

    Reference:
        Rybicki & Press 1995.
    """

    def __init__(self, log_steps: Sequence[np.ndarray], length: float, alone: float, deviation: float = 1.0) -> None:
        apart = [np.diff(each, prepend=-np.inf) for each in log_steps]  # a curve remembers none before it
        self.kept = np.exp(-np.concatenate([*apart, np.empty(0)]) / length)
        self.shared = 1 - alone
        self.alone = alone + RIDGE
        self.variance = deviation**2

    def __matmul__(self, rows: np.ndarray) -> np.ndarray:
        """(N, T) products with columns (N, T)."""
        ahead = np.append(self.kept[1:], 0.0)
        before = recursion(self.kept, rows)
        after = recursion(ahead[::-1], rows[::-1])[::-1]
        return self.variance * (self.shared * (before + after - rows) + self.alone * rows)

    def whitened(self, rows: np.ndarray) -> np.ndarray:
        """(N, T) `L⁻¹ rows` with `C = L Lᵀ`: what each row adds to those before it, in standard deviations."""
        gain, spread = self._filter
        drive = (self.kept[1:] * gain[:-1])[:, None] * rows[:-1]
        expected = recursion(self.kept * (1 - np.append(0.0, gain[:-1])), np.concatenate([0 * rows[:1], drive]))
        return (rows - expected) / np.sqrt(self.variance * spread)[:, None]

    @property
    def log_determinant(self) -> float:
        """log|C|."""
        return float(np.log(self.variance * self._filter[1]).sum())

    @property
    def effective_rows(self) -> float:
        """`(tr C)²/tr C²`: so many independent rows vary as their mean does."""
        number = self.kept.size
        own = self.shared + self.alone
        others = recursion(self.kept**2, (self.kept**2)[:, None]).sum()  # of squares of exp(−…), below the diagonal
        return (number * own) ** 2 / (number * own**2 + 2 * self.shared**2 * float(others))

    @cached_property
    def _filter(self) -> tuple[np.ndarray, np.ndarray]:
        """(N,) Kalman gains of the process, and variances of a row given those before it, over s²."""
        gain, spread = np.empty((2, self.kept.size))
        left = 0.0
        for row, kept in enumerate((self.kept**2).tolist()):
            known = kept * left + self.shared * (1 - kept)
            spread[row] = known + self.alone
            gain[row] = known / spread[row]
            left = self.alone * gain[row]
        return gain, spread


def recursion(factor: np.ndarray, drive: np.ndarray) -> np.ndarray:
    """(N, T) x with `x_i = f_i x_{i−1} + d_i` for (N,) factors of at most 1, in log N rounds that double the reach."""
    found = drive.copy()
    factor = factor.copy()
    factor[:1] = 0.0
    reach = 1
    while reach < len(found):
        found[reach:] += factor[reach:, None] * found[:-reach]
        factor[reach:] *= factor[:-reach].copy()
        factor[:reach] = 0.0
        reach *= 2
    return found


def largest_eigenvalue(covariance: "RowCovariance | np.ndarray", number: int) -> float:
    """Return the largest eigenvalue of a covariance of so many rows, by power iteration."""
    vector = np.ones((number, 1))
    size = 0.0
    for _ in range(POWERS):
        vector = covariance @ vector
        size = float(np.linalg.norm(vector))
        vector /= size
    return size
