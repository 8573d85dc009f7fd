"""Cross a piece of a run in closed form, on panels or step by step, whichever it allows."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from sgdtheory.risk.solvers.contour import FEW_STEPS, NEGLIGIBLE
from sgdtheory.risk.solvers.renewal import after, ends_after
from sgdtheory.risk.solvers.rounds import PeriodStage, one_by_one
from sgdtheory.risk.solvers.rounds import after as after_rounds
from sgdtheory.risk.solvers.smooth import MOST_SETTLING, followed, settled
from sgdtheory.risk.solvers.steps import size_of_steps, stepped
from sgdtheory.risk.systems.constant import Stage, make_stage, settling_steps
from sgdtheory.risk.systems.moments import Ends, Moments, Passed, at_runs
from sgdtheory.risk.systems.periodic import make_period
from sgdtheory.risk.systems.runs import Crossed, Piece, Point, arrived, crossed, kinds_of, merged, point

SHORT_PIECE = 200.0  # steps: shorter smooth pieces are stepped through, as fast,
SHORT_TURNING = 300.0  # and p² times as many in a compiled loop, where moments turn and panels are many
FEW_ROUNDS = 16  # fewer are taken one by one,
STEPPED_ROUNDS = 2  # these few by steps;
MOST_ROUNDS = 2000  # and more, that take longer to settle, by compiled steps
# Rounding of so few steps changes moments by 1e-11 of themselves at most: 400 ε each where matrices are near defective.
FEW_TO_ROUND = 128
LARGEST_GROWN = 1e4  # times what a run began with: where a closed form begins with more it loses four digits or more


def cross(moments: Moments, piece: Piece, by_steps: bool = False) -> Crossed:
    """Moments of S runs at the ends of pieces; of runs that have left the range of a float nothing changes.

    `by_steps`: every step is taken where there are closed forms and panels: few are sooner done so.
    """
    return _crossed_by(_kinds(moments, piece, by_steps), moments, piece)


def before_panels(moments: Moments, piece: Piece) -> tuple[Moments, Piece] | None:
    """Moments where panels begin and what is left of a piece then; None of a piece that no run crosses on panels."""
    kinds = _kinds(moments, piece)
    smooth = kinds == "smooth"
    if not smooth.any():
        return None
    begin = np.where(smooth, settled(piece), piece.high)
    whole = np.where(smooth, "steps", kinds)
    ended = _crossed_by(whole, moments, piece.between(piece.low, begin))
    return ended.moments, piece.between(begin, piece.high)


def _kinds(moments: Moments, piece: Piece, by_steps: bool = False) -> np.ndarray:
    """(S,) names of `CROSSINGS`."""
    kinds = np.full(piece.low.size, "steps") if by_steps else kinds_of(piece)
    few = np.where(kinds == "rounds", STEPPED_ROUNDS * piece.runs.algorithm.method.period, FEW_STEPS)
    short = piece.steps <= np.where(kinds == "smooth", _short(piece), few)
    return np.where(_gone(moments), "gone", np.where(short, "steps", kinds))


def _crossed_by(kinds: np.ndarray, moments: Moments, piece: Piece) -> Crossed:
    if (kinds == kinds[0]).all():
        return CROSSINGS[kinds[0]](moments, piece)
    parts = []
    for kind in np.unique(kinds).tolist():
        places = np.flatnonzero(kinds == kind)
        parts.append((places, CROSSINGS[kind](at_runs(moments, places), piece.some(places))))
    return merged(parts)


def _short(piece: Piece) -> np.ndarray:
    """(S,) steps up to which a smooth piece is stepped through."""
    if piece.runs.algorithm.method.step_dependence == "none":
        return np.full(piece.low.size, SHORT_PIECE)
    turning = SHORT_TURNING * piece.ground.resolution.order**2
    return np.where(piece.steps >= piece.ground.compiled_from, turning, SHORT_PIECE)


def _gone(moments: Moments) -> np.ndarray:
    """(S,) whether all moments are beyond the range of a float."""
    return np.isinf(moments.own).all((0, 2, 3, 4))


def constant(moments: Moments, piece: Piece) -> Crossed:
    """Pieces in closed form where it holds; else by steps."""
    stage, settling, holds = _closed(moments, piece)
    near = _near(stage, piece, piece.steps)
    if piece.stops and holds.all():
        return _along(stage, moments, piece, float(piece.low[0] + settling[0]))._replace(near=near)
    if holds.all():
        return arrived(after(stage, moments, piece.steps), near)
    places = np.flatnonzero(~holds)
    parts = [(places, stepped(at_runs(moments, places), piece.some(places)))]
    if (places := np.flatnonzero(holds)).size:
        ended = after(stage.some(places), at_runs(moments, places), piece.steps[places])
        parts.append((places, arrived(ended, near[places])))
    return merged(parts)._replace(near=near)


def _near(stage: Stage | PeriodStage, piece: Piece, number: np.ndarray) -> np.ndarray:
    """(S,) 1 of runs near the stability threshold, 0 of others, after passing the stage so often; −1 in searches."""
    if piece.ground.stable:
        return np.full(number.size, -1)
    if (piece.steps <= FEW_TO_ROUND).all():
        return np.zeros(number.size, dtype=int)
    return stage.near_threshold(number).astype(int)


def constant_ends(moments: Moments, piece: Piece) -> tuple[Ends, np.ndarray] | None:
    """`constant` of all runs in closed form and summed over the modes, which is sooner done; None where it is not.

    And (S,) whether runs are near the threshold (`Crossed`).
    """
    if (kinds_of(piece) != "constant").any() or (piece.steps <= FEW_STEPS).any() or _gone(moments).any():
        return None
    stage, _, holds = _closed(moments, piece)
    return (ends_after(stage, moments, piece.steps), _near(stage, piece, piece.steps)) if holds.all() else None


def _closed(moments: Moments, piece: Piece) -> tuple[Stage, np.ndarray, np.ndarray]:
    """The stage, after how many steps its closed form holds, and whether it is taken, (S,) each.

    Not where directions that oscillate do not come to rest within the piece.
    """
    here = piece.runs.coefficients(piece.low)
    contour = piece.ground.resolution.contour
    stage = make_stage(here, piece.ground.modes, piece.runs.output, piece.keeping, contour, piece.ground.stable)
    noiseless = piece.ground.noise_variance == 0
    settling = np.maximum(FEW_STEPS, settling_steps(stage.spectrum, stage.keeping, noiseless))
    lost = (piece.steps <= MOST_SETTLING) & _towers(moments, piece, stage, piece.steps)
    return stage, settling, (piece.steps > settling) & ~lost


def in_rounds(moments: Moments, piece: Piece) -> Crossed:
    """Pieces of methods that repeat every H steps: whole rounds in closed form, or one by one where they are few.

    By steps what is left of rounds at both ends, and where directions grow so far that slow ones lose their digits.
    """
    period = piece.runs.algorithm.method.period
    first = np.minimum(np.ceil(piece.low / period) * period, piece.high)
    begun = stepped(moments, piece.between(piece.low, first))
    rest = piece.between(first, piece.high)
    rounds = np.floor(rest.steps / period)
    stage = PeriodStage(make_period(piece), piece.ground.stable)
    noiseless = piece.ground.noise_variance == 0
    settling = np.maximum(FEW_ROUNDS, settling_steps(stage.spectrum, stage.keeping, noiseless))
    lost = (rest.steps <= MOST_SETTLING) & _towers(begun.moments, rest, stage, rounds)
    holds = (rounds > settling) & ~lost
    each = ~holds & ~lost & (rounds <= MOST_ROUNDS) & (not piece.stops)
    parts = []
    if (places := np.flatnonzero(~holds & ~each)).size:
        parts.append((places, stepped(at_runs(begun.moments, places), rest.some(places))))
    if (places := np.flatnonzero(each)).size:
        some = rest.some(places)
        here = at_runs(begun.moments, places)
        there = one_by_one(stage.period.some(places), here, rounds[places])
        done = stepped(there, some.between(some.low + rounds[places] * period, some.high))
        parts.append((places, done._replace(size=size_of_steps(here, done.moments, some))))
    if (places := np.flatnonzero(holds)).size:
        here = at_runs(begun.moments, places)
        parts.append((places, _whole_rounds(stage.some(places), here, rest.some(places), settling[places])))
    ended = merged(parts)
    return ended._replace(points=begun.points + ended.points, near=_near(stage, piece, rounds))


def _whole_rounds(stage: PeriodStage, moments: Moments, piece: Piece, settling: np.ndarray) -> Crossed:
    """Cross whole rounds in closed form, then single steps, to the end and to every stop of a single run."""
    period = piece.runs.algorithm.method.period
    rounds = np.floor(piece.steps / period)
    if not piece.stops:
        whole = piece.low + rounds * period
        there = after_rounds(stage, moments, rounds)
        return stepped(there.moments, piece.between(whole, piece.high))._replace(size=there.size)
    settled = float(piece.low[0] + np.ceil(settling[0]) * period)
    early = [stop for stop in piece.stops if stop <= settled]
    points = [] if not early else stepped(moments, piece.between(piece.low, np.array(early[-1:]))).points
    stops = np.array(sorted({*(stop for stop in piece.stops if stop > settled), float(piece.high[0])}))
    again = np.zeros(stops.size, dtype=int)
    rounds = np.floor((stops - piece.low) / period)
    there = after_rounds(stage.some(again), at_runs(moments, again), rounds)
    rest = replace(piece.some(again), stops=()).between(piece.low + rounds * period, stops)
    ended = Passed(*stepped(there.moments, rest).moments, there.size)
    return _last_of(ended, stops.tolist(), points, piece)


def _towers(moments: Moments, piece: Piece, stage: Stage | PeriodStage, number: np.ndarray) -> np.ndarray:
    """(S,) whether fast directions are so far up, beyond their edge, that the digits of slow ones beside them are lost.

    A closed form has those of the largest. Where nothing is left but what decays they keep theirs as they come
    down, and at the end of a run that grows no others count. `number`: (S,) how often the stage is passed.
    """
    tower = LARGEST_GROWN * max(float(piece.ground.modes.signal.sum()), 1.0)
    tall = np.einsum("dsiik->ds", moments.own).max(0) > tower
    found = tall & (2 * stage.spectrum.slowest * number > -NEGLIGIBLE)
    if (going_on := np.flatnonzero(~tall & (piece.high < piece.runs.length))).size:
        some = number[going_on]
        found[going_on] = stage.some(going_on).growths(some) * some > math.log(tower)
    return found


def _along(stage: Stage, moments: Moments, piece: Piece, settled: float) -> Crossed:
    """A single run with points on its way: those before it has settled by steps."""
    low = float(piece.low[0])
    early = [stop for stop in piece.stops if stop <= settled]
    begun = [] if not early else stepped(moments, piece.between(piece.low, np.array(early[-1:]))).points
    stops = sorted({*(stop for stop in piece.stops if stop > settled), float(piece.high[0])})
    again = np.zeros(len(stops), dtype=int)
    there = after(stage.some(again), at_runs(moments, again), np.array(stops) - low)
    return _last_of(there, stops, begun, piece)


def _last_of(there: Passed, stops: list[float], points: list[Point], piece: Piece) -> Crossed:
    """A single run that is there at these stops, side by side, after points that it has passed."""
    output = piece.runs.output
    for place, stop in enumerate(stops):
        if stop in piece.stops:
            points = [*points, point(stop, at_runs(there.moments, np.array([place])), output, there.size[:, [place]])]
    last = np.array([len(stops) - 1])
    return crossed(at_runs(there.moments, last), points)._replace(size=there.size[:, last])


def _nothing(moments: Moments, piece: Piece) -> Crossed:
    """Moments stay, and what is summed of them is beyond the range of a float as well."""
    if piece.keeping is not None:
        lost = (np.full_like(each, np.inf) for each in (moments.cross, moments.square))
        moments = Moments(moments.own, *lost)
    return crossed(moments, [point(stop, moments, piece.runs.output) for stop in piece.stops])


CROSSINGS: dict[str, Callable[[Moments, Piece], Crossed]] = {
    "gone": _nothing,
    "steps": stepped,
    "constant": constant,
    "rounds": in_rounds,
    "smooth": followed,
}
