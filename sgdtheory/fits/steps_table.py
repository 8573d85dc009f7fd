"""Steps that a theory computed, as a table between whose rows the data are interpolated: no law is fitted to them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize
from scipy.interpolate import PchipInterpolator

from sgdtheory._common.arguments import positive_array
from sgdtheory.fits.conventions import SMALLEST, Convention


@dataclass(frozen=True, eq=False)
class StepsTable:
    """Steps Y to a target at several batch sizes, computed and so without scatter, for `plan`.

    The samples B Y(B) are interpolated monotonically in logs, so that they are nowhere fewer than at the rows around.
    Below the table they are those of its first row, above it the steps are those of its last: nothing better is
    promised. A law a + b/B through such steps would be off by its form, and an interval from its residuals is none.

    >>> import sgdtheory as st
    >>> table = st.fits.StepsTable([64, 256, 1024, 4096], [50000, 14000, 5000, 2800])
    >>> [round(float(steps)) for steps in table.predict([32, 256, 8192])]
    [100000, 14000, 2800]
    >>> round(table.critical_batch_size())
    384

    Attributes:
        batch_sizes: (m,) B > 0, increasing.
        steps: (m,) Y > 0.

    Raises:
        ValueError: fewer than two rows, numbers that are not positive, or batch sizes that do not increase.
    """

    batch_sizes: np.ndarray
    steps: np.ndarray

    def __init__(self, batch_sizes: ArrayLike, steps: ArrayLike) -> None:
        sizes = positive_array("batch_sizes", batch_sizes)
        values = positive_array("steps", steps)
        if sizes.ndim != 1 or sizes.size < 2 or values.shape != sizes.shape or (np.diff(sizes) <= 0).any():
            raise ValueError(
                "batch_sizes must be two or more that increase, and steps as many, got shapes "
                f"{sizes.shape} and {values.shape}; sort the rows"
            )
        object.__setattr__(self, "batch_sizes", sizes)
        object.__setattr__(self, "steps", values)

    def predict(self, batch_size: ArrayLike) -> np.ndarray:
        """Steps at `batch_size`."""
        log_batch = np.log(positive_array("batch_size", batch_size))
        return np.exp(self._log_samples(log_batch) - log_batch)

    def critical_batch_size(self, *, convention: Convention = SMALLEST) -> float:
        """B*, the largest batch size of the table with `B Y(B) ≤ (1 + ω) B_ref Y(B_ref)`.

        Args:
            convention: B_ref, by default the smallest of the table, and ω.
        """
        start = float(np.log(convention.reference_among(self.batch_sizes)))
        limit = float(self._log_samples(start)) + np.log1p(convention.overhead)
        log_batch = np.log(self.batch_sizes)
        fine = np.flatnonzero(np.log(self.batch_sizes * self.steps) <= limit)
        if not fine.size or fine[-1] == log_batch.size - 1:
            return float(np.exp(start if not fine.size else log_batch[-1]))
        low = float(log_batch[fine[-1]])
        high = float(log_batch[fine[-1] + 1])
        crossing: Any = optimize.brentq(lambda place: float(self._log_samples(place)) - limit, low, high)
        return float(np.exp(crossing))

    def _log_samples(self, log_batch: ArrayLike) -> np.ndarray:
        """log B Y, of log B."""
        rows = np.log(self.batch_sizes)
        place = np.asarray(log_batch, dtype=float)
        inside = PchipInterpolator(rows, np.log(self.batch_sizes * self.steps))(np.clip(place, rows[0], rows[-1]))
        return inside + np.maximum(place - rows[-1], 0.0)
