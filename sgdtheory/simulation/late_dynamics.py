"""SGD with late gradients (THEORY.md T41) as pure functions of a small state, in `dynamics`' coordinates."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from sgdtheory._common.counter_random import symmetric_uniform, threefry
from sgdtheory.simulation.dynamics import Lane, Sampler, Spectrum, two_sum
from sgdtheory.simulation.method_dynamics import Dynamics, RateTable, Replica, gained, squares

DELAY = np.uint32(0xFFFFFFFF)  # the counter's index that belongs to the delay


class State(NamedTuple):
    """How far the weights have moved, v = u − u(0), and the sum S, each the unevaluated sum of two (d,) arrays.

    Beside them the last τ + 1 v, (τ + 1, d), that of step t at t modulo τ + 1.
    """

    moved: Array
    moved_low: Array
    total: Array
    total_low: Array
    past: Array


def init(vectors: int, spectrum: Spectrum, replica: Replica) -> State:
    """Nothing has moved."""
    zeros = jnp.zeros_like(spectrum.start)
    past = jnp.zeros((vectors, *zeros.shape), zeros.dtype)
    return State(zeros, zeros, replica.begin * spectrum.start, zeros, past)


def step(
    sampler: Sampler,
    vectors: int,
    spectrum: Spectrum,
    shares: Array,
    replica: Replica,
    state: State,
    number: Array,
    row: RateTable,
    draw: Any,
) -> State:
    """`u ← u − γ g`, g the gradient where the weights were a delay ago; `shares` (τ + 1,) are P(delay ≤ j)."""
    now = state.moved + state.moved_low
    past = state.past.at[number % vectors].set(now)
    words = threefry((replica.key[0], replica.key[1]), number, DELAY)
    uniform = (1 + symmetric_uniform(words, shares.dtype)) / 2
    delay = jnp.minimum((uniform >= shares).sum(), vectors - 1).astype(np.uint32)
    late = past[(number + np.uint32(vectors) - delay) % vectors]
    lane = Lane(replica.key, row.rate[replica.run], row.batch[replica.run])
    increment = sampler.increment(spectrum, lane, spectrum.start + late, number, draw)
    joined = gained(replica, number, spectrum.start + now, state.total + state.total_low)
    low = state.moved_low + increment
    return state._replace(moved_low=low, total_low=state.total_low + joined, past=past)


def carry(state: State) -> State:
    """Move the low parts into the high parts."""
    return State(*two_sum(state.moved, state.moved_low), *two_sum(state.total, state.total_low), state.past)


def risks(spectrum: Spectrum, shares: Array, state: State, iterate: Array, norm: Array) -> tuple[Array, Array]:
    """`‖a w + S/norm‖²` and `‖w‖²` of one replica."""
    last = spectrum.start + (state.moved + state.moved_low)
    return squares(last, state.total + state.total_low, iterate, norm)


LATE = Dynamics(init, step, carry, risks)
