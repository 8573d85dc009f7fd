"""Any linear method with any average (THEORY.md T20), as pure functions of a small state, in `dynamics`' coordinates.

A method has k vectors `u_j = s_j u(0) + v_j`, of which the v_j are kept here: how far each has moved. `(I − A) s = 0`
for a method that stands still without gradients, so that a direction in which nothing happens stays exactly where it
is; `(I − A) u` would leave a rounding error there in every step. Coefficients are those of `u(0), v_1 … v_k`.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from sgdtheory.simulation.dynamics import STEPS, Lane, Sampler, Spectrum, two_sum, walk


class Table(NamedTuple):
    """What T steps of G runs do, with 1 + k numbers for u(0) and the k vectors; T = 1 if every step does the same.

    Attributes:
        decay: (T, G, k, 1 + k) I − A.
        gain: (T, G, k) b.
        point: (T, G, 1 + k) c.
        batch: (T, G) batch size.
    """

    decay: Any
    gain: Any
    point: Any
    batch: Any


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


class State(NamedTuple):
    """The k vectors v_j and the sum S, each the unevaluated sum of two (d,) arrays, as in `dynamics.State`."""

    moved: tuple[Array, ...]
    moved_low: tuple[Array, ...]
    total: Array
    total_low: Array


def init(spectrum: Spectrum, replica: Replica, vectors: int) -> State:
    """Nothing has moved."""
    zeros = jnp.zeros_like(spectrum.start)
    return State((zeros,) * vectors, (zeros,) * vectors, replica.begin * spectrum.start, zeros)


def step(
    sampler: Sampler,
    spectrum: Spectrum,
    output: Array,
    replica: Replica,
    state: State,
    number: Array,
    row: Table,
    draw: Any,
) -> State:
    """`u ← A u − b g`, g the gradient at cᵀu; the iterate oᵀu before it joins the sum. `row` is of all runs."""
    mine = Table(*(each[replica.run] for each in row))
    vectors = _vectors(spectrum, state)
    backwards = Lane(replica.key, np.array(-1, output.dtype), mine.batch)  # at rate −1 SGD adds the gradient
    gradient = sampler.increment(spectrum, backwards, _combined(mine.point, vectors), number, draw)
    moved_low = tuple(
        low - _combined(decay, vectors) - gain * gradient
        for low, decay, gain in zip(state.moved_low, mine.decay, mine.gain, strict=True)
    )
    joined = gained(replica, number, _combined(output, vectors), state.total + state.total_low)
    return state._replace(moved_low=moved_low, total_low=state.total_low + joined)


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


def carry(state: State) -> State:
    """Move the low parts into the high parts."""
    pairs = [two_sum(*pair) for pair in zip(state.moved, state.moved_low, strict=True)]
    moved, moved_low = zip(*pairs, strict=True)
    return State(moved, moved_low, *two_sum(state.total, state.total_low))


def risks(spectrum: Spectrum, output: Array, state: State, iterate: Array, norm: Array) -> tuple[Array, Array]:
    """`‖a w + S/norm‖²` and `‖w‖²` of one replica, w = oᵀu."""
    last = _combined(output, _vectors(spectrum, state))
    return squares(last, state.total + state.total_low, iterate, norm)


def advance(
    sampler: Sampler,
    spectrum: Spectrum,
    output: Array,
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
        return many(sampler, spectrum, output, replicas, state, number, *inputs)

    def ahead(start: Array) -> tuple[Table, Any]:
        rows = rows_from(table, start - origin)
        rate = jnp.zeros((), output.dtype)  # draws do not depend on it
        return rows, sampler.draws(Lane(replicas.key, rate, rows.batch[:, replicas.run]), start)

    return walk(one, ahead, carry, state, first, count)


def rows_from(table: Any, begin: Array) -> Any:
    """`STEPS` rows of a table's arrays (T, …); of a table of one row, that one again and again."""
    if table.batch.shape[0] == 1:
        return jax.tree.map(lambda each: jnp.broadcast_to(each, (STEPS, *each.shape[1:])), table)
    return jax.tree.map(lambda each: lax.dynamic_slice_in_dim(each, begin, STEPS), table)


def _vectors(spectrum: Spectrum, state: State) -> tuple[Array, ...]:
    """u(0) and v_1 … v_k."""
    return spectrum.start, *(high + low for high, low in zip(state.moved, state.moved_low, strict=True))


def _combined(weights: Array, vectors: tuple[Array, ...]) -> Array:
    """Σ weights · vectors, term by term: a matrix product might be computed in fewer digits."""
    return sum((weights[j] * vector for j, vector in enumerate(vectors)), start=jnp.zeros_like(vectors[0]))
