"""Every step of T20: the definition, for one run or for many at once, in NumPy for few steps and compiled for many."""

from functools import lru_cache
from typing import Any

import numpy as np

from sgdtheory.problems import Modes
from sgdtheory.risk.moments import Moments, Steps, at_runs, nested, stacked, step, step_maps
from sgdtheory.risk.runs import MOST_STEPS, NO_STEP, Crossed, Piece, crossed, point

STEPS_AT_ONCE = 4096  # steps whose coefficients are held
LANES = 1, 4, 16  # settings in a compiled loop: few shapes are compiled
WIDTH = 32  # of whose multiples the number of modes is one
FEW_AT_ONCE = 512  # where there are no more
NUMBERS_AT_ONCE = 20_000  # steps times settings times modes whose maps are held, in a core's cache


def stepped(moments: Moments, piece: Piece) -> Crossed:
    """Every step of a piece, of those runs that have some.

    Raises:
        ValueError: more than `MOST_STEPS`.
    """
    if (many := float(piece.steps.max(initial=0.0))) > MOST_STEPS:
        raise ValueError(
            f"algorithm must be smooth, staged or settle sooner: {many:.3g} steps would have to be taken one by "
            f"one (at most {MOST_STEPS:g}); take fewer samples, a smaller momentum or a smooth shape"
        )
    points = []
    while piece.stops:  # of a single run
        stop = np.array(piece.stops[:1])
        moments = _all_steps(moments, piece.between(piece.low, stop))
        points.append(point(piece.stops[0], moments, piece.runs.output))
        piece = piece.between(stop, piece.high)
    return crossed(_all_steps(moments, piece), points)


def _all_steps(moments: Moments, piece: Piece) -> Moments:
    """Those with the most steps first, in portions whose coefficients are held at once."""
    lengths = piece.steps
    order = np.argsort(-lengths, kind="stable")
    lengths = lengths[order]
    state = at_runs(moments, order)
    output = tuple(piece.runs.output.tolist())
    averaged = piece.keeping is not None
    at_once = STEPS_AT_ONCE if lengths[0] > FEW_AT_ONCE else FEW_AT_ONCE
    compiled = lengths[0] >= piece.ground.compiled_from
    for begin in np.arange(0, lengths[0], at_once):
        counts = np.minimum(lengths[lengths > begin] - begin, at_once).astype(int)
        places = order[: counts.size]
        together = piece.some(places).table(piece.low[places] + begin, counts)
        running = Moments(*(each[:, : counts.size] for each in state))
        ended = _advanced(running, together, counts, piece.ground.modes, output, averaged, compiled)
        for values, new in zip(state, ended, strict=True):
            values[:, : counts.size] = new
    return at_runs(state, np.argsort(order))


def _advanced(
    state: Moments,
    steps: Steps,
    counts: np.ndarray,
    modes: Modes,
    output: tuple[float, ...],
    averaged: bool,
    compiled: bool,
) -> Moments:
    """State of S settings after `counts` steps each, (S,) not increasing; compiled, some at a time, or not."""
    if not compiled:
        return stacked(_plain(nested(state), steps, counts, modes, output, averaged))
    found = []
    for begin in range(0, counts.size, LANES[-1]):
        some = slice(begin, begin + LANES[-1])
        here = Moments(*(each[:, some] for each in state))
        table = Steps(*(each[: counts[begin], some] for each in steps))
        found.append(stacked(_compiled(nested(here), table, counts[some], modes, output, averaged)))
    return Moments(*(np.concatenate(each, axis=1) for each in zip(*found, strict=True)))


def _plain(
    state: Any, steps: Steps, counts: np.ndarray, modes: Modes, output: tuple[float, ...], averaged: bool
) -> Moments:
    ended = []
    done = 0
    running = counts.size
    for count in np.unique(counts):
        portion = max(1, NUMBERS_AT_ONCE // (running * modes.eigenvalue.size))
        for begin in range(done, count, portion):
            some = min(portion, count - begin)
            maps = step_maps(Steps(*(each[begin : begin + some, :running] for each in steps)), modes.eigenvalue)
            for number in range(some):
                state = step(state, maps.at(number), modes, output, averaged)
        done = count
        left = int((counts > count).sum())
        ended.append(_settings(state, slice(left, running)))
        state = _settings(state, slice(0, left))
        running = left
    return _joined(ended[::-1])


def _settings(state: Any, which: slice) -> Moments:
    """Some of the settings."""
    own = tuple(tuple(each[:, which] for each in row) for row in state.own)
    return Moments(own, tuple(each[:, which] for each in state.cross), state.square[:, which])


def _joined(parts: list[Moments]) -> Moments:
    """The inverse of `_settings`."""
    if len(parts) == 1:
        return parts[0]
    k = range(len(parts[0].cross))
    own = tuple(tuple(np.concatenate([part.own[i][j] for part in parts], axis=1) for j in k) for i in k)
    cross = tuple(np.concatenate([part.cross[i] for part in parts], axis=1) for i in k)
    return Moments(own, cross, np.concatenate([part.square for part in parts], axis=1))


def _compiled(
    state: Any, steps: Steps, counts: np.ndarray, modes: Modes, output: tuple[float, ...], averaged: bool
) -> Moments:
    """The same in one loop of JAX, in float64; all axes are filled up, so that few shapes are compiled."""
    import jax

    settings = counts.size
    size = modes.eigenvalue.size
    number = len(steps.batch)
    lanes = next(each for each in LANES if each >= settings)
    width = -(-size // WIDTH) * WIDTH
    room = STEPS_AT_ONCE if number > FEW_AT_ONCE else FEW_AT_ONCE

    def wide(values: Any) -> np.ndarray:
        return np.pad(values, [(0, 0), (0, lanes - settings), (0, width - size)])

    def long(values: np.ndarray, filled: float) -> np.ndarray:
        room_left = [(0, room - number), (0, lanes - settings)] + [(0, 0)] * (values.ndim - 2)
        return np.pad(values, room_left, constant_values=filled)

    rows = Steps(*map(long, steps, NO_STEP))
    square = np.pad(state.square, [(0, 0), (0, lanes - settings)])
    begin = Moments(jax.tree.map(wide, state.own), jax.tree.map(wide, state.cross), square)
    wide_modes = tuple(each if each is None else np.pad(each, (0, width - size)) for each in vars(modes).values())
    with jax.enable_x64(True):
        ended = jax.tree.map(np.asarray, _loop(output, averaged)(begin, rows, wide_modes, number))
    own, cross = jax.tree.map(lambda values: values[:, :settings, :size], (ended.own, ended.cross))
    return Moments(own, cross, ended.square[:, :settings])


@lru_cache
def _loop(output: tuple[float, ...], averaged: bool) -> Any:
    """The compiled loop over a chunk of steps."""
    import jax
    import jax.numpy as jnp

    def run(begin: Any, rows: Any, modes: Any, number: Any) -> Any:
        weighted = Modes(*modes)

        def one(place: Any, state: Any) -> Any:
            maps = step_maps(Steps(*(each[place] for each in rows)), weighted.eigenvalue, lambda values: False)
            return step(state, maps, weighted, output, averaged, jnp)

        return jax.lax.fori_loop(0, number, one, begin)

    return jax.jit(run)
