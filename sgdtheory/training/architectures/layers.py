"""Layers that several networks share: activations, normalization, the perceptron of a block."""

import jax
import jax.numpy as jnp
from jax import Array, lax

from sgdtheory.training.network import GAIN, Params, Tensor, Tensors

EXPANSION = 4  # A block's perceptron is this many times as wide as the block, as in Vaswani et al. 2017.

ACTIVATION = {"relu": jax.nn.relu, "gelu": jax.nn.gelu, "tanh": jnp.tanh}


def normalized(x: Array, gain: Array) -> Array:
    """Normalize the last axis to a root mean square of 1, computed in float32, and multiply by the gain."""
    x_float = x.astype(jnp.float32)
    mean_square = jnp.mean(x_float**2, axis=-1, keepdims=True)
    return (x_float * lax.rsqrt(mean_square + 1e-6)).astype(x.dtype) * gain


def block_mlp_tensors(depth: int, width: int, base: int) -> Tensors:
    """Return the tensors of the perceptrons of all blocks."""
    return {
        "mlp_gain": Tensor((depth, width), "vector", GAIN, stacked=True),
        "up": Tensor((depth, width, EXPANSION * width), "hidden", base, stacked=True),
        "down": Tensor((depth, EXPANSION * width, width), "hidden", EXPANSION * base, stacked=True),
    }


def block_mlp(stream: Array, layer: Params) -> Params:
    """Compute the perceptron of a pre-norm block, `W_down gelu(W_up norm(x))`: the outputs of its gain, up and down."""
    first = normalized(stream, layer["mlp_gain"])
    up = first @ layer["up"]
    return {"mlp_gain": first, "up": up, "down": jax.nn.gelu(up) @ layer["down"]}
