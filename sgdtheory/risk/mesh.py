"""Where the panels of a smooth piece begin and end."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

PANEL_VARIATION = 5.0  # of learning rate and batch size within a panel
SHORTEST_PANEL = 16.0  # steps: shorter ones are taken
PANEL_DECAY = 1.0  # by which exponent all directions may have decayed within a panel
PANEL_RISE = 4.0  # by which exponent the moments may grow within a panel, roughly followed
MOST_DECAY = 45.0  # exponents of decay that are followed: e^−45 of the initial risk is nothing


class Resolution(NamedTuple):
    """How finely smooth pieces are followed.

    Attributes:
        order: p, points on a panel.
        ratio: of the distances of a panel's ends from the kink before it.
        modes: relative error that sums over directions may have.
        tail: share that the two highest Legendre coefficients of second moments may have on a panel; with more it is
            halved.
    """

    order: int
    ratio: float
    modes: float
    tail: float


# By measurement (tests/risk/test_algorithm.py)
FINE = Resolution(9, 2.0, 0.0, 1e-6)  # relative error 1e-11 as a rule, 1e-8 next to the edge, some 1e-7 beyond it
ROUGH = Resolution(7, 2.0, 0.0, 1e-4)  # at least three times that, forty as a rule: for a bound of the error
FAST = Resolution(5, 3.0, 1e-6, np.inf)  # about 1e-5, for searches


class Mesh(NamedTuple):
    """What panels of a piece have to respect.

    Attributes:
        resolution: order and ratio.
        origin, last: steps at which the piece begins and ends.
        size: γ_t, and what else may change by `PANEL_VARIATION` at most within a panel, (C, T) for T steps.
        slowest: rate per step and unit of learning rate at which what is learnt last decays: within a panel by
            e^−`PANEL_DECAY` at most, as a polynomial cannot follow an exponential for longer, until nothing is left.
        growth: rate per step at which the moments grow at a step, 0 where they do not: by e^`PANEL_RISE` at most.
    """

    resolution: Resolution
    origin: float
    last: float
    size: Callable[[np.ndarray], np.ndarray]
    slowest: float
    growth: Callable[[float], float]

    def panels(self, first: float) -> Iterator[tuple[float, float]]:
        """From the step `first` to the last."""
        low, left = first, MOST_DECAY
        while low < self.last:
            further = np.ceil((self.resolution.ratio - 1) * (low - self.origin))
            rate = self.slowest * float(self.size(np.array([low])).T[0, 0]) if left > 0 else 0.0
            if rate > 0:
                further = min(further, np.ceil(PANEL_DECAY / rate))
            high = float(min(low + max(further, SHORTEST_PANEL), self.last))
            left -= (high - low) * rate
            yield from self._split(low, high)
            low = high

    def _split(self, low: float, high: float) -> Iterator[tuple[float, float]]:
        if high - low > SHORTEST_PANEL and self._too_long(low, high):
            middle = float(np.floor((low + high) / 2))
            yield from self._split(low, middle)
            yield from self._split(middle, high)
        else:
            yield low, high

    def _too_long(self, low: float, high: float) -> bool:
        ratio = self.resolution.ratio
        values = self.size(np.array([low, high - 1]))
        if (values.max(1) > PANEL_VARIATION * values.min(1)).any():
            return True
        falls = values[0, 1] < values[0, 0]  # perhaps to 0, and with a kink there
        if falls and self.last - low > ratio * (self.last - high + SHORTEST_PANEL / 2):
            return True
        way = (np.array([low, high]) - self.origin) * values[0]  # how far the slow directions have come since the kink
        if way[1] > (ratio + 0.2) * way[0]:
            return True
        return max(self.growth(low), self.growth(high - 1)) * (high - low) > PANEL_RISE
