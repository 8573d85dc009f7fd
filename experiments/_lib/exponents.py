"""The exponent of a power law at finite data: its local slope, where its changes lead, and how far that is known."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from experiments._lib.answers import inside
from experiments._lib.results import VerdictName

SLOWEST = 0.9  # ratio of two changes of the slope, one after the other, up to which they are summed to a limit
FARTHEST = 50.0  # of changes that shrink more slowly, or not at all, as many may be ahead: a ratio of 0.98
LEAST_WIDTH = 1e-3  # half of an interval: B* is known to whole numbers of steps


class LastSlope(NamedTuple):
    """The slope of log y against log x between the last two x, which lie at equal ratios, and what it extrapolates to.

    Attributes:
        value: the slope.
        change: by how much it differs from the slope of the pair before.
        limit: the estimate of the slope for x → ∞, see `settling`.
        half_width: of its interval; inf of two slopes alone.
    """

    value: float
    change: float
    limit: float
    half_width: float

    @property
    def interval(self) -> tuple[float, float]:
        """Interval of the slope for x → ∞: the estimate ± its half-width."""
        return self.limit - self.half_width, self.limit + self.half_width

    @property
    def text(self) -> str:
        """The slope ± its last change."""
        return f"{self.value:.3f} ± {abs(self.change):.3f}"

    @property
    def leads(self) -> str:
        """The interval that decides, in words."""
        known = np.isfinite(self.half_width)
        known_words = f"extrapolates to {self.limit:.3f} ± {self.half_width:.3f}"
        return known_words if known else "two slopes cannot be extrapolated"

    def verdict(self, predicted: float, tolerance: float) -> VerdictName:
        """Judge the interval: "holds" inside `predicted` ± `tolerance`, "fails" outside, else "inconclusive"."""
        return inside(self.interval, predicted - tolerance, predicted + tolerance)


def last_slope(x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray) -> LastSlope:
    """Extrapolate the slope from at least three x at equal ratios; with three the interval is infinite."""
    return settling(np.diff(np.log(y)) / np.diff(np.log(x)))


def settling(slopes: Sequence[float] | np.ndarray) -> LastSlope:
    """The last of at least two slopes, or other numbers, measured at equal ratios of x.

    Changes d, ρd, 0 ≤ ρ ≤ 0.9, that go on as a geometric series end at `limit = s_k + d ρ/(1 − ρ)` (Aitken). The
    half-width is |limit − s_{k−1}|: back to the slope before the last, and as far beyond. So slopes that settle like
    1/log x, which end farther away than a geometric series, are within as well; it is no less than what the limit
    itself has moved by since the slope before. Other slopes have no series, and the last of them is the limit: if they
    turn, ± the larger of the last two changes; if their changes shrink by less or grow, ± 50 times the larger, which
    is inconclusive unless they are tiny. Two slopes do not tell whether changes shrink: the half-width is inf.
    """
    limit, half_width = _led_to(slopes)
    before, known = _led_to(slopes[:-1]) if len(slopes) > 3 else (limit, np.inf)
    if np.isfinite(known):
        half_width = max(half_width, abs(limit - before))
    return LastSlope(float(slopes[-1]), float(slopes[-1] - slopes[-2]), float(limit), float(half_width))


def _led_to(slopes: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """The limit of the last three slopes, and its half-width by them."""
    last = slopes[-1]
    if len(slopes) < 3:
        return last, np.inf
    first, second = np.diff(slopes[-3:])
    largest = max(abs(first), abs(second))
    if abs(second) >= SLOWEST * abs(first):
        return last, max(FARTHEST * largest, LEAST_WIDTH)
    if second * first < 0:
        return last, max(largest, LEAST_WIDTH)
    ratio = second / first
    limit = last + second * ratio / (1 - ratio)
    return limit, max(abs(limit - slopes[-2]), LEAST_WIDTH)


class Error(NamedTuple):
    """Extrapolated slopes less predictions: the largest, and the range of their intervals."""

    largest: float
    interval: tuple[float, float]


def errors(judged: Sequence[tuple[LastSlope, float]]) -> Error:
    """Return the errors of slopes with their predictions."""
    apart = [slope.limit - predicted for slope, predicted in judged]
    ends = [end - predicted for slope, predicted in judged for end in slope.interval]
    return Error(max(apart, key=abs), (min(ends), max(ends)))
