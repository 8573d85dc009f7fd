"""Steps that a theory computed, as a table between whose rows the data are interpolated: no law is fitted to them."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import optimize, special
from scipy.interpolate import PchipInterpolator

from sgdtheory._common.arguments import positive_array, share_between_0_and_1
from sgdtheory._common.array_like import ArrayLike
from sgdtheory.fits.conventions import SMALLEST, Convention
from sgdtheory.fits.steps_measurement import FittedCriticalBatchSize


@dataclass(frozen=True, eq=False)
class StepsTable:
    """Steps Y to a target at several batch sizes, computed and so without scatter, for `plan`.

    The samples B Y(B) are interpolated monotonically in logs, so that they are nowhere fewer than at the rows around.
    Below the table they are those of its first row, above it the steps are those of its last: nothing better is
    promised. A law a + b/B through such steps would be off by its form, and an interval from its residuals is none.

    How far the steps are known comes from either of two:

    - `critical`, B* with an interval from low to high. The samples of the first row are given, and a B* which is c
      times as large moves the others by c: samples at B lie between those at `B B*/high` and at `B B*/low`. Where these
      ends take (1 + ω) times the samples is that very interval. (Of fitted loss curves it is that of the steps
      themselves within a quarter, from B* on; below B* it is narrower.)
    - `standard_errors`, of each row by itself.

    >>> import sgdtheory as st
    >>> table = st.fits.StepsTable([64, 256, 1024, 4096], [50000, 14000, 5000, 2800])
    >>> [round(float(steps)) for steps in table.predict([32, 256, 8192])]
    [100000, 14000, 2800]
    >>> round(table.critical_batch_size()), table.interval()
    (384, (nan, nan))
    >>> known = st.fits.StepsTable([64, 256, 1024, 4096], [50000, 14000, 5000, 2800], standard_errors=0.02)
    >>> [round(end) for end in known.interval()], [round(float(end)) for end in known.steps_interval(256)]
    ([313, 456], [13462, 14560])

    Attributes:
        batch_sizes: (m,) B > 0, increasing.
        steps: (m,) Y > 0.
        standard_errors: (m,) of the steps, relative to them; None: not known.
        critical: B* as the theory's fit has found it; None: read off the table.
        remark: what a reader should know of batch sizes that are not in it; "" if nothing.

    Raises:
        ValueError: fewer than two rows, numbers that are not positive, batch sizes that do not increase, or both
            standard errors and a B*.
    """

    batch_sizes: np.ndarray
    steps: np.ndarray
    standard_errors: np.ndarray | None
    critical: FittedCriticalBatchSize | None
    remark: str

    def __init__(
        self,
        batch_sizes: ArrayLike,
        steps: ArrayLike,
        *,
        standard_errors: ArrayLike | None = None,
        critical: FittedCriticalBatchSize | None = None,
        remark: str = "",
    ) -> None:
        sizes = positive_array("batch_sizes", batch_sizes)
        values = positive_array("steps", steps)
        if sizes.ndim != 1 or sizes.size < 2 or values.shape != sizes.shape or (np.diff(sizes) <= 0).any():
            raise ValueError(
                "batch_sizes must be two or more that increase, and steps as many, got shapes "
                f"{sizes.shape} and {values.shape}; sort the rows"
            )
        if standard_errors is not None:
            errors = positive_array("standard_errors", standard_errors)
            # The interval of a B* has the errors of all steps in it already.
            if critical is not None or errors.shape not in ((), sizes.shape):
                raise ValueError(
                    f"standard_errors must be one number or as many as steps, got shape {errors.shape}; leave them out "
                    "where the critical batch size is given"
                )
            standard_errors = np.broadcast_to(errors, sizes.shape)
        # The dataclass is frozen.
        vars(self).update(
            batch_sizes=sizes, steps=values, standard_errors=standard_errors, critical=critical, remark=remark
        )

    def predict(self, batch_size: ArrayLike) -> np.ndarray:
        """Steps at `batch_size`."""
        log_batch = np.log(positive_array("batch_size", batch_size))
        return np.exp(self._log_samples(log_batch) - log_batch)

    def steps_interval(self, batch_size: ArrayLike, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Interval (low, high) of the steps at `batch_size`, of its shape; nan where nothing says how far they are.

        Raises:
            ValueError: a level outside (0, 1), or another one than that of `critical`.
        """
        log_batch = np.log(positive_array("batch_size", batch_size))
        if self.critical is not None:
            self.critical.require(level)
            with np.errstate(divide="ignore"):  # an end at 0 moves the curve beyond all batch sizes
                low, high = np.log(self.critical.batch_size) - np.log(self.critical.interval)[::-1]
            low, high = (np.exp(self._log_samples(log_batch + end) - log_batch) for end in (low, high))
            return low, high
        reach = self._reach(level)
        error = np.full(log_batch.shape, np.nan) if reach is None else np.interp(log_batch, self._rows, reach)
        steps = self.predict(batch_size)
        return steps * np.exp(-error), steps * np.exp(error)

    def critical_batch_size(self, *, convention: Convention = SMALLEST) -> float:
        """B*, the largest batch size of the table with `B Y(B) ≤ (1 + ω) B_ref Y(B_ref)`; by its convention `critical`.

        Args:
            convention: B_ref, by default the smallest of the table, and ω.
        """
        if self.critical is not None and self.critical.answers(convention, self.batch_sizes):
            return self.critical.batch_size
        return self._largest(self.steps, *self._limit(convention))

    def interval(self, *, level: float = 0.95, convention: Convention = SMALLEST) -> tuple[float, float]:
        """Interval of B*: where the ends of the steps' intervals take as many samples; nan where these have none.

        Of `critical` it is that B*'s own; by another convention as far off by the same factors.

        Raises:
            ValueError: as of `steps_interval`.
        """
        critical = self.critical_batch_size(convention=convention)
        if self.critical is not None:
            self.critical.require(level)
            low, high = (critical * end / self.critical.batch_size for end in self.critical.interval)
            return low, high
        reach = self._reach(level)
        if reach is None:
            return float("nan"), float("nan")
        limit = self._limit(convention)
        low, high = (self._largest(self.steps * np.exp(side * reach), *limit) for side in (1, -1))
        return low, float("inf") if high == self.batch_sizes[-1] else high  # beyond the table nothing limits it

    # ------------------------------------------------------------------ samples

    @cached_property
    def _rows(self) -> np.ndarray:
        return np.log(self.batch_sizes)

    def _reach(self, level: float) -> np.ndarray | None:
        """(m,) half widths of the intervals of log steps."""
        quantile = float(special.ndtri((1 + share_between_0_and_1("level", level)) / 2))
        return None if self.standard_errors is None else quantile * self.standard_errors

    def _limit(self, convention: Convention) -> tuple[float, float]:
        """log B_ref, and log of the samples that B* may take."""
        start = float(np.log(convention.reference_among(self.batch_sizes)))
        return start, float(self._log_samples(start)) + np.log1p(convention.overhead)

    def _largest(self, steps: np.ndarray, start: float, limit: float) -> float:
        """The largest batch size with log samples up to `limit`; that of `start` if no row has."""
        samples = self._rows + np.log(steps)
        fine = np.flatnonzero(samples <= limit)
        if not fine.size or fine[-1] == self._rows.size - 1:
            return float(np.exp(start) if not fine.size else self.batch_sizes[-1])
        curve = PchipInterpolator(self._rows, samples)
        ends = self._rows[fine[-1] : fine[-1] + 2]
        crossing: Any = optimize.brentq(lambda place: float(curve(place)) - limit, *ends)
        return float(np.exp(crossing))

    def _log_samples(self, log_batch: ArrayLike) -> np.ndarray:
        """log B Y, of log B."""
        place = np.asarray(log_batch, dtype=float)
        first, last = self._rows[[0, -1]]
        inside = PchipInterpolator(self._rows, self._rows + np.log(self.steps))(np.clip(place, first, last))
        return inside + np.maximum(place - last, 0.0)
