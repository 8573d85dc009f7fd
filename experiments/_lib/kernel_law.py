"""The schedule that the functional scaling law has as its optimum: γ_t ∝ K^(−½) of the remaining sum of γ (T28)."""

from collections.abc import Callable
from functools import cached_property

import numpy as np
from scipy.optimize import minimize

import sgdtheory as st
from sgdtheory.algorithms import Course
from sgdtheory.optimal import KnotShape, OptimalSchedule
from sgdtheory.problems import AbstractProblem
from sgdtheory.risk import course_risk

RESOLVED, TOLERANCE = 0.5, 1e-6  # of `Problem.modes`
CLOSE = {"xatol": 0.01, "fatol": 1e-6}  # log of the two constants, log risk
FIRST_STEPS = 0.3, 1.0  # of the search, in log c and in log(edge/γ_0 − 1)
BEGIN_BELOW = 0.03  # the search begins with γ_0 so far below the edge
FAR_BELOW = 0.7  # of the edge: where the learning rate is lower than that it is no plateau


class KernelLaw:
    """`γ_t = min{γ_0, c/√K(s_t)}`, s_t = Σ_{τ ≥ t} γ_τ, `K(s) = Σ_i λ_i² e^{−2λ_i s}`, for a number of steps.

    Args:
        problem: the problem.
        best: the best schedule found; the law is given at its knots.
        batch_size: B.
    """

    def __init__(self, problem: AbstractProblem, best: OptimalSchedule, batch_size: float) -> None:
        self.problem, self.best, self.batch_size = problem, best, batch_size
        schedule = best.algorithm.schedule
        assert isinstance(schedule, KnotShape)
        self.steps, self.found = np.array(schedule.steps), best.peak_learning_rate * np.array(schedule.values)
        self.edge = float(st.max_stable_learning_rate(problem, batch_size=batch_size))
        most = best.num_steps * self.edge
        self.remaining = np.concatenate([[0.0], np.geomspace(1e-3, most, 3000)])
        modes = problem.modes(RESOLVED / most, TOLERANCE)
        decay = np.exp(-2 * np.outer(self.remaining, modes.eigenvalue))
        self.kernel = decay @ (modes.multiplicity * modes.eigenvalue**2)

    def rates(self, level: float, plateau: float) -> np.ndarray:
        """γ at the knots for c and γ_0: the steps that are left are ∫ ds/γ."""
        slowness = np.maximum(1 / plateau, np.sqrt(self.kernel) / level)
        left = np.cumsum((slowness[1:] + slowness[:-1]) / 2 * np.diff(self.remaining))
        wanted = np.log(self.best.num_steps - self.steps)
        return np.exp(np.interp(wanted, np.log(left), -np.log(slowness[1:])))

    def risk(self, rates: np.ndarray, tolerance: float = 0.0) -> float:
        """Exact, of γ given at the knots; a tolerance of 1e-5 is for searches."""
        shape = KnotShape(self.best.num_steps, tuple(self.steps.tolist()), tuple((rates / rates.max()).tolist()))
        algorithm = st.Algorithm(schedule=shape, average=st.LastIterate())
        course = Course(algorithm, self.batch_size, float(rates.max()), self.best.num_steps, rounded=False)
        return float(course_risk(self.problem, course, estimate=False, tolerance=tolerance).parts.sum())

    @cached_property
    def tuned(self) -> np.ndarray:
        """γ at the knots with the best c and γ_0; with c alone where the learning rate never comes near the edge."""
        middle = np.searchsorted(self.steps, 0.99 * self.best.num_steps)
        left = (self.best.num_steps - self.steps) * self.found
        level = self.found[middle] * np.sqrt(np.interp(left[middle] / 4, self.remaining, self.kernel))
        if self.found.max() < FAR_BELOW * self.edge:
            return self._least(lambda point: self.rates(np.exp(point[0]), self.edge), [np.log(level)])
        begin = [np.log(level), np.log(BEGIN_BELOW)]
        return self._least(lambda point: self.rates(np.exp(point[0]), self.edge / (1 + np.exp(point[1]))), begin)

    def _least(self, rates: Callable[[np.ndarray], np.ndarray], begin: list[float]) -> np.ndarray:
        simplex = np.vstack([begin, begin + np.diag(FIRST_STEPS[: len(begin)])])
        found = minimize(
            lambda point: np.log(self.risk(rates(point), 1e-5)),
            begin,
            method="Nelder-Mead",
            options={"initial_simplex": simplex, **CLOSE},
        )
        return rates(found.x)
