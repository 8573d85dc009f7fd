"""The tuned risk against the number of steps, and where it crosses a level."""

import numpy as np
from scipy.interpolate import PchipInterpolator

from sgdtheory.critical.tuned_equivalent import TunedEquivalent

# Beyond what is known a search for a crossing goes on by no more than this in log n.
STEPS_APART = np.log(4.0)
# A crossing is known to this in log n, or to one step. The risks themselves are known to 3e-4.
STEPS_SETTLED = 1e-3
# Where a crossing is expected at an end of its bracket, the search looks this share of what is settled beside it.
JUST_BEYOND = 0.9
LOOKS = 256  # A curve is taken as straight between this many points of a bracket.


class Line:
    """log of the tuned risk over log n, known at whole numbers of steps.

    Args:
        tuned: the tuned risk of B and n.
        samples: the number of samples that the steps share, B = samples/n.
        batch: B of all numbers of steps instead.

    Attributes:
        needed: where log risk is above it, it may be known roughly.
        seen: log risk at log n.
    """

    def __init__(self, tuned: TunedEquivalent, samples: float = np.nan, batch: float | None = None) -> None:
        self.tuned = tuned
        self.samples = samples
        self.batch = batch
        self.needed = np.inf
        self.seen: dict[float, float] = {}

    def __call__(self, place: float) -> float:
        """Return log risk at the whole number of steps nearest to a place of log n."""
        steps = whole(place)
        batch = self.samples / steps if self.batch is None else self.batch
        value = float(np.log(self.tuned.least(batch, steps, self.needed).risk))
        self.seen[np.log(steps)] = value
        return value


def whole(place: float) -> float:
    """The whole number of steps nearest to a place of log n, at least 1."""
    return max(float(np.round(np.exp(place))), 1.0)


def crossing(line: Line, level: float, begin: float, end: float) -> float:
    """The number of steps farthest from `begin`, towards `end`, up to which the line is at most at the level.

    To one step or to `STEPS_SETTLED`.
    """
    line(begin)
    last = np.inf
    stalled = 1.0
    while True:
        inside, outside = _bracket(line, level, begin, end)
        if whole(inside) == whole(end) or (outside is not None and _settled(inside, outside)):
            return whole(inside)
        interpolant = Interpolant(line)
        limit = _farther(interpolant, inside, end) if outside is None else outside
        place = _meeting(interpolant, level, inside, limit)
        near, other = inside, limit
        if outside is not None and abs(place - inside) > abs(limit - place):
            near, other = limit, inside
        # A crossing predicted too close to one end repeatedly would leave the other end unchanged.
        width = np.inf if outside is None else abs(limit - inside)
        stalled = 1.0 if width < last / 2 else 2 * stalled
        last = width
        # Where a line is flat at the level, the predicted place is the near end itself: the search would creep.
        reach = max(stalled * abs(place - near), max(stalled / 2, 1.0) * JUST_BEYOND * STEPS_SETTLED)
        most = abs(limit - inside) / (1 if outside is None else 2)
        line(_between(inside, limit, near + np.copysign(min(reach, most), other - near), outside is not None))


def _bracket(line: Line, level: float, begin: float, end: float) -> tuple[float, float | None]:
    """Return the last known point from `begin` on that does not exceed the level, and the first that does."""
    inside = begin
    for place in sorted((place for place in line.seen if _within(place, begin, end)), key=lambda at: abs(at - begin)):
        if line.seen[place] > level and place != begin:
            return inside, place
        inside = place
    return inside, None


def _within(place: float, begin: float, end: float) -> bool:
    return min(begin, end) <= place <= max(begin, end)


def _settled(inside: float, outside: float) -> bool:
    return abs(whole(outside) - whole(inside)) <= 1 or abs(outside - inside) < STEPS_SETTLED


class Interpolant:
    """Interpolant of a line between the computed numbers of steps, with straight ends."""

    def __init__(self, line: Line) -> None:
        self.places = np.array(sorted(line.seen))
        self.values = np.array([line.seen[place] for place in self.places.tolist()])

    def __call__(self, at: np.ndarray) -> np.ndarray:
        """At places of log n; straight on beyond what is known."""
        if self.places.size < 2:
            return np.full_like(at, self.values[0])
        curve = PchipInterpolator(self.places, self.values)
        near = np.clip(at, self.places[0], self.places[-1])
        return curve(near) + curve(near, 1) * (at - near)


def _meeting(interpolant: Interpolant, level: float, inside: float, limit: float) -> float:
    """Return where the line should cross the level between `inside` and a limit, or the limit itself."""
    places = inside + np.linspace(0.0, 1.0, LOOKS + 1) * (limit - inside)
    values = interpolant(places) - level
    beyond = np.flatnonzero(values > 0)
    if not beyond.size:
        return limit
    k = max(int(beyond[0]), 1)
    rise = values[k] - values[k - 1]
    share = np.clip(-values[k - 1] / rise, 0.0, 1.0) if rise else 1.0  # A flat line is beyond the level throughout.
    return float(places[k - 1] + share * (places[k] - places[k - 1]))


def _farther(interpolant: Interpolant, inside: float, end: float) -> float:
    """Return the farthest point to compute next: little beyond the known ones."""
    side = np.sign(end - inside)
    far = max(side * inside, (side * interpolant.places).max())
    return float(side * min(far + STEPS_APART, side * end))


def _between(inside: float, limit: float, place: float, closed: bool) -> float:
    """log of a whole number of steps beyond `inside`, and before the limit, or at it if that is not known yet."""
    low, high = sorted((inside, limit))
    fewest = whole(low) + (inside < limit or closed)
    most = whole(high) - (inside > limit or closed)
    return float(np.log(np.clip(whole(np.clip(place, low, high)), fewest, most)))
