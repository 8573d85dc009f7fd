"""Searches on many functions at once, elementwise, and on lines through points."""

from collections.abc import Callable

import numpy as np


def golden_section(function: Callable[[np.ndarray], np.ndarray], low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the points at which functions with one minimum each are least between `low` and `high`.

    >>> import numpy as np
    >>> from sgdtheory.fits.searches import golden_section
    >>> centres = np.array([0.25, 0.5])
    >>> golden_section(lambda x: (x - centres) ** 2, np.zeros(2), np.ones(2)).round(6).tolist()
    [0.25, 0.5]

    Args:
        function: points → values there, one each, of one shape. Equal values lead to the larger points, so that a
            function may be inf up to its minimum.
        low, high: ends of the intervals, of that shape.
    """
    ratio = (np.sqrt(5) - 1) / 2
    # The interval is then 4e-9 of its width. Rounded values determine a minimum to about 1e-8.
    for _ in range(40):
        left = high - ratio * (high - low)
        right = low + ratio * (high - low)
        lower = function(left) < function(right)
        low, high = np.where(lower, low, left), np.where(lower, right, high)
    return (low + high) / 2


def bisected(holds: Callable[[np.ndarray], np.ndarray], low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the points up to which conditions hold, from `low` on, to rounding; `high` where they hold everywhere.

    Args:
        holds: points → truth values there, of one shape.
        low, high: ends of the intervals, of that shape.
    """
    for _ in range(50):  # The interval is then 1e-15 of its width.
        middle = (low + high) / 2
        here = holds(middle)
        low, high = np.where(here, middle, low), np.where(here, high, middle)
    return (low + high) / 2


def last_crossing(x: np.ndarray, excess: np.ndarray) -> float:
    """Return the x at which lines through points last rise above 0; inf if they end below it, nan if no point is below.

    Args:
        x, excess: (m,) the points, with x increasing.
    """
    below = np.flatnonzero(excess <= 0)
    if not below.size:
        return float("nan")
    last = int(below[-1])
    if last == excess.size - 1:
        return float("inf")
    share = -excess[last] / (excess[last + 1] - excess[last])
    return float(x[last] + share * (x[last + 1] - x[last]))
