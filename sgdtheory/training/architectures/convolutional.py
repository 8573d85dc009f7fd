"""A convolutional network: 3 × 3 kernels, every layer but the first at half the size of the one before, mean, output.

Kernels are applied as one matrix product over patches: networks side by side have kernels of their own, for which a
convolution is much slower on CPUs.
"""

import math
from functools import partial

import jax.numpy as jnp
from jax import Array

from sgdtheory.training.architectures.convolutions import patches
from sgdtheory.training.architectures.layers import ACTIVATION
from sgdtheory.training.architectures.mlp import one_or_all
from sgdtheory.training.data import Samples
from sgdtheory.training.losses import LOSSES
from sgdtheory.training.network import BIAS, Layers, Network, Params, Tensor, Tensors

SIDE = 3  # A kernel has this height and width.


def network(depth: int, activation: str, samples: Samples, width: int, base_width: int) -> Network:
    """Build the network; a sample costs six floating point operations per weight and position of a kernel."""
    height, across, channels = samples.shape
    table = tensors(depth, channels, samples.num_outputs, width, base_width)
    products = math.prod(table["input"].shape) * height * across + width * samples.num_outputs
    for layer in range(1, depth):
        positions = math.prod(-(-side // 2**layer) for side in (height, across))
        products += positions * SIDE**2 * width**2
    return Network(table, partial(apply, activation=activation), LOSSES[samples.loss], 6.0 * products)


def tensors(depth: int, channels: int, num_outputs: int, width: int, base_width: int) -> Tensors:
    """Return the tensors of the weights; a kernel is a matrix (pixels × input channels, output channels)."""
    more, pixels = depth - 1, SIDE**2
    table = {
        "input": Tensor((pixels * channels, width), "input", pixels * channels),
        "input_bias": Tensor((width,), "vector", BIAS),
        "kernel": Tensor((more, pixels * width, width), "hidden", pixels * base_width, stacked=True),
        "kernel_bias": Tensor((more, width), "vector", BIAS, stacked=True),
        "output": Tensor((width, num_outputs), "output", base_width),
    }
    return {name: tensor for name, tensor in table.items() if 0 not in tensor.shape}


def apply(weights: Params, inputs: Array, *, activation: str) -> tuple[Array, Layers]:
    """Return outputs (B,) or (B, K), and the pre-activations that each tensor produces.

    Args:
        weights: effective weights.
        inputs: (B, H, W, C) images.
        activation: name of the hidden layers' activation.
    """
    act = ACTIVATION[activation]
    images = _patches(inputs.astype(weights["input"].dtype), 1) @ weights["input"] + weights["input_bias"]
    first, stack = images, []
    for layer in range(weights["kernel"].shape[0] if "kernel" in weights else 0):
        images = _patches(act(images), 2) @ weights["kernel"][layer] + weights["kernel_bias"][layer]
        stack.append(images)
    output = (act(images).mean(axis=(1, 2)) @ weights["output"]).astype(jnp.float32)
    layers = {"input": first, "input_bias": first, "kernel": stack, "kernel_bias": stack, "output": output}
    return one_or_all(output), layers


def _patches(images: Array, stride: int) -> Array:
    """Return the zero-padded 3 × 3 neighbourhoods of every `stride`-th pixel of images (B, H, W, C), as (…, 9 C)."""
    padded = jnp.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
    return patches(padded, (SIDE, SIDE), (stride, stride), (1, 1))
