"""Smooth segments: single steps until what oscillates has come to rest, then panels of collocation."""

import numpy as np

from sgdtheory.risk.solvers.collocation import Averaging, panel_nodes, tails
from sgdtheory.risk.solvers.contour import NEGLIGIBLE
from sgdtheory.risk.solvers.mesh import SHORTEST_PANEL, Oscillation, Panels, oscillations, panels_of
from sgdtheory.risk.solvers.panel_maps import AlongPanel, PanelMap, panel_maps, propagate_panel
from sgdtheory.risk.solvers.spectrum import step_spectrum
from sgdtheory.risk.solvers.steps import propagate_by_steps
from sgdtheory.risk.systems.constant import settling_steps
from sgdtheory.risk.systems.moments import Ends, Moments, at_runs, pairs, selected
from sgdtheory.risk.systems.runs import Propagated, Segment, joined
from sgdtheory.risk.thresholds import THRESHOLDS

SETTLING_PROBES = 5  # The time after which oscillations have died out is computed at this many steps of a segment.
# Where steps are compiled, panels begin after this many steps: earlier ones are short, and each takes as long as 500
# steps. B* of schedule-free SGD with 10⁶ samples takes 1.3 times as long with 32, and 1.1 times with 128.
FIRST_COMPILED = 512.0
# Panels are prepared together while their systems and weights have at most this many numbers, 4 MB, which stay in
# cache.
PREPARED_TOGETHER = 5e5


def propagate_smooth(moments: Moments, segment: Segment) -> Propagated:
    """Return the moments of S runs at the ends of smooth segments."""
    oscillation = oscillations(segment)
    begin = first_panels(segment, oscillation)
    started = propagate_by_steps(moments, segment.between(segment.low, begin))
    ended = _on_panels(started.moments, segment.between(begin, segment.high), oscillation)
    return ended._replace(points=started.points + ended.points)


def first_panels(segment: Segment, oscillation: list[Oscillation | None] | None = None) -> np.ndarray:
    """Return (S,) steps at which panels begin: steps before them are taken one by one.

    From there on the directions that oscillate turn slowly or have come to rest since the last kink.

    Underdamped directions would be lost on panels, so that they get as many steps as there are. Directions that
    overshoot change the sign of cross moments alone, which an average adds up (schedule-free SGD is one): elsewhere
    that adds up to little; next to the edge they take for ever.
    """
    oscillation = oscillation or oscillations(segment)
    settings = len(segment.runs.courses)
    compiled = segment.setup.compiled_from <= FIRST_COMPILED
    longest = np.full(settings, FIRST_COMPILED if compiled else float(THRESHOLDS.few_steps))
    if segment.runs.output.size > 1 or segment.keeping is not None:  # second moments of one vector do not oscillate
        # from the kink on: of what is left of a segment they are the same, and panels begin at the same step
        # and beyond the steps that are taken anyway: next to none is averaged in the first steps of schedule-free SGD,
        # which seemed never to settle where γλ > 2.
        first = np.minimum(segment.origin + longest, segment.high - 1)
        probes = np.floor(np.linspace(first, segment.high - 1, SETTLING_PROBES, axis=1))
        spectrum = step_spectrum(segment.runs.maps(probes, segment.setup.modes).propagator_decay)
        if oscillation[0]:
            slowly = segment.setup.resolution.turn / SHORTEST_PANEL
            settling = np.array([each.slower(slowly) for each in oscillation if each]) - segment.origin
        else:
            settling = settling_steps(spectrum, segment.keeping)
            settling = np.minimum(
                settling, np.where(np.isfinite(settling), THRESHOLDS.most_steps, THRESHOLDS.most_settling)
            )
            settling = settling.reshape(settings, -1).max(1)
        longest = np.maximum(longest, np.ceil(settling))
        if oscillation[0] or segment.keeping is not None:
            overshooting = settling_steps(spectrum._replace(complex=spectrum.negative), segment.keeping)
            overshooting = np.minimum(overshooting, THRESHOLDS.most_settling).reshape(settings, -1).max(1)
            longest = np.maximum(longest, np.ceil(overshooting))
    return np.clip(segment.origin + longest, segment.low, segment.high)


def _on_panels(moments: Moments, segment: Segment, oscillation: list[Oscillation | None]) -> Propagated:
    """Propagate panel after panel, one of every run at a time: runs with fewer panels begin later."""
    meshes = panels_of(segment, oscillation)
    state = at_runs(moments, np.arange(len(meshes)))
    points = []
    approximated = np.zeros(len(meshes), dtype=bool)
    for run in (run for run, mesh in enumerate(meshes) if mesh is None):  # beyond the range of a float, for good
        inf = np.full((2, 1), np.inf)
        for each in state:
            each[:, run] = np.inf
        points += [Ends(inf, inf, inf, np.zeros((2, 1, 3)))] * len(segment.stops)
    rounds = _rounds(segment, [mesh or [] for mesh in meshes])
    together = max(1, int(PREPARED_TOGETHER / (_numbers(segment) * len(meshes))))
    for begin in range(0, len(rounds), together):
        some = rounds[begin : begin + together]
        for (indices, part), ready in zip(some, _prepared_together(segment, some), strict=True):
            done = _one_each(at_runs(state, indices), part, ready)
            for values, new in zip(state, done.moments, strict=True):
                values[:, indices] = new
            approximated[indices] |= done.approximated
            points += done.points
    return Propagated(state, points, approximated)


def _numbers(segment: Segment) -> int:
    """Return how many numbers a panel has: systems for some 3p eigenvalues, and their weights at the modes."""
    order = segment.setup.resolution.order
    equations = order * len(pairs(segment.runs.output.size))
    return 3 * order * (equations**2 + segment.setup.modes.eigenvalue.size)


def _rounds(segment: Segment, meshes: list[Panels]) -> list[tuple[np.ndarray, Segment]]:
    """Return the runs that cross a panel in each round, and these panels."""
    most = max(map(len, meshes))
    result = []
    for number in range(most):
        crossing = {run: mesh[number - most] for run, mesh in enumerate(meshes) if len(mesh) >= most - number}
        indices = np.array(list(crossing))
        ends = np.array(list(crossing.values()))
        result.append((indices, segment.select(indices).between(*ends.T)))
    return result


def _long(segment: Segment) -> np.ndarray:
    """Return the indices of the runs whose panels are long enough for collocation; shorter ones are stepped through."""
    return np.flatnonzero(segment.steps > max(SHORTEST_PANEL, segment.setup.resolution.order))


def _prepared_together(segment: Segment, rounds: list[tuple[np.ndarray, Segment]]) -> list[PanelMap | None]:
    """Return the long panels of these rounds; None of a round that has none."""
    long = [_long(part) for _, part in rounds]
    indices, low, high = (
        np.concatenate(each)
        for each in zip(
            *((runs[some], part.low[some], part.high[some]) for (runs, part), some in zip(rounds, long, strict=True)),
            strict=True,
        )
    )
    if not indices.size:
        return [None] * len(rounds)
    ready = _prepared(segment.select(indices).between(low, high))
    ends = np.cumsum([some.size for some in long])
    return [selected(ready, slice(end - some.size, end)) for some, end in zip(long, ends.tolist(), strict=True)]


def _prepared(segment: Segment) -> PanelMap:
    """Return the map of one panel of each run."""
    nodes = panel_nodes(segment.setup.resolution.order, segment.low, segment.high)
    here = segment.runs.coefficients(nodes[:, 1:] - 1)
    return panel_maps(nodes, here, segment.setup.modes, Averaging(segment.runs.output, segment.keeping))


def _one_each(moments: Moments, segment: Segment, ready: PanelMap | None) -> Propagated:
    """Propagate one panel of each run: the long ones by their maps, the short ones step by step."""
    long = _long(segment)
    if ready and long.size == segment.low.size:
        return _propagate_panels(moments, segment, ready)
    short = np.setdiff1d(np.arange(segment.low.size), long)
    done = propagate_by_steps(at_runs(moments, short), segment.select(short))
    if not (ready and long.size):
        return done
    part = segment.select(long)
    other = _propagate_panels(at_runs(moments, long), part, ready)
    return joined([(short, done), (long, other)])


def _propagate_panels(moments: Moments, segment: Segment, ready: PanelMap) -> Propagated:
    """Propagate long panels, in halves where the polynomials of the whole do not follow the moments."""
    ended, along = propagate_panel(moments, ready, Averaging(segment.runs.output, segment.keeping))
    unresolved = _unresolved(segment, along)
    resolved = np.flatnonzero(~unresolved)
    halved = np.flatnonzero(unresolved)
    points = [] if halved.size else [_inside(along, stop) for stop in segment.stops]
    if not halved.size:
        return Propagated(ended, points, ~unresolved)
    half = segment.select(halved)
    middle = np.floor((half.low + half.high) / 2)
    every = np.arange(halved.size)
    halves = [(every, half.between(half.low, middle)), (every, half.between(middle, half.high))]
    earlier, later = _prepared_together(half, halves)
    first = _one_each(at_runs(moments, halved), halves[0][1], earlier)
    second = _one_each(first.moments, halves[1][1], later)
    here = Propagated(second.moments, first.points + second.points, np.ones(halved.size, dtype=bool))
    there = Propagated(at_runs(ended, resolved), points, np.ones(resolved.size, dtype=bool))
    return joined([(resolved, there), (halved, here)])


def _unresolved(segment: Segment, along: AlongPanel) -> np.ndarray:
    """Return (L,) whether the polynomials on L panels do not follow the moments."""
    setup = segment.setup
    values = np.concatenate([along.vectors, along.square[:, :, None]], axis=2)
    nothing = np.exp(-NEGLIGIBLE) * (setup.modes.signal.sum() + setup.noise_variance)  # what may be lost of a risk
    tail = tails(values[0] + setup.noise_variance * values[1], nothing)
    return np.any(tail > setup.resolution.tail, axis=1)


def _inside(along: AlongPanel, step: float) -> Ends:
    """Return the sums of a single panel at its nodes and between them."""
    nodes = along.nodes[0]
    gaps = nodes - nodes[:, None] + np.eye(nodes.size)
    weights = 1 / (gaps / (nodes[-1] - nodes[0])).prod(1)
    away = step - nodes
    share = np.where(away == 0, 1.0, 0.0) if (away == 0).any() else weights / away
    share = share / share.sum()
    iterate, cross, square = (each @ share for each in (along.iterate, along.cross, along.square))
    return Ends(iterate, cross, square, np.zeros((2, 1, 3)))
