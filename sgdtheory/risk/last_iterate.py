"""Exact second moments of the last iterate, `Σ_i λ_i^k r_i(n)` with `r_i = λ_i E η_i²`."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sgdtheory.algorithms import Course, LastIterate
from sgdtheory.problems import AbstractProblem, Modes
from sgdtheory.risk.engine import journey, setting_out, travel
from sgdtheory.risk.late_runs import is_late, late_last_of_modes

POWERS = np.arange(3)


def iterate_moments(problem: AbstractProblem, courses: Sequence[Course]) -> np.ndarray:
    """`Σ_i λ_i^k r_i(n)`, k = 0, 1, 2: the excess risk of w_n, `E ‖Hη‖²` and `E ηᵀH³η`, at the ends of courses.

    Args:
        problem: PowerLaw, LeastSquares or your own AbstractProblem.
        courses: S runs, whose averages do not matter.

    Returns:
        (3, S), to about 1e-8 relative; nan where it exceeds the range of a float.
    """
    found = np.empty((POWERS.size, len(courses)))
    for place, course in enumerate(courses):
        last = replace(course, algorithm=replace(course.algorithm, average=LastIterate()))
        with np.errstate(all="ignore"):  # overflow and underflow are results here
            modes, shown = late_last_of_modes(problem, last) if is_late(last.algorithm) else _of_modes(problem, last)
            risk = shown[0] + problem.noise_variance * shown[1]
            found[:, place] = modes.eigenvalue ** POWERS[:, None] @ risk
    return np.where(np.isfinite(found), found, np.nan)


def _of_modes(problem: AbstractProblem, course: Course) -> tuple[Modes, np.ndarray]:
    """Modes, and (2, K) bias and variance at σ² = 1 of w_n in each of them."""
    way = journey(problem, [course])
    own = travel(setting_out(way), way).moments.own[:, 0]
    return way[0].ground.modes, np.einsum("dijk,i,j->dk", own, *[way[0].runs.output] * 2)
