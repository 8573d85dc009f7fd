"""Risks of passes over a finite sample (THEORY.md T42): the mean path, and noise that follows the training loss.

What scatters around the mean path moves like the moments of a plain problem of its own (`TrainingProblem`), which the
engine solves in units of the population's risk. So with the response f of the mean path

    R = R_0[f] + Σ_j h_j/(n_j w_j) (m_j − a_j f_j²),

m_j the training loss of node j, a_j at the start, n_j its eigenvalues and h_j what `tr H` holds there.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from sgdtheory.algorithms import Algorithm, Course
from sgdtheory.problems import Drivers, FiniteSampleProblem, TrainingProblem, drawn_sample
from sgdtheory.risk.responses import responses

LEAST_RISK = 1e-300


@lru_cache(maxsize=8)
def drivers_of(problem: FiniteSampleProblem) -> Drivers:
    """What is known of the sample, or of its mean.

    Raises:
        ValueError: a sample too large to be drawn; no theory of this mean.
    """
    if problem.seed is None:
        raise ValueError("seed must be given: the mean over samples is not known yet, got None")
    return drawn_sample(problem)


def is_one_pass(problem: FiniteSampleProblem, course: Course) -> bool:
    """Whether no row is seen twice, and the mean over samples is asked for: that is the plain problem."""
    if problem.replacement or problem.seed is not None:
        return False
    return float(course.samples(np.array([course.num_steps]))[0]) <= problem.num_samples


def settings_of(courses: Sequence[Course]) -> np.ndarray:
    """(3, S) B, γ and n."""
    return np.array([(each.batch, each.rate, each.num_steps) for each in courses]).T


def checked_for_samples(problem: FiniteSampleProblem, algorithm: Algorithm) -> None:
    """Refuse what there is no theory of.

    Raises:
        ValueError: a method that is not linear; passes without replacement.
    """
    if not algorithm.linear:
        raise ValueError(
            f"algorithm must be linear in the gradient for a finite sample, got {algorithm.method!r}; "
            "simulate_data runs averaged SGD on rows, and problem.problem is one pass"
        )
    if not problem.replacement:
        raise ValueError(
            "replacement must be True for several passes, got False: reshuffled passes are not known yet; they do "
            "5 to 11% better"
        )


def sample_risks(
    problem: FiniteSampleProblem, courses: Sequence[Course], solve: Callable[..., Any]
) -> tuple[np.ndarray, np.ndarray]:
    """(2, S) risk of the mean path and of what scatters around it, and (S,) relative errors, of S runs at their ends.

    Args:
        problem: a finite sample.
        courses: of one algorithm.
        solve: the engine's `run_risks` of a plain problem, as a function of problem, algorithm, batch, rate and steps.
    """
    checked_for_samples(problem, courses[0].algorithm)
    drivers = drivers_of(problem)
    training = TrainingProblem(drivers)
    batch, rate, steps = settings_of(courses)
    found = solve(training, courses[0].algorithm, training.batch(batch), rate, steps, rounded=False)
    response = np.concatenate(
        [responses(each, drivers.weight, np.array([each.num_steps])).average for each in courses]
    )
    parts = split(drivers, response, found.parts.sum(0))
    return parts, np.where(np.isfinite(parts.sum(0)), np.maximum(found.error, drivers.relative_error), np.inf)


def split(drivers: Drivers, response: np.ndarray, total: np.ndarray) -> np.ndarray:
    """(2, S) risk of the mean path and of what scatters, from responses (S, J) and (S,) Σ h/(n w) m."""
    with np.errstate(all="ignore"):
        mean = drivers.mean_risk(response)
        scattered = np.maximum(total - response**2 @ (drivers.excess * drivers.seen), 0.0)
        parts = np.array([mean, scattered])
        return np.where(np.isnan(parts) | ~np.isfinite(total), np.inf, parts)
