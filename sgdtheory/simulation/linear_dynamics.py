"""Any linear method with any average (THEORY.md T20), as pure functions of a small state, in `dynamics`' coordinates.

A method has k vectors `u_j = s_j u(0) + v_j`, of which the v_j are kept here: how far each has moved. `(I − A) s = 0`
for a method that stands still without gradients, so that a direction in which nothing happens stays exactly where it
is; `(I − A) u` would leave a rounding error there in every step. Coefficients are those of `u(0), v_1 … v_k`.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from sgdtheory.simulation.dynamics import Sampler, Spectrum, two_sum
from sgdtheory.simulation.method_dynamics import Dynamics, Replica, gained, gradient, squares


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


class State(NamedTuple):
    """The k vectors v_j and the sum S, each the unevaluated sum of two (d,) arrays, as in `dynamics.State`."""

    moved: tuple[Array, ...]
    moved_low: tuple[Array, ...]
    total: Array
    total_low: Array


def init(vectors: int, spectrum: Spectrum, replica: Replica) -> State:
    """Nothing has moved."""
    zeros = jnp.zeros_like(spectrum.start)
    return State((zeros,) * vectors, (zeros,) * vectors, replica.begin * spectrum.start, zeros)


def step(
    sampler: Sampler,
    how: int,
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
    point = _combined(mine.point, vectors)
    slope = gradient(sampler, spectrum, replica.key, mine.batch, point, number, draw)
    moved_low = tuple(
        low - _combined(decay, vectors) - gain * slope
        for low, decay, gain in zip(state.moved_low, mine.decay, mine.gain, strict=True)
    )
    joined = gained(replica, number, _combined(output, vectors), state.total + state.total_low)
    return state._replace(moved_low=moved_low, total_low=state.total_low + joined)


def carry(state: State) -> State:
    """Move the low parts into the high parts."""
    pairs = [two_sum(*pair) for pair in zip(state.moved, state.moved_low, strict=True)]
    moved, moved_low = zip(*pairs, strict=True)
    return State(moved, moved_low, *two_sum(state.total, state.total_low))


def risks(spectrum: Spectrum, output: Array, state: State, iterate: Array, norm: Array) -> tuple[Array, Array]:
    """`‖a w + S/norm‖²` and `‖w‖²` of one replica, w = oᵀu."""
    last = _combined(output, _vectors(spectrum, state))
    return squares(last, state.total + state.total_low, iterate, norm)


def _vectors(spectrum: Spectrum, state: State) -> tuple[Array, ...]:
    """u(0) and v_1 … v_k."""
    return spectrum.start, *(high + low for high, low in zip(state.moved, state.moved_low, strict=True))


def _combined(weights: Array, vectors: tuple[Array, ...]) -> Array:
    """Σ weights · vectors, term by term: a matrix product might be computed in fewer digits."""
    return sum((weights[j] * vector for j, vector in enumerate(vectors)), start=jnp.zeros_like(vectors[0]))


LINEAR = Dynamics(init, step, carry, risks)
