"""Laws of the data for the explicit sampler.

A law draws whitened samples `z = H^{−1/2} x` in the eigenbasis, `E z zᵀ = I`. If its fourth moments have the form
`E[z_i² (zᵀu)²] = χ ‖u‖² + δ u_i²`, the second moments of SGD obey a closed recursion (THEORY.md S2).
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sgdtheory._common.arguments import single_number
from sgdtheory._common.counter_random import mean_chi_square
from sgdtheory.simulation.dynamics import Spectrum
from sgdtheory.simulation.user_law import UserLaw, check_user_law

LARGEST_FREEDOM = 1e9  # With more degrees of freedom, Student's t is the normal law to the digits of a float32.


class FourthMoment(NamedTuple):
    """Fourth moments χ and δ in `E[z_i² (zᵀu)²] = χ ‖u‖² + δ u_i²`."""

    isotropic: float
    diagonal: float


class Law(Protocol):
    """Protocol of laws of whitened samples; hashable, a static argument of the compiled program."""

    def sample(self, key: Any, rows: int, spectrum: Spectrum) -> Array:
        """Return (rows, d) whitened samples."""
        ...


@dataclass(frozen=True)
class Gaussian:
    """Independent standard normal coordinates, z ~ N(0, I)."""

    fourth_moment = FourthMoment(1.0, 2.0)

    def sample(self, key: Any, rows: int, spectrum: Spectrum) -> Array:
        """Return (rows, d) whitened samples."""
        return jax.random.normal(key, (rows, spectrum.eigenvalue.size), spectrum.start.dtype)


@dataclass(frozen=True)
class Rademacher:
    """Independent coordinates ±1: kurtosis 1, the least there is."""

    fourth_moment = FourthMoment(1.0, 0.0)

    def sample(self, key: Any, rows: int, spectrum: Spectrum) -> Array:
        """Return (rows, d) whitened samples."""
        return jax.random.rademacher(key, (rows, spectrum.eigenvalue.size), spectrum.start.dtype)


@dataclass(frozen=True)
class StudentT:
    """Independent Student-t coordinates, scaled to variance 1: kurtosis 3 + 6/(ν − 4).

    Args:
        degrees_of_freedom: ν > 4, so that the fourth moment is finite.

    Raises:
        ValueError: ν out of range.
    """

    degrees_of_freedom: float = 5.0

    def __post_init__(self) -> None:
        value = single_number("degrees_of_freedom", self.degrees_of_freedom)
        if not 4 < value <= LARGEST_FREEDOM:
            raise ValueError(
                "degrees_of_freedom must be greater than 4 (finite fourth moment) and at most "
                f"{LARGEST_FREEDOM:g}, got {value}"
            )
        object.__setattr__(self, "degrees_of_freedom", value)

    @property
    def fourth_moment(self) -> FourthMoment:
        """Fourth moments χ = 1 and δ = kurtosis − 1."""
        return FourthMoment(1.0, 2.0 + 6.0 / (self.degrees_of_freedom - 4.0))

    def sample(self, key: Any, rows: int, spectrum: Spectrum) -> Array:
        """Return (rows, d) whitened samples."""
        shape = rows, spectrum.eigenvalue.size
        return _student(key, shape, shape, self.degrees_of_freedom, spectrum)


@dataclass(frozen=True)
class EllipticalT:
    """Multivariate Student-t, scaled to covariance I: one heavy-tailed radius for all coordinates of a sample.

    Every projection has kurtosis 3 + 6/(ν − 4), however many directions it mixes; with independent coordinates a
    projection on many directions is nearly Gaussian.

    Args:
        degrees_of_freedom: ν > 4, so that the fourth moment is finite.

    Raises:
        ValueError: ν out of range.
    """

    degrees_of_freedom: float = 5.0

    __post_init__ = StudentT.__post_init__

    @property
    def fourth_moment(self) -> FourthMoment:
        """Fourth moments χ = κ/3 and δ = 2κ/3, for kurtosis κ."""
        excess = 2.0 / (self.degrees_of_freedom - 4.0)
        return FourthMoment(1.0 + excess, 2.0 + 2.0 * excess)

    def sample(self, key: Any, rows: int, spectrum: Spectrum) -> Array:
        """Return (rows, d) whitened samples."""
        return _student(key, (rows, spectrum.eigenvalue.size), (rows, 1), self.degrees_of_freedom, spectrum)


NAMED_LAWS = {"gaussian": Gaussian(), "rademacher": Rademacher(), "student_t": StudentT()}


def as_law(law: Any, eigenvalue: np.ndarray, key: Any) -> Law:
    """Return a built-in law, from its name or as it is, or a user's law of any other callable, which is checked here.

    Raises:
        ValueError: an unknown law, or a user's law of the wrong shape or second moments.
    """
    if isinstance(law, str) and law in NAMED_LAWS:
        return NAMED_LAWS[law]
    if isinstance(law, Gaussian | Rademacher | StudentT | EllipticalT):
        return law
    if isinstance(law, str | type) or not callable(law):
        known = ", ".join(repr(name) for name in NAMED_LAWS)
        raise ValueError(f"law must be one of {known}, StudentT(ν), EllipticalT(ν) or a function, got {law!r}")
    check_user_law(law, eigenvalue, key)
    return UserLaw(law, eigenvalue.size, float(eigenvalue[0]))


def _student(key: Any, shape: tuple[int, ...], radii: tuple[int, ...], freedom: float, spectrum: Spectrum) -> Array:
    """Return normals over independent radii, of variance 1; one radius serves the axes on which `radii` has 1."""
    normal_key, radius_key = jax.random.split(key)
    dtype = spectrum.start.dtype
    words = jax.random.key_data(radius_key)
    index = jnp.arange(math.prod(radii), dtype=np.uint32)
    radius = mean_chi_square((words[0], words[1]), index, freedom, dtype).reshape(radii)
    scale = np.sqrt((freedom - 2) / freedom).astype(dtype)
    return jax.random.normal(normal_key, shape, dtype) * (scale / jnp.sqrt(radius))
