"""The golden section of many functions at once, each with one minimum in its interval."""

from collections.abc import Callable

import numpy as np

NARROWINGS = 40  # of an interval, to 4e-9 of it
GOLDEN = (np.sqrt(5) - 1) / 2


def golden_section(function: Callable[[np.ndarray], np.ndarray], low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the points at which functions are least between `low` and `high`.

    >>> import numpy as np
    >>> from sgdtheory.fits.golden_section import golden_section
    >>> centres = np.array([0.25, 0.5])
    >>> golden_section(lambda x: (x - centres) ** 2, np.zeros(2), np.ones(2)).round(6).tolist()
    [0.25, 0.5]

    Args:
        function: places → values there, one each, of one shape.
        low, high: ends of the intervals, of that shape.
    """
    for _ in range(NARROWINGS):
        left = high - GOLDEN * (high - low)
        right = low + GOLDEN * (high - low)
        lower = function(left) < function(right)
        low, high = np.where(lower, low, left), np.where(lower, right, high)
    return (low + high) / 2
