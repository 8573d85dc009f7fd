"""The least and the largest of what follows from fitted numbers, over all that fit about as well as the best."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.interpolate import PchipInterpolator

from sgdtheory.curves.profile import CLOSE, NARROW, SMALLEST, STRIDE, UNRESOLVED, AbstractConfidenceSet
from sgdtheory.curves.valley import Held, least

MOVES = 30  # of the search for the end of a function that is not linear
FIRST = 0.3  # distance that is tried first, at most, of a function that is not linear
STIFF = 30.0  # of the row that pulls a function to a value: at the edge it is 1/1000 of the way off
ASTRAY = 0.3  # of the way that was asked for: what is farther off is no longer where it was looked for
BETWEEN = 0.1, 0.9  # of the way between what is inside and what is outside
SHORTER = 0.3  # of that way, which is asked for then


@dataclass(frozen=True, eq=False)
class Tangent:
    """A function at a point.

    Attributes:
        point: (P,) where.
        value: there.
        slopes: (P,) there.
        about: (Q, P) points and a value → (Q,) the function, at points near this one where it is about that value.
    """

    point: np.ndarray
    value: float
    slopes: np.ndarray
    about: Callable[[np.ndarray, float], np.ndarray]

    @classmethod
    def by_differences(
        cls, point: np.ndarray, function: Callable[[np.ndarray], np.ndarray], difference: float
    ) -> "Tangent":
        """Of a function (Q, P) → (Q,), by differences on one side."""
        values = function(point + difference * np.eye(point.size + 1, point.size, -1))
        slopes = np.nan_to_num((values[1:] - values[0]) / difference)
        return cls(point, float(values[0]), slopes, lambda points, value: function(points))  # noqa: ARG005


def extremes(
    within: AbstractConfidenceSet, tangent: Callable[[np.ndarray, Tangent | None], Tangent]
) -> tuple[float, float]:
    """The least and the largest of a function over a set, by its own profile; ∓inf from UNRESOLVED away from the best.

    Of all coordinates with one value of the function those count that fit best, and how far out they are along the
    function's slopes there. Values go outwards until that is 1.

    Args:
        within: the set.
        tangent: of the function, a logarithm, at coordinates (P,), given the one at others nearby or None.
    """
    begin = tangent(within.best, None)
    reached = np.array([_reached(within, begin, tangent, side) for side in (-1, 1)])
    low, high = begin.value + np.array([-1.0, 1.0]) * np.where(reached < UNRESOLVED, reached, np.inf)
    return float(low), float(high)


def _reached(
    within: AbstractConfidenceSet, begin: Tangent, tangent: Callable[[np.ndarray, Tangent | None], Tangent], side: int
) -> float:
    """How far a function goes from the best on one side."""
    first = float(np.clip(within.reach(begin.slopes), SMALLEST, FIRST))
    walk = _Walk(within.best, first)
    last = begin
    for _ in range(MOVES):
        asked = walk.asked
        point = _likeliest(within, walk.expected(asked), last, begin.value + side * asked, asked)
        there = tangent(point, last)
        gone = side * (there.value - begin.value)
        depth = within.depth(point, there.slopes)
        if depth < 1 and not there.slopes.any():  # the function is at the end of its own range
            return np.inf
        if not walk.accepts(gone, depth):
            walk.shorten()
            continue
        last = there
        walk.went(gone, depth, point)
        if abs(depth - 1) < CLOSE:
            return walk.end
        if walk.is_narrow:
            return walk.inside
        if gone >= UNRESOLVED:
            return np.inf
    return walk.inside if np.isfinite(walk.outside) else np.inf


class _Walk:
    """Points of a function's profile, from the best outwards, and the distance that is tried next."""

    def __init__(self, best: np.ndarray, first: float) -> None:
        self.points = [(0.0, 0.0, best)]  # distance, depth, coordinates, in order of distances
        self.asked = first
        self.end = first  # where the depth is 1, as far as points tell

    @property
    def inside(self) -> float:
        """The farthest distance within the set."""
        return max(gone for gone, depth, _ in self.points if depth <= 1)

    @property
    def outside(self) -> float:
        """The nearest distance that is out of it."""
        return min((gone for gone, depth, _ in self.points if depth > 1), default=np.inf)

    @property
    def is_narrow(self) -> bool:
        """Whether the two are next to each other: the depth jumps, where a coordinate comes to its end."""
        return self.outside - self.inside < NARROW * self.inside

    def expected(self, distance: float) -> np.ndarray:
        """(P,) on the line through the two points about a distance, or before it."""
        if len(self.points) == 1:
            return self.points[0][2]
        places = np.array([gone for gone, *_ in self.points])
        k = int(np.clip(np.searchsorted(places, distance), 1, places.size - 1))
        share = (distance - places[k - 1]) / (places[k] - places[k - 1])
        return self.points[k - 1][2] + share * (self.points[k][2] - self.points[k - 1][2])

    def accepts(self, gone: float, depth: float) -> bool:
        """Whether a point counts: within the set however far, else only where it was looked for.

        What is far from where it was asked for need not be what fits best.
        """
        on_the_way = abs(gone - self.asked) <= ASTRAY * (self.asked - self.inside)
        return bool(gone > self.inside and (depth <= 1 or on_the_way))

    def shorten(self) -> None:
        """Ask for less."""
        self.asked = self.inside + SHORTER * (self.asked - self.inside)

    def went(self, gone: float, depth: float, point: np.ndarray) -> None:
        """A point that counts; what was taken to be out of the set nearer by was not."""
        kept = [each for each in self.points if not (depth <= 1 < each[1] and each[0] <= gone)]
        self.points = sorted([*kept, (gone, depth, point)], key=lambda each: each[0])
        places, depths = (np.array([each[k] for each in self.points]) for k in (0, 1))
        inside = int(np.flatnonzero(depths <= 1)[-1])
        if np.isinf(self.outside):
            stride = places[inside] - places[inside - 1]
            rise = max((depths[inside] - depths[inside - 1]) / stride, SMALLEST)
            self.end = float(places[inside] + (1 - depths[inside]) / rise)
            self.asked = min(self.end, float(places[inside]) + STRIDE * stride)
        else:
            rising = np.maximum.accumulate(depths) + SMALLEST * np.arange(depths.size)
            self.end = float(PchipInterpolator(rising, places)(1.0))
            low, high = (float(np.interp(share, [0, 1], places[inside : inside + 2])) for share in BETWEEN)
            self.asked = min(max(self.end, low), high)


def _likeliest(
    within: AbstractConfidenceSet, start: np.ndarray, last: Tangent, value: float, distance: float
) -> np.ndarray:
    """(P,) that fit best among those where a function has about a value, `distance` away from that at the best.

    Least squares of the fit with one row more, which pulls the function to the value; with what weight does not matter
    much: whatever value it comes to, no coordinates with that value fit better.
    """
    rows = within.fitted_rows()
    variance = within.row_variance(last.point, last.slopes)
    weight = STIFF * within.quantile * np.sqrt(variance) / distance

    def predicted(points: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            row = weight * last.about(points, value)
        return np.concatenate([rows.predicted(points), row[:, None]], axis=1)

    pulled = rows._replace(predicted=predicted, target=np.append(rows.target, weight * value))
    return least(pulled, start[None], Held(np.zeros((1, start.size)), np.zeros(1))).points[0]
