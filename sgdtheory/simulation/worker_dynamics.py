"""Workers that take local steps and talk every H-th (THEORY.md T40), as pure functions, in `dynamics`' coordinates."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sgdtheory._common.counter_random import threefry
from sgdtheory.algorithms import LocalSGD
from sgdtheory.simulation.dynamics import Lane, Sampler, Spectrum, two_sum, walk
from sgdtheory.simulation.linear_dynamics import Replica, gained, rows_from, squares

WORKER = np.uint32(0xFFFFFFFF)  # the second word of the counter from which a worker's key is made: no index of a number


class Table(NamedTuple):
    """What T steps of G runs do, (T, G) each: γ in units of 1/λ_1, and the batch size of a worker."""

    rate: Any
    batch: Any


class State(NamedTuple):
    """How far the K workers and the common weights have moved from u(0), the buffers, and the sum S of the means.

    What grows with the steps is the unevaluated sum of two arrays, as in `dynamics.State`: (K, d) of the workers, (d,)
    else.
    """

    moved: Array
    moved_low: Array
    common: Array
    common_low: Array
    inner: Array
    outer: Array
    total: Array
    total_low: Array


def init(spectrum: Spectrum, replica: Replica, workers: int) -> State:
    """Nothing has moved."""
    zeros = jnp.zeros_like(spectrum.start)
    each = jnp.zeros((workers, *spectrum.start.shape), spectrum.start.dtype)
    return State(each, each, zeros, zeros, each, zeros, replica.begin * spectrum.start, zeros)


def worker_keys(key: Array, workers: int) -> Array:
    """(K, 2) keys of the workers of a replica; a single one has the replica's."""
    if workers == 1:
        return jnp.stack([key])
    return jnp.stack(threefry((key[0], key[1]), jnp.arange(workers, dtype=np.uint32), WORKER), axis=1)


def step(
    sampler: Sampler,
    method: LocalSGD,
    spectrum: Spectrum,
    replica: Replica,
    state: State,
    number: Array,
    row: Table,
    draw: Any,
) -> State:
    """One step of all K workers of one replica, and an outer step after every H-th."""
    rate = row.rate[replica.run]
    batch = row.batch[replica.run]
    weights = spectrum.start + (state.moved + state.moved_low)

    def gradient(key: Array, error: Array, drawn: Any) -> Array:
        backwards = Lane(key, np.array(-1, error.dtype), batch)  # at rate −1 SGD adds the gradient
        return sampler.increment(spectrum, backwards, error, number, drawn)

    keys = worker_keys(replica.key, method.num_workers)
    inner = method.inner_momentum * state.inner + jax.vmap(gradient)(keys, weights, draw)
    joined = gained(replica, number, weights.mean(0), state.total + state.total_low)
    stepped = state._replace(moved_low=state.moved_low - rate * inner, inner=inner, total_low=state.total_low + joined)
    talks = (number + np.uint32(1)) % np.uint32(method.local_steps) == 0
    return jax.tree.map(lambda after, before: jnp.where(talks, after, before), synchronised(method, stepped), stepped)


def synchronised(method: LocalSGD, state: State) -> State:
    """After the outer step: `p ← μp + Δ, m ← m − η(Δ + μp)`, all workers at m."""
    gap = (state.common - state.moved.mean(0)) + (state.common_low - state.moved_low.mean(0))
    outer = method.outer_momentum * state.outer + gap
    step = gap + method.outer_momentum * outer
    common, common_low = state.common, state.common_low - method.outer_learning_rate * step
    moved, moved_low = (jnp.broadcast_to(each, state.moved.shape) for each in (common, common_low))
    return state._replace(moved=moved, moved_low=moved_low, common=common, common_low=common_low, outer=outer)


def carry(state: State) -> State:
    """Move the low parts into the high parts."""
    moved = two_sum(state.moved, state.moved_low)
    common = two_sum(state.common, state.common_low)
    return State(*moved, *common, state.inner, state.outer, *two_sum(state.total, state.total_low))


def risks(spectrum: Spectrum, state: State, iterate: Array, norm: Array) -> tuple[Array, Array]:
    """`‖a w + S/norm‖²` and `‖w‖²` of one replica, w the mean of its workers."""
    last = spectrum.start + (state.moved + state.moved_low).mean(0)
    return squares(last, state.total + state.total_low, iterate, norm)


def advance(
    sampler: Sampler,
    method: LocalSGD,
    spectrum: Spectrum,
    table: Table,
    replicas: Replica,
    state: State,
    origin: Array,
    first: Array,
    count: Array,
) -> State:
    """Steps first … first + count − 1 of L replicas; the table begins with step `origin`, a multiple of `STEPS`."""
    many = jax.vmap(step, in_axes=(None, None, None, 0, 0, None, None, 0))
    lanes = replicas.run.shape[0]
    keys = jax.vmap(worker_keys, in_axes=(0, None))(replicas.key, method.num_workers)
    keys = keys.reshape(lanes * method.num_workers, 2)

    def one(state: State, number: Array, inputs: tuple[Table, Any]) -> State:
        return many(sampler, method, spectrum, replicas, state, number, *inputs)

    def ahead(start: Array) -> tuple[Table, Any]:
        rows = rows_from(table, start - origin)
        batch = jnp.repeat(rows.batch[:, replicas.run], method.num_workers, axis=1)
        drawn = sampler.draws(Lane(keys, jnp.zeros((), spectrum.start.dtype), batch), start)
        shape = lanes, method.num_workers
        return rows, jax.tree.map(lambda each: each.reshape(each.shape[0], *shape, *each.shape[2:]), drawn)

    return walk(one, ahead, carry, state, first, count)
