"""B* of many laws a + b/B at once, for resampling: the same least squares as one by one."""

import numpy as np

from sgdtheory.fits.conventions import Convention
from sgdtheory.fits.profile_likelihood import ratio_range
from sgdtheory.fits.steps_law import INVISIBLE

GRID = 200  # of log(b/a), in which the least sum of squares is looked for
NARROWINGS = 40  # of the interval about it, by the golden section
GOLDEN = (np.sqrt(5) - 1) / 2


def critical_batch_sizes_of(batch_sizes: np.ndarray, steps: np.ndarray, convention: Convention) -> np.ndarray:
    """(R,) B* of the law fitted to each row of `steps`, (R, m), at `batch_sizes`, (m,), as `StepsLaw` has it."""
    log_batch, log_steps = np.log(batch_sizes), np.log(steps)

    def squares(log_ratio: np.ndarray) -> np.ndarray:
        """(R,) residual sum of squares at log(b/a), (R,)."""
        rest = log_steps - np.logaddexp(0.0, log_ratio[:, None] - log_batch)
        return ((rest - rest.mean(1, keepdims=True)) ** 2).sum(1)

    grid = np.linspace(*ratio_range(log_batch, 1.0), GRID)
    shape = np.logaddexp(0.0, grid[:, None] - log_batch)
    shape -= shape.mean(1, keepdims=True)
    start = grid[((shape**2).sum(1) - 2 * log_steps @ shape.T).argmin(1)]  # less the steps' own squares
    low, high = start - (grid[1] - grid[0]), start + (grid[1] - grid[0])
    for _ in range(NARROWINGS):
        left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
        lower = squares(left) < squares(right)
        low, high = np.where(lower, low, left), np.where(lower, right, high)
    log_ratio = (low + high) / 2
    reference, overhead = convention.reference_among(batch_sizes), convention.overhead
    critical = overhead * np.exp(log_ratio) + (1 + overhead) * reference
    return np.where(log_ratio - log_batch.max() > INVISIBLE, np.inf, critical)
