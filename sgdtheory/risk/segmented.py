"""Runs of linear methods from segment to segment, to their ends (THEORY.md T20–T25).

A run is divided into segments without a kink inside (`systems.runs`), which are propagated one after the other
(`propagate`). Runs of one algorithm that are about as long are propagated side by side, so that they share the fixed
cost of a step or of a panel.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from sgdtheory.algorithms import Course
from sgdtheory.problems import AbstractProblem, Modes
from sgdtheory.risk.propagate import constant_ends, propagate, to_first_panel
from sgdtheory.risk.requests import Request, RunRisks
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
from sgdtheory.risk.solvers.contour import (
    FINE,
    ROUGH,
    Resolution,
    modes_within,
    resolution_within,
    smallest_resolved,
)
from sgdtheory.risk.solvers.phases import largest_shared, phases
from sgdtheory.risk.solvers.spectrum import displacement
from sgdtheory.risk.systems.moments import Ends, Moments, at_runs, ends, returned_risk, returned_size, start
from sgdtheory.risk.systems.runs import (
    Propagated,
    Runs,
    Segment,
    Setup,
    continued,
    largest_rate,
    propagated,
    segment_ends,
    size_after,
    with_started_average,
)
from sgdtheory.risk.thresholds import THRESHOLDS

# At most this many modes times runs are propagated side by side: with more, the moments leave a core's cache
# (benchmarks.algorithms).
MODES_AT_ONCE = 5000
# Closed forms take at most this many, because they divide them into portions of their own.
MODES_IN_CLOSED_FORM = 20_000
MOST_RUNS_AT_ONCE = 64  # A spectrum of few modes fills the cache with more runs than this, which gain nothing.
GROWN = 1e6  # A risk that has grown by this factor states at least GROWN_ERROR.
# In 2,000 random runs, which grew by up to 1e156, the error of closed forms was at most 1.2e-8. That of panels may be
# larger and is stated by them.
GROWN_ERROR = 3e-8
# A part that is below 0 by more than this share of what there was at the start is not rounded but lost.
ROUNDED_BELOW_0 = 1e-6


def segmented_risks(request: Request) -> RunRisks:
    """Return the risks of S runs of one linear algorithm at their ends."""
    courses = request.courses()
    number = len(courses)
    resolution = resolution_within(request.tolerance)
    result = RunRisks(np.empty((2, number)), np.zeros(number), np.zeros(number, dtype=bool))
    for indices, by_steps in _batches_of_runs(request, courses, resolution):
        group = [courses[index] for index in indices]
        run_ends = _run_to_ends(request, group, resolution, by_steps)
        result.parts[:, indices], lost = _risks(request.problem, run_ends, group)
        result.approximated[indices] = run_ends.approximated
        if request.estimate:
            result.error[indices] = _errors(request, run_ends, group, result.parts[:, indices], lost)
    return result


def segments_of_runs(
    problem: AbstractProblem,
    courses: Sequence[Course],
    resolution: Resolution = FINE,
    compiled_from: float = THRESHOLDS.compiled_from,
    stops: Sequence[float] = (),
    stable: bool = False,
    modes: Modes | None = None,
    summed: bool = False,
) -> list[Segment]:
    """Return the segments of S runs of one algorithm, the same number for each; a single run may have stops inside."""
    assert len(courses) == 1 or not stops, "points are those of a single run"
    runs = Runs.of(courses)
    modes = modes or _modes(problem, courses, resolution, bool(stops))
    setup = Setup(modes, problem.noise_variance, resolution, compiled_from, stable, summed)
    begins = runs.first_averaged
    result = []
    averaging = False
    for low, high in np.moveaxis(np.array(segment_ends(runs)), 0, -1):
        # An average begins with a segment of its own: no segment keeps a sum for a part of its steps.
        begin = bool((low == begins).all())
        averaging |= begin
        inside = tuple(sorted({float(stop) for stop in stops if low[0] < stop <= high[0]}))
        result.append(Segment(setup, runs, low, high, low, runs.keeping() if averaging else None, inside, begin))
    return result


def initial_state(segments: Sequence[Segment]) -> Propagated:
    """Return the state at the start, before the first segment."""
    first = segments[0]
    return propagated(start(first.runs.algorithm.method, first.setup.modes, first.low.size))


def propagate_all(done: Propagated, segments: Sequence[Segment], by_steps: bool = False) -> Propagated:
    """Propagate a state through all of these segments."""
    for segment in segments:
        after = propagate(with_started_average(done.moments, segment), segment, by_steps)
        done = continued(done, after, segment)
    return done


class PanelStart(NamedTuple):
    """State of S runs where panels begin: the number of the segment, the moments on these modes, and the steps (S,)."""

    segment: int
    modes: Modes
    moments: Moments
    step: np.ndarray

    def select(self, indices: np.ndarray) -> "PanelStart":
        """Return the state of some of the runs."""
        return PanelStart(self.segment, self.modes, at_runs(self.moments, indices), self.step[indices])


class RunEnds(NamedTuple):
    """State of S runs at their ends.

    Attributes:
        ends: sums of the moments over the modes.
        modes: of the spectrum.
        approximated: (S,) whether panels were used.
        panel_start: where panels begin, which is the same at every resolution on the same modes; None without panels.
        near: (S,) whether runs were near the stability threshold, as in `Propagated`.
    """

    ends: Ends
    modes: Modes
    approximated: np.ndarray
    panel_start: PanelStart | None
    near: Any


def _run_to_ends(
    request: Request,
    courses: Sequence[Course],
    resolution: Resolution,
    by_steps: bool = False,
    panel_start: PanelStart | None = None,
) -> RunEnds:
    """Propagate S runs with the same number of segments to their ends, from the start or from where panels begin.

    The state where panels begin is kept if an estimate of the error is requested.
    """
    with np.errstate(all="ignore"):  # overflow and underflow are results here
        modes = panel_start and panel_start.modes
        options = {"stable": request.stable, "summed": request.summed, "modes": modes}
        segments = segments_of_runs(request.problem, courses, resolution, request.compiled_from, **options)
        modes = segments[0].setup.modes
        done = initial_state(segments)
        if panel_start is not None:
            segments = segments[panel_start.segment :]
            segments[0] = segments[0].between(panel_start.step, segments[0].high)
            done = propagated(panel_start.moments)
        for number, segment in enumerate(segments):
            moments = with_started_average(done.moments, segment)
            # At the end of a run sums over the modes are enough: a closed form has them in less time than the moments.
            if segment is segments[-1] and not by_steps and (ended := constant_ends(moments, segment)):
                sums, near = ended
                if np.any(done.size):
                    sums = sums._replace(size=size_after(done, sums, segment))
                return RunEnds(sums, modes, done.approximated, panel_start, np.maximum(done.near, near))
            # The error of panels is estimated on panels of a lower order, which need not repeat the steps before them.
            keeps_start = request.estimate and panel_start is None and not by_steps
            if keeps_start and (begin := to_first_panel(moments, segment)):
                moments, segment = begin
                panel_start = PanelStart(number, segment.setup.modes, moments, segment.low)
            after = propagate(moments, segment, by_steps)
            done = continued(done, after, segment)
        sums = ends(done.moments, segments[0].runs.output, done.size)
        return RunEnds(sums, modes, done.approximated, panel_start, done.near)


def _modes(problem: AbstractProblem, courses: Sequence[Course], resolution: Resolution, stops: bool = False) -> Modes:
    """Return the modes with which sums over directions hold along all of these runs.

    Moments of methods with more than one vector may oscillate in λ, which modes that several directions share resolve.
    """
    method = courses[0].algorithm.method
    reach = _reach(courses)
    modes = modes_within(reach, problem, resolution.modes, decaying=method.vectors == 1)
    low = max(smallest_resolved(reach), float(modes.eigenvalue.min()))
    high = largest_shared(modes) if len(method.start) > 1 else 0.0
    if high <= low:
        return modes
    edges = [[0.0, *(end for _, end in each)] for each in segment_ends(Runs.of(courses))]
    turned = phases(courses, edges, low, high, stops, quiet=problem.noise_variance == 0)
    return modes if turned is None else problem.oscillating_modes(turned, smallest_resolved(reach), resolution.modes)


def _reach(courses: Sequence[Course]) -> float:
    """Return nγ, or how far a unit gradient moves a weight, in the longest of these runs."""
    course = max(courses, key=lambda course: course.num_steps * course.rate)
    return displacement(course.algorithm.method, largest_rate(course), course.num_steps)


def _batches_of_runs(
    request: Request, courses: Sequence[Course], resolution: Resolution
) -> Iterator[tuple[list[int], bool]]:
    """Yield indices of runs that are propagated side by side, and whether every step is taken.

    The runs of a batch have the same number of segments, and their averages begin in the same segment.
    """
    compiled = request.compiled_from <= THRESHOLDS.together_smooth
    smooth = THRESHOLDS.together_compiled if compiled else THRESHOLDS.together_smooth
    algorithm = request.algorithm
    most_by_steps = THRESHOLDS.together if algorithm.constant else smooth
    if len(courses) < 2:  # A single run is stepped through only if its loop is compiled.
        yield from [([0], compiled and THRESHOLDS.together < course.num_steps <= most_by_steps) for course in courses]
        return
    closed = algorithm.constant and algorithm.method.step_dependence == "none"
    # Moments that oscillate in λ need about as many modes as those that do not.
    decaying = algorithm.method.vectors == 1
    num_modes = modes_within(_reach(courses), request.problem, resolution.modes, decaying=decaying).eigenvalue.size
    alike: dict[tuple[Any, ...], list[int]] = {}
    segment_lists = segment_ends(Runs.of(courses))
    for place in sorted(range(len(courses)), key=lambda place: courses[place].num_steps):
        course = courses[place]
        starts = [low for low, _ in segment_lists[place]]
        begin = starts.index(course.first_averaged) if course.first_averaged in starts else -1
        by_steps = course.num_steps <= most_by_steps
        alike.setdefault((by_steps, len(starts), begin), []).append(place)
    for (by_steps, *_), indices in alike.items():
        size = MODES_IN_CLOSED_FORM if closed and not by_steps else min(MODES_AT_ONCE, MOST_RUNS_AT_ONCE * num_modes)
        size = max(size // num_modes, 1)
        if closed and not by_steps:  # no more modes than a batch needs
            indices.sort(key=lambda place: courses[place].num_steps * courses[place].rate)
        for first in range(0, len(indices), size):
            yield indices[first : first + size], by_steps


def _errors(
    request: Request, result: RunEnds, courses: Sequence[Course], parts: np.ndarray, lost: np.ndarray
) -> np.ndarray:
    """Return bounds (S,) of the relative errors of parts (2, S), of which rounding has `lost` so much.

    The error of panels is the change on panels of a lower order. Near the stability threshold the bound is the change
    for a γ that is moved by its rounding. Runs that have grown far state GROWN_ERROR, because closed forms lose digits
    then; a risk of inf has the error inf.
    """
    problem = request.problem
    again = request._replace(estimate=False, stable=False, summed=False)
    total = parts.sum(0)
    begin = float(result.modes.signal.sum()) + problem.noise_variance
    error = np.where(np.isinf(total), np.inf, np.where(total > GROWN * begin, GROWN_ERROR, 0.0))
    # Terms that cancel in the sums leave their rounding.
    error = np.maximum(error, stated_rounding(parts, lost, begin))
    error = np.maximum(error, unresolved_oscillation(parts, result.modes))
    near = near_threshold(problem, courses, result.near)
    for sideways in (False, True):
        indices = np.flatnonzero(near if sideways else result.approximated & ~near)
        if not indices.size:
            continue
        group = [courses[place] for place in indices.tolist()]
        panel_start = None
        if sideways:
            group = [shaken(course) for course in group]
        elif result.panel_start:
            panel_start = result.panel_start.select(indices)
        # Panels of a lower order, or γ moved by its rounding: in both cases the change is the error.
        rougher, _ = _risks(problem, _run_to_ends(again, group, ROUGH, panel_start=panel_start), group)
        each = change(parts[:, indices], rougher)
        error[indices] = np.maximum(error[indices], np.where(result.approximated[indices], each, worth_stating(each)))
    return error


def _risks(problem: AbstractProblem, result: RunEnds, courses: Sequence[Course]) -> tuple[np.ndarray, np.ndarray]:
    """Return bias and variance (2, S) of the returned weights, in units of y², and bounds of their rounding errors."""
    units = np.array([[1.0], [problem.noise_variance]])
    begin = np.array([[result.modes.signal.sum()], [1.0]])
    average = courses[0].algorithm.average
    with np.errstate(all="ignore"):
        shares = [average.returned(course.num_steps, course.num_steps) for course in courses]
        parts = returned_risk(result.ends, shares)
        # inf − inf beyond the range of a float, or a panel whose nodes lose moments that have grown: the risk is large.
        lost = ~np.isfinite(parts) | (parts < -ROUNDED_BELOW_0 * begin)
        parts = np.where(lost, np.inf, np.maximum(parts, 0.0))
        errors = rounding(returned_size(result.ends, shares))
        parts, errors = (np.where(units > 0, units * each, 0.0) for each in (parts, errors))
        return bounded(parts, errors), errors
