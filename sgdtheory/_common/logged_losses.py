"""The rule for losses that are no positive numbers, the same for training logs and for loss curves."""

import numpy as np


def gap(steps: np.ndarray, losses: np.ndarray, last: float) -> np.ndarray:
    """(K,) losses of nan or inf up to the step of the last finite loss: not logged, since a lost run does not return.

    A program may write nan for blank, or for a step that the trainer skipped.
    """
    return ~np.isfinite(losses) & (steps <= last)


def gap_remark(steps: np.ndarray, column: str) -> str:
    """Return the remark on losses of nan or inf at these steps, one or more, that are taken as not logged."""
    rows, are = ("1 row", "is") if steps.size == 1 else (f"{steps.size:,} rows", "are")
    where = f"at step {steps[0]:g}" if steps[0] == steps[-1] else f"between steps {steps[0]:g} and {steps[-1]:g}"
    return f"{column!r} is nan or inf in {rows} {where}, and finite later: {rows} {are} taken as not logged"


def check_positive_losses(steps: np.ndarray, losses: np.ndarray, column: str, name: str, remedy: str) -> None:
    """Refuse losses that are negative, or 0 with others after them; zeros at the end are those of a lost run.

    Args:
        steps, losses: (K,) of the run.
        column: what the caller calls the loss.
        name: of the run, "" without one.
        remedy: what the caller can do.
    """
    bad = np.flatnonzero(np.isfinite(losses) & (losses <= 0))
    if bad.size and ((losses[bad] < 0).any() or (losses[bad[0] :] > 0).any()):
        run = f"{name}: " if name else ""
        raise ValueError(
            f"{run}losses must be positive, and {column!r} is 0 or less in {bad.size:,} of {losses.size:,} rows, "
            f"first at step {steps[bad[0]]:g}, {losses[bad[0]]:g}: rewards, policy gradients and log densities are not "
            f"losses of this theory; {remedy}"
        )
