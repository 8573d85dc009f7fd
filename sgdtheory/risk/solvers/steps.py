"""Single steps of T20, its definition, for one run or for many at once: in NumPy for few steps, compiled for many.

JAX compiles the loops in float64, for the processor, and without a long compilation.
"""

import itertools
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from sgdtheory._common.compiled import compiled_loop
from sgdtheory.problems import Modes
from sgdtheory.risk.systems.moments import Moments, Steps, at_runs, ends, selected
from sgdtheory.risk.systems.one_step import APART, StepMaps, nested, stacked, step, step_maps
from sgdtheory.risk.systems.runs import Propagated, Segment, propagated
from sgdtheory.risk.thresholds import THRESHOLDS

STEPS_AT_ONCE = 4096  # A compiled loop has room for the coefficients of this many steps.
# A compiled loop has room for one of these numbers of settings, so that few shapes are compiled.
LANES = 1, 4, 16
# A compiled step costs as much as this many settings beside those that take it: 2.5 for a schedule, 3 for schedule-free
# SGD. With 0 each run would get a loop of its own, twice as slow.
STEP_OVERHEAD = 3.0
WIDTH = 32  # A compiled loop has room for a multiple of this many modes, so that few shapes are compiled.
# Runs with fewer steps are compiled for this number, so that short runs do not fill a long table.
FEW_AT_ONCE = 512
# Maps of this many steps times settings times modes are in memory at once: they stay in a core's cache.
NUMBERS_AT_ONCE = 20_000


def propagate_by_steps(moments: Moments, segment: Segment) -> Propagated:
    """Take every step of a segment, in those runs that have some.

    Raises:
        ValueError: more than `THRESHOLDS.most_steps`.
    """
    if not segment.steps.any():
        return propagated(moments)
    if (many := float(segment.steps.max())) > THRESHOLDS.most_steps:
        raise ValueError(
            f"algorithm must be smooth, staged or settle sooner: {many:.3g} steps would have to be taken one by "
            f"one (at most {THRESHOLDS.most_steps:g}); take fewer samples, a smaller momentum or a smooth shape"
        )
    points = []
    whole = segment
    begin = moments
    while segment.stops:  # of a single run
        stop = np.array(segment.stops[:1])
        moments = _all_steps(moments, segment.between(segment.low, stop))
        size = size_of_steps(begin, moments, whole.between(whole.low, stop))
        points.append(ends(moments, segment.runs.output, size))
        segment = segment.between(stop, segment.high)
    ended = _all_steps(moments, segment)
    return propagated(ended, points)._replace(size=size_of_steps(begin, ended, whole))


def size_of_steps(begin: Moments, ended: Moments, segment: Segment) -> np.ndarray:
    """Return (2, S, 3) size of the sums of moments, as `Ends` has it, that steps have led to.

    Where the iterate swings about 0 its sum S is next to nothing, of terms that are as large as the iterate.
    """
    size = np.zeros((*begin.square.shape, 3))
    if segment.keeping is not None:
        first, last = (ends(each, segment.runs.output).iterate for each in (begin, ended))
        level = np.where(segment.steps > 1, np.maximum(first, last), first)  # the last iterate has not joined the sum
        forgetting, weight = segment.keeping
        with np.errstate(divide="ignore"):
            counted = np.minimum(segment.steps, 1 / forgetting)
        size[..., 2] = counted * weight**2 * level
    return size


def _all_steps(moments: Moments, segment: Segment) -> Moments:
    """Step all runs, those with the most steps first; steps that differ in portions whose coefficients are held."""
    order = np.argsort(-segment.steps, kind="stable")
    segment = segment.select(order)
    state = at_runs(moments, order)
    if segment.setup.summed:
        state = _summed(state, segment.setup.noise_variance)
    lengths = segment.steps
    at_once = STEPS_AT_ONCE if lengths[0] > FEW_AT_ONCE else FEW_AT_ONCE
    if segment.runs.algorithm.constant:
        maps = step_maps(segment.step(), segment.setup.modes.eigenvalue)
        return at_runs(_apart(_advanced(state, maps, lengths.astype(int), segment)), np.argsort(order))
    for begin in np.arange(0, lengths[0], at_once):
        counts = np.minimum(lengths[lengths > begin] - begin, at_once).astype(int)
        indices = np.arange(counts.size)
        table = segment.select(indices).table(segment.low[indices] + begin, counts)
        ended = _advanced(Moments(*(each[:, : counts.size] for each in state)), table, counts, segment)
        for values, new in zip(state, ended, strict=True):
            values[:, : counts.size] = new
    return at_runs(_apart(state), np.argsort(order))


def _summed(moments: Moments, noise_variance: float) -> Moments:
    """Return one copy of the moments, those of the bias and σ² times those of the variance, which steps add alike."""
    if noise_variance == 0:  # times inf it would be no number
        return Moments(*(each[:1] for each in moments))
    return Moments(*(each[:1] + noise_variance * each[1:] for each in moments))


def _apart(moments: Moments) -> Moments:
    """Return two copies of the moments: a single one is the first, and nothing finite is left for the second."""
    if moments.square.shape[0] == 2:
        return moments
    return Moments(*(np.concatenate([each, np.where(np.isfinite(each), 0.0, each)]) for each in moments))


def _advanced(state: Moments, steps: Steps | StepMaps, counts: np.ndarray, segment: Segment) -> Moments:
    """Return the state of S settings after `counts` steps each, (S,) not increasing, by a compiled loop or in NumPy.

    `steps`: the coefficients of T of them, (T, S, …), or the maps of each step where all are alike.
    """
    modes = segment.setup.modes
    kind = tuple(segment.runs.output.tolist()), segment.keeping is not None
    noise = np.array([[segment.setup.noise_variance]]) if segment.setup.summed else APART
    if segment.steps[0] >= segment.setup.compiled_from:
        # A compiled loop takes the steps of its longest run in every lane: those of a portion should be alike.
        lanes = _lanes(counts)
        parts = [Moments(*(each[:, some] for each in state)) for some in lanes]
        pairs = zip(parts, lanes, strict=True)
        return _side_by_side([_compiled(part, steps, counts, some, modes, noise, kind) for part, some in pairs])

    def maps_of(begin: int, end: int, running: int) -> Iterator[StepMaps]:
        """Yield the maps of some steps for the first settings."""
        if isinstance(steps, StepMaps):
            yield from itertools.repeat(selected(steps, slice(running)), end - begin)
            return
        portion = max(1, NUMBERS_AT_ONCE // (running * modes.eigenvalue.size))
        for first in range(begin, end, portion):
            rows = slice(first, min(first + portion, end))
            yield from step_maps(Steps(*(each[rows, :running] for each in steps)), modes.eigenvalue).each()

    return _plain(nested(state), maps_of, counts, modes, noise, *kind)


def _lanes(counts: np.ndarray) -> list[slice]:
    """Return S runs, those with the most steps first, in portions whose compiled loops take the least time in all.

    A portion takes the steps of its longest run in all of its lanes, whether they are filled or not.
    """
    least = [(0.0, counts.size)] * (counts.size + LANES[-1])  # time from a run on, and where its portion ends
    for begin in range(counts.size)[::-1]:
        times = [(counts[begin] * (STEP_OVERHEAD + lanes) + least[begin + lanes][0], begin + lanes) for lanes in LANES]
        least[begin] = min(times)
    ends = [0]
    while ends[-1] < counts.size:
        ends.append(least[ends[-1]][1])
    return [slice(*pair) for pair in itertools.pairwise(ends)]


def _plain(
    state: Any,
    maps_of: Callable[[int, int, int], Iterator[StepMaps]],
    counts: np.ndarray,
    modes: Modes,
    noise: np.ndarray,
    output: tuple[float, ...],
    averaged: bool,
) -> Moments:
    """Step in NumPy; `maps_of` gives the maps of some steps for the first settings."""
    ended = []
    done = 0
    running = counts.size
    for count in np.unique(counts).tolist():
        for maps in maps_of(done, count, running):
            state = step(state, maps, modes, output, averaged, noise=noise)
        done = count
        left = int((counts > count).sum())
        # Runs are in the order of their lengths: those that end now are the last ones.
        ended.append(stacked(selected(state, np.s_[:, left:running])))
        state = selected(state, np.s_[:, :left])
        running = left
    return _side_by_side(ended[::-1])


def _side_by_side(parts: list[Moments]) -> Moments:
    """Return the moments of the settings of all parts, one part after the other."""
    return Moments(*(np.concatenate(each, axis=1) for each in zip(*parts, strict=True)))


def _compiled(
    state: Moments,
    steps: Steps | StepMaps,
    counts: np.ndarray,
    some: slice,
    modes: Modes,
    noise: np.ndarray,
    kind: tuple[Any, bool],
) -> Moments:
    """Return the state of some settings after their steps in one loop of JAX, in float64."""
    counts = counts[some]
    filled = Filled.of(counts.size, modes)
    alike = isinstance(steps, StepMaps)
    if alike:
        rows = filled.wide(selected(steps, some))
    else:
        room = STEPS_AT_ONCE if counts[0] > FEW_AT_ONCE else FEW_AT_ONCE
        table = [each[: counts[0], some] for each in steps]
        missing = [(0, room - counts[0]), (0, filled.lanes - counts.size)]
        rows = Steps(*(np.pad(each, missing + [(0, 0)] * (each.ndim - 2)) for each in table))
    counts = np.pad(counts, (0, filled.lanes - counts.size))
    return stacked(filled.run(_loop(*kind, alike), nested(state), rows, modes, counts, noise))


class Filled(NamedTuple):
    """Axes of S settings and K modes, filled up with zeros so that few shapes are compiled."""

    settings: int
    lanes: int
    size: int
    width: int

    @classmethod
    def of(cls, settings: int, modes: Modes) -> "Filled":
        """Return sizes for so many settings and these modes: the next lane and the next multiple of the width."""
        size = modes.eigenvalue.size
        return cls(settings, next(each for each in LANES if each >= settings), size, -(-size // WIDTH) * WIDTH)

    def wide(self, values: Any) -> Any:
        """Return arrays (…, S, K) or (…, S, 1) in any structure, filled up with zeros."""
        import jax

        def filled(each: np.ndarray) -> np.ndarray:
            room = np.zeros((*each.shape[:-2], self.lanes, 1 if each.shape[-1] == 1 < self.size else self.width))
            room[..., : self.settings, : each.shape[-1]] = each
            return room

        return jax.tree.map(filled, values)

    def run(self, loop: Any, state: Any, steps: Any, modes: Modes, *numbers: Any) -> Moments:
        """Return the state after a compiled loop."""
        import jax

        square = np.pad(state.square, [(0, 0), (0, self.lanes - self.settings)])
        begin = Moments(self.wide(state.own), self.wide(state.cross), square)
        room = self.width - self.size
        wide_modes = tuple(each if each is None else np.pad(each, (0, room)) for each in vars(modes).values())
        ended = loop(begin, steps, wide_modes, *numbers)
        cut = (slice(None), slice(self.settings), slice(self.size))
        own, cross = jax.tree.map(lambda values: values[cut], (ended.own, ended.cross))
        return Moments(own, cross, ended.square[cut[:2]])


@lru_cache
def _loop(output: tuple[float, ...], averaged: bool, alike: bool) -> Any:
    """Return the compiled loop over steps, in each setting as many as are asked for."""
    import jax
    import jax.numpy as jnp

    def run(begin: Any, rows: Any, modes: Any, counts: Any, noise: Any) -> Any:
        weighted = Modes(*modes)

        def maps_of(number: Any) -> StepMaps:
            if alike:
                return rows
            return step_maps(Steps(*(each[number] for each in rows)), weighted.eigenvalue, compiled=True)

        def one(number: Any, state: Any) -> Any:
            going_on = number < counts

            def kept(old: Any, new: Any) -> Any:
                return jnp.where(going_on[:, None] if old.ndim > 2 else going_on, new, old)

            return jax.tree.map(kept, state, step(state, maps_of(number), weighted, output, averaged, jnp, noise))

        return jax.lax.fori_loop(0, counts.max(), one, begin)

    return compiled_loop(run)
