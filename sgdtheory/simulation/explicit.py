"""A mini-batch step by drawing the batch: the reference for `sufficient`, and the way to any law of the data."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from sgdtheory.simulation.dynamics import Lane, Spectrum
from sgdtheory.simulation.laws import Law

ROWS = (
    256  # of a batch that are in memory at once; fixed, so that the numbers do not depend on the memory that there is
)


@dataclass(frozen=True)
class Explicit:
    """`u ← u − (γ/B) Λ Σ_j (z_jᵀu − ξ_j) z_j` with B samples z_j of the law and label noise ξ_j ~ N(0, σ²);
    of m outputs u, ξ_j and the step have a row each.

    The batch is drawn in slices of at most `ROWS` rows.

    Attributes:
        law: of the data.
        batch_size: B, or where it varies a bound on it: slices have as many rows, up to `ROWS`.
        varying: whether it varies from step to step: it is then the lane's. In float32 it is rounded beyond 2²⁴.
    """

    law: Law
    batch_size: int
    varying: bool = False

    def numbers_a_lane(self, spectrum: Spectrum) -> int:
        """A slice of the batch, and what drawing it takes."""
        return 4 * spectrum.eigenvalue.size * min(self.batch_size, ROWS)

    def draws(self, lanes: Lane, first: Array) -> tuple:
        """Nothing is drawn ahead."""
        return ()

    def increment(self, spectrum: Spectrum, lane: Lane, error: Array, number: Array, draw: tuple) -> Array:
        """−(γ/B) Λ Zᵀr."""
        key = jax.random.fold_in(jax.random.wrap_key_data(lane.key, impl="threefry2x32"), number)
        rows = min(self.batch_size, ROWS)
        size = lane.batch_size.astype(np.int32) if self.varying else self.batch_size

        def slice_sum(index: int | Array, total: Array) -> Array:
            data_key, noise_key = jax.random.split(jax.random.fold_in(key, index))
            used = index * rows + jnp.arange(rows) < size
            z = jnp.where(used[:, None], self.law.sample(data_key, rows, spectrum), 0)
            noise = spectrum.noise * jax.random.normal(noise_key, (rows, *error.shape[:-1]), error.dtype)
            residual = jnp.matmul(z, error.T, precision=lax.Precision.HIGHEST) - noise
            return total + jnp.matmul(residual.T, z, precision=lax.Precision.HIGHEST)

        total = lax.fori_loop(0, -(-size // rows), slice_sum, jnp.zeros_like(error))
        divisor = lane.batch_size if self.varying else np.array(size, error.dtype)
        return -(lane.learning_rate / divisor * spectrum.eigenvalue) * total
