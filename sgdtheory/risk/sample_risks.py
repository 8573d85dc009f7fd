"""Risks of passes over a finite sample (THEORY.md T42): the mean path, and noise that follows the training loss.

What scatters around the mean path moves like the moments of a plain problem of its own (`TrainingProblem`), which the
engine solves in units of the population's risk. So with the response f of the mean path

    R = R_0[f] + Σ_j h_j/(n_j w_j) (m_j − a_j f_j²),

m_j the training loss of node j, a_j at the start, n_j its eigenvalues and h_j what `tr H` holds there.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from sgdtheory.algorithms import Algorithm, Course
from sgdtheory.problems import (
    AbstractProblem,
    DrawnSample,
    Drivers,
    FiniteSampleProblem,
    TrainingProblem,
    drawn_sample,
    mean_of_samples,
)
from sgdtheory.risk.responses import responses
from sgdtheory.risk.sample_moments import RowMoments, second_risks, takes_moments


@lru_cache(maxsize=8)
def drivers_of(problem: FiniteSampleProblem) -> Drivers:
    """What is known of the sample, or of its mean.

    Raises:
        ValueError: a sample too large to be drawn; no theory of this mean.
    """
    return mean_of_samples(problem) if problem.seed is None else drawn_sample(problem)


@lru_cache(maxsize=8)
def row_moments(problem: FiniteSampleProblem) -> RowMoments:
    """Of the rows of a drawn sample."""
    drivers = drivers_of(problem)
    assert isinstance(drivers, DrawnSample), "means have no rows"
    return RowMoments(drivers)


def is_one_pass(problem: FiniteSampleProblem, course: Course) -> bool:
    """Whether no row is seen twice, and the mean over samples is asked for: that is the plain problem."""
    if problem.replacement or problem.seed is not None:
        return False
    return float(course.samples(np.array([course.num_steps]))[0]) <= problem.num_samples


def as_one_pass(problem: AbstractProblem, samples: np.ndarray) -> AbstractProblem:
    """The plain problem where so many samples make no second pass; the problem itself where they do."""
    finite = isinstance(problem, FiniteSampleProblem) and problem.seed is None and not problem.replacement
    return problem.problem if finite and samples.size and samples.max() <= problem.num_samples else problem


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
    response = np.concatenate(
        [responses(each, drivers.weight, each.num_steps * np.ones(1)).average for each in courses]
    )
    if all(takes_moments(drivers, each) for each in courses):
        rows = row_moments(problem)
        with np.errstate(all="ignore"):  # overflow is a result
            total = np.array([second_risks(rows, each, each.num_steps * np.ones(1))[1, 0] for each in courses])
        of_mean = rows.of_mean(response)
        error = np.zeros(len(courses))
    else:
        batch, rate, steps = settings_of(courses)
        found = solve(training, courses[0].algorithm, training.batch(batch), rate, steps, rounded=False)
        total = found.parts.sum(0)
        error = found.error
        of_mean = response**2 @ (drivers.excess * drivers.seen)
    parts = _parts(drivers.mean_risk(response), total - of_mean)
    return parts, np.where(np.isfinite(parts.sum(0)), np.maximum(error, drivers.relative_error), np.inf)


def sample_path(
    problem: FiniteSampleProblem, course: Course, stops: np.ndarray, solve: Callable[..., tuple[np.ndarray, np.ndarray]]
) -> tuple[np.ndarray, np.ndarray]:
    """Bias and variance of iterate and average at the stops, (2, 2, K), and their relative errors (2, K).

    Args:
        problem: a finite sample.
        course: of a run.
        stops: (K,) numbers of steps.
        solve: the same of a plain problem.
    """
    checked_for_samples(problem, course.algorithm)
    drivers = drivers_of(problem)
    found = responses(course, drivers.weight, stops)
    if takes_moments(drivers, course):
        rows = row_moments(problem)
        total = second_risks(rows, course, stops)
        error = np.zeros(total.shape)
        of_mean = [rows.of_mean(each) for each in found]
    else:
        training = TrainingProblem(drivers)
        batch = float(training.batch(np.array(course.batch)))
        parts, error = solve(training, replace(course, batch=batch, rounded=False), stops)
        total = parts.sum(1)
        of_mean = [each**2 @ (drivers.excess * drivers.seen) for each in found]
    rows_of = zip(found, total, of_mean, strict=True)
    parts = np.array([_parts(drivers.mean_risk(each), whole - mean) for each, whole, mean in rows_of])
    return parts, np.maximum(error, drivers.relative_error)


def sample_edge(
    problem: FiniteSampleProblem, algorithm: Algorithm, batch: np.ndarray, edge: Callable[..., np.ndarray]
) -> np.ndarray:
    """The largest γ with which second moments stay bounded on these rows, for B ≥ 1 of any shape.

    Args:
        problem: a finite sample.
        algorithm: with constant steps.
        batch: B.
        edge: of a plain problem, as a function of problem, method and B.
    """
    checked_for_samples(problem, algorithm)
    drivers = drivers_of(problem)
    if takes_moments(drivers, Course(algorithm, 1.0, 1.0, 1.0)):
        rows = row_moments(problem)
        return np.array([rows.edge(size) for size in batch.flat]).reshape(batch.shape)
    training = TrainingProblem(drivers)
    return edge(training, algorithm.method, training.batch(batch))


def _parts(mean: np.ndarray, scattered: np.ndarray) -> np.ndarray:
    """(2, S); what is beyond the range of a float is inf."""
    parts = np.array([mean, np.maximum(scattered, 0.0)])
    return np.where(np.isfinite(mean + scattered), parts, np.inf)
