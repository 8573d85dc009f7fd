"""The exact risk along a run of any algorithm (THEORY.md T20–T25).

Beside it stand exact second moments of the last iterate, `Σ_i λ_i^k r_i(n)` with `r_i = λ_i E η_i²`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from sgdtheory._common.arguments import checked_problem, settings_arrays, whole_number
from sgdtheory._common.array_like import ArrayLike
from sgdtheory._common.sheets import Quantity, Sheet, Table
from sgdtheory._common.shown import Shown
from sgdtheory.algorithms import DEFAULT, Algorithm, Constant, Course, LastIterate, number_of_steps, steps_of_shape
from sgdtheory.problems import AbstractProblem, FiniteSampleProblem, Modes
from sgdtheory.risk.mean_field.equivalent import checked_for_risk, equivalent_risk
from sgdtheory.risk.risk import Risk
from sgdtheory.risk.rounding import (
    bounded,
    change,
    near_threshold,
    rounding,
    shaken,
    stated_rounding,
    unresolved_oscillation,
    worth_stating,
)
from sgdtheory.risk.segmented import initial_state, propagate_all, segments_of_runs
from sgdtheory.risk.solvers.contour import FINE, ROUGH, Resolution
from sgdtheory.risk.solvers.delayed_runs import delayed_last_of_modes, delayed_path, is_delayed
from sgdtheory.risk.systems.finite_sample import is_one_pass, sample_path
from sgdtheory.risk.systems.moments import Ends, ends, returned_risk, returned_size
from sgdtheory.risk.systems.runs import Propagated, with_started_average


@dataclass(frozen=True)
class RiskPath(Shown):
    """The exact risk along one run, at K numbers of steps. Arrays (K,).

    Attributes:
        num_steps: t, increasing from 0 to n.
        num_samples: Σ_{s<t} B_s.
        iterate: Risk of w_t.
        average: Risk of the algorithm's average of w_0 … w_{t−1}; nan where it has not begun, w_t's for LastIterate.
        learning_rate: γ_t of the step from w_t on; at n, of the last one.
        batch_size: B_t of that step.
    """

    figure: ClassVar[str] = "risk_paths"

    num_steps: np.ndarray
    num_samples: np.ndarray
    iterate: Risk
    average: Risk
    learning_rate: np.ndarray
    batch_size: np.ndarray

    def sheet(self) -> Sheet:
        """Return a table of the risks at ten of the numbers of steps."""
        places = np.unique(np.linspace(0, self.num_steps.size - 1, 10).round().astype(int))
        quantities = [
            Quantity("num_steps", "step", self.num_steps[places]),
            Quantity("num_samples", "samples", self.num_samples[places]),
            Quantity("iterate_risk", "iterate", np.asarray(self.iterate.total)[places]),
            Quantity("risk", "average", np.asarray(self.average.total)[places]),
            Quantity("learning_rate", "γ", self.learning_rate[places]),
            Quantity("batch_size", "B", self.batch_size[places]),
        ]
        title = f"expected excess risk along the run, units of y²; {places.size} of {self.num_steps.size} points"
        return Sheet(title, [Table(quantities)])

    def _drawn(self) -> tuple[dict[str, "RiskPath"]]:
        return ({"": self},)


def _stops(course: Course, number: int) -> np.ndarray:
    """Return the numbers of steps of a path: log-spaced from the start, and half as many again after its kinks."""
    n = course.num_steps
    algorithm = course.algorithm
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
    algorithm: Algorithm = DEFAULT,
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
    algorithm = checked_for_risk(algorithm)
    scheduled = algorithm.batch_schedule != Constant()
    batch, rate, samples = settings_arrays(batch_size, learning_rate, num_samples, scheduled=scheduled)
    if batch.size != 1:
        raise ValueError(f"risk_path takes a single setting, got an array of shape {batch.shape}; call it for each")
    number = whole_number("points", points, 2)
    size = float(batch.flat[0])
    peak = float(rate.flat[0])
    n = number_of_steps(algorithm.batch_schedule, size, float(samples.flat[0]), algorithm.workers)
    course = Course(algorithm, size, peak, n)
    stops = _stops(course, number)
    result, error = _along(problem, course, stops)
    error = np.where(np.isinf(result.sum(axis=1)), np.inf, error)
    iterate, average = (Risk(parts[0], parts[1], wrong) for parts, wrong in zip(result, error, strict=True))
    step = np.minimum(stops, n - 1)
    return RiskPath(
        stops,
        course.samples(stops),
        iterate,
        average,
        course.rates(step),
        np.array(course.batches(step), dtype=float),
    )


def _along(problem: AbstractProblem, course: Course, stops: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return bias and variance (2, 2, K) of iterate and average at the stops, and their relative errors (2, K)."""
    if isinstance(problem, FiniteSampleProblem):
        if not is_one_pass(problem, course):
            return sample_path(problem, course, stops, _along)
        problem = problem.problem
    if not course.algorithm.linear:
        seen = equivalent_risk(problem, [course], stops)
        return np.stack([seen.means, seen.variances], axis=1)[..., 0], seen.error[..., 0]
    if is_delayed(course.algorithm):
        result = delayed_path(problem, course, stops)
        moved = delayed_path(problem, shaken(course), stops) if near_threshold(problem, [course])[0] else result
        return result, worth_stating(change(result.swapaxes(0, 1), moved.swapaxes(0, 1)))
    parts, lost, done, modes = _parts_along(problem, course, stops, FINE)
    approximated = bool(done.approximated[0])
    near = bool(near_threshold(problem, [course], done.near)[0])
    error = stated_rounding(parts, lost, problem.initial_risk + problem.noise_variance)
    error = np.maximum(error, unresolved_oscillation(parts, modes))
    if approximated or near:
        rougher, _, _, _ = _parts_along(problem, shaken(course) if near else course, stops, ROUGH)
        each = change(parts, rougher)
        error = np.maximum(error, each if approximated else worth_stating(each))
    return parts.swapaxes(0, 1), error


def _parts_along(
    problem: AbstractProblem, course: Course, stops: np.ndarray, resolution: Resolution
) -> tuple[np.ndarray, np.ndarray, Propagated, Modes]:
    """Return the risks along one run, and what their errors depend on.

    Returns:
        Bias and variance of iterate and average, (2, 2, K), at the stops; bounds of their rounding errors; the state
        at the end; the modes.
    """
    with np.errstate(all="ignore"):  # overflow and underflow are results here
        segments = segments_of_runs(problem, [course], resolution, stops=stops.tolist())
        begin = initial_state(segments)
        done = propagate_all(begin, segments)
        points = [ends(with_started_average(begin.moments, segments[0]), segments[0].runs.output), *done.points]
        sums = Ends(*(np.concatenate(each, axis=1) for each in zip(*points, strict=True)))
        shares = [course.algorithm.average.returned(stop, course.num_steps) for stop in stops.tolist()]
        parts = np.stack([sums.iterate, returned_risk(sums, shares)], axis=1)
        started = ~np.isnan(np.array([np.zeros(len(shares)), np.sum(shares, axis=1)]))
        parts = np.where(np.isnan(parts) & started, np.inf, parts)  # inf − inf, beyond the range of a float
        lost = rounding(np.stack([sums.size[..., 0], returned_size(sums, shares)], axis=1))
        units = np.array([1.0, problem.noise_variance])[:, None, None]
        parts, lost = (np.where(units > 0, units * each, 0.0) for each in (parts, lost))
    return bounded(parts, lost), lost, done, segments[0].setup.modes


POWERS = np.arange(3)


def iterate_moments(problem: AbstractProblem, courses: Sequence[Course]) -> np.ndarray:
    """Return `Σ_i λ_i^k r_i(n)` for k = 0, 1, 2 at the ends of runs: the risk of w_n, `E ‖Hη‖²` and `E ηᵀH³η`.

    Args:
        problem: PowerLaw, LeastSquares or your own AbstractProblem.
        courses: S runs; their averages do not matter.

    Returns:
        (3, S), to about 1e-8 relative; nan where it exceeds the range of a float.
    """
    result = np.empty((POWERS.size, len(courses)))
    for place, course in enumerate(courses):
        last = replace(course, algorithm=replace(course.algorithm, average=LastIterate()))
        with np.errstate(all="ignore"):  # overflow and underflow are results here
            modes, shown = (
                delayed_last_of_modes(problem, last) if is_delayed(last.algorithm) else _of_modes(problem, last)
            )
            risk = shown[0] + problem.noise_variance * shown[1]
            result[:, place] = modes.eigenvalue ** POWERS[:, None] @ risk
    return np.where(np.isfinite(result), result, np.nan)


def _of_modes(problem: AbstractProblem, course: Course) -> tuple[Modes, np.ndarray]:
    """Return modes, and bias and variance (2, K) at σ² = 1 of w_n in each of them."""
    segments = segments_of_runs(problem, [course])
    own = propagate_all(initial_state(segments), segments).moments.own[:, 0]
    return segments[0].setup.modes, np.einsum("dijk,i,j->dk", own, *[segments[0].runs.output] * 2)
