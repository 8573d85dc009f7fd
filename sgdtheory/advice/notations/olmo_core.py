"""OLMo-core's `BatchSizeSchedulerCallback`.

`src/olmo_core/train/callbacks/batch_size_scheduler.py` of allenai/OLMo-core at ce0b9f4: `batch_sizes`, in tokens, and
`schedule`, `Duration`s of one unit from 0 on. Batch sizes may change by whole factors alone, and the next one waits for
a whole number of its batches, so starts are multiples of it here. The base learning rate, that of the first stage, is
multiplied by √(new/old) at each change, for Adam alone. Schedulers count steps unless `units` are tokens
(`src/olmo_core/optim/scheduler.py`); WSD is not refused with steps, and moves.
"""

from sgdtheory.advice.notations.notation import Notation
from sgdtheory.advice.ramped_run import RampedRun

ROOT = 0.5


def olmo_core(run: RampedRun, *, sequence_length: int) -> Notation:
    """The callback, and a WSD scheduler in tokens.

    Args:
        run: the run.
        sequence_length: tokens of a sequence: OLMo-core counts tokens.
    """
    stages = _whole_factors(run)
    real = RampedRun(stages, run.num_samples, run.learning_rate, ROOT, run.warmup_samples, run.decay_samples)
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
    if stages != run.stages:
        remarks.append(
            "batch sizes change by whole factors, at multiples of the next one: not the ramp that was planned"
        )
    return Notation("OLMo-core", text, settings, real, tuple(remarks))


def _whole_factors(run: RampedRun) -> tuple[tuple[int, int], ...]:
    """The nearest ramp whose batch sizes are whole multiples of the one before, or its whole parts."""
    stages = [run.stages[0]]
    for start, size in run.stages[1:]:
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
