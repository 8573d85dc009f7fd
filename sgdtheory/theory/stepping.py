"""Every step of T20: the definition, in NumPy for few steps and compiled for many."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from sgdtheory.theory.modes import Modes
from sgdtheory.theory.moments import Keeping, Moments, nested, stacked, step
from sgdtheory.theory.panels import Coefficients
from sgdtheory.theory.thresholds import FEW_AT_ONCE, STEPS_AT_ONCE


def stepped(
    moments: Moments,
    first: float,
    last: float,
    coefficients: Callable[[np.ndarray], Coefficients],
    modes: Modes,
    output: np.ndarray,
    keeping: Keeping | None,
    compiled_from: float,
) -> Moments:
    """Moments after the steps first … last − 1; so many steps or more are compiled."""
    forward = _compiled if last - first >= compiled_from else _plain
    state = nested(moments)
    shown = tuple(output.tolist())
    for begin in np.arange(first, last, STEPS_AT_ONCE):
        numbers = np.arange(begin, min(begin + STEPS_AT_ONCE, last))
        state = forward(state, coefficients(numbers), modes, shown, keeping)
    return stacked(state)


def _plain(state: Any, found: Coefficients, modes: Modes, output: tuple[float, ...], keeping: Keeping | None) -> Any:
    for number, batch in enumerate(found.batch):
        state = step(state, tuple(each[number] for each in found.matrices), batch, modes, output, keeping)
    return state


def _compiled(state: Any, found: Coefficients, modes: Modes, output: tuple[float, ...], keeping: Keeping | None) -> Any:
    """The same in one loop of JAX, in float64; steps and modes are filled up, so that few shapes are compiled."""
    import jax

    steps, size = found.batch.size, modes.eigenvalue.size
    padded, room = -(-size // 128) * 128, STEPS_AT_ONCE if steps > FEW_AT_ONCE else FEW_AT_ONCE

    def wide(values: np.ndarray) -> np.ndarray:
        values = np.asarray(values)
        return np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, padded - size)])

    def long(values: np.ndarray) -> np.ndarray:
        return np.pad(values, [(0, room - steps)] + [(0, 0)] * (values.ndim - 1), mode="edge")

    inputs = tuple(long(each) for each in (*found.matrices, np.asarray(found.batch)))
    wide_modes = Modes(*(wide(each) for each in vars(modes).values()))
    start = Moments(jax.tree.map(wide, state.own), jax.tree.map(wide, state.cross), np.asarray(state.square))
    with jax.enable_x64(True):
        kept = None if keeping is None else (np.float64(keeping.forgetting), np.float64(keeping.weight))
        ended = _loop(output, keeping is not None)(start, inputs, tuple(vars(wide_modes).values()), kept, steps)
        ended = jax.tree.map(np.asarray, ended)
    own, cross = jax.tree.map(lambda values: values[..., :size], (ended.own, ended.cross))
    return Moments(own, cross, ended.square)


@lru_cache
def _loop(output: tuple[float, ...], averaged: bool) -> Any:
    """The compiled loop over a chunk of steps."""
    import jax
    import jax.numpy as jnp

    def run(start: Any, inputs: Any, modes: Any, keeping: Any, count: Any) -> Any:
        weighted = Modes(*modes)

        def one(number: Any, state: Any) -> Any:
            *matrices, batch = (each[number] for each in inputs)
            return step(state, tuple(matrices), batch, weighted, output, keeping if averaged else None, jnp)

        return jax.lax.fori_loop(0, count, one, start)

    return jax.jit(run)
