"""One simulated step of any method: the state of a replica, what a step adds to it, and the risks of the result.

All arrays are in the coordinates `u = H^{1/2} (w − w*)` of the eigenbasis. The risk of an iterate is then `‖u‖²`, the
start is `u_i = √s_i`, and a direction that never moves is one with λ_i = 0. With m outputs u is `Δ H^{1/2}`, of shape
(m, d), wherever (d,) is written.

A sampler draws the gradient of a mini-batch (`Sampler`); a method says where it is taken and what is done with it
(`Dynamics`). The sum of the iterates, compensated addition and the risk are the same for all methods.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

# There are this many steps between two carries, whose scalars are drawn together; 64 float32 additions lose at most
# 4e-6.
STEPS = 64


class Rows(NamedTuple):
    """Rows of data, whitened by the population's covariance, of all samples one after the other.

    Attributes:
        features: (S N + 1, d) z = H^{−1/2} x; the last row is 0, so that it may fill up a batch.
        noise: (S N + 1,) or (S N + 1, m) label noise ξ.
    """

    features: Any
    noise: Any


class Spectrum(NamedTuple):
    """The problem and the arrays of the method, which all replicas share.

    Attributes:
        eigenvalue: (d,) λ_i.
        start: (d,) or (m, d) u of w_0.
        noise: standard deviation σ of an output's label noise.
        rows: the data, if batches are read from a finite sample.
        measure: root (d, e) and centre (e,) or (m, e) of the risk `‖u root − centre‖²`, if it is not `‖u‖²`.
        output: (K,) coefficients of the iterate (`Dynamics`), or None where it is the only vector.
        method: arrays of the method's own, if it has any.
    """

    eigenvalue: Any
    start: Any
    noise: Any
    rows: Rows | None = None
    measure: tuple[Any, Any] | None = None
    output: Any = None
    method: Any = None


class Draw(NamedTuple):
    """The randomness of one step of one replica.

    Attributes:
        key: two uint32 words.
        number: of the step, from 0.
        batch: batch size B.
        ahead: what the sampler has prepared for this step.
    """

    key: Any
    number: Any
    batch: Any
    ahead: Any


class Sampler(ABC):
    """Base class of samplers of mini-batches; a hashable static argument of the compiled program."""

    @abstractmethod
    def numbers_a_lane(self, spectrum: Spectrum) -> int:
        """Return how many numbers a step of one lane keeps in memory beside a few arrays of the weights' shape."""

    def ahead(self, key: Array, batch: Array, first: Array) -> Any:
        """Return what is drawn together for `STEPS` steps from `first` on: (STEPS, L, …) arrays, from (L, 2) keys.

        By default nothing: the randomness of many steps would fill the memory where a step takes many numbers.
        """
        return ()

    @abstractmethod
    def gradient(self, spectrum: Spectrum, error: Array, draw: Draw) -> Array:
        """Return `H^{1/2} g`, of u's shape, g the gradient of the mini-batch at the error u."""


class Replica(NamedTuple):
    """One replica of a run: its key and what tells its run from others.

    Attributes:
        key: two uint32 words.
        run: index of its run in the table.
        first: step from which on iterates are averaged, `S ← ρS + ωw`.
        forgetting, weight: 1 − ρ and ω.
        begin: what S is at the start, in units of u(0).
        stream: index of the sequence of rows that it reads, if these are read.
    """

    key: Any
    run: Any
    first: Any
    forgetting: Any
    weight: Any
    begin: Any
    stream: Any


class Table(NamedTuple):
    """Coefficients of T steps of G runs; T = 1 if all steps are alike.

    I − A and c are None for SGD, where they are 0 and 1: without them a step takes a fifth less time.

    Attributes:
        decay: (T, G, k, K) I − A, K = k or 1 + k (`Dynamics`).
        gain: (T, G, k) b.
        point: (T, G, K) c.
        batch: (T, G) batch size.
        index: (T, S, W) which rows are read by each stream, or None where batches are drawn.
    """

    decay: Any
    gain: Any
    point: Any
    batch: Any
    index: Any = None


class State(NamedTuple):
    """State of a replica. Vectors and the sum S of iterates are unevaluated sums of two arrays.

    A step adds to the low parts only, and `carry` moves their content into the high parts every `STEPS` steps. Rounding
    errors are then relative to what has been added since the last carry. So float32 loses neither an increment of
    1e-9 u nor a term of a sum of 10⁹.

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
        sampler, spectrum: shared by all replicas.
        row: the run's entries of the table.
        draw: the randomness.
    """

    sampler: Sampler
    spectrum: Spectrum
    row: Any
    draw: Draw


@dataclass(frozen=True)
class Dynamics:
    """A linear method of k vectors, `u ← A u − b g`, with g the gradient at cᵀu (THEORY.md T20).

    Other methods derive from it. They take the gradient elsewhere, or step in another direction than the gradient's
    (`direction`). Instances are static arguments of the compiled program; methods of as many vectors share one.

    A single vector that begins at u(0) is kept as it is, so that it may shrink by any factor. For several vectors the
    program keeps how far each has moved, `v_j = u_j − s_j u(0)`, and coefficients are those of the K = 1 + k vectors
    u(0), v_1 … v_k. Most methods of several vectors stand still without gradients because (I − A) s = 0 cancels between
    vectors. Evaluated on u, that would leave a rounding error in every step, and directions without a gradient would
    drift.

    Attributes:
        vectors: k.
        clip: largest norm c of a gradient, longer ones become `c g/‖g‖`; in the unit of simulated gradients, or None.
        moved: whether vectors are counted from their start.
    """

    vectors: int = 1
    clip: float | None = None
    moved: bool = False

    def begin(self, spectrum: Spectrum) -> tuple[tuple[Array, ...], Any]:
        """Return the vectors at the start, and what is kept beside them."""
        start = jnp.asarray(spectrum.start)
        return ((jnp.zeros_like(start),) * self.vectors if self.moved else (start,)), ()

    def iterate(self, spectrum: Spectrum, vectors: tuple[Array, ...]) -> Array:
        """Return u of the iterate, which joins the sum and whose risk is the last iterate's."""
        return combined(spectrum.output, self.every(spectrum, vectors))

    def every(self, spectrum: Spectrum, vectors: tuple[Array, ...]) -> tuple[Array, ...]:
        """Return the K vectors that coefficients belong to."""
        return (spectrum.start, *vectors) if self.moved else vectors

    def change(self, step: Step, vectors: tuple[Array, ...], kept: Any) -> tuple[tuple[Array, ...], Any]:
        """Return what the step adds to each vector, `−(I − A) u − b d`, and what is kept after it."""
        every = self.every(step.spectrum, vectors)
        direction, kept = self.direction(step, combined(step.row.point, every), kept)
        if step.row.decay is None:
            return (-step.row.gain[0] * direction,), kept
        pairs = zip(step.row.decay, step.row.gain, strict=True)
        return tuple(-combined(decay, every) - gain * direction for decay, gain in pairs), kept

    def direction(self, step: Step, point: Array, kept: Any) -> tuple[Array, Any]:
        """Return `H^{1/2} d`, given the point cᵀu, and what is kept; here d is the gradient at this point."""
        return self.gradient(step, point), kept

    def gradient(self, step: Step, point: Array) -> Array:
        """Return `H^{1/2} g` of the batch, clipped."""
        found = step.sampler.gradient(step.spectrum, point, step.draw)
        if self.clip is None:
            return found
        # The norm is that of g. A direction with λ = 0 has no gradient, and no H^{−1/2} either.
        root = jnp.sqrt(step.spectrum.eigenvalue)
        length = jnp.sqrt(((found / jnp.where(root > 0, root, 1)) ** 2).sum())
        longest = jnp.asarray(self.clip, found.dtype)
        return found * jnp.where(length > longest, longest / jnp.where(length > 0, length, 1), 1)

    def ended(self, state: State, number: Array) -> State:
        """Return the state after what happens at the end of some steps beyond `change`."""
        return state

    def ahead(self, sampler: Sampler, key: Array, batch: Array, first: Array) -> Any:
        """Return what the sampler draws for `STEPS` steps of L replicas with keys (L, 2) and batch sizes (STEPS, L)."""
        return sampler.ahead(key, batch, first)


def combined(weights: Array | None, vectors: tuple[Array, ...]) -> Array:
    """Return Σ weights · vectors, or the only vector where there are no weights.

    Term by term, since a matrix product might be computed in fewer digits.
    """
    if weights is None:
        return vectors[0]
    return sum((weights[j] * vector for j, vector in enumerate(vectors)), start=jnp.zeros_like(vectors[-1]))


def begin(dynamics: Dynamics, spectrum: Spectrum, replica: Replica) -> State:
    """Return the state of a replica at the start."""
    vectors, kept = dynamics.begin(spectrum)
    zeros = jnp.zeros_like(spectrum.start)
    return State(vectors, tuple(map(jnp.zeros_like, vectors)), kept, replica.begin * spectrum.start, zeros)


def step(
    dynamics: Dynamics,
    sampler: Sampler,
    spectrum: Spectrum,
    replica: Replica,
    state: State,
    number: Array,
    table_row: Table,
    ahead: Any,
) -> State:
    """Return the state after one step. The iterate before it joins the sum. The row of the table is of all runs."""
    row = jax.tree.map(lambda each: each[replica.run], table_row)
    vectors = _sums(state)
    iterate = dynamics.iterate(spectrum, vectors)
    draw = Draw(replica.key, number, row.batch, ahead)
    added, kept = dynamics.change(Step(sampler, spectrum, row, draw), vectors, state.kept)
    low = tuple(each + more for each, more in zip(state.vectors_low, added, strict=True))
    # Lanes of one block may begin to average at different steps, so that both factors are chosen in every step.
    averaged = number >= replica.first
    weight = jnp.where(averaged, replica.weight, 0)
    forgetting = jnp.where(averaged, replica.forgetting, 0)
    joined = weight * iterate - forgetting * (state.total + state.total_low)  # S ← ρS + ωw
    return dynamics.ended(State(state.vectors, low, kept, state.total, state.total_low + joined), number)


def carry(state: State) -> State:
    """Move the low parts into the high parts. What rounding leaves over stays, exactly, in the low ones."""
    pairs = [two_sum(*pair) for pair in zip(state.vectors, state.vectors_low, strict=True)]
    vectors, low = zip(*pairs, strict=True)
    return State(vectors, low, state.kept, *two_sum(state.total, state.total_low))


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Return fl(a + b) and its rounding error, exactly (Knuth); an infinite sum has none."""
    total = a + b
    shift = total - a
    error = (a - (total - shift)) + (b - shift)
    return total, jnp.where(jnp.isfinite(total), error, 0)


def risks(dynamics: Dynamics, spectrum: Spectrum, state: State, share: Array, norm: Array) -> tuple[Array, Array]:
    """Return the risks of `a w + S/norm`, a the share of the iterate, and of w, of one replica."""
    last = dynamics.iterate(spectrum, _sums(state))
    own = jnp.where(share == 0, 0, share * last)  # where it has no share, w may have left the range of a float
    return _risk(spectrum, own + (state.total + state.total_low) / norm), _risk(spectrum, last)


def _risk(spectrum: Spectrum, error: Array) -> Array:
    if spectrum.measure is not None:
        root, centre = spectrum.measure
        error = jnp.matmul(error, root, precision=lax.Precision.HIGHEST) - centre
    return (error**2).sum()


def _sums(state: State) -> tuple[Array, ...]:
    return tuple(high + low for high, low in zip(state.vectors, state.vectors_low, strict=True))


def advance(
    dynamics: Dynamics,
    sampler: Sampler,
    spectrum: Spectrum,
    table: Table,
    replicas: Replica,
    state: State,
    origin: Array,
    first: Array,
    count: Array,
) -> State:
    """Take the steps first … first + count − 1 of L replicas, in blocks that begin at multiples of `STEPS`.

    The table begins with step `origin`, a multiple of `STEPS`. `count` is dynamic: one program serves any number of
    steps. Carries happen after steps whose number is a multiple of `STEPS`, wherever calls begin and end. So the number
    of steps in a call does not change a bit of the result.
    """
    many = jax.vmap(step, in_axes=(None, None, None, 0, 0, None, None, 0))
    begin = jnp.asarray(first, np.int32)

    def one(state: State, number: Array, inputs: tuple[Table, Any]) -> State:
        return many(dynamics, sampler, spectrum, replicas, state, number, *inputs)

    def prepared(start: Array) -> tuple[Table, Any]:
        rows = _table_rows(table, start - origin)
        if rows.index is not None:
            return rows._replace(index=None), rows.index[:, replicas.stream]
        return rows, dynamics.ahead(sampler, replicas.key, rows.batch[:, replicas.run], start)

    def whole(state: State, start: Array, low: Array, high: Array) -> State:
        inputs = start + jnp.arange(STEPS, dtype=np.uint32), prepared(start)
        return carry(lax.scan(lambda state, xs: (one(state, *xs), None), state, inputs)[0])

    def part(state: State, start: Array, low: Array, high: Array) -> State:
        inputs = prepared(start)

        def body(k: Array, state: State) -> State:
            return one(state, start + jnp.asarray(k, np.uint32), jax.tree.map(lambda each: each[k], inputs))

        state = lax.fori_loop(low, high, body, state)
        # A block that a later call goes on with is carried then: carries may not depend on where calls end.
        return jax.tree.map(lambda then, before: jnp.where(high == STEPS, then, before), carry(state), state)

    def block(number: Array, state: State) -> State:
        low = jnp.maximum(begin - number * STEPS, 0)
        high = jnp.minimum(begin + count - number * STEPS, STEPS)
        start = jnp.asarray(number * STEPS, np.uint32)
        if table.index is not None:  # reading rows hides the difference, and one branch is compiled in half the time
            return part(state, start, low, high)
        # A scan over whole blocks takes 5% to 15% less time than a loop with bounds, which the ends of a call need.
        return lax.cond(high - low == STEPS, whole, part, state, start, low, high)

    return lax.fori_loop(begin // STEPS, (begin + count - 1) // STEPS + 1, block, state)


def _table_rows(table: Table, begin: Array) -> Table:
    """Return `STEPS` rows of a table's arrays (T, …); of a table of one row, that one again and again."""
    if table.batch.shape[0] == 1:
        return jax.tree.map(lambda each: jnp.broadcast_to(each, (STEPS, *each.shape[1:])), table)
    return jax.tree.map(lambda each: lax.dynamic_slice_in_dim(each, begin, STEPS), table)
