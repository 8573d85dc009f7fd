"""Streams of the rows of a table: scikit-learn's digits, or a user's arrays."""

import functools

import jax.numpy as jnp
import numpy as np
from jax import Array

from sgdtheory.training.array_files import array_files
from sgdtheory.training.data import Arrays, Digits

HOLDOUT = 5  # Every fifth row of a fixed random order is held out.


class Rows:
    """A stream of the rows of a table that are not held out, in a new order in each epoch.

    Sample s of the stream is a function of (data_seed, s) alone: the same for every width, batch size and split into
    micro-batches.
    """

    def __init__(self, features: np.ndarray, targets: np.ndarray, batch_size: int, holdout_size: int):
        order = np.random.default_rng(0).permutation(len(features))
        held_out, train = np.sort(order[: len(order) // HOLDOUT]), np.sort(order[len(order) // HOLDOUT :])
        chosen = held_out[np.linspace(0, len(held_out) - 1, min(holdout_size, len(held_out))).astype(int)]
        self._features, self._targets, self._batch_size = features[train], targets[train], batch_size
        self._holdout = features[chosen], targets[chosen]

    def chunk(self, data_seed: int, first: int, number: int) -> np.ndarray:
        """Return the rows (number, B) of steps first … first + number − 1."""
        size = self._batch_size
        samples = np.arange(first * size, (first + number) * size)
        return rows_of_epochs(data_seed, samples, len(self._features)).reshape(number, size)

    def batch(self, data_seed: Array, rows: Array) -> tuple[Array, Array]:
        """Return the features and targets of a step."""
        del data_seed
        return jnp.asarray(self._features)[rows], jnp.asarray(self._targets)[rows]

    def holdout(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the features and targets of evenly spaced rows among those that are held out."""
        return self._holdout


def rows_of_epochs(data_seed: int, samples: np.ndarray, rows: int, *, first_in_order: bool = False) -> np.ndarray:
    """Return the row of each sample s of a stream, in the shape of `samples`: epoch s // rows has every row once.

    Args:
        data_seed: seed of the orders.
        samples: numbers s, from 0.
        rows: number of rows.
        first_in_order: keep the rows' own order in the first epoch, which needs no memory for a permutation.
    """
    epochs = samples // rows
    numbers = np.empty(samples.shape, np.uint32)
    for epoch in np.unique(epochs):
        inside = epochs == epoch
        index = samples[inside] % rows
        numbers[inside] = index if epoch == 0 and first_in_order else _order(data_seed, int(epoch), rows)[index]
    return numbers


@functools.lru_cache(maxsize=4)
def _order(seed: int, epoch: int, rows: int) -> np.ndarray:
    """Return the order of the rows in one epoch."""
    return np.random.default_rng((seed, epoch)).permutation(rows).astype(np.uint32)


def digits(data: Digits, batch_size: int, holdout_size: int) -> Rows:
    """Make the stream of scikit-learn's digits, with pixels between 0 and 1."""
    del data
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise ValueError("data digits needs scikit-learn: pip install scikit-learn") from None
    images, classes = load_digits(return_X_y=True)
    return Rows(
        (images / 16).astype(np.float32).reshape(-1, 8, 8, 1), classes.astype(np.int32), batch_size, holdout_size
    )


def arrays(data: Arrays, batch_size: int, holdout_size: int) -> Rows:
    """Make the stream of a user's features and targets, which are read into memory."""
    features, targets = (np.asarray(part) for part in array_files(data.features, data.targets))
    kind = np.int32 if np.issubdtype(targets.dtype, np.integer) else np.float32
    features = features.astype(np.float32)
    for path, part in (data.features, features), (data.targets, targets):
        if not np.isfinite(part).all():
            raise ValueError(f"{path} must be finite, but has infinite or missing numbers: leave those rows out")
    return Rows(features, targets.astype(kind), batch_size, holdout_size)
