"""SGD with late gradients (THEORY.md T41) as pure functions of a small state, in `dynamics`' coordinates."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sgdtheory._common.counter_random import symmetric_uniform, threefry
from sgdtheory.simulation.dynamics import Lane, Sampler, Spectrum, two_sum, walk
from sgdtheory.simulation.linear_dynamics import Replica, gained, rows_from, squares

DELAY = np.uint32(0xFFFFFFFF)  # the counter's index that belongs to the delay


class Table(NamedTuple):
    """What T steps of G runs do, (T, G) each; T = 1 if every step does the same."""

    rate: Any
    batch: Any


class State(NamedTuple):
    """How far the weights have moved, v = u − u(0), and the sum S, each the unevaluated sum of two (d,) arrays.

    Beside them the last τ + 1 v, (τ + 1, d), that of step t at t modulo τ + 1.
    """

    moved: Array
    moved_low: Array
    total: Array
    total_low: Array
    past: Array


def init(spectrum: Spectrum, replica: Replica, vectors: int) -> State:
    """Nothing has moved."""
    zeros = jnp.zeros_like(spectrum.start)
    past = jnp.zeros((vectors, *zeros.shape), zeros.dtype)
    return State(zeros, zeros, replica.begin * spectrum.start, zeros, past)


def step(
    sampler: Sampler,
    spectrum: Spectrum,
    shares: Array,
    replica: Replica,
    state: State,
    number: Array,
    row: Table,
    draw: Any,
) -> State:
    """`u ← u − γ g`, g the gradient where the weights were a delay ago; `shares` (τ + 1,) are P(delay ≤ j)."""
    k = state.past.shape[0]
    now = state.moved + state.moved_low
    past = state.past.at[number % k].set(now)
    words = threefry((replica.key[0], replica.key[1]), number, DELAY)
    uniform = (1 + symmetric_uniform(words, shares.dtype)) / 2
    delay = jnp.minimum((uniform >= shares).sum(), k - 1).astype(np.uint32)
    late = past[(number + np.uint32(k) - delay) % k]
    lane = Lane(replica.key, row.rate[replica.run], row.batch[replica.run])
    increment = sampler.increment(spectrum, lane, spectrum.start + late, number, draw)
    joined = gained(replica, number, spectrum.start + now, state.total + state.total_low)
    low = state.moved_low + increment
    return state._replace(moved_low=low, total_low=state.total_low + joined, past=past)


def carry(state: State) -> State:
    """Move the low parts into the high parts."""
    return State(*two_sum(state.moved, state.moved_low), *two_sum(state.total, state.total_low), state.past)


def risks(spectrum: Spectrum, state: State, iterate: Array, norm: Array) -> tuple[Array, Array]:
    """`‖a w + S/norm‖²` and `‖w‖²` of one replica."""
    last = spectrum.start + (state.moved + state.moved_low)
    return squares(last, state.total + state.total_low, iterate, norm)


def advance(
    sampler: Sampler,
    spectrum: Spectrum,
    shares: Array,
    table: Table,
    replicas: Replica,
    state: State,
    origin: Array,
    first: Array,
    count: Array,
) -> State:
    """Steps first … first + count − 1 of L replicas; the table begins with step `origin`, a multiple of `STEPS`."""
    many = jax.vmap(step, in_axes=(None, None, None, 0, 0, None, None, 0))

    def one(state: State, number: Array, inputs: tuple[Table, Any]) -> State:
        return many(sampler, spectrum, shares, replicas, state, number, *inputs)

    def ahead(start: Array) -> tuple[Table, Any]:
        rows = rows_from(table, start - origin)
        rate = jnp.zeros((), shares.dtype)  # draws do not depend on it
        return rows, sampler.draws(Lane(replicas.key, rate, rows.batch[:, replicas.run]), start)

    return walk(one, ahead, carry, state, first, count)
