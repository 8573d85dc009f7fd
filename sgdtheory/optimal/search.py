"""The learning rates and batch sizes at the knots of a run that leave the least risk."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from sgdtheory.algorithms import AbstractAverage
from sgdtheory.optimal.few_steps import AbstractSchedules, FewSteps, Schedules, few_steps
from sgdtheory.optimal.newton import minimum
from sgdtheory.optimal.run import Run, place, spread_knots
from sgdtheory.optimal.side_by_side import Runs
from sgdtheory.optimal.variables import BELOW_BOUND, FARTHEST_BATCH, Edge, Freedom, Varied
from sgdtheory.problems import AbstractProblem

STARTS = {  # γ/edge as a function of t/n
    "linear decay": lambda u: 0.3 * (1 - u),
    "constant": lambda u: np.full_like(u, 0.5),
    "small": lambda u: np.full_like(u, 0.01),
}
SPACINGS = 2.8, 1.4, 0.7, 0.35  # of the knots, in `place`: each search begins where one on fewer knots has ended
EVERY_STEP = 64  # up to so many steps each is a knot in the end
LEAST_SHARE = 1e-6  # of the edge, to begin with
FIRST_CHANGE = 1e-7  # relative, of the risk: the first search, on the fewest knots, ends when a step brings no more
ROUGH_GAIN = 1e-7  # likewise: the others end when a step promises no more,
FINE_GAIN = 1e-11  # and so does the last one
MOST_ITERATIONS = 600  # of a search on few knots
REMEMBERED = 40  # steps from which it learns the curvature
NEAR_GAIN = 1e-6  # likewise, where many optima are looked for, each from the one before
FIRST_BELOW_EDGE = 14.0  # likewise in the first search, whose few knots lie wide apart
FAR = 1e-40  # of λ_1: what lies beyond is counted as if it were never learnt
NARROW = 0.2  # of a panel in `place`, to check what a search has found: γ may fall by e^35 from knot to knot
MODES_RESOLVED = 0.5  # nγλ
MODES_TOLERANCE = 1e-6  # relative error of sums over directions


class Knots(NamedTuple):
    """What a search has found: log γ and log B at the knots, the risk, and the largest slope of its logarithm.

    The risk is computed on narrow panels: a search may end where its own are too wide. It is inf if it is impossible.
    The slope is that by log γ and by log B, Σ B_t = D, where no bound holds them.
    """

    steps: np.ndarray
    log_rate: np.ndarray
    log_batch: np.ndarray
    risk: float
    slope: float


def lower_bound(problem: AbstractProblem, samples: float) -> float:
    """`Σ_i s_i σ²/(σ² + D s_i)`.

    The moments are those of gradients with independent noise of variance σ² + r_i + P_t ≥ σ² (T2), and with noise σ²
    no linear function of D such gradients is closer to w* than its posterior mean, s_i being the prior variance.
    """
    noise = problem.noise_variance
    modes = problem.modes(FAR * problem.largest_eigenvalue)
    if noise == 0:
        return 0.0
    directions = np.abs(modes.multiplicity)  # that share the signal of a mode
    return float((modes.signal * noise * directions / (noise * directions + samples * np.abs(modes.signal))).sum())


class AbstractSearch(ABC):
    """Searches with n steps and, on the whole, D samples: derive from it, and say how a risk is made least on knots.

    Attributes:
        num_steps, num_samples: n and D.
        average: what is returned.
        edge: the γ that starts are shares of.
        mean_batch: D/n.
        ramp: whether the batch size may vary; else it is D/n.
        constant: whether the learning rate is constant.
        lower_bound: of the risk of what is linear in the gradients.
        starts: names and shapes γ/edge as functions of t/n.
    """

    num_steps: float
    num_samples: float
    average: AbstractAverage
    edge: float
    mean_batch: float
    ramp = False
    constant = False
    lower_bound: float
    starts = STARTS

    @abstractmethod
    def schedules(self) -> AbstractSchedules:
        """What `few_steps` looks at: up to `EVERY_STEP` steps, many schedules side by side."""

    @abstractmethod
    def _minimum(
        self, steps: np.ndarray, log_rate: np.ndarray, log_batch: np.ndarray, gain: float, *, first: bool = False
    ) -> Knots:
        """The least risk near log γ and log B at knots; `first`: they may be far from it."""

    def begun(self, start: Callable[[np.ndarray], np.ndarray] = STARTS["linear decay"]) -> Knots:
        """The least risk found from γ/edge as a function of t/n, on few knots."""
        steps = spread_knots(self.num_steps, SPACINGS[0])
        share = np.maximum(start((steps + 0.5) / self.num_steps), LEAST_SHARE)
        batch = np.full(steps.size, np.log(self.mean_batch))
        found = self._minimum(steps, np.log(share * self.edge), batch, FIRST_CHANGE, first=True)
        return self.refined(found, SPACINGS[1])

    def begun_each(self) -> dict[str, Knots]:
        """`begun` from every start."""
        return {name: self.begun(start) for name, start in self.starts.items()}

    @property
    def few(self) -> bool:
        """Whether every step is a knot, and there are many local optima."""
        return self.num_steps <= EVERY_STEP

    def best_of_few(self) -> tuple[Knots, FewSteps]:
        """The best of many local optima, where steps are few, and what is known of it."""
        found = few_steps(self.schedules())
        steps = np.arange(self.num_steps)
        return Knots(steps, found.log_rate, found.log_batch, found.risk, found.slope), found

    def near(self, start: Callable[[np.ndarray], np.ndarray]) -> Knots:
        """The least risk found from a γ/edge that is close to the best one already, on `SPACINGS[2]`."""
        steps = self._knots(SPACINGS[2])
        share = np.maximum(start(steps / self.num_steps), LEAST_SHARE)
        batch = np.full(steps.size, np.log(self.mean_batch))
        return self._minimum(steps, np.log(share * self.edge), batch, NEAR_GAIN, first=True)

    def finished(self, found: Knots) -> tuple[Knots, Knots]:
        """From what was found to the end: with half the knots, and with all."""
        half = self.half(found)
        return half, self.refined(half, SPACINGS[3], FINE_GAIN)

    def half(self, found: Knots) -> Knots:
        """From what was found, with half the knots: within 1e-3 of the least risk."""
        return self.refined(found, SPACINGS[2])

    def refined(self, found: Knots, spacing: float, gain: float = ROUGH_GAIN) -> Knots:
        """From what was found, on other knots."""
        steps = self._knots(spacing)
        where = place(steps, self.num_steps)
        known = place(found.steps, self.num_steps)
        rate, batch = (np.interp(where, known, each) for each in (found.log_rate, found.log_batch))
        return self._minimum(steps, rate, batch, gain)

    def _knots(self, spacing: float) -> np.ndarray:
        every = spacing == SPACINGS[-1] and self.num_steps <= EVERY_STEP
        return np.arange(self.num_steps) if every else spread_knots(self.num_steps, spacing)


class Search(AbstractSearch):
    """Of SGD, exact.

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
        self.problem = problem
        self.num_steps = num_steps
        self.num_samples = num_samples
        self.average = average
        self.mean_batch = num_samples / num_steps
        self.ramp = ramp
        self.constant = constant
        stable = Edge(problem, num_samples if ramp else max(2.0, 1.1 * self.mean_batch))
        self.edge = float(np.exp(stable.at(np.log([self.mean_batch]))[0][0]))
        self.lower_bound = lower_bound(problem, num_samples)
        largest = largest_share * self.edge
        self.freedom = Freedom(stable, num_samples, self.mean_batch, ramp, constant, largest, self.lower_bound)
        self.modes = problem.modes(MODES_RESOLVED * problem.largest_eigenvalue / (2 * num_steps), MODES_TOLERANCE)

    def schedules(self) -> Schedules:
        """What `few_steps` looks at: up to `EVERY_STEP` steps, many schedules side by side."""
        return Schedules(self.freedom, Runs(self.modes, self.problem.noise_variance, int(self.num_steps), self.average))

    def _minimum(
        self, steps: np.ndarray, log_rate: np.ndarray, log_batch: np.ndarray, gain: float, *, first: bool = False
    ) -> Knots:
        run = Run(self.modes, self.problem.noise_variance, self.num_steps, steps, self.average)
        begin = self.freedom.point(log_rate, log_batch)
        if first:
            begin = self._first_minimum(run, begin, gain)
        ended = minimum(lambda point: Varied(self.freedom, run, point).found(), begin, gain)
        last = Varied(self.freedom, run, ended.point)
        slope = np.where(ended.held, 0.0, ended.slope)
        narrow = Run(self.modes, run.noise, self.num_steps, steps, self.average, NARROW)
        with np.errstate(all="ignore"):
            risk = narrow.risk_and_gradient(last.log_rate, last.log_batch).risk
        risk = risk if risk > self.lower_bound * (1 - BELOW_BOUND) else np.inf
        return Knots(run.knots, last.log_rate, last.log_batch, risk, float(np.abs(slope).max()))

    def _first_minimum(self, run: Run, begin: np.ndarray, change: float) -> np.ndarray:
        """By L-BFGS. It learns from batches below their bound that a change of theirs changes nothing."""

        def inside(point: np.ndarray) -> tuple[float, np.ndarray]:
            here = Varied(self.freedom, run, point)
            found = here.found()
            return found.value, np.where(here.raised, 0.0, found.slope)

        number = 1 if self.freedom.constant else run.knots.size
        highest = self.freedom.highest
        bounds = [(highest - FIRST_BELOW_EDGE, highest)] * number + [(-FARTHEST_BATCH, FARTHEST_BATCH)] * (
            begin.size - number
        )
        options: Any = {"maxiter": MOST_ITERATIONS, "maxcor": REMEMBERED, "ftol": change, "gtol": 1e-10}
        return minimize(inside, begin, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
