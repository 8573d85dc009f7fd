"""Searches on laws of the loss: the best and the critical batch size, for many laws and settings at once (T48)."""

from collections.abc import Callable

import numpy as np

from sgdtheory._common.array_like import ArrayLike
from sgdtheory.fits.joint_shapes import LossLaw, Settings

# The overhead of data that defines B*, over the best batch size.
OVERHEAD = 0.2
# Logarithms, from the middle of the table, between which batch sizes, data and model sizes are searched. No table
# comes near their ends, so that a number there is 0 or infinite.
NEAREST, FARTHEST = -15.0, 45.0
# Halvings, and sections by the golden ratio, after which a search is exact to a millionth.
HALVINGS, SECTIONS = 50, 40
# Distance in logs over which the growth of B* is measured.
STEP = 0.05


def best_batch(law: LossLaw, log_size: np.ndarray, log_samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ln B of the least loss at N and D, and that loss."""
    rows = np.broadcast_shapes(law.factors.shape[:-1], np.shape(log_size), np.shape(log_samples))
    return least(lambda log_batch: law.loss(Settings(log_size, log_samples, log_batch)), NEAREST, FARTHEST, rows)


def log_critical(law: LossLaw, log_size: np.ndarray, log_samples: np.ndarray) -> np.ndarray:
    """Return ln B*; `FARTHEST` where large batches cost nothing."""
    best, least = best_batch(law, log_size, log_samples)
    more = log_samples + np.log1p(OVERHEAD)
    return first_below(lambda log_batch: -law.loss(Settings(log_size, more, log_batch)), -least, best, best.shape)


def growth(law: LossLaw, by_size: float, by_samples: float) -> np.ndarray:
    """Return the slope of ln B* along a direction of log N and log D, in the middle of the table."""
    up, down = (log_critical(law, np.array(end * by_size), np.array(end * by_samples)) for end in (STEP, -STEP))
    return (up - down) / (2 * STEP)


def first_below(
    falling: Callable[[np.ndarray], np.ndarray], level: np.ndarray, low: ArrayLike, shape: tuple[int, ...]
) -> np.ndarray:
    """Return where a falling function comes down to a level, elementwise; `FARTHEST` where it stays above."""
    start = np.broadcast_to(np.asarray(low, dtype=float), shape)
    end = np.full(shape, FARTHEST)
    for _ in range(HALVINGS):
        middle = (start + end) / 2
        above = falling(middle) > level
        start, end = np.where(above, middle, start), np.where(above, end, middle)
    return end


def least(
    function: Callable[[np.ndarray], np.ndarray], low: float, high: float, shape: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Return where a function with one minimum is least, elementwise, and its value there."""
    ratio = (np.sqrt(5) - 1) / 2
    start, end = np.full(shape, low), np.full(shape, high)
    for _ in range(SECTIONS):
        left, right = end - ratio * (end - start), start + ratio * (end - start)
        falls = function(left) > function(right)
        start, end = np.where(falls, left, start), np.where(falls, end, right)
    middle = (start + end) / 2
    return middle, function(middle)
