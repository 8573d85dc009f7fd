"""Serial steps against samples: the fewest samples with which n steps reach a risk, by how good the schedule is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import brentq, minimize

from sgdtheory._common.arguments import checked_problem, single_number, whole_number
from sgdtheory._common.sheets import Quantity, Sheet, Table
from sgdtheory._common.shown import Shown
from sgdtheory.algorithms import Algorithm, LastIterate
from sgdtheory.critical import TunedRisk
from sgdtheory.optimal.few_steps import few_steps, few_steps_near
from sgdtheory.optimal.knots import KnotShape, spread_knots
from sgdtheory.optimal.named import tuned_below_edge
from sgdtheory.optimal.search import SPACINGS, Search
from sgdtheory.problems import AbstractProblem

LARGE = 1e12  # At this batch size the gradient is as good as exact.
CLOSE = 1e-4  # The last secant starts from a risk within this relative distance of the target.
MOST_SECANTS = 30  # The search for a batch size fails if it has not converged after this many secants.
FARTHEST = 5.0  # One secant changes 1/B by at most this factor.
RESOLVED = 1e-4  # Numbers of steps are found to this relative accuracy.
CLOSE_WHOLE = 0.3  # A whole number of steps is bracketed to within this many steps.
NEAREST = 0.05  # The first point of a frontier has this value of n/S_min − 1.
MOST_STEPS = 1e12  # A target risk that needs a run of more steps is refused.
LARGEST_POWER = 12.0  # The power k of (1 − t/n)^k is at most this.

Least = Callable[[float, float], float]  # n, B → the least risk


@dataclass(frozen=True)
class Frontier:
    """Fewest samples with which at most n steps reach the target, for one way to schedule the learning rate.

    Attributes:
        num_steps: (P,) n, increasing, whole.
        num_samples: (P,) fewest D = mB of m ≤ n steps, B ≥ 1 constant over the run and not rounded.
        least_steps: S_min, the fewest steps that reach it with batches as large as one likes.
        least_samples: E_min, the fewest samples of the frontier.
    """

    num_steps: np.ndarray
    num_samples: np.ndarray
    least_steps: float
    least_samples: float

    @property
    def critical_batch_size(self) -> float:
        """E_min/S_min: at this batch size both are twice their least where `(S/S_min − 1)(E/E_min − 1) = 1` holds."""
        return self.least_samples / self.least_steps

    @property
    def product(self) -> np.ndarray:
        """(P,) `(S/S_min − 1)(E/E_min − 1)`: 1 where the law of McCandlish et al. (arXiv 1812.06162) is exact."""
        return (self.num_steps / self.least_steps - 1) * (self.num_samples / self.least_samples - 1)


@dataclass(frozen=True)
class Pareto(Shown):
    """The trade-off between serial steps and samples at one risk.

    Attributes:
        target_risk: excess risk that is reached, units of y².
        averaged: constant γ, tuned, uniform average of the iterates.
        power: last iterate of γ_t ∝ (1 − t/n)^k, γ_0 and k ≥ 0 tuned.
        optimal: last iterate of the best γ_t.
    """

    figure: ClassVar[str] = "pareto"

    target_risk: float
    averaged: Frontier
    power: Frontier
    optimal: Frontier

    def sheet(self) -> Sheet:
        """The ends of the three frontiers."""
        frontiers = {"constant γ, averaged": self.averaged, "(1 − t/n)^k": self.power, "best γ_t": self.optimal}
        ends = list(frontiers.values())
        quantities = [
            Quantity("schedule", "schedule", list(frontiers)),
            Quantity("least_steps", "S_min, steps", [each.least_steps for each in ends]),
            Quantity("least_samples", "E_min, samples", [each.least_samples for each in ends]),
            Quantity("critical_batch_size", "E_min/S_min", [each.critical_batch_size for each in ends]),
        ]
        title = f"fewest steps, and fewest samples, to excess risk {self.target_risk:g} y²"
        return Sheet(title, [Table(quantities, "frontiers")])


def pareto(problem: AbstractProblem, *, target_risk: float, points: int = 10) -> Pareto:
    """Fewest samples for each number of steps to a target risk, for three ways to schedule the learning rate.

    `D(n) = min {nB : min over the schedule of R_n(B) ≤ target}`, exact risks, γ_t up to the stability edge, from the
    fewest steps of all, S_min, to the run with B = 1. McCandlish et al. (arXiv 1812.06162) model it by
    `(S/S_min − 1)(E/E_min − 1) = 1`.

    Example:
        >>> import sgdtheory as st
        >>> found = st.pareto(st.PowerLaw(2.0, 3.0), target_risk=0.05, points=2)
        >>> for name in ("averaged", "power", "optimal"):
        ...     each = getattr(found, name)
        ...     print(f"{name}: S_min = {each.least_steps:.0f}, E_min = {each.least_samples:.0f}")
        averaged: S_min = 8, E_min = 162
        power: S_min = 3, E_min = 180
        optimal: S_min = 3, E_min = 168

    Args:
        problem: PowerLaw, LeastSquares or your own AbstractProblem.
        target_risk: excess risk to reach, below the initial one, units of y².
        points: of each frontier, at least 2; two that round to the same n are one.

    Returns:
        Pareto.

    Raises:
        ValueError: an argument outside its range, or a target that 10¹² steps do not reach.
    """
    checked_problem(problem)
    target, number = single_number("target_risk", target_risk), int(whole_number("points", points, 2))
    if not 0 < target < problem.initial_risk:
        raise ValueError(
            f"target_risk must be between 0 and the initial risk, got {target:g} for an initial risk of "
            f"{problem.initial_risk:g}; lower it, or train nothing"
        )
    tuned = TunedRisk(problem)
    ways: tuple[Least, ...] = (
        lambda steps, batch: float(tuned.least(np.array([batch]), np.array([steps])).risk[0]),
        _Powers(problem),
        _Best(problem),
    )
    return Pareto(target, *(_frontier(least, target, number) for least in ways))


class _Best:
    """The least risk over all γ_t, each search begun where the last one has ended."""

    def __init__(self, problem: AbstractProblem) -> None:
        self.problem = problem
        self.last = KnotShape(2.0, (0.0, 1.0), (0.5, 0.5))
        self.few: dict[tuple[float, bool], np.ndarray] = {}

    def __call__(self, steps: float, batch: float) -> float:
        if steps == 1:
            return _one_step(self.problem, batch)
        search = Search(self.problem, steps, steps * batch, False, LastIterate())
        if search.few:
            # Many optima: of all schedules for a new number of steps, and next to those at another batch size.
            key = steps, batch < LARGE
            schedules = search.schedules()
            few = few_steps_near(schedules, self.few[key]) if key in self.few else few_steps(schedules)
            self.few[key] = few.varied
            return few.risk
        found = search.near(self.last.at)
        share = np.exp(found.log_rate) / search.edge
        self.last = KnotShape(steps, tuple(found.steps.tolist()), tuple(share.tolist()))
        return found.risk


class _Powers:
    """The least risk over γ_t = γ_0 (1 − t/n)^k, by L-BFGS on γ_0 and k, from where the last search has ended."""

    def __init__(self, problem: AbstractProblem) -> None:
        self.problem, self.last = problem, np.array([-1.0, 1.0])

    def __call__(self, steps: float, batch: float) -> float:
        if steps == 1:
            return _one_step(self.problem, batch)
        search = Search(self.problem, steps, steps * batch, False, LastIterate())
        knots = spread_knots(steps, SPACINGS[3])
        run = search.run(knots)
        log_left, log_batch = np.log1p(-knots / steps), np.full(knots.size, np.log(batch))

        def value(point: np.ndarray) -> tuple[float, np.ndarray]:
            found = run.risk_and_gradient(np.log(search.edge) + point[0] + point[1] * log_left, log_batch)
            return float(np.log(found.risk)), np.array([found.rate.sum(), found.rate @ log_left]) / found.risk

        bounds: Any = [(-30.0, 0.0), (0.0, LARGEST_POWER)]
        ended = minimize(value, self.last, jac=True, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-9})
        self.last = ended.x
        return float(np.exp(ended.fun))


def _one_step(problem: AbstractProblem, batch: float) -> float:
    """Return the least risk after one step with γ up to the stability edge."""
    return tuned_below_edge(problem, Algorithm(average=LastIterate()), batch, 1.0)[1]


def _frontier(least: Least, target: float, points: int) -> Frontier:
    fewest = _fewest_steps(lambda steps: least(steps, LARGE), target, 1.0)
    most = _fewest_steps(lambda steps: least(steps, 1.0), target, fewest)
    between = fewest * (1 + np.geomspace(NEAREST, max(most / fewest - 1, 2 * NEAREST), points))
    steps = np.unique(2 * np.ceil(between[:-1] / 2))  # even: averages resonate (THEORY.md T12)
    steps = steps[(steps > fewest) & (steps < most)]
    noise, inverse = [], 1.0  # 1/B
    for number in steps[::-1]:
        guess = inverse * (number - fewest) / max(most - fewest, 1)
        noise.append(_crossing(lambda z, n=number: least(float(n), 1 / z), target, guess))
    batches = np.append(1 / np.array(noise[::-1]), 1.0)
    steps = np.append(steps, most)
    samples = np.minimum.accumulate(steps * batches)
    return Frontier(steps, samples, fewest, float(samples.min()))


def _fewest_steps(risk: Callable[[float], float], target: float, low: float) -> float:
    """Fewest n whose risk is at most the target, whole, from `low` on; to `RESOLVED` if there are many."""
    known: dict[float, float] = {}

    def excess(steps: float) -> float:
        if steps not in known:
            known[steps] = float(np.log(risk(steps) / target))
        return known[steps]

    def margin(log_steps: float) -> float:
        return excess(float(np.round(np.exp(log_steps))))

    if excess(low) <= 0:
        return low
    high = max(2.0, 2 * low)
    while excess(high) > 0:
        low, high = high, 4 * high
        if high > MOST_STEPS:
            raise ValueError(f"target_risk must be within reach of {MOST_STEPS:g} steps, got {target:g}; raise it")
    if low == 1:
        return high
    ends, resolved = np.log([low, high]), max(RESOLVED, CLOSE_WHOLE / high)
    crossing: Any = brentq(margin, ends[0], ends[1], xtol=resolved)
    found = float(np.round(np.exp(crossing)))
    if found * RESOLVED > 1:
        return found
    while excess(found) > 0:
        found += 1
    while excess(found - 1) <= 0:  # above `low`, which does not do
        found -= 1
    return found


def _crossing(risk: Callable[[float], float], target: float, guess: float) -> float:
    """1/B at which the risk, which rises with it, is the target, by secants."""
    known, at, value = (0.0, risk(1 / LARGE)), guess, risk(guess)
    for _ in range(MOST_SECANTS):
        if value == known[1] or (at == 1 and value <= target):
            return at
        following = at - (value - target) * (at - known[0]) / (value - known[1])
        if abs(value / target - 1) < CLOSE:
            return float(following)
        following = float(np.clip(following, at / FARTHEST, min(at * FARTHEST, 1.0)))
        known, at, value = (at, value), following, risk(following)
    raise ArithmeticError(f"no batch size found with which the risk is {target:g}; please report this problem")
