"""Runs of one algorithm side by side, and the segments that they are taken apart into."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from sgdtheory.algorithms import Algorithm, Course, StepMatrices, steps_of_shape
from sgdtheory.problems import Modes
from sgdtheory.risk.solvers.contour import Resolution
from sgdtheory.risk.systems.moments import (
    ROUNDING,
    Ends,
    Generators,
    Keeping,
    Moments,
    Steps,
    ends,
    generators,
    selected,
    together,
)
from sgdtheory.risk.thresholds import THRESHOLDS

# A segment with constant γ and B is propagated so if the step of a method depends on its number in this way.
CONSTANT_KINDS = {"none": "constant", "period": "rounds"}


# A schedule's largest learning rate and smallest batch size are searched at this many steps: a peak that is narrower
# than 1/256 of the run may be missed, which changes the number of modes and the sensitivity to rounding.
PROBES = 257


def settings_of(courses: Sequence[Course]) -> np.ndarray:
    """Return (3, S) peak B, peak γ and n of runs."""
    return np.array([(course.batch, course.rate, course.num_steps) for course in courses]).T


def largest_rate(course: Course) -> float:
    """Return the largest learning rate of a run, among `PROBES` of its steps."""
    steps = np.floor(np.linspace(0, course.num_steps - 1, int(min(course.num_steps, PROBES))))
    return float(course.rates(steps).max(initial=0.0))


class Coefficients(NamedTuple):
    """Coefficients of T steps: I − A, b, c, and batch sizes of all workers (T,)."""

    matrices: StepMatrices
    batch: np.ndarray


@dataclass(frozen=True, eq=False)
class Runs:
    """S runs of one algorithm.

    Attributes:
        courses: the runs.
        rate: (S,) peak learning rates.
        batch: (S,) batch sizes of the first steps.
        length: (S,) numbers of steps n.
    """

    courses: tuple[Course, ...]
    rate: np.ndarray
    batch: np.ndarray
    length: np.ndarray

    @classmethod
    def of(cls, courses: Sequence[Course]) -> "Runs":
        """Return these runs side by side."""
        shape = courses[0].algorithm.batch_schedule
        batch, rate, length = settings_of(courses)
        if shape.flat:
            batch = batch * float(shape.factors(np.zeros(1), 1)[0])
            batch = np.maximum(np.where([course.rounded for course in courses], np.rint(batch), batch), 1.0)
        else:
            batch = np.array([float(course.batches(np.zeros(1))[0]) for course in courses])
        return cls(tuple(courses), rate, batch, length)

    def select(self, indices: np.ndarray) -> "Runs":
        """Return some of the runs."""
        courses = tuple(self.courses[place] for place in indices)
        return Runs(courses, self.rate[indices], self.batch[indices], self.length[indices])

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm of all runs."""
        return self.courses[0].algorithm

    @cached_property
    def output(self) -> np.ndarray:
        """(k,) o; the iterate's error is oᵀu."""
        return np.asarray(self.algorithm.method.output, dtype=float)

    @cached_property
    def first_averaged(self) -> np.ndarray:
        """(S,) first steps whose iterates the average takes."""
        return np.array([course.first_averaged for course in self.courses])

    def rates_at(self, steps: np.ndarray) -> np.ndarray:
        """Return γ at these steps of each run, (S,) or (S, P)."""
        peak, length = (np.reshape(each, (-1, *[1] * (steps.ndim - 1))) for each in (self.rate, self.length))
        return peak * self.algorithm.schedule.factors(steps, length)

    def batches_at(self, steps: np.ndarray) -> np.ndarray:
        """Return B at these steps, (S, P); where it takes several values among those of a run, not rounded."""
        result = np.empty((len(self.courses), steps.size // len(self.courses)))
        if self.algorithm.batch_schedule.flat:
            result[:] = self.batch[:, None]
            return result
        for place, (course, row) in enumerate(zip(self.courses, steps.reshape(result.shape), strict=True)):
            result[place] = course.batches(row)
            if np.ptp(result[place]) > 0:
                result[place] = course.smooth_batches(row)
        return result

    def coefficients(self, steps: np.ndarray) -> Coefficients:
        """Return the coefficients of these steps, (S,) or (S, P): S P of them."""
        rates = self.rates_at(steps)
        method = self.algorithm.method
        batches = method.workers * self.batches_at(steps)
        return Coefficients(method.matrices(rates.ravel(), steps.ravel()), batches.ravel())

    def maps(self, steps: np.ndarray, modes: Modes) -> Generators:
        """Return the maps of these steps, (S,) or (S, P), without a mode's own part."""
        here = self.coefficients(steps)
        return generators(here.matrices, here.batch, modes.eigenvalue, itself=False)

    def size(self, place: int) -> Callable[[np.ndarray], np.ndarray]:
        """Return the function that decides about the length of panels: γ_t and, where it varies, B_t."""
        course = self.courses[place]

        def size(step: np.ndarray) -> np.ndarray:
            rates = np.maximum(course.rates(step), 1e-300)
            return rates[None] if course.constant_batch else np.array([rates, course.smooth_batches(step)])

        return size

    def keeping(self) -> Keeping:
        """Return the constants of the average of each run."""
        average = self.algorithm.average
        kept = [(average.forgetting(course.num_steps), average.weight(course.num_steps)) for course in self.courses]
        return Keeping(*np.array(kept, dtype=float).T)


class Setup(NamedTuple):
    """Quantities that all runs share, whichever algorithm they are of.

    Attributes:
        modes: K modes of the problem.
        noise_variance: σ².
        resolution: of smooth segments.
        compiled_from: so many single steps or more are taken in a compiled loop, which a first call has to compile.
        stable: whether no second moments grow by more than e in a segment with constant steps.
        summed: whether steps may add the variance to the bias, which takes half the time: σ² times its moments are
            then in the first copy, whose sum with σ² times the second is the risk as before.
    """

    modes: Modes
    noise_variance: float
    resolution: Resolution
    compiled_from: float
    stable: bool = False
    summed: bool = False


@dataclass(frozen=True, eq=False)
class Segment:
    """The steps low … high − 1 of S runs, (S,) each, without a kink inside.

    Attributes:
        setup: what the runs share.
        runs: S of them.
        low, high: numbers of steps.
        origin: (S,) steps at which the segments began that these are parts of: those of the last kinks.
        keeping: how the averages are kept, (S,) each; None where there are none.
        stops: numbers of steps at which points are wanted, of a single run.
        begins: whether the average begins with it.
    """

    setup: Setup
    runs: Runs
    low: np.ndarray
    high: np.ndarray
    origin: np.ndarray
    keeping: Keeping | None
    stops: tuple[float, ...] = ()
    begins: bool = False

    def select(self, indices: np.ndarray) -> "Segment":
        """Return the segment of some of the runs."""
        keeping = selected(self.keeping, indices)
        ends = self.low[indices], self.high[indices], self.origin[indices]
        return Segment(self.setup, self.runs.select(indices), *ends, keeping, self.stops)

    def between(self, low: np.ndarray, high: np.ndarray) -> "Segment":
        """Return a part of it."""
        stops = tuple(stop for stop in self.stops if low[0] < stop <= high[0])
        return Segment(self.setup, self.runs, low, high, self.origin, self.keeping, stops)

    @property
    def steps(self) -> np.ndarray:
        """(S,) how many there are."""
        return self.high - self.low

    def step(self) -> Steps:
        """Return the coefficients of each step, (S, …), of an algorithm whose steps are all alike."""
        here = self.runs.coefficients(self.low)
        return Steps(*here.matrices, here.batch, *self._kept())

    def table(self, first: np.ndarray, counts: np.ndarray) -> Steps:
        """Return the coefficients of the steps from the first on, (T, S, …), T the largest of the counts (S,).

        Steps that a run does not have are zeros.
        """
        numbers = np.arange(counts.max())
        rows = zip(self.runs.courses, first.tolist(), counts.tolist(), strict=True)
        each = [_rows(course, begin + np.arange(count)) for course, begin, count in rows]
        wide = [_side_by_side(those, numbers.size) for those in zip(*each, strict=True)]
        kept = [np.broadcast_to(each, (numbers.size, each.size)) for each in self._kept()]
        return Steps(*wide, *kept)

    def _kept(self) -> tuple[np.ndarray, np.ndarray]:
        nothing = np.zeros(self.low.size)
        return tuple(self.keeping) if self.keeping else (nothing, nothing)


def _rows(course: Course, numbers: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return I − A, b, c and the batch sizes of all workers, of T steps of a run."""
    batches = course.algorithm.method.workers * course.batches(numbers)
    return *course.matrices(numbers), np.asarray(batches, dtype=float)


def _side_by_side(rows: Sequence[np.ndarray], length: int) -> np.ndarray:
    """Return (T, S, …) from S arrays of T or fewer rows."""
    result = np.zeros((length, len(rows), *rows[0].shape[1:]))
    for place, row in enumerate(rows):
        result[: len(row), place] = row
    return result


def with_started_average(moments: Moments, segment: Segment) -> Moments:
    """Return the moments before the segment; where the average begins, with an empty sum or with the iterate."""
    if not (segment.begins and segment.runs.algorithm.average.starts_at_iterate()):
        return moments
    cross = np.einsum("...ijk,j->...ik", moments.own, segment.runs.output)
    return moments._replace(cross=cross, square=np.einsum("...ik,i->...", cross, segment.runs.output))


class Propagated(NamedTuple):
    """The moments at the ends of segments, their sums at the stops of a single run, and whether panels were used, (S,).

    And the `size`, (2, S, 3), of the sums of the moments, as `Ends` has it; and `near`, (S,), whether runs have been
    near the stability threshold, 1 or 0, where a closed form knows, else −1.
    """

    moments: Moments
    points: list[Ends]
    approximated: np.ndarray
    size: Any = 0.0
    near: Any = -1


def propagated(moments: Moments, points: list[Ends] | None = None) -> Propagated:
    """Return an exact state with the points on the way."""
    return Propagated(moments, points or [], np.zeros(moments.square.shape[1], dtype=bool))


def joined(parts: Sequence[tuple[np.ndarray, Propagated]]) -> Propagated:
    """Return the joint state of runs that were propagated in parts."""
    moments = together([(indices, one.moments) for indices, one in parts])
    points = [each for _, one in parts for each in one.points]
    order = np.argsort(np.concatenate([indices for indices, _ in parts]))
    approximated = np.concatenate([one.approximated for _, one in parts])[order]
    size = [np.broadcast_to(one.size, (*one.moments.square.shape, 3)) for _, one in parts]
    near = [np.broadcast_to(one.near, one.approximated.shape) for _, one in parts]
    return Propagated(
        moments, points, approximated, np.concatenate(size, axis=1)[:, order], np.concatenate(near)[order]
    )


def continued(done: Propagated, after: Propagated, segment: Segment) -> Propagated:
    """Return the state after one more segment."""
    size = after.size
    points = after.points
    if np.any(done.size):
        size = size_after(done, ends(after.moments, segment.runs.output, size), segment)
        points = [each._replace(size=size_after(done, each, segment)) for each in points]
    approximated = done.approximated | after.approximated
    return Propagated(after.moments, done.points + points, approximated, size, np.maximum(done.near, after.near))


def size_after(done: Propagated, sums: Ends, segment: Segment) -> np.ndarray:
    """Return (2, S, 3) size of the sums after one more segment, whose own is that of `sums`.

    What rounding has left of moments goes the way of these: its share stays. Moments that have lost all their digits
    have no such share: their size stays, in every iterate that an average takes.
    """
    before = ends(done.moments, segment.runs.output).iterate
    share = np.where(before > 0, done.size[..., 0] / before, 0.0)
    size = share[..., None] * np.abs(np.stack([sums.iterate, sums.cross, sums.square], axis=-1))
    taken = np.zeros(segment.low.size)
    if segment.keeping is not None:
        with np.errstate(divide="ignore"):
            taken = np.minimum(segment.steps, 1 / segment.keeping.forgetting) * segment.keeping.weight
    whole = done.size[..., :1] * np.stack([np.ones_like(taken), taken, taken**2], axis=-1)
    lost = before <= ROUNDING * done.size[..., 0]
    return sums.size + np.where(lost[..., None], whole, size)


def segment_ends(runs: Runs) -> list[list[tuple[float, float]]]:
    """Return the ends of the segments of each run."""
    algorithm = runs.algorithm
    if not (algorithm.schedule.flat and algorithm.batch_schedule.flat):
        return [segments(course) for course in runs.courses]
    return [
        [(low, high) for low, high in ((0.0, first), (first, n)) if high > low]
        for first, n in zip(runs.first_averaged.tolist(), runs.length.tolist(), strict=True)
    ]


def segments(course: Course) -> list[tuple[float, float]]:
    """Steps between kinks, where a shape's formula, the batch size or the average changes; all as one if too many."""
    n = course.num_steps
    edges = {0.0, n, course.first_averaged}
    for shape in (course.algorithm.schedule, course.algorithm.batch_schedule):
        if shape.smooth:
            edges |= set(steps_of_shape(shape, n))
    if course.algorithm.batch_schedule.smooth:
        starts, _ = course.batch_runs
        if starts.size * THRESHOLDS.stage_steps <= n and starts.size <= THRESHOLDS.most_stages:
            edges |= set(starts.tolist())
    kept = sorted(each for each in edges if 0 <= each <= n)
    if len(kept) * THRESHOLDS.stage_steps > n:  # stepping is sooner done
        kept = sorted({0.0, course.first_averaged, n})
    return [(low, high) for low, high in zip(kept[:-1], kept[1:], strict=True) if high > low]


def kinds_of(segment: Segment) -> np.ndarray:
    """(S,) how segments are crossed: "constant" or in "rounds", in closed form, "smooth" on panels, or in "steps"."""
    algorithm = segment.runs.algorithm
    if algorithm.method.step_dependence == "any":
        return np.full(segment.low.size, "steps", dtype=object)
    if algorithm.schedule.flat and algorithm.batch_schedule.flat:
        kind = CONSTANT_KINDS.get(algorithm.method.step_dependence, "smooth")
        return np.full(segment.low.size, kind, dtype=object)
    ends = zip(segment.runs.courses, segment.low.tolist(), segment.high.tolist(), strict=True)
    return np.array([_kind_of(*each) for each in ends], dtype=object)


def _kind_of(course: Course, low: float, high: float) -> str:
    """Return how a run with a shape that is not flat is propagated."""
    algorithm = course.algorithm
    method = course.algorithm.method
    if not (algorithm.schedule.smooth and algorithm.batch_schedule.smooth):
        return "steps"
    shapes = algorithm.schedule, algorithm.batch_schedule
    if any(low < edge < high for shape in shapes for edge in steps_of_shape(shape, course.num_steps)):
        return "steps"
    probes = np.unique(np.floor(np.linspace(low, high - 1, 5)))
    rates = course.rates(probes)
    batches = course.batches(probes)
    if np.ptp(batches) > 0 and course.rounded and course.num_steps <= THRESHOLDS.most_steps:
        return "steps"  # a staircase of batch sizes, which stepping alone has exactly
    standing = CONSTANT_KINDS.get(method.step_dependence)
    if np.ptp(batches) == 0 and np.ptp(rates) == 0 and standing:
        return standing
    return "steps" if standing == "rounds" else "smooth"
