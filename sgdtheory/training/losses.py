"""Loss functions of a batch; the data of a run determine which one applies."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array

Loss = Callable[[Array, Array], Array]  # (outputs, targets) → mean over the batch.


def squared_error(outputs: Array, targets: Array) -> Array:
    """Compute the mean over the batch of (f(x) − y)²."""
    return jnp.mean((outputs - targets) ** 2)


def cross_entropy(logits: Array, targets: Array) -> Array:
    """Compute the mean of −log p(target) in nats from logits (…, V) of all classes and targets (…)."""
    chosen = jnp.take_along_axis(logits, targets[..., None].astype(jnp.int32), axis=-1)[..., 0]
    return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - chosen)


LOSSES: dict[str, Loss] = {"squared_error": squared_error, "cross_entropy": cross_entropy}
