"""A multi-layer perceptron with one output and no output bias."""

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array

from sgdtheory.training.network import BIAS, Network, Params, Tensor, Tensors, count

ACTIVATION = {"relu": jax.nn.relu, "gelu": jax.nn.gelu, "tanh": jnp.tanh}
MATRICES = "input", "hidden", "output"


def network(depth: int, activation: str, input_dim: int, width: int, base_width: int) -> Network:
    """The network; six floating point operations a weight of a matrix for a sample."""
    table = tensors(depth, input_dim, width, base_width)
    matrices = count({name: table[name] for name in MATRICES if name in table})
    return Network(table, partial(apply, activation=activation), loss, 6.0 * matrices)


def tensors(depth: int, input_dim: int, width: int, base_width: int) -> Tensors:
    """Weights of the MLP; the hidden layers but the first are stacked."""
    more = depth - 1
    table = {
        "input": Tensor((input_dim, width), "input", input_dim),
        "input_bias": Tensor((width,), "vector", BIAS),
        "hidden": Tensor((more, width, width), "hidden", base_width),
        "hidden_bias": Tensor((more, width), "vector", BIAS),
        "output": Tensor((width, 1), "output", base_width),
    }
    return {name: tensor for name, tensor in table.items() if 0 not in tensor.shape}


def apply(weights: Params, inputs: Array, *, activation: str) -> tuple[Array, dict[str, Array]]:
    """Outputs f(x), (B,), and the pre-activations that each tensor makes, stacked as the tensors are.

    Args:
        weights: effective weights.
        inputs: (B, input_dim).
        activation: of the hidden layers.
    """
    act = ACTIVATION[activation]
    hidden_BxN = inputs.astype(weights["input"].dtype) @ weights["input"] + weights["input_bias"]
    layers = {"input": hidden_BxN, "input_bias": hidden_BxN}
    stack = []
    for layer in range(weights["hidden"].shape[0] if "hidden" in weights else 0):
        hidden_BxN = act(hidden_BxN) @ weights["hidden"][layer] + weights["hidden_bias"][layer]
        stack.append(hidden_BxN)
    if stack:
        layers["hidden"] = layers["hidden_bias"] = jnp.stack(stack)
    layers["output"] = (act(hidden_BxN) @ weights["output"]).astype(jnp.float32)
    return layers["output"][:, 0], layers


def loss(outputs: Array, targets: Array) -> Array:
    """Mean squared error over the batch, (f(x) − y)²."""
    return jnp.mean((outputs - targets) ** 2)
