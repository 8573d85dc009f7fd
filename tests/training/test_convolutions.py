"""Convolutions of custom networks as matrix products, against those of XLA."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from sgdtheory.training.architectures.convolutions import with_products

# Shapes of inputs and kernel, strides, padding, dilations of both, number of groups, axes.
CASES = {
    "same": ((2, 9, 6), (3, 6, 4), (1,), "SAME", None, None, 1, ("NWC", "WIO", "NWC")),
    "depthwise": ((2, 9, 6), (3, 1, 12), (2,), [(2, 0)], None, (2,), 6, ("NWC", "WIO", "NWC")),
    "one channel": ((2, 9, 7, 1), (3, 3, 1, 4), (2, 1), "SAME", None, (1, 2), 1, ("NHWC", "HWIO", "NHWC")),
    "groups": ((2, 6, 9, 7), (8, 3, 3, 2), (2, 1), "VALID", None, None, 2, ("NCHW", "OIHW", "NCHW")),
    "dilated": ((2, 6, 9, 7), (8, 3, 3, 2), (1, 2), [(1, 2), (-1, 3)], (2, 1), (1, 2), 2, ("NCHW", "OIHW", "NHWC")),
    "three axes": ((2, 5, 6, 4, 3), (2, 3, 2, 3, 5), (1, 2, 1), "SAME", None, None, 1, ("NDHWC", "DHWIO", "NDHWC")),
}


def drawn(*shapes):
    random = np.random.default_rng(0)
    return [jnp.asarray(random.normal(size=shape), jnp.float32) for shape in shapes]


def compared(function, *arguments):
    """Values and gradients of a function with and without its convolutions."""
    other = partial(with_products, function)
    expected, found = function(*arguments), other(*arguments)
    (weights,) = drawn(expected.shape)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    each = [jax.grad(lambda *given, f=f: jnp.sum(f(*given) * weights), (0, 1))(*arguments) for f in (other, function)]
    for one, by_xla in zip(*each, strict=True):
        np.testing.assert_allclose(one, by_xla, rtol=1e-5, atol=1e-5)
    if jax.default_backend() == "cpu":
        assert "conv_general_dilated" not in str(jax.make_jaxpr(other)(*arguments))


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_those_of_xla(name):
    inputs, kernel, strides, padding, lhs_dilation, rhs_dilation, groups, axes = CASES[name]
    settings = {"lhs_dilation": lhs_dilation, "rhs_dilation": rhs_dilation, "feature_group_count": groups}
    settings |= {"window_strides": strides, "padding": padding, "dimension_numbers": axes}
    compared(partial(lax.conv_general_dilated, **settings), *drawn(inputs, kernel))


def test_convolutions_in_loops_branches_and_calls():
    def one(inputs, kernel):
        axes = "NWC", "WIO", "NWC"
        return jnp.tanh(lax.conv_general_dilated(inputs, kernel, (1,), "SAME", dimension_numbers=axes))

    def layers(inputs, kernels):
        inputs, _ = lax.scan(lambda x, kernel: (jax.checkpoint(one)(x, kernel), None), inputs, kernels)
        inputs = lax.cond(inputs[0, 0, 0] < 9.0, one, lambda x, _: x, inputs, kernels[0])
        return jax.jit(one)(inputs, kernels[1])

    inputs, kernels = drawn((2, 9, 6), (2, 3, 6, 6))
    compared(layers, inputs, kernels / 18**0.5)  # as initial weights of a network: without it tanh saturates
