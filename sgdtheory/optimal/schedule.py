"""The best learning rates and batch sizes, by the gradient of the exact risk or of an equivalent's (THEORY.md T26)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sgdtheory._common.arguments import checked_problem, single_number, whole_number
from sgdtheory._common.array_like import ArrayLike
from sgdtheory._common.sheets import Quantity, Sheet, Table, number
from sgdtheory._common.shown import Shown
from sgdtheory.algorithms import (
    SGD,
    AbstractAverage,
    Algorithm,
    Constant,
    Course,
    LastIterate,
    LinearMethod,
    NonlinearMethod,
)
from sgdtheory.optimal.equivalent_search import EquivalentSearch
from sgdtheory.optimal.knots import KnotShape
from sgdtheory.optimal.named_schedule import NamedSchedule, table_of_schedules
from sgdtheory.optimal.newton import SAME
from sgdtheory.optimal.search import AbstractSearch, Knots, Search
from sgdtheory.problems import AbstractProblem
from sgdtheory.risk import EquivalentRuns, checked_for_risk, course_risk

BELOW_EDGE = (
    "best schedule with learning rates up to the stability limit; a run of few steps beyond it may have less risk"
)
SHOWN = 0.0, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.97, 0.99  # The table has these t/n.
ROUGH = 0.05  # A remark advises to simulate the schedule if the relative error of its risk is larger.


@dataclass(frozen=True)
class OptimalSchedule(Shown):
    """The best schedule found, as an algorithm and as functions of the fraction of the steps that are done.

    Of SGD it is best among learning rates up to the stability edge. It is the least of many local optima within 64
    steps, where single steps cancel each other and orders of the same rates differ by percents; of longer runs the
    local optimum among schedules that change little from step to step, to which three starts lead, or four of an
    equivalent: just above 64 steps, free single steps would gain up to 5% more. That there is no lower one is what
    searches tell, not a theorem.

    Attributes:
        num_steps: n.
        num_samples: D.
        peak_learning_rate, peak_batch_size: largest γ_t and B_t, what `excess_risk` takes beside `algorithm`.
        algorithm: the method with this schedule of γ and B, and the average.
        risk: its exact excess risk, or that of its deterministic equivalent, units of y².
        lower_bound: `Σ_i s_i σ²/(σ² + D s_i)`: nothing that is linear in the gradients of D samples attains less; of a
            sign that is not said.
        slope: largest |∂ log risk/∂ log γ or log B| at a knot, at constant Σ B_t, where no bound holds it: 0 at an
            optimum. (Within 64 steps the share of the samples beyond the smallest batch is in the place of B.)
        with_half_the_knots: risk found with knots at twice the distance: within few steps it tells what a γ_t that
            changes from step to step gains over a smooth one. (Of an equivalent step by step, where `risk` is that of
            panels, to some 1e-5.)
        from_starts: risk to which each start led: at every step where there are at most 64, else on a quarter of the
            knots. Searches that fall far behind others are given up where they are.
        searches: local searches that ended, from starts and, within 64 steps, from the best found with steps in other
            orders and single steps changed.
        agreeing: how many of them ended at the best one, within 1e-6 of its risk.
        remark: of a method that is not linear, how far its risk is known, and what is not proven.
    """

    figure: ClassVar[str] = "optimal_schedule"

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
    remark: str = ""

    def learning_rate(self, fraction: ArrayLike) -> np.ndarray:
        """γ_t at t = fraction · n, units of 1/λ; of signs and Adam, of the weights."""
        return self.peak_learning_rate * np.asarray(self.algorithm.schedule.at(np.asarray(fraction, dtype=float)))

    def batch_size(self, fraction: ArrayLike) -> np.ndarray:
        """B_t at t = fraction · n, not rounded."""
        return self.peak_batch_size * np.asarray(self.algorithm.batch_schedule.at(np.asarray(fraction, dtype=float)))

    @property
    def lower_bound_gap(self) -> float:
        """Risk over lower bound; inf without noise."""
        return self.risk / self.lower_bound if self.lower_bound > 0 else np.inf

    def sheet(self, named: Mapping[str, NamedSchedule] | None = None) -> Sheet:
        """γ_t and B_t along the run, the risk, and how sure it is.

        Args:
            named: of `named_schedules`, beside the best one.
        """
        fractions = np.array(SHOWN)
        quantities = [
            Quantity("fractions", "t/n", fractions),
            Quantity("learning_rates", "γ", self.learning_rate(fractions)),
            Quantity("batch_sizes", "B", self.batch_size(fractions)),
        ]
        run = f"{number(self.num_steps)} steps and {number(self.num_samples)} samples"
        legend = (
            f"{number(self.lower_bound_gap)} times a bound below every linear method; slope at the optimum "
            f"{self.slope:.0e}; {self.agreeing} of {self.searches} searches ended here"
        )
        names = "num_steps", "num_samples", "risk", "lower_bound", "slope", "with_half_the_knots"
        settings = {name: getattr(self, name) for name in (*names, "from_starts", "searches", "agreeing")}
        settings |= {"remark": self.remark} if self.remark else {}
        remarks = [self.remark, BELOW_EDGE if self.algorithm.linear else ""]
        title = f"best schedule of {run}: excess risk {number(self.risk)} y²"
        tables = [Table(quantities, legend=legend)]
        if named:
            tables.append(table_of_schedules(named, self.num_samples / self.num_steps))
            names = "learning_rate", "risk", "loss"
            settings["named"] = {key: {name: getattr(each, name) for name in names} for key, each in named.items()}
        return Sheet(title, tables, remarks, settings)


def optimal_schedule(
    problem: AbstractProblem,
    *,
    num_samples: float,
    batch_size: float | None = None,
    num_steps: float | None = None,
    method: LinearMethod | NonlinearMethod = SGD(),  # noqa: B008 (frozen)
    average: AbstractAverage = LastIterate(),  # noqa: B008 (frozen)
    constant_learning_rate: bool = False,
) -> OptimalSchedule:
    """The learning rates γ_t, and batch sizes B_t, that leave SGD, signs or Adam the least risk (THEORY.md T26).

    Minimises the risk of what is returned, `R_n(γ_0 … γ_{n−1}, B_0 … B_{n−1})`, over γ_t up to the stability edge of
    B_t and, where the batch size is left open, over B_t ≥ 1, not rounded, with `Σ B_t = D`. Schedules with single steps
    beyond the edge are not searched; with few steps and large batches one of them may have several times less risk.
    Both are given by knots that lie dense at both ends of the run: a third of an e-fold of the distance from the nearer
    end apart, or at every step if there are at most 64. All searches are Newton's method, side by side, with the exact
    gradient. With more than 64 steps they begin at three starts on few knots, and the best one goes on with more and
    more: a schedule that is smooth between knots. One that is free at every step had less risk by more than 10⁻³ in 9
    of 20 problems with 65 to 100 steps, by 5% once. With at most 64 steps searches begin at smooth schedules,
    Chebyshev's steps in several orders and random ones, and from the best one with its steps in other orders or with
    one rate changed, until that leads to no better one. The least is taken; `agreeing` says how many searches ended
    there. For other methods the risk is that of the deterministic equivalent, stepped through: the learning rates of
    the last iterate at a constant batch size, without a bound above, up to 20,000 steps. There a fourth start rises
    first. With 1000 steps the search takes 20 s.

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
        method: SGD(), or a method whose deterministic equivalent couples directions by the loss alone, such as Adam().
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
    algorithm = checked_for_risk(Algorithm(method, average=average))
    _check_method(method)
    if isinstance(method, NonlinearMethod):
        _check_rates_alone(method, ramp, algorithm.average, constant_learning_rate)
        search = EquivalentSearch(problem, method, steps, float(batch_size or 1))
    else:
        used = float(samples if ramp else steps * (batch_size or 1))
        search = Search(problem, steps, used, ramp, algorithm.average, constant_learning_rate)
    if search.few:
        half = search.half(search.begun())
        best, few = search.best_of_few()
        return _result(problem, method, search, best, half, few.from_starts, few.searches, few.agreeing)
    found = search.begun_each()
    half, best = search.finished(min(found.values(), key=lambda knots: knots.risk))
    risks = {name: knots.risk for name, knots in found.items()}
    agreeing = sum(risk < (1 + SAME) * min(risks.values()) for risk in risks.values())
    return _result(problem, method, search, best, half, risks, len(risks), agreeing)


def _check_method(method: LinearMethod | NonlinearMethod) -> None:
    """Plain SGD, or one that is not linear if its directions meet in the loss alone."""
    searched = EquivalentRuns.of(method) if isinstance(method, NonlinearMethod) else method == SGD()
    if not searched:
        raise ValueError(
            "method must be SGD(), or one in the basis of eigenvectors whose deterministic equivalent couples "
            f"directions by the loss alone, such as Adam(), got {method!r}"
        )


def _check_rates_alone(method: NonlinearMethod, ramp: bool, average: AbstractAverage, constant: bool) -> None:
    """Refuse what is not searched for a method that is not linear: all but γ_t for the last iterate."""
    if ramp or constant:
        name = "num_steps" if ramp else "constant_learning_rate"
        raise ValueError(
            f"{name} must be left out with {method!r}: of it learning rates alone are found; give batch_size"
        )
    if average != LastIterate():
        raise ValueError(f"average must be LastIterate() with {method!r}, got {average!r}")


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


def _result(
    problem: AbstractProblem,
    method: LinearMethod | NonlinearMethod,
    search: AbstractSearch,
    best: Knots,
    half: Knots,
    from_starts: dict[str, float],
    searches: int,
    agreeing: int,
) -> OptimalSchedule:
    free = search.freedom
    n = search.num_steps
    steps = tuple(best.steps.tolist())
    rates = np.exp(best.log_rate)
    batches = np.exp(best.log_batch) if free.ramp else np.array([free.mean_batch])
    shape = Constant() if free.constant else KnotShape(n, steps, tuple((rates / rates.max()).tolist()))
    ramp = KnotShape(n, steps, tuple((batches / batches.max()).tolist())) if free.ramp else Constant()
    algorithm = Algorithm(method, schedule=shape, batch_schedule=ramp, average=search.average)
    course = Course(algorithm, float(batches.max()), float(rates.max()), n, rounded=False)
    found = course_risk(problem, course, estimate=not algorithm.linear)
    return OptimalSchedule(
        num_steps=n,
        num_samples=free.num_samples,
        peak_learning_rate=float(rates.max()),
        peak_batch_size=float(batches.max()),
        algorithm=algorithm,
        risk=float(found.parts.sum()),
        lower_bound=search.lower_bound,
        slope=best.slope,
        with_half_the_knots=half.risk,
        from_starts=from_starts,
        searches=searches,
        agreeing=agreeing,
        remark="" if algorithm.linear else _remark(float(found.error)),
    )


def _remark(error: float) -> str:
    """Return the remark on a schedule of an equivalent, whose risk has this stated error."""
    advice = "; simulate it" if error > ROUGH else ""
    return (
        f"the risk is a deterministic equivalent with a stated relative error of {error:.2g}{advice}; the searches "
        "found no better schedule, but it is not proven to be the best"
    )
