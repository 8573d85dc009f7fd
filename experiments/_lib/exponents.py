"""The exponent of a power law at finite data: its local slope, how much that still changes, and where it may end."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from experiments._lib.results import VerdictName

SLOWEST = 0.9  # ratio of two changes of the slope, one after the other, up to which they are summed to a limit
NO_CHANGE = 0.003  # changes up to this are those of whole numbers of steps: they need not shrink


class LastSlope(NamedTuple):
    """The slope of log y against log x between the last two x, which lie at equal ratios.

    Attributes:
        value: the slope.
        change: by how much it differs from the slope of the pair before.
        limit: what its changes lead to if they shrink like a geometric series (Aitken); nan where they do not.
        shrinking: whether the last change is no larger than the one before, if there is one before.
    """

    value: float
    change: float
    limit: float
    shrinking: bool

    @property
    def interval(self) -> tuple[float, float]:
        """± the last change: the limit is within if every change is at most half the one before."""
        return self.value - abs(self.change), self.value + abs(self.change)

    def verdict(self, predicted: float, tolerance: float) -> VerdictName:
        """Whether it meets a prediction.

        A slope has settled if its last change is within the tolerance and no larger than the one before. "holds" if a
        settled slope, or the limit, is within the tolerance of the prediction; "fails" if the slope has settled and its
        interval is farther away than that; else "inconclusive".
        """
        settled = abs(self.change) <= tolerance and self.shrinking
        if (settled and abs(self.value - predicted) <= tolerance) or abs(self.limit - predicted) <= tolerance:
            return "holds"
        low, high = self.interval
        outside = max(low - predicted, predicted - high)
        return "fails" if settled and outside > tolerance else "inconclusive"


def last_slope(x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray) -> LastSlope:
    """Of at least three x at equal ratios; the limit takes four."""
    return settling(np.diff(np.log(y)) / np.diff(np.log(x)))


def settling(slopes: Sequence[float] | np.ndarray) -> LastSlope:
    """The last of at least two slopes, or other numbers, measured at equal ratios; the limit takes three."""
    changes = np.diff(slopes)
    ratio = changes[-1] / changes[-2] if changes.size > 1 and changes[-2] else np.nan
    rest = ratio / (1 - ratio) if 0 <= ratio <= SLOWEST else np.nan
    shrinking = bool(changes.size < 2 or abs(changes[-1]) <= max(abs(changes[-2]), NO_CHANGE))
    return LastSlope(float(slopes[-1]), float(changes[-1]), float(slopes[-1] + changes[-1] * rest), shrinking)


def worst(verdicts: Sequence[VerdictName]) -> VerdictName:
    """Of several cases of one claim: "holds" if all do, "fails" if one does."""
    order: tuple[VerdictName, ...] = "fails", "inconclusive", "holds"
    return next(name for name in order if name in verdicts)
