"""`sgdtheory noise-scale`: the gradient noise scale from squared gradient norms in a log."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from sgdtheory._common.sheets import Sheet
from sgdtheory.cli.flags import File
from sgdtheory.cli.log_flags import remarks_of_logs
from sgdtheory.fits import fit_noise_scale
from sgdtheory.logs import read_logs


def noise_scale(
    log: File,
    small_batch: float,
    large_batch: float,
    small_norms: str = "small_norm",
    large_norms: str = "large_norm",
    unsquared: bool = False,
    step: str | None = None,
    level: float = 0.95,
) -> Sheet:
    """Gradient noise scale tr Σ/‖G‖² along a run, from squared gradient norms at two batch sizes.

    It is not the critical batch size: the guide "From your logs" says how far the two are apart.

    Args:
        log: CSV file or any other log of one run that `sgdtheory fit-curves` reads.
        small_batch: Samples of a micro batch.
        large_batch: Samples of the whole batch, over all devices and accumulated micro batches.
        small_norms: Column with the squared norm of a micro batch's gradient, or its mean over micro batches.
        large_norms: Column with the squared norm of the whole batch's gradient, before clipping.
        unsquared: The columns have norms, not their squares (then of one micro batch: a mean of norms will not do).
        step: Column with the step; None: guessed.
    """
    small, remarks = _column(log, small_norms, step)
    large, more = _column(log, large_norms, step)
    steps = sorted(small.keys() | large.keys())
    power = 2 if unsquared else 1
    # A step at which one of the two norms was not logged has nan in its place, and the fit leaves it out.
    norms = [np.array([column.get(each, np.nan) for each in steps]) ** power for column in (small, large)]
    found = fit_noise_scale(*norms, small_batch=small_batch, large_batch=large_batch, steps=np.array(steps))
    sheet = found.sheet(level)
    return replace(sheet, remarks=[*sheet.remarks, *remarks, *more])


def _column(log: Path, name: str, step: str | None) -> tuple[dict[float, float], list[str]]:
    """Return step → value of a column of a log, which is read in place of a loss, and the remarks of the log."""
    logs = read_logs(log, loss=name, step=step)
    if len(logs) != 1:
        runs = ", ".join(each.name for each in logs)
        raise ValueError(f"{log} holds {len(logs)} runs ({runs}): give the log of one")
    return dict(zip(logs[0].step.tolist(), logs[0].loss.tolist(), strict=True)), remarks_of_logs(logs)
