"""Workers that take steps of their own from common weights, and the outer step on what their mean has moved (T40)."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sgdtheory.training.config import TrainConfig
from sgdtheory.training.network import Params


class OuterRates(NamedTuple):
    """Numbers of the rounds that may differ between runs of one compiled program; scalars."""

    local_steps: Array
    learning_rate: Array
    momentum: Array


class Outer(NamedTuple):
    """What is common to the workers: the weights m from which a round began, the outer buffer p."""

    weights: Params
    buffer: Params


def outer_rates(config: TrainConfig) -> OuterRates:
    """The config's H, η and μ."""
    found = np.int32(config.local_steps), np.float32(config.outer_learning_rate), np.float32(config.outer_momentum)
    return OuterRates(*found)  # pyright: ignore[reportArgumentType]


def begun(params: Params, number: int) -> tuple[Params, Outer]:
    """(K, …) weights of the workers before the first step, and what is common to them."""
    each = jax.tree.map(lambda part: jnp.broadcast_to(part, (number, *part.shape)), params)
    return each, Outer(params, jax.tree.map(jnp.zeros_like, params))


def mean(params: Params) -> Params:
    """v̄ of (K, …) weights: exactly those of one worker where all agree, as weights that are not trained do."""
    return jax.tree.map(lambda part: part[0] + jnp.mean(part - part[0], axis=0), params)


def after_step(params: Params, outer: Outer, step: Array, numbers: OuterRates) -> tuple[Params, Outer]:
    """The outer step where a round ends, Nesterov's on Δ = m − v̄; else nothing.

        p ← μp + Δ,   m ← m − η (Δ + μp),   v_k ← m

    Args:
        params: (K, …) weights of the workers after their step.
        outer: m and p of the round.
        step: t, of the step that has been taken, from 0.
        numbers: H, η and μ.
    """
    talks = (step + 1) % numbers.local_steps == 0
    moved = jax.tree.map(jnp.subtract, outer.weights, mean(params))
    buffer = jax.tree.map(lambda p, delta: numbers.momentum * p + delta, outer.buffer, moved)
    eta, mu = numbers.learning_rate, numbers.momentum
    weights = jax.tree.map(lambda m, delta, p: m - eta * (delta + mu * p), outer.weights, moved, buffer)

    def chosen(new: Any, old: Any) -> Any:
        return jax.tree.map(lambda one, other: jnp.where(talks, one, other), new, old)

    return chosen(weights, params), chosen(Outer(weights, buffer), outer)


def divided(arrays: tuple[Array, ...], number: int) -> tuple[Array, ...]:
    """A step's samples (K B, …) as (K, B, …), B of each worker."""
    return tuple(array.reshape(number, -1, *array.shape[1:]) for array in arrays)
