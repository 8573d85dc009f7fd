"""Smooth pieces: single steps until what oscillates has come to rest, then panels of collocation."""

import numpy as np

from sgdtheory.risk.solvers.collocation import Averaging, panel_nodes, tails
from sgdtheory.risk.solvers.contour import FEW_STEPS, NEGLIGIBLE
from sgdtheory.risk.solvers.mesh import SHORTEST_PANEL, Turning, Way, panels_of, turnings
from sgdtheory.risk.solvers.panel_maps import Along, Passage, across, prepared
from sgdtheory.risk.solvers.spectrum import step_spectrum
from sgdtheory.risk.solvers.steps import stepped
from sgdtheory.risk.systems.constant import settling_steps
from sgdtheory.risk.systems.moments import Moments, at_runs, pairs
from sgdtheory.risk.systems.runs import MOST_STEPS, Crossed, Piece, Point, merged

MOST_SETTLING = 1e5  # steps after a kink before panels begin, for what overshoots or grows
SETTLING_PROBES = 5  # steps of a piece at which it is asked how long that takes
PREPARED_TOGETHER = 5e5  # numbers in the systems and weights of panels that are prepared at once: they stay in cache


def followed(moments: Moments, piece: Piece) -> Crossed:
    """Moments of S runs at the ends of smooth pieces."""
    turning = turnings(piece)
    begin = _settled(piece, turning)
    begun = stepped(moments, piece.between(piece.low, begin))
    ended = _on_panels(begun.moments, piece.between(begin, piece.high), turning)
    return ended._replace(points=begun.points + ended.points)


def settled(piece: Piece) -> np.ndarray:
    """(S,) steps at which panels begin: steps before them are taken one by one."""
    return _settled(piece, turnings(piece))


def _settled(piece: Piece, turning: list[Turning | None]) -> np.ndarray:
    """(S,) steps from which on the directions that oscillate turn slowly or have come to rest since the last kink.

    Underdamped directions would be lost on panels, so that they get as many steps as there are. Directions that
    overshoot change the sign of cross moments alone, which an average adds up (schedule-free SGD is one): elsewhere
    that adds up to little; next to the edge they take for ever.
    """
    settings = len(piece.runs.courses)
    longest = np.full(settings, float(FEW_STEPS))
    if piece.runs.output.size > 1 or piece.keeping is not None:  # second moments of one vector do not oscillate
        # from the kink on: of what is left of a piece they are the same, and panels begin at the same step
        probes = np.floor(np.linspace(piece.origin, piece.high - 1, SETTLING_PROBES, axis=1))
        spectrum = step_spectrum(piece.runs.maps(probes, piece.ground.modes).propagator_decay)
        if turning[0]:
            slowly = piece.ground.resolution.turn / SHORTEST_PANEL
            resting = np.array([each.slower(slowly) for each in turning if each]) - piece.origin
        else:
            resting = settling_steps(spectrum, piece.keeping)
            resting = np.minimum(resting, np.where(np.isfinite(resting), MOST_STEPS, MOST_SETTLING))
            resting = resting.reshape(settings, -1).max(1)
        longest = np.maximum(longest, np.ceil(resting))
        if turning[0] or piece.keeping is not None:
            overshooting = settling_steps(spectrum._replace(complex=spectrum.negative), piece.keeping)
            overshooting = np.minimum(overshooting, MOST_SETTLING).reshape(settings, -1).max(1)
            longest = np.maximum(longest, np.ceil(overshooting))
    return np.clip(piece.origin + longest, piece.low, piece.high)


def _on_panels(moments: Moments, piece: Piece, turning: list[Turning | None]) -> Crossed:
    """Panel after panel, one of every run at a time: runs with fewer begin later, so that all end together."""
    ways = panels_of(piece, turning)
    state = at_runs(moments, np.arange(len(ways)))
    points = []
    approximated = np.zeros(len(ways), dtype=bool)
    for run in (run for run, way in enumerate(ways) if way is None):  # beyond the range of a float, for good
        inf = np.full(2, np.inf)
        for each in state:
            each[:, run] = np.inf
        points += [Point(stop, inf, inf, inf, np.zeros((2, 3))) for stop in piece.stops]
    rounds = _rounds(piece, [way or [] for way in ways])
    together = max(1, int(PREPARED_TOGETHER / (_numbers(piece) * len(ways))))
    for begin in range(0, len(rounds), together):
        some = rounds[begin : begin + together]
        for (places, part), ready in zip(some, _prepared_together(piece, some), strict=True):
            done = _one_each(at_runs(state, places), part, ready)
            for values, new in zip(state, done.moments, strict=True):
                values[:, places] = new
            approximated[places] |= done.approximated
            points += done.points
    return Crossed(state, points, approximated)


def _numbers(piece: Piece) -> int:
    """What a panel is made of: systems of equations of some 3p eigenvalues, and their weights at the modes."""
    order = piece.ground.resolution.order
    equations = order * len(pairs(piece.runs.output.size))
    return 3 * order * (equations**2 + piece.ground.modes.eigenvalue.size)


def _rounds(piece: Piece, ways: list[Way]) -> list[tuple[np.ndarray, Piece]]:
    """The runs that cross a panel in each round, and these panels."""
    most = max(map(len, ways))
    found = []
    for number in range(most):
        crossing = {run: way[number - most] for run, way in enumerate(ways) if len(way) >= most - number}
        places = np.array(list(crossing))
        ends = np.array(list(crossing.values()))
        found.append((places, piece.some(places).between(*ends.T)))
    return found


def _long(piece: Piece) -> np.ndarray:
    """Places of the runs whose panels are panels; shorter ones are stepped through."""
    return np.flatnonzero(piece.steps > max(SHORTEST_PANEL, piece.ground.resolution.order))


def _prepared_together(piece: Piece, rounds: list[tuple[np.ndarray, Piece]]) -> list[Passage | None]:
    """The long panels of these rounds; None of a round that has none."""
    long = [_long(part) for _, part in rounds]
    places, low, high = (
        np.concatenate(each)
        for each in zip(
            *((runs[some], part.low[some], part.high[some]) for (runs, part), some in zip(rounds, long, strict=True)),
            strict=True,
        )
    )
    if not places.size:
        return [None] * len(rounds)
    ready = _prepared(piece.some(places).between(low, high))
    ends = np.cumsum([some.size for some in long])
    return [ready.some(slice(end - some.size, end)) for some, end in zip(long, ends.tolist(), strict=True)]


def _prepared(piece: Piece) -> Passage:
    """One panel of each run."""
    nodes = panel_nodes(piece.ground.resolution.order, piece.low, piece.high)
    here = piece.runs.coefficients(nodes[:, 1:] - 1)
    return prepared(nodes, here, piece.ground.modes, Averaging(piece.runs.output, piece.keeping))


def _one_each(moments: Moments, piece: Piece, ready: Passage | None) -> Crossed:
    """One panel of each run, short or long; the long ones are prepared."""
    long = _long(piece)
    if ready and long.size == piece.low.size:
        return _across(moments, piece, ready)
    short = np.setdiff1d(np.arange(piece.low.size), long)
    done = stepped(at_runs(moments, short), piece.some(short))
    if not (ready and long.size):
        return done
    part = piece.some(long)
    other = _across(at_runs(moments, long), part, ready)
    return merged([(short, done), (long, other)])


def _across(moments: Moments, piece: Piece, ready: Passage) -> Crossed:
    """Long panels, in halves where the polynomials of the whole do not follow the moments."""
    ended, along = across(moments, ready, Averaging(piece.runs.output, piece.keeping))
    unresolved = _unresolved(piece, along)
    resolved = np.flatnonzero(~unresolved)
    halved = np.flatnonzero(unresolved)
    points = [] if halved.size else [_inside(along, stop) for stop in piece.stops]
    if not halved.size:
        return Crossed(ended, points, ~unresolved)
    half = piece.some(halved)
    middle = np.floor((half.low + half.high) / 2)
    every = np.arange(halved.size)
    halves = [(every, half.between(half.low, middle)), (every, half.between(middle, half.high))]
    earlier, later = _prepared_together(half, halves)
    first = _one_each(at_runs(moments, halved), halves[0][1], earlier)
    second = _one_each(first.moments, halves[1][1], later)
    here = Crossed(second.moments, first.points + second.points, np.ones(halved.size, dtype=bool))
    there = Crossed(at_runs(ended, resolved), points, np.ones(resolved.size, dtype=bool))
    return merged([(resolved, there), (halved, here)])


def _unresolved(piece: Piece, along: Along) -> np.ndarray:
    """(L,) whether the polynomials on L panels do not follow the moments."""
    ground = piece.ground
    followed = np.concatenate([along.vectors, along.square[:, :, None]], axis=2)
    nothing = np.exp(-NEGLIGIBLE) * (ground.modes.signal.sum() + ground.noise_variance)  # what may be lost of a risk
    tail = tails(followed[0] + ground.noise_variance * followed[1], nothing)
    return np.any(tail > ground.resolution.tail, axis=1)


def _inside(along: Along, step: float) -> Point:
    """Values of a single panel at its nodes and between them."""
    nodes = along.nodes[0]
    gaps = nodes - nodes[:, None] + np.eye(nodes.size)
    weights = 1 / (gaps / (nodes[-1] - nodes[0])).prod(1)
    away = step - nodes
    share = np.where(away == 0, 1.0, 0.0) if (away == 0).any() else weights / away
    share = share / share.sum()
    iterate, cross, square = (each[:, 0] @ share for each in (along.iterate, along.cross, along.square))
    return Point(step, iterate, cross, square, np.zeros((2, 3)))
