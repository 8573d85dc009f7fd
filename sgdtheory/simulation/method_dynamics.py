"""What the dynamics of all methods share: a replica, its table of steps, the sum of iterates, and the loop over steps.

A method's dynamics are four pure functions of a small state, in `dynamics`' coordinates, and a step's draws. Of what
they are given `how` is fixed when the program is compiled (a method, a number of vectors); `shared` are arrays that all
lanes have in common, None where there are none.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from sgdtheory.simulation.dynamics import STEPS, Lane, Sampler, Spectrum, walk


class Replica(NamedTuple):
    """One replica of a run: its key, two uint32 words, and scalars.

    Attributes:
        key: two uint32 words.
        run: place of its run in the table.
        first: step from which on iterates are averaged, `S ← ρS + ωw`.
        forgetting, weight: 1 − ρ and ω.
        begin: what S is at the start, in units of u(0).
    """

    key: Any
    run: Any
    first: Any
    forgetting: Any
    weight: Any
    begin: Any


class RateTable(NamedTuple):
    """What T steps of G runs do: (T, G) learning rates and batch sizes; T = 1 if every step does the same."""

    rate: Any
    batch: Any


def lane_draws(sampler: Sampler, how: Any, replicas: Replica, batch: Array, dtype: Any, start: Array) -> Any:
    """What the sampler draws for `STEPS` steps of L replicas with these batch sizes, (STEPS, L)."""
    rate = jnp.zeros((), dtype)  # draws do not depend on it
    return sampler.draws(Lane(replicas.key, rate, batch), start)


class Dynamics(NamedTuple):
    """The functions of a method.

    Attributes:
        init: (how, spectrum, replica) → state.
        step: (sampler, how, spectrum, shared, replica, state, number, row, draw) → state; the row is of all runs.
        carry: state → state, with the low parts moved into the high parts.
        risks: (spectrum, shared, state, a, norm) → `‖a w + S/norm‖²` and `‖w‖²`.
        draws: (sampler, how, replicas, batch, dtype, start) → those of `STEPS` steps of L replicas.
    """

    init: Callable
    step: Callable
    carry: Callable
    risks: Callable
    draws: Callable = lane_draws


def advance(
    dynamics: Dynamics,
    sampler: Sampler,
    how: Any,
    spectrum: Spectrum,
    shared: Any,
    table: Any,
    replicas: Replica,
    state: Any,
    origin: Array,
    first: Array,
    count: Array,
) -> Any:
    """Steps first … first + count − 1 of L replicas; the table begins with step `origin`, a multiple of `STEPS`."""
    many: Callable = jax.vmap(dynamics.step, in_axes=(None, None, None, None, 0, 0, None, None, 0))

    def one(state: Any, number: Array, inputs: tuple[Any, Any]) -> Any:
        return many(sampler, how, spectrum, shared, replicas, state, number, *inputs)

    def ahead(start: Array) -> tuple[Any, Any]:
        rows = rows_from(table, start - origin)
        batch = rows.batch[:, replicas.run]
        return rows, dynamics.draws(sampler, how, replicas, batch, spectrum.start.dtype, start)

    return walk(one, ahead, dynamics.carry, state, first, count)


def rows_from(table: Any, begin: Array) -> Any:
    """`STEPS` rows of a table's arrays (T, …); of a table of one row, that one again and again."""
    if table.batch.shape[0] == 1:
        return jax.tree.map(lambda each: jnp.broadcast_to(each, (STEPS, *each.shape[1:])), table)
    return jax.tree.map(lambda each: lax.dynamic_slice_in_dim(each, begin, STEPS), table)


def gradient(
    sampler: Sampler, spectrum: Spectrum, key: Array, batch: Array, error: Array, number: Array, draw: Any
) -> Array:
    """`H^{1/2} g` of a batch at an error."""
    lane = Lane(key, np.array(-1, error.dtype), batch)  # at rate −1 SGD adds the gradient
    return sampler.increment(spectrum, lane, error, number, draw)


def gained(replica: Replica, number: Array, iterate: Array, total: Array) -> Array:
    """What S gains in a step, `ωw − (1 − ρ)S`; nothing before the average begins."""
    averaged = number >= replica.first
    weight = jnp.where(averaged, replica.weight, 0)
    forgetting = jnp.where(averaged, replica.forgetting, 0)
    return weight * iterate - forgetting * total


def squares(last: Array, total: Array, iterate: Array, norm: Array) -> tuple[Array, Array]:
    """`‖a w + S/norm‖²` and `‖w‖²` of one lane."""
    own = jnp.where(iterate == 0, 0, iterate * last)  # w may have left the range of a float
    return ((own + total / norm) ** 2).sum(), (last**2).sum()
