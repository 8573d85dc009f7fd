"""Samplers with one mistake each, which the statistics must find."""

from dataclasses import dataclass

import jax.numpy as jnp

from sgdtheory._common.counter_random import mean_chi_square, normals
from sgdtheory.simulation.dynamics import STEPS
from sgdtheory.simulation.sufficient import Sufficient


@dataclass(frozen=True)
class FewerDegrees(Sufficient):
    """Chi-square with B − 1 degrees of freedom."""

    def draws(self, lanes, first):
        number = (first + jnp.arange(STEPS, dtype="uint32"))[:, None]
        degrees = lanes.batch_size - 1
        chi = mean_chi_square((lanes.key[:, 0], lanes.key[:, 1]), number, degrees, lanes.batch_size.dtype)
        return chi * degrees / lanes.batch_size


@dataclass(frozen=True)
class Isotropic(Sufficient):
    """The noise forgets that it has less room along u: no −uuᵀ."""

    def increment(self, spectrum, lane, error, number, draw):
        epsilon = normals((lane.key[0], lane.key[1]), number, error.size, error.dtype)
        tau = jnp.sqrt((error**2).sum() + spectrum.noise**2)
        noise = jnp.sqrt(draw / lane.batch_size) * tau * epsilon
        return -(lane.learning_rate * spectrum.eigenvalue) * (draw * error + noise)


@dataclass(frozen=True)
class Noisier(Sufficient):
    """σ off by √2."""

    def increment(self, spectrum, lane, error, number, draw):
        return super().increment(spectrum._replace(noise=spectrum.noise * 2**0.5), lane, error, number, draw)
