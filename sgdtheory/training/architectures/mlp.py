"""A multi-layer perceptron without output bias."""

import math
from functools import partial

import jax.numpy as jnp
from jax import Array

from sgdtheory.training.architectures.layers import ACTIVATION
from sgdtheory.training.data import Samples
from sgdtheory.training.losses import LOSSES
from sgdtheory.training.network import BIAS, Layers, Network, Params, Tensor, Tensors, count

MATRICES = "input", "hidden", "output"


def network(depth: int, activation: str, samples: Samples, width: int, base_width: int) -> Network:
    """Build the network; a sample costs six floating point operations per weight of a matrix."""
    table = tensors(depth, math.prod(samples.shape), samples.num_outputs, width, base_width)
    matrices = count({name: table[name] for name in MATRICES if name in table})
    return Network(table, partial(apply, activation=activation), LOSSES[samples.loss], 6.0 * matrices)


def tensors(depth: int, num_inputs: int, num_outputs: int, width: int, base_width: int) -> Tensors:
    """Return the tensors of the weights; the hidden layers after the first are stacked."""
    more = depth - 1
    table = {
        "input": Tensor((num_inputs, width), "input", num_inputs),
        "input_bias": Tensor((width,), "vector", BIAS),
        "hidden": Tensor((more, width, width), "hidden", base_width, stacked=True),
        "hidden_bias": Tensor((more, width), "vector", BIAS, stacked=True),
        "output": Tensor((width, num_outputs), "output", base_width),
    }
    return {name: tensor for name, tensor in table.items() if 0 not in tensor.shape}


def apply(weights: Params, inputs: Array, *, activation: str) -> tuple[Array, Layers]:
    """Return outputs f(x), (B,) or (B, K), and each tensor's pre-activations, stacked as the tensors are.

    Args:
        weights: effective weights.
        inputs: (B, …); all axes after the first are flattened to one vector.
        activation: name of the hidden layers' activation.
    """
    act = ACTIVATION[activation]
    vectors = inputs.reshape(inputs.shape[0], -1).astype(weights["input"].dtype)
    hidden_BxN = vectors @ weights["input"] + weights["input_bias"]
    layers = {"input": hidden_BxN, "input_bias": hidden_BxN}
    stack = []
    for layer in range(weights["hidden"].shape[0] if "hidden" in weights else 0):
        hidden_BxN = act(hidden_BxN) @ weights["hidden"][layer] + weights["hidden_bias"][layer]
        stack.append(hidden_BxN)
    if stack:
        layers["hidden"] = layers["hidden_bias"] = jnp.stack(stack)
    layers["output"] = (act(hidden_BxN) @ weights["output"]).astype(jnp.float32)
    return one_or_all(layers["output"]), layers


def one_or_all(outputs: Array) -> Array:
    """Return outputs (B, K) as (B,) if K = 1."""
    return outputs[:, 0] if outputs.shape[1] == 1 else outputs
