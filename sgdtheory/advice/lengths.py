"""Warm-up, decay and number of steps after a change of batch size or data, in whole steps.

A change of the batch size alone keeps the samples of all three. A change of the data D keeps the samples of the warm-up
and the share of the decay. On a 124M language model (50,000 steps, AdamW, five peak learning rates, the public logs of
fabian-sp/lr-scheduling) the least losses at decay shares of 10, 20, 60 and 90% are 2.983, 2.968, 2.951 and 2.953, so
that a decay that keeps its samples in a longer run costs loss. The fall of γ* with D is the same for all of these
shares within errors (D^−0.25 to D^−0.36), so that a share need not change with D.
"""

import math

from sgdtheory.advice.row import AdviceRow
from sgdtheory.advice.setup import TrainingSetup

DIGITS = 6  # Numbers of steps are rounded to this many decimals, beyond which digits are rounding errors.


def warmup_row(current: TrainingSetup, new: float, momentum: AdviceRow | None, ratio: float) -> AdviceRow | None:
    """Steps of warm-up; the range has its share of a run with another length, too."""
    if current.warmup_steps is None:
        return None
    steps = current.warmup_steps * current.batch_size / new
    memory = 1 / (1 - momentum.new) if momentum else 1.0
    share = steps * ratio
    counts = _whole(steps, min(steps, share, memory), max(steps, share, current.warmup_steps))
    reason = (
        f"the samples of the warm-up are kept; in theory about {memory:.2g} steps, the memory of the momentum, are "
        "enough, but networks need a warm-up for stability, which is not modelled here"
    )
    if ratio != 1:
        reason += f"; keeping its share of the run instead gives {_whole(share, share, share)[0]:,.0f} steps"
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


def decay_row_of_new_length(current: TrainingSetup, new: float, ratio: float) -> AdviceRow | None:
    """Steps of decay, the same share of the run after its warm-up; the range has the samples kept, too."""
    if current.decay_steps is None:
        return None
    assert current.steps is not None
    same = current.decay_steps * current.batch_size / new
    warmup = current.warmup_steps or 0.0
    share = same * (current.steps * ratio - warmup) / (current.steps - warmup)
    counts = _whole(share, min(share, same), max(share, same))
    reason = (
        "the same share of the run after its warm-up: on a 124M language model the least losses at shares of 10, 20, "
        "60 and 90% were 2.983, 2.968, 2.951 and 2.953, and γ* fell alike with D at all of them; keeping the samples "
        f"of the decay instead gives {_whole(same, same, same)[0]:,.0f} steps"
    )
    source = "T28; finding: schedules; public logs of lr-scheduling"
    return AdviceRow("decay_steps", current.decay_steps, *counts, reason, source)


def num_steps_row(current: TrainingSetup, new: float, data: AdviceRow) -> AdviceRow | None:
    """Steps of the run, for the same loss."""
    if current.steps is None or current.samples is None:
        return None
    if current.samples < new:
        raise ValueError(
            f"new_batch_size must be at most num_steps × batch_size = {current.samples:g}, all "
            f"samples of the run in one step, got {new:g}"
        )
    reason = "for the same loss: the same data, and the extra data below"
    return AdviceRow("num_steps", *_stretched(current.steps, current, new, data), reason, data.source)


def num_steps_row_of_new_length(current: TrainingSetup, new: float, new_samples: float) -> AdviceRow:
    """Steps of the run with its new data.

    Raises:
        ValueError: fewer data than one batch, or a warm-up as long as the run, now or with its new data.
    """
    assert current.steps is not None
    assert current.samples is not None
    if new_samples < new:
        raise ValueError(f"new_num_samples must be at least the batch size, {new:g}, got {new_samples:g}")
    warmup = (current.warmup_steps or 0.0) * current.batch_size
    for name, samples in (("run", current.samples), ("new run", new_samples)):
        if warmup >= samples:
            raise ValueError(
                f"the warm-up must be shorter than the {name}, whose data are {samples:g}, got {warmup:g} samples of "
                "warm-up, which are kept: give fewer warmup_steps (--warmup)"
            )
    steps = _whole(new_samples / new, new_samples / new, new_samples / new)[0]
    return AdviceRow("num_steps", current.steps, steps, steps, steps, "the new data, in batches", "your new data")


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
