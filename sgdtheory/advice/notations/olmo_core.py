"""OLMo-core's `BatchSizeSchedulerCallback`.

`src/olmo_core/train/callbacks/batch_size_scheduler.py` of allenai/OLMo-core at ce0b9f4: `batch_sizes`, in tokens, and
`schedule`, `Duration`s of one unit from 0 on. Batch sizes may change by whole factors alone, and the next one waits for
a whole number of its batches, so starts are multiples of it here. The base learning rate, that of the first stage, is
multiplied by √(new/old) at each change, for Adam alone. Schedulers count steps unless `units` are tokens
(`src/olmo_core/optim/scheduler.py`); WSD is not refused with steps, and moves.
"""

import math

import numpy as np

from sgdtheory.advice.notations.notation import Notation, no_ramp
from sgdtheory.advice.ramped_run import RampedRun
from sgdtheory.fits import Stages

ROOT = 0.5
# The search tries this many first batch sizes. More cost time, and neighbours differ by less than 4% in a ramp by 16.
FIRST_SIZES = 100
FACTOR_TOLERANCE = 1e-7  # A start is known to this fraction of the samples of the run, less than a step of it.


def olmo_core(run: RampedRun, *, sequence_length: int) -> Notation:
    """The callback, and a WSD scheduler in tokens.

    Of ramps by whole factors, and of constant batch sizes, the one that reaches the target in the fewest steps is
    written.

    Args:
        run: the run.
        sequence_length: tokens of a sequence: OLMo-core counts tokens.
    """
    stages = _whole_factors(run.stages)
    if stages != run.stages and _grows(run.stages):
        stages = _fewest_steps(run)
    real = run.with_stages(stages, ROOT)
    sizes = [size * sequence_length for _, size in stages]
    starts = [start * sequence_length for start, _ in stages]
    settings = {
        "batch_sizes": sizes,
        "schedule": starts,
        "lr": float(real.peak_learning_rates[0]),
        "warmup": run.warmup_samples * sequence_length,
        "decay": run.decay_samples * sequence_length,
        "max_duration": run.num_samples * sequence_length,
    }
    durations = ", ".join(f"Duration.tokens({start})" for start in starts)
    text = (
        f"BatchSizeSchedulerCallback(batch_sizes={sizes}, schedule=[{durations}])\n"
        f'WSD(units="tokens", warmup={settings["warmup"]}, decay={settings["decay"]}, decay_fraction=None)\n'
        f"lr={settings['lr']:.6g}  max_duration=Duration.tokens({settings['max_duration']})"
    )
    remarks = ["lr is that of the first stage: the callback multiplies it by √(new/old) at each change"]
    if run.exponent != ROOT:
        remarks.append(f"OLMo-core has γ ∝ √B alone, not B^{run.exponent:g}")
    remarks += no_ramp(run, real, "by whole factors, each at a multiple of the next batch size")
    return Notation("OLMo-core", text, settings, real, tuple(remarks))


def _grows(stages: Stages) -> bool:
    sizes = [size for _, size in stages]
    return sizes == sorted(sizes)


def _fewest_steps(run: RampedRun) -> Stages:
    """The ramp by whole factors, or the constant batch size, that reaches the target in the fewest steps.

    From each first batch size the others follow the planned ones by the nearest whole factors. All of them begin later
    than planned by one factor, the least one with which the run reaches its target.
    """
    target = run.target
    unit = run.batch_unit
    latest = target.num_samples / run.stages[1][0]  # with it the first stage fills the run
    found = [target.constant(unit).stages]
    sizes = np.geomspace(run.stages[0][1] / 2, run.stages[-1][1], FIRST_SIZES)
    for first in np.unique(np.maximum(unit, unit * np.round(sizes / unit))).astype(int).tolist():
        low = 0.0
        high = latest
        if not target.is_reached(_by_factors(run.stages, first, high)):
            continue
        while high - low > FACTOR_TOLERANCE * latest:
            middle = (low + high) / 2
            low, high = (low, middle) if target.is_reached(_by_factors(run.stages, first, middle)) else (middle, high)
        found.append(target.within(_by_factors(run.stages, first, high)))
    return min(found, key=lambda stages: (target.steps(stages), len(stages)))


def _by_factors(planned: Stages, first: int, later: float) -> Stages:
    """Return the stages by the nearest whole factors from a first batch size on, `later` times as late as planned."""
    stages = [(0, first)]
    for start, size in planned[1:]:
        before = stages[-1][1]
        near = before * max(1, round(size / before))
        begin = near * math.ceil(later * start / near)
        if near == before:
            continue
        if begin > stages[-1][0]:
            stages.append((begin, near))
        else:  # the stage before would have no step
            stages[-1] = (near * math.ceil(stages[-1][0] / near), near)
    return tuple(stages)


def _whole_factors(planned: Stages) -> Stages:
    """The planned ramp with batch sizes that are whole multiples of the one before, or its whole parts."""
    stages = [planned[0]]
    for start, size in planned[1:]:
        before = stages[-1][1]
        if size >= before:
            near = before * max(1, round(size / before))
        else:
            near = max(
                (each for each in range(1, before + 1) if before % each == 0), key=lambda each: -abs(each - size)
            )
        begin = near * round(start / near)
        if near != before and begin > stages[-1][0]:
            stages.append((begin, near))
    return tuple(stages)
