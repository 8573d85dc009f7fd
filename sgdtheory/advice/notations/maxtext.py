"""MaxText's ramp.

`src/maxtext/utils/rampup_batch.py` and `configs/base.yml` of AI-Hypercomputer/maxtext at e591f30:
`enable_rampup_batch_size`, batch sizes of a device from `per_device_batch_size_start` to `per_device_batch_size` in
equal increments, each after `global_rampup_samples` over their number; samples beyond a stage's share are not carried
over, so that a stage has ⌈share/B⌉ steps. Batch sizes are `int(devices · per_device_batch_size)`, so a device has whole
samples here. The ramp does not count `gradient_accumulation_steps`, which stays 1. Schedules count steps: warm-up and
decay are shares of `learning_rate_schedule_steps`, `int(steps · share)`, so half a step is added to each.
"""

import math
from typing import Any

from sgdtheory._common.arguments import whole_number
from sgdtheory.advice.notations.notation import Notation, no_ramp, one_rate
from sgdtheory.advice.ramped_run import RampedRun
from sgdtheory.fits import Stages


def maxtext(run: RampedRun, *, num_devices: int = 1) -> Notation:
    """The nearest ramp by equal increments, or a constant batch size, and a schedule in the steps that it takes.

    Args:
        run: the run.
        num_devices: all that the run is on, the same number from its first step to its last. Batch sizes are multiples
            of it.
    """
    devices = whole_number("num_devices", num_devices, 1)
    even = run.nearest_even(maxtext_stages, devices)
    real = run.with_stages(even.stages)
    steps = real.num_steps
    ramp = {
        "enable_rampup_batch_size": True,
        "per_device_batch_size_start": even.start / devices,
        "per_device_batch_size_increment": even.increment / devices,
        "global_rampup_samples": even.samples,
    }
    settings: dict[str, Any] = {
        **(ramp if even.count else {}),
        "per_device_batch_size": even.last / devices,
        "steps": steps,
        "learning_rate_schedule_steps": steps,
        "warmup_steps_fraction": _share(real.warmup_steps, steps),
        "learning_rate": float(real.learning_rate),
    }
    if run.decay_samples:
        settings |= {"lr_schedule_type": "wsd", "wsd_decay_steps_fraction": _share(real.decay_steps, steps)}
    lines = [f"{name}: {str(value).lower() if value is True else value}" for name, value in settings.items()]
    text = "\n".join([f"# devices: {devices}", *lines])
    remarks = (
        "warm-up and decay are shares of the steps that this ramp takes: another ramp needs others",
        *no_ramp(run, real, f"by equal increments between planned batch sizes, in multiples of {devices} devices"),
        *one_rate(real, "MaxText"),
    )
    return Notation("MaxText", text, settings, real, remarks)


def maxtext_stages(start: int, increment: int, count: int, samples: int) -> Stages:
    """Stages of MaxText's ramp: each has as many whole steps as its share of the ramp-up samples needs."""
    stages = [(0, start)]
    for j in range(1, count + 1):
        begin, size = stages[-1]
        stages.append((begin + math.ceil(samples / count / size) * size, start + j * increment))
    return tuple(stages)


def _share(steps: int, all_steps: int) -> float:
    """`int(all_steps · share)` is `steps`."""
    return (steps + 0.5) / all_steps if steps else 0.0
