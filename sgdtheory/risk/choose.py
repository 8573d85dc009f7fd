"""The choice of a solver for the risk of runs at their ends (THEORY.md T20–T25): the map of this subpackage.

`kind_of` names the five kinds of runs, and `SOLVERS` has a function for each kind:

- "averaged": averaged SGD with constant steps has a closed form of its own (`solvers.averaged_sgd`);
- "segments": other linear methods are propagated from segment to segment (`segmented`);
- "delayed": long or random delays keep lagged products instead of vectors (`solvers.delayed_runs`);
- "mean_field": methods that are not linear have deterministic equivalents (`mean_field.equivalent`);
- "sample": epochs over a finite sample are a mean path and a plain problem of their own (`systems.finite_sample`).

The numbers of steps from which on one solver follows another stand in `thresholds`.
"""

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

import numpy as np

from sgdtheory._common.allocator import keep_freed_memory
from sgdtheory.algorithms import DEFAULT, Algorithm, Course
from sgdtheory.problems import AbstractProblem, FiniteSampleProblem, TrainingProblem
from sgdtheory.risk.mean_field.equivalent import equivalent_risk
from sgdtheory.risk.requests import Request, RunRisks
from sgdtheory.risk.rounding import change, moved, sensitive, worth_stating
from sgdtheory.risk.segmented import segmented_risks
from sgdtheory.risk.solvers.averaged_sgd import risk_parts
from sgdtheory.risk.solvers.delayed_runs import delayed_parts, is_delayed
from sgdtheory.risk.systems.finite_sample import is_one_pass, sample_risks
from sgdtheory.risk.thresholds import THRESHOLDS

COMPILED_FROM = THRESHOLDS.compiled_from  # Searches that repeat an algorithm ask for the compiled loop earlier.
ROUGH_EQUIVALENTS = 1e-5  # Searches that allow this relative error get longer panels of a mean field.


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


def _averaged(request: Request) -> np.ndarray:
    """Return bias and variance (2, S) of averaged SGD with constant steps."""
    problem, _, *settings = request[:5]
    return risk_parts(problem, *settings, tolerance=request.tolerance, stable=request.stable)


def _delayed(request: Request) -> np.ndarray:
    """Return bias and variance (2, S) of runs with long or random delays."""
    return delayed_parts(request.problem, request.courses(), request.tolerance)


def _exact(parts_of: Callable[[Request], np.ndarray], request: Request) -> RunRisks:
    """Return the risks of a solver whose only errors are those of rounding.

    Args:
        parts_of: computes bias and variance (2, S).
        request: S runs.
    """
    parts = parts_of(request)
    error = np.where(request.estimate & np.isinf(parts.sum(0)), np.inf, 0.0)
    if request.estimate and (near := np.flatnonzero(sensitive(*request[:5]))).size:
        # Next to the stability threshold, the change of a risk whose γ is moved by its rounding bounds this rounding.
        problem, algorithm, batch, rate, steps = request[:5]
        again = Request(problem, algorithm, batch[near], moved(rate[near], algorithm), steps[near], request.rounded)
        error[near] = np.maximum(error[near], worth_stating(change(parts[:, near], parts_of(again))))
    return RunRisks(parts, error, np.zeros(error.size, dtype=bool))


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
    once = np.array([is_one_pass(problem, course) for course in courses], dtype=bool)
    options = {"tolerance": request.tolerance, "estimate": request.estimate, "compiled_from": request.compiled_from}
    result = RunRisks(np.empty((2, once.size)), np.zeros(once.size), np.ones(once.size, dtype=bool))
    if (indices := np.flatnonzero(once)).size:
        settings = (each[indices] for each in request[2:5])
        one_pass = run_risks(problem.problem, request.algorithm, *settings, rounded=request.rounded, **options)
        for whole, part in zip(result, one_pass, strict=True):
            whole[..., indices] = part
    if (indices := np.flatnonzero(~once)).size:
        repeated = [courses[index] for index in indices.tolist()]
        solve = partial(run_risks, rounded=False, **options)
        result.parts[:, indices], result.error[indices] = sample_risks(problem, repeated, solve, request.estimate)
    return result


SOLVERS: dict[str, Callable[[Request], RunRisks]] = {
    "averaged": partial(_exact, _averaged),
    "segments": segmented_risks,
    "delayed": partial(_exact, _delayed),
    "mean_field": _mean_field,
    "sample": _sample,
}
