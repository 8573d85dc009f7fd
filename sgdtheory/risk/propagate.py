"""Propagation of the moments through a segment: in closed form, on panels or step by step, whichever it allows."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import cast

import numpy as np

from sgdtheory.risk.solvers.contour import NEGLIGIBLE
from sgdtheory.risk.solvers.renewal import after, ends_after
from sgdtheory.risk.solvers.rounds import PeriodStage, propagate_round_by_round
from sgdtheory.risk.solvers.smooth import first_panels, propagate_smooth
from sgdtheory.risk.solvers.steps import propagate_by_steps, size_of_steps
from sgdtheory.risk.systems.constant import Stage, make_stage, settling_steps
from sgdtheory.risk.systems.moments import Ends, Moments, at_runs, ends
from sgdtheory.risk.systems.periodic import make_period
from sgdtheory.risk.systems.runs import Propagated, Segment, joined, kinds_of, propagated
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
    overflowed = np.isinf(moments.own).all((0, 2, 3, 4))
    return np.where(overflowed, "gone", np.where(short, "steps", kinds))


def _propagate_by(kinds: np.ndarray, moments: Moments, segment: Segment) -> Propagated:
    """Propagate runs by the solvers that `kinds` (S,) names."""
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
    oscillation = THRESHOLDS.short_oscillating * segment.setup.resolution.order**3
    if segment.setup.summed:  # A step takes half the time, and a panel does not.
        oscillation *= 2
    return np.where(segment.steps >= segment.setup.compiled_from, oscillation, THRESHOLDS.short_smooth)


def propagate_repeated(moments: Moments, segment: Segment) -> Propagated:
    """Propagate steps, or rounds of H steps, that are all alike: in closed form where it holds, else one by one.

    What is left of rounds at both ends is stepped through, and runs whose directions grow so far that slow ones lose
    their digits.
    """
    period = _period(segment)
    # Whole rounds are alike; a segment may begin and end within one.
    begin = np.minimum(np.ceil(segment.low / period) * period, segment.high)
    before = propagate_by_steps(moments, segment.between(segment.low, begin))
    rest = segment.between(begin, segment.high)
    stage, settling, solvers = _repeated(before.moments, rest)
    parts = []
    for solver in np.unique(solvers).tolist():
        indices = np.flatnonzero(solvers == solver)
        whole = indices.size == solvers.size
        runs = (before.moments, rest, stage)
        if not whole:
            runs = (at_runs(before.moments, indices), rest.select(indices), stage.select(indices))
        parts.append((indices, _REPEATED[solver](*runs, settling[indices])))
    ended = joined(parts)
    return ended._replace(points=before.points + ended.points, near=_near(stage, segment, rest.steps // period))


def _repeated(moments: Moments, segment: Segment) -> tuple[Stage | PeriodStage, np.ndarray, np.ndarray]:
    """Return the step or round that a segment repeats, after how many of them its closed form holds, and the solvers.

    The closed form is not used where oscillations do not die out within the segment, or where small moments would lose
    digits.
    """
    setup = segment.setup
    if segment.runs.algorithm.method.step_dependence == "period":
        few = THRESHOLDS.few_rounds
        stage = PeriodStage(make_period(segment), setup.stable)
    else:
        few = THRESHOLDS.few_steps
        averaging = segment.runs.output, segment.keeping
        here = segment.runs.coefficients(segment.low)
        stage = make_stage(here, setup.modes, *averaging, setup.resolution.contour, setup.stable)
    number = segment.steps // _period(segment)
    settling = np.maximum(few, settling_steps(stage.spectrum, stage.keeping, setup.noise_variance == 0))
    lost = (segment.steps <= THRESHOLDS.most_settling) & _loses_digits(moments, segment, stage, number)
    # Where oscillations last, rounds are applied one after the other, faster than their steps.
    applied = isinstance(stage, PeriodStage) & ~lost & (segment.steps <= THRESHOLDS.most_steps) & (not segment.stops)
    return stage, settling, np.where((number > settling) & ~lost, "closed", np.where(applied, "rounds", "steps"))


def _period(segment: Segment) -> int:
    """Return H, after how many steps the coefficients repeat: 1 for rounds of one worker, whose steps are all alike."""
    method = segment.runs.algorithm.method
    return method.period if method.step_dependence == "period" else 1


def _in_closed_form(moments: Moments, segment: Segment, stage: Stage | PeriodStage, settling: np.ndarray) -> Propagated:
    """Propagate in closed form, then by single steps that are left, to the end and to every stop of a single run."""
    period = _period(segment)
    if not segment.stops:
        number = segment.steps // period
        there = after(stage, moments, number)
        rest = segment.between(segment.low + number * period, segment.high)
        return propagate_by_steps(there.moments, rest)._replace(size=there.size)
    settled = segment.low[0] + np.ceil(settling[0]) * period
    early = [stop for stop in segment.stops if stop <= settled]
    points = [] if not early else propagate_by_steps(moments, segment.between(segment.low, np.array(early[-1:]))).points
    stops = np.array(sorted({*segment.stops[len(early) :], float(segment.high[0])}))
    again = np.zeros(stops.size, dtype=int)
    to_stops = replace(segment.select(again), stops=()).between(segment.low[again], stops)
    there = _in_closed_form(at_runs(moments, again), to_stops, stage.select(again), settling)
    for place, stop in enumerate(stops.tolist()):
        if stop in segment.stops:
            here = at_runs(there.moments, again[:1] + place)
            points = [*points, ends(here, segment.runs.output, there.size[:, [place]])]
    return propagated(at_runs(there.moments, again[:1] - 1), points)._replace(size=there.size[:, -1:])


def _round_by_round(moments: Moments, segment: Segment, stage: PeriodStage, _: np.ndarray) -> Propagated:
    """Apply rounds one after the other, then take the steps that are left."""
    number = segment.steps // _period(segment)
    there = propagate_round_by_round(stage.period, moments, number)
    rest = segment.between(segment.low + number * _period(segment), segment.high)
    done = propagate_by_steps(there, rest)
    return done._replace(size=size_of_steps(moments, done.moments, segment))


# A solver of repeated steps or rounds maps moments, segment, stage and settling to `Propagated`.
_REPEATED: dict[str, Callable[..., Propagated]] = {
    "closed": _in_closed_form,
    "rounds": _round_by_round,
    "steps": lambda moments, segment, *_: propagate_by_steps(moments, segment),
}


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
    stage, _, solvers = _repeated(moments, segment)
    if (solvers != "closed").any():
        return None
    return ends_after(cast(Stage, stage), moments, segment.steps), _near(stage, segment, segment.steps)


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


def _overflowed(moments: Moments, segment: Segment) -> Propagated:
    """Return the moments as they are, beyond the range of a float, and sums of an average that are so as well."""
    if segment.keeping is not None:
        # The average has terms of the iterate, which is infinite, even where its sums are still finite.
        lost = (np.full_like(each, np.inf) for each in (moments.cross, moments.square))
        moments = Moments(moments.own, *lost)
    return propagated(moments, [ends(moments, segment.runs.output)] * len(segment.stops))


PROPAGATORS: dict[str, Callable[[Moments, Segment], Propagated]] = {
    "gone": _overflowed,
    "steps": propagate_by_steps,
    "constant": propagate_repeated,
    "rounds": propagate_repeated,
    "smooth": propagate_smooth,
}
"""Name of a solver → function from the moments at the start of a segment of S runs, and the segment, to `Propagated`.

A solver returns the moments of T19 and T20 at `segment.high`, which differs from run to run, and does not change those
that it is given. `points` has the sums at each of `segment.stops`, which only a single run has. `size` is the sum
of |terms| to which the rounding error is relative, and 0 where nothing cancels. `near` says whether a run is near the
stability threshold (1 or 0), and is −1 where the solver does not know. `propagate_by_steps` takes runs that a solver
cannot do. `_kinds` chooses the solver of each run.
"""
