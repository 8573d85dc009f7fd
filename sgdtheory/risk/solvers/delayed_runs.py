"""The exact risk of steps with delayed gradients: which way a run of them takes (THEORY.md T41)."""

from collections.abc import Sequence

import numpy as np

from sgdtheory.algorithms import Algorithm, Course, LinearMethod
from sgdtheory.problems import AbstractProblem, Modes
from sgdtheory.risk.solvers.contour import modes_within
from sgdtheory.risk.solvers.delayed_renewal import TAIL, Setting, average, last_iterate
from sgdtheory.risk.solvers.delayed_steps import last_of_modes, sums_at_stops
from sgdtheory.risk.systems.delayed import growth, settling
from sgdtheory.risk.systems.moments import returned_risk
from sgdtheory.risk.systems.runs import largest_rate
from sgdtheory.risk.thresholds import THRESHOLDS

# Runs are stepped side by side while their moments have at most this many numbers, 8 MB: with more, a step is limited
# by memory.
NUMBERS_TOGETHER = 1_000_000
ROUGHER = 1e-4  # Panels on the line of integration may have this share of the relative error that a search allows.


def is_delayed(algorithm: Algorithm) -> bool:
    """Return whether delays are random or long, so that runs are solved in this file."""
    method = algorithm.method
    return algorithm.linear and method.late and (method.random or method.longest_delay > THRESHOLDS.delayed_like_any)


def delayed_parts(problem: AbstractProblem, courses: Sequence[Course], tolerance: float = 0.0) -> np.ndarray:
    """Return (2, S) bias and variance, in units of y², of what S runs of one algorithm return."""
    result = np.empty((2, len(courses)))
    with np.errstate(all="ignore"):  # overflow and underflow are results here
        short = [place for place, course in enumerate(courses) if not _closed(course)]
        for place in set(range(len(courses))) - set(short):
            averaged = _averaged(courses[place])
            result[:, place] = _in_closed_form(problem, courses[place], courses[place].num_steps, averaged, tolerance)
        for indices in _alike(problem, courses, short, tolerance):
            group = [courses[place] for place in indices]
            stops = sorted({course.num_steps for course in group})
            for stop, (_, parts) in zip(stops, _along(problem, group, stops, tolerance), strict=True):
                for column, place in enumerate(indices):
                    if courses[place].num_steps == stop:
                        result[:, place] = parts[:, column]
    return _in_units(np.where(np.isnan(result), np.inf, result), problem)


def delayed_path(problem: AbstractProblem, course: Course, stops: np.ndarray) -> np.ndarray:
    """Return (2, 2, P) bias and variance of the iterate and of the average at numbers of steps."""
    result = np.empty((2, 2, stops.size))
    with np.errstate(all="ignore"):
        by_steps = stops <= (THRESHOLDS.delayed_by_steps if _closed(course) else np.inf)
        taken = np.flatnonzero(by_steps)
        each = _along(problem, [course], stops[taken].tolist())
        for place, parts in zip(taken.tolist(), each, strict=True):
            result[:, :, place] = parts[..., 0]
        for place in np.flatnonzero(~by_steps).tolist():
            for row, averaged in enumerate([False, _averaged(course)]):
                result[row, :, place] = _in_closed_form(problem, course, float(stops[place]), averaged)
    return np.array([_in_units(each, problem) for each in result])


def delayed_last_of_modes(problem: AbstractProblem, course: Course) -> tuple[Modes, np.ndarray]:
    """Return modes, and (2, K) bias and variance at σ² = 1 of w_n in each of them, by every step."""
    _alike(problem, [course], [0], 0.0)  # refuses too many
    modes = _modes(problem, course, course.num_steps)
    return modes, last_of_modes(course, modes)


def _in_units(parts: np.ndarray, problem: AbstractProblem) -> np.ndarray:
    """Return the parts with the variance in units of y²; a part that rounding has left below 0 is 0."""
    units = np.array([[1.0], [problem.noise_variance]])
    with np.errstate(invalid="ignore"):  # of a run that diverged, without noise
        return np.where(units > 0, units * np.maximum(parts, 0.0), 0.0)


def _averaged(course: Course) -> bool:
    """Return whether the run returns an average and not an iterate."""
    return bool(course.algorithm.average.returned(2.0, 2.0).total)


def _closed(course: Course) -> bool:
    """Return whether a run has a closed form, and is long enough for it to be faster than steps."""
    algorithm = course.algorithm
    method = algorithm.method
    if method.random or not algorithm.constant or course.num_steps <= THRESHOLDS.delayed_by_steps:
        return False
    return not _averaged(course) or _whole_mean(course)


def _whole_mean(course: Course) -> bool:
    """Return whether the average is the mean of w_0 … w_{n−1}."""
    average, n = course.algorithm.average, course.num_steps
    shares = average.returned(n, n)
    sums = average.first(n) == 0 and average.forgetting(n) == 0 and average.weight(n) == 1
    return sums and not average.starts_at_iterate() and shares.iterate == 0 and shares.total * n == 1


def _modes(problem: AbstractProblem, course: Course, num_steps: float, tolerance: float = 0.0) -> Modes:
    """Return the modes with which sums over directions hold."""
    return modes_within(largest_rate(course) * num_steps, problem, tolerance)


def _in_closed_form(
    problem: AbstractProblem, course: Course, num_steps: float, averaged: bool, tolerance: float = 0.0
) -> np.ndarray:
    """Return (2,) bias and variance at σ² = 1 of w_n, or of the mean of w_0 … w_{n−1}."""
    method: LinearMethod = course.algorithm.method
    delay = method.longest_delay
    modes = _modes(problem, course, num_steps, tolerance)
    rate = float(course.rates(np.zeros(1))[0])
    batch = float(np.ravel(course.batches(np.zeros(1)))[0])
    grows = float(growth(modes, method, np.array([rate]), np.array([batch]), num_steps)[0])
    settled = num_steps > settling(rate * float(modes.eigenvalue.max()), delay, averaged, tolerance)
    tail = max(TAIL, ROUGHER * tolerance)
    run = Setting(modes, rate, batch, delay, num_steps, grows, settled, tail)
    return average(run) if averaged else last_iterate(run)


def _alike(
    problem: AbstractProblem, courses: Sequence[Course], indices: list[int], tolerance: float
) -> list[list[int]]:
    """Places of runs that are stepped side by side: of about the same length, and no more than fit a core's memory."""
    if not indices:
        return []
    longest = max(courses[place].num_steps for place in indices)
    if longest > THRESHOLDS.most_steps:
        raise ValueError(
            f"algorithm must take at most {THRESHOLDS.most_steps:g} steps where gradients are "
            f"{courses[0].algorithm.method.delay} steps late and γ, B or the average vary, got {longest:.3g}; "
            f"take fewer samples or a larger batch_size"
        )
    size = _modes(problem, courses[indices[0]], longest, tolerance).eigenvalue.size
    room = max(1, int(NUMBERS_TOGETHER // (2 * size * courses[0].algorithm.method.vectors ** 2)))
    order = sorted(indices, key=lambda place: courses[place].num_steps)
    result: list[list[int]] = []
    for place in order:
        steps = courses[place].num_steps
        if result and len(result[-1]) < room and steps <= 1.5 * courses[result[-1][0]].num_steps:
            result[-1].append(place)
        else:
            result.append([place])
    return result


def _along(
    problem: AbstractProblem, courses: Sequence[Course], stops: Sequence[float], tolerance: float = 0.0
) -> list[np.ndarray]:
    """Return (2, 2, S) bias and variance at σ² = 1 of iterates and of what is returned, at each stop."""
    longest = max(courses, key=lambda course: course.num_steps * course.rate)
    modes = _modes(problem, longest, longest.num_steps, tolerance)
    result = []
    for stop, ends in zip(stops, sums_at_stops(courses, modes, stops), strict=True):
        shares = [course.algorithm.average.returned(stop, course.num_steps) for course in courses]
        result.append(np.array([ends.iterate, returned_risk(ends, shares)]))
    return result
