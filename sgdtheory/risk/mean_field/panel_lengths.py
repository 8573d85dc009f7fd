"""The lengths of collocation panels of nonlinear methods, chosen from the tail of the panel before."""

from dataclasses import dataclass

import numpy as np

LONGER = 3.0  # A panel is at most this many times as long as the one before it.
FARTHER = 3.0  # The distances of a panel's end and start from the last kink have at most this ratio.
SHORTER = 0.2  # A panel is at least this share as long as one that has failed.
SHORT = 0.8  # A panel is at most this share as long as one that has failed: a longer one would often fail as well.
# A panel has this share of the length at which the tail, which grows like a power of the length, would reach its limit.
CAREFUL = 0.85
# A smaller tail counts as this one, so that lengths stay finite.
SMALLEST_TAIL = 1e-12
CLOSING = 0.5  # A panel covers at most this share of the remaining steps while panels close in.
# If a tail is below this share of the limit, one panel can cover all remaining steps.
ENDED = 1e-4


@dataclass
class PanelLengths:
    """The lengths of the panels of one smooth segment, chosen panel after panel.

    Attributes:
        allowed: largest tail of a panel, the share of the risk in its highest Legendre coefficients.
        order: degree of the polynomials.
        shortest: fewest steps of a panel.
        origin, last: steps at which the segment begins and ends.
        length: largest length of the next panel.
        again: whether the last panel has failed.
        nearly: whether the last tail was so small that one more panel can reach the end.
    """

    allowed: float
    order: int
    shortest: float
    origin: float
    last: float
    length: float = np.inf
    again: bool = False
    nearly: bool = False

    def longest(self, now: float, falls: bool) -> float:
        """Return the largest number of steps of the next panel.

        Args:
            now: step at which it begins.
            falls: whether the learning rate falls to next to nothing at the end, and not like a polynomial.
        """
        length = min(self.length, (FARTHER - 1) * (now - self.origin))
        if falls and not self.nearly:
            length = min(length, CLOSING * (self.last - now))
        return max(np.ceil(length), self.shortest)

    def lost(self, low: float, high: float, tail: float) -> None:
        """Record a panel that polynomials did not fit; its tail predicts how long it could have been."""
        shorter = np.clip(self._factor(tail), SHORTER, SHORT) if tail > self.allowed else 1 / 2
        self.length = shorter * (high - low)
        self.again = True

    def passed(self, low: float, high: float, tail: float, followed: bool) -> None:
        """Record a panel that is done, by polynomials (`followed`) or step by step."""
        # Values change more slowly at the end of a panel than at its start, like the distance from the kink.
        slower = (high - self.origin) / (low - self.origin)
        most = 1.0 if self.again else LONGER
        self.length = np.clip(self._factor(tail) * slower, 1 / 2, most) * (high - low)
        self.again = False
        self.nearly = followed and tail < ENDED * self.allowed

    def _factor(self, tail: float) -> float:
        return CAREFUL * (self.allowed / max(tail, SMALLEST_TAIL)) ** (1 / self.order)
