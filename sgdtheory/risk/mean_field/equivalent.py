"""Risks of nonlinear methods by their deterministic equivalents, at the end of a run and along it (THEORY.md T37)."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from sgdtheory.algorithms import Algorithm, Course, checked_algorithm, steps_of_shape
from sgdtheory.problems import AbstractProblem
from sgdtheory.risk.mean_field.coupled import CoupledField, coupled_run
from sgdtheory.risk.mean_field.ensemble import ensemble, steepest
from sgdtheory.risk.mean_field.panel_memory import PanelMemory
from sgdtheory.risk.mean_field.registry import field_of
from sgdtheory.risk.mean_field.solver import MeanField
from sgdtheory.risk.mean_field.stated_error import FieldErrors, LargestErrors
from sgdtheory.risk.systems.moments import Keeping
from sgdtheory.risk.thresholds import THRESHOLDS

# Relative errors from this one on are stated as inf: the risk may be next to nothing then.
LARGEST_STATED = 1.0
ERROR_UPDATES = 24  # The error of the closure is updated at this many numbers of steps, evenly spaced in log n.
RATE_SAMPLES = 4096  # The learning rate is evaluated at this many steps for Σ γ_t.


def checked_for_risk(algorithm: object) -> Algorithm:
    """Return the algorithm if its risk can be computed.

    Raises:
        ValueError: it is no algorithm, or it can only be simulated.
    """
    found = checked_algorithm(algorithm, linear=False)
    if found.linear or (field_of(found.method) and found.clip_norm is None):
        return found
    return checked_algorithm(found)


class FieldRisks(NamedTuple):
    """Risks of the iterate w_t and of the returned average of S runs at one number of steps, (2, S) each.

    Attributes:
        means, variances: contributions of the means and of the variances of all directions.
        error: stated relative error of their sum; nan where it is not estimated.
    """

    means: np.ndarray
    variances: np.ndarray
    error: np.ndarray


def equivalent_risk(
    problem: AbstractProblem,
    courses: Sequence[Course],
    stops: np.ndarray,
    estimate: bool = True,
    rough: bool = False,
    memory: PanelMemory | None = None,
) -> FieldRisks:
    """Return the risks after K numbers of steps, (2, K, S): of the iterate and of the returned average.

    Args:
        problem: a problem with finitely many directions, or a PowerLaw.
        courses: S runs of a method that has a field, which differ in γ alone and share modes and panels.
        stops: (K,) numbers of steps, increasing.
        estimate: whether to estimate the errors of the closure along the run, which takes half as long again.
        rough: whether risks need be right to 1e-5 only, for a search: panels are longer, and steps are compiled.
        memory: panels of the run before, in a search that computes one run after the other.

    Raises:
        ValueError: too many steps that have to be taken one by one.
    """
    with np.errstate(all="ignore"):  # a run that diverges is data
        runs = _runs(problem, courses, rough, memory)
        batches = [list(_risks_along(run, courses[0], stops, estimate)) for run in runs]
    by_stop = [
        FieldRisks(*(np.concatenate(parts, axis=1) for parts in zip(*risks, strict=True))) for risks in zip(*batches)
    ]
    return FieldRisks(*(np.stack(parts, axis=1) for parts in zip(*by_stop, strict=True)))


def _risks_along(run: Any, course: Course, stops: np.ndarray, estimate: bool) -> Iterator[FieldRisks]:
    """Yield the risks at the stops of a MeanField or a CoupledRun."""
    average = course.algorithm.average
    kept = Keeping(average.forgetting(course.num_steps), average.weight(course.num_steps))
    state = run.with_sum(run.start()) if average.starts_at_iterate() else run.start()
    error = run.initial_error() if estimate else None
    if 0 in stops:
        yield _risks(run, state, course, 0.0, error)
    # A run is interrupted where a risk is asked for, and where the error of the closure is brought up to date.
    updates = np.append(stops, np.round(np.geomspace(1, course.num_steps, ERROR_UPDATES if estimate else 0)))
    for low, high, smooth in _segments(course, run.most_steps):
        averaged = low >= course.first_averaged
        keeping = kept if averaged else Keeping(0.0, 0.0)
        now = low
        for end in np.unique(np.append(updates[(updates > low) & (updates < high)], high)).tolist():
            before = state
            if smooth:
                state = run.propagated(state, keeping, now, end, (low, high))
            else:
                state = run.stepped(state, keeping, now, end)
            if error is not None:
                error = run.propagated_error(error, before, state, now, end, 1 - kept.forgetting if averaged else None)
            now = end
            if now in stops:
                yield _risks(run, state, course, now, error)


def _runs(problem: AbstractProblem, courses: Sequence[Course], rough: bool, memory: PanelMemory | None) -> list[Any]:
    """Return one MeanField of all runs, which differ in γ alone, or a CoupledRun of each."""
    course = courses[0]
    field = field_of(course.algorithm.method)
    assert field is not None, "checked_for_risk has let it pass"
    plateaus = bool(_plateaus(course).size)
    if isinstance(field, CoupledField):
        return [coupled_run(problem, each, plateaus, field) for each in courses]
    factors = tuple(each.rate / course.rate for each in courses)
    steps = np.unique(np.floor(np.linspace(0, course.num_steps - 1, int(min(course.num_steps, RATE_SAMPLES)))))
    rate_sum = max(factors) * float(course.rates(steps).mean() * course.num_steps)
    slope = steepest(problem, course.batches(steps).max())
    if memory is not None:
        farthest = float(2.0 ** np.ceil(np.log2(rate_sum * slope)))  # Similar runs share their modes.
        rate_sum = farthest / slope
        memory.begin(course.rate, course.num_steps, farthest)
    modes = ensemble(problem, rate_sum, slope)
    return [MeanField(modes, field, course, plateaus, factors, rough, memory)]


def _segments(course: Course, most: float) -> list[tuple[float, float, bool]]:
    """Return the segments between kinks: first step, end, and whether the coefficients are smooth in the step.

    Raises:
        ValueError: more steps than can be taken one by one.
    """
    shapes = course.algorithm.schedule, course.algorithm.batch_schedule
    smooth = all(shape.smooth for shape in shapes)
    if not smooth and course.num_steps > most:
        raise ValueError(
            f"algorithm must be smooth or staged: {course.num_steps:.3g} steps would have to be taken one by one (at "
            f"most {most:.3g}); take fewer samples or a smooth shape"
        )
    edges = {0.0, course.first_averaged, course.num_steps}
    if smooth:
        edges |= {edge for shape in shapes for edge in steps_of_shape(shape, course.num_steps)}
        edges |= set(_plateaus(course).tolist())
    return [(low, high, smooth) for low, high in pairwise(sorted(edges)) if high > low]


def _plateaus(course: Course) -> np.ndarray:
    """Return the first steps of runs of equal batch sizes; none if there are so many that batch sizes are smooth."""
    starts, _ = course.batch_runs
    return starts if starts.size <= THRESHOLDS.most_stages else np.zeros(0)


def _risks(run: Any, state: Any, course: Course, stop: float, error: FieldErrors | LargestErrors | None) -> FieldRisks:
    """Return the risks of w_t and of the returned average."""
    own, total = course.algorithm.average.returned(stop, course.num_steps)
    least = run.field.error(stop, float(course.batches(np.array([max(stop - 1, 0)]))[0]))
    now, returned = (_risk(run, state, error, weights, least) for weights in ((1.0, 0.0), (own, total)))
    return FieldRisks(*(np.stack(parts) for parts in zip(now, returned, strict=True)))


def _risk(
    run: Any, state: Any, error: FieldErrors | LargestErrors | None, weights: tuple[float, float], least: float
) -> list[np.ndarray]:
    """Return the parts of the risk of a weighted iterate and sum, and its relative error, at least `least`, (S,) each.

    An error as large as the risk is stated as inf, because a risk that may be next to nothing has no relative error. A
    risk that has grown beyond the range of a float is inf, and so is its error.
    """
    mean, variance = run.contributions(state, *weights)
    means, variances = (np.atleast_1d(part.sum(axis=-1)) for part in (mean, variance))
    parts = [means + run.frozen, variances]
    total = sum(parts)
    grown = ~np.isfinite(total) & np.isfinite(weights).all()  # an average that has not begun is nan
    parts = [np.where(grown, np.inf, part) for part in parts]
    if error is None:
        return [*parts, np.full_like(total, np.nan)]
    absolute = error.of(mean, variance, weights[1] != 0)
    relative = least + np.divide(absolute, total, out=np.zeros_like(absolute), where=absolute > 0)
    known = ~grown & ~(relative >= LARGEST_STATED) & np.isfinite(absolute)
    return [*parts, np.where(known, relative, np.inf)]
