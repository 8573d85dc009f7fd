"""What several networks have in common: activations, normalization, the multi-layer perceptron of a block."""

import jax
import jax.numpy as jnp
from jax import Array, lax

ACTIVATION = {"relu": jax.nn.relu, "gelu": jax.nn.gelu, "tanh": jnp.tanh}


def normalized(x: Array, gain: Array) -> Array:
    """Root-mean-square normalization over the last axis, in float32."""
    x_float = x.astype(jnp.float32)
    mean_square = jnp.mean(x_float**2, axis=-1, keepdims=True)
    return (x_float * lax.rsqrt(mean_square + 1e-6)).astype(x.dtype) * gain
