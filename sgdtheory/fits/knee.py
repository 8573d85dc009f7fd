"""The knee of a law of steps: where a batch size 1% larger saves ½% of the steps for ½% more data."""

from typing import Any, Protocol

import numpy as np
from scipy import optimize

from sgdtheory._common.array_like import ArrayLike
from sgdtheory.fits.steps_law import StepsLaw

POINTS = 400  # at which a knee is looked for
FARTHEST = 1e4  # factor beyond the batch sizes of the plan up to which a knee is looked for


class HasSteps(Protocol):
    """A law of steps to a target: a `StepsLaw`, or your own.

    If it has `batch_sizes`, these are what was measured; `steps_interval(batch_size, level)`: intervals of its steps;
    `critical_batch_size(convention=…)`: B*, and `interval(level=…, convention=…)` that of it;
    `smallest_batch_size(convention=…)` and `optimal_batch_size`: where the range begins in which a batch size pays, and
    which takes the least data.
    """

    def predict(self, batch_size: ArrayLike) -> np.ndarray:
        """Steps at `batch_size`."""
        ...


def knee(law: HasSteps, around: tuple[float, float]) -> float:
    """The batch size with the least S E = B S(B)², looked for up to a factor of 10⁴ around; 0 or inf at the ends."""
    if isinstance(law, StepsLaw):
        return law.knee
    low = np.log(around[0] / FARTHEST)
    high = np.log(around[1] * FARTHEST)

    def product(log_batch: float) -> float:
        return log_batch + 2 * float(np.log(law.predict(np.exp(log_batch))))

    grid = np.linspace(low, high, POINTS)
    best = int(np.argmin([product(point) for point in grid]))
    if best in (0, grid.size - 1):
        return 0.0 if best == 0 else float("inf")
    fine: Any = optimize.minimize_scalar(product, bounds=(grid[best - 1], grid[best + 1]), options={"xatol": 1e-9})
    return float(np.exp(fine.x))
