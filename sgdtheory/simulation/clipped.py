"""Gradients clipped by their norm, of any sampler."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax import Array

from sgdtheory.simulation.dynamics import Lane, Sampler, Spectrum


@dataclass(frozen=True)
class Clipped:
    """`g min(1, c/‖g‖)` in the place of g.

    Attributes:
        sampler: draws g.
        norm: c, in the unit of simulated gradients.
    """

    sampler: Sampler
    norm: float

    def numbers_a_lane(self, spectrum: Spectrum) -> int:
        """The sampler's."""
        return self.sampler.numbers_a_lane(spectrum)

    def draws(self, lanes: Lane, first: Array) -> Any:
        """The sampler's."""
        return self.sampler.draws(lanes, first)

    def increment(self, spectrum: Spectrum, lane: Lane, error: Array, number: Array, draw: Any) -> Array:
        """The sampler's is `−γ H^{1/2} g`."""
        drawn = self.sampler.increment(spectrum, lane, error, number, draw)
        root = jnp.sqrt(spectrum.eigenvalue)
        step = drawn / jnp.where(root > 0, root, 1)
        length = jnp.sqrt((step**2).sum())
        longest = jnp.abs(lane.learning_rate) * jnp.asarray(self.norm, error.dtype)
        return drawn * jnp.where(length > longest, longest / jnp.where(length > 0, length, 1), 1)
