"""Critical batch size where every batch size and data size has its own best schedule of learning rates (T12, T26)."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import sgdtheory as st
from sgdtheory.algorithms import Course, LastIterate
from sgdtheory.optimal import KnotShape, Search
from sgdtheory.risk import course_risk

LAST = LastIterate()
CLOSE = 1e-3  # log risk from the target: the last step, along a secant, is then as good as exact
FIRST = np.log(2.0)  # steps in log n that look for a bracket
MOST = 60  # searches
Knots = Any  # what a search finds
Point = tuple[float, float]  # log n, log of the risk over the target


class Best(NamedTuple):
    """B* and R_opt with the best schedule.

    Attributes:
        real_batch_size: B*, the root in real numbers.
        optimal_risk: R_opt(D) = R(D, B = 1).
        error: of the risks that the search computes, largest |log of theirs over the exact one|.
        slope: largest |∂ log risk/∂ log γ| at a knot of the schedules.
    """

    real_batch_size: float
    optimal_risk: float
    error: float
    slope: float


def best_critical(problem: st.PowerLaw, samples: float, spacing: float, overhead: float = 0.2) -> Best:
    """B*: (1 + ω) D over the n at which `R(n, B = (1 + ω) D/n)` is R_opt(D), B real; between whole n by a line."""

    def found(steps: float, used: float) -> Knots:
        search = Search(problem, steps, used, False, LAST)
        if search.few:
            return search.best_of_few()[0]
        return search.refined(search.begun(), spacing)

    target = found(samples, samples)
    reached = {samples: target}

    def excess(log_steps: float) -> Point:
        steps = max(2.0, float(np.round(np.exp(log_steps))))
        reached[steps] = found(steps, (1 + overhead) * samples)
        return float(np.log(steps)), float(np.log(reached[steps].risk / target.risk))

    exponent = max(0.0, 1 - problem.capacity / problem.source)
    root = _root(excess, np.log((1 + overhead) * samples) - exponent * np.log(samples) - FIRST)
    return Best(
        (1 + overhead) * samples / float(np.exp(root)),
        target.risk,
        max(_error(problem, steps, knots) for steps, knots in reached.items()),
        max(knots.slope for knots in reached.values()),
    )


def _error(problem: st.PowerLaw, steps: float, knots: Knots) -> float:
    """|Log of the exact risk over that of the search|."""
    rates = np.exp(knots.log_rate)
    shape = KnotShape(steps, tuple(knots.steps.tolist()), tuple((rates / rates.max()).tolist()))
    batch = float(np.exp(knots.log_batch[0]))
    course = Course(st.Algorithm(schedule=shape, average=LAST), batch, float(rates.max()), steps, rounded=False)
    return abs(float(np.log(course_risk(problem, course, estimate=False).parts.sum() / knots.risk)))


def _root(excess: Callable[[float], Point], start: float) -> float:
    """Return the root of a falling function of log n, known at whole n: a bracket, then false position (Illinois)."""
    right = excess(start)
    left = excess(right[0] - FIRST)
    for _ in range(MOST):
        if right[1] > 0:
            left, right = right, excess(right[0] + FIRST)
        elif left[1] < 0:
            left, right = excess(left[0] - FIRST), left
        else:
            break
    weights = [1.0, 1.0]
    for _ in range(MOST):
        middle = excess(_line(left, right, weights))
        if abs(middle[1]) < CLOSE or middle[0] in (left[0], right[0]):
            break
        if middle[1] > 0:
            left, weights = middle, [1.0, weights[1] / 2]
        else:
            right, weights = middle, [weights[0] / 2, 1.0]
    if middle[0] in (left[0], right[0]):  # neighbouring whole numbers
        return _line(left, right, [1.0, 1.0])
    return _line(middle, left if middle[1] < 0 else right, [1.0, 1.0])


def _line(one: Point, other: Point, weights: list[float]) -> float:
    """Return the root of the line through two points with weighted heights."""
    first, second = one[1] * weights[0], other[1] * weights[1]
    return one[0] + (other[0] - one[0]) * first / (first - second)
