"""The factors of a network's tensors at a config's width, and how its weights are drawn."""

import zlib
from collections.abc import Callable, Mapping
from typing import Any

import jax
from jax import Array, lax

from sgdtheory.training.config import TrainConfig
from sgdtheory.training.network import BIAS, GAIN, Params, Tensor, Tensors
from sgdtheory.training.parametrization import Factors, factors


def tensor_factors(tensors: Tensors, config: TrainConfig) -> dict[str, Factors]:
    """Multiplier, initial scale and rates of every tensor at the config's width."""
    ratio, table = config.width_ratio, config.table
    found = {name: factors(table.role(tensor.role), config.optimizer.family, ratio) for name, tensor in tensors.items()}
    if config.trained == "all":
        return found
    frozen = {name: each._replace(sgd_rate=0.0, rate=0.0) for name, each in found.items()}
    return {name: (found if tensor.role == "output" else frozen)[name] for name, tensor in tensors.items()}


def draw(tensors: Tensors, config: TrainConfig, key: Array, initial: Callable[[Array], Params] | None = None) -> Params:
    """Initial weights in float32: N(0, r^{2·init} / fan_in), or r^init times what `initial` draws.

    A tensor's normal draw depends on key, name and shape alone.
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
    # What is filled with a Python number is weakly typed: after the first step it is not, and all is compiled again.
    return {name: lax.convert_element_type(value, jax.numpy.float32) for name, value in drawn.items()}


def effective(params: Params, scales: Mapping[str, Factors], dtype: Any) -> Params:
    """What the layers compute with: multiplier times weights, in the precision of the layers."""
    return {name: (value * scales[name].multiplier).astype(dtype) for name, value in params.items()}
