"""Convolutions of custom networks as matrix products, which are faster on CPUs.

The trainer maps a network over runs with weights of their own, which makes every convolution a grouped one. XLA's CPU
gradient of a grouped convolution is a plain loop, and inside a loop over steps it has no fast convolution at all.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, jaxpr_as_fun

# A kernel with one input channel and at most this many taps is applied as a sum of products over its taps. With 3 × 3
# taps, steps then take 0.7 of the time of those with a matrix product, as no array is transposed. With 5 × 5 taps they
# take as long as those, and their compilation takes three times as long.
FEW_TAPS = 9


def with_products(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function; on a CPU compute its convolutions as matrix products."""
    if jax.default_backend() != "cpu":
        return function(*arguments)
    traced, outputs = jax.make_jaxpr(function, return_shape=True)(*arguments)
    values = jaxpr_as_fun(_rewritten(traced))(*jax.tree.leaves(arguments))
    return jax.tree.unflatten(jax.tree.structure(outputs), values)


def _rewritten(value: Any) -> Any:
    """Return a jaxpr, or a parameter of an equation that may hold jaxprs, with convolutions as products."""
    if isinstance(value, ClosedJaxpr):
        return value.replace(jaxpr=_rewritten(value.jaxpr))
    if isinstance(value, Jaxpr):
        return value.replace(eqns=[_equation(each) for each in value.eqns])
    return tuple(map(_rewritten, value)) if type(value) is tuple else value


def _equation(equation: JaxprEqn) -> JaxprEqn:
    """Return the equation, or one that calls `convolution` for a convolution; loops and calls are entered."""
    params = equation.params
    if equation.primitive is not lax.conv_general_dilated_p:
        return equation.replace(params={name: _rewritten(value) for name, value in params.items()})
    outputs: Any = equation.outvars[0].aval
    if params["batch_group_count"] != 1 or 0 in outputs.shape:
        return equation
    call = jax.make_jaxpr(jax.jit(partial(convolution, **params)))(*(each.aval for each in equation.invars))
    return call.eqns[0].replace(invars=equation.invars, outvars=equation.outvars)


def convolution(
    inputs: Array,
    kernel: Array,
    *,
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int],
    rhs_dilation: Sequence[int],
    dimension_numbers: lax.ConvDimensionNumbers,
    feature_group_count: int,
    precision: Any,
    preferred_element_type: Any,
    **others: Any,
) -> Array:
    """Compute a `jax.lax.conv_general_dilated` whose `batch_group_count` is 1 by products of patches."""
    del others  # The group count, and parameters for sharding, which depend on the version of JAX.
    (batch, channels, *axes), (to, of, *taps), (*out,) = dimension_numbers
    inputs = inputs.transpose(batch, *axes, channels)
    kernel = kernel.transpose(*taps, of, to)
    dilated = ((*ends, step - 1) for ends, step in zip(padding, lhs_dilation, strict=True))
    padded = lax.pad(inputs, inputs.dtype.type(0), ((0, 0, 0), *dilated, (0, 0, 0)))
    *sizes, fan_in, outputs = kernel.shape
    groups, number = feature_group_count, math.prod(sizes)
    windows = tuple(sizes), tuple(window_strides), tuple(rhs_dilation)
    product = partial(jnp.einsum, precision=precision, preferred_element_type=preferred_element_type)
    if fan_in == 1 and (groups > 1 or number <= FEW_TAPS):
        # A kernel with one number per tap and output channel: a sum of products is a loop that XLA fuses.
        dtype = preferred_element_type or inputs.dtype
        wide = jnp.promote_types(dtype, jnp.float32)
        padded = jnp.repeat(padded, outputs // groups, axis=-1).astype(wide)
        terms = zip(itertools.product(*map(range, sizes)), kernel.reshape(number, outputs).astype(wide), strict=True)
        result = jnp.asarray(sum(shifted(padded, place, *windows) * taken for place, taken in terms), dtype)
    elif groups == 1:
        result = product("...p,po->...o", patches(padded, *windows), kernel.reshape(number * fan_in, outputs))
    else:
        split = patches(padded, *windows)
        split = split.reshape(*split.shape[:-1], number, groups, fan_in)
        result = product("...tgi,tigo->...go", split, kernel.reshape(number, fan_in, groups, outputs // groups))
    order = out[0], *out[2:], out[1]
    return result.reshape(*result.shape[: 1 + len(sizes)], outputs).transpose(np.argsort(order))


def patches(padded: Array, sizes: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> Array:
    """Return the inputs of every window, (B, …, taps × C), of padded inputs (B, …, C)."""
    for axis in reversed(range(len(sizes))):
        one = sizes[axis], strides[axis], dilations[axis]
        padded = jnp.concatenate([_slice(padded, axis, tap, *one) for tap in range(sizes[axis])], axis=-1)
    return padded


def shifted(
    padded: Array, place: Sequence[int], sizes: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> Array:
    """Return the input of every window at one place of the kernel, (B, …, C)."""
    for axis, (tap, *one) in enumerate(zip(place, sizes, strides, dilations, strict=True)):
        padded = _slice(padded, axis, tap, *one)
    return padded


def _slice(padded: Array, axis: int, tap: int, size: int, stride: int, dilation: int) -> Array:
    """Return the inputs along one axis that a tap of the kernel meets."""
    number = (padded.shape[1 + axis] - dilation * (size - 1) - 1) // stride + 1
    start = tap * dilation
    return lax.slice_in_dim(padded, start, start + (number - 1) * stride + 1, stride, 1 + axis)
