"""SGD, whose gradients may be delayed (THEORY.md T41)."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from sgdtheory._common.counter_random import symmetric_uniform, threefry
from sgdtheory.simulation.dynamics import Dynamics, Spectrum, Step

DELAY = np.uint32(0xFFFFFFFF)  # the counter's index that belongs to the delay


@dataclass(frozen=True)
class DelayedDynamics(Dynamics):
    """`u ← u − γ g`, g the gradient where the weights were a delay ago.

    The one vector is u; the last τ + 1 u are kept, (τ + 1, d), that of step t at t modulo τ + 1, and none where no
    gradient is late. `shared` (τ + 1,) are P(delay ≤ j).

    Attributes:
        longest: τ.
    """

    longest: int = 0

    def begin(self, spectrum: Spectrum) -> tuple[tuple[Array, ...], Any]:
        """Return the start."""
        start = jnp.asarray(spectrum.start)
        past = jnp.broadcast_to(start, (self.longest + 1, *start.shape)) if self.longest else ()
        return (start,), past

    def iterate(self, spectrum: Spectrum, shared: Any, vectors: tuple[Array, ...]) -> Array:
        """Return u."""
        return vectors[0]

    def change(self, step: Step, vectors: tuple[Array, ...], kept: Any) -> tuple[tuple[Array, ...], Any]:
        """Return −γ g."""
        seen = vectors[0]
        if self.longest:
            length = np.uint32(self.longest + 1)
            kept = kept.at[step.number % length].set(seen)
            words = threefry((step.key[0], step.key[1]), step.number, DELAY)
            uniform = (1 + symmetric_uniform(words, step.shared.dtype)) / 2
            delay = jnp.minimum((uniform >= step.shared).sum(), self.longest).astype(np.uint32)
            seen = kept[(step.number + length - delay) % length]
        return (-step.row.rate * step.gradient(seen),), kept
