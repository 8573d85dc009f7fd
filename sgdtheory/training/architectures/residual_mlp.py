"""A residual multi-layer perceptron: `h ← h + L^−½ (W φ(h) + c)` in each of L blocks, without output bias."""

import math
from functools import partial

import jax.numpy as jnp
from jax import Array

from sgdtheory.training.architectures.layers import ACTIVATION
from sgdtheory.training.architectures.mlp import one_or_all
from sgdtheory.training.data import Samples
from sgdtheory.training.losses import LOSSES
from sgdtheory.training.network import BIAS, Layers, Network, Params, Tensor, Tensors, count


def network(depth: int, activation: str, samples: Samples, width: int, base_width: int) -> Network:
    """Build the network; a sample costs six floating point operations per weight of a matrix."""
    table = tensors(depth, math.prod(samples.shape), samples.num_outputs, width, base_width)
    matrices = count({name: tensor for name, tensor in table.items() if tensor.role != "vector"})
    return Network(table, partial(apply, activation=activation), LOSSES[samples.loss], 6.0 * matrices)


def tensors(depth: int, num_inputs: int, num_outputs: int, width: int, base_width: int) -> Tensors:
    """Return the tensors of the weights; those of the blocks are stacked."""
    return {
        "input": Tensor((num_inputs, width), "input", num_inputs),
        "input_bias": Tensor((width,), "vector", BIAS),
        "branch": Tensor((depth, width, width), "hidden", base_width, stacked=True),
        "branch_bias": Tensor((depth, width), "vector", BIAS, stacked=True),
        "output": Tensor((width, num_outputs), "output", base_width),
    }


def apply(weights: Params, inputs: Array, *, activation: str) -> tuple[Array, Layers]:
    """Return outputs f(x), (B,) or (B, K), and each tensor's activations; for a block, what it adds to the stream.

    Args:
        weights: effective weights.
        inputs: (B, …); all axes after the first are flattened to one vector.
        activation: name of φ.
    """
    act = ACTIVATION[activation]
    vectors = inputs.reshape(inputs.shape[0], -1).astype(weights["input"].dtype)
    stream_BxN = vectors @ weights["input"] + weights["input_bias"]
    layers = {"input": stream_BxN, "input_bias": stream_BxN}
    branches = []
    depth = weights["branch"].shape[0]
    for block in range(depth):
        branch_BxN = act(stream_BxN) @ weights["branch"][block] + weights["branch_bias"][block]
        branches.append(branch_BxN)
        stream_BxN = stream_BxN + branch_BxN * depth**-0.5
    layers["branch"] = layers["branch_bias"] = jnp.stack(branches)
    layers["output"] = (act(stream_BxN) @ weights["output"]).astype(jnp.float32)
    return one_or_all(layers["output"]), layers
