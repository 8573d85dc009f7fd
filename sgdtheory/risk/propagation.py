"""Exact second moments along courses: closed forms, panels or single steps, whichever their pieces allow.

Searches ask for many runs of one algorithm at a time. They travel side by side, piece after piece, so that what a step
or a panel costs beside its numbers is shared.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from sgdtheory.algorithms import Course, StepMatrices
from sgdtheory.problems import AbstractProblem, Modes
from sgdtheory.risk.contour import CONTOUR_RESOLVED, FEW_STEPS, LARGEST_REACH, NEGLIGIBLE
from sgdtheory.risk.mesh import FINE, PANEL_DECAY, SHORTEST_PANEL, Mesh, Resolution
from sgdtheory.risk.moments import (
    Generators,
    Keeping,
    Moments,
    Steps,
    begun,
    generators,
    iterate_risk,
    start,
    together,
)
from sgdtheory.risk.panels import Along, Prepared, across, panel_nodes, prepared, tails
from sgdtheory.risk.pieces import MOST_STEPS, kind_of, pieces
from sgdtheory.risk.spectrum import displacement, loads, radii, step_spectrum
from sgdtheory.risk.spectrum import growth as growth_rate
from sgdtheory.risk.stage import Stage, after, make_stage, settling_steps
from sgdtheory.risk.stepping import stepped

SHORT_PIECE = 200.0  # steps: shorter smooth pieces are stepped through, as fast
COMPILED_FROM = 4096.0  # steps: fewer take less time in NumPy than compiling the loop
LARGEST_GROWN = 1e4  # times what a run began with: where a closed form begins with more it loses four digits or more
MOST_SETTLING = 1e5  # after a kink before panels begin, for what overshoots or grows
PANEL_MODES = 800  # modes times panels that are prepared at once: their inverses stay in a core's cache
MOST_GROWTH = 800.0  # exponents of growth: e^800 is beyond the range of a float
GROWTH_PROBES = 17  # steps of a piece at which the rate of growth is computed, if there is any


class Coefficients(NamedTuple):
    """Of T steps: I − A, b, c, and batch sizes (T,)."""

    matrices: StepMatrices
    batch: np.ndarray


class Point(NamedTuple):
    """What is known after a number of steps: Σ oᵀM o, Σ oᵀx and Σ S², (2,) each, bias and variance at σ² = 1."""

    step: float
    iterate: np.ndarray
    cross: np.ndarray
    square: np.ndarray


class Travelled(NamedTuple):
    """The moments of S runs at their ends, the points asked for on the way, and whether panels were used, (S,)."""

    moments: Moments
    modes: Modes
    points: list[Point]
    approximated: np.ndarray


def course_modes(problem: AbstractProblem, courses: Sequence[Course], tolerance: float) -> Modes:
    """Modes with which sums over directions hold along all of these courses of one algorithm."""
    course = max(courses, key=lambda course: course.num_steps * course.rate)
    samples = np.linspace(0, course.num_steps - 1, int(min(course.num_steps, 257)))
    rate = float(course.rates(np.floor(samples)).max(initial=0.0))
    reach = displacement(course.algorithm.method, rate, course.num_steps)
    return problem.modes(CONTOUR_RESOLVED / min(max(reach, 1.0), LARGEST_REACH), tolerance)


def travelled(
    problem: AbstractProblem,
    courses: Sequence[Course],
    stops: Sequence[float] = (),
    resolution: Resolution = FINE,
    compiled_from: float = COMPILED_FROM,
    by_steps: bool = False,
) -> Travelled:
    """Moments at the ends of S courses of one algorithm, with as many pieces each, and points on the way of one.

    Args:
        problem: its spectrum.
        courses: the runs; those of about the same length use the least time.
        stops: numbers of steps at which points are wanted, of a single course.
        resolution: of smooth pieces.
        compiled_from: so many single steps or more are taken in a compiled loop, which a first call has to compile.
        by_steps: whether every step is taken where there are closed forms and panels: few are sooner done so.
    """
    assert len(courses) == 1 or not stops, "points are those of a single run"
    with np.errstate(all="ignore"):  # overflow and underflow are results here
        return Convoy(problem, courses, resolution, stops, compiled_from, by_steps).travel()


class Convoy:
    """Moments of S runs that move along their courses, piece by piece, and the points that one leaves behind.

    Which runs a function is about is said by `runs`, their places; arrays of numbers of steps are (S,), of all of them.
    """

    def __init__(
        self,
        problem: AbstractProblem,
        courses: Sequence[Course],
        resolution: Resolution,
        stops: Sequence[float],
        compiled_from: float,
        by_steps: bool,
    ) -> None:
        self.courses, self.resolution, self.compiled_from, self.by_steps = courses, resolution, compiled_from, by_steps
        self.algorithm = courses[0].algorithm
        runs = [(course.rate, float(course.batches(np.zeros(1))[0]), course.num_steps) for course in courses]
        self.rates, self.batches, self.lengths = np.array(runs).T  # γ at the peak, B of the first step, n
        self.output = np.asarray(self.algorithm.method.output, dtype=float)
        self.modes, self.noise = course_modes(problem, courses, resolution.modes), problem.noise_variance
        self._shortest = max(SHORTEST_PANEL, resolution.order)  # steps
        self._begin = float(self.modes.signal.sum())
        self._nothing = math.exp(-NEGLIGIBLE) * (self._begin + self.noise)  # what may be lost of a risk
        one = start(self.algorithm.method, self.modes)
        self.moments = Moments(*(np.repeat(each[:, None], len(courses), axis=1) for each in one))
        self.keeping: Keeping | None = None
        self.stops = sorted({float(stop) for stop in stops})
        self.points: list[Point] = []
        self.approximated = np.zeros(len(courses), dtype=bool)
        self.diverged = np.zeros(len(courses), dtype=bool)

    def travel(self) -> Travelled:
        """All pieces, to the end."""
        self._arrive(np.zeros(len(self.courses)))
        ways = np.array([pieces(course) for course in self.courses])  # (S, pieces, 2)
        begins = np.array([course.first_averaged for course in self.courses])
        for low, high in np.moveaxis(ways, 0, -1):
            if (low == begins).all():
                self._begin_average()
            self._piece(low, high)
        return Travelled(self.moments, self.modes, self.points, self.approximated)

    def _begin_average(self) -> None:
        average, lengths = self.algorithm.average, [course.num_steps for course in self.courses]
        kept = [(average.forgetting(n), average.weight(n)) for n in lengths]
        self.keeping = Keeping(*np.array(kept, dtype=float).T)
        self.moments = begun(self.moments, self.output, average)

    def _piece(self, low: np.ndarray, high: np.ndarray) -> None:
        """One piece of each, without a kink inside."""
        ends = zip(self.courses, low.tolist(), high.tolist(), strict=True)
        kinds = np.where(self.diverged, "", ["steps" if self.by_steps else kind_of(*each) for each in ends])
        short = high - low <= np.where(kinds == "smooth", SHORT_PIECE, FEW_STEPS)
        self._steps(np.flatnonzero((kinds == "steps") | short & (kinds != "")), low, high)
        for run in np.flatnonzero((kinds == "constant") & ~short).tolist():
            self._constant(run, low, high)
        smooth = np.flatnonzero((kinds == "smooth") & ~short)
        if smooth.size:
            settled = np.minimum(low + self._settling(smooth, low, high), high)
            self._steps(smooth, low, settled)
            self._panels(smooth, settled, high, low)

    def _constant(self, run: int, low: np.ndarray, high: np.ndarray) -> None:
        """A piece in closed form, where the directions that oscillate come to rest within it."""
        begin, end, one = float(low[run]), float(high[run]), np.array([run])
        stage = self._stage(run, begin)
        settling = max(FEW_STEPS, settling_steps(stage.spectrum, stage.keeping))
        there = Moments(*(each[:, run].copy() for each in self.moments))
        if end - begin <= settling or end - begin <= MOST_SETTLING and self._towers(run, stage, there, begin, end):
            self._steps(one, low, high)
            return
        early = [stop for stop in self.stops if begin < stop <= begin + settling]
        if early:  # the closed form does not hold yet
            self._steps(one, low, np.array([early[-1]]))
        for stop in [*(each for each in self.stops if begin + settling < each < end), end]:
            moments = after(stage, there, stop - begin)
            self._put(one, Moments(*(each[:, None] for each in moments)))
            self._arrive(np.full(len(self.courses), stop))

    def _towers(self, run: int, stage: Stage, there: Moments, begin: float, end: float) -> bool:
        """Whether fast directions are so far up, beyond their edge, that the digits of slow ones beside them are lost.

        A closed form has those of the largest. Where nothing is left but what decays they keep theirs as they come
        down, and at the end of a run that grows no others count.
        """
        tower = LARGEST_GROWN * max(self._begin, 1.0)
        if np.einsum("diik->d", there.own).max() > tower:
            return bool(2 * stage.spectrum.slowest * (end - begin) > -NEGLIGIBLE)
        if end == self.courses[run].num_steps:
            return False
        rate = growth_rate(stage.alone, self.modes.multiplicity, stage.spectrum.slowest, end - begin)
        return rate * (end - begin) > math.log(tower)

    def _stage(self, run: int, step: float) -> Stage:
        here = self._coefficients(np.array([run]), np.array([step]))
        keeping = self.keeping and Keeping(*(float(each[run]) for each in self.keeping))
        return make_stage(here.matrices, float(here.batch[0]), self.modes, self.output, keeping)

    def _settling(self, runs: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """(S,) steps to take one by one after a kink, until the directions that oscillate have come to rest."""
        settling = np.full(len(self.courses), float(FEW_STEPS))
        if self.output.size == 1 and self.keeping is None:
            return settling  # second moments of one vector do not oscillate
        for run in runs.tolist():
            longest = 0.0
            for number in np.unique(np.floor(np.linspace(low[run], high[run] - 1, 5))):
                longest = max(longest, _steps_to_rest(self._stage(run, number)))
            settling[run] = max(FEW_STEPS, np.ceil(longest))
        return settling

    def _steps(self, runs: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
        """Every step, for those runs that have some."""
        runs = runs[high[runs] > low[runs]]
        if not runs.size:
            return
        if (many := float((high - low)[runs].max())) > MOST_STEPS:
            raise ValueError(
                f"algorithm must be smooth, staged or settle sooner: {many:.3g} steps would have to be taken one by "
                f"one (at most {MOST_STEPS:g}); take fewer samples, a smaller momentum or a smooth shape"
            )
        between = [np.array([stop]) for stop in self.stops if low[0] < stop < high[0]]  # of a single run
        for first, last in zip([low, *between], [*between, high], strict=True):
            moments = stepped(
                Moments(*(each[:, runs] for each in self.moments)),
                first[runs],
                last[runs],
                lambda place, numbers: self._rows(int(runs[place]), numbers),
                self.modes,
                self.output,
                self.keeping is not None,
                self.compiled_from,
            )
            self._put(runs, moments)
            self._arrive(last)

    def _rows(self, run: int, numbers: np.ndarray) -> Steps:
        """What these steps of a run do, with T in front."""
        course = self.courses[run]
        kept = [float(each[run]) for each in self.keeping] if self.keeping else [0.0, 0.0]
        batch, one = np.asarray(course.batches(numbers), dtype=float), np.ones(numbers.size)
        return Steps(*course.matrices(numbers), batch, *(each * one for each in kept))

    def _panels(self, runs: np.ndarray, low: np.ndarray, high: np.ndarray, origin: np.ndarray) -> None:
        """Panel after panel, the same number of every run at once; short ones are stepped through."""
        ways = self._ways(runs[low[runs] < high[runs]], low, high, origin)
        together = max(1, PANEL_MODES // (self.modes.eigenvalue.size * runs.size))
        most = max(map(len, ways.values()), default=0)
        for begin in range(0, most, together):
            numbers = range(begin, min(begin + together, most))
            rounds = [{run: way[number] for run, way in ways.items() if number < len(way)} for number in numbers]
            long = [{run: ends for run, ends in each.items() if ends[1] - ends[0] > self._shortest} for each in rounds]
            ready, first = self._prepared([(run, *ends) for each in long for run, ends in each.items()]), 0
            for each, crossed in zip(rounds, long, strict=True):
                self._short_panels({run: ends for run, ends in each.items() if run not in crossed})
                if ready and crossed:
                    self._across(np.array(list(crossed)), ready.some(slice(first, first + len(crossed))))
                    first += len(crossed)

    def _short_panels(self, panels: dict[int, tuple[float, float]]) -> None:
        ends = np.zeros((2, len(self.courses)))
        for run, panel in panels.items():
            ends[:, run] = panel
        self._steps(np.array(list(panels), dtype=int), *ends)

    def _prepared(self, panels: list[tuple[int, float, float]]) -> Prepared | None:
        """Panels of some runs, (run, first step, end)."""
        if not panels:
            return None
        runs, low, high = np.array(panels).T
        which = runs.astype(int)
        keeping = self.keeping and Keeping(*(each[which] for each in self.keeping))
        nodes = panel_nodes(self.resolution.order, low, high)
        here = self._coefficients(which, nodes[:, 1:] - 1)
        maps = generators(here.matrices, here.batch, self.modes.eigenvalue)
        return prepared(nodes, maps, self.modes, keeping)

    def _across(self, runs: np.ndarray, panels: Prepared) -> None:
        """One panel of each of these runs, in halves where the polynomials of the whole do not follow the moments."""
        here = Moments(*(each[:, runs] for each in self.moments))
        keeping = self.keeping and Keeping(*(each[runs] for each in self.keeping))
        moments, along = across(here, panels, self.output, keeping)
        self.approximated[runs] = True
        unresolved = self._unresolved(along)
        self._put(runs[~unresolved], Moments(*(each[:, ~unresolved] for each in moments)))
        for place in np.flatnonzero(unresolved).tolist():
            low, high = along.nodes[place, [0, -1]].tolist()
            self._halves(int(runs[place]), low, high)
        if self.stops and not unresolved[0]:
            first, last = along.nodes[0, [0, -1]]
            self.points += [_inside(along, stop) for stop in self.stops if first < stop < last]
            self._arrive(along.nodes[:, -1])

    def _unresolved(self, along: Along) -> np.ndarray:
        """(L,) whether the polynomials on L panels do not follow the moments."""
        followed = np.concatenate([along.vectors, along.square[:, :, None]], axis=2)
        tail: Any = tails(followed[0] + self.noise * followed[1], self._nothing)
        return (tail > self.resolution.tail).any(1)

    def _halves(self, run: int, low: float, high: float) -> None:
        """Both halves of a panel of a run; short ones are stepped through."""
        middle = float(np.floor((low + high) / 2))
        for ends in ((low, middle), (middle, high)):
            if ends[1] - ends[0] <= self._shortest:
                self._short_panels({run: ends})
            elif (panel := self._prepared([(run, *ends)])) is not None:
                self._across(np.array([run]), panel)

    def _ways(
        self, runs: np.ndarray, low: np.ndarray, high: np.ndarray, origin: np.ndarray
    ) -> dict[int, list[tuple[float, float]]]:
        """Panels of each of these runs; one that grows beyond all numbers has none."""
        ways: dict[int, list[tuple[float, float]]] = {}
        if not runs.size:
            return ways
        slowest, growths = self._slowest(runs, low, high), self._growths(runs, low, high)
        known: dict[tuple[float, ...], list[tuple[float, float]]] = {}
        for run, slow, growth in zip(runs.tolist(), slowest.tolist(), growths, strict=True):
            if growth is None:
                self._diverge(run)
                continue
            course, begin, end = self.courses[run], float(low[run]), float(high[run])
            # what neither grows nor decays much has panels that do not depend on γ
            alike = slow == 0 and growth is _no_growth and course.constant_batch
            key = (float(origin[run]), begin, end, course.num_steps, 0.0 if alike else course.rate, course.batch)
            if key not in known:
                mesh = Mesh(self.resolution, float(origin[run]), end, self._size(run), slow, growth)
                known[key] = list(mesh.panels(begin))
            ways[run] = known[key]
        return ways

    def _slowest(self, runs: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Rate per step and unit of γ at which what is learnt last decays, for each of these runs; 0 if hardly."""
        rates = self._rates_at(runs, low[runs])
        falls = -2 * step_spectrum(self._maps(runs, low[runs]).propagator_decay).slowest
        slowest = np.where(rates > 0, falls / np.where(rates > 0, rates, 1.0), 0.0)
        largest = self._rates_at(runs, self._probes(runs, low, high)).max(1)
        return np.where(slowest * largest * (high - low)[runs] < PANEL_DECAY / 2, 0.0, slowest)

    def _probes(self, runs: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Some steps of a piece of each of these runs, in order."""
        return np.floor(np.linspace(low[runs], high[runs] - 1, GROWTH_PROBES, axis=1))

    def _growths(self, runs: np.ndarray, low: np.ndarray, high: np.ndarray) -> list[Callable[[float], float] | None]:
        """Rates of growth of the moments at the steps of a piece, roughly; None if they grow beyond all numbers.

        Where the largest step does not make them grow, smaller ones do not.
        """
        probes = self._probes(runs, low, high)
        largest = np.argmax(self._rates_at(runs, probes), axis=1)
        grows = self._grows(runs, probes[np.arange(runs.size), largest])
        found: list[Callable[[float], float] | None] = []
        for run, row, growing in zip(runs.tolist(), probes, grows.tolist(), strict=True):
            found.append(self._growth_between(run, np.unique(row)) if growing else _no_growth)
        return found

    def _grows(self, runs: np.ndarray, step: np.ndarray) -> np.ndarray:
        """Whether the moments of each of these runs would grow, if all steps were like this one of it."""
        maps = self._maps(runs, step)
        return (radii(maps.propagator_decay) > 1) | (loads(maps, self.modes.multiplicity) >= 1)

    def _growth_between(self, run: int, probes: np.ndarray) -> Callable[[float], float] | None:
        stages = [self._stage(run, probe) for probe in probes.tolist()]
        grows = self._grows(np.full(probes.size, run), probes)
        rates = np.zeros(probes.size)
        for place in np.flatnonzero(grows).tolist():
            stage = stages[place]
            rate = growth_rate(stage.alone, self.modes.multiplicity, stage.spectrum.slowest, math.inf)
            rates[place] = max(rate, 0.0)
        if np.trapezoid(rates, probes) > MOST_GROWTH:
            return None
        return lambda step: float(np.interp(step, probes, rates))

    def _diverge(self, run: int) -> None:
        """Beyond the range of a float, for good."""
        for each in self.moments:
            each[:, run] = np.inf
        self.diverged[run] = True
        missing = [stop for stop in self.stops if not any(point.step == stop for point in self.points)]
        self.points += [Point(stop, *[np.full(2, np.inf)] * 3) for stop in missing]

    def _rates_at(self, runs: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """γ at these steps of each of (N,) runs, (N,) or (N, P)."""
        peak, length = (np.reshape(each[runs], (-1, *[1] * (steps.ndim - 1))) for each in (self.rates, self.lengths))
        return peak * self.algorithm.schedule.factors(steps, length)

    def _batches_at(self, runs: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """B at these steps; where it takes several values among those of a run, not rounded."""
        found = np.empty((runs.size, steps.size // runs.size))
        if self.courses[0].constant_batch:
            found[:] = self.batches[runs, None]
            return found
        for place, (run, row) in enumerate(zip(runs.tolist(), steps.reshape(found.shape), strict=True)):
            course = self.courses[run]
            found[place] = course.batches(row)
            if np.ptp(found[place]) > 0:
                found[place] = course.smooth_batches(row)
        return found

    def _coefficients(self, runs: np.ndarray, steps: np.ndarray) -> Coefficients:
        """Of these steps, (N,) or (N, P), of each of (N,) runs: N P of them."""
        rates, batches = self._rates_at(runs, steps), self._batches_at(runs, steps)
        return Coefficients(self.algorithm.method.matrices(rates.ravel(), steps.ravel()), batches.ravel())

    def _maps(self, runs: np.ndarray, step: np.ndarray) -> Generators:
        """Maps of one step of each of these runs, without a mode's own part."""
        here = self._coefficients(runs, step)
        return generators(here.matrices, here.batch, self.modes.eigenvalue, itself=False)

    def _size(self, run: int) -> Callable[[np.ndarray], np.ndarray]:
        """What decides about the length of panels: γ_t and, where it varies, B_t."""
        course = self.courses[run]

        def size(step: np.ndarray) -> np.ndarray:
            rates = np.maximum(course.rates(step), 1e-300)
            return rates[None] if course.constant_batch else np.array([rates, course.smooth_batches(step)])

        return size

    def _put(self, runs: np.ndarray, moments: Moments) -> None:
        """Where these runs are now."""
        for values, new in zip(self.moments, moments, strict=True):
            values[:, runs] = new

    def _arrive(self, step: np.ndarray) -> None:
        """The single run that leaves points is at this step, (1,)."""
        if self.stops and float(step[0]) in self.stops:
            here = Moments(*(each[:, 0] for each in self.moments))
            sums = iterate_risk(here, self.output), together(here, self.output), here.square.copy()
            self.points.append(Point(float(step[0]), *sums))


def _steps_to_rest(stage: Stage) -> float:
    """Steps after a kink until what oscillates has come to rest, as many as are taken.

    Underdamped directions would be lost on panels, so that they get as many steps as there are. Directions that
    overshoot change the sign of cross moments alone, which adds up to little; next to the edge they take for ever.
    """
    spectrum, keeping = stage.spectrum, stage.keeping
    complex_steps = settling_steps(spectrum, keeping)
    longest = min(complex_steps, MOST_STEPS if np.isfinite(complex_steps) else MOST_SETTLING)
    if keeping is None:
        return longest
    return max(longest, min(settling_steps(spectrum._replace(complex=spectrum.negative), keeping), MOST_SETTLING))


def _no_growth(step: float) -> float:
    return 0.0


def _inside(along: Along, step: float) -> Point:
    """Values of a single panel between its nodes."""
    nodes = along.nodes[0]
    gaps = nodes - nodes[:, None] + np.eye(nodes.size)
    weights = 1 / (gaps / (nodes[-1] - nodes[0])).prod(1)
    away = step - nodes
    share = np.where(away == 0, 1.0, 0.0) if (away == 0).any() else weights / away
    share = share / share.sum()
    return Point(step, *(each[:, 0] @ share for each in (along.iterate, along.cross, along.square)))
