"""Data sizes of which a critical batch size can be asked."""

from typing import Protocol

import numpy as np

from sgdtheory._common.arguments import first_where, positive_array
from sgdtheory._common.array_like import ArrayLike
from sgdtheory.critical.step_search import ROUNDING

MOST_SAMPLES = 1e20  # Up to this many samples, the searches can distinguish n from n + 1 steps well enough.


def checked_samples(num_samples: ArrayLike, workers: int = 1) -> np.ndarray:
    """Data sizes of which B* can be asked."""
    samples = positive_array("num_samples", num_samples)
    if (short := samples < 2 * workers).any():
        each = "" if workers == 1 else f" for each of {workers} workers"
        raise ValueError(
            f"num_samples must be at least 2{each} (a single step learns nothing), got {first_where(samples, short)}"
        )
    if samples.size == 0 or samples.max() > MOST_SAMPLES:
        raise ValueError(
            f"num_samples must hold at least one value, none above {MOST_SAMPLES:g}, got "
            f"{samples.max() if samples.size else 'none'}"
        )
    return samples


class Begun(Protocol):
    """Runs of K workers that begin with the risk of w_0."""

    initial_risk: float
    workers: int


def require_learnt(tuned: Begun, samples: float, risk: float) -> None:
    """The least risk with D samples has to be less than the initial one."""
    if risk >= tuned.initial_risk * (1 - ROUNDING):
        raise ValueError(
            f"num_samples must be large enough to learn anything, got {samples * tuned.workers:g}, with which the "
            f"least risk is the initial one, {risk:g}, to rounding"
        )


def require_several_steps(samples: float, steps: float) -> None:
    """Raise ValueError where one step is best: then there is no critical batch size."""
    if steps == 1:
        raise ValueError(
            f"num_samples must be so large that one step with all of them is not the best, got {samples:g}: there "
            "every batch size up to num_samples can be had without more data, and none is critical"
        )
