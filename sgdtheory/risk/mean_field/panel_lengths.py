"""How long the next panel of a nonlinear method's run is, from how well polynomials followed the one before it."""

from dataclasses import dataclass

import numpy as np

LONGER = 3.0  # times the panel before, at most,
FARTHER = 3.0  # and times the way from the last kink
SHORTER = 0.2  # times the panel that has failed, at least
SHORT = 0.8  # and at most
CAREFUL = 0.85  # times the length at which a tail, that grows like its power p, would be as large as it may
SMALLEST_TAIL = 1e-12
FALLEN = 0.2  # of a learning rate: if it ends below that share of it, panels close in on the end
CLOSING = 0.5  # by that share of the way, each,
ENDED = 1e-4  # until a tail is below so many times what is allowed: one panel then follows what is left


@dataclass
class PanelLengths:
    """Of one smooth piece, panel after panel.

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
