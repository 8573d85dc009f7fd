"""Warm-up, decay and number of steps after a change of batch size: samples kept, in whole steps."""

import math

from sgdtheory.advice.row import AdviceRow
from sgdtheory.advice.setup import TrainingSetup

DIGITS = 6  # Decimals of a number of steps that count; all that is further off is rounding.


def warmup_row(current: TrainingSetup, new: float, momentum: AdviceRow | None) -> AdviceRow | None:
    """Steps of warm-up."""
    if current.warmup_steps is None:
        return None
    steps = current.warmup_steps * current.batch_size / new
    memory = 1 / (1 - momentum.new) if momentum else 1.0
    counts = _whole(steps, min(steps, memory), max(steps, current.warmup_steps))
    reason = (
        f"the samples of the warm-up are kept; in theory about {memory:.2g} steps, the memory of the momentum, are "
        "enough, but networks need a warm-up for stability, which is not modelled here"
    )
    source = "arXiv 1706.02677; finding: schedules"
    return AdviceRow("warmup_steps", current.warmup_steps, *counts, reason, source)


def decay_row(current: TrainingSetup, new: float, data: AdviceRow) -> AdviceRow | None:
    """Steps of decay, a share of the run as before."""
    if current.decay_steps is None:
        return None
    reason = "the same share of the run: a decay averages out the noise of the last samples, whatever the batch size"
    return AdviceRow(
        "decay_steps", *_stretched(current.decay_steps, current, new, data), reason, "T28; finding: schedules"
    )


def num_steps_row(current: TrainingSetup, new: float, data: AdviceRow) -> AdviceRow | None:
    """Steps of the run, for the same loss."""
    if current.num_steps is None:
        return None
    if current.num_steps * current.batch_size < new:
        raise ValueError(
            f"new_batch_size must be at most num_steps × batch_size = {current.num_steps * current.batch_size:g}, all "
            f"samples of the run in one step, got {new:g}"
        )
    reason = "for the same loss: the same data, and the extra data below"
    return AdviceRow("num_steps", *_stretched(current.num_steps, current, new, data), reason, data.source)


def _stretched(steps: float, current: TrainingSetup, new: float, data: AdviceRow) -> tuple[float, float, float, float]:
    """Old, new, low and high."""
    same = steps * current.batch_size / new
    return steps, *_whole(same * (1 + data.new), same * (1 + data.low), same * (1 + data.high))


def _whole(steps: float, low: float, high: float) -> tuple[float, float, float]:
    """Whole steps, at least one where there are any, and whole ends around them; nan stays."""
    value = float(max(round(steps), 1)) if steps > 0 else 0.0
    if math.isnan(low):
        return value, low, high
    # a whole number that floating point missed by its last digits stays that number
    ends = math.floor(round(low, DIGITS)), math.ceil(round(high, DIGITS))
    return value, min(value, float(ends[0])), max(value, float(ends[1]))
