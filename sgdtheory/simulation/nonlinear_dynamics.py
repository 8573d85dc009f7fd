"""Methods that are not linear in the gradient, with any average, as pure functions of a small state.

The coordinates are those of `dynamics`, `u = H^{1/2}(w − w*)`: a sampler's draw is `H^{1/2} g`, and a step along d
moves u by `−γ H^{1/2} d`. Where the method's coordinates are a rotation of the eigenvectors, w = Qᵀ(its coordinates).
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from sgdtheory.algorithms import NonlinearMethod
from sgdtheory.simulation.dynamics import Sampler, Spectrum, two_sum
from sgdtheory.simulation.method_dynamics import Dynamics, RateTable, Replica, gained, gradient, squares


class Weights(NamedTuple):
    """Between u and the weights of the method, the same for all lanes.

    Attributes:
        root: (d,) √λ_i.
        basis: (d, d) Q, or None where it is the identity.
        unit: of the simulated gradients, in those of the method.
    """

    root: Any
    basis: Any
    unit: Any

    def gradient(self, increment: Array) -> Array:
        """g from `H^{1/2} g`; 0 where λ is."""
        found = self.unit * increment / jnp.where(self.root > 0, self.root, 1)
        return found if self.basis is None else jnp.matmul(found, self.basis.T, precision=lax.Precision.HIGHEST)

    def moved(self, direction: Array) -> Array:
        """How u moves with w."""
        if self.basis is not None:
            direction = jnp.matmul(direction, self.basis, precision=lax.Precision.HIGHEST)
        return self.root * direction


class State(NamedTuple):
    """How far u has moved and the sum S, each the unevaluated sum of two (d,) arrays as in `dynamics.State`; and k."""

    moved: Array
    moved_low: Array
    kept: tuple[Array, ...]
    total: Array
    total_low: Array


def init(method: NonlinearMethod, spectrum: Spectrum, replica: Replica) -> State:
    """Nothing has moved."""
    zeros = jnp.zeros_like(spectrum.start)
    return State(zeros, zeros, (zeros,) * method.kept, replica.begin * spectrum.start, zeros)


def step(
    sampler: Sampler,
    method: NonlinearMethod,
    spectrum: Spectrum,
    weights: Weights,
    replica: Replica,
    state: State,
    number: Array,
    row: RateTable,
    draw: Any,
) -> State:
    """`w ← w − γ d(g, k)`; the iterate before it joins the sum. `row` is of all runs."""
    rate, batch = (each[replica.run] for each in row)
    error = spectrum.start + state.moved + state.moved_low
    slope = weights.gradient(gradient(sampler, spectrum, replica.key, batch, error, number, draw))
    direction, kept = method.direction(slope, state.kept, number)
    moved_low = state.moved_low - rate * weights.moved(direction)
    joined = gained(replica, number, error, state.total + state.total_low)
    return State(state.moved, moved_low, kept, state.total, state.total_low + joined)


def carry(state: State) -> State:
    """Move the low parts into the high parts."""
    moved, moved_low = two_sum(state.moved, state.moved_low)
    return State(moved, moved_low, state.kept, *two_sum(state.total, state.total_low))


def risks(spectrum: Spectrum, weights: Weights, state: State, iterate: Array, norm: Array) -> tuple[Array, Array]:
    """`‖a w + S/norm‖²` and `‖w‖²` of one replica."""
    last = spectrum.start + state.moved + state.moved_low
    return squares(last, state.total + state.total_low, iterate, norm)


NONLINEAR = Dynamics(init, step, carry, risks)
