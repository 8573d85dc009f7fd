"""Minima over the learning rate of signs with a memory, next to the γ with which coordinates just reach their optimum.

Coordinates that arrive overshoot by what is remembered and come back, so that the risk at the end oscillates with γ.
Distances of minima in log γ are proportional to memory/n.
"""

from collections.abc import Callable
from functools import cached_property

import numpy as np
from scipy.optimize import brentq

from sgdtheory.algorithms import Algorithm
from sgdtheory.critical.minima import SETTLED, SETTLED_SEVERAL, minima_beside, minima_in_range, minimum
from sgdtheory.problems import AbstractProblem, PowerLaw

LEADING = 4096  # This many first directions of a power law bound its risk from below. Any number of them gives a bound.
# The minima of Lion over γ begin where the largest signal just reaches its optimum, and have died out this far above,
# in log γ times (1 − β₂) n: at 3.7 (n = 403) to 5.4 (n = 3,000) with β₂ = 0.99 and a constant γ.
REACH = 6.0
# The risks of that grid are this far apart in log γ. The minima are 2 to 0.6 apart, and the least one may be 0.35 wide:
# with 0.56 it was missed.
APART = 0.22
# They are searched where another minimum is there, or no farther above in log γ than this times the mean of γ_t/γ. None
# of them is the least where that is 0.32 above with a constant γ, and 0.18 with linear decay (D = 1e6 and 1e7).
NEAR = 0.35
# A search for the minimum beyond them begins with points this far apart in log γ.
APART_BEYOND = 0.2
# A setting whose log n and log nB differ in sum by less than this from those of a known one has the same minima.
SAME_MINIMA = 0.1
# Heights of minima above the least one change by no more than this times that difference: by 4 in constant runs of 400
# to 1,000 steps of Lion.
HEIGHTS_CHANGE = 5.0

LogRisks = Callable[[np.ndarray], np.ndarray]  # logs of bias and variance (2, P) at P places of log γ
Minimum = tuple[float, float]  # log γ, and log risk


class ArrivalMinima:
    """The least of such minima, for one setting (B, n) after another.

    Args:
        problem: whose coordinates arrive.
        algorithm: whose schedule is run.
        memory: 1/(1 − β), the memory in steps.

    Attributes:
        several: of settings with several minima, log γ above arrival in units of memory/n, and log risk above the
            least one.
        single: settings with one minimum among all γ.
    """

    def __init__(self, problem: AbstractProblem, algorithm: Algorithm, memory: float) -> None:
        self.problem = problem
        self.schedule = algorithm.schedule
        self.memory = memory
        self.several: dict[tuple[float, float], list[Minimum]] = {}
        self.single: list[tuple[float, float]] = []

    def least(
        self, risk: LogRisks, batch: float, steps: float, start: float, apart: float, needed: float = np.inf
    ) -> Minimum:
        """Return the least minimum.

        Near a setting whose minima are known, only those that may be the least are refined. Elsewhere all of them are
        searched, unless a minimum far beyond them is the least.

        Args:
            risk: of the setting.
            batch, steps: B and n.
            start, apart: a guess of log γ, and how far it may be off.
            needed: a higher log risk may be known roughly.
        """
        if self._has_one(batch, steps):
            return minimum(risk, start, apart, SETTLED, needed)
        arrival = self.arrival(steps)
        unit = self.memory / steps
        distance, known = self._nearest(batch, steps)
        near = distance < SAME_MINIMA
        if near:
            low = [(arrival + away * unit, height - HEIGHTS_CHANGE * distance) for away, height in known]
            found = _beside(risk, low, min(apart, APART * unit), needed)
        else:
            top = arrival + REACH * unit
            far = max(arrival + NEAR * self._sum_of_factors(steps) / steps, top)
            place, value = _beyond(risk, (arrival, top, far), unit, start, apart)
            if place > far:
                return place, value
            lowest = min(self.least_rate(steps, value), arrival)
            found = minima_in_range(risk, lowest, top, APART * unit, SETTLED_SEVERAL)
            found += [(place, value)] if place > top else []
        found.sort(key=lambda each: each[1])
        minima: list[Minimum] = []
        for place, value in found:
            away = (place - arrival) / unit
            if all(abs(away - other) > APART / 2 for other, _ in minima):  # Two searches may end in one.
                minima.append((away, value - found[0][1]))
        if len(minima) == 1 and not near:
            self.single.append((batch, steps))
        else:
            self.several[batch, steps] = minima
        return found[0]

    def _has_one(self, batch: float, steps: float) -> bool:
        """Return whether one minimum is known of a setting with at most as many steps and at least as large a batch.

        Noise of signs spreads the steps at which coordinates arrive, by more the smaller γ and B. Further minima are
        gone where the spread exceeds the memory, which does not grow.
        """
        return any(steps >= fewer and batch <= larger for larger, fewer in self.single)

    def _nearest(self, batch: float, steps: float) -> tuple[float, list[Minimum]]:
        """Return the distance of the nearest setting whose minima are known, and these."""
        if not self.several:
            return np.inf, []
        settings = np.log(np.array(list(self.several)))
        away = np.abs(settings[:, 1] - np.log(steps)) + np.abs(settings.sum(axis=1) - np.log(batch * steps))
        nearest = int(np.argmin(away))
        return float(away[nearest]), list(self.several.values())[nearest]

    def arrival(self, steps: float) -> float:
        """Return log γ with which the direction of the largest signal can just reach its optimum."""
        eigenvalue, distance = self._leading
        return float(np.log(distance[np.argmax(eigenvalue * distance**2)] / self._sum_of_factors(steps)))

    def least_rate(self, steps: float, log_risk: float) -> float:
        """Return log γ below which the risk is larger, of a method that moves each coordinate by at most γ in a step.

        Coordinates that begin at a distance |w*_i| are still |w*_i| − Σ γ_t away, so that

            R ≥ Σ_i λ_i max(|w*_i| − Σ γ_t, 0)².

        There is no such γ for a risk as large as the initial one: the γ with which the farthest coordinate can just
        arrive takes its place.
        """
        eigenvalue, distance = self._leading

        def excess(reach: float) -> float:
            return float(eigenvalue @ np.maximum(distance - reach, 0.0) ** 2 - np.exp(log_risk))

        farthest = float(distance.max())
        reach = float(brentq(excess, 0.0, farthest)) if excess(0.0) > 0 else farthest  # pyright: ignore
        return float(np.log(reach / self._sum_of_factors(steps)))

    def _sum_of_factors(self, steps: float) -> float:
        """Return Σ γ_t over γ."""
        return float(self.schedule.factors(np.arange(steps), steps).sum())

    @cached_property
    def _leading(self) -> tuple[np.ndarray, np.ndarray]:
        """Return λ and |w*| of the first directions that learn."""
        problem = self.problem
        eigenvalue, signal = (problem.truncated(LEADING) if isinstance(problem, PowerLaw) else problem).directions()
        learns = eigenvalue > 0
        return eigenvalue[learns], np.sqrt(signal[learns] / eigenvalue[learns])


def _beside(risk: LogRisks, low: list[Minimum], apart: float, needed: float) -> list[Minimum]:
    """Return minima beside places, and for those that cannot be the least bounds from below.

    Args:
        risk: of the setting.
        low: places, and bounds from below on the log risk there above that of the least minimum.
        apart: distance of the first points of a search.
        needed: a higher log risk may be known roughly.
    """
    places = [place for place, height in low if height <= 0]
    found = minima_beside(risk, places, apart, SETTLED_SEVERAL, needed)
    least = min(value for _, value in found)
    return found + [(place, height + least) for place, height in low if height > 0]


def _beyond(risk: LogRisks, places: tuple[float, float, float], unit: float, start: float, apart: float) -> Minimum:
    """Return a minimum far beyond the arrival, if risk may be lower there, or else the arrival itself.

    Args:
        risk: of the setting.
        places: log γ at arrival, at the end of the minima next to it, and where those begin that are far beyond.
        unit: memory/n.
        start, apart: a guess of log γ, and how far it may be off.
    """
    arrival, top, far = places
    if start <= far:
        start, apart = far + unit, APART_BEYOND
        value, last, after = np.logaddexp.reduce(risk(np.array([arrival, top, start]))).tolist()
        if after >= min(value, last):
            return arrival, value
    return minimum(risk, start, apart, SETTLED)
