"""Risks of epochs over a finite sample (THEORY.md T42): the mean path, and noise that follows the training loss.

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

from sgdtheory.algorithms import SGD, Algorithm, Course, LastIterate, UniformAverage
from sgdtheory.problems import (
    AbstractProblem,
    Drivers,
    FiniteSampleProblem,
    RowSample,
    TrainingProblem,
    drawn_sample,
    mean_of_samples,
)
from sgdtheory.risk.solvers.spectrum import displacement, final_speed
from sgdtheory.risk.systems.mean_path import responses
from sgdtheory.risk.systems.reshuffled_risks import Seen, as_parts, reshuffled
from sgdtheory.risk.systems.row_moments import (
    RowMoments,
    second_risks,
    takes_moments,
)
from sgdtheory.risk.systems.runs import settings_of
from sgdtheory.risk.thresholds import THRESHOLDS

# The relative error of the scatter around the mean path, times √N and 1 − nearness to the stability threshold, is this
# for moments of the rows: nine in ten random settings had smaller ones.
DIAGONAL_ERROR = 1.0
ENGINE_ERROR = 1.7  # For the training problem the same error is this.
NEAREST = 0.05  # The stated error assumes a relative distance to the stability threshold of at least this.
# A risk over λ_1 (w_0 − ŵ)² has this rounding error: above the worst that was measured, 45 rounding units.
ROUNDING = 64 * np.finfo(float).eps
# A smaller relative error of rounding is stated as 0.
NEGLIGIBLE_ROUNDING = 1e-10


@lru_cache(maxsize=8)
def drivers_of(problem: FiniteSampleProblem, oscillation: bool = False) -> Drivers:
    """Return the spectrum of the sample, or of its mean; `oscillation` if responses oscillate.

    Raises:
        ValueError: a sample too large to be drawn; no theory of this mean.
    """
    return (
        mean_of_samples(problem, oscillation)
        if problem.seed is None and problem.rows is None
        else drawn_sample(problem)
    )


def _drivers(problem: FiniteSampleProblem, algorithm: Algorithm) -> Drivers:
    return drivers_of(problem, problem.seed is None and len(algorithm.method.start) > 1)


@lru_cache(maxsize=8)
def row_moments(problem: FiniteSampleProblem) -> RowMoments:
    """Return the fourth moments of the rows of a drawn sample."""
    drivers = drivers_of(problem)
    assert isinstance(drivers, RowSample), "means have no rows"
    return RowMoments(drivers)


def is_one_pass(problem: FiniteSampleProblem, course: Course) -> bool:
    """Return whether no row is seen twice and the mean over samples is asked for: that is the plain problem."""
    if problem.replacement or problem.seed is not None:
        return False
    return float(course.samples(np.array([course.num_steps]))[0]) <= problem.num_samples


def as_one_pass(problem: AbstractProblem, samples: np.ndarray) -> AbstractProblem:
    """Return the plain problem where so many samples make no second pass; the problem itself where they do."""
    if not isinstance(problem, FiniteSampleProblem) or problem.replacement or problem.seed is not None:
        return problem
    return problem.problem if samples.size and samples.max() <= problem.num_samples else problem


def checked_for_samples(problem: FiniteSampleProblem, algorithm: Algorithm) -> None:
    """Refuse what there is no theory of.

    Raises:
        ValueError: a method that is not linear, has several workers or delayed gradients; reshuffled passes of anything
            but plain SGD.
    """
    if not algorithm.linear:
        raise ValueError(
            f"algorithm must be linear in the gradient for a finite sample, got {algorithm.method!r}; "
            "problem.problem is one pass"
        )
    if not algorithm.method.sequential:
        raise ValueError(
            f"algorithm must have one worker and gradients in time for a finite sample, got {algorithm.method!r}; "
            "problem.problem is one pass"
        )
    plain = algorithm.constant and algorithm.method == SGD()
    if problem.rows is not None and (algorithm.method != SGD() or not problem.replacement):
        raise ValueError(
            f"algorithm must be SGD, with replacement, for given rows, whose moments of higher order theory does not "
            f"know, got {algorithm.method!r}; simulate takes all linear ones"
        )
    if not (problem.replacement or (plain and isinstance(algorithm.average, UniformAverage | LastIterate))):
        raise ValueError(
            f"algorithm must be SGD with constant steps, and its average or last iterate, for reshuffled passes, got "
            f"{algorithm}; replacement=True and simulate take all linear ones"
        )


def _by_moments(problem: FiniteSampleProblem, course: Course, stops: np.ndarray) -> Seen:
    """Return the risks of a run from the rows' own fourth moments."""
    rows = row_moments(problem)
    response = np.array(responses(course, rows.weight, stops))
    with np.errstate(all="ignore"):  # overflow is a result
        total = second_risks(rows, course, stops)
    return Seen(response, total, rows.of_mean(response), np.zeros(total.shape))


@np.errstate(all="ignore")  # overflow is a result
def sample_risks(
    problem: FiniteSampleProblem, courses: Sequence[Course], solve: Callable[..., Any], estimate: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """(2, S) risk of the mean path and of what scatters around it, and (S,) relative errors, of S runs at their ends.

    Args:
        problem: a finite sample.
        courses: of one algorithm.
        solve: the engine's `run_risks` with batch sizes that are not rounded, of problem, algorithm, batch, rate and
            steps.
        estimate: whether errors of reshuffled epochs are stated, which takes two to four times as long.
    """
    checked_for_samples(problem, courses[0].algorithm)
    drivers = _drivers(problem, courses[0].algorithm)
    ends = [each.num_steps * np.ones(1) for each in courses]
    if problem.replacement and not all(takes_moments(drivers, each) for each in courses):
        training = _training_problem(problem, drivers)
        batch, rate, steps = settings_of(courses)
        result = solve(training, courses[0].algorithm, training.batch(batch), rate, steps)
        pairs = zip(courses, ends, strict=True)
        response = np.concatenate([responses(each, drivers.weight, end).average for each, end in pairs])
        of_mean = response**2 @ (drivers.excess * drivers.seen)
        parts = as_parts(drivers.mean_risk(response), result.parts.sum(0) - of_mean)
        error = np.maximum(result.error, drivers.interpolation_error(response))
    else:
        parts, error = _ends_alone(problem, drivers, courses, estimate)
    stated = [stated_error(problem, drivers, each, part) for each, part in zip(courses, parts.T, strict=True)]
    return parts, np.where(np.isfinite(parts.sum(0)), np.maximum(error, stated), np.inf)


def _training_problem(problem: FiniteSampleProblem, drivers: Drivers) -> TrainingProblem:
    """Return the plain problem of the scatter around the mean path, which is a theory of Gaussian rows alone.

    Raises:
        ValueError: rows that are given.
    """
    if problem.rows is not None:
        raise ValueError(
            f"rows must have at most {THRESHOLDS.diagonal_sample} directions, and schedules at most "
            f"{THRESHOLDS.sample_steps:g} steps, got {problem.num_samples} rows with {problem.rows.weight.size}; "
            f"simulate them"
        )
    return TrainingProblem(drivers)


def _ends_alone(
    problem: FiniteSampleProblem, drivers: Drivers, courses: Sequence[Course], estimate: bool
) -> tuple[np.ndarray, np.ndarray]:
    """(2, S) parts of averages at the ends, (S,) errors; reshuffled runs that differ in length alone share epochs."""
    parts = np.empty((2, len(courses)))
    error = np.empty(len(courses))
    together: dict[tuple[float, ...], list[int]] = {}
    for place, each in enumerate(courses):
        own = (each.batch, each.rate) if not problem.replacement else (float(place),)
        together.setdefault(own, []).append(place)
    for indices in together.values():
        longest = max((courses[place] for place in indices), key=lambda each: each.num_steps)
        stops = np.array([courses[place].num_steps for place in indices])
        seen = _alone(problem, drivers, longest, stops, estimate)
        parts[:, indices] = seen.parts(drivers)[1]
        error[indices] = seen.error[1]
    return parts, error


def _alone(
    problem: FiniteSampleProblem, drivers: Drivers, course: Course, stops: np.ndarray, estimate: bool = True
) -> Seen:
    """Return the risks of a run that does not need the solvers of plain problems."""
    return _by_moments(problem, course, stops) if problem.replacement else reshuffled(drivers, course, stops, estimate)


@np.errstate(all="ignore")
def sample_path(
    problem: FiniteSampleProblem, course: Course, stops: np.ndarray, solve: Callable[..., tuple[np.ndarray, np.ndarray]]
) -> tuple[np.ndarray, np.ndarray]:
    """Return bias and variance of iterate and average at the stops, (2, 2, K), and their relative errors (2, K).

    Args:
        problem: a finite sample.
        course: of a run.
        stops: (K,) numbers of steps.
        solve: the same of a plain problem.
    """
    checked_for_samples(problem, course.algorithm)
    drivers = _drivers(problem, course.algorithm)
    if problem.replacement and not takes_moments(drivers, course):
        training = _training_problem(problem, drivers)
        batch = float(training.batch(np.array(course.batch)))
        parts, error = solve(training, replace(course, batch=batch, rounded=False), stops)
        response = np.array(responses(course, drivers.weight, stops))
        error = np.maximum(error, drivers.interpolation_error(response))
        seen = Seen(response, parts.sum(1), response**2 @ (drivers.excess * drivers.seen), error)
    else:
        seen = _alone(problem, drivers, course, stops)
    parts = seen.parts(drivers)
    begun = [not np.isnan(course.algorithm.average.returned(stop, course.num_steps).total) for stop in stops.tolist()]
    parts[1, :, ~np.array(begun)] = np.nan
    stated = [[stated_error(problem, drivers, course, each) for each in row.T] for row in parts]
    return parts, np.maximum(seen.error, stated)


def stated_error(problem: FiniteSampleProblem, drivers: Drivers, course: Course, parts: np.ndarray) -> float:
    """Return the relative error of the sum of parts (2,): nine of ten random settings had a smaller one (T42).

    This is for batches drawn with replacement; `reshuffled` states its own errors. What scatters depends on the fourth
    moments of the rows, of which theory knows the mean: of N rows to some 1/√N, and that the more so the nearer the
    edge.
    """
    if not problem.replacement:
        return 0.0
    total = float(parts.sum())
    if takes_moments(drivers, course) and drivers.weight.size <= THRESHOLDS.whole_sample:
        return _rounding(drivers, total)
    load = nearness(drivers, course)
    if not np.isfinite(total):
        return np.inf
    share = float(parts[1]) / total if total > 0 else 0.0
    if problem.seed is None:  # chance averages out
        scatter = 0.0
    else:
        unit = DIAGONAL_ERROR if takes_moments(drivers, course) else ENGINE_ERROR
        scatter = share * min(unit / np.sqrt(drivers.num_samples) / max(1 - load, NEAREST), 1.0)
    return max(scatter, drivers.relative_error_at(displacement(course.algorithm.method, course.rate, course.num_steps)))


def _rounding(drivers: Drivers, total: float) -> float:
    """Return the relative error of moments about ŵ, which may be far from w_0 and w*: 0 where it is below 1e-10."""
    if not (isinstance(drivers, RowSample) and 0 < total < np.inf):
        return 0.0
    lost = ROUNDING * float(drivers.scale.max() ** 2 * (drivers.away @ drivers.away)) / total
    return min(lost, 1.0) if lost > NEGLIGIBLE_ROUNDING else 0.0


def nearness(drivers: Drivers, course: Course) -> float:
    """Return `Σ_i γλ_i/(2B − (B + 1)γλ_i)` of the training problem, from 0 to 1 at the edge, at the peak γ and B."""
    training = TrainingProblem(drivers)
    batch = float(training.batch(np.array(max(course.batch, 1.0))))
    rate = final_speed(course.algorithm.method, course.rate)
    modes = training.modes(0.0)
    x = rate * modes.eigenvalue
    left = 2 * batch - (batch + 1) * x
    if (left <= 0).any():
        return 1.0
    return float(np.clip((modes.driving * x / left).sum(), 0.0, 1.0))


def sample_edge(
    problem: FiniteSampleProblem, algorithm: Algorithm, batch: np.ndarray, edge: Callable[..., np.ndarray]
) -> np.ndarray:
    """Return the largest γ with which second moments stay bounded on these rows, for B ≥ 1 of any shape.

    Args:
        problem: a finite sample.
        algorithm: with constant steps.
        batch: B.
        edge: of a plain problem, as a function of problem, method and B.
    """
    checked_for_samples(problem, algorithm)
    if not problem.replacement:
        raise ValueError(
            "replacement must be True for a stability edge, got False; that of reshuffled passes is not known"
        )
    drivers = drivers_of(problem)
    if takes_moments(drivers, Course(algorithm, 1.0, 1.0, 1.0)):
        rows = row_moments(problem)
        return np.array([rows.edge(size) for size in batch.flat]).reshape(batch.shape)
    training = _training_problem(problem, drivers)
    return edge(training, algorithm.method, training.batch(batch))
