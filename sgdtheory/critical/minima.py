"""Minima of a risk over the learning rate, from as few risks as possible.

A risk is a sum of terms, bias and variance. Over log γ the log of each is almost a straight line where the risk is
least: the bias falls and the variance rises. Parabolas through three points of each therefore predict the minimum of
their sum better than a parabola through three points of the sum. Where the bias falls off a cliff, points on one side
of the cliff predict what is on that side.

A function whose minimum is sought returns the logs of its K terms, (K, P), at P places. Values (P,) are one term.
"""

from collections.abc import Callable, Generator
from typing import NamedTuple

import numpy as np

# A search over γ ends where a model promises a log risk lower by less.
SETTLED = 3e-4
# A search for a minimum of a grid, whose first models are through points of the grid, ends where a model promises a log
# risk lower by less. With SETTLED risks of two of 15 kept searches of nonlinear methods and of 5 of 60 settings of
# epochs over a finite sample were off by 1e-4 and more; B* of Lion was 642 in place of 647.
SETTLED_SEVERAL = 1e-5
# The first searches begin with points this far apart in log γ.
APART = np.log(2.0)
# Minima among values at equal distances are refined if they are above the least value by less in log risk.
# With 0.7 a minimum of 330 steps of Lion was missed, whose nearest value was 0.71 above one that is 5% higher; with 1.4
# searches of Lion take 1.05 times as long.
REFINED = 1.4
# The grid is extended until it reaches as far on either side of its least value, at most this many times.
MOST_SCANS = 8
# Intervals of a grid are divided into `PARTS` where an end is above the least value by less than the first number in
# log risk, then by less than the next ones. 236 tuned risks of 1 to 8 directions (3 to 200 steps of signs with and
# without a memory, Lion, Adam, normalized SGD) were compared with lists of γ 0.4% apart. Too high by 1e-3 or more were
# 4 with these numbers, 6 with 4, 2, 1, and 4 with 5, 4, 3 in 1.2 times the time.
DIVIDED = 4.0, 3.0, 2.0
PARTS = 4
# They are not divided if the least value is above what is needed by more than this share of these numbers. With 0.5
# signs of 1 to 16 steps take 1.5 times as long in a search for B* (D = 1e6).
NEEDED = 0.25
# Where a value is off the line through the values beside it by more, the function is rough. When intervals were divided
# below 4, 2, 1, the number of those risks that were too high was 6 with 0.01 and 0.003, and 9 if nothing was rough.
ROUGH_BY = 0.01
# Log risk above what is needed is known to this share of the difference, or to what is settled. It only places the next
# number of steps of a search, whose last ones are next to what is needed.
ROUGH = 0.02
# A narrow bracket of which one end exceeds the middle by more than this in log risk may hold a zero of the risk: its
# longer side is halved until that ends. Without it R_opt of two certain signs was 2e-10 or 6e-8, depending on rounding;
# with log 4 a zero of three certain signs was missed, and with log 1.1 a zero of a valley was 1% too high.
DEEP = np.log(1.05)
# A search for one minimum computes no more risks than these.
MOST_LOOKS = 80
# A model that has predicted nothing yet is believed only if the ends of its bracket are above its minimum by less than
# this many times what is settled. With 30 the least risk of 154 signs, beside a steep side, was 1.3e-3 too high.
SHALLOW = 5.0
# A bracket narrower than the first number in log γ, and than the second times what is settled, is as jagged as what is
# left to gain.
NARROW = 8e-3, 25.0
# A model was right if the risk at its minimum is off by less than this share of the promised decrease.
BELIEVED = 0.25
# A new point is no closer to the middle of a bracket than this share of its width.
BESIDE = 0.02
MODEL_POINTS = 33  # The least value of a model is found on this many points.
# The search for it is repeated this often between the neighbours of the least point, which are 1e-6 of the range apart
# in the end.
MODEL_ZOOMS = 5

Function = Callable[[np.ndarray], np.ndarray]
Terms = dict[float, np.ndarray]  # place → (K,) logs of the terms


def minimum(
    function: Function, start: float, apart: float, settled: float, needed: float = np.inf
) -> tuple[float, float]:
    """Place and value of a minimum near a place, of a function with one, from three points about it."""
    return minima_beside(function, [start], apart, settled, needed)[0]


def minima_beside(
    function: Function, starts: list[float], apart: float, settled: float, needed: float = np.inf
) -> list[tuple[float, float]]:
    """Places and values of minima, each near a place, from three points about it.

    With several starts, minima above the least one are found roughly.
    """
    about = np.add.outer(starts, apart * np.arange(-1.0, 2.0))
    seen = _computed(function, about.ravel())
    known = [{place: seen[place] for place in places} for places in about.tolist()]
    if len(starts) > 1:
        needed = min(needed, min(float(_sum(terms)) for terms in seen.values()))
    return minima(function, known, settled, needed)


def minima(function: Function, known: list[Terms], settled: float, needed: float = np.inf) -> list[tuple[float, float]]:
    """Places and values of minima, each near known points; their searches ask for values side by side."""
    searches = [_descent(seen, settled, needed) for seen in known]
    found: dict[int, tuple[float, float]] = {}
    asked: dict[int, float] = {}
    values: Terms = {}
    while len(found) < len(searches):
        before = asked
        asked = {}
        for k in set(range(len(searches))) - set(found):
            try:
                asked[k] = searches[k].send(values[before[k]]) if before else next(searches[k])
            except StopIteration as end:
                found[k] = end.value
        if asked:
            values = _computed(function, np.array(list(asked.values())))
    return [found[k] for k in range(len(searches))]


def least_of_several(
    function: Function, start: float, far: float, apart: float, dense: float, needed: float, settled: float
) -> tuple[float, float]:
    """Place and value of the least minimum within a distance of the least value.

    Args:
        function: its terms.
        start: a place on the first grid.
        far: that grid reaches this far on either side of its least value.
        apart: its spacing.
        dense: low intervals are divided until they are no longer than this, and further where the function is rough.
            None are divided if it is infinite.
        needed: where no value is near what is needed, the least one that is known is returned.
        settled: a search for a minimum ends where a model promises a value lower by less.
    """
    known = _grid(function, start, far, apart)
    for high in DIVIDED:
        places, total = _in_order(known)
        least = float(total.min())
        if least > needed + NEEDED * high:
            return float(places[total.argmin()]), least
        length = np.diff(places)
        divided = (np.minimum(total[1:], total[:-1]) < least + high) & (_is_rough(places, total) | (length > dense))
        if divided.any() and dense < np.inf:
            within = np.arange(1, PARTS)[:, None] / PARTS * length[divided]
            known |= _computed(function, (places[:-1][divided] + within).ravel())
    places, total = _in_order(known)
    least = float(total.min())
    found = minima(function, [{place: known[place] for place in each} for each in _low_triples(known)], settled, least)
    return min(found, key=lambda each: each[1], default=(float(places[total.argmin()]), least))


def _grid(function: Function, start: float, far: float, apart: float) -> Terms:
    """Return the terms on a grid that reaches far on either side of its least value."""
    reach = int(far / apart)
    first, last = -reach, reach
    known = _computed(function, start + apart * np.arange(first, last + 1))
    for _ in range(MOST_SCANS - 1):
        places, total = _in_order(known)
        lowest = round((places[total.argmin()] - start) / apart)
        new = [*range(lowest - reach, first), *range(last + 1, lowest + reach + 1)]
        if not new:
            break
        first, last = min(first, lowest - reach), max(last, lowest + reach)
        known |= _computed(function, start + apart * np.array(new))
    return known


def _is_rough(places: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Return of each interval whether a value at its ends is off the line through the values beside it."""
    share = np.diff(places)[:-1] / (places[2:] - places[:-2])
    with np.errstate(invalid="ignore"):
        off = np.abs(total[1:-1] - (1 - share) * total[:-2] - share * total[2:])
    rough = np.pad(~(off < ROUGH_BY), 1, constant_values=True)
    return rough[1:] | rough[:-1]


def _in_order(known: Terms) -> tuple[np.ndarray, np.ndarray]:
    """Return known places from the lowest to the highest, and the values there."""
    places = sorted(known)
    return np.array(places), _sum(np.stack([known[place] for place in places], axis=1))


def _low_triples(known: Terms) -> list[list[float]]:
    """Return places around each minimum among known points that may be the least one.

    A parabola through three values, not their logs, has a vertex where a valley may end: near a zero it is far below.
    """
    places, total = _in_order(known)
    inner = np.flatnonzero((total[1:-1] <= total[:-2]) & (total[1:-1] <= total[2:])) + 1
    low: list[list[float]] = []
    for k in inner:
        left = places[k] - places[k - 1]
        right = places[k + 1] - places[k]
        with np.errstate(invalid="ignore"):  # next to infinite values
            rises = np.expm1(total[[k - 1, k + 1]] - total[k]) / [-left, right]
            bend = (rises[1] - rises[0]) / (left + right)
            slope = rises[0] + bend * left
            vertex = 1 - slope**2 / (4 * bend) if bend > 0 else 1.0  # relative to the value in the middle
            lower = not vertex > np.exp(total.min() - total[k])
        if total[k] <= total.min() + REFINED or lower:
            low.append(places[k - 1 : k + 2].tolist())
    return low


def minima_in_range(
    function: Function, lowest: float, highest: float, apart: float, settled: float
) -> list[tuple[float, float]]:
    """Places and values of minima between two places, and beyond an end towards which values at equal distances fall.

    Minima among these values that are higher than the least by more than `REFINED` are not refined: what is returned
    of them is a bound from below.
    """
    # From one point below the lowest, so that a minimum beside it has two neighbours, to one above the highest.
    places = np.arange(lowest - apart, highest + 2 * apart, apart)
    seen = _computed(function, places)
    ordered = places.tolist()
    total = [float(_sum(seen[each])) for each in ordered]
    beside = [np.inf, *total, np.inf]
    low = [k for k in range(len(ordered)) if total[k] <= min(beside[k], beside[k + 2])]
    least = min(total)
    deep = [k for k in low if total[k] < least + REFINED]
    found = minima(function, [{at: seen[at] for at in ordered[max(k - 1, 0) : k + 2]} for k in deep], settled, least)
    return [*found, *((ordered[k], total[k] - REFINED) for k in low if k not in deep)]


def _sum(terms: np.ndarray) -> np.ndarray:
    """Return the log of the sum of K terms whose logs (K, …) are given."""
    return terms[0] if len(terms) == 1 else np.logaddexp.reduce(terms, axis=0)


def _computed(function: Function, places: np.ndarray) -> Terms:
    """Return the terms (K,) at each place."""
    return dict(zip(places.tolist(), np.atleast_2d(function(places)).T, strict=True))


def _descent(seen: Terms, settled: float, needed: float) -> Generator[float, np.ndarray, tuple[float, float]]:
    """Ask for values until the minimum is known.

    Steps down come first, until there are known points on both sides. It ends when a model promises a decrease of no
    more than `settled`, or than a small share of what the value is above what is needed.
    """
    least_settled = settled
    apart = (max(seen) - min(seen)) / (len(seen) - 1)
    step = apart
    while not (near := Nearby.of(seen)).closed and len(seen) < MOST_LOOKS:
        step = min(2 * step, max(2 * apart, APART))
        beyond = near.here + step if np.isinf(near.right) else near.here - step
        seen[beyond] = yield beyond
    if not near.closed:
        return near.here, near.value
    trusted = True  # whether the last model predicted the risk; if not, the longer side is halved first
    exact = True  # and to what is settled: a promise is worth no more than the model before it was right to
    tested = False
    halved = False
    for _ in range(MOST_LOOKS):
        near = Nearby.of(seen)
        settled = max(least_settled, ROUGH * (near.value - needed))
        model = near.least()
        inside = near.left < model.place < near.right  # The ends of the bracket are known not to be the minimum.
        sure = inside and (tested or near.ends < model.value + SHALLOW * settled)
        if trusted and exact and sure and model.promised < settled and near.width <= 2 * max(apart, APART):
            # The vertex costs no risk, and errs by the error of the promise alone.
            return model.place, model.value
        narrow = near.width < min(NARROW[0], NARROW[1] * settled)  # what is left to gain is roughness
        deep = narrow and near.ends > near.value + DEEP
        if narrow and not deep:
            break
        halved = deep or not (trusted or halved)
        place = near.half() if halved else near.between(model.place)
        seen[place] = yield place
        if not halved:
            tested = True
            off = abs(near.at(np.array([place]))[0] - float(_sum(seen[place])))
            exact = off < settled
            trusted = off < settled + BELIEVED * model.promised
    near = Nearby.of(seen)
    return near.here, near.value


class Least(NamedTuple):
    """The least value of a model, and by how much it is below the least known one."""

    place: float
    value: float
    promised: float


class Nearby(NamedTuple):
    """The least known point, its neighbours, and a parabola for each term through the three closest points.

    The terms (K,) are `terms + slope (x − here) + bend (x − here)²`.

    Attributes:
        left, right: places of the neighbours; infinite where there are none.
        ends: the larger value of the two neighbours.
        here, value: the least point.
    """

    left: float
    here: float
    right: float
    value: float
    ends: float
    terms: np.ndarray
    slope: np.ndarray
    bend: np.ndarray

    @classmethod
    def of(cls, seen: Terms) -> "Nearby":
        """Return the model of known points."""
        places = sorted(seen)
        total = [float(_sum(seen[place])) for place in places]
        k = int(np.argmin(total))
        here = places[k]
        terms = seen[here]
        left = places[k - 1] if k else -np.inf
        right = places[k + 1] if k + 1 < len(places) else np.inf
        ends = max(total[max(k - 1, 0)], total[min(k + 1, len(places) - 1)])
        triples = range(max(k - 2, 0), min(k, len(places) - 3) + 1)
        if len(terms) == 1 and 0 < k < len(places) - 1:
            triples = range(k - 1, k)  # A parabola of the function itself finds kinks sooner from points on both sides.
        first = min(triples, key=lambda j: places[j + 2] - places[j], default=0)
        points = [place for place in places[first : first + 3] if place != here and np.isfinite(seen[place]).all()]
        slope = np.zeros_like(terms)
        bend = np.zeros_like(terms)
        if points and np.isfinite(terms).all():
            away = [place - here for place in points]
            slopes = [(seen[place] - terms) / (place - here) for place in points]
            if len(points) > 1:
                bend = (slopes[1] - slopes[0]) / (away[1] - away[0])
            slope = slopes[0] - bend * away[0]
        return cls(left, here, right, total[k], ends, terms, slope, bend)

    @property
    def width(self) -> float:
        """The distance of the two neighbours."""
        return self.right - self.left

    @property
    def closed(self) -> bool:
        """Return whether both neighbours of the least known point are known."""
        return bool(np.isfinite(self.width))

    def at(self, places: np.ndarray) -> np.ndarray:
        """Return the values of the model at places."""
        away = places - self.here
        return _sum(self.terms[:, None] + self.slope[:, None] * away + self.bend[:, None] * away**2)

    def least(self) -> Least:
        """Return the least value of the model between the neighbours."""
        low = self.left
        high = self.right
        for _ in range(MODEL_ZOOMS):
            places = np.linspace(low, high, MODEL_POINTS)
            values = self.at(places)
            k = int(np.argmin(values))
            low = places[max(k - 1, 0)]
            high = places[min(k + 1, MODEL_POINTS - 1)]
        return Least(float(places[k]), float(values[k]), self.value - float(values[k]))

    def half(self) -> float:
        """The middle of the longer side."""
        longer = self.right if self.right - self.here > self.here - self.left else self.left
        return (self.here + longer) / 2

    def between(self, place: float) -> float:
        """Return a place, kept away from the middle point and within half of each side."""
        close = BESIDE * self.width
        if abs(place - self.here) <= close:
            place = self.here + np.copysign(close, self.half() - self.here)
        return float(np.clip(place, (self.left + self.here) / 2, (self.here + self.right) / 2))
