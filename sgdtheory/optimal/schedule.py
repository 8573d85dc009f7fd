"""The best learning rates and batch sizes of SGD, by the gradient of the exact risk (THEORY.md T26)."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sgdtheory._common.arguments import checked_problem, single_number, whole_number
from sgdtheory.algorithms import AbstractAverage, Algorithm, Constant, Course, LastIterate, Shape, checked_algorithm
from sgdtheory.optimal.run import place
from sgdtheory.optimal.search import STARTS, Knots, Search
from sgdtheory.problems import AbstractProblem
from sgdtheory.risk import course_risk

SAME_ON_FEW = 1e-6  # relative, of risks on few knots: of one optimum


@dataclass(frozen=True)
class KnotShape(Shape):
    """A shape by its values at steps of a run: `log f` is linear in `log((t + 1)/(n − t))` between them.

    Args:
        num_steps: n of the run that it is for; with another number of steps it is stretched.
        steps: (J,) from 0 to n − 1.
        values: (J,) f > 0 there.
    """

    num_steps: float
    steps: tuple[float, ...]
    values: tuple[float, ...]

    def at(self, fraction: Any, xp: Any = np) -> Any:
        """f(u)."""
        step = xp.clip(xp.asarray(fraction) * self.num_steps, 0.0, self.num_steps - 1)
        where = xp.log((step + 1) / (self.num_steps - step))
        known = place(np.array(self.steps), self.num_steps)
        return xp.exp(xp.interp(where, xp.asarray(known), xp.log(xp.asarray(self.values))))

    def knots(self) -> tuple[float, ...]:
        """The inner ones."""
        return tuple(step / self.num_steps for step in self.steps[1:-1])


@dataclass(frozen=True)
class OptimalSchedule:
    """The best schedule found, as an algorithm and as functions of the fraction of the steps that are done.

    It is the least of many local optima within 64 steps, where single steps cancel each other and orders of the same
    rates differ by percents; of longer runs the local optimum among schedules that change little from step to step, to
    which three starts lead: just above 64 steps, free single steps would gain up to 5% more. That there is no lower one
    is what searches tell, not a theorem.

    Attributes:
        num_steps: n.
        num_samples: D.
        peak_learning_rate, peak_batch_size: largest γ_t and B_t, what `excess_risk` takes beside `algorithm`.
        algorithm: SGD with this schedule of γ and B, and the average.
        risk: its exact excess risk, units of y².
        lower_bound: `Σ_i s_i σ²/(σ² + D s_i)`: nothing that is linear in the gradients of D samples attains less.
        slope: largest |∂ log risk/∂ log γ or log B| at a knot, at constant Σ B_t, where no bound holds it: 0 at an
            optimum. (Within 64 steps the share of the samples beyond the smallest batch is in the place of B.)
        with_half_the_knots: risk found with knots at twice the distance: within few steps it tells what a γ_t that
            changes from step to step gains over a smooth one.
        from_starts: risk to which each start led: at every step where there are at most 64, else on a quarter of the
            knots. Searches that fall far behind others are given up where they are.
        searches: local searches that ended, from starts and, within 64 steps, from the best found with steps in other
            orders and single steps changed.
        agreeing: how many of them ended at the best one, within 1e-6 of its risk.
    """

    num_steps: float
    num_samples: float
    peak_learning_rate: float
    peak_batch_size: float
    algorithm: Algorithm
    risk: float
    lower_bound: float
    slope: float
    with_half_the_knots: float
    from_starts: dict[str, float]
    searches: int
    agreeing: int

    def learning_rate(self, fraction: ArrayLike) -> np.ndarray:
        """γ_t at t = fraction · n, units of 1/λ."""
        return self.peak_learning_rate * np.asarray(self.algorithm.schedule.at(np.asarray(fraction, dtype=float)))

    def batch_size(self, fraction: ArrayLike) -> np.ndarray:
        """B_t at t = fraction · n, not rounded."""
        return self.peak_batch_size * np.asarray(self.algorithm.batch_schedule.at(np.asarray(fraction, dtype=float)))

    @property
    def lower_bound_gap(self) -> float:
        """Risk over lower bound; inf without noise."""
        return self.risk / self.lower_bound if self.lower_bound > 0 else np.inf


def optimal_schedule(
    problem: AbstractProblem,
    *,
    num_samples: float,
    batch_size: float | None = None,
    num_steps: float | None = None,
    average: AbstractAverage = LastIterate(),  # noqa: B008 (frozen)
    constant_learning_rate: bool = False,
) -> OptimalSchedule:
    """The learning rates γ_t, and batch sizes B_t, that leave SGD the least exact risk (THEORY.md T26).

    Minimises the risk of what is returned, `R_n(γ_0 … γ_{n−1}, B_0 … B_{n−1})`, over γ_t up to the stability edge of
    B_t and, where the batch size is left open, over B_t ≥ 1, not rounded, with `Σ B_t = D`. Both are given by knots
    that lie dense at both ends of the run: a third of an e-fold of the distance from the nearer end apart, or at every
    step if there are at most 64.
    With more steps, from three starts on few knots by L-BFGS, and on more and more by Newton's method, from the exact
    gradient: a schedule that is smooth between knots. One that is free at every step had less risk by more than 10⁻³ in
    9 of 20 problems with 65 to 100 steps, by 5% once.
    With at most 64, by Newton's method side by side, from smooth schedules, Chebyshev's steps in several orders and
    random ones, and from the best one with its steps in other orders or with one rate changed, until that leads to no
    better one. The least is taken; `agreeing` says how many searches ended there.

    Example:
        >>> import sgdtheory as st
        >>> best = st.optimal_schedule(st.PowerLaw(2.0, 3.0), num_samples=16_000, batch_size=16)
        >>> print(f"{best.risk:.3e}", best.learning_rate([0.05, 0.5, 0.95]).round(3))
        2.863e-03 [0.676 0.155 0.007]

    Args:
        problem: PowerLaw, LeastSquares or your own AbstractProblem.
        num_samples: D ≥ 2.
        batch_size: B, a whole number ≥ 1, of all batches; n = ⌊D/B⌋. None: B_t is found too.
        num_steps: n, where batch_size is None: n ≤ D whole steps. None: as many steps as samples, B = 1; where serial
            steps cost nothing nothing is better.
        average: what is returned, the last iterate or an average, which is kept as it is.
        constant_learning_rate: whether one γ, stable with every B_t, is kept, and batch sizes alone vary.

    Returns:
        OptimalSchedule; its algorithm is taken by `excess_risk`, `risk_path` and `simulate`.

    Raises:
        ValueError: an argument outside its range, both batch_size and num_steps, fewer than two steps, or a problem
            without signal.
    """
    checked_problem(problem)
    samples = single_number("num_samples", num_samples)
    steps, ramp = _steps(samples, batch_size, num_steps)
    returned = checked_algorithm(Algorithm(average=average)).average
    used = float(samples if ramp else steps * (batch_size or 1))
    search = Search(problem, steps, used, ramp, returned, constant_learning_rate)
    if search.few:
        half = search.half(search.begun())
        best, few = search.best_of_few()
        return _result(problem, search, best, half, Evidence(few.from_starts, few.searches, few.agreeing))
    found = {name: search.begun(start) for name, start in STARTS.items()}
    half, best = search.finished(min(found.values(), key=lambda knots: knots.risk))
    risks = {name: knots.risk for name, knots in found.items()}
    agreeing = sum(risk < (1 + SAME_ON_FEW) * min(risks.values()) for risk in risks.values())
    return _result(problem, search, best, half, Evidence(risks, len(risks), agreeing))


def _steps(samples: float, batch_size: float | None, num_steps: float | None) -> tuple[float, bool]:
    """n, and whether batch sizes are looked for."""
    if batch_size is not None and num_steps is not None:
        raise ValueError(
            f"num_steps must be left out where batch_size is given, got {num_steps:g} and {batch_size:g}: n = ⌊D/B⌋"
        )
    steps = samples // whole_number("batch_size", 1 if batch_size is None else batch_size, 1)
    if num_steps is not None:
        steps = float(whole_number("num_steps", num_steps, 2))
    if not 2 <= steps <= samples:
        raise ValueError(
            f"num_samples must be enough for two steps or more and at least one sample a step, got {samples:g} for "
            f"{steps:g} steps; raise it, or lower batch_size or num_steps"
        )
    return float(steps), num_steps is not None and steps < samples


class Evidence(NamedTuple):
    """Of searches: as `OptimalSchedule` has it."""

    from_starts: dict[str, float]
    searches: int
    agreeing: int


def _result(problem: AbstractProblem, search: Search, best: Knots, half: Knots, evidence: Evidence) -> OptimalSchedule:
    n, steps = search.num_steps, tuple(best.steps.tolist())
    rates = np.exp(best.log_rate)
    batches = np.exp(best.log_batch) if search.freedom.ramp else np.array([search.freedom.mean_batch])
    shape = Constant() if search.freedom.constant else KnotShape(n, steps, tuple((rates / rates.max()).tolist()))
    ramp = KnotShape(n, steps, tuple((batches / batches.max()).tolist())) if search.freedom.ramp else Constant()
    algorithm = Algorithm(schedule=shape, batch_schedule=ramp, average=search.average)
    course = Course(algorithm, float(batches.max()), float(rates.max()), n, rounded=False)
    risk = course_risk(problem, course, estimate=False).parts.sum()
    return OptimalSchedule(
        num_steps=n,
        num_samples=search.num_samples,
        peak_learning_rate=float(rates.max()),
        peak_batch_size=float(batches.max()),
        algorithm=algorithm,
        risk=float(risk),
        lower_bound=search.lower_bound,
        slope=best.slope,
        with_half_the_knots=half.risk,
        **evidence._asdict(),
    )
