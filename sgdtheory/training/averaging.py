"""Averages of the iterates along a run: exponentially weighted, several at once, and uniform."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sgdtheory.training.config import TrainConfig
from sgdtheory.training.network import Params

UNIFORM = np.float32(-1.0)  # This marks the uniform average, whose decay rate t/(t + 1) changes with the step.


def decays(config: TrainConfig) -> np.ndarray:
    """Return (K,) decay rates of the config's averages, with `UNIFORM` for the uniform one."""
    return np.array([*config.averages, *([UNIFORM] if config.uniform_average else [])], np.float32)


def start(params: Params, number: int) -> Params:
    """Return ξ_0 = θ_0 for each of `number` averages, stacked along the first axis."""
    return jax.tree.map(lambda part: jnp.broadcast_to(part, (number, *part.shape)), params)


def updated(averages: Params, params: Params, rates: Array, step: Array) -> Params:
    """Compute ξ_{t+1} = τ ξ_t + (1 − τ) θ_t (THEORY.md, T19); τ = t/(t + 1) gives the mean of θ_0 … θ_t.

    Args:
        averages: ξ_t, stacked along the first axis.
        params: θ_t, the iterate before the step.
        rates: (K,) from `decays`.
        step: t.
    """
    keep = jnp.where(rates == UNIFORM, step / (step + 1), rates)

    def one(average: Array, part: Array) -> Array:
        share = (1 - keep).reshape(-1, *(1,) * part.ndim)
        return average + share * (part - average)

    return jax.tree.map(one, averages, params)
