"""A mini-batch step in O(d), exact in law, whatever the batch size (THEORY.md T7)."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import Array

from sgdtheory._common.counter_random import mean_chi_square, normals
from sgdtheory.simulation.dynamics import STEPS, Draw, Sampler, Spectrum


@dataclass(frozen=True)
class Sufficient(Sampler):
    """Draws what the batch does to the iterate instead of the batch.

    Given the iterate, the residuals `r_j = z_jᵀu − ξ_j` of a batch are i.i.d. N(0, τ²), τ² = ‖u‖² + σ², and
    `z_j | r_j ~ N(u r_j/τ², I − uuᵀ/τ²)`. Hence `c = ‖r‖²/τ² ~ χ²_B` and

        Zᵀr | c ~ N(c u, c (τ² I − uuᵀ)),    u ← u − (γ/B) Λ [c u + √c (τ ε − u (uᵀε)/(σ + τ))],    ε ~ N(0, I).

    One chi-square and d normals, and nothing is divided by ‖u‖.
    """

    def numbers_a_lane(self, spectrum: Spectrum) -> int:
        """Return how many scalars are drawn ahead, with what drawing them takes."""
        return 8 * STEPS

    def ahead(self, key: Array, batch: Array, first: Array) -> Array:
        """Return (STEPS, L) χ²_B / B of each step."""
        number = (first + jnp.arange(STEPS, dtype=np.uint32))[:, None]
        return mean_chi_square((key[:, 0], key[:, 1]), number, batch, batch.dtype)

    def gradient(self, spectrum: Spectrum, error: Array, draw: Draw) -> Array:
        """Return Λ Zᵀr / B, with c/B drawn ahead."""
        epsilon = normals((draw.key[0], draw.key[1]), draw.number, error.size, error.dtype)
        tau = jnp.sqrt((error**2).sum() + spectrum.noise**2)
        denominator = spectrum.noise + tau
        # At the optimum without noise both sums are 0, and so is the gradient.
        along = jnp.where(denominator > 0, (error * epsilon).sum() / denominator, 0)
        root = jnp.sqrt(draw.ahead / draw.batch)
        return spectrum.eigenvalue * ((draw.ahead - root * along) * error + root * tau * epsilon)
