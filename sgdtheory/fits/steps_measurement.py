"""Steps to one target at several batch sizes, as they were measured."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sgdtheory._common.array_like import ArrayLike
from sgdtheory._common.csv_rows import positive_cell
from sgdtheory._common.files import csv_number
from sgdtheory.fits.conventions import Convention

# Columns of a file of steps.
COLUMNS = "critical_batch_size", "critical_low", "critical_high", "reference", "overhead", "level", "u_shaped"


class FittedCriticalBatchSize(NamedTuple):
    """B* with the interval of the fit that it is from.

    >>> import sgdtheory as st
    >>> found = st.fits.FittedCriticalBatchSize(277.0, 140.0, 548.0, st.Convention(None, 0.2), 0.95)
    >>> found.answers(st.Convention(16, 0.2), [16, 64, 256])
    True

    Attributes:
        batch_size: B*.
        low, high: ends of its interval; 0 and inf where the fit does not tell them.
        convention: of B*; without a reference it is the smallest batch size of the steps.
        level: of the interval.
        u_shaped: whether the law that was fitted has a term c/B² too: an optimal batch size.
    """

    batch_size: float
    low: float
    high: float
    convention: Convention
    level: float
    u_shaped: bool = False

    @property
    def interval(self) -> tuple[float, float]:
        """Both ends."""
        return self.low, self.high

    def answers(self, convention: Convention, batch_sizes: ArrayLike) -> bool:
        """Tell whether this is B* of that convention; `batch_sizes` are those of the steps."""
        references = (each.reference_among(batch_sizes) for each in (self.convention, convention))
        return self.convention.overhead == convention.overhead and len(set(references)) == 1

    def require(self, level: float) -> None:
        """Refuse intervals at another level than the fit's: no one but the fit can say them.

        Raises:
            ValueError: it is another one.
        """
        if level != self.level:
            raise ValueError(
                f"level must be {self.level:g}, at which these steps were fitted, got {level:g}: fit them at that level"
            )

    @property
    def cells(self) -> tuple[float | str | None, ...]:
        """Cells of the COLUMNS of a file; no reference stands for the smallest batch size of the steps."""
        return (
            *self[:3],
            self.convention.reference,
            self.convention.overhead,
            self.level,
            "yes" if self.u_shaped else "no",
        )


def fitted_in(row: Mapping[str, str], where: str) -> FittedCriticalBatchSize | None:
    """B* in the cells of a row of a file; None where it has none.

    Raises:
        ValueError: a cell of COLUMNS is not there or holds no number; the message has `where`.
    """
    if not row.get("critical_batch_size", "").strip():
        return None
    missing = [column for column in COLUMNS if column not in row]
    if missing:
        raise ValueError(f"{where}: critical_batch_size needs {', '.join(missing)} too: leave it out, or give these")
    overhead, level = (positive_cell(row[name], name, where) for name in COLUMNS[4:6])
    value, low, high = (_end(row[name], name, where) for name in COLUMNS[:3])
    if not (value > 0 and 0 <= low <= value <= high and level < 1):
        raise ValueError(
            f"{where}: critical_batch_size must lie from critical_low to critical_high, and level below 1, got "
            f"{value:g}, {low:g}, {high:g} and {level:g}"
        )
    reference = positive_cell(row["reference"], "reference", where) if row["reference"].strip() else None
    u_shaped = row["u_shaped"].strip() == "yes"
    return FittedCriticalBatchSize(value, low, high, Convention(reference, overhead), level, u_shaped)


def _end(text: str, column: str, where: str) -> float:
    """A number that may be 0 or infinite: B* is inf where no plateau was measured."""
    try:
        return csv_number(text)
    except ValueError:
        raise ValueError(f"{where}: {column} must be a number, got {text!r}") from None


@dataclass(frozen=True, eq=False)
class StepsMeasurement:
    """Steps to one target at several batch sizes.

    >>> import numpy as np
    >>> import sgdtheory as st
    >>> measured = st.fits.StepsMeasurement("width 64", 64, np.array([16, 64, 256]), np.array([4130, 1180, 443]))

    Attributes:
        group: name of the group of rows, "" where the file has no groups.
        size: its model or data size, nan where the file has none.
        batch_sizes, steps: (m,) in increasing order of batch size.
        standard_errors: (m,) of the steps, relative to them, as `fit_steps_law` takes them; None: not known.
        computed: whether a theory computed the steps: then they do not scatter, and no law is fitted to them (`plan`
            takes a `StepsTable`).
        critical: B* with its interval, where a fit has found it that knows more than these steps; None: it follows from
            them.
        remarks: on the rows of the file: those that were left out or averaged.
    """

    group: str
    size: float
    batch_sizes: np.ndarray
    steps: np.ndarray
    standard_errors: np.ndarray | None = None
    computed: bool = False
    critical: FittedCriticalBatchSize | None = None
    remarks: tuple[str, ...] = ()
