"""Stability edges for the many batch sizes that searches ask about."""

from collections.abc import Callable

import numpy as np
from numpy.polynomial import chebyshev

NODES = 24  # Chebyshev's points of a decade of B
RESOLVED = 1e-10  # of log γ: what the last polynomials may hold; edges that are not as smooth are looked for one by one
MOST_DECADES = 8  # of B: of larger ones few are asked for
BELOW_EDGE = 1e-6  # of the edge with fewer samples in a batch: from there on that with more is looked for

EdgesOf = Callable[[np.ndarray, float], np.ndarray]  # of B, and of a γ that is known to be stable with these

_POINTS = chebyshev.chebpts1(NODES)
_TO_COEFFICIENTS = np.linalg.inv(chebyshev.chebvander(_POINTS, NODES - 1))


class Edges:
    """The largest stable γ of a method for any B: each is looked for once.

    Args:
        look: the edges of batch sizes, increasing.
        between: whether those of a decade of B are interpolated, as log γ in log B: where a search costs more.
    """

    def __init__(self, look: EdgesOf, between: bool) -> None:
        self.look = look
        self.between = between
        self.known: dict[float, float] = {}
        self.decades: dict[int, np.ndarray | None] = {}

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        """(P,) edges."""
        new = np.setdiff1d(batch, list(self.known))
        alone = np.ones(new.size, dtype=bool)
        if self.between:
            decades = np.floor(np.log10(new)).astype(int)
            for decade in np.unique(decades).tolist():
                some = decades == decade
                if (series := self._series(decade)) is not None:
                    found = np.exp(chebyshev.chebval(2 * (np.log10(new[some]) - decade) - 1, series))
                    self.known.update(zip(new[some].tolist(), found.tolist(), strict=True))
                    alone &= ~some
        if alone.any():
            self._look(new[alone])
        return np.array([self.known[each] for each in batch.tolist()])

    def _look(self, batch: np.ndarray) -> np.ndarray:
        stable = max((edge for size, edge in self.known.items() if size <= batch[0]), default=0.0)
        found = self.look(batch, stable * (1 - BELOW_EDGE))
        self.known.update(zip(batch.tolist(), found.tolist(), strict=True))
        return found

    def _series(self, decade: int) -> np.ndarray | None:
        """Chebyshev's coefficients of log γ in a decade; None where it is not smooth, or noise is next to nothing."""
        if decade not in self.decades:
            self.decades[decade] = None
            if 0 <= decade <= MOST_DECADES:
                edges = self._look(10 ** (decade + (_POINTS + 1) / 2))
                with np.errstate(all="ignore"):
                    series = _TO_COEFFICIENTS @ np.log(edges)
                if np.abs(series[-2:]).max() < RESOLVED:
                    self.decades[decade] = series
        return self.decades[decade]
