"""Search for the learning rates and batch sizes at the knots of a run that leave the least risk."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import numpy as np

from sgdtheory.algorithms import AbstractAverage
from sgdtheory.optimal.few_steps import FewSteps, few_steps
from sgdtheory.optimal.knots import place, spread_knots
from sgdtheory.optimal.newton import FINE_GAIN, ROUGH_GAIN, Searches
from sgdtheory.optimal.run import AbstractRun, Run
from sgdtheory.optimal.schedules import BELOW_BOUND, LEAST_SHARE, STARTS, WITHIN, Edge, Freedom, Schedules, Start
from sgdtheory.problems import AbstractProblem
from sgdtheory.risk import stability_edge

# The knots of a search are this far apart in `place`, and each search begins where one on fewer knots has ended. On the
# third the risk is within 1e-3 of its least value, on the last within 1e-4 where that is known
# (tests/optimal/test_search.py).
SPACINGS = 2.8, 1.4, 0.7, 0.35
# With up to this many steps each is a knot in the end; more take minutes (benchmarks.optimal_schedule).
EVERY_STEP = 64
FAR = 1e-40  # Directions whose eigenvalue is less than this share of λ_1 count as if they were never learnt.
NARROW = 0.2  # A panel that checks a search's result has this width in `place`: γ may fall by e³⁵ from knot to knot.
# Directions with nγλ below the first number are one; sums over the others have the second as their relative error.
MODES_RESOLVED, MODES_TOLERANCE = 0.5, 1e-6


class Knots(NamedTuple):
    """Result of a search: log γ and log B at the knots, the risk, and the largest slope of its logarithm.

    The risk is computed on narrow panels: a search may end where its own are too wide. It is inf if it is impossible.
    The slope is that by log γ and by the shares of the samples, Σ B_t = D, where no bound holds them.
    """

    steps: np.ndarray
    log_rate: np.ndarray
    log_batch: np.ndarray
    risk: float
    slope: float


def lower_bound(problem: AbstractProblem, samples: float) -> float:
    """Return `Σ_i s_i σ²/(σ² + D s_i)`, a bound below the risk of what is linear in the gradients.

    The moments are those of gradients with independent noise of variance σ² + r_i + P_t ≥ σ² (T2), and with noise σ²
    no linear function of D such gradients is closer to w* than its posterior mean, s_i being the prior variance.
    """
    noise = problem.noise_variance
    if noise == 0:
        return 0.0
    modes = problem.modes(FAR * problem.largest_eigenvalue)
    shared = noise * np.abs(modes.multiplicity)  # by the directions that share the signal of a mode
    return float((modes.signal * shared / (shared + samples * np.abs(modes.signal))).sum())


class AbstractSearch(ABC):
    """Searches with n steps and, in total, D samples: derive from it, and say what a run with given knots is.

    Attributes:
        num_steps: n.
        average: what is returned.
        freedom: what may vary, and how far.
        lower_bound: below the risk of what is linear in the gradients.
        starts: names and shapes γ/edge as functions of t/n.
    """

    num_steps: float
    average: AbstractAverage
    freedom: Freedom
    lower_bound: float
    starts: Mapping[str, Start] = STARTS

    @abstractmethod
    def run(self, knots: np.ndarray) -> AbstractRun:
        """Return the run with these knots, whose risk is made least."""

    def fine_run(self, knots: np.ndarray) -> AbstractRun:
        """Return the run whose risk is as close as it can be computed."""
        return self.run(knots)

    @property
    def few(self) -> bool:
        """Every step is a knot, so that there are many local optima."""
        return self.num_steps <= EVERY_STEP

    def schedules(self) -> Schedules:
        """Return the schedules with a knot at every step."""
        return Schedules(self.freedom, self.run(np.arange(self.num_steps)))

    def best_of_few(self) -> tuple[Knots, FewSteps]:
        """Return the best of many local optima, where steps are few, and what is known of it."""
        found = few_steps(self.schedules())
        steps = np.arange(self.num_steps)
        return Knots(steps, found.log_rate, found.log_batch, found.risk, found.slope), found

    def begun(self, start: Start = STARTS["linear decay"]) -> Knots:
        """Return the least risk found from γ/edge as a function of t/n, on few knots."""
        return self._begun([start])[0]

    def begun_each(self) -> dict[str, Knots]:
        """Return the least risk found from every start on few knots."""
        return dict(zip(self.starts, self._begun(list(self.starts.values())), strict=True))

    def _begun(self, starts: list[Start]) -> list[Knots]:
        steps = self._knots(SPACINGS[0])
        shares = np.array([start((steps + 0.5) / self.num_steps) for start in starts])
        return self._on_knots(self._from_shares(steps, shares, ROUGH_GAIN), SPACINGS[1], ROUGH_GAIN)

    def near(self, start: Start) -> Knots:
        """Return the least risk found from a γ/edge that is close to the best one already, on `SPACINGS[2]`."""
        steps = self._knots(SPACINGS[2])
        return self._from_shares(steps, start(steps / self.num_steps)[None], 10 * ROUGH_GAIN)[0]

    def half(self, found: Knots) -> Knots:
        """Return the search from what was found, with half the knots: within 1e-3 of the least risk."""
        return self.refined(found, SPACINGS[2])

    def finished(self, found: Knots) -> tuple[Knots, Knots]:
        """Return the searches from what was found to the end: with half the knots, and with all."""
        half = self.half(found)
        return half, self.refined(half, SPACINGS[3], FINE_GAIN)

    def refined(self, found: Knots, spacing: float, gain: float = ROUGH_GAIN) -> Knots:
        """Return the search from what was found, on other knots."""
        return self._on_knots([found], spacing, gain)[0]

    def _knots(self, spacing: float) -> np.ndarray:
        every = spacing == SPACINGS[-1] and self.few
        return np.arange(self.num_steps) if every else spread_knots(self.num_steps, spacing)

    def _from_shares(self, steps: np.ndarray, shares: np.ndarray, gain: float) -> list[Knots]:
        """Search from γ/edge (S, J) at the knots, and the same batch size everywhere."""
        log_rate = np.log(np.maximum(shares, LEAST_SHARE) * self.freedom.mean_edge)
        return self._minima(steps, log_rate, np.full(log_rate.shape, np.log(self.freedom.mean_batch)), gain)

    def _on_knots(self, found: list[Knots], spacing: float, gain: float) -> list[Knots]:
        """Search from what was found, side by side."""
        steps = self._knots(spacing)
        known = place(found[0].steps, self.num_steps)
        moved = partial(np.interp, place(steps, self.num_steps), known)
        log_rate = np.array([moved(knots.log_rate) for knots in found])
        return self._minima(steps, log_rate, np.array([moved(knots.log_batch) for knots in found]), gain)

    def _minima(self, steps: np.ndarray, log_rate: np.ndarray, log_batch: np.ndarray, gain: float) -> list[Knots]:
        """Search from log γ and log B (S, J) at the knots."""
        schedules = Schedules(self.freedom, self.run(steps))
        ended = Searches(schedules, schedules.point(log_rate, log_batch)).ended(gain)
        log_rate, log_batch = schedules.steps(ended.point)
        with np.errstate(all="ignore"):  # a run that diverges is data
            risk = self.fine_run(steps).risk_and_gradient(log_rate, log_batch).risk
        possible = np.where(risk > self.freedom.lower_bound * (1 - BELOW_BOUND), risk, np.inf).tolist()
        slopes = ended.steepest.tolist()
        return [Knots(steps, *each) for each in zip(log_rate, log_batch, possible, slopes, strict=True)]


class Search(AbstractSearch):
    """Search for the best schedule of SGD, exact.

    Args:
        problem: the problem.
        num_steps: n.
        num_samples: D.
        ramp: whether the batch size may vary; else it is D/n.
        average: what is returned.
        constant: whether the learning rate is constant.
        largest_share: of the stability edge that a constant learning rate may be.
    """

    def __init__(
        self,
        problem: AbstractProblem,
        num_steps: float,
        num_samples: float,
        ramp: bool,
        average: AbstractAverage,
        constant: bool = False,
        largest_share: float = 1.0,
    ) -> None:
        self.num_steps = num_steps
        self.average = average
        self.noise = problem.noise_variance
        mean = num_samples / num_steps
        self.edge = (1 - WITHIN) * float(stability_edge(problem, np.array([mean]))[0])
        edge = Edge(problem, num_samples) if ramp else None
        highest = float(np.log(largest_share)) if constant else 0.0
        self.lower_bound = lower_bound(problem, num_samples)
        self.freedom = Freedom(edge, self.edge, num_samples, mean, constant, highest, self.lower_bound)
        self.modes = problem.modes(MODES_RESOLVED * problem.largest_eigenvalue / (2 * num_steps), MODES_TOLERANCE)

    def run(self, knots: np.ndarray) -> Run:
        """Return the run with panels of the usual width."""
        return Run(self.modes, self.noise, self.num_steps, knots, self.average)

    def fine_run(self, knots: np.ndarray) -> Run:
        """Return the run with narrow panels."""
        return Run(self.modes, self.noise, self.num_steps, knots, self.average, NARROW)
