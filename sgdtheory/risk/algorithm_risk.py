"""Exact risk of any algorithm: at the end of a run, and all the way (THEORY.md T20–T25)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sgdtheory._common.arguments import checked_problem, settings_arrays, whole_number
from sgdtheory.algorithms import Algorithm, Constant, Course, checked_algorithm, number_of_steps, steps_of_shape
from sgdtheory.problems import AbstractProblem
from sgdtheory.risk.mesh import FINE, ROUGH, Resolution
from sgdtheory.risk.moments import iterate_risk, returned_risk, together
from sgdtheory.risk.pieces import pieces
from sgdtheory.risk.propagation import COMPILED_FROM, Travelled, course_modes, travelled
from sgdtheory.risk.risk import Risk

TOGETHER = 400.0  # steps: runs that are no longer are stepped through side by side, sooner done than closed forms
MODES_TOGETHER = 5000  # modes times runs side by side: their moments stay in a core's cache
GROWN = 1e6  # times what there was: a risk of which
GROWN_ERROR = 1e-8  # is the error that is stated; 2e-9 in 2,000 random runs, up to 1e156
ROUNDED_BELOW_0 = 1e-6  # of what there is at the start: a part this far below 0 has not been rounded, but lost


class CourseRisk(NamedTuple):
    """Bias and variance (2,) in units of y², an estimate of the relative error of their sum, and the moments."""

    parts: np.ndarray
    error: float
    travelled: Travelled


def course_risk(
    problem: AbstractProblem,
    course: Course,
    *,
    estimate: bool = True,
    resolution: Resolution = FINE,
    compiled_from: float = COMPILED_FROM,
) -> CourseRisk:
    """The risk at the end of a course.

    Args:
        problem: its spectrum.
        course: the run.
        estimate: whether to compute the estimate of the error, which takes about as long again where it is not 0.
        resolution: of smooth pieces.
        compiled_from: so many single steps or more are compiled.
    """
    found = travelled(problem, [course], resolution=resolution, compiled_from=compiled_from)
    parts = _output_risks(problem, found, [course])
    error = _errors(problem, found, [course], parts)[0] if estimate else 0.0
    return CourseRisk(parts[:, 0], float(error), found)


def course_risks(
    problem: AbstractProblem,
    courses: Sequence[Course],
    *,
    estimate: bool = True,
    resolution: Resolution = FINE,
    compiled_from: float = COMPILED_FROM,
) -> tuple[np.ndarray, np.ndarray]:
    """`course_risk` of S courses of one algorithm, those of about the same length side by side: (2, S) and (S,)."""
    parts, error = np.empty((2, len(courses))), np.zeros(len(courses))
    for places, by_steps in _convoys(problem, courses, resolution):
        group = [courses[place] for place in places]
        how: Any = {"resolution": resolution, "compiled_from": compiled_from, "by_steps": by_steps}
        found = travelled(problem, group, **how)
        parts[:, places] = _output_risks(problem, found, group)
        if estimate:
            error[places] = _errors(problem, found, group, parts[:, places])
    return parts, error


def _convoys(
    problem: AbstractProblem, courses: Sequence[Course], resolution: Resolution
) -> Iterator[tuple[list[int], bool]]:
    """Places of courses that travel together, with as many pieces each, and whether every step is taken."""
    if not courses:
        return
    size = max(MODES_TOGETHER // course_modes(problem, courses, resolution.modes).eigenvalue.size, 1)
    alike: dict[tuple[Any, ...], list[int]] = {}
    few = len(courses) > 1
    for place in sorted(range(len(courses)), key=lambda place: courses[place].num_steps):
        course = courses[place]
        starts = [low for low, _ in pieces(course)]
        begin = starts.index(course.first_averaged) if course.first_averaged in starts else -1
        by_steps = few and course.num_steps <= TOGETHER
        alike.setdefault((by_steps, len(starts), begin), []).append(place)
    for (by_steps, *_), places in alike.items():
        for first in range(0, len(places), size):
            yield places[first : first + size], by_steps


def _errors(problem: AbstractProblem, found: Travelled, courses: Sequence[Course], parts: np.ndarray) -> np.ndarray:
    """(S,) bounds of the relative errors of (2, S) parts: what a lower order changes, on panels of its own.

    Of runs that have grown far closed forms lose digits too, and of those that are lost, inf, nothing is known.
    """
    total = parts.sum(0)
    begin = found.modes.signal.sum() + problem.noise_variance
    error = np.where(np.isinf(total), np.inf, np.where(total > GROWN * begin, GROWN_ERROR, 0.0))
    if (places := np.flatnonzero(found.approximated)).size:
        group = [courses[place] for place in places.tolist()]
        rougher = _output_risks(problem, travelled(problem, group, resolution=ROUGH), group)
        with np.errstate(all="ignore"):
            change = np.abs(parts[:, places] - rougher).sum(0) / total[places]
        error[places] = np.maximum(error[places], np.where(np.isnan(change), 0.0, change))
    return error


def _output_risks(problem: AbstractProblem, found: Travelled, courses: Sequence[Course]) -> np.ndarray:
    """(2, S) bias and variance of what the algorithm returns, in units of y², from moments at the ends of S courses."""
    algorithm = courses[0].algorithm
    moments = found.moments
    units = np.array([[1.0], [problem.noise_variance]])
    begin = np.array([[found.modes.signal.sum()], [1.0]])
    with np.errstate(all="ignore"):
        output = np.asarray(algorithm.method.output, dtype=float)
        shares = [algorithm.average.returned(course.num_steps, course.num_steps) for course in courses]
        parts = returned_risk(iterate_risk(moments, output), together(moments, output), moments.square, shares)
        # Beyond the range of a float, inf − inf, or where few nodes lose moments that have grown: it is large.
        lost = ~np.isfinite(parts) | (parts < -ROUNDED_BELOW_0 * begin)
        parts = np.where(lost, np.inf, np.maximum(parts, 0.0))
        return np.where(units > 0, units * parts, 0.0)


def algorithm_risk(
    problem: AbstractProblem, algorithm: Algorithm, batch: np.ndarray, rate: np.ndarray, samples: np.ndarray
) -> Risk:
    """`excess_risk` of any algorithm, for checked arguments of one shape."""
    courses = [
        Course(algorithm, float(size), float(step), number_of_steps(algorithm.batch_schedule, size, number))
        for size, step, number in zip(batch.flat, rate.flat, samples.flat, strict=True)
    ]
    parts, error = course_risks(problem, courses)
    bias, variance, relative = (values.reshape(batch.shape)[()] for values in (*parts, error))
    return Risk(bias, variance, relative)


@dataclass(frozen=True)
class RiskPath:
    """The exact risk along one run, at K numbers of steps. Arrays (K,).

    Attributes:
        num_steps: t, increasing from 0 to n.
        num_samples: Σ_{s<t} B_s.
        iterate: Risk of w_t.
        average: Risk of the algorithm's average of w_0 … w_{t−1}; nan where it has not begun, w_t's for LastIterate.
        learning_rate: γ_t of the step from w_t on; at n, of the last one.
        batch_size: B_t of that step.
    """

    num_steps: np.ndarray
    num_samples: np.ndarray
    iterate: Risk
    average: Risk
    learning_rate: np.ndarray
    batch_size: np.ndarray


def _stops(course: Course, number: int) -> np.ndarray:
    """Numbers of steps at which a path is looked at: as many, and half as many again after the kinks if it has some."""
    n, algorithm = course.num_steps, course.algorithm
    shapes = algorithm.schedule, algorithm.batch_schedule
    edges = sorted({course.first_averaged, *(step for shape in shapes for step in steps_of_shape(shape, n))})
    kinks = list(zip(edges[1:-1], edges[2:], strict=True))
    each = number // (2 * max(len(kinks), 1))
    after = [low + np.append(0, np.geomspace(1, high - low, each)) for low, high in kinks if each]
    return np.unique(np.round(np.concatenate([[0.0], [n], np.geomspace(1, n, number - 1), *after])))


def risk_path(
    problem: AbstractProblem,
    *,
    batch_size: ArrayLike,
    learning_rate: ArrayLike,
    num_samples: ArrayLike,
    algorithm: Algorithm = Algorithm(),  # noqa: B008 (frozen)
    points: int = 200,
) -> RiskPath:
    """Exact risk of the iterate and of the average along a run of any algorithm (THEORY.md T20).

    Example:
        >>> import sgdtheory as st
        >>> cosine = st.Algorithm(schedule=st.Cosine(), average=st.LastIterate())
        >>> setting = dict(batch_size=32, learning_rate=0.5, num_samples=1e6)
        >>> path = st.risk_path(st.PowerLaw(2.0, 3.0), **setting, algorithm=cosine, points=5)
        >>> print(path.num_steps.astype(int))
        [    0     1    31   992 31250]
        >>> print(" ".join(f"{risk:.2e}" for risk in path.iterate.total))
        1.20e+00 4.44e-01 3.09e-02 1.62e-02 2.55e-04

    Args:
        problem: PowerLaw, LeastSquares or your own AbstractProblem.
        batch_size: peak batch size B, a whole number ≥ 1.
        learning_rate: peak learning rate γ > 0, in units of 1/λ.
        num_samples: D ≥ B, or enough for a step of the batch schedule.
        algorithm: what is run.
        points: K ≥ 2: step 0, and K − 1 log-spaced numbers of steps from 1 to n (fewer where they repeat). Where a
            shape's formula changes or the average begins there are half as many more, log-spaced after each such step.

    Returns:
        RiskPath. For smooth shapes to about 1e-8, like `excess_risk`.

    Raises:
        ValueError: an argument outside its range, or more than one setting.
    """
    checked_problem(problem)
    algorithm = checked_algorithm(algorithm)
    scheduled = algorithm.batch_schedule != Constant()
    batch, rate, samples = settings_arrays(batch_size, learning_rate, num_samples, scheduled=scheduled)
    if batch.size != 1:
        raise ValueError(f"risk_path takes a single setting, got an array of shape {batch.shape}; call it for each")
    number = whole_number("points", points, 2)
    size, peak = float(batch.flat[0]), float(rate.flat[0])
    n = number_of_steps(algorithm.batch_schedule, size, float(samples.flat[0]))
    course = Course(algorithm, size, peak, n)
    stops = _stops(course, number)
    found, approximated = _parts_along(problem, course, stops, FINE)
    error = np.zeros((2, stops.size))
    if approximated:
        rougher, _ = _parts_along(problem, course, stops, ROUGH)
        with np.errstate(all="ignore"):
            error = np.abs(found - rougher).sum(1) / found.sum(1)
    iterate, average = (Risk(parts[0], parts[1], wrong) for parts, wrong in zip(found, error, strict=True))
    step = np.minimum(stops, n - 1)
    return RiskPath(
        stops,
        course.samples(stops),
        iterate,
        average,
        course.rates(step),
        np.array(course.batches(step), dtype=float),
    )


def _parts_along(
    problem: AbstractProblem, course: Course, stops: np.ndarray, resolution: Resolution
) -> tuple[np.ndarray, bool]:
    """Bias and variance of iterate and average at the stops, (2, 2, K), and whether panels were used."""
    found = travelled(problem, [course], stops.tolist(), resolution)
    iterate, cross, square = (np.array(each).T for each in list(zip(*found.points, strict=True))[1:])
    shares = [course.algorithm.average.returned(stop, course.num_steps) for stop in stops.tolist()]
    with np.errstate(all="ignore"):
        averaged = returned_risk(iterate, cross, square, shares)
    units = np.array([[1.0], [problem.noise_variance]])
    return np.array([units * iterate, units * averaged]), bool(found.approximated[0])
