"""The choice of a solver for the risk of runs at their ends (THEORY.md T20–T25): the map of this subpackage.

`kind_of` names the five kinds of runs, and `SOLVERS` has a function for each kind:

- "averaged": averaged SGD with constant steps has a closed form of its own (`solvers.averaged_sgd`);
- "segments": other linear methods are propagated from segment to segment (`segmented`);
- "delayed": long or random delays keep lagged products instead of vectors (`solvers.delayed_runs`);
- "mean_field": methods that are not linear have deterministic equivalents (`mean_field.equivalent`);
- "sample": epochs over a finite sample are a mean path and a plain problem of their own (`systems.finite_sample`).

The numbers of steps from which on one solver follows another stand in `thresholds`.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from sgdtheory._common.allocator import keep_freed_memory
from sgdtheory.algorithms import DEFAULT, Algorithm, Course
from sgdtheory.problems import AbstractProblem, FiniteSampleProblem, TrainingProblem
from sgdtheory.risk.mean_field.equivalent import equivalent_risk
from sgdtheory.risk.mean_field.panel_memory import PanelMemory
from sgdtheory.risk.rounding import change, moved, near_threshold, sensitive, shaken, worth_stating
from sgdtheory.risk.segmented import segmented_risks
from sgdtheory.risk.solvers.averaged_sgd import risk_parts
from sgdtheory.risk.solvers.contour import resolution_within
from sgdtheory.risk.solvers.delayed_runs import delayed_parts, is_delayed
from sgdtheory.risk.systems.finite_sample import is_one_pass, sample_risks, settings_of
from sgdtheory.risk.thresholds import THRESHOLDS

COMPILED_FROM = THRESHOLDS.compiled_from  # Searches that repeat an algorithm ask for the compiled loop earlier.
ROUGH_EQUIVALENTS = 1e-5  # Searches that allow this relative error get longer panels of a mean field.


class RunRisks(NamedTuple):
    """Risks of S runs, units of y².

    Attributes:
        parts: (2, S) bias and variance.
        error: (S,) bounds of the relative errors of their sums.
        approximated: (S,) whether panels or equivalents were used.
    """

    parts: np.ndarray
    error: np.ndarray
    approximated: np.ndarray


class Request(NamedTuple):
    """Risks that are asked for: S runs of one algorithm, and how accurate they have to be.

    Attributes:
        problem: its spectrum.
        algorithm: the algorithm of all runs.
        batch, rate, steps: (S,) peak B, peak γ and n.
        rounded: whether batch sizes are rounded on the way.
        tolerance: the relative error that a search allows: 0, 1e-8 or 1e-5.
        estimate: whether errors are bounded, which takes about as long again where they are not 0.
        stable: whether no second moment is known to grow by more than e in n steps, which spares a search.
        compiled_from: so many single steps or more are taken in a compiled loop, which a first call has to compile.
        summed: whether the sum of both parts is enough, which takes less time: the bias may hold all of it.
        memory: panels of the run before of a nonlinear method, in a search; its runs are computed one after the other.
    """

    problem: AbstractProblem
    algorithm: Algorithm
    batch: np.ndarray
    rate: np.ndarray
    steps: np.ndarray
    rounded: bool = True
    tolerance: float = 0.0
    estimate: bool = True
    stable: bool = False
    compiled_from: float = COMPILED_FROM
    summed: bool = False
    memory: PanelMemory | None = None

    def courses(self) -> list[Course]:
        """Return the S runs."""
        settings = zip(self.batch.tolist(), self.rate.tolist(), self.steps.tolist(), strict=True)
        return [Course(self.algorithm, *setting, rounded=self.rounded) for setting in settings]


def run_risks(
    problem: AbstractProblem,
    algorithm: Algorithm,
    batch: np.ndarray,
    rate: np.ndarray,
    steps: np.ndarray,
    **options: Any,
) -> RunRisks:
    """Return the risks of S runs at their ends.

    Args:
        problem: its spectrum.
        algorithm: the algorithm of all runs.
        batch, rate, steps: (S,) peak B, peak γ and n.
        options: the other attributes of a `Request`.
    """
    keep_freed_memory()
    request = Request(problem, algorithm, batch, rate, steps, **options)
    return SOLVERS[kind_of(problem, algorithm=algorithm)](request)


def course_risk(problem: AbstractProblem, course: Course, **options: Any) -> RunRisks:
    """Return the risk of one run: `run_risks` with parts (2,) and numbers."""
    settings = (np.array([each]) for each in (course.batch, course.rate, course.num_steps))
    result = run_risks(problem, course.algorithm, *settings, rounded=course.rounded, **options)
    return RunRisks(*(each[..., 0] for each in result))


def kind_of(problem: AbstractProblem, *, algorithm: Algorithm = DEFAULT) -> str:
    """Return the kind of runs of an algorithm on a problem, a key of `SOLVERS`."""
    if isinstance(problem, FiniteSampleProblem):
        return "sample"
    if not algorithm.linear:
        return "mean_field"
    # The noise of a training problem follows another loss than the one that is returned, so it has no closed form here.
    if algorithm == DEFAULT and not isinstance(problem, TrainingProblem):
        return "averaged"
    return "delayed" if is_delayed(algorithm) else "segments"


def _averaged(request: Request) -> RunRisks:
    """Return the risks of averaged SGD with constant steps."""
    problem, algorithm, batch, rate, steps = request[:5]
    parts = risk_parts(problem, batch, rate, steps, tolerance=request.tolerance, stable=request.stable)
    if not request.estimate:
        return _exact(parts)

    def again(indices: np.ndarray) -> np.ndarray:
        return risk_parts(problem, batch[indices], moved(rate[indices], algorithm), steps[indices])

    return _exact(parts, sensitive(problem, algorithm, batch, rate, steps), again)


def _delayed(request: Request) -> RunRisks:
    """Return the risks of runs with long or random delays."""
    problem, courses = request.problem, request.courses()
    parts = delayed_parts(problem, courses, request.tolerance)
    if not request.estimate:
        return _exact(parts)

    def again(indices: np.ndarray) -> np.ndarray:
        return delayed_parts(problem, [shaken(courses[index]) for index in indices.tolist()])

    return _exact(parts, near_threshold(problem, courses), again)


def _exact(
    parts: np.ndarray, near: np.ndarray | None = None, again: Callable[[np.ndarray], np.ndarray] | None = None
) -> RunRisks:
    """Return exact parts (2, S), whose only errors are those of rounding.

    Args:
        parts: bias and variance.
        near: (S,) runs whose risk may depend on the rounding of γ; None if no error is asked for.
        again: computes the parts of some runs with γ moved by its rounding.
    """
    exact = np.zeros(parts.shape[1], dtype=bool)
    error = np.zeros(parts.shape[1])
    if near is not None and again is not None:
        error = np.where(np.isinf(parts.sum(0)), np.inf, error)
        if (indices := np.flatnonzero(near)).size:
            rounding = worth_stating(change(parts[:, indices], again(indices)))
            error[indices] = np.maximum(error[indices], rounding)
    return RunRisks(parts, error, exact)


def _segments(request: Request) -> RunRisks:
    """Return the risks of other linear methods, from segment to segment."""
    resolution = resolution_within(request.tolerance)
    options = request.compiled_from, request.estimate, request.stable, request.summed
    return RunRisks(*segmented_risks(request.problem, request.courses(), resolution, *options))


def _mean_field(request: Request) -> RunRisks:
    """Return the risks of methods that are not linear: the parts are those of means and variances.

    Where a search allows it, runs that differ in γ alone go side by side on longer panels. They share modes and panels,
    so that each risk depends a little on the other runs that are asked for.
    """
    courses = request.courses()
    alike: dict[Hashable, list[int]] = {}
    rough = request.tolerance >= ROUGH_EQUIVALENTS
    for index, course in enumerate(courses):
        key = (course.batch, course.num_steps) if rough and request.memory is None else index
        alike.setdefault(key, []).append(index)
    result = np.empty((3, len(courses)))
    for indices in alike.values():
        group = [courses[index] for index in indices]
        end = np.array([group[0].num_steps])
        at_end = equivalent_risk(request.problem, group, end, request.estimate, rough, request.memory)
        result[:, indices] = [part[1, 0] for part in at_end]
    return RunRisks(result[:2], result[2], np.ones(len(courses), dtype=bool))


def _sample(request: Request) -> RunRisks:
    """Return the risks of epochs over a finite sample.

    As long as no row is seen twice, the mean over samples is the risk of the plain problem.
    """
    problem = request.problem
    assert isinstance(problem, FiniteSampleProblem), "kind_of has asked for it"
    courses = request.courses()
    number = len(courses)
    result = RunRisks(np.empty((2, number)), np.zeros(number), np.zeros(number, dtype=bool))
    once = np.array([is_one_pass(problem, course) for course in courses], dtype=bool)

    def solve(plain: AbstractProblem, *settings: Any, rounded: bool = request.rounded) -> RunRisks:
        options = {"tolerance": request.tolerance, "estimate": request.estimate}
        return run_risks(plain, *settings, rounded=rounded, compiled_from=request.compiled_from, **options)

    for indices in (np.flatnonzero(once), np.flatnonzero(~once)):
        if not indices.size:
            continue
        group: Sequence[Course] = [courses[index] for index in indices.tolist()]
        if once[indices[0]]:
            one = solve(problem.problem, request.algorithm, *settings_of(group))
        else:
            one = RunRisks(*sample_risks(problem, group, solve, request.estimate), np.ones(indices.size, dtype=bool))
        for whole, part in zip(result, one, strict=True):
            whole[..., indices] = part
    return result


SOLVERS: dict[str, Callable[[Request], RunRisks]] = {
    "averaged": _averaged,
    "segments": _segments,
    "delayed": _delayed,
    "mean_field": _mean_field,
    "sample": _sample,
}
