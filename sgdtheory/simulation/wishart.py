"""A mini-batch step of several outputs, exact in law, at a cost that does not depend on the batch size."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from sgdtheory._common.counter_random import mean_chi_square, normals, threefry
from sgdtheory.simulation.dynamics import Draw, Sampler, Spectrum

COLUMNS = np.uint32(2**32 - 1)  # No step's number reaches this counter word: keys of columns are made with it.


@dataclass(frozen=True)
class Wishart(Sampler):
    """Draws d rows that do what the B rows of a batch do, for m outputs u, (m, d), and label noise Ξ, (m, B).

    The step is `u ← u − (γ/B) (u Zᵀ − Ξ) Z Λ`, Z of (B, d) normals. A rotation of the batch's rows changes neither
    Zᵀ Z nor Ξ Z, and there is one, independent of Ξ, that makes Z upper triangular: `Zᵀ = L Q` with

        L_kk = χ_{B−k},  L_ik ~ N(0, 1) for i > k,  L_ik = 0 for i < k and for k ≥ B,    k = 0, 1, …, d − 1

    (Bartlett's decomposition, that of a singular Wishart matrix where B < d). So `(u L − σN) Lᵀ` has the law of
    `(u Zᵀ − Ξ) Z`, N of (m, d) normals, for every B: d chi-squares and d(d + m) normals a step.
    """

    def numbers_a_lane(self, spectrum: Spectrum) -> int:
        """Return the size of L and N, with what drawing them takes."""
        return 4 * (spectrum.eigenvalue.size**2 + spectrum.start.size)

    def gradient(self, spectrum: Spectrum, error: Array, draw: Draw) -> Array:
        """Return (uL − σN) Lᵀ Λ, with L and N over √B."""
        m, d = error.shape
        key = draw.key[0], draw.key[1]
        column = jnp.arange(d, dtype=np.uint32)
        degrees = draw.batch - column.astype(error.dtype)  # as many rows of a batch are left for the column
        there = jnp.maximum(degrees, 1)
        square = mean_chi_square(threefry(key, COLUMNS, column), draw.number, there, error.dtype)
        drawn = normals(key, draw.number, (m + d) * d, error.dtype).reshape(m + d, d) / jnp.sqrt(draw.batch)
        noise, below = drawn[:m], jnp.tril(drawn[m:], -1)
        factor = jnp.where(degrees > 0, below + jnp.diag(jnp.sqrt(square * there / draw.batch)), 0)
        residual = jnp.matmul(error, factor, precision=lax.Precision.HIGHEST) - spectrum.noise * noise
        return spectrum.eigenvalue * jnp.matmul(residual, factor.T, precision=lax.Precision.HIGHEST)
