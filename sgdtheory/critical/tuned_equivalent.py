"""The least risk over γ of methods that have a deterministic equivalent (THEORY.md T37).

The tuned risk is searched by its logarithm over that of γ, where it is smooth and has one minimum; after few steps,
which may overshoot, it has several.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from sgdtheory.algorithms import Algorithm
from sgdtheory.critical.arrival_minima import ArrivalMinima
from sgdtheory.critical.minima import APART, SETTLED, SETTLED_SEVERAL, least_of_several, minimum
from sgdtheory.problems import AbstractProblem
from sgdtheory.risk import PanelMemory, field_of, run_risks

# The first points of a search are this many times the distance of the nearest known setting, in log n and log nB,
# apart: in a few searches of Adam and signs the best γ was off by 0.1 to 0.3 times the distance.
GUESSED = 0.3
# The first points are no closer and no farther apart than this in log γ: risks of closer ones would differ by their
# errors. With 0.2 for all of them searches of Adam and normalized SGD took about 1.6 times as long.
APART_NEAR = 0.005, 0.2
# Where the risk has several minima over γ, a grid reaches this far in log γ on either side of its least value.
SEVERAL = np.log(6.0)
# That grid has this spacing in log γ. Its low intervals are divided until they are no longer than the second number
# times the number of steps, and further where the risk is rough. With 2e-4 as many of 236 tuned risks of 1 to 8
# directions were 1e-3 or more too high, 5, in 1.4 times the time.
SEVERAL_APART, DENSE = 0.15, 1e-3
# The best γ is guessed from this many known settings nearby.
NEAREST = 6
# Settings are weighted by their distance in log n and log nB, those nearer than this alike.
NEARBY = 0.2
USUAL = -0.5, 0.0  # A guess is drawn to these powers of n and of nB in the best γ where little is known.
UNKNOWN = 0.03  # The prior of `USUAL` has this weight relative to a setting at a distance of 1.
# A guess departs from the nearest setting by no more than this power of n or nB.
STEEPEST = 1.5
TOLERANCE = 1e-5  # Risks that are compared have this relative error.
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
        self.jagged = FEW_LINEAR if self.field is None else self.field.jagged
        memory = 0.0 if self.field is None else self.field.minima_memory
        self.arrivals = ArrivalMinima(problem, algorithm, memory) if memory else None
        self.known: dict[tuple[float, float], Tuned] = {}
        self.memory = PanelMemory()

    def least(self, batch: float, steps: float, needed: float = np.inf) -> Tuned:
        """The best γ; a rough one is enough where log risk is above what is needed whatever γ, after few steps."""
        key = batch, steps
        if key not in self.known:
            risk = partial(self._log_risks, batch, steps)
            start, apart = self._guess(batch, steps)
            far = [] if self.field is not None else [(FAR, FAR_APART, np.inf, np.inf)]
            dense = DENSE * steps if steps <= self.jagged else np.inf
            near = [(SEVERAL, SEVERAL_APART, dense, needed)] if steps <= self.few else []
            value = np.inf
            for grid in far + near:
                start, value = least_of_several(risk, start, *grid, SETTLED_SEVERAL)
            if np.isinf(value):
                if self.arrivals:
                    start, value = self.arrivals.least(risk, batch, steps, start, apart, needed)
                else:
                    start, value = minimum(risk, start, apart, SETTLED, needed)
            self.known[key] = Tuned(float(np.exp(start)), float(np.exp(value)))
        return self.known[key]

    def reaches(self, batch: float, steps: float, level: float) -> bool:
        """Return whether some γ leaves at most this log risk; the guessed γ is tried first."""
        if self.known and (batch, steps) not in self.known:
            start, _ = self._guess(batch, steps)
            if np.logaddexp.reduce(self._log_risks(batch, steps, np.array([start])))[0] <= level:
                return True
        return float(np.log(self.least(batch, steps, level).risk)) <= level

    def oscillates(self, batch: float, steps: float) -> bool:
        """Return whether several minima over γ are known of a setting, so that the tuned risk oscillates with n."""
        return self.arrivals is not None and (batch, steps) in self.arrivals.several

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
        """Return the logs of bias and variance (2, P) at P places of log γ."""
        same = np.ones_like(places)
        runs = batch * same, np.exp(places), steps * same
        one_by_one = steps > max(self.few, MEMORY_FROM) and places.size < SIDE_BY_SIDE
        memory = self.memory if one_by_one else None
        options = {"rounded": False, "tolerance": TOLERANCE, "estimate": False, "memory": memory}
        parts = run_risks(self.problem, self.algorithm, *runs, **options).parts
        least = NOTHING * self.initial_risk / len(parts)
        return np.where(np.isfinite(parts), np.log(np.maximum(parts, least)), np.inf)
