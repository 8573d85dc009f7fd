"""A user's law of the data, and the check that its second moments are those of the problem."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sgdtheory._common.arguments import refuse_complex
from sgdtheory.simulation.dynamics import Spectrum

CHECK_ROWS = 256  # A batch of the check has this many rows.
CHECK_BATCHES = 64  # The check takes this many batches: 16,384 samples give a second moment of light tails to 1%.
CHECK_PROJECTIONS = 16  # The check takes this many random projections, which see correlations of minor directions too.
CHECK_PAIRS = 16  # All pairs of this many leading directions are compared; their number grows with its square.
CHECK_TELLING = 100.0  # This many samples must share in a second moment before it counts against a law.
CHECK_LEADING = 0.01  # A direction with this share of the trace counts, however few samples make up its moment.
CHECK_ROUNDING = 1e-6  # Rounding in float32 may leave this share of λ_1 in a direction with λ = 0.
CHECK_SIGMAS = 8.0  # A refused law is off by this many standard errors: more than 136 moments are compared at once.
CHECK_MARGIN = 0.1  # No law is refused below this relative difference: standard errors of heavy tails are unreliable.


@dataclass(frozen=True, eq=False)
class UserLaw:
    """A function `(key, batch_size) -> x` of shape (batch_size, dim), in the eigenbasis, with `E x xᵀ = diag(λ)`.

    Directions with λ = 0, the unsimulated tail among them, get independent standard normals: their signal is noise.

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
        """Return (rows, d) whitened samples."""
        data_key, frozen_key = jax.random.split(key)
        dtype, size = spectrum.start.dtype, spectrum.eigenvalue.size
        x = jnp.asarray(self.function(data_key, rows), dtype)
        x = jnp.pad(x, ((0, 0), (0, size - self.dim)))
        scale = jnp.sqrt(jnp.asarray(spectrum.eigenvalue)) * np.sqrt(self.largest_eigenvalue).astype(dtype)
        frozen = jax.random.normal(frozen_key, (rows, size), dtype)
        return jnp.where(scale > 0, x / jnp.where(scale > 0, scale, 1), frozen)


def check_user_law(law: Callable[[Any, int], Any], eigenvalue: np.ndarray, key: Any) -> None:
    """Check shape, finiteness, use of the key and second moments, from CHECK_ROWS · CHECK_BATCHES samples.

    Raises:
        ValueError: the law is not one of the problem's data.
    """
    keys = jax.random.split(key, CHECK_BATCHES)
    first, again, other = (_batch(law, batch_key, eigenvalue.size) for batch_key in (keys[0], keys[0], keys[1]))
    if (first != again).any() or (first == other).all():
        raise ValueError("law must draw from its key: the same batch for the same key, another batch for another key")
    directions = np.random.default_rng(0).standard_normal((eigenvalue.size, CHECK_PROJECTIONS))
    root, unseen, moments = np.sqrt(np.where(eigenvalue > 0, eigenvalue, np.inf)), np.zeros(eigenvalue.size), []
    for batch_key in keys:
        x = _batch(law, batch_key, eigenvalue.size)
        unseen = unseen + np.where(eigenvalue > 0, 0, (x**2).mean(0) / CHECK_BATCHES)
        values = _second_moments(x / root, directions)
        moments.append([values.sum(0), (values**2).sum(0)])
    _check_unseen(unseen, eigenvalue)
    mean, square = np.sum(moments, axis=0) / (CHECK_ROWS * CHECK_BATCHES)
    _check_moments(mean, square, eigenvalue, directions)


def _check_unseen(unseen: np.ndarray, eigenvalue: np.ndarray) -> None:
    i = int(np.argmax(unseen))
    if unseen[i] > CHECK_ROUNDING * eigenvalue[0]:
        raise ValueError(
            f"law must have E x_i² = λ_i in the eigenbasis: direction {i + 1} has {unseen[i]:.3g}, but λ_{i + 1} = 0"
        )


def _check_moments(mean: np.ndarray, square: np.ndarray, eigenvalue: np.ndarray, directions: np.ndarray) -> None:
    """Compare means of `_second_moments` with what they should be, where the samples identify them."""
    count, d, (left, right) = CHECK_ROWS * CHECK_BATCHES, eigenvalue.size, _pairs(eigenvalue.size)
    ends = d, d + left.size
    expected = np.concatenate([eigenvalue > 0, np.zeros(left.size), (directions[eigenvalue > 0] ** 2).sum(0)])
    telling = count * mean**2 > CHECK_TELLING * square  # not a few rare samples that decide
    telling[:d] |= eigenvalue > CHECK_LEADING * eigenvalue.sum()  # rare samples cannot make up a leading direction
    telling[ends[0] : ends[1]] = telling[left] & telling[right]
    error = np.sqrt(np.maximum(square - mean**2, 0) / count)
    margin = CHECK_MARGIN * np.concatenate([np.ones(ends[1]), expected[ends[1] :]])
    off = telling & (np.abs(mean - expected) > np.maximum(CHECK_SIGMAS * error, margin))
    if not off.any():
        return
    i = int(off.argmax())
    found = f"{mean[i]:.3g} ± {error[i]:.2g} over {count} samples, not {expected[i]:.3g}"
    if i < d:
        raise ValueError(
            f"law must have E x_i² = λ_i in the eigenbasis: for direction {i + 1} E x_i²/λ_i is {found}; rescale the "
            "law or the problem"
        )
    what = f"directions {left[i - d] + 1} and {right[i - d] + 1}" if i < ends[1] else "a random projection"
    raise ValueError(
        f"law must have uncorrelated coordinates (x in the eigenbasis of H): the whitened second moment of {what} is "
        f"{found}; rotate x into the eigenbasis"
    )


def _batch(law: Callable[[Any, int], Any], key: Any, dim: int) -> np.ndarray:
    """Return (CHECK_ROWS, dim) samples of a user's law."""
    drawn = law(key, CHECK_ROWS)
    refuse_complex("law", drawn)
    try:
        x = np.asarray(drawn, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"law must return an array of numbers, got {drawn!r}") from None
    if x.shape != (CHECK_ROWS, dim):
        raise ValueError(
            f"law must return an array of shape (batch_size, {dim}), got {x.shape} for batch_size {CHECK_ROWS}; of a "
            "problem with more directions, simulate as many with dim"
        )
    if not np.isfinite(x).all():
        raise ValueError("law must return finite numbers, got nan or inf")
    return x


def _pairs(dim: int) -> tuple[np.ndarray, np.ndarray]:
    return np.triu_indices(min(dim, CHECK_PAIRS), k=1)


def _second_moments(z: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """Return (rows, …) squares of whitened coordinates, products of leading ones, and squares of projections."""
    first, second = _pairs(z.shape[1])
    return np.concatenate([z**2, z[:, first] * z[:, second], np.einsum("rd,dp->rp", z, directions) ** 2], axis=1)
