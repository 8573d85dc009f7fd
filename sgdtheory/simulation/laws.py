"""Laws of the data for the explicit sampler.

A law draws whitened samples `z = H^{−1/2} x` in the eigenbasis: `E z zᵀ = I`. Whatever its fourth moments, if they
have the form `E[z_i² (zᵀu)²] = spread ‖u‖² + own u_i²` the second moments of SGD obey a closed recursion (THEORY.md
S2).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sgdtheory.arguments import single_number
from sgdtheory.simulation.counter_random import mean_chi_square
from sgdtheory.simulation.dynamics import Spectrum

LARGEST_FREEDOM = 1e9
CHECK_ROWS = 256
CHECK_BATCHES = 64
CHECK_PROJECTIONS = 16
CHECK_PAIRS = 16  # leading directions of which all pairs are looked at
CHECK_TELLING = 100.0  # samples that must share in a second moment before it is held against a law
CHECK_LEADING = 0.01  # of the trace
CHECK_ROUNDING = 1e-6  # of λ_1 that a direction with λ = 0 may show
CHECK_SIGMAS = 8.0  # how far off a law has to be, in standard errors
CHECK_MARGIN = 0.1  # and relative to what it should be: standard errors of heavy tails are not to be relied upon


class FourthMoment(NamedTuple):
    """`E[z_i² (zᵀu)²] = spread ‖u‖² + own u_i²`."""

    spread: float
    own: float


class Law(Protocol):
    """A law of whitened samples; hashable, a static argument of the compiled program."""

    def sample(self, key: Any, rows: int, spectrum: Spectrum) -> Array:
        """(rows, d) whitened samples."""
        ...


@dataclass(frozen=True)
class Gaussian:
    """z ~ N(0, I)."""

    fourth_moment = FourthMoment(1.0, 2.0)

    def sample(self, key: Any, rows: int, spectrum: Spectrum) -> Array:
        """(rows, d) whitened samples."""
        return jax.random.normal(key, (rows, spectrum.start.size), spectrum.start.dtype)


@dataclass(frozen=True)
class Rademacher:
    """Independent coordinates ±1: kurtosis 1, the least there is."""

    fourth_moment = FourthMoment(1.0, 0.0)

    def sample(self, key: Any, rows: int, spectrum: Spectrum) -> Array:
        """(rows, d) whitened samples."""
        return jax.random.rademacher(key, (rows, spectrum.start.size), spectrum.start.dtype)


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
        """Spread 1, own kurtosis − 1."""
        return FourthMoment(1.0, 2.0 + 6.0 / (self.degrees_of_freedom - 4.0))

    def sample(self, key: Any, rows: int, spectrum: Spectrum) -> Array:
        """(rows, d) whitened samples."""
        return _student(
            key, (rows, spectrum.start.size), (rows, spectrum.start.size), self.degrees_of_freedom, spectrum
        )


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
        """Spread κ/3, own 2κ/3, for kurtosis κ."""
        excess = 2.0 / (self.degrees_of_freedom - 4.0)
        return FourthMoment(1.0 + excess, 2.0 + 2.0 * excess)

    def sample(self, key: Any, rows: int, spectrum: Spectrum) -> Array:
        """(rows, d) whitened samples."""
        return _student(key, (rows, spectrum.start.size), (rows, 1), self.degrees_of_freedom, spectrum)


@dataclass(frozen=True, eq=False)
class UserLaw:
    """A function `(key, batch_size) -> x` of shape (batch_size, dim), in the eigenbasis, with `E x xᵀ = diag(λ)`.

    Directions with λ = 0 that hold signal, the unsimulated tail among them, see independent standard normals instead.

    Attributes:
        function: the user's.
        dim: number of columns that it returns.
        largest_eigenvalue: λ_1, the unit of the simulated spectrum.
    """

    function: Callable[[Any, int], Any]
    dim: int
    largest_eigenvalue: float

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UserLaw) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple:  # functions need not be hashable; the object keeps its function, and so the id, alive
        return id(self.function), self.dim, self.largest_eigenvalue

    def sample(self, key: Any, rows: int, spectrum: Spectrum) -> Array:
        """(rows, d) whitened samples."""
        data_key, frozen_key = jax.random.split(key)
        dtype, size = spectrum.start.dtype, spectrum.start.size
        x = jnp.asarray(self.function(data_key, rows), dtype)
        x = jnp.pad(x, ((0, 0), (0, size - self.dim)))
        scale = jnp.sqrt(jnp.asarray(spectrum.eigenvalue)) * np.sqrt(self.largest_eigenvalue).astype(dtype)
        frozen = jax.random.normal(frozen_key, (rows, size), dtype)
        return jnp.where(scale > 0, x / jnp.where(scale > 0, scale, 1), frozen)


NAMED_LAWS = {"gaussian": Gaussian(), "rademacher": Rademacher(), "student_t": StudentT()}


def as_law(law: Any, eigenvalue: np.ndarray, key: Any) -> Law:
    """A built-in law by its name or as it is; anything else callable is a user's law, checked here once.

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
    _check_user_law(law, eigenvalue, key)
    return UserLaw(law, eigenvalue.size, float(eigenvalue[0]))


def _student(key: Any, shape: tuple[int, ...], radii: tuple[int, ...], freedom: float, spectrum: Spectrum) -> Array:
    normal_key, radius_key = jax.random.split(key)
    dtype = spectrum.start.dtype
    words = jax.random.key_data(radius_key)
    index = jnp.arange(math.prod(radii), dtype=np.uint32)
    radius = mean_chi_square((words[0], words[1]), index, freedom, dtype).reshape(radii)
    scale = np.sqrt((freedom - 2) / freedom).astype(dtype)
    return jax.random.normal(normal_key, shape, dtype) * (scale / jnp.sqrt(radius))


def _check_user_law(law: Callable[[Any, int], Any], eigenvalue: np.ndarray, key: Any) -> None:
    """Shape, finiteness and second moments from CHECK_ROWS · CHECK_BATCHES samples."""
    directions = np.random.default_rng(0).standard_normal((eigenvalue.size, CHECK_PROJECTIONS))
    keys = jax.random.split(key, CHECK_BATCHES)
    first, again, other = (_batch(law, batch_key, eigenvalue.size) for batch_key in (keys[0], keys[0], keys[1]))
    if (first != again).any() or (first == other).all():
        raise ValueError("law must draw from its key: the same batch for the same key, another batch for another key")
    sums, unseen = [], np.zeros(eigenvalue.size)
    for batch_key in keys:
        x = _batch(law, batch_key, eigenvalue.size)
        unseen += np.where(eigenvalue > 0, 0, (x**2).mean(0) / CHECK_BATCHES)
        values = _second_moments(x / np.sqrt(np.where(eigenvalue > 0, eigenvalue, np.inf)), directions)
        sums.append([values.sum(0), (values**2).sum(0)])
    if (unseen > CHECK_ROUNDING * eigenvalue[0]).any():
        i = int(unseen.argmax())
        raise ValueError(
            f"law must have E x_i² = λ_i in the eigenbasis: direction {i + 1} has {unseen[i]:.3g}, but λ_{i + 1} = 0"
        )
    count = CHECK_ROWS * CHECK_BATCHES
    mean, square = np.sum(sums, axis=0) / count
    error = np.sqrt(np.maximum(square - mean**2, 0) / count)
    d, pairs = eigenvalue.size, _pairs(eigenvalue.size)
    expected = np.concatenate([eigenvalue > 0, np.zeros(pairs[0].size), ((directions[eigenvalue > 0]) ** 2).sum(0)])
    telling = count * mean**2 > CHECK_TELLING * square  # not a few rare samples that decide
    telling[:d] |= eigenvalue > CHECK_LEADING * eigenvalue.sum()  # which leading directions do not consist of
    telling[d : d + pairs[0].size] = telling[pairs[0]] & telling[pairs[1]]
    scale = np.concatenate([np.ones(d + pairs[0].size), expected[d + pairs[0].size :]])
    off = telling & (np.abs(mean - expected) > np.maximum(CHECK_SIGMAS * error, CHECK_MARGIN * scale))
    if not off.any():
        return
    i = int(off.argmax())
    found = f"{mean[i]:.3g} ± {error[i]:.2g} over {count} samples"
    if i < d:
        raise ValueError(
            f"law must have E x_i² = λ_i in the eigenbasis: for direction {i + 1} E x_i²/λ_i is {found}, not 1; "
            "rescale the law or the problem"
        )
    what = "a random projection"
    if i < d + pairs[0].size:
        what = f"directions {pairs[0][i - d] + 1} and {pairs[1][i - d] + 1}"
    raise ValueError(
        f"law must have uncorrelated coordinates (x in the eigenbasis of H): the whitened second moment of {what} is "
        f"{found}, not {expected[i]:.3g}; rotate x into the eigenbasis"
    )


def _batch(law: Callable[[Any, int], Any], key: Any, dim: int) -> np.ndarray:
    """(CHECK_ROWS, dim) samples of a user's law."""
    drawn = law(key, CHECK_ROWS)
    try:
        x = np.asarray(drawn, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"law must return an array of numbers, got {drawn!r}") from None
    if x.shape != (CHECK_ROWS, dim):
        raise ValueError(
            f"law must return an array of shape (batch_size, {dim}), got {x.shape} for batch_size {CHECK_ROWS}"
        )
    if not np.isfinite(x).all():
        raise ValueError("law must return finite numbers, got nan or inf")
    return x


def _pairs(dim: int) -> tuple[np.ndarray, np.ndarray]:
    return np.triu_indices(min(dim, CHECK_PAIRS), k=1)


def _second_moments(z: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """(rows, …) squares of whitened coordinates, products of leading ones, and squares of projections."""
    first, second = _pairs(z.shape[1])
    return np.concatenate([z**2, z[:, first] * z[:, second], np.einsum("rd,dp->rp", z, directions) ** 2], axis=1)
