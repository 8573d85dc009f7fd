"""Steps of mini-batch SGD on given rows, of many learning rates and targets at once."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from sgdtheory.simulation.dynamics import State, carry

BLOCK_ROWS = 64  # of the steps that are taken together


def block_rows(size: int) -> int:
    """Rows that are taken together: as many steps of `size` as fit; few different numbers, so few programs."""
    return max(BLOCK_ROWS, 1 << (size - 1).bit_length())


def begin(regression: Any, num_rates: int, num_replicas: int) -> State:
    """(R, r, G, k) states at w_0 = 0, and empty sums."""
    start = jnp.asarray(regression.start)[None, :, None, :]
    error = jnp.broadcast_to(start, (num_replicas, start.shape[1], num_rates, start.shape[3]))
    zeros = jnp.zeros_like(error)
    return State((error,), (zeros,), (), zeros, zeros)


def iterates(state: State, num_steps: int) -> tuple[Array, Array]:
    """(R, r, G, k) average of the iterates before the last, and the last."""
    return (state.total + state.total_low) / num_steps, state.vectors[0] + state.vectors_low[0]


def data_risks(state: State, num_steps: int) -> tuple[Array, Array]:
    """(R, G) risks of both, summed over targets."""
    average, last = iterates(state, num_steps)
    return (average**2).sum((1, 3)), (last**2).sum((1, 3))


@partial(jax.jit, static_argnames="width")
def walk_data(
    regression: Any, rate: Array, state: State, rows: Array, count: Array, size: Array, *, width: int
) -> State:
    """`count` steps of all replicas.

    Args:
        regression: a `Regression` in units in which λ_1 = 1.
        rate: (G,) γ λ_1.
        state: of R replicas, (R, r, G, k).
        rows: (R, M) which rows are drawn, in order, and room for a block beyond the last.
        count: steps; rows beyond them are not looked at.
        size: B.
        width: `block_rows(B)`; B itself is no part of the program, which serves several.
    """
    steps = width // size

    def replica(inputs: tuple[State, Array]) -> State:
        start, drawn = inputs

        def body(number: Array, state: State) -> State:
            here = lax.dynamic_slice_in_dim(drawn, number * steps * size, width)
            return carry(_block(regression, rate, state, here, jnp.minimum(count - number * steps, steps), size))

        return lax.fori_loop(0, (count + steps - 1) // steps, body, start)

    together = None if jax.default_backend() == "cpu" else rows.shape[0]  # an accelerator takes all at once
    return lax.map(replica, (state, rows), batch_size=together)


def _block(regression: Any, rate: Array, state: State, drawn: Array, steps: Array, size: Array) -> State:
    """The steps of one block as matrix products; rows beyond them have no part in it.

    With ρ_j the residual that row j sees, step s is `u ← u − (γ/B) Λ Σ_{j in s} z_j ρ_jᵀ`. A row i of a later step sees
    all that: `ρ_i = z_iᵀu_0 − r_i − (γ/B) Σ_{j before} z_iᵀΛz_j ρ_j`, a system with a unit lower triangle. The sum of
    the iterates has row j as often as there are iterates after its step.
    """
    step = jnp.arange(drawn.size) // size
    z, error = regression.rows[drawn], state.vectors[0] + state.vectors_low[0]
    seen = jnp.einsum("jd,dgk->gjk", z, error, precision="highest") - regression.residual[drawn]
    pulled, share = z * regression.eigenvalue, (rate / size.astype(rate.dtype))[:, None, None]
    if drawn.size == BLOCK_ROWS:  # larger blocks are single steps
        products = jnp.where(step[:, None] > step, jnp.matmul(pulled, z.T, precision="highest"), 0)
        system = jnp.eye(step.size, dtype=z.dtype) + share * products
        seen = lax.linalg.triangular_solve(system, seen, left_side=True, lower=True, unit_diagonal=True)
    pulls = -share * jnp.where((step < steps)[:, None], seen, 0)
    later = jnp.maximum(steps - 1 - step, 0).astype(z.dtype)
    both = jnp.stack([pulls, later[:, None] * pulls])
    change, summed = jnp.einsum("jd,agjk->adgk", pulled, both, precision="highest")
    iterates = steps.astype(z.dtype) * error
    low = (state.vectors_low[0] + change,)
    return state._replace(vectors_low=low, total_low=state.total_low + iterates + summed)
