"""The exact risk of runs of any algorithm at their ends (THEORY.md T20–T25): the one place that chooses how.

Averaged SGD with constant steps has a closed form of its own (`exact`). All other runs travel piece by piece; those of
one algorithm that are about as long travel side by side, so that what a step or a panel costs beside its numbers is
shared.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from sgdtheory._common.allocator import keep_freed_memory
from sgdtheory.algorithms import DEFAULT, Algorithm, Course
from sgdtheory.problems import AbstractProblem, FiniteSampleProblem, Modes, TrainingProblem
from sgdtheory.risk.mean_field.equivalent import equivalent_risk
from sgdtheory.risk.mean_field.solver import ROUGH_TAIL, TAIL
from sgdtheory.risk.propagate import before_panels, constant_ends, cross
from sgdtheory.risk.rounding import (
    bounded,
    change,
    moved,
    near_threshold,
    rounding,
    sensitive,
    shaken,
    stated_rounding,
    worth_stating,
)
from sgdtheory.risk.solvers.averaged_sgd import risk_parts
from sgdtheory.risk.solvers.contour import CONTOUR_RESOLVED, FINE, LARGEST_REACH, ROUGH, Resolution, resolution_within
from sgdtheory.risk.solvers.delayed_runs import is_late, late_parts
from sgdtheory.risk.solvers.spectrum import displacement
from sgdtheory.risk.systems.finite_sample import is_one_pass, sample_risks, settings_of
from sgdtheory.risk.systems.moments import Ends, Moments, at_runs, ends, returned_risk, returned_size, start
from sgdtheory.risk.systems.runs import Crossed, Ground, Piece, Runs, begun, crossed, onward, size_after, ways

# Steps: runs that are no longer are stepped through side by side,
TOGETHER = 128.0  # sooner done than closed forms,
TOGETHER_SMOOTH = 400.0  # than panels, where steps are taken in NumPy,
TOGETHER_COMPILED = 4096.0  # and where they are compiled.
MODES_TOGETHER = 5000  # modes times runs side by side: their moments stay in a core's cache,
CLOSED_TOGETHER = 20_000  # and where closed forms take portions of them
RUNS_TOGETHER = 64  # with few modes
COMPILED_FROM = 4096.0  # steps: fewer take less time in NumPy than compiling the loop
GROWN = 1e6  # times what there was: a risk of which
GROWN_ERROR = 3e-8  # is the error that is stated; 1.2e-8 at most in 2,000 random runs, up to 1e156
ROUGH_EQUIVALENTS = 1e-5  # relative error of those on longer panels
ROUNDED_BELOW_0 = 1e-6  # of what there is at the start: a part this far below 0 has not been rounded, but lost


class RunRisks(NamedTuple):
    """Of S runs: bias and variance in units of y², bounds of the relative errors of their sums, use of panels.

    Arrays (2, S), (S,) and (S,).
    """

    parts: np.ndarray
    error: np.ndarray
    approximated: np.ndarray


def run_risks(
    problem: AbstractProblem,
    algorithm: Algorithm,
    batch: np.ndarray,
    rate: np.ndarray,
    steps: np.ndarray,
    *,
    rounded: bool = True,
    tolerance: float = 0.0,
    estimate: bool = True,
    stable: bool = False,
    compiled_from: float = COMPILED_FROM,
) -> RunRisks:
    """The risks of S runs at their ends.

    Args:
        problem: its spectrum.
        algorithm: what is run.
        batch, rate, steps: (S,) peak B, peak γ and n.
        rounded: whether batch sizes are rounded on the way.
        tolerance: relative error that searches allow: 1e-5, or 1e-8, is sooner done than 0.
        estimate: whether to bound the errors, which takes about as long again where they are not 0.
        stable: whether no second moment grows by more than e in n steps, which spares a search.
        compiled_from: so many single steps or more are taken in a compiled loop, which a first call has to compile.
    """
    keep_freed_memory()
    nothing = np.zeros(batch.size)
    if isinstance(problem, FiniteSampleProblem):
        options = {"tolerance": tolerance, "estimate": estimate, "compiled_from": compiled_from}
        courses = _courses(algorithm, batch, rate, steps, rounded)
        return _of_sample(problem, courses, partial(run_risks, **options), rounded, estimate)
    if algorithm == DEFAULT and not isinstance(problem, TrainingProblem):
        parts = risk_parts(problem, batch, rate, steps, tolerance=tolerance, stable=stable)
        error = nothing
        if estimate:
            error = np.where(np.isinf(parts.sum(0)), np.inf, 0.0)
            if (places := np.flatnonzero(sensitive(problem, algorithm, batch, rate, steps))).size:
                other = risk_parts(problem, batch[places], moved(rate[places], algorithm), steps[places])
                error[places] = np.maximum(error[places], worth_stating(change(parts[:, places], other)))
        return RunRisks(parts, error, nothing > 0)
    courses = _courses(algorithm, batch, rate, steps, rounded)
    if not algorithm.linear:
        return _equivalents(problem, courses, tolerance, estimate)
    if is_late(algorithm):
        return _late(problem, courses, tolerance, estimate)
    found = RunRisks(np.empty((2, batch.size)), nothing, nothing > 0)
    resolution = resolution_within(tolerance)
    for places, by_steps in _convoys(problem, courses, resolution, compiled_from):
        group = [courses[place] for place in places]
        arrived = _arrived(problem, group, resolution, compiled_from, by_steps, stable)
        found.parts[:, places], lost = _risks(problem, arrived, group)
        found.approximated[places] = arrived.approximated
        if estimate:
            found.error[places] = _errors(problem, arrived, group, found.parts[:, places], lost, compiled_from)
    return found


def _courses(
    algorithm: Algorithm, batch: np.ndarray, rate: np.ndarray, steps: np.ndarray, rounded: bool
) -> list[Course]:
    settings = zip(batch.tolist(), rate.tolist(), steps.tolist(), strict=True)
    return [Course(algorithm, *setting, rounded=rounded) for setting in settings]


def _of_sample(
    problem: FiniteSampleProblem,
    courses: Sequence[Course],
    solve: Callable[..., RunRisks],
    rounded: bool,
    estimate: bool,
) -> RunRisks:
    """Of passes over a finite sample; as long as no row is seen twice, in the mean, of the plain problem."""
    found = RunRisks(np.empty((2, len(courses))), np.zeros(len(courses)), np.zeros(len(courses), dtype=bool))
    once = np.array([is_one_pass(problem, each) for each in courses], dtype=bool)
    for places in (np.flatnonzero(once), np.flatnonzero(~once)):
        if not places.size:
            continue
        some = [courses[place] for place in places.tolist()]
        if once[places[0]]:
            one = solve(problem.problem, some[0].algorithm, *settings_of(some), rounded=rounded)
        else:
            one = RunRisks(*sample_risks(problem, some, solve, estimate), np.ones(places.size, dtype=bool))
        found.parts[:, places] = one.parts
        found.error[places] = one.error
        found.approximated[places] = one.approximated
    return found


def _late(problem: AbstractProblem, courses: Sequence[Course], tolerance: float, estimate: bool) -> RunRisks:
    """Of late gradients."""
    parts = late_parts(problem, courses, tolerance)
    error = np.where(np.isinf(parts.sum(0)), np.inf, 0.0)
    if estimate and (places := np.flatnonzero(near_threshold(problem, courses))).size:
        other = late_parts(problem, [shaken(courses[place]) for place in places.tolist()])
        error[places] = np.maximum(error[places], worth_stating(change(parts[:, places], other)))
    return RunRisks(parts, error, np.zeros(len(courses), dtype=bool))


def _equivalents(problem: AbstractProblem, courses: Sequence[Course], tolerance: float, estimate: bool) -> RunRisks:
    """Of methods that are not linear: parts of mean and variance.

    Where searches allow it, runs that are alike but for γ go side by side, on longer panels. They share modes and
    panels, so that each risk depends a little on what else is asked for.
    """
    alike: dict[Hashable, list[int]] = {}
    rough = tolerance >= ROUGH_EQUIVALENTS
    for place, course in enumerate(courses):
        key = (course.batch, course.num_steps) if rough else place
        alike.setdefault(key, []).append(place)
    found = np.empty((3, len(courses)))
    for places in alike.values():
        some = [courses[place] for place in places]
        stop = np.array([some[0].num_steps])
        seen = equivalent_risk(problem, some, stop, estimate, ROUGH_TAIL if rough else TAIL)
        found[:, places] = [each[1, 0] for each in seen]
    return RunRisks(found[:2], found[2], np.ones(len(courses), dtype=bool))


def course_risk(
    problem: AbstractProblem,
    course: Course,
    *,
    tolerance: float = 0.0,
    estimate: bool = True,
    compiled_from: float = COMPILED_FROM,
) -> RunRisks:
    """`run_risks` of one course: (2,), and numbers."""
    batch, rate, steps = (np.array([each]) for each in (course.batch, course.rate, course.num_steps))
    found = run_risks(
        problem,
        course.algorithm,
        batch,
        rate,
        steps,
        rounded=course.rounded,
        tolerance=tolerance,
        estimate=estimate,
        compiled_from=compiled_from,
    )
    return RunRisks(*(each[..., 0] for each in found))


def journey(
    problem: AbstractProblem,
    courses: Sequence[Course],
    resolution: Resolution = FINE,
    compiled_from: float = COMPILED_FROM,
    stops: Sequence[float] = (),
    stable: bool = False,
    modes: Modes | None = None,
) -> list[Piece]:
    """The pieces of S courses of one algorithm, with as many each; and stops on the way of a single one."""
    assert len(courses) == 1 or not stops, "points are those of a single run"
    runs = Runs.of(courses)
    modes = modes or _modes(problem, courses, resolution)
    ground = Ground(modes, problem.noise_variance, resolution, compiled_from, stable)
    begins = runs.first_averaged
    found = []
    averaging = False
    for low, high in np.moveaxis(np.array(ways(runs)), 0, -1):
        begin = bool((low == begins).all())
        averaging |= begin
        inside = tuple(sorted({float(stop) for stop in stops if low[0] < stop <= high[0]}))
        found.append(Piece(ground, runs, low, high, low, runs.keeping() if averaging else None, inside, begin))
    return found


def setting_out(pieces: Sequence[Piece]) -> Crossed:
    """What there is before these pieces, which begin at the start."""
    first = pieces[0]
    return crossed(start(first.runs.algorithm.method, first.ground.modes, first.low.size))


def travel(done: Crossed, pieces: Sequence[Piece], by_steps: bool = False) -> Crossed:
    """Moments at the ends of these pieces, from what is done before them."""
    for piece in pieces:
        after = cross(begun(done.moments, piece), piece, by_steps)
        done = onward(done, after, piece)
    return done


class Departure(NamedTuple):
    """Where panels begin: which piece that is in, the moments of these modes there, and the step, (S,) of S runs."""

    piece: int
    modes: Modes
    moments: Moments
    step: np.ndarray

    def some(self, places: np.ndarray) -> "Departure":
        """Of some of the runs."""
        return Departure(self.piece, self.modes, at_runs(self.moments, places), self.step[places])


class Arrived(NamedTuple):
    """Sums of the moments of S runs at their ends, what there was at first, and whether panels were used, (S,).

    And where they began, which is the same at every resolution of the same modes.
    """

    ends: Ends
    signal: float
    approximated: np.ndarray
    departure: Departure | None
    near: Any


def _arrived(
    problem: AbstractProblem,
    courses: Sequence[Course],
    resolution: Resolution,
    compiled_from: float,
    by_steps: bool = False,
    stable: bool = False,
    departure: Departure | None = None,
) -> Arrived:
    """S courses of one algorithm with as many pieces each, to their ends, from the start or from where panels begin."""
    with np.errstate(all="ignore"):  # overflow and underflow are results here
        modes = departure and departure.modes
        pieces = journey(problem, courses, resolution, compiled_from, stable=stable, modes=modes)
        signal = float(pieces[0].ground.modes.signal.sum())
        done = setting_out(pieces)
        if departure is not None:
            pieces = pieces[departure.piece :]
            pieces[0] = pieces[0].between(departure.step, pieces[0].high)
            done = crossed(departure.moments)
        for number, piece in enumerate(pieces):
            moments = begun(done.moments, piece)
            if piece is pieces[-1] and not by_steps and (ended := constant_ends(moments, piece)):
                sums, near = ended
                if np.any(done.size):
                    sums = sums._replace(size=size_after(done, sums, piece))
                return Arrived(sums, signal, done.approximated, departure, np.maximum(done.near, near))
            if departure is None and not by_steps and (begin := before_panels(moments, piece)):
                moments, piece = begin
                departure = Departure(number, piece.ground.modes, moments, piece.low)
            after = cross(moments, piece, by_steps)
            done = onward(done, after, piece)
        sums = ends(done.moments, pieces[0].runs.output, done.size)
        return Arrived(sums, signal, done.approximated, departure, done.near)


def _modes(problem: AbstractProblem, courses: Sequence[Course], resolution: Resolution) -> Modes:
    """Modes with which sums over directions hold along all of these courses."""
    course = max(courses, key=lambda course: course.num_steps * course.rate)
    samples = np.linspace(0, course.num_steps - 1, int(min(course.num_steps, 257)))
    rate = float(course.rates(np.floor(samples)).max(initial=0.0))
    reach = displacement(course.algorithm.method, rate, course.num_steps)
    return problem.modes(CONTOUR_RESOLVED / min(max(reach, 1.0), LARGEST_REACH), resolution.modes)


def _convoys(
    problem: AbstractProblem, courses: Sequence[Course], resolution: Resolution, compiled_from: float
) -> Iterator[tuple[list[int], bool]]:
    """Places of courses that travel together, with as many pieces each, and whether every step is taken."""
    compiled = compiled_from <= TOGETHER_SMOOTH
    smooth = TOGETHER_COMPILED if compiled else TOGETHER_SMOOTH
    short = TOGETHER if courses[0].algorithm.constant else smooth
    if len(courses) < 2:  # alone it is sooner done by steps if these are compiled
        yield from [([0], compiled and TOGETHER < course.num_steps <= short) for course in courses]
        return
    algorithm = courses[0].algorithm
    closed = algorithm.constant and algorithm.method.step_dependence == "none"
    num_modes = _modes(problem, courses, resolution).eigenvalue.size
    alike: dict[tuple[Any, ...], list[int]] = {}
    every = ways(Runs.of(courses))
    for place in sorted(range(len(courses)), key=lambda place: courses[place].num_steps):
        course = courses[place]
        starts = [low for low, _ in every[place]]
        begin = starts.index(course.first_averaged) if course.first_averaged in starts else -1
        by_steps = course.num_steps <= short
        alike.setdefault((by_steps, len(starts), begin), []).append(place)
    for (by_steps, *_), places in alike.items():
        size = CLOSED_TOGETHER if closed and not by_steps else min(MODES_TOGETHER, RUNS_TOGETHER * num_modes)
        size = max(size // num_modes, 1)
        for first in range(0, len(places), size):
            yield places[first : first + size], by_steps


def _errors(
    problem: AbstractProblem,
    found: Arrived,
    courses: Sequence[Course],
    parts: np.ndarray,
    lost: np.ndarray,
    compiled_from: float,
) -> np.ndarray:
    """(S,) bounds of the relative errors of (2, S) parts, of which rounding has `lost` so much.

    On panels, what a lower order changes, on panels of its own; near the threshold, what a γ changes that is moved by
    rounding. Of runs that have grown far closed forms lose digits too, and of those that are lost, inf, nothing is
    known.
    """
    total = parts.sum(0)
    begin = found.signal + problem.noise_variance
    error = np.where(np.isinf(total), np.inf, np.where(total > GROWN * begin, GROWN_ERROR, 0.0))
    error = np.maximum(error, stated_rounding(parts, lost, begin))
    near = near_threshold(problem, courses, found.near)
    for sideways in (False, True):
        places = np.flatnonzero(near if sideways else found.approximated & ~near)
        if not places.size:
            continue
        group = [courses[place] for place in places.tolist()]
        departure = None
        if sideways:
            group = [shaken(course) for course in group]
        elif found.departure:
            departure = found.departure.some(places)
        rougher, _ = _risks(problem, _arrived(problem, group, ROUGH, compiled_from, departure=departure), group)
        each = change(parts[:, places], rougher)
        error[places] = np.maximum(error[places], np.where(found.approximated[places], each, worth_stating(each)))
    return error


def _risks(problem: AbstractProblem, found: Arrived, courses: Sequence[Course]) -> tuple[np.ndarray, np.ndarray]:
    """(2, S) bias and variance of what the algorithm returns, in units of y², and bounds of their rounding errors."""
    units = np.array([[1.0], [problem.noise_variance]])
    begin = np.array([[found.signal], [1.0]])
    average = courses[0].algorithm.average
    with np.errstate(all="ignore"):
        shares = [average.returned(course.num_steps, course.num_steps) for course in courses]
        parts = returned_risk(found.ends, shares)
        # Beyond the range of a float, inf − inf, or where few nodes lose moments that have grown: it is large.
        lost = ~np.isfinite(parts) | (parts < -ROUNDED_BELOW_0 * begin)
        parts = np.where(lost, np.inf, np.maximum(parts, 0.0))
        errors = rounding(returned_size(found.ends, shares))
        parts, errors = (np.where(units > 0, units * each, 0.0) for each in (parts, errors))
        return bounded(parts, errors), errors
