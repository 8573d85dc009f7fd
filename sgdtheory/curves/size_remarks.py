"""Sentences on batch sizes of a fitted theory that were not looked at."""

import numpy as np

from sgdtheory.curves.loss_table import FEWEST_STEPS

ENOUGH = 1e-3  # more than D that the smallest batch size of a table of steps needs


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
