"""Propagation of the moments through a segment: in closed form, on panels or step by step, whichever it allows."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from sgdtheory.risk.solvers.contour import NEGLIGIBLE
from sgdtheory.risk.solvers.renewal import after, ends_after
from sgdtheory.risk.solvers.rounds import PeriodStage, propagate_round_by_round
from sgdtheory.risk.solvers.smooth import first_panels, propagate_smooth
from sgdtheory.risk.solvers.steps import propagate_by_steps, size_of_steps
from sgdtheory.risk.systems.constant import Stage, make_stage, settling_steps
from sgdtheory.risk.systems.moments import Ends, Moments, MomentsAndSize, at_runs
from sgdtheory.risk.systems.periodic import make_period
from sgdtheory.risk.systems.runs import Point, Propagated, Segment, in_closed_form, joined, kinds_of, point, propagated
from sgdtheory.risk.thresholds import THRESHOLDS


def propagate(moments: Moments, segment: Segment, by_steps: bool = False) -> Propagated:
    """Return the moments of S runs at the ends of segments; runs beyond the range of a float do not change.

    `by_steps`: every step is taken where there are closed forms and panels: few are sooner done so.
    """
    return _propagate_by(_kinds(moments, segment, by_steps), moments, segment)


def to_first_panel(moments: Moments, segment: Segment) -> tuple[Moments, Segment] | None:
    """Return moments where panels begin, and the rest of the segment; None if no run of the segment needs panels."""
    kinds = _kinds(moments, segment)
    smooth = kinds == "smooth"
    if not smooth.any():
        return None
    begin = np.where(smooth, first_panels(segment), segment.high)
    whole = np.where(smooth, "steps", kinds)
    ended = _propagate_by(whole, moments, segment.between(segment.low, begin))
    return ended.moments, segment.between(begin, segment.high)


def _kinds(moments: Moments, segment: Segment, by_steps: bool = False) -> np.ndarray:
    """Return the names of `PROPAGATORS` that runs take, (S,)."""
    kinds = np.full(segment.low.size, "steps") if by_steps else kinds_of(segment)
    few = np.where(
        kinds == "rounds", THRESHOLDS.rounds_by_steps * segment.runs.algorithm.method.period, THRESHOLDS.few_steps
    )
    # A closed form costs the same for any number of steps, so that few steps are sooner taken one by one.
    short = segment.steps <= np.where(kinds == "smooth", _short(segment), few)
    return np.where(_has_overflowed(moments), "gone", np.where(short, "steps", kinds))


def _propagate_by(kinds: np.ndarray, moments: Moments, segment: Segment) -> Propagated:
    if (kinds == kinds[0]).all():
        return PROPAGATORS[kinds[0]](moments, segment)
    parts = []
    for kind in np.unique(kinds).tolist():
        indices = np.flatnonzero(kinds == kind)
        parts.append((indices, PROPAGATORS[kind](at_runs(moments, indices), segment.select(indices))))
    return joined(parts)


def _short(segment: Segment) -> np.ndarray:
    """Return up to how many steps smooth segments are stepped through, (S,)."""
    if segment.runs.algorithm.method.step_dependence == "none":
        return np.full(segment.low.size, THRESHOLDS.short_smooth)
    oscillation = THRESHOLDS.short_oscillating * segment.setup.resolution.order**2
    return np.where(segment.steps >= segment.setup.compiled_from, oscillation, THRESHOLDS.short_smooth)


def _has_overflowed(moments: Moments) -> np.ndarray:
    """Return (S,) whether all moments are beyond the range of a float."""
    return np.isinf(moments.own).all((0, 2, 3, 4))


def propagate_constant(moments: Moments, segment: Segment) -> Propagated:
    """Propagate constant segments in closed form where it holds, else step by step."""
    stage, settling, holds = _closed(moments, segment)
    near = _near(stage, segment, segment.steps)
    if segment.stops and holds.all():
        return _at_stops(stage, moments, segment, float(segment.low[0] + settling[0]))._replace(near=near)
    if holds.all():
        return in_closed_form(after(stage, moments, segment.steps), near)
    indices = np.flatnonzero(~holds)
    parts = [(indices, propagate_by_steps(at_runs(moments, indices), segment.select(indices)))]
    if (indices := np.flatnonzero(holds)).size:
        ended = after(stage.select(indices), at_runs(moments, indices), segment.steps[indices])
        parts.append((indices, in_closed_form(ended, near[indices])))
    return joined(parts)._replace(near=near)


def _near(stage: Stage | PeriodStage, segment: Segment, number: np.ndarray) -> np.ndarray:
    """Return 1 for runs near the stability threshold, 0 for others, and −1 in searches, (S,)."""
    if segment.setup.stable:
        return np.full(number.size, -1)
    if (segment.steps <= THRESHOLDS.exact_steps).all():
        return np.zeros(number.size, dtype=int)
    return stage.near_threshold(number).astype(int)


def constant_ends(moments: Moments, segment: Segment) -> tuple[Ends, np.ndarray] | None:
    """Return the sums over the modes at the ends of constant segments, if all of them have a closed form; else None.

    It takes less time than the moments of all modes. The second array (S,) says whether runs are near the threshold.
    """
    if (_kinds(moments, segment) != "constant").any():
        return None
    stage, _, holds = _closed(moments, segment)
    return (ends_after(stage, moments, segment.steps), _near(stage, segment, segment.steps)) if holds.all() else None


def _closed(moments: Moments, segment: Segment) -> tuple[Stage, np.ndarray, np.ndarray]:
    """Return the stage, after how many steps its closed form holds, and whether it is used, (S,) each.

    It is not used where oscillations do not die out within the segment, or where small moments would lose digits.
    """
    here = segment.runs.coefficients(segment.low)
    contour = segment.setup.resolution.contour
    stage = make_stage(here, segment.setup.modes, segment.runs.output, segment.keeping, contour, segment.setup.stable)
    noiseless = segment.setup.noise_variance == 0
    settling = np.maximum(THRESHOLDS.few_steps, settling_steps(stage.spectrum, stage.keeping, noiseless))
    lost = (segment.steps <= THRESHOLDS.most_settling) & _loses_digits(moments, segment, stage, segment.steps)
    return stage, settling, (segment.steps > settling) & ~lost


def propagate_rounds(moments: Moments, segment: Segment) -> Propagated:
    """Propagate methods that repeat every H steps: whole rounds in closed form, or one by one where they are few.

    By steps what is left of rounds at both ends, and where directions grow so far that slow ones lose their digits.
    """
    period = segment.runs.algorithm.method.period
    first = np.minimum(np.ceil(segment.low / period) * period, segment.high)
    first_round = propagate_by_steps(moments, segment.between(segment.low, first))
    rest = segment.between(first, segment.high)
    rounds = np.floor(rest.steps / period)
    stage = PeriodStage(make_period(segment), segment.setup.stable)
    noiseless = segment.setup.noise_variance == 0
    settling = np.maximum(THRESHOLDS.few_rounds, settling_steps(stage.spectrum, stage.keeping, noiseless))
    lost = (rest.steps <= THRESHOLDS.most_settling) & _loses_digits(first_round.moments, rest, stage, rounds)
    holds = (rounds > settling) & ~lost
    # The closed form holds once oscillations have died out; where they last, rounds are applied one after the other.
    each = ~holds & ~lost & (rest.steps <= THRESHOLDS.most_steps) & (not segment.stops)
    parts = []
    if (indices := np.flatnonzero(~holds & ~each)).size:
        parts.append((indices, propagate_by_steps(at_runs(first_round.moments, indices), rest.select(indices))))
    if (indices := np.flatnonzero(each)).size:
        some = rest.select(indices)
        here = at_runs(first_round.moments, indices)
        there = propagate_round_by_round(stage.period.select(indices), here, rounds[indices])
        done = propagate_by_steps(there, some.between(some.low + rounds[indices] * period, some.high))
        parts.append((indices, done._replace(size=size_of_steps(here, done.moments, some))))
    if (indices := np.flatnonzero(holds)).size:
        here = at_runs(first_round.moments, indices)
        parts.append((indices, _whole_rounds(stage.select(indices), here, rest.select(indices), settling[indices])))
    ended = joined(parts)
    return ended._replace(points=first_round.points + ended.points, near=_near(stage, segment, rounds))


def _whole_rounds(stage: PeriodStage, moments: Moments, segment: Segment, settling: np.ndarray) -> Propagated:
    """Propagate whole rounds in closed form, then single steps, to the end and to every stop of a single run."""
    period = segment.runs.algorithm.method.period
    rounds = np.floor(segment.steps / period)
    if not segment.stops:
        whole = segment.low + rounds * period
        there = after(stage, moments, rounds)
        return propagate_by_steps(there.moments, segment.between(whole, segment.high))._replace(size=there.size)
    settled = float(segment.low[0] + np.ceil(settling[0]) * period)
    early = [stop for stop in segment.stops if stop <= settled]
    points = [] if not early else propagate_by_steps(moments, segment.between(segment.low, np.array(early[-1:]))).points
    stops = np.array(sorted({*(stop for stop in segment.stops if stop > settled), float(segment.high[0])}))
    again = np.zeros(stops.size, dtype=int)
    rounds = np.floor((stops - segment.low) / period)
    there = after(stage.select(again), at_runs(moments, again), rounds)
    rest = replace(segment.select(again), stops=()).between(segment.low + rounds * period, stops)
    ended = MomentsAndSize(*propagate_by_steps(there.moments, rest).moments, there.size)
    return _joined_stops(ended, stops.tolist(), points, segment)


def _loses_digits(moments: Moments, segment: Segment, stage: Stage | PeriodStage, number: np.ndarray) -> np.ndarray:
    """Return whether a closed form loses the digits of small modes that matter later in the run, (S,).

    The contour sum is accurate relative to the largest mode, which may have grown far beyond the stability threshold.
    Small modes keep their digits if everything decays long enough, and do not matter at the end of a run that grows.

    Args:
        moments: at the start of the segment.
        segment: of S runs.
        stage: of a step, or of a round.
        number: (S,) how often the stage is repeated.
    """
    largest_kept = THRESHOLDS.largest_growth * max(float(segment.setup.modes.signal.sum()), 1.0)
    # Moments that have grown and then decay for long are forgotten; those that decay briefly still hide small modes.
    grown = np.einsum("dsiik->ds", moments.own).max(0) > largest_kept
    result = grown & (2 * stage.spectrum.slowest * number > -NEGLIGIBLE)
    if (going_on := np.flatnonzero(~grown & (segment.high < segment.runs.length))).size:
        some = number[going_on]
        result[going_on] = stage.select(going_on).growths(some) * some > math.log(largest_kept)
    return result


def _at_stops(stage: Stage, moments: Moments, segment: Segment, settled: float) -> Propagated:
    """Return the points of a single run at its stops: before oscillations have died out step by step."""
    low = float(segment.low[0])
    early = [stop for stop in segment.stops if stop <= settled]
    points = [] if not early else propagate_by_steps(moments, segment.between(segment.low, np.array(early[-1:]))).points
    stops = sorted({*(stop for stop in segment.stops if stop > settled), float(segment.high[0])})
    again = np.zeros(len(stops), dtype=int)
    there = after(stage.select(again), at_runs(moments, again), np.array(stops) - low)
    return _joined_stops(there, stops, points, segment)


def _joined_stops(there: MomentsAndSize, stops: list[float], points: list[Point], segment: Segment) -> Propagated:
    """Return a single run from its states at the later stops, side by side, and the points before them."""
    output = segment.runs.output
    for place, stop in enumerate(stops):
        if stop in segment.stops:
            points = [*points, point(stop, at_runs(there.moments, np.array([place])), output, there.size[:, [place]])]
    last = np.array([len(stops) - 1])
    return propagated(at_runs(there.moments, last), points)._replace(size=there.size[:, last])


def _overflowed(moments: Moments, segment: Segment) -> Propagated:
    """Return the moments as they are, beyond the range of a float, and sums of an average that are so as well."""
    if segment.keeping is not None:
        # The average has terms of the iterate, which is infinite, even where its sums are still finite.
        lost = (np.full_like(each, np.inf) for each in (moments.cross, moments.square))
        moments = Moments(moments.own, *lost)
    return propagated(moments, [point(stop, moments, segment.runs.output) for stop in segment.stops])


PROPAGATORS: dict[str, Callable[[Moments, Segment], Propagated]] = {
    "gone": _overflowed,
    "steps": propagate_by_steps,
    "constant": propagate_constant,
    "rounds": propagate_rounds,
    "smooth": propagate_smooth,
}
"""Name of a solver → function from the moments at the start of a segment of S runs, and the segment, to `Propagated`.

A solver returns the moments of T19 and T20 at `segment.high`, which differs from run to run, and does not change those
that it is given. `points` has one `point` for each of `segment.stops`, which only a single run has. `size` is the sum
of |terms| to which the rounding error is relative, and 0 where nothing cancels. `near` says whether a run is near the
stability threshold (1 or 0), and is −1 where the solver does not know. `propagate_by_steps` takes runs that a solver
cannot do. `_kinds` chooses the solver of each run.
"""
