"""The least risk over γ of methods that have a deterministic equivalent (THEORY.md T37).

The tuned risk is searched by its logarithm over that of γ, where it is smooth and has one minimum; after few steps,
which may overshoot, it has several.
"""

from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from sgdtheory.algorithms import Algorithm
from sgdtheory.critical.minima import APART, least_of_several, minima_beside, minima_in_range, minimum
from sgdtheory.problems import AbstractProblem, PowerLaw
from sgdtheory.risk import PanelMemory, field_of, run_risks

# The first points of a search are this many times the distance of the nearest known setting, in log n and log nB,
# apart: in a few searches of Adam and signs the best γ was off by 0.1 to 0.3 times the distance.
GUESSED = 0.3
# The first points are no closer and no farther apart than this in log γ: risks of closer ones would differ by their
# errors. With 0.2 for all of them searches of Adam and normalized SGD took about 1.6 times as long.
APART_NEAR = 0.005, 0.2
# Where the risk has several minima over γ, a grid reaches this far in log γ on either side of its least value.
SEVERAL = np.log(6.0)
SEVERAL_APART = np.log(1.05)  # That grid has this spacing in log γ: after eight signs there are valleys 0.05 wide.
LEADING = 4096  # This many first directions of a power law bound its risk from below. Any number of them gives a bound.
# The minima of Lion over γ begin where the largest signal just reaches its optimum, and have died out this far above,
# in log γ times (1 − β₂) n: at 3.7 (n = 403) to 5.4 (n = 3,000) with β₂ = 0.99 and a constant γ.
MINIMA_REACH = 6.0
# The risks of that grid are this far apart in log γ. The minima are 2 to 0.6 apart, and the least one may be 0.35 wide:
# with 0.56 it was missed.
MINIMA_APART = 0.22
# They are searched where another minimum is there, or no farther above in log γ than this times the mean of γ_t/γ. None
# of them is the least where that is 0.32 above with a constant γ, and 0.18 with linear decay (D = 1e6 and 1e7).
MINIMA_NEAR = 0.35
# A setting whose log n and log nB differ in sum by less than this from those of a known one has the same minima.
SAME_MINIMA = 0.1
# Heights of minima above the least one change by no more than this times that difference: by 4 in constant runs of 400
# to 1,000 steps of Lion.
HEIGHTS_CHANGE = 5.0
# The best γ is guessed from this many known settings nearby.
NEAREST = 6
# Settings are weighted by their distance in log n and log nB, those nearer than this alike.
NEARBY = 0.2
USUAL = -0.5, 0.0  # A guess is drawn to these powers of n and of nB in the best γ where little is known.
UNKNOWN = 0.03  # The prior of `USUAL` has this weight relative to a setting at a distance of 1.
# A guess departs from the nearest setting by no more than this power of n or nB.
STEEPEST = 1.5
TOLERANCE = 1e-5  # Risks that are compared have this relative error.
# A search over γ ends where a model promises a log risk lower by less.
SETTLED = 3e-4
# A search for a minimum of a grid, whose first models are through points of the grid, ends where a model promises a log
# risk lower by less. With SETTLED risks of two of 15 kept searches of nonlinear methods and of 5 of 60 settings of
# epochs over a finite sample were off by 1e-4 and more; B* of Lion was 642 in place of 647.
SETTLED_SEVERAL = 1e-5
# For epochs over a finite sample the risk may have minima that are decades of γ apart, as an early stop and the edge
# are. They are searched on a grid with this spacing in log γ.
FAR_APART = np.log(1.4)
# That grid reaches this far in log γ on either side of the least risk: one of 60 random settings lost 23% without it.
FAR = np.log(1e3)
# Epochs over a finite sample may overshoot in up to this many steps, and their risk has narrow minima then.
FEW_LINEAR = 16.0
# Risks below this share of the initial one are equal. A few steps whose signs are certain end at the optimum for some
# γ, and without this floor R_opt would be what rounding leaves there, which no other B and n could reach.
NOTHING = 1e-14
# Panels of one run are kept for the next one from this number of steps on. Fewer steps are taken one by one, by runs
# side by side.
MEMORY_FROM = 256.0
# This many learning rates or more are computed side by side, and their panels are not kept. A list of 40 learning rates
# of Lion (1,000 to 2,200 steps) then takes 0.65 times as long, and a search for B* 0.9 times.
SIDE_BY_SIDE = 8


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
        self.minima_memory = 0.0 if self.field is None else self.field.minima_memory
        self.known: dict[tuple[float, float], Tuned] = {}
        # Minima of settings that have many: log γ above arrival, times (1 − β₂) n, and log risk above the least.
        self.minima: dict[tuple[float, float], list[tuple[float, float]]] = {}
        self.single: list[tuple[float, float]] = []  # B and n of settings with one minimum among all γ.
        self.memory = PanelMemory()

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
                if self.minima_memory and not self._has_one_minimum(batch, steps):
                    start, value = self._least_of_many(batch, steps, start, apart, needed)
                else:
                    start, value = minimum(risk, start, apart, SETTLED, needed)
            self.known[key] = Tuned(float(np.exp(start)), float(np.exp(value)))
        return self.known[key]

    def reaches(self, batch: float, steps: float, level: float) -> bool:
        """Return whether some γ leaves at most this log risk; the guessed γ is tried first."""
        if self.known and (batch, steps) not in self.known:
            start, _ = self._guess(batch, steps)
            if _log_sums(self._log_risks(batch, steps, np.array([start])))[0] <= level:
                return True
        return float(np.log(self.least(batch, steps, level).risk)) <= level

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

    def _least_of_many(
        self, batch: float, steps: float, start: float, apart: float, needed: float
    ) -> tuple[float, float]:
        """log γ and log risk at the least of many minima, next to the γ with which coordinates just arrive.

        Beside a setting that is known those of its minima are refined that may be the least. Else all of them are
        searched, and the one beyond them.
        """
        risk = partial(self._log_risks, batch, steps)
        arrival = self._arrival(steps)
        unit = self.minima_memory / steps
        spacing = MINIMA_APART * unit
        distance, known = self._nearest_minima(batch, steps)
        if distance < SAME_MINIMA:
            low = [(arrival + away * unit, height - HEIGHTS_CHANGE * distance) for away, height in known]
            places = [place for place, height in low if height <= 0]
            found = minima_beside(risk, places, min(apart, spacing), SETTLED_SEVERAL, needed)
            least = min(value for _, value in found)
            found += [(place, height + least) for place, height in low if height > 0]
        else:
            top = arrival + MINIMA_REACH * unit
            far = max(arrival + MINIMA_NEAR * self._sum_of_factors(steps) / steps, top)
            found = []
            beyond = start > far
            if not beyond:  # Unless risk is lower above `far`, the least minimum is next to the arrival.
                start, apart = far + unit, APART_NEAR[1]
                value, last, after = _log_sums(risk(np.array([arrival, top, start])))
                beyond = after < min(value, last)
            if beyond:
                place, value = minimum(risk, start, apart, SETTLED)
                if place > far:
                    return place, value
                found = [(place, value)]
            lowest = min(self._least_rate(steps, value), arrival)
            found += minima_in_range(risk, lowest, top, spacing, SETTLED_SEVERAL)
        found.sort(key=lambda each: each[1])
        minima: list[tuple[float, float]] = []
        for place, value in found:
            away = (place - arrival) / unit
            if all(abs(away - other) > MINIMA_APART / 2 for other, _ in minima):  # Two searches may end in one.
                minima.append((away, value - found[0][1]))
        if len(minima) == 1 and distance >= SAME_MINIMA:
            self.single.append((batch, steps))
        else:
            self.minima[batch, steps] = minima
        return found[0]

    def _has_one_minimum(self, batch: float, steps: float) -> bool:
        """Return whether one minimum is known of a setting with at most as many steps and at least as large a batch.

        Noise of signs spreads the steps at which coordinates arrive, by more the smaller γ and B. Further minima are
        gone where the spread exceeds the memory, which does not grow.
        """
        return any(steps >= fewer and batch <= larger for larger, fewer in self.single)

    def _nearest_minima(self, batch: float, steps: float) -> tuple[float, list[tuple[float, float]]]:
        """Return the distance of the nearest setting whose minima are known, and these."""
        if not self.minima:
            return np.inf, []
        settings = np.log(np.array(list(self.minima)))
        away = np.abs(settings[:, 1] - np.log(steps)) + np.abs(settings.sum(axis=1) - np.log(batch * steps))
        nearest = int(np.argmin(away))
        return float(away[nearest]), list(self.minima.values())[nearest]

    def _arrival(self, steps: float) -> float:
        """Return log γ with which the direction of the largest signal can just reach its optimum."""
        eigenvalue, distance = self._leading
        return float(np.log(distance[np.argmax(eigenvalue * distance**2)] / self._sum_of_factors(steps)))

    def _sum_of_factors(self, steps: float) -> float:
        """Return Σ γ_t over γ."""
        return float(self.algorithm.schedule.factors(np.arange(steps), steps).sum())

    def _least_rate(self, steps: float, log_risk: float) -> float:
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

    @cached_property
    def _leading(self) -> tuple[np.ndarray, np.ndarray]:
        """Return λ and |w*| of the first directions that learn."""
        problem = self.problem
        eigenvalue, signal = (problem.truncated(LEADING) if isinstance(problem, PowerLaw) else problem).directions()
        learns = eigenvalue > 0
        return eigenvalue[learns], np.sqrt(signal[learns] / eigenvalue[learns])

    def _log_risks(self, batch: float, steps: float, places: np.ndarray) -> np.ndarray:
        """Return the logs of bias and variance (2, P) at P places of log γ."""
        same = np.ones_like(places)
        runs = batch * same, np.exp(places), steps * same
        one_by_one = steps > max(self.few, MEMORY_FROM) and places.size < SIDE_BY_SIDE
        memory = self.memory if one_by_one else None
        options = {"rounded": False, "tolerance": TOLERANCE, "estimate": False, "memory": memory}
        parts = run_risks(self.problem, self.algorithm, *runs, **options).parts
        least = NOTHING * self.initial_risk / len(parts)
        return np.where(np.isfinite(parts), np.log(np.maximum(parts, least)), np.inf)


def _log_sums(terms: np.ndarray) -> list[float]:
    """Return the logs of the sums of bias and variance of P runs, whose logs (2, P) are given."""
    return np.logaddexp.reduce(terms).tolist()
