"""Methods that are not linear in the gradient.

A sampler's draw is `H^{1/2} g`, and a step along d moves u by `−γ H^{1/2} d`. Where the method's coordinates are a
rotation of the eigenvectors, w = Qᵀ(its coordinates).
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from sgdtheory.algorithms import NonlinearMethod
from sgdtheory.simulation.dynamics import Dynamics, Spectrum, Step


class Weights(NamedTuple):
    """Between u and the weights of the method, the same for all replicas.

    Attributes:
        root: (d,) √λ_i.
        basis: (d, d) Q, or None where it is the identity.
        unit: of the simulated gradients, in those of the method.
    """

    root: Any
    basis: Any
    unit: Any

    def gradient(self, increment: Array) -> Array:
        """Return g from `H^{1/2} g`; 0 where λ is."""
        found = self.unit * increment / jnp.where(self.root > 0, self.root, 1)
        return found if self.basis is None else jnp.matmul(found, self.basis.T, precision=lax.Precision.HIGHEST)

    def moved(self, direction: Array) -> Array:
        """Return how u moves with w."""
        if self.basis is not None:
            direction = jnp.matmul(direction, self.basis, precision=lax.Precision.HIGHEST)
        return self.root * direction


@dataclass(frozen=True)
class NonlinearDynamics(Dynamics):
    """`w ← w − γ d(g, k)`: the one vector is u, and k is kept beside it; `shared` are `Weights`."""

    method: NonlinearMethod

    def begin(self, spectrum: Spectrum) -> tuple[tuple[Array, ...], Any]:
        """Return the start, and k = 0."""
        start = jnp.asarray(spectrum.start)
        return (start,), (jnp.zeros_like(start),) * self.method.kept

    def iterate(self, spectrum: Spectrum, shared: Any, vectors: tuple[Array, ...]) -> Array:
        """Return u."""
        return vectors[0]

    def change(self, step: Step, vectors: tuple[Array, ...], kept: Any) -> tuple[tuple[Array, ...], Any]:
        """Return −γ H^{1/2} d."""
        weights: Weights = step.shared
        slope = weights.gradient(step.gradient(vectors[0]))
        direction, kept = self.method.direction(slope, kept, step.number)
        return (-step.row.rate * weights.moved(direction),), kept
