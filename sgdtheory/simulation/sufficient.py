"""A mini-batch step in O(d), exact in law, whatever the batch size (THEORY.md T7)."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import Array

from sgdtheory._common.counter_random import mean_chi_square, normals
from sgdtheory.simulation.dynamics import STEPS, Lane, Spectrum


@dataclass(frozen=True)
class Sufficient:
    """Draws what the batch does to the iterate instead of the batch.

    Given the iterate, the residuals `r_j = z_jᵀu − ξ_j` of a batch are i.i.d. N(0, τ²), τ² = ‖u‖² + σ², and
    `z_j | r_j ~ N(u r_j/τ², I − uuᵀ/τ²)`. Hence `c = ‖r‖²/τ² ~ χ²_B` and

        Zᵀr | c ~ N(c u, c (τ² I − uuᵀ)),    u ← u − (γ/B) Λ [c u + √c (τ ε − u (uᵀε)/(σ + τ))],    ε ~ N(0, I).

    One chi-square and d normals, and nothing is divided by ‖u‖.
    """

    def numbers_a_lane(self, spectrum: Spectrum) -> int:
        """A step's scalars, drawn ahead."""
        return 8 * STEPS

    def draws(self, lanes: Lane, first: Array) -> Array:
        """(STEPS, L): χ²_B / B of each step."""
        number = (first + jnp.arange(STEPS, dtype=np.uint32))[:, None]
        key = lanes.key[:, 0], lanes.key[:, 1]
        return mean_chi_square(key, number, lanes.batch_size, lanes.batch_size.dtype)

    def increment(self, spectrum: Spectrum, lane: Lane, error: Array, number: Array, draw: Array) -> Array:
        """−(γ/B) Λ Zᵀr, with `draw` = c/B."""
        epsilon = normals((lane.key[0], lane.key[1]), number, error.size, error.dtype)
        tau = jnp.sqrt((error**2).sum() + spectrum.noise**2)
        denominator = spectrum.noise + tau
        along = jnp.where(denominator > 0, (error * epsilon).sum() / denominator, 0)
        root = jnp.sqrt(draw / lane.batch_size)
        return -(lane.learning_rate * spectrum.eigenvalue) * ((draw - root * along) * error + root * tau * epsilon)
