"""Critical batch sizes of methods that waste data in small batches: the risk is U-shaped in B (THEORY.md T37).

B need not be whole here, as D/n is not: what holds to a few percent anyway is not rounded. The tuned risk
is searched by its logarithm over those of γ and n, where it is smooth and has one minimum each; after few steps, which
may overshoot, it has several over γ.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from sgdtheory.algorithms import Algorithm
from sgdtheory.problems import AbstractProblem
from sgdtheory.risk import field_of, run_risks

APART = np.log(2.0)  # of log γ, to begin a search with,
APART_NEAR = 0.2  # where the best γ is guessed from those of other numbers of steps
STEPS_APART = np.log(4.0)  # of log n
SEVERAL = np.log(4.0)  # of log γ on either side: where several minima over γ were seen,
SEVERAL_APART = np.log(1.1)  # no narrower,
SEVERAL_DEEP = 0.1  # and below a point of such a grid by no more
NEAR_ONE = 1e-2  # of log risk: how well one is known before others are looked for
EVERY = 8.0  # numbers of steps that are all looked at if one is best: there the least risk is not smooth in n
STEEPEST = -1.5, 0.5  # slopes of log γ in log n that are believed
TOLERANCE = 1e-5  # relative, of risks that are compared
SETTLED = 3e-4  # of log risk, at which a search for γ ends
FEW_LINEAR = 16.0  # steps of linear methods, passes over a finite sample, that may overshoot
STEPS_SETTLED = 1e-3  # of log n: where it is known
MOST_LOOKS = 60
BELIEVED = 0.25  # of what a parabola promises, beside what is settled: the error of its value up to which it is right
BESIDE = 0.02  # of the distance between its ends: no place is looked at closer to what is known
REMARKED = 0.05  # relative error of the risk at B*
FARTHEST = 1e4  # times the steps of D samples: if more are needed, none do
SMALLEST = 1e-300


class Tuned(NamedTuple):
    """The best γ, and the risk that it attains."""

    rate: float
    risk: float


class Useful(NamedTuple):
    """Batch sizes of D samples, and what is best.

    Attributes:
        best: n steps, γ and the risk of the batch size D/n that is best with D samples.
        fewest: n and γ with which (1 + ω) D samples reach that risk, the fewest.
        most: the most.
        keeping: the fewest n with which D samples reach `risk_factor` times that risk.
    """

    best: tuple[float, Tuned]
    fewest: tuple[float, Tuned]
    most: tuple[float, Tuned]
    keeping: tuple[float, Tuned]


class TunedEquivalent:
    """`min_γ R(B, γ, n)` of an algorithm's deterministic equivalent; searches begin where the one before has ended."""

    def __init__(self, problem: AbstractProblem, algorithm: Algorithm) -> None:
        self.problem = problem
        self.algorithm = algorithm
        self.field = field_of(algorithm.method)
        self.few = FEW_LINEAR if self.field is None else self.field.few
        self.known: dict[tuple[float, float], Tuned] = {}

    def least(self, batch: float, steps: float) -> Tuned:
        """The best γ."""
        key = batch, steps
        if key not in self.known:
            risk = partial(self._log_risks, batch, steps)
            apart = APART if len(self.known) < 2 else APART_NEAR
            several = steps <= self.few
            place, value = minimum(risk, self._guess(steps), apart, NEAR_ONE if several else SETTLED)
            if several:
                place, value = self._least_of_several(batch, steps, place, value)
            self.known[key] = Tuned(float(np.exp(place)), float(np.exp(value)))
        return self.known[key]

    def _least_of_several(self, batch: float, steps: float, place: float, value: float) -> tuple[float, float]:
        """The least minimum over log γ, of which one is known roughly."""
        away = np.arange(SEVERAL_APART, SEVERAL, SEVERAL_APART)
        places = place + np.concatenate([-away[::-1], [0.0], away])
        values = self._log_risks(batch, steps, places)
        inner = values[1:-1]
        low = 1 + np.flatnonzero((inner <= values[:-2]) & (inner <= values[2:]) & (inner < value + SEVERAL_DEEP))
        risk = partial(self._log_risks, batch, steps)
        others = [minimum(risk, start, SEVERAL_APART / 2, SETTLED) for start in places[low]]
        return min([(place, value), *others], key=lambda found: found[1])

    def remark(self, batch: float, steps: float, rate: float) -> str:
        """Where the equivalent is known to be wrong, what that means."""
        one = (np.array([each]) for each in (batch, rate, steps))
        error = float(run_risks(self.problem, self.algorithm, *one, rounded=False).error[0])
        if error < REMARKED:
            return ""
        shaken = self.field is not None and error > self.field.error(steps, batch)
        why = "single steps lead to and fro, past the optimum and back" if shaken else "the equivalent is rough"
        return f"at B* {why}, and its risk may be off by {error:.0%}; simulate it"

    def _guess(self, steps: float) -> float:
        """log γ: from the line through what is known of the two numbers of steps that are nearest, but not steeper."""
        place = np.log(steps)
        rates = {np.log(n): np.log(tuned.rate) for (_, n), tuned in self.known.items()}
        near = sorted(rates, key=lambda other: abs(other - place))[:2]
        if not near:
            return -place
        if len(near) == 1:
            return rates[near[0]] - (place - near[0]) / 2
        slope = (rates[near[1]] - rates[near[0]]) / (near[1] - near[0])
        return rates[near[0]] + np.clip(slope, *STEEPEST) * (place - near[0])

    def _log_risks(self, batch: float, steps: float, places: np.ndarray) -> np.ndarray:
        """At places of log γ."""
        same = np.ones_like(places)
        runs = batch * same, np.exp(places), steps * same
        found = run_risks(self.problem, self.algorithm, *runs, rounded=False, tolerance=TOLERANCE, estimate=False)
        total = found.parts.sum(0)
        return np.where(np.isfinite(total), np.log(np.maximum(total, SMALLEST)), np.inf)


def minimum(
    function: Callable[[np.ndarray], np.ndarray], start: float, apart: float, settled: float
) -> tuple[float, float]:
    """Place and value of a minimum near a place, of a function with one: three points, steps down, then parabolas.

    It ends when they promise no more than `settled`.
    """
    first = start + apart * np.arange(-1.0, 2.0)
    seen = dict(zip(first.tolist(), function(first).tolist(), strict=True))
    step = apart
    while (lowest := min(seen, key=lambda place: seen[place])) in (min(seen), max(seen)):
        if len(seen) > MOST_LOOKS:
            return lowest, seen[lowest]
        step = min(2 * step, max(apart, APART))
        beyond = lowest + step if lowest == max(seen) else lowest - step
        seen[beyond] = float(function(np.array([beyond]))[0])
    trusted = True  # whether the last parabola has foretold what was there; if not, the longer side is halved first
    halved = False
    for _ in range(MOST_LOOKS):
        places = sorted(seen)
        middle = places.index(lowest)
        near = _parabola(*((place, seen[place]) for place in places[middle - 1 : middle + 2]))
        if trusted and near.promised < settled and near.right - near.left <= 2 * max(apart, APART):
            break
        place = near.next() if trusted or halved else near.half()
        halved = not (trusted or halved)
        seen[place] = float(function(np.array([place]))[0])
        if not halved:
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
        """By how much its least value is below the middle one."""
        return self.slope**2 / (4 * self.bend) if self.bend > 0 else np.inf

    def at(self, place: float) -> float:
        """Its value."""
        return self.value + self.slope * (place - self.here) + self.bend * (place - self.here) ** 2

    def half(self) -> float:
        """The middle of the longer side."""
        longer = self.right if self.right - self.here > self.here - self.left else self.left
        return (self.here + longer) / 2

    def next(self) -> float:
        """Where it is least, but not beside the middle point, and no farther out than half of a side."""
        if not self.bend > 0:
            return self.half()
        least = self.here - self.slope / (2 * self.bend)
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


def useful_batch_sizes(tuned: TunedEquivalent, samples: float, overhead: float, risk_factor: float) -> Useful:
    """The batch sizes that (1 + ω) D samples allow, from the best one out to both sides."""
    budget = (1 + overhead) * samples

    def of_steps(total: float) -> Callable[[float], float]:
        return lambda place: float(np.log(tuned.least(total / _whole(place), _whole(place)).risk))

    start = min(np.log(samples) / 2 + 2, np.log(samples))
    place, value = _inside(of_steps(samples), start, np.log(samples))
    best = _whole(place)
    if best <= EVERY:
        few = np.arange(1.0, min(EVERY, samples) + 1)
        least = np.array([of_steps(samples)(np.log(steps)) for steps in few])
        best = float(few[least.argmin()])
        value = float(least.min())
    end = np.log(np.floor(budget))
    fewest = _crossing(of_steps(budget), value, np.log(best), 0.0)
    most = _crossing(of_steps(budget), value, np.log(best), end)
    keeping = _crossing(of_steps(samples), value + np.log(risk_factor), np.log(best), 0.0)

    def with_rate(steps: float, total: float) -> tuple[float, Tuned]:
        return steps, tuned.least(total / steps, steps)

    return Useful(
        with_rate(best, samples), with_rate(fewest, budget), with_rate(most, budget), with_rate(keeping, samples)
    )


def steps_to(tuned: TunedEquivalent, batch: float, steps: float, risk: float) -> tuple[float, float]:
    """The fewest n with which B reaches a risk, looked for from `steps` on, and γ; inf and nan where none do."""

    def of_steps(place: float) -> float:
        return np.log(tuned.least(batch, _whole(place)).risk)

    enough = max(steps, 1.0)
    while tuned.least(batch, enough).risk > risk:
        enough *= 2
        if enough > FARTHEST * steps:
            return np.inf, np.nan
    found = _crossing(of_steps, np.log(risk), np.log(enough), 0.0)
    return found, tuned.least(batch, found).rate


def _whole(place: float) -> float:
    return max(float(np.round(np.exp(place))), 1.0)


def _inside(function: Callable[[float], float], start: float, end: float) -> tuple[float, float]:
    """`minimum` over 0 … end: beyond, it is as large as can be."""

    def all_of(places: np.ndarray) -> np.ndarray:
        return np.array([function(place) if 0 <= place <= end else np.inf for place in places.tolist()])

    return minimum(all_of, start, STEPS_APART, SETTLED)


def _crossing(function: Callable[[float], float], level: float, begin: float, end: float) -> float:
    """The number of steps farthest from `begin`, towards `end`, up to which the function of log n is at most the level.

    By steps outwards, then the straight line between the ends of a bracket, to one step or to `STEPS_SETTLED`.
    """
    step = STEPS_APART / 2 if end > begin else -STEPS_APART / 2
    inside = begin
    low = function(begin) - level
    while True:
        outside = inside + step if abs(end - inside) > abs(step) else end
        high = function(outside) - level
        if high > 0:
            break
        if outside == end:
            return _whole(end)
        inside = outside
        low = high
    for _ in range(MOST_LOOKS):
        if abs(_whole(outside) - _whole(inside)) <= 1 or abs(outside - inside) < STEPS_SETTLED:
            break
        share = np.clip(low / (low - high), 0.1, 0.9) if np.isfinite(high) else 0.5
        middle = _between(inside, outside, share)
        value = function(middle) - level
        if value <= 0:
            inside = middle
            low = value
        else:
            outside = middle
            high = value
    return _whole(inside)


def _between(inside: float, outside: float, share: float) -> float:
    """log of a whole number of steps that is neither end's, about at a share of the way."""
    ends = sorted((_whole(inside), _whole(outside)))
    return float(np.log(np.clip(_whole(inside + share * (outside - inside)), ends[0] + 1, ends[1] - 1)))
