"""What several networks have in common: activations, normalization, the perceptron of a block."""

import jax
import jax.numpy as jnp
from jax import Array, lax

from sgdtheory.training.network import GAIN, Params, Tensor, Tensors

EXPANSION = 4  # of the perceptron of a block

ACTIVATION = {"relu": jax.nn.relu, "gelu": jax.nn.gelu, "tanh": jnp.tanh}


def normalized(x: Array, gain: Array) -> Array:
    """Root-mean-square normalization over the last axis, in float32."""
    x_float = x.astype(jnp.float32)
    mean_square = jnp.mean(x_float**2, axis=-1, keepdims=True)
    return (x_float * lax.rsqrt(mean_square + 1e-6)).astype(x.dtype) * gain


def block_mlp_tensors(depth: int, width: int, base: int) -> Tensors:
    """Weights of the perceptrons of all blocks."""
    return {
        "mlp_gain": Tensor((depth, width), "vector", GAIN, stacked=True),
        "up": Tensor((depth, width, EXPANSION * width), "hidden", base, stacked=True),
        "down": Tensor((depth, EXPANSION * width, width), "hidden", EXPANSION * base, stacked=True),
    }


def block_mlp(stream: Array, layer: Params) -> Params:
    """The perceptron of a pre-norm block, `W_down gelu(W_up norm(x))`: what its gain, up and down make."""
    first = normalized(stream, layer["mlp_gain"])
    up = first @ layer["up"]
    return {"mlp_gain": first, "up": up, "down": jax.nn.gelu(up) @ layer["down"]}
