"""Averages of the iterates along a run: exponentially weighted, several at once, and uniform."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sgdtheory.training.config import TrainConfig
from sgdtheory.training.network import Params

UNIFORM = np.float32(-1.0)  # stands for the decay rate t/(t + 1)


def decays(config: TrainConfig) -> np.ndarray:
    """(K,) decay rates of the config's averages; the uniform one is marked."""
    return np.array([*config.averages, *([UNIFORM] if config.uniform_average else [])], np.float32)


def start(params: Params, number: int) -> Params:
    """ξ_0 = θ_0 for each of `number` averages, stacked in front."""
    return jax.tree.map(lambda part: jnp.broadcast_to(part, (number, *part.shape)), params)


def updated(averages: Params, params: Params, rates: Array, step: Array) -> Params:
    """ξ_{t+1} = τ ξ_t + (1 − τ) θ_t (THEORY.md, T19), and with τ = t/(t + 1) the mean of θ_0 … θ_t.

    Args:
        averages: ξ_t, stacked in front.
        params: θ_t, the iterate before the step.
        rates: (K,) from `decays`.
        step: t.
    """
    keep = jnp.where(rates == UNIFORM, step / (step + 1), rates)

    def one(average: Array, part: Array) -> Array:
        share = (1 - keep).reshape(-1, *(1,) * part.ndim)
        return average + share * (part - average)

    return jax.tree.map(one, averages, params)
