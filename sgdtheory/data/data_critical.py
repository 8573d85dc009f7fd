"""The critical batch size of data, with intervals."""

from dataclasses import dataclass

import numpy as np

from sgdtheory._common.sheets import Quantity, Sheet, Table
from sgdtheory._common.shown import Shown
from sgdtheory.critical import CriticalBatchSize


@dataclass(frozen=True)
class DataCriticalBatchSize(Shown):
    """B* of data, with intervals.

    Attributes:
        num_samples: (K,) D.
        batch_size: (K,) B*, whole.
        real_batch_size: (K,) B* without its rounding to a whole number, as the interval is.
        interval: (K, 2) that holds both, from resampling the rows; from 1 to inf where they do not tell signal from
            noise, or their squares rest on few of them.
        critical: the CriticalBatchSize behind it.
        level: of the interval.
    """

    num_samples: np.ndarray
    batch_size: np.ndarray
    real_batch_size: np.ndarray
    interval: np.ndarray
    critical: CriticalBatchSize
    level: float = 0.95

    def sheet(self) -> Sheet:
        """Return B* at each data size with its interval, and the run at B*."""
        found = self.critical
        quantities = [
            Quantity("num_samples", "D", self.num_samples),
            Quantity("real_critical_batch_size", "", self.real_batch_size),
            Quantity("", "B*", self.real_batch_size, self.interval),
            Quantity("critical_batch_size", "", self.batch_size),
            Quantity("num_steps", "steps", np.atleast_1d(found.num_steps)),
            Quantity("learning_rate", "γ at B*", np.atleast_1d(found.learning_rate)),
            Quantity("optimal_risk", "R_opt", np.atleast_1d(found.optimal_risk)),
        ]
        title = f"critical batch size at {100 * found.overhead:.3g}% overhead"
        hidden = "critical_batch_size", "real_critical_batch_size"
        table = Table(quantities, interval=f"{self.level:.0%}", hidden=hidden)
        return Sheet(title, [table], [found.remark], {"interval": self.interval})
