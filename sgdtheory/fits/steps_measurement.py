"""Steps to one target at several batch sizes, as they were measured."""

from dataclasses import dataclass

import numpy as np

from sgdtheory.fits.fitted_critical import FittedCriticalBatchSize


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
