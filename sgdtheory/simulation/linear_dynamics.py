"""Any linear method (THEORY.md T20): k vectors, whose coefficients in every step are rows of a table.

A method has k vectors `u_j = s_j u(0) + v_j`, of which the v_j are kept here: how far each has moved. `(I − A) s = 0`
for a method that stands still without gradients, so that a direction in which nothing happens stays exactly where it
is; `(I − A) u` would leave a rounding error there in every step. Coefficients are those of `u(0), v_1 … v_k`.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from sgdtheory.simulation.dynamics import Dynamics, Spectrum, Step


class Table(NamedTuple):
    """Coefficients of T steps of G runs, 1 + k numbers for u(0) and the k vectors; T = 1 if all steps are alike.

    Attributes:
        decay: (T, G, k, 1 + k) I − A.
        gain: (T, G, k) b.
        point: (T, G, 1 + k) c.
        batch: (T, G) batch size.
    """

    decay: Any
    gain: Any
    point: Any
    batch: Any


@dataclass(frozen=True)
class LinearDynamics(Dynamics):
    """`u ← A u − b g`, g the gradient at cᵀu; `shared` (1 + k,) is the output o.

    Attributes:
        vectors: k.
    """

    vectors: int

    def begin(self, spectrum: Spectrum) -> tuple[tuple[Array, ...], Any]:
        """Return k vectors that have not moved."""
        return (jnp.zeros_like(spectrum.start),) * self.vectors, ()

    def iterate(self, spectrum: Spectrum, shared: Any, vectors: tuple[Array, ...]) -> Array:
        """Return oᵀu."""
        return _combined(shared, (spectrum.start, *vectors))

    def change(self, step: Step, vectors: tuple[Array, ...], kept: Any) -> tuple[tuple[Array, ...], Any]:
        """Return −(I − A) u − b g."""
        every = step.spectrum.start, *vectors
        slope = step.gradient(_combined(step.row.point, every))
        pairs = zip(step.row.decay, step.row.gain, strict=True)
        return tuple(-_combined(decay, every) - gain * slope for decay, gain in pairs), kept


def _combined(weights: Array, vectors: tuple[Array, ...]) -> Array:
    """Return Σ weights · vectors, term by term: a matrix product might be computed in fewer digits."""
    return sum((weights[j] * vector for j, vector in enumerate(vectors)), start=jnp.zeros_like(vectors[0]))
