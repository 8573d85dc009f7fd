"""Workers that take local steps from common weights, and the outer step on the change of their mean (T40)."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sgdtheory.training.config import TrainConfig
from sgdtheory.training.network import Params


class OuterRates(NamedTuple):
    """Numbers of the outer steps (scalars) that may differ between runs of one compiled program."""

    local_steps: Array
    learning_rate: Array
    momentum: Array


class Outer(NamedTuple):
    """The state that workers share: the weights m from which a round began, and the outer momentum buffer p."""

    weights: Params
    buffer: Params


def outer_rates(config: TrainConfig) -> OuterRates:
    """Return the config's H, η and μ."""
    numbers = np.int32(config.local_steps), np.float32(config.outer_learning_rate), np.float32(config.outer_momentum)
    return OuterRates(*numbers)  # pyright: ignore[reportArgumentType]


def begun(params: Params, number: int) -> tuple[Params, Outer]:
    """Return (K, …) weights of the workers before the first step, and the state that they share."""
    each = jax.tree.map(lambda part: jnp.broadcast_to(part, (number, *part.shape)), params)
    return each, Outer(params, jax.tree.map(jnp.zeros_like, params))


def mean(params: Params) -> Params:
    """Compute the mean v̄ of (K, …) weights, without rounding where all agree, as weights that are not trained do."""
    return jax.tree.map(lambda part: part[0] + jnp.mean(part - part[0], axis=0), params)


def after_step(params: Params, outer: Outer, step: Array, numbers: OuterRates) -> tuple[Params, Outer]:
    """Do the outer step, Nesterov's on Δ = m − v̄, if a round ends here; else return the arguments unchanged.

        p ← μp + Δ,   m ← m − η (Δ + μp),   v_k ← m

    Args:
        params: (K, …) weights of the workers after their step.
        outer: m and p of the round.
        step: number t of the step that has been taken, from 0.
        numbers: H, η and μ.
    """
    synchronises = (step + 1) % numbers.local_steps == 0
    moved = jax.tree.map(jnp.subtract, outer.weights, mean(params))
    buffer = jax.tree.map(lambda p, delta: numbers.momentum * p + delta, outer.buffer, moved)
    eta, mu = numbers.learning_rate, numbers.momentum
    weights = jax.tree.map(lambda m, delta, p: m - eta * (delta + mu * p), outer.weights, moved, buffer)

    def chosen(new: Any, old: Any) -> Any:
        return jax.tree.map(lambda one, other: jnp.where(synchronises, one, other), new, old)

    return chosen(weights, params), chosen(Outer(weights, buffer), outer)


def divided(arrays: tuple[Array, ...], number: int) -> tuple[Array, ...]:
    """Reshape a step's samples (K B, …) to (K, B, …), with B samples for each worker."""
    return tuple(array.reshape(number, -1, *array.shape[1:]) for array in arrays)
