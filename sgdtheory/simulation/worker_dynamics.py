"""Workers that take local steps and talk every H-th (THEORY.md T40), as pure functions, in `dynamics`' coordinates."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sgdtheory._common.counter_random import threefry
from sgdtheory.algorithms import LocalSGD
from sgdtheory.simulation.dynamics import Lane, Sampler, Spectrum, two_sum
from sgdtheory.simulation.method_dynamics import Dynamics, RateTable, Replica, gained, gradient, squares

WORKER = np.uint32(0xFFFFFFFF)  # the second word of the counter from which a worker's key is made: no index of a number


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


def init(method: LocalSGD, spectrum: Spectrum, replica: Replica) -> State:
    """Nothing has moved."""
    zeros = jnp.zeros_like(spectrum.start)
    each = jnp.zeros((method.num_workers, *spectrum.start.shape), spectrum.start.dtype)
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
    shared: None,
    replica: Replica,
    state: State,
    number: Array,
    row: RateTable,
    draw: Any,
) -> State:
    """One step of all K workers of one replica, and an outer step after every H-th."""
    rate = row.rate[replica.run]
    batch = row.batch[replica.run]
    weights = spectrum.start + (state.moved + state.moved_low)
    keys = worker_keys(replica.key, method.num_workers)
    slopes = jax.vmap(gradient, (None, None, 0, None, 0, None, 0))(
        sampler, spectrum, keys, batch, weights, number, draw
    )
    inner = method.inner_momentum * state.inner + slopes
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


def risks(spectrum: Spectrum, shared: None, state: State, iterate: Array, norm: Array) -> tuple[Array, Array]:
    """`‖a w + S/norm‖²` and `‖w‖²` of one replica, w the mean of its workers."""
    last = spectrum.start + (state.moved + state.moved_low).mean(0)
    return squares(last, state.total + state.total_low, iterate, norm)


def draws(sampler: Sampler, method: LocalSGD, replicas: Replica, batch: Array, dtype: Any, start: Array) -> Any:
    """Those of `STEPS` steps of the workers of L replicas, (STEPS, L, K)."""
    shape = batch.shape[1], method.num_workers
    keys = jax.vmap(worker_keys, in_axes=(0, None))(replicas.key, method.num_workers).reshape(-1, 2)
    lane = Lane(keys, jnp.zeros((), dtype), jnp.repeat(batch, method.num_workers, axis=1))
    drawn = sampler.draws(lane, start)
    return jax.tree.map(lambda each: each.reshape(each.shape[0], *shape, *each.shape[2:]), drawn)


WORKERS = Dynamics(init, step, carry, risks, draws)
