"""Every step of T20: the definition, for one run or for many at once, in NumPy for few steps and compiled for many."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from sgdtheory.problems import Modes
from sgdtheory.risk.moments import Moments, Steps, nested, stacked, step
from sgdtheory.risk.runs import MOST_STEPS, Crossed, Piece, at_runs, crossed, point

STEPS_AT_ONCE = 4096  # steps whose coefficients are held
FEW_AT_ONCE = 512  # where there are no more


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
    output, averaged = tuple(piece.runs.output.tolist()), piece.keeping is not None
    at_once = STEPS_AT_ONCE if lengths[0] > FEW_AT_ONCE else FEW_AT_ONCE
    compiled = lengths[0] >= piece.ground.compiled_from
    for begin in np.arange(0, lengths[0], at_once):
        counts = np.minimum(lengths[lengths > begin] - begin, at_once).astype(int)
        places = order[: counts.size]
        numbers = zip(places.tolist(), (piece.low[places] + begin).tolist(), counts.tolist(), strict=True)
        each = [piece.rows(run, first + np.arange(count)) for run, first, count in numbers]
        together = Steps(*(_side_by_side(rows, counts[0]) for rows in zip(*each, strict=True)))
        running = Moments(*(each[:, : counts.size] for each in state))
        ended = _advanced(running, together, counts, piece.ground.modes, output, averaged, compiled)
        for values, new in zip(state, ended, strict=True):
            values[:, : counts.size] = new
    return at_runs(state, np.argsort(order))


def _side_by_side(rows: Sequence[np.ndarray], length: int) -> np.ndarray:
    """(T, S, …) from S arrays of T or fewer rows, whose last one is repeated."""
    found = np.empty((length, len(rows), *rows[0].shape[1:]))
    for place, row in enumerate(rows):
        found[: len(row), place], found[len(row) :, place] = row, row[-1]
    return found


def _advanced(
    state: Moments, steps: Steps, counts: np.ndarray, modes: Modes, output: tuple[float, ...], averaged: bool, how: bool
) -> Moments:
    """State of S settings after `counts` steps each, (S,) not increasing; compiled or not."""
    advance = _compiled if how else _plain
    return stacked(advance(nested(state), steps, counts, modes, output, averaged))


def _plain(
    state: Any, steps: Steps, counts: np.ndarray, modes: Modes, output: tuple[float, ...], averaged: bool
) -> Moments:
    ended, done, running = [], 0, counts.size
    for count in np.unique(counts):
        for number in range(done, count):
            state = step(state, Steps(*(each[number, :running] for each in steps)), modes, output, averaged)
        done, left = count, int((counts > count).sum())
        ended.append(_settings(state, slice(left, running)))
        state, running = _settings(state, slice(0, left)), left
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

    settings, size, number = counts.size, modes.eigenvalue.size, len(steps.batch)
    lanes, width = 2 ** (settings - 1).bit_length(), -(-size // 128) * 128
    room = STEPS_AT_ONCE if number > FEW_AT_ONCE else FEW_AT_ONCE

    def wide(values: Any) -> np.ndarray:
        return many(np.pad(values, [(0, 0), (0, 0), (0, width - size)]))

    def many(values: Any) -> np.ndarray:
        return np.pad(values, [(0, 0), (0, lanes - settings)] + [(0, 0)] * (values.ndim - 2), mode="edge")

    rows = Steps(
        *(np.pad(many(each), [(0, room - number)] + [(0, 0)] * (each.ndim - 1), mode="edge") for each in steps)
    )
    begin = Moments(jax.tree.map(wide, state.own), jax.tree.map(wide, state.cross), many(state.square))
    wide_modes = tuple(np.pad(each, (0, width - size)) for each in vars(modes).values())
    with jax.enable_x64(True):
        loop = _loop(output, averaged, bool(counts[-1] == number))
        ended = loop(begin, rows, wide_modes, np.pad(counts, (0, lanes - settings)), number)
        ended = jax.tree.map(np.asarray, ended)
    own, cross = jax.tree.map(lambda values: values[:, :settings, :size], (ended.own, ended.cross))
    return Moments(own, cross, ended.square[:, :settings])


@lru_cache
def _loop(output: tuple[float, ...], averaged: bool, alike: bool) -> Any:
    """The compiled loop over a chunk of steps; alike: all settings take the same number."""
    import jax
    import jax.numpy as jnp

    def run(begin: Any, rows: Any, modes: Any, counts: Any, number: Any) -> Any:
        weighted = Modes(*modes)

        def one(place: Any, state: Any) -> Any:
            after = step(state, Steps(*(each[place] for each in rows)), weighted, output, averaged, jnp)
            if alike:
                return after
            return jax.tree.map(lambda new, old: jnp.where(_running(place, counts, new), new, old), after, state)

        return jax.lax.fori_loop(0, number, one, begin)

    def _running(place: Any, counts: Any, values: Any) -> Any:
        return (place < counts)[:, None] if values.ndim == 3 else place < counts

    return jax.jit(run)
