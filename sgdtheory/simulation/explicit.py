"""A mini-batch step from the rows of the batch: drawn from any law of the data, or read from a finite sample."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from sgdtheory.simulation.dynamics import STEPS, Draw, Sampler, Spectrum
from sgdtheory.simulation.laws import Law

# This many rows of a batch are in memory at once. Another number draws other batches: it may not depend on the memory.
ROWS = 256


@dataclass(frozen=True)
class Explicit(Sampler):
    """The gradient `(1/B) Λ Σ_j (z_jᵀu − ξ_j) z_j` of B samples z_j of the law and label noise ξ_j ~ N(0, σ²).

    With m outputs u, ξ_j and the gradient have a row for each. The batch is drawn in slices of at most `ROWS` rows.

    Attributes:
        law: of the data.
        batch_size: B, or a bound on it where it varies: slices have as many rows, up to `ROWS`.
        varying: whether the batch size varies from step to step. In float32 it is rounded beyond 2²⁴.
    """

    law: Law
    batch_size: int
    varying: bool = False

    def numbers_a_lane(self, spectrum: Spectrum) -> int:
        """Return the size of a slice of the batch, with what drawing it takes."""
        return 4 * spectrum.eigenvalue.size * min(self.batch_size, ROWS)

    def gradient(self, spectrum: Spectrum, error: Array, draw: Draw) -> Array:
        """Return Λ Zᵀr / B."""
        key = jax.random.fold_in(jax.random.wrap_key_data(draw.key, impl="threefry2x32"), draw.number)
        rows = min(self.batch_size, ROWS)
        size = draw.batch.astype(np.int32) if self.varying else self.batch_size

        # Every slice has a key of its own, so that a batch of more slices has the same rows in the first ones.
        def slice_sum(index: int | Array, total: Array) -> Array:
            data_key, noise_key = jax.random.split(jax.random.fold_in(key, index))
            used = index * rows + jnp.arange(rows) < size
            z = jnp.where(used[:, None], self.law.sample(data_key, rows, spectrum), 0)
            noise = spectrum.noise * jax.random.normal(noise_key, (rows, *error.shape[:-1]), error.dtype)
            return total + _pull(z, noise, error)

        total = lax.fori_loop(0, -(-size // rows), slice_sum, jnp.zeros_like(error))
        return spectrum.eigenvalue / (draw.batch if self.varying else np.array(size, error.dtype)) * total


@dataclass(frozen=True)
class RowBatches(Sampler):
    """The gradient `(1/B) Λ Σ_j (z_jᵀu − ξ_j) z_j` of rows of a finite sample; the table says which (`RowReader`).

    Attributes:
        width: W ≥ B, how many rows are read in a step, those of zeros included that fill the batch up.
    """

    width: int

    def numbers_a_lane(self, spectrum: Spectrum) -> int:
        """Return the size of a batch, with what copying it takes, and of the rows' numbers of `STEPS` steps."""
        return (2 * spectrum.eigenvalue.size + 2 * STEPS) * self.width

    def gradient(self, spectrum: Spectrum, error: Array, draw: Draw) -> Array:
        """Return Λ Zᵀr / B."""
        rows = spectrum.rows
        assert rows is not None, "there are rows wherever they are read"
        return spectrum.eigenvalue / draw.batch * _pull(rows.features[draw.ahead], rows.noise[draw.ahead], error)


def _pull(z: Array, noise: Array, error: Array) -> Array:
    """Return Zᵀr of rows z, whose residuals are r = zᵀu − ξ."""
    residual = jnp.matmul(z, error.T, precision=lax.Precision.HIGHEST) - noise
    return jnp.matmul(residual.T, z, precision=lax.Precision.HIGHEST)
