"""Sentences on what limits a critical batch size from loss curves."""

from collections.abc import Sequence

import numpy as np

from sgdtheory.curves.equal_loss import UNKNOWN_FROM, EqualLoss
from sgdtheory.curves.loss_curve import LossCurve
from sgdtheory.curves.loss_table import FEWEST_STEPS

ENOUGH = 1e-3  # The smallest batch size of a table of steps needs at most this fraction more data than D.


def at_least(samples: np.ndarray) -> str:
    """Return the remark on a B* at the largest batch size that is tried."""
    if not samples.size:
        return ""
    sizes = ", ".join(f"{each:g}" for each in samples)
    fewest = f"{FEWEST_STEPS:g}"
    return f"D = {sizes}: B* is D/{fewest} or more, since runs of fewer than {fewest} steps are not looked at"


def below_table(first: float, shares: np.ndarray, adaptive: bool, knows_batch_size: bool) -> str:
    """Return the remark on batch sizes below the first one of a table of steps.

    Adam's small batches need more data in theory (T38), SGD's too by what a step multiplies (T34), which tables of SGD
    leave out.

    Args:
        first: batch size of the first row.
        shares: (k,) data over D that smaller ones need; inf where not known.
        adaptive: whether the optimizer is Adam.
        knows_batch_size: whether batch sizes count in samples.
    """
    more = float(shares[np.isfinite(shares)].max(initial=1.0)) - 1
    if adaptive and more > ENOUGH:
        return f"batch sizes below {first:.4g} take up to {more:.1%} more data in theory and are left out of the plan"
    if not adaptive and knows_batch_size:
        return (
            f"at batch sizes far below {first:.4g} SGD needs more data, as noise grows with the loss: this is left out"
        )
    return ""


def why_open(curves: Sequence[LossCurve], compared: EqualLoss | None, top: float) -> str:
    """Return why an end of the interval of B* is open; empty if none is.

    Args:
        curves: that were fitted.
        compared: B* by comparing runs at equal loss; None where there are too few batch sizes.
        top: largest learning rate that was allowed.
    """
    if curves[0].batch_size is None:
        return "the batch sizes of these curves are not known"
    if compared is None:
        sizes = {float(curve.batch_size[0]) for curve in curves if np.ptp(curve.batch_size) == 0}
        if len(sizes) == 1:
            return f"all runs used one batch size, {min(sizes):g}"
        return "it takes runs at three constant batch sizes or more"
    if compared.at_end:
        sizes = ", ".join(f"{size:g}" for size in compared.at_end)
        return f"at batch size {sizes} the loss still falls towards the smallest or largest learning rate tried"
    low, high = compared.interval
    if low > 0 and np.isfinite(high):
        return ""
    if top > max(float(curve.learning_rate.max()) for curve in curves) * (1 + 1e-9):
        return f"no run has a learning rate of {top:.3g}, with which B* is larger"
    return f"these runs leave an end more than a factor of {UNKNOWN_FROM:g} away"
