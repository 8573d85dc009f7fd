"""Bounds of the rounding error of a risk: cancellation in closed forms, sensitivity to γ at the threshold (T25).

Cancellation: a closed form adds up terms at the points of a contour. Its rounding error is some units in the last place
of the sum of |terms|, which costs nothing beside the terms.

Sensitivity: a risk is computed from products γλ that are rounded, and is the exact one of a γ that differs by some
units in its last place. Far below the stability threshold a relative change of γ changes the risk by some times as
much, at a relative distance δ to it by up to 1/δ times, and at the threshold by up to n times. So where a γ that is a
little larger is unstable, the risk is computed once more, with γ moved by its rounding.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sgdtheory.algorithms import Algorithm, Course, Shape
from sgdtheory.problems import AbstractProblem, Modes
from sgdtheory.risk.stability import is_stable
from sgdtheory.risk.systems.moments import ROUNDING
from sgdtheory.risk.systems.runs import PROBES, settings_of
from sgdtheory.risk.thresholds import THRESHOLDS

# γ is moved by these relative amounts for methods of one vector, of two, and of more, whose steps are products of
# matrices that are nearly defective next to the threshold (heavy ball, β = 0.99). In 4,000 random settings, a third of
# them next to the threshold, errors of heavy ball exceeded a fourth of what this changes risks by.
SHAKES = tuple(factor * float(np.finfo(float).eps) for factor in (32, 2048, 8192))
# Up to this relative distance to the threshold a risk is computed twice. At a larger one it changes by at most some
# 1/NEAR times as much as γ: by 1e-10 of itself, which needs no statement.
NEAR = 1e-3
ROUNDED = 1e-10  # Smaller relative errors of rounding are not stated: every risk has them.


def sensitive(
    problem: AbstractProblem, algorithm: Algorithm, batch: np.ndarray, rate: np.ndarray, steps: np.ndarray
) -> np.ndarray:
    """Return (S,) whether rounding of γ may change risks by more than `ROUNDED`: near the threshold or beyond it.

    Of methods whose steps are all alike; those that repeat tell by themselves (`Propagated`).

    Args:
        problem: its spectrum.
        algorithm: linear.
        batch, rate, steps: (S,) peak B, peak γ and n.
    """
    result = np.zeros(steps.size, dtype=bool)
    many = np.flatnonzero(steps > (0 if len(algorithm.method.start) == 1 else THRESHOLDS.exact_steps))
    if not many.size or algorithm.method.step_dependence != "none":
        return result
    batch, rate, steps = (each[many] for each in (batch, rate, steps))
    if not algorithm.schedule.flat:
        rate = rate * _factors(algorithm.schedule, steps).max(1)
    if not algorithm.batch_schedule.flat:
        batch = np.maximum(batch * _factors(algorithm.batch_schedule, steps).min(1), 1.0)
    moves = rate > 0  # A warm-up may be all there is of a run: its first step has γ = 0.
    if moves.any():
        result[many[moves]] = ~is_stable(problem, algorithm.method, batch[moves], rate[moves] * (1 + NEAR))
    return result


def near_threshold(problem: AbstractProblem, courses: Sequence[Course], known: Any = -1) -> np.ndarray:
    """Return (S,) whether runs of one algorithm are `sensitive`, which closed forms may know of equal steps."""
    known = np.broadcast_to(known, (len(courses),))
    result = known > 0
    algorithm = courses[0].algorithm
    if (indices := np.flatnonzero((known < 0) | (not algorithm.steady))).size:
        result[indices] |= sensitive(problem, algorithm, *settings_of(courses)[:, indices])
    return result


def _factors(shape: Shape, steps: np.ndarray) -> np.ndarray:
    """Return (S, P) factors of a schedule at some steps of each run."""
    return np.array([shape.factors(np.floor(np.linspace(0, n - 1, PROBES)), n) for n in steps.tolist()])


def moved(rate: Any, algorithm: Algorithm) -> Any:
    """Return γ, moved by the rounding of a step."""
    return rate * (1 + SHAKES[min(len(algorithm.method.start), len(SHAKES)) - 1])


def shaken(course: Course) -> Course:
    """Return the same run with γ moved by its rounding."""
    return replace(course, rate=moved(course.rate, course.algorithm))


def change(parts: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the relative change (…) of a risk whose two parts (2, …) become others; 0 where it is not a number."""
    with np.errstate(all="ignore"):
        result = np.abs(parts - others).sum(0) / parts.sum(0)
        return np.where(np.isnan(result), 0.0, result)


def rounding(size: np.ndarray) -> np.ndarray:
    """Return bounds of the rounding errors of sums of a size (`Ends`); 0 beyond the range of a float."""
    return np.where(np.isfinite(size), ROUNDING * size, 0.0)


def bounded(parts: np.ndarray, lost: np.ndarray) -> np.ndarray:
    """Return two parts (2, …) or, where their sum may be nothing but rounding, its bound, which no search prefers."""
    return np.where(parts.sum(0) < lost.sum(0), np.maximum(parts, lost), parts)


def stated_rounding(parts: np.ndarray, lost: np.ndarray, begin: float) -> np.ndarray:
    """Return the relative errors (…) of risks of two parts (2, …) with bounds of their rounding errors.

    A risk of 0 has the error inf where signal and σ², `begin` together, are not 0: it is below the range of a float.
    """
    if not begin > 0:
        return np.zeros(parts.shape[1:])
    total = parts.sum(0)
    with np.errstate(all="ignore"):
        return np.where(total == 0, np.inf, worth_stating(lost.sum(0) / total))


def unresolved_oscillation(parts: np.ndarray, modes: Modes) -> np.ndarray:
    """Return bounds of the relative errors (…) of two parts (2, …) that oscillations in λ between the modes leave.

    The signal of directions whose oscillations are not resolved may be lost or counted twice, and so may their share of
    the variance.
    """
    if modes.unresolved is None:
        return np.zeros(parts.shape[1:])
    with np.errstate(all="ignore"):
        error = 2 * (modes.unresolved @ modes.signal + modes.unresolved.max() * parts[1]) / parts.sum(0)
    return np.where(np.isfinite(error), error, np.inf)


def worth_stating(error: np.ndarray) -> np.ndarray:
    """Return the relative errors of rounding, and 0 for those below `ROUNDED`."""
    return np.where(error > ROUNDED, error, 0.0)
