"""The least risk over γ of methods that have a deterministic equivalent (THEORY.md T37).

The tuned risk is searched by its logarithm over that of γ, where it is smooth and has one minimum; after few steps,
which may overshoot, it has several.
"""

from collections.abc import Callable, Generator
from functools import partial
from typing import NamedTuple

import numpy as np

from sgdtheory.algorithms import Algorithm
from sgdtheory.problems import AbstractProblem
from sgdtheory.risk import field_of, run_risks

# The first searches begin with three points this far apart in log γ.
APART = np.log(2.0)
# Three points about a guess are so many times the distance of the nearest known setting, in log n and log nB, apart: in
# a few searches of Adam and signs the best γ was off by 0.1 to 0.3 times the distance.
GUESSED = 0.3
# They are no closer and no farther apart than this in log γ: risks of closer ones would differ by their errors. With
# 0.2 for all of them searches of Adam and normalized SGD took about 1.6 times as long.
APART_NEAR = 0.005, 0.2
# Where the risk has several minima over γ, a grid reaches this far in log γ on either side of its least value.
SEVERAL = np.log(6.0)
# The spacing of that grid: after eight signs there are valleys 0.05 wide in log γ.
SEVERAL_APART = np.log(1.05)
# Every third point of the grid is computed first, and the others only where one of these is near what is needed: the
# grids of normalized SGD at 1e6 samples then take half the time.
COARSE = 3
# Minima of the grid are refined if log risk there is above the least one by less.
SEVERAL_DEEP = 0.7
# The grid is extended until it reaches as far on either side of its least value, so many times at most.
MOST_SCANS = 4
# The best γ is guessed from this many known settings nearby.
NEAREST = 6
# Settings are weighted by their distance in log n and log nB, those nearer than this alike.
NEARBY = 0.2
# Powers of n and of nB in the best γ to which a guess is drawn where little is known. The weight of that prior is
# relative to a setting at a distance of 1.
USUAL = -0.5, 0.0
UNKNOWN = 0.03
# A guess departs from the nearest setting by no more than this power of n or nB.
STEEPEST = 1.5
# Relative error of risks that are compared.
TOLERANCE = 1e-5
# A search over γ ends where a parabola promises a log risk lower by less.
SETTLED = 3e-4
# The same of minima of a grid, whose first parabola is over points of the grid. With SETTLED risks of two of 15 kept
# searches of nonlinear methods and of 5 of 60 settings of passes over a finite sample were off by 1e-4 and more.
SETTLED_SEVERAL = 1e-5
# Log risk above what is needed is known to this share of the difference, or to what is settled. It only places the next
# number of steps of a search, whose last ones are next to what is needed.
ROUGH = 0.02
# Of passes over a finite sample the risk may have minima that are decades of γ apart, as an early stop and the edge
# are. Factors up to e^FAR on either side of the least one are looked at: one of 60 random settings lost 23% without
# them.
FAR_APART = np.log(1.4)
FAR = np.log(1e3)
# Passes over a finite sample may overshoot in so few steps, and their risk has narrow minima then.
FEW_LINEAR = 16.0
# Risks below this share of the initial one are equal. A few steps whose signs are certain end at the optimum for some
# γ, and without this floor R_opt would be what rounding leaves there, which no other B and n could reach.
NOTHING = 1e-14
# A narrow bracket of which one end exceeds the middle by more than this in log risk may hold a zero of the risk: its
# longer side is halved until that ends. Without it R_opt of two certain signs was 2e-10 or 6e-8, depending on rounding;
# with log 4 a zero of three certain signs was missed.
DEEP = np.log(1.5)
# A search for one minimum computes no more risks than these.
MOST_LOOKS = 80
# The first parabola is believed only if its ends are above its middle by less than this many times what is settled.
# With 30 the least risk of 154 signs, beside a steep side, was 1.3e-3 too high.
SHALLOW = 5.0
# A bracket narrower than this in log γ, or than so many times what is settled, is as jagged as what is left to gain.
NARROW = 8e-3, 25.0
# A parabola was right if the risk at its vertex is off by less than this share of the promised decrease.
BELIEVED = 0.25
# A new point is no closer to the middle of a bracket than this share of its width.
BESIDE = 0.02


class Tuned(NamedTuple):
    """The best γ, and the risk that it attains."""

    rate: float
    risk: float


class TunedEquivalent:
    """`min_γ R(B, γ, n)` of an algorithm's deterministic equivalent; searches begin where the one before has ended."""

    def __init__(self, problem: AbstractProblem, algorithm: Algorithm) -> None:
        self.problem = problem
        self.algorithm = algorithm
        self.workers = algorithm.workers
        self.initial_risk = problem.initial_risk
        self.field = field_of(algorithm.method)
        self.few = FEW_LINEAR if self.field is None else self.field.few
        self.known: dict[tuple[float, float], Tuned] = {}

    def least(self, batch: float, steps: float, needed: float = np.inf) -> Tuned:
        """The best γ; a rough one is enough where log risk is above what is needed whatever γ, after few steps."""
        key = batch, steps
        if key not in self.known:
            risk = partial(self._log_risks, batch, steps)
            start, apart = self._guess(batch, steps)
            far = [] if self.field is not None else [(FAR, FAR_APART, np.inf)]
            near = [(SEVERAL, SEVERAL_APART, needed)] if steps <= self.few else []
            value = np.inf
            for grid in far + near:
                start, value = least_of_several(risk, start, *grid, SETTLED_SEVERAL)
            if np.isinf(value):
                start, value = minimum(risk, start, apart, SETTLED, needed)
            self.known[key] = Tuned(float(np.exp(start)), float(np.exp(value)))
        return self.known[key]

    def exact(self, batch: np.ndarray, rate: np.ndarray, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (P,) risks as `excess_risk` has them, and their stated relative errors."""
        found = run_risks(self.problem, self.algorithm, batch, rate, steps)
        return found.parts.sum(0), found.error

    def _guess(self, batch: float, steps: float) -> tuple[float, float]:
        """log γ and how far it may be off: from what is known nearby, by powers of n and of the number of samples."""
        if not self.known:
            return -np.log(steps), APART
        settings = np.log(np.array(list(self.known)))
        away = np.stack([settings[:, 1], settings.sum(axis=1)]) - np.log([[steps], [batch * steps]])  # of n, n B
        distance = np.abs(away).sum(axis=0)
        near = np.argsort(distance, kind="stable")[:NEAREST]
        rates = np.log([tuned.rate for tuned in self.known.values()])[near]
        rates = rates - np.array(USUAL) @ away[:, near]
        weight = 1 / np.maximum(distance[near], NEARBY)
        # Least squares for log γ in log n and log nB, in which a ridge draws both powers to the usual ones.
        matrix = np.concatenate([np.ones((1, near.size)), away[:, near]]) * weight
        ridge = np.diag([0.0, UNKNOWN, UNKNOWN])
        found = np.linalg.solve(matrix @ matrix.T + ridge, matrix @ (weight * rates))[0]
        nearest = rates[0] + np.array(USUAL) @ away[:, near[0]]
        farthest = STEEPEST * distance[near[0]]
        apart = APART if len(self.known) < 2 else np.clip(GUESSED * distance[near[0]], *APART_NEAR)
        return float(np.clip(found, nearest - farthest, nearest + farthest)), float(apart)

    def _log_risks(self, batch: float, steps: float, places: np.ndarray) -> np.ndarray:
        """Return the log risks at places of log γ."""
        same = np.ones_like(places)
        runs = batch * same, np.exp(places), steps * same
        found = run_risks(self.problem, self.algorithm, *runs, rounded=False, tolerance=TOLERANCE, estimate=False)
        total = found.parts.sum(0)
        return np.where(np.isfinite(total), np.log(np.maximum(total, NOTHING * self.initial_risk)), np.inf)


def least_of_several(
    function: Callable[[np.ndarray], np.ndarray], start: float, far: float, apart: float, needed: float, settled: float
) -> tuple[float, float]:
    """Place and value of the least minimum of a grid that reaches far on either side of it.

    A rough one is enough where no value of the grid is near what is needed.
    """
    seen: dict[int, float] = {}
    lowest = 0
    for stride in (COARSE, 1):
        reach = int(far / apart / stride) * stride
        for _ in range(MOST_SCANS):
            every = range(min([lowest - reach, *seen]), max([lowest + reach, *seen]) + 1, stride)
            new = [k for k in every if k not in seen]
            if not new:
                break
            seen |= dict(zip(new, function(start + apart * np.array(new)).tolist(), strict=True))
            lowest = min(seen, key=lambda k: seen[k])
        least = seen[lowest]
        beside = max(seen.get(lowest - stride, least), seen.get(lowest + stride, least))
        # Beside a zero, of second order, one neighbour exceeds the least value ninefold, and the valley has no bottom.
        if least - stride * SEVERAL_DEEP > needed and beside < least + 3 * SEVERAL_DEEP:
            return start + apart * lowest, least
    inner = range(min(seen) + 1, max(seen))
    low = [k for k in inner if seen[k] <= min(seen[k - 1], seen[k + 1], least + SEVERAL_DEEP)]
    valleys = [{start + apart * j: seen[j] for j in (k - 1, k, k + 1)} for k in low]
    found = minima(function, valleys, settled)
    return min(found, key=lambda each: each[1], default=(start + apart * lowest, least))


def minimum(
    function: Callable[[np.ndarray], np.ndarray], start: float, apart: float, settled: float, needed: float = np.inf
) -> tuple[float, float]:
    """Place and value of a minimum near a place, of a function with one, from three points about it."""
    first = start + apart * np.arange(-1.0, 2.0)
    return minima(function, [dict(zip(first.tolist(), function(first).tolist(), strict=True))], settled, needed)[0]


def minima(
    function: Callable[[np.ndarray], np.ndarray],
    known: list[dict[float, float]],
    settled: float,
    needed: float = np.inf,
) -> list[tuple[float, float]]:
    """Places and values of minima, each near three known points; their searches ask for values side by side."""
    searches = [_descent(seen, settled, needed) for seen in known]
    found: dict[int, tuple[float, float]] = {}
    values: dict[int, float] = {}
    while len(found) < len(searches):
        asked: dict[int, float] = {}
        for k in set(range(len(searches))) - set(found):
            try:
                asked[k] = searches[k].send(values[k]) if values else next(searches[k])
            except StopIteration as end:
                found[k] = end.value
        if asked:
            values = dict(zip(asked, function(np.array(list(asked.values()))).tolist(), strict=True))
    return [found[k] for k in range(len(searches))]


def _descent(seen: dict[float, float], settled: float, needed: float) -> Generator[float, float, tuple[float, float]]:
    """Ask for values until the minimum is known: steps down first, then parabolas.

    It ends when they promise no more than `settled`, or than a small share of what the value is above what is needed.
    """
    least_settled = settled
    apart = (max(seen) - min(seen)) / 2
    step = apart
    while (lowest := min(seen, key=lambda place: seen[place])) in (min(seen), max(seen)):
        if len(seen) > MOST_LOOKS:
            return lowest, seen[lowest]
        step = min(2 * step, max(2 * apart, APART))
        beyond = lowest + step if lowest == max(seen) else lowest - step
        seen[beyond] = yield beyond
    trusted = True  # whether the last parabola predicted the risk; if not, the longer side is halved first
    exact = True  # and to what is settled: a promise is worth no more than the parabola before it was right to
    tested = False
    halved = False
    for _ in range(MOST_LOOKS):
        places = sorted(seen)
        middle = places.index(lowest)
        near = _parabola(*((place, seen[place]) for place in places[middle - 1 : middle + 2]))
        settled = max(least_settled, ROUGH * (near.value - needed))
        sure = tested or max(seen[near.left], seen[near.right]) < near.value + SHALLOW * settled
        if trusted and exact and sure and near.promised < settled and near.right - near.left <= 2 * max(apart, APART):
            # The vertex costs no risk, and errs by the error of the promise alone.
            return near.vertex, near.value - near.promised
        narrow = near.right - near.left < min(NARROW[0], NARROW[1] * settled)  # what is left to gain is roughness
        deep = narrow and max(seen[near.left], seen[near.right]) > near.value + DEEP
        if narrow and not deep:
            break
        halved = deep or not (trusted or halved)
        place = near.half() if halved else near.next()
        seen[place] = yield place
        if not halved:
            tested = True
            exact = abs(near.at(place) - seen[place]) < settled
            trusted = near.bend > 0 and abs(near.at(place) - seen[place]) < settled + BELIEVED * near.promised
        lowest = min(seen, key=lambda place: seen[place])
    return lowest, seen[lowest]


class Parabola(NamedTuple):
    """Through three points, the middle one the lowest: `value + slope (x − here) + bend (x − here)²`."""

    left: float
    here: float
    right: float
    value: float
    slope: float
    bend: float

    @property
    def promised(self) -> float:
        """The difference between the middle value and the least one."""
        return self.slope**2 / (4 * self.bend) if self.bend > 0 else np.inf

    @property
    def vertex(self) -> float:
        """The place of the least value of the parabola."""
        return self.here - self.slope / (2 * self.bend)

    def at(self, place: float) -> float:
        """Return the value of the parabola at a place."""
        return self.value + self.slope * (place - self.here) + self.bend * (place - self.here) ** 2

    def half(self) -> float:
        """The middle of the longer side."""
        longer = self.right if self.right - self.here > self.here - self.left else self.left
        return (self.here + longer) / 2

    def next(self) -> float:
        """Return the vertex of the parabola, kept away from the middle point and within half of each side."""
        if not self.bend > 0:
            return self.half()
        least = self.vertex
        close = BESIDE * (self.right - self.left)
        if abs(least - self.here) <= close:
            least = self.here + np.copysign(close, self.half() - self.here)
        return float(np.clip(least, (self.left + self.here) / 2, (self.here + self.right) / 2))


def _parabola(left: tuple[float, float], here: tuple[float, float], right: tuple[float, float]) -> Parabola:
    """Through three places and values; without a bend where these are not finite."""
    down = (here[1] - left[1]) / (here[0] - left[0])
    up = (right[1] - here[1]) / (right[0] - here[0])
    if not np.isfinite([down, up]).all():
        return Parabola(left[0], here[0], right[0], here[1], 0.0, 0.0)
    bend = (up - down) / (right[0] - left[0])
    return Parabola(left[0], here[0], right[0], here[1], up - bend * (right[0] - here[0]), bend)
