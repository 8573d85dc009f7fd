"""Newton's step on a panel, whose modes are coupled by a few sums."""

from typing import NamedTuple

import numpy as np


class PanelJacobian(NamedTuple):
    """Inverse of the derivatives of a panel's equations at its p points; a mode has p q unknowns.

    Attributes:
        inverse: (S, K, p q, p q) inverse of a mode's own block, the sums given.
        by_sum: (S, K, p q, p Q) response of a mode to the sums.
        sum_by_value: (S, K, p Q, p q) derivatives of the sums by the mode's values.
        coupling: (S, p Q, p Q) inverse of the system that couples the modes.
    """

    inverse: np.ndarray
    by_sum: np.ndarray
    sum_by_value: np.ndarray
    coupling: np.ndarray

    def correction(self, residual: np.ndarray) -> np.ndarray:
        """Return Newton's step (q, S, p, K) from the residuals of the equations."""
        q, runs, p, size = residual.shape
        ordered = residual.transpose(1, 3, 2, 0).reshape(runs, size, p * q, 1)
        alone = (self.inverse @ ordered)[..., 0]
        sums = self.coupling @ (self.sum_by_value @ alone[..., None]).sum(axis=1)
        step = alone + (self.by_sum @ sums[:, None])[..., 0]
        return step.reshape(runs, size, p, q).transpose(3, 0, 2, 1)
