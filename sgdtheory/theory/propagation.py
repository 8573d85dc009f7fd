"""Exact second moments along a course: closed forms, panels or single steps, whichever its pieces allow."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from sgdtheory.theory.course import Course, steps_of_shape
from sgdtheory.theory.mesh import FINE, Mesh, Resolution
from sgdtheory.theory.modes import Modes
from sgdtheory.theory.moments import Keeping, Moments, begun, iterate_risk, start
from sgdtheory.theory.panels import Along, Coefficients, across, prepared
from sgdtheory.theory.problem import Spectral
from sgdtheory.theory.spectrum import displacement, load
from sgdtheory.theory.spectrum import growth as growth_rate
from sgdtheory.theory.stage import Stage, after, make_stage, settling_steps
from sgdtheory.theory.stepping import stepped
from sgdtheory.theory.thresholds import (
    COMPILED_FROM,
    CONTOUR_RESOLVED,
    FEW_STEPS,
    GROWTH_PROBES,
    LARGEST_REACH,
    MOST_GROWTH,
    MOST_PIECES,
    MOST_SETTLING,
    MOST_STEPS,
    SHORT_PIECE,
    SHORTEST_PANEL,
    STAGE_COST,
)


class Point(NamedTuple):
    """What is known after a number of steps: Σ oᵀM o and Σ S², (2,) each, bias and variance at σ² = 1."""

    step: float
    iterate: np.ndarray
    square: np.ndarray


class Travelled(NamedTuple):
    """The moments at the end, the points asked for on the way, and whether panels were used."""

    moments: Moments
    modes: Modes
    points: list[Point]
    approximated: bool


def course_modes(problem: Spectral, course: Course, tolerance: float) -> Modes:
    """Modes with which sums over directions hold along the whole course."""
    samples = np.linspace(0, course.num_steps - 1, int(min(course.num_steps, 257)))
    rate = float(course.rates(np.floor(samples)).max(initial=0.0))
    reach = displacement(course.algorithm.method, rate, course.num_steps)
    return problem.modes(CONTOUR_RESOLVED / min(max(reach, 1.0), LARGEST_REACH), tolerance)


def _no_growth(step: float) -> float:
    return 0.0


class Traveller:
    """Moments that move along a course, piece by piece, and the points that they leave behind."""

    def __init__(
        self, problem: Spectral, course: Course, resolution: Resolution, stops: Sequence[float], compiled_from: float
    ) -> None:
        self.course, self.resolution, self.compiled_from = course, resolution, compiled_from
        self.method = course.algorithm.method
        self.output = np.asarray(self.method.output, dtype=float)
        self.modes = course_modes(problem, course, resolution.modes)
        self.moments = start(self.method, self.modes)
        self.keeping: Keeping | None = None
        self.stops = sorted({float(stop) for stop in stops})
        self.points: list[Point] = []
        self.approximated = self.diverged = False

    def travel(self) -> Travelled:
        """All pieces, to the end."""
        self._arrive(0.0, self.moments)
        for low, high in pieces(self.course):
            if low == self.course.first_averaged and low < self.course.num_steps:
                self._begin_average()
            self._piece(low, high)
            if self.diverged:
                nothing = [each for each in self.stops if not any(point.step == each for point in self.points)]
                self.points += [Point(stop, np.full(2, np.inf), np.full(2, np.inf)) for stop in nothing]
                break
        return Travelled(self.moments, self.modes, self.points, self.approximated)

    def _begin_average(self) -> None:
        average, n = self.course.algorithm.average, self.course.num_steps
        self.keeping = Keeping(average.forgetting(n), average.weight(n))
        self.moments = begun(self.moments, self.output, average)

    def _piece(self, low: float, high: float) -> None:
        """One piece without a kink inside."""
        kind = kind_of(self.course, low, high)
        if kind == "constant":
            stage = self._stage(low)
            settling = max(FEW_STEPS, settling_steps(stage.spectrum, self.keeping))
            if high - low > settling:
                self._closed_form(stage, low, high, settling)
                return
        elif kind == "smooth" and high - low > SHORT_PIECE:
            settled = min(low + self._settling(low, high), high)
            self._steps(low, settled)
            self._panels(settled, high, low)
            return
        self._steps(low, high)

    def _stage(self, low: float) -> Stage:
        here = self._coefficients(np.array([low]))
        return make_stage(here.matrices, float(here.batch[0]), self.modes, self.output, self.keeping)

    def _settling(self, low: float, high: float) -> float:
        """Steps to take one by one after a kink, until the directions that oscillate have come to rest."""
        if self.output.size == 1 and self.keeping is None:
            return FEW_STEPS  # second moments of one vector do not oscillate
        longest = 0.0
        for number in np.unique(np.floor(np.linspace(low, high - 1, 5))):
            stage = self._stage(number)
            rate = max(stage.spectrum.complex, stage.spectrum.negative if self.keeping is not None else -np.inf)
            steps = settling_steps(stage.spectrum._replace(complex=rate), self.keeping)
            longest = max(longest, steps)
        return max(FEW_STEPS, np.ceil(min(longest, MOST_SETTLING)))

    def _closed_form(self, stage: Stage, low: float, high: float, settling: float) -> None:
        begin = self.moments
        early = [each for each in self.stops if low < each <= low + settling]
        if early:  # the closed form does not hold yet
            self._steps(low, early[-1])
        for stop in [each for each in self.stops if low + settling < each < high]:
            self._arrive(stop, after(stage, begin, stop - low))
        self._arrive(high, after(stage, begin, high - low))

    def _steps(self, low: float, high: float) -> None:
        if high - low > MOST_STEPS:
            raise ValueError(
                f"algorithm must be smooth, staged or settle sooner: {high - low:.3g} steps would have to be taken one "
                f"by one (at most {MOST_STEPS:g}); take fewer samples, a smaller momentum or a smooth shape"
            )
        for stop in [each for each in self.stops if low < each < high] + [high]:
            if stop > low:
                self.moments = stepped(
                    self.moments,
                    low,
                    stop,
                    self._coefficients,
                    self.modes,
                    self.output,
                    self.keeping,
                    self.compiled_from,
                )
                low = stop
                self._arrive(stop, self.moments)

    def _panels(self, low: float, high: float, origin: float) -> None:
        rate = float(self.course.rates(np.array([low]))[0]) if low < high else 0.0
        slowest = -2 * self._stage(low).spectrum.slowest / rate if rate > 0 else 0.0
        growth = self._growth_between(low, high)
        if growth is None:
            self._diverge()
            return
        panels = list(Mesh(self.resolution, origin, high, self._size, slowest, growth).panels(low))
        shortest = max(SHORTEST_PANEL, self.resolution.order)
        long = [panel for panel in panels if panel[1] - panel[0] > shortest]
        ready = prepared(long, self._smooth_coefficients, self.modes, self.resolution.order, self.keeping)
        self.approximated |= bool(long)
        for panel in panels:
            if panel[1] - panel[0] <= shortest:
                self._steps(*panel)
                continue
            moments, along = across(self.moments, next(ready), self.output, self.keeping)
            for stop in [each for each in self.stops if panel[0] < each < panel[1]]:
                self.points.append(_inside(along, stop))
            self._arrive(panel[1], moments)

    def _growth_between(self, low: float, high: float) -> Callable[[float], float] | None:
        """Rates of growth of the moments at the steps of a piece, roughly; None if they grow beyond all numbers.

        Where the largest step does not make them grow, smaller ones do not.
        """
        if low >= high:
            return _no_growth
        probes = np.unique(np.floor(np.linspace(low, high - 1, GROWTH_PROBES)))
        if self._growth(float(probes[np.argmax(self.course.rates(probes))])) == 0:
            return _no_growth
        rates = np.array([self._growth(probe) for probe in probes.tolist()])
        if np.trapezoid(rates, probes) > MOST_GROWTH:
            return None
        return lambda step: float(np.interp(step, probes, rates))

    def _growth(self, step: float) -> float:
        """Rate of growth of the moments, if all steps were like this one."""
        stage = self._stage(step)
        if stage.spectrum.radius <= 1 and load(stage.alone, self.modes.multiplicity) < 1:
            return 0.0
        return max(growth_rate(stage.alone, self.modes.multiplicity, stage.spectrum.slowest, math.inf), 0.0)

    def _diverge(self) -> None:
        """Beyond the range of a float, for good."""
        self.moments = Moments(*(np.full_like(each, np.inf) for each in self.moments))
        self.diverged = True

    def _size(self, step: np.ndarray) -> np.ndarray:
        """What decides about the length of panels: γ_t and, where it varies, B_t."""
        rates = np.maximum(self.course.rates(step), 1e-300)
        return rates[None] if self.course.constant_batch else np.array([rates, self.course.smooth_batches(step)])

    def _coefficients(self, step: np.ndarray) -> Coefficients:
        return Coefficients(self.course.matrices(step), self.course.batches(step))

    def _smooth_coefficients(self, step: np.ndarray) -> Coefficients:
        """On panels: batch sizes as they are if they are all the same there, else not rounded."""
        batch = self.course.batches(step)
        return Coefficients(
            self.course.matrices(step), batch if np.ptp(batch) == 0 else self.course.smooth_batches(step)
        )

    def _arrive(self, step: float, moments: Moments) -> None:
        self.moments = moments
        if step in self.stops:
            self.points.append(Point(step, iterate_risk(moments, self.output), np.asarray(moments.square)))


def _inside(along: Along, step: float) -> Point:
    """A panel's values between its nodes."""
    gaps = along.nodes - along.nodes[:, None] + np.eye(along.nodes.size)
    weights = 1 / (gaps / (along.nodes[-1] - along.nodes[0])).prod(1)
    away = step - along.nodes
    share = np.where(away == 0, 1.0, 0.0) if (away == 0).any() else weights / away
    share = share / share.sum()
    return Point(step, along.iterate @ share, along.square @ share)


def pieces(course: Course) -> list[tuple[float, float]]:
    """Steps between kinks, where a shape's formula, the batch size or the average changes; all as one if too many."""
    n = course.num_steps
    edges = {0.0, n, course.first_averaged}
    if course.algorithm.schedule.smooth:
        edges |= set(steps_of_shape(course.algorithm.schedule, n))
    if course.algorithm.batch_schedule.smooth:
        edges |= set(steps_of_shape(course.algorithm.batch_schedule, n))
        starts, _ = course.batch_runs
        if starts.size * STAGE_COST <= n and starts.size <= MOST_PIECES:
            edges |= set(starts.tolist())
    kept = sorted(each for each in edges if 0 <= each <= n)
    if len(kept) * STAGE_COST > n:  # stepping is sooner done
        kept = sorted({0.0, course.first_averaged, n})
    return [(low, high) for low, high in zip(kept[:-1], kept[1:], strict=True) if high > low]


def every_step(course: Course) -> bool:
    """Whether every step of a course has to be taken."""
    return all(kind_of(course, low, high) == "steps" for low, high in pieces(course))


def kind_of(course: Course, low: float, high: float) -> str:
    """How a piece is crossed: "constant" in closed form, "smooth" on panels, or in "steps"."""
    algorithm, method = course.algorithm, course.algorithm.method
    if method.step_dependence == "any" or not (algorithm.schedule.smooth and algorithm.batch_schedule.smooth):
        return "steps"
    if any(
        low < edge < high
        for shape in (algorithm.schedule, algorithm.batch_schedule)
        for edge in steps_of_shape(shape, course.num_steps)
    ):
        return "steps"
    probes = np.unique(np.floor(np.linspace(low, high - 1, 5)))
    rates, batches = course.rates(probes), course.batches(probes)
    if np.ptp(batches) > 0 and course.rounded and course.num_steps <= MOST_STEPS:
        return "steps"  # a staircase of batch sizes, which stepping alone has exactly
    if np.ptp(batches) == 0 and np.ptp(rates) == 0 and method.step_dependence == "none":
        return "constant"
    return "smooth"


def travelled(
    problem: Spectral,
    course: Course,
    stops: Sequence[float] = (),
    resolution: Resolution = FINE,
    compiled_from: float = COMPILED_FROM,
) -> Travelled:
    """Moments at the end of a course and points on the way.

    Args:
        problem: its spectrum.
        course: the run.
        stops: numbers of steps at which points are wanted.
        resolution: of smooth pieces.
        compiled_from: so many single steps or more are taken in a compiled loop, which a first call has to compile.
    """
    with np.errstate(all="ignore"):  # overflow and underflow are results here
        return Traveller(problem, course, resolution, stops, compiled_from).travel()
