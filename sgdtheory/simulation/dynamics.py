"""Simulated runs as pure functions of a small state: `begin`, `step`, and many steps of many replicas at once.

Everything is in the coordinates `u = H^{1/2} (w − w*)` of the eigenbasis, in which the risk of an iterate is `‖u‖²`,
the start is `u_i = √s_i`, and a direction that never moves is simply one with λ_i = 0. With m outputs u is `Δ H^{1/2}`,
(m, d), and has the shape (m, d) wherever (d,) is written.

A method says what it keeps and what a step changes (`Dynamics`); the sum of iterates, compensated sums, the returned
risk and the loop over steps are the same for all methods.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

STEPS = 64  # steps between two carries, and steps whose scalars are drawn together


class Spectrum(NamedTuple):
    """The problem, the same for all replicas: (d,) eigenvalues λ_i, the start u, (d,) or (m, d), and σ of an output."""

    eigenvalue: Any
    start: Any
    noise: Any


class Lane(NamedTuple):
    """Key (two uint32 words), learning rate γ and batch size B of a replica, as a sampler takes them."""

    key: Any
    learning_rate: Any
    batch_size: Any


class Sampler(Protocol):
    """Protocol of samplers of mini-batches; hashable, a static argument of the compiled program."""

    def numbers_a_lane(self, spectrum: Spectrum) -> int:
        """Return how many numbers a step of one lane keeps in memory beside a few arrays of the weights' shape."""
        ...

    def draws(self, lanes: Lane, first: Array) -> Any:
        """Return what `STEPS` steps from `first` on need of randomness beside their number: (STEPS, L, …) arrays."""
        ...

    def increment(self, spectrum: Spectrum, lane: Lane, error: Array, number: Array, draw: Any) -> Array:
        """Return the change of u by SGD in step `number` of one lane, of u's shape."""
        ...


class Replica(NamedTuple):
    """One replica of a run: its key, two uint32 words, and scalars.

    Attributes:
        key: two uint32 words.
        run: index of its run in the table.
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
    """Learning rates and batch sizes of T steps of G runs, (T, G); T = 1 if all steps are alike."""

    rate: Any
    batch: Any


class State(NamedTuple):
    """State of a replica: vectors and the sum S of iterates, each the unevaluated sum of two arrays, and the rest.

    A step adds to the low parts only, and `carry` moves what they hold into the high parts every `STEPS` steps.
    Rounding errors are then relative to what has been added since, so that neither an increment of 1e-9 u is lost in
    float32 nor a term of a sum of 10⁹.

    Attributes:
        vectors, vectors_low: tuples of arrays to which steps add.
        kept: what the method keeps beside them, any tree of arrays.
        total, total_low: S.
    """

    vectors: tuple[Array, ...]
    vectors_low: tuple[Array, ...]
    kept: Any
    total: Array
    total_low: Array


class Step(NamedTuple):
    """One step of one replica, as a method sees it.

    Attributes:
        sampler, spectrum, shared: of all replicas; `shared` are the method's own arrays, None where it has none.
        key: of the replica.
        row: its entries of the table.
        number: of the step, from 0.
        draw: what the sampler drew ahead.
    """

    sampler: Sampler
    spectrum: Spectrum
    shared: Any
    key: Array
    row: Any
    number: Array
    draw: Any

    def gradient(self, error: Array) -> Array:
        """Return `H^{1/2} g` of the batch at an error."""
        lane = Lane(self.key, np.array(-1, error.dtype), self.row.batch)  # at rate −1 SGD adds the gradient
        return self.sampler.increment(self.spectrum, lane, error, self.number, self.draw)


class Dynamics:
    """A method: derive a frozen dataclass from it. Instances are static arguments of the compiled program."""

    def begin(self, spectrum: Spectrum) -> tuple[tuple[Array, ...], Any]:
        """Return the vectors at the start, and what is kept beside them."""
        raise NotImplementedError

    def iterate(self, spectrum: Spectrum, shared: Any, vectors: tuple[Array, ...]) -> Array:
        """Return u of the iterate that joins the sum, and whose risk is the last one's."""
        raise NotImplementedError

    def change(self, step: Step, vectors: tuple[Array, ...], kept: Any) -> tuple[tuple[Array, ...], Any]:
        """Return what the step adds to each vector, and what is kept after it."""
        raise NotImplementedError

    def ended(self, state: State, number: Array) -> State:
        """Return the state after what happens at the end of some steps beyond `change`."""
        return state

    def draws(self, sampler: Sampler, keys: Array, batch: Array, dtype: Any, start: Array) -> Any:
        """Return what the sampler draws for `STEPS` steps of L replicas with keys (L, 2) and batch sizes (STEPS, L)."""
        return sampler.draws(Lane(keys, jnp.zeros((), dtype), batch), start)  # draws do not depend on the rate


def begin(dynamics: Dynamics, spectrum: Spectrum, replica: Replica) -> State:
    """Return the state of a replica at the start."""
    vectors, kept = dynamics.begin(spectrum)
    zeros = jnp.zeros_like(spectrum.start)
    return State(vectors, tuple(map(jnp.zeros_like, vectors)), kept, replica.begin * spectrum.start, zeros)


def step(
    dynamics: Dynamics,
    sampler: Sampler,
    spectrum: Spectrum,
    shared: Any,
    replica: Replica,
    state: State,
    number: Array,
    row: Any,
    draw: Any,
) -> State:
    """Return the state after one step; the iterate before it joins the sum. `row` is of all runs."""
    mine = jax.tree.map(lambda each: each[replica.run], row)
    vectors = _sums(state)
    iterate = dynamics.iterate(spectrum, shared, vectors)
    here = Step(sampler, spectrum, shared, replica.key, mine, number, draw)
    added, kept = dynamics.change(here, vectors, state.kept)
    low = tuple(each + more for each, more in zip(state.vectors_low, added, strict=True))
    averaged = number >= replica.first
    weight = jnp.where(averaged, replica.weight, 0)
    forgetting = jnp.where(averaged, replica.forgetting, 0)
    joined = weight * iterate - forgetting * (state.total + state.total_low)  # S ← ρS + ωw
    return dynamics.ended(State(state.vectors, low, kept, state.total, state.total_low + joined), number)


def carry(state: State) -> State:
    """Move the low parts into the high parts; what rounding leaves over stays, exactly, in the low ones."""
    pairs = [two_sum(*pair) for pair in zip(state.vectors, state.vectors_low, strict=True)]
    vectors, low = zip(*pairs, strict=True)
    return State(vectors, low, state.kept, *two_sum(state.total, state.total_low))


def risks(
    dynamics: Dynamics, spectrum: Spectrum, shared: Any, state: State, share: Array, norm: Array
) -> tuple[Array, Array]:
    """Return `‖a w + S/norm‖²`, a the share of the iterate, and `‖w‖²` of one replica."""
    last = dynamics.iterate(spectrum, shared, _sums(state))
    own = jnp.where(share == 0, 0, share * last)  # w may have left the range of a float
    return ((own + (state.total + state.total_low) / norm) ** 2).sum(), (last**2).sum()


def _sums(state: State) -> tuple[Array, ...]:
    return tuple(high + low for high, low in zip(state.vectors, state.vectors_low, strict=True))


def advance(
    dynamics: Dynamics,
    sampler: Sampler,
    spectrum: Spectrum,
    shared: Any,
    table: Any,
    replicas: Replica,
    state: State,
    origin: Array,
    first: Array,
    count: Array,
) -> State:
    """Take the steps first … first + count − 1 of L replicas.

    The table begins with step `origin`, a multiple of `STEPS`. `count` is dynamic: one program serves any number of
    steps. Carries happen after steps whose number is a multiple of `STEPS`, wherever calls begin and end: the number of
    steps in a call does not change a bit of the result.
    """
    many: Callable = jax.vmap(step, in_axes=(None, None, None, None, 0, 0, None, None, 0))

    def one(state: State, number: Array, inputs: tuple[Any, Any]) -> State:
        return many(dynamics, sampler, spectrum, shared, replicas, state, number, *inputs)

    def ahead(start: Array) -> tuple[Any, Any]:
        rows = rows_from(table, start - origin)
        batch = rows.batch[:, replicas.run]
        return rows, dynamics.draws(sampler, replicas.key, batch, spectrum.start.dtype, start)

    return walk(one, ahead, carry, state, first, count)


def rows_from(table: Any, begin: Array) -> Any:
    """Return `STEPS` rows of a table's arrays (T, …); of a table of one row, that one again and again."""
    if table.batch.shape[0] == 1:
        return jax.tree.map(lambda each: jnp.broadcast_to(each, (STEPS, *each.shape[1:])), table)
    return jax.tree.map(lambda each: lax.dynamic_slice_in_dim(each, begin, STEPS), table)


def walk(
    one: Callable, ahead: Callable[[Array], Any], carried: Callable, state: Any, first: Array, count: Array
) -> Any:
    """Steps first … first + count − 1 of all lanes, in blocks that begin at multiples of `STEPS`.

    Args:
        one: (state, number, inputs) → state: one step of all lanes.
        ahead: what the `STEPS` steps from a number on need, arrays (STEPS, …): the `inputs` of each.
        carried: the state at the end of a block.
        state: of all lanes.
        first, count: the steps.
    """
    begin = jnp.asarray(first, np.int32)

    def whole(state: Any, start: Array, low: Array, high: Array) -> Any:
        inputs = start + jnp.arange(STEPS, dtype=np.uint32), ahead(start)
        return carried(lax.scan(lambda state, xs: (one(state, *xs), None), state, inputs)[0])

    def part(state: Any, start: Array, low: Array, high: Array) -> Any:
        inputs = ahead(start)

        def body(k: Array, state: Any) -> Any:
            return one(state, start + jnp.asarray(k, np.uint32), jax.tree.map(lambda each: each[k], inputs))

        state = lax.fori_loop(low, high, body, state)
        return jax.tree.map(partial(jnp.where, high == STEPS), carried(state), state)

    def block(number: Array, state: Any) -> Any:
        low, high = jnp.maximum(begin - number * STEPS, 0), jnp.minimum(begin + count - number * STEPS, STEPS)
        start = jnp.asarray(number * STEPS, np.uint32)
        return lax.cond(high - low == STEPS, whole, part, state, start, low, high)

    return lax.fori_loop(begin // STEPS, (begin + count - 1) // STEPS + 1, block, state)


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """fl(a + b) and its rounding error, exactly (Knuth); an infinite sum has none."""
    total = a + b
    shift = total - a
    error = (a - (total - shift)) + (b - shift)
    return total, jnp.where(jnp.isfinite(total), error, 0)
