"""Steps of mini-batch SGD on given rows, of many learning rates and targets at once."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from sgdtheory.simulation.dynamics import State, carry

BLOCK_ROWS = 64  # of the steps that are taken together


def block_steps(size: int) -> int:
    """Steps of `size` rows that are taken together."""
    return max(1, BLOCK_ROWS // size)


def begin(regression: Any, num_rates: int, num_replicas: int) -> State:
    """(R, r, G, k) states at w_0 = 0, and empty sums."""
    start = jnp.asarray(regression.start)[None, :, None, :]
    error = jnp.broadcast_to(start, (num_replicas, start.shape[1], num_rates, start.shape[3]))
    zeros = jnp.zeros_like(error)
    return State(error, zeros, zeros, zeros)


def data_risks(state: State, num_steps: int) -> tuple[Array, Array]:
    """(R, G) risk of the average of the iterates before the last, and of the last, summed over targets."""
    average = (state.total + state.total_low) / num_steps
    return (average**2).sum((1, 3)), ((state.error + state.error_low) ** 2).sum((1, 3))


@partial(jax.jit, static_argnames="size")
def walk_data(regression: Any, rate: Array, state: State, rows: Array, count: Array, *, size: int) -> State:
    """`count` steps of all replicas.

    Args:
        regression: a `Regression` in units in which λ_1 = 1.
        rate: (G,) γ λ_1.
        state: of R replicas, (R, r, G, k).
        rows: (R, M) which rows are drawn, in order; whole blocks.
        count: steps; rows beyond them are not looked at.
        size: B.
    """
    steps = block_steps(size)

    def replica(inputs: tuple[State, Array]) -> State:
        start, drawn = inputs

        def body(number: Array, state: State) -> State:
            here = lax.dynamic_slice_in_dim(drawn, number * steps * size, steps * size)
            return carry(_block(regression, rate, state, here, count - number * steps, size))

        return lax.fori_loop(0, (count + steps - 1) // steps, body, start)

    together = None if jax.default_backend() == "cpu" else rows.shape[0]  # an accelerator takes all at once
    return lax.map(replica, (state, rows), batch_size=together)


def _block(regression: Any, rate: Array, state: State, drawn: Array, count: Array, size: int) -> State:
    """The steps of one block, the first `count` of them alone, as matrix products.

    With ρ_j the residual that row j sees, step s is `u ← u − (γ/B) Λ Σ_{j in s} z_j ρ_jᵀ`. A row i of a later step sees
    all that: `ρ_i = z_iᵀu_0 − r_i − (γ/B) Σ_{j before} z_iᵀΛz_j ρ_j`, a system with a unit lower triangle. The sum of
    the iterates has row j as often as there are iterates after its step.
    """
    steps = block_steps(size)
    step = np.arange(steps * size) // size
    z, error = regression.rows[drawn], state.error + state.error_low
    seen = jnp.einsum("jd,dgk->gjk", z, error, precision="highest") - regression.residual[drawn]
    pulled = z * regression.eigenvalue
    if steps > 1:
        before = np.where(step[:, None] > step, 1, 0).astype(z.dtype)
        products = before * jnp.matmul(pulled, z.T, precision="highest")
        system = jnp.eye(len(step), dtype=z.dtype) + (rate / size)[:, None, None] * products
        seen = lax.linalg.triangular_solve(system, seen, left_side=True, lower=True, unit_diagonal=True)
    pulls = (-rate / size)[:, None, None] * jnp.where((step < count)[:, None], seen, 0)
    later = jnp.maximum(jnp.minimum(count, steps) - 1 - step, 0).astype(z.dtype)
    both = jnp.stack([pulls, later[:, None] * pulls])
    change, summed = jnp.einsum("jd,agjk->adgk", pulled, both, precision="highest")
    iterates = jnp.minimum(count, steps).astype(z.dtype)
    return state._replace(error_low=state.error_low + change, total_low=state.total_low + iterates * error + summed)
