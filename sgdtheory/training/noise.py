"""The simple gradient noise scale from the gradients of micro-batches (McCandlish et al. 2018, Appendix A.1)."""

import numpy as np
from jax import Array


def unbiased(small: Array, large: Array, micro_batch: int, batch_size: int) -> tuple[Array, Array]:
    """Estimate ‖g‖² and tr Σ without bias from E‖g_b‖² = ‖g‖² + tr Σ / b at b and at B samples.

    Args:
        small: mean squared norm of the micro-batches' gradients.
        large: squared norm of the mean of these gradients, the batch's gradient.
        micro_batch, batch_size: b < B.
    """
    squared = (batch_size * large - micro_batch * small) / (batch_size - micro_batch)
    trace = (small - large) / (1 / micro_batch - 1 / batch_size)
    return squared, trace


def noise_scale(squared: np.ndarray, trace: np.ndarray) -> np.ndarray:
    """Return tr Σ / ‖g‖² in samples from estimates that were averaged over steps; nan where ‖g‖² is not positive."""
    with np.errstate(all="ignore"):
        return np.where(squared > 0, trace / squared, np.nan)
