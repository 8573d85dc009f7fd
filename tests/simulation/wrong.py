"""Samplers with one mistake each, which the statistics must find."""

from dataclasses import dataclass

import jax.numpy as jnp

from sgdtheory._common.counter_random import mean_chi_square, normals
from sgdtheory.simulation.dynamics import STEPS
from sgdtheory.simulation.sufficient import Sufficient


@dataclass(frozen=True)
class FewerDegrees(Sufficient):
    """Chi-square with B − 1 degrees of freedom."""

    def ahead(self, key, batch, first):
        number = (first + jnp.arange(STEPS, dtype="uint32"))[:, None]
        degrees = batch - 1
        chi = mean_chi_square((key[:, 0], key[:, 1]), number, degrees, batch.dtype)
        return chi * degrees / batch


@dataclass(frozen=True)
class Isotropic(Sufficient):
    """The noise forgets that it has less room along u: no −uuᵀ."""

    def gradient(self, spectrum, error, draw):
        epsilon = normals((draw.key[0], draw.key[1]), draw.number, error.size, error.dtype)
        tau = jnp.sqrt((error**2).sum() + spectrum.noise**2)
        noise = jnp.sqrt(draw.ahead / draw.batch) * tau * epsilon
        return spectrum.eigenvalue * (draw.ahead * error + noise)


@dataclass(frozen=True)
class Noisier(Sufficient):
    """σ off by √2."""

    def gradient(self, spectrum, error, draw):
        return super().gradient(spectrum._replace(noise=spectrum.noise * 2**0.5), error, draw)
