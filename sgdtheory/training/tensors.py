"""The factors of a network's tensors at a config's width, and the initial weights."""

import zlib
from collections.abc import Callable, Mapping
from typing import Any

import jax
from jax import Array, lax

from sgdtheory.training.config import TrainConfig
from sgdtheory.training.network import BIAS, GAIN, Params, Tensor, Tensors
from sgdtheory.training.parametrization import Factors, factors


def tensor_factors(tensors: Tensors, config: TrainConfig) -> dict[str, Factors]:
    """Return multiplier, initial scale and learning rates of every tensor at the config's width."""
    ratio, table, family = config.width_ratio, config.table, config.optimizer.family
    trained = {name: factors(table.role(tensor.role), family, ratio) for name, tensor in tensors.items()}
    if config.trained == "all":
        return trained
    frozen = {name: own._replace(sgd_rate=0.0, rate=0.0) for name, own in trained.items()}
    return {name: (trained if tensor.role == "output" else frozen)[name] for name, tensor in tensors.items()}


def draw(tensors: Tensors, config: TrainConfig, key: Array, initial: Callable[[Array], Params] | None = None) -> Params:
    """Draw initial weights in float32 from N(0, r^{2·init} / fan_in), or multiply the draws of `initial` by r^init.

    A tensor's normal draw depends only on key, name and shape.
    """
    scales = tensor_factors(tensors, config)

    def one(name: str, tensor: Tensor) -> Array:
        if tensor.fan_in == BIAS:
            return jax.numpy.zeros(tensor.shape)
        if tensor.fan_in == GAIN:
            return jax.numpy.full(tensor.shape, scales[name].init)
        named = jax.random.fold_in(key, zlib.crc32(name.encode()))
        return jax.random.normal(named, tensor.shape) * (scales[name].init * tensor.fan_in**-0.5)

    if initial is None:
        drawn = {name: one(name, tensor) for name, tensor in tensors.items()}
    else:
        drawn = {name: value * scales[name].init for name, value in initial(key).items()}
    # An array filled with a Python number is weakly typed. After the first step it is not, and JAX would compile again.
    return {name: lax.convert_element_type(value, jax.numpy.float32) for name, value in drawn.items()}


def effective(params: Params, scales: Mapping[str, Factors], dtype: Any) -> Params:
    """Return the weights that the layers use: multiplier times weights, in the precision of the layers."""
    return {name: (value * scales[name].multiplier).astype(dtype) for name, value in params.items()}
