"""Risks of nonlinear methods by their deterministic equivalents, at the end of a run and along it (THEORY.md T37)."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from sgdtheory.algorithms import Algorithm, Course, checked_algorithm, steps_of_shape
from sgdtheory.problems import AbstractProblem
from sgdtheory.risk.mean_field.coupled import CoupledField, coupled_run
from sgdtheory.risk.mean_field.ensemble import ensemble, steepest
from sgdtheory.risk.mean_field.registry import field_of
from sgdtheory.risk.mean_field.solver import TAIL, MeanField
from sgdtheory.risk.mean_field.stated_error import Doubts, Lasting
from sgdtheory.risk.systems.moments import Keeping
from sgdtheory.risk.thresholds import THRESHOLDS

LOST = 1.0  # relative error from which on it is stated as inf
LOOKS = 24  # numbers of steps, log-spaced, at which it is asked whether they do
SUMMED = 4096  # steps at which Σ γ_t is looked at


def checked_for_risk(algorithm: object) -> Algorithm:
    """`algorithm`, if there is a way to its risk.

    Raises:
        ValueError: it is none, or it can be simulated only.
    """
    found = checked_algorithm(algorithm, linear=False)
    if found.linear or (field_of(found.method) and found.clip_norm is None):
        return found
    return checked_algorithm(found)


class Seen(NamedTuple):
    """Risks of w_t and of the returned average after a number of steps of S runs, (2, S) each.

    Attributes:
        means, variances: what means and what variances hold of the risk.
        error: that is stated of their sum, relative.
    """

    means: np.ndarray
    variances: np.ndarray
    error: np.ndarray


def equivalent_risk(
    problem: AbstractProblem,
    courses: Sequence[Course],
    stops: np.ndarray,
    estimate: bool = True,
    tail: float = TAIL,
) -> Seen:
    """Risks after numbers of steps: (2, K, S) of the iterate and of what is returned.

    Args:
        problem: with finitely many directions, or a PowerLaw.
        courses: S of a method that has a field, alike but for γ; all take the modes and the panels that one needs.
        stops: (K,) numbers of steps, increasing.
        estimate: whether to look on the way for what makes errors larger, which takes half as long again.
        tail: of the risk on a panel, at most.

    Raises:
        ValueError: too many steps that have to be taken one by one.
    """
    looks = LOOKS if estimate else 0
    with np.errstate(all="ignore"):  # a run that diverges is data
        each = [list(_followed(run, courses[0], stops, looks)) for run in _runs(problem, courses, tail)]
    together = [Seen(*(np.concatenate(parts, axis=1) for parts in zip(*seen, strict=True))) for seen in zip(*each)]
    return Seen(*(np.stack(parts, axis=1) for parts in zip(*together, strict=True)))


def _followed(run: Any, course: Course, stops: np.ndarray, number: int) -> Iterator[Seen]:
    """Yield the risks at the stops of a MeanField or a CoupledRun."""
    average = course.algorithm.average
    kept = Keeping(average.forgetting(course.num_steps), average.weight(course.num_steps))
    state = run.with_sum(run.start()) if average.starts_at_iterate() else run.start()
    doubt = run.first_doubt()
    if 0 in stops:
        yield _seen(run, state, course, 0.0, doubt)
    looks = np.append(stops, np.round(np.geomspace(1, course.num_steps, number)))
    for low, high, smooth in _pieces(course, run.most_steps):
        averaged = low >= course.first_averaged
        keeping = kept if averaged else Keeping(0.0, 0.0)
        now = low
        for end in np.unique(np.append(looks[(looks > low) & (looks < high)], high)).tolist():
            before = state
            if smooth:
                state = run.crossed(state, keeping, now, end, (low, high))
            else:
                state = run.stepped(state, keeping, now, end)
            doubt = run.doubted(doubt, before, state, now, end, 1 - kept.forgetting if averaged else None)
            now = end
            if now in stops:
                yield _seen(run, state, course, now, doubt)


def _runs(problem: AbstractProblem, courses: Sequence[Course], tail: float) -> list[Any]:
    """One MeanField of all that differ in γ, or a CoupledRun of each."""
    course = courses[0]
    field = field_of(course.algorithm.method)
    assert field is not None, "checked_for_risk has let it pass"
    plateaus = bool(_plateaus(course).size)
    if isinstance(field, CoupledField):
        return [coupled_run(problem, each, plateaus, field) for each in courses]
    factors = tuple(each.rate / course.rate for each in courses)
    steps = np.unique(np.floor(np.linspace(0, course.num_steps - 1, int(min(course.num_steps, SUMMED)))))
    travel = float(course.rates(steps).mean() * course.num_steps)
    modes = ensemble(problem, max(factors) * travel, steepest(problem, course.batches(steps).max()))
    return [MeanField(modes, field, course, plateaus, factors, tail)]


def _pieces(course: Course, most: float) -> list[tuple[float, float, bool]]:
    """First steps and ends of what lies between kinks, and whether it is smooth.

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
    """First steps of runs of equal batch sizes; empty where they are so many that they are as good as smooth."""
    starts, _ = course.batch_runs
    return starts if starts.size <= THRESHOLDS.most_stages else np.zeros(0)


def _seen(run: Any, state: Any, course: Course, stop: float, doubt: Doubts | Lasting) -> Seen:
    """Return the risks of w_t and of the returned average."""
    own, total = course.algorithm.average.returned(stop, course.num_steps)
    error = run.field.error(stop, float(course.batches(np.array([max(stop - 1, 0)]))[0]))
    now, returned = (_one(run, state, doubt, weights, error) for weights in ((1.0, 0.0), (own, total)))
    return Seen(*(np.stack(each) for each in zip(now, returned, strict=True)))


def _one(run: Any, state: Any, doubt: Doubts | Lasting, weights: tuple[float, float], error: float) -> list[np.ndarray]:
    """Parts of the risk of a weighted iterate and sum, and its relative error, at least `error`, (S,) each.

    An error as large as the risk is stated as inf: a risk that may be next to nothing has no relative error. What has
    grown beyond the range of a float is inf, and so is its error.
    """
    mean, variance = run.held(state, *weights)
    means, variances = (np.atleast_1d(each.sum(axis=-1)) for each in (mean, variance))
    parts = [means + run.frozen, variances]
    total = sum(parts)
    lost = doubt.of(mean, variance, weights[1] != 0)
    relative = error + np.divide(lost, total, out=np.zeros_like(lost), where=lost > 0)
    grown = ~np.isfinite(total) & np.isfinite(weights).all()  # an average that has not begun is nan
    known = ~grown & ~(relative >= LOST) & np.isfinite(lost)
    return [*(np.where(grown, np.inf, each) for each in parts), np.where(known, relative, np.inf)]
