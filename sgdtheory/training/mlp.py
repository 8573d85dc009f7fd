"""A multi-layer perceptron with one output and no output bias."""

import jax
import jax.numpy as jnp
from jax import Array

from sgdtheory.training.config import TrainConfig
from sgdtheory.training.tensors import BIAS, Params, Tensor, Tensors

ACTIVATION = {"relu": jax.nn.relu, "gelu": jax.nn.gelu, "tanh": jnp.tanh}


def tensors(config: TrainConfig) -> Tensors:
    """Weights of the MLP; the hidden layers but the first are stacked."""
    width, more = config.width, config.depth - 1
    table = {
        "input": Tensor((config.input_dim, width), "input", config.input_dim),
        "input_bias": Tensor((width,), "vector", BIAS),
        "hidden": Tensor((more, width, width), "hidden", config.base_width),
        "hidden_bias": Tensor((more, width), "vector", BIAS),
        "output": Tensor((width, 1), "output", config.base_width),
    }
    return {name: tensor for name, tensor in table.items() if 0 not in tensor.shape}


def apply(weights: Params, inputs: Array, config: TrainConfig) -> tuple[Array, dict[str, Array]]:
    """Outputs f(x), (B,), and the pre-activations that each tensor makes, stacked as the tensors are.

    Args:
        weights: effective weights.
        inputs: (B, input_dim).
        config: depth and activation.
    """
    activation = ACTIVATION[config.activation]
    hidden_BxN = inputs.astype(weights["input"].dtype) @ weights["input"] + weights["input_bias"]
    layers = {"input": hidden_BxN, "input_bias": hidden_BxN}
    stack = []
    for layer in range(config.depth - 1):
        hidden_BxN = activation(hidden_BxN) @ weights["hidden"][layer] + weights["hidden_bias"][layer]
        stack.append(hidden_BxN)
    if stack:
        layers["hidden"] = layers["hidden_bias"] = jnp.stack(stack)
    layers["output"] = (activation(hidden_BxN) @ weights["output"]).astype(jnp.float32)
    return layers["output"][:, 0], layers


def loss(weights: Params, inputs: Array, targets: Array, config: TrainConfig) -> Array:
    """Mean squared error over the batch, (f(x) − y)²."""
    outputs, _ = apply(weights, inputs, config)
    return jnp.mean((outputs - targets) ** 2)
