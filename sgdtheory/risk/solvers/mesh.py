"""Ends of the panels of a smooth segment, and the oscillations that they have to resolve.

Where the coefficients of a method change with the step, as those of schedule-free SGD do, directions oscillate slowly,
at a rate per step like 1/t: on panels that grow with t, their moments `Re r^t e^{2iωt}` turn by about as much on each.
Moments that have decayed by e^−E may turn farther: of a turn by Θ, p Radau points miss some Θ^{2p}, so that
`Θ e^{−E/2p}` is what counts.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from sgdtheory.algorithms import StepMatrices
from sgdtheory.risk.solvers.collocation import radau_nodes, tails
from sgdtheory.risk.solvers.contour import NEGLIGIBLE, Resolution
from sgdtheory.risk.solvers.mode_reduction import slow_decay
from sgdtheory.risk.solvers.spectrum import SMALLEST, eigenvalues_of_steps, loads, radii, step_spectrum
from sgdtheory.risk.systems.constant import Stage, make_stage
from sgdtheory.risk.systems.runs import Segment

# Directions are probed at this many steps for each doubling of the steps since the last kink: eigenvalues change like
# 1/t.
PROBES_A_DOUBLING = 4
MOST_DIRECTIONS = 32  # At most this many directions of a spectrum are probed: neighbours oscillate alike.


class Oscillation(NamedTuple):
    """Angles in radians by which the moments of a run turn a step, weighted by their decay, at T steps, (T,)."""

    steps: np.ndarray
    rates: np.ndarray

    def at(self, step: float) -> float:
        """Return the angle a step at a step between the known ones."""
        return float(np.interp(step, self.steps, self.rates))

    def slower(self, rate: float) -> float:
        """Return the step from which moments turn no faster than this."""
        fast = np.flatnonzero(self.rates > rate)
        return float(self.steps[min(fast[-1] + 1, self.steps.size - 1)]) if fast.size else float(self.steps[0])


def oscillations(segment: Segment) -> list[Oscillation | None]:
    """Return the oscillation of each run; None for methods that do not change with the step, which come to rest."""
    runs = segment.low.size
    if segment.runs.algorithm.method.step_dependence != "smooth":
        return [None] * runs
    every = segment.setup.modes.eigenvalue
    eigenvalue = every[np.unique(np.linspace(0, every.size - 1, min(every.size, MOST_DIRECTIONS)).astype(int))]
    since = np.maximum(segment.high - segment.origin, 1.0)
    number = int(PROBES_A_DOUBLING * np.log2(since.max())) + 2
    probes = segment.origin[:, None] + np.floor(np.geomspace(1.0, since, number, axis=1)) - 1
    here = segment.runs.coefficients(probes).matrices
    slow = here.decay[..., None] + (here.b[:, :, None] * here.c[:, None])[..., None] * eigenvalue
    values = 1 - eigenvalues_of_steps(slow).reshape(-1, *probes.shape, eigenvalue.size)  # (k, S, T, L)
    turn = np.where(values.imag != 0, np.abs(np.angle(values)), 0.0).max(0)
    fall = np.maximum(-2 * np.log(np.maximum(np.abs(values).max(0), SMALLEST)), 0.0)
    # The first steps of a short run are probed more than once: nothing falls between two probes of one step.
    fallen = np.cumsum(fall[:, :-1] * np.diff(probes)[..., None], axis=1)
    fallen = np.concatenate([np.zeros((runs, 1, eigenvalue.size)), fallen], axis=1) / (
        2 * segment.setup.resolution.order
    )
    result = 2 * turn * np.exp(-fallen)
    if segment.keeping is not None:  # x of an average holds single powers
        result = np.maximum(result, turn * np.exp(-fallen / 2))
    return [Oscillation(*each) for each in zip(probes, result.max(2), strict=True)]


# Learning rate and batch size vary at most by this factor within a panel.
PANEL_VARIATION = 5.0
# Panels with fewer steps are stepped through: the steps take less time.
SHORTEST_PANEL = 16.0
# Where coefficients change like 1/t the ends of a panel have at most this ratio.
OSCILLATION_RATIO = 2.0
# Within a panel all directions together decay at most by e^−1: a polynomial does not follow an exponential for
# longer.
PANEL_DECAY = 1.0
# Within a panel the moments grow at most by about e^4.
PANEL_RISE = 4.0
# If the fastest directions decay by less than e^−½ until the end, a single panel follows the rest of the run.
STILL_WAY = 0.5
# Growth by e^800 exceeds the range of a float: such a run diverges.
MOST_GROWTH = 800.0
GROWTH_PROBES = 17  # The rate of growth is computed at this many steps of a segment, and interpolated between them.

Panels = list[tuple[float, float]]  # first steps and ends of the panels of a run


class Mesh(NamedTuple):
    """Limits that the panels of a segment have to respect.

    Attributes:
        resolution: order and ratio.
        origin, last: steps at which the segment begins and ends.
        size: γ_t, and what else may change by `PANEL_VARIATION` at most within a panel, (C, T) for T steps.
        slowest: rate per step and unit of learning rate at which what is learnt last decays: within a panel by
            e^−`PANEL_DECAY` at most, as a polynomial cannot follow an exponential for longer, until nothing is left.
        growth: rate per step at which the moments grow at a step, 0 where they do not: by e^`PANEL_RISE` at most.
        fastest: rate per step and unit of γ at which what is learnt first decays.
        forgotten: rate per step at which an average's square forgets.
        turning: how far moments turn a step at a step, if they do.
    """

    resolution: Resolution
    origin: float
    last: float
    size: Callable[[np.ndarray], np.ndarray]
    slowest: float
    growth: Callable[[float], float]
    fastest: float
    forgotten: float = 0.0
    oscillation: Oscillation | None = None

    def panels(self, first: float) -> Iterator[tuple[float, float]]:
        """Yield the panels from the step `first` to the last."""
        low = first
        left = NEGLIGIBLE
        ratio = min(self.resolution.ratio, OSCILLATION_RATIO) if self.oscillation else self.resolution.ratio
        while low < self.last:
            further = np.ceil((ratio - 1) * (low - self.origin))
            rate = self.slowest * float(self.size(np.array([low])).T[0, 0]) if left > 0 else 0.0
            if rate > 0:
                further = min(further, np.ceil(PANEL_DECAY / rate))
            high = float(min(low + max(further, SHORTEST_PANEL), self.last))
            left -= (high - low) * rate
            yield from self._split(low, high)
            low = high

    def _split(self, low: float, high: float) -> Iterator[tuple[float, float]]:
        if high - low > SHORTEST_PANEL and self._too_long(low, high):
            middle = float(np.floor((low + high) / 2))
            yield from self._split(low, middle)
            yield from self._split(middle, high)
        else:
            yield low, high

    def _still(self, low: float) -> bool:
        """Return whether so little moves until the end that polynomials follow it, as they follow γ_t and B_t."""
        order = self.resolution.order
        values = self.size(low + (radau_nodes(order) + 1) / 2 * (self.last - 1 - low))
        largest = values.max(1, keepdims=True)
        way = self.fastest * float(largest[0, 0]) * (self.last - low)
        forgotten = self.forgotten * (self.last - low)
        return way + forgotten < STILL_WAY and way * tails(values / largest, 1.0).max() < self.resolution.still

    def _too_long(self, low: float, high: float) -> bool:
        if high == self.last and self._still(low):
            return False
        ratio = self.resolution.ratio
        values = self.size(np.array([low, high - 1]))
        if (values.max(1) > PANEL_VARIATION * values.min(1)).any():
            return True
        falls = values[0, 1] < values[0, 0]  # perhaps to 0, and with a kink there
        if falls and self.last - low > ratio * (self.last - high + SHORTEST_PANEL / 2):
            return True
        way = (np.array([low, high]) - self.origin) * values[0]  # how far the slow directions have come since the kink
        if way[1] > (ratio + 0.2) * way[0]:
            return True
        if self.oscillation and self.oscillation.at(low) * (high - low) > self.resolution.turn:
            return True
        return max(self.growth(low), self.growth(high - 1)) * (high - low) > PANEL_RISE


def panels_of(segment: Segment, oscillations: list[Oscillation | None]) -> list[Panels | None]:
    """Return the panels of each run, given its oscillation; None for a run that grows beyond the range of a float."""
    last = np.maximum(segment.high - 1, segment.low)
    probes = np.linspace(segment.low, last, GROWTH_PROBES, axis=1)
    if segment.runs.algorithm.method.step_dependence == "smooth":  # as a function of log t, which is fast at first
        early = np.geomspace(segment.low + 1, last + 1, GROWTH_PROBES, axis=1) - 1
        probes = np.sort(np.append(probes, early, axis=1), axis=1)
    probes = np.floor(probes)
    rates = segment.runs.rates_at(probes)
    slowest = _slowest(segment, rates.max(1))
    growths = _growths(segment, probes, rates)
    known: dict[tuple[float, ...], Panels] = {}
    result: list[Panels | None] = []
    forgotten = (2 * segment.keeping.forgetting).tolist() if segment.keeping else [0.0] * len(growths)
    ends = zip(segment.origin.tolist(), segment.low.tolist(), segment.high.tolist(), strict=True)
    each = zip(ends, slowest.tolist(), growths, _fastest(segment).tolist(), oscillations, strict=True)
    for run, ((origin, begin, end), slow, growth, fast, oscillation) in enumerate(each):
        course = segment.runs.courses[run]
        # what neither grows nor turns nor decays much has panels that do not depend on γ
        alike = slow == 0 and growth is _no_growth and not oscillation and course.constant_batch
        key = (origin, begin, end, course.num_steps, fast * course.rate, 0.0 if alike else course.rate, course.batch)
        if growth is not None and key not in known:
            size = segment.runs.size(run)
            mesh = Mesh(segment.setup.resolution, origin, end, size, slow, growth, fast, forgotten[run], oscillation)
            known[key] = list(mesh.panels(begin))
        result.append(None if growth is None else known[key])
    return result


def _slowest(segment: Segment, largest: np.ndarray) -> np.ndarray:
    """(S,) rates per step and unit of γ at which what is learnt last decays; 0 if hardly. `largest` γ of each."""
    rates = segment.runs.rates_at(segment.low)
    falls = -2 * step_spectrum(segment.runs.maps(segment.low, segment.setup.modes).propagator_decay).slowest
    slowest = np.where(rates > 0, falls / np.where(rates > 0, rates, 1.0), 0.0)
    return np.where(slowest * largest * segment.steps < PANEL_DECAY / 2, 0.0, slowest)


def _fastest(segment: Segment) -> np.ndarray:
    """Return (S,) rates per step and unit of γ at which what is learnt first decays, if γ is small.

    Times the peak of γ they are powers of 2, no less than it is, so that runs of like rates have the same panels.
    """
    rates = segment.runs.rates_at(segment.low)
    matrices = segment.runs.coefficients(segment.low[:, None]).matrices
    slow = slow_decay(StepMatrices(*(each[:, None] for each in matrices)))
    with np.errstate(all="ignore"):
        result = 2 * slow.slope / rates * segment.setup.modes.eigenvalue.max()
        result = 2 ** np.ceil(np.log2(result * segment.runs.rate)) / segment.runs.rate
    return np.where(np.isfinite(result), result, np.inf)


def _growths(segment: Segment, probes: np.ndarray, rates: np.ndarray) -> list[Callable[[float], float] | None]:
    """Return the approximate rates of growth of the moments at the steps of a segment; None for runs that overflow.

    Where the largest step does not make them grow, smaller ones do not. An empty segment has none.
    """
    every = np.arange(rates.shape[0])
    growing = np.flatnonzero(_grows(segment, probes[every, np.argmax(rates, axis=1)]) & (segment.steps > 0))
    result: list[Callable[[float], float] | None] = [_no_growth] * every.size
    if growing.size:
        steps = probes[growing]
        here = segment.select(growing).runs.coefficients(steps)
        stage: Stage = make_stage(here, segment.setup.modes, segment.runs.output, None)
        fast = np.flatnonzero((stage.spectrum.radius > 1) | (stage.load >= 1))
        growth = np.zeros(steps.size)
        growth[fast] = np.maximum(stage.select(fast).growths(np.full(fast.size, math.inf)), 0.0)
        for run, row, values in zip(growing.tolist(), steps, growth.reshape(steps.shape), strict=True):
            result[run] = None if np.trapezoid(values, row) > MOST_GROWTH else partial(np.interp, xp=row, fp=values)
    return result


def _grows(segment: Segment, steps: np.ndarray) -> np.ndarray:
    """Return (S,) whether the moments of each run would grow, if all steps were like this one of it."""
    maps = segment.runs.maps(steps, segment.setup.modes)
    return (radii(maps.propagator_decay) > 1) | (loads(maps, segment.setup.modes.driving) >= 1)


def _no_growth(step: float) -> float:
    return 0.0
