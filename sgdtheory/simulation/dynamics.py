"""Averaged mini-batch SGD as pure functions of a small state: `init`, `step`, and many steps of many lanes at once.

Everything is in the coordinates `u = H^{1/2} η` of the eigenbasis, in which the risk of an iterate is `‖u‖²`, the start
is `u_i = √s_i`, and a direction that never moves is simply one with λ_i = 0. A lane is one replica at one setting.

With m outputs u is `Δ H^{1/2}`, (m, d), and has the shape (m, d) wherever (d,) is written.
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
    """The problem, the same for all lanes: (d,) eigenvalues λ_i, the start u, (d,) or (m, d), and σ of an output."""

    eigenvalue: Any
    start: Any
    noise: Any


class Lane(NamedTuple):
    """One replica at one setting: its key, two uint32 words, its learning rate γ and its batch size B, scalars."""

    key: Any
    learning_rate: Any
    batch_size: Any


class State(NamedTuple):
    """The iterate u and the sum of the iterates before it, each the unevaluated sum of two (d,) arrays.

    A step adds to the low parts only, and `carry` moves what they hold into the high parts every `STEPS` steps.
    Rounding errors are then relative to what has been added since, so that neither an increment of 1e-9 u is lost in
    float32 nor a term of a sum of 10⁹.
    """

    error: Array
    error_low: Array
    total: Array
    total_low: Array


class Sampler(Protocol):
    """How a mini-batch is drawn; hashable, a static argument of the compiled program."""

    def numbers_a_lane(self, spectrum: Spectrum) -> int:
        """How many numbers a step of one lane keeps in memory beside a few arrays of the weights' shape."""
        ...

    def draws(self, lanes: Lane, first: Array) -> Any:
        """What `STEPS` steps from `first` on need of randomness beside their step number: (STEPS, L, …) arrays."""
        ...

    def increment(self, spectrum: Spectrum, lane: Lane, error: Array, number: Array, draw: Any) -> Array:
        """The change of u in step `number` of one lane, of u's shape."""
        ...


def init(spectrum: Spectrum) -> State:
    """u = H^{1/2}(w_0 − w*), and an empty sum."""
    zeros = jnp.zeros_like(spectrum.start)
    return State(spectrum.start, zeros, zeros, zeros)


def step(sampler: Sampler, spectrum: Spectrum, lane: Lane, state: State, number: Array, draw: Any) -> State:
    """One step of mini-batch SGD; the iterate before it joins the sum."""
    error = state.error + state.error_low
    increment = sampler.increment(spectrum, lane, error, number, draw)
    return state._replace(error_low=state.error_low + increment, total_low=state.total_low + error)


def carry(state: State) -> State:
    """Move the low parts into the high parts; what rounding leaves over stays, exactly, in the low ones."""
    return State(*two_sum(state.error, state.error_low), *two_sum(state.total, state.total_low))


def risks(state: State, num_steps: Array) -> tuple[Array, Array]:
    """`‖ū‖²` of the average of one lane's iterates before the last, and `‖u‖²` of the last."""
    average = (state.total + state.total_low) / num_steps
    return (average**2).sum(), ((state.error + state.error_low) ** 2).sum()


def advance(sampler: Sampler, spectrum: Spectrum, lanes: Lane, state: State, first: Array, count: Array) -> State:
    """Steps first … first + count − 1 of L lanes; `count` is dynamic: one program serves any number of steps.

    Carries happen after steps whose number is a multiple of `STEPS`, wherever calls begin and end: how many steps a
    call takes does not change a bit of the result.
    """
    many = jax.vmap(step, in_axes=(None, None, 0, 0, None, 0))

    def one(state: State, number: Array, draw: Any) -> State:
        return many(sampler, spectrum, lanes, state, number, draw)

    return walk(one, partial(sampler.draws, lanes), carry, state, first, count)


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
