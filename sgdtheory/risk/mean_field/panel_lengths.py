"""How long the next panel of a nonlinear method's run is, from how well polynomials followed the one before it."""

from dataclasses import dataclass

import numpy as np

LONGER = 3.0  # A panel is at most so many times as long as the one before it.
FARTHER = 3.0  # The end of a panel is at most so many times as far from the last kink as its start.
# After a panel that has failed the next one has at least and at most these shares of its length.
SHORTER = 0.2
SHORT = 0.8
# A panel has this share of the length at which its tail, which grows like a power of the length, would be too large.
CAREFUL = 0.85
SMALLEST_TAIL = 1e-12  # A smaller tail counts as this much, so that lengths stay finite.
FALLEN = 0.2  # If the last learning rate is below this share of the present one, panels close in on the end.
CLOSING = 0.5  # A panel that closes in covers at most this share of the way that is left.
ENDED = 1e-4  # If a tail is below this share of what is allowed, one panel follows all that is left.


@dataclass
class PanelLengths:
    """The lengths of the panels of one smooth piece, chosen panel after panel.

    Attributes:
        allowed: tail of a panel, at most: what its polynomials' last coefficients may hold.
        order: of the polynomials.
        shortest: steps of a panel, at least.
        origin, last: steps at which the piece begins and ends.
        length: of the next panel, at most.
        again: whether the last panel has failed.
        nearly: whether so little was left on the last panel that one more can reach the end.
    """

    allowed: float
    order: int
    shortest: float
    origin: float
    last: float
    length: float = np.inf
    again: bool = False
    nearly: bool = False

    def longest(self, now: float, rate: float, last_rate: float) -> float:
        """Steps of the next panel, at most, with the learning rates now and of the last step."""
        length = min(self.length, (FARTHER - 1) * (now - self.origin))
        if last_rate < FALLEN * rate and not self.nearly:
            length = min(length, CLOSING * (self.last - now))
        return max(np.ceil(length), self.shortest)

    def lost(self, low: float, high: float, tail: float) -> None:
        """A panel that polynomials did not follow: too large a tail says how far they would have."""
        shorter = np.clip(self._factor(tail), SHORTER, SHORT) if tail > self.allowed else 1 / 2
        self.length = shorter * (high - low)
        self.again = True

    def passed(self, low: float, high: float, tail: float, followed: bool) -> None:
        """A panel that is done, by polynomials or step by step."""
        slower = (high - self.origin) / (low - self.origin)  # what moves at its end, than at its start
        most = 1.0 if self.again else LONGER
        self.length = np.clip(self._factor(tail) * slower, 1 / 2, most) * (high - low)
        self.again = False
        self.nearly = followed and tail < ENDED * self.allowed

    def _factor(self, tail: float) -> float:
        return CAREFUL * (self.allowed / max(tail, SMALLEST_TAIL)) ** (1 / self.order)
