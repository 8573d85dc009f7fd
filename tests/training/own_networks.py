"""Networks as users write them: plain functions, a Flax module, an Equinox module."""

import jax
import jax.numpy as jnp

from sgdtheory.training import Custom


def init(key, width):
    """The built-in perceptron with two hidden layers, with an output bias and a constant besides."""
    keys, normal = jax.random.split(key, 3), jax.random.normal
    return {
        "layers": [
            {"weight": normal(keys[0], (64, width)) / 8, "bias": jnp.zeros(width)},
            {"weight": normal(keys[1], (width, width)) / width**0.5, "bias": jnp.zeros(width)},
        ],
        "output": normal(keys[2], (width, 1)) / width**0.5,
        "output_bias": jnp.zeros(1),
        "activation": jax.nn.relu,
    }


def apply(params, inputs):
    """Return the outputs of the network."""
    for layer in params["layers"]:
        inputs = params["activation"](inputs @ layer["weight"] + layer["bias"])
    return inputs @ params["output"] + params["output_bias"]


net = Custom(init=init, apply=apply, entry_point="tests.training.own_networks:net")
nameless = Custom(init=init, apply=apply)
