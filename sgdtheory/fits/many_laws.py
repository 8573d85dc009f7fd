"""B* of many laws at once, for resampling: the same least squares as one by one."""

import numpy as np

from sgdtheory.fits.conventions import Convention
from sgdtheory.fits.golden_section import golden_section
from sgdtheory.fits.log_least_squares import below, log_least_squares
from sgdtheory.fits.profile_likelihood import ratio_range
from sgdtheory.fits.steps_fit import INVISIBLE
from sgdtheory.fits.u_shaped_law import visible
from sgdtheory.fits.u_shaped_profile import terms_at
from sgdtheory.fits.useful_range import useful_range

GRID = 200  # of log(b/a), in which the least sum of squares is looked for


def critical_batch_sizes_of(batch_sizes: np.ndarray, steps: np.ndarray, convention: Convention) -> np.ndarray:
    """(R,) B* of a + b/B fitted to each row of `steps`, (R, m), at `batch_sizes`, (m,), as `StepsLaw` has it."""
    log_batch = np.log(batch_sizes)
    log_steps = np.log(steps)

    def squares(log_ratio: np.ndarray) -> np.ndarray:
        """(R,) residual sum of squares at log(b/a), (R,)."""
        rest = log_steps - np.logaddexp(0.0, log_ratio[:, None] - log_batch)
        return ((rest - rest.mean(1, keepdims=True)) ** 2).sum(1)

    grid = np.linspace(*ratio_range(log_batch, 1.0), GRID)
    shape = np.logaddexp(0.0, grid[:, None] - log_batch)
    shape -= shape.mean(1, keepdims=True)
    start = grid[((shape**2).sum(1) - 2 * log_steps @ shape.T).argmin(1)]  # less the steps' own squares
    log_ratio = golden_section(squares, start - (grid[1] - grid[0]), start + (grid[1] - grid[0]))
    reference = convention.reference_among(batch_sizes)
    critical = convention.overhead * np.exp(log_ratio) + (1 + convention.overhead) * reference
    return np.where(log_ratio - log_batch.max() > INVISIBLE, np.inf, critical)


def useful_ranges_of(batch_sizes: np.ndarray, steps: np.ndarray, convention: Convention) -> np.ndarray:
    """(R, 3) B_opt, the smallest and the largest useful batch size of a + b/B + c/B², as `UShapedLaw` has them."""
    log_steps = np.log(steps)
    terms = terms_at(batch_sizes)
    theta, _ = log_least_squares(log_steps, terms, np.ones(batch_sizes.size), below(log_steps, terms[None]))
    found = useful_range(visible(theta, terms, steps), convention.reference_among(batch_sizes), convention.overhead)
    return np.stack(found, -1)
