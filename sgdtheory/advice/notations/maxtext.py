"""MaxText's ramp.

`src/maxtext/utils/rampup_batch.py` and `configs/base.yml` of AI-Hypercomputer/maxtext at e591f30:
`enable_rampup_batch_size`, batch sizes of a device from `per_device_batch_size_start` to `per_device_batch_size` in
equal increments, each after `global_rampup_samples` over their number; samples beyond a stage's share are not carried
over, so that a stage has ⌈share/B⌉ steps. Schedules count steps: warm-up and decay are shares of
`learning_rate_schedule_steps`, `int(steps · share)`, so half a step is added to each.
"""

import math
from typing import Any

from sgdtheory.advice.notations.notation import Notation, one_rate
from sgdtheory.advice.ramped_run import RampedRun
from sgdtheory.fits import even_stages


def maxtext(run: RampedRun, *, num_devices: int = 1) -> Notation:
    """The nearest even ramp, and a schedule in the steps that it takes."""
    sizes = [size for _, size in run.stages]
    found = even_stages(sizes)
    if found is None:
        raise ValueError("stages must grow from the first batch size to the last for MaxText's ramp")
    start, increment, count = found
    share = run.stages[-1][0] / count
    stages = [(0, start)]
    for j in range(1, count + 1):
        begin, size = stages[-1]
        stages.append((begin + math.ceil(share / size) * size, start + j * increment))
    real = run.with_stages(stages)
    steps = real.num_steps
    settings: dict[str, Any] = {
        "enable_rampup_batch_size": True,
        "per_device_batch_size_start": start / num_devices,
        "per_device_batch_size_increment": increment / num_devices,
        "per_device_batch_size": sizes[-1] / num_devices,
        "global_rampup_samples": run.stages[-1][0],
        "steps": steps,
        "learning_rate_schedule_steps": steps,
        "warmup_steps_fraction": _share(real.warmup_steps, steps),
        "learning_rate": float(run.learning_rate),
    }
    if run.decay_samples:
        settings |= {"lr_schedule_type": "wsd", "wsd_decay_steps_fraction": _share(real.decay_steps, steps)}
    text = "\n".join(f"{name}: {str(value).lower() if value is True else value}" for name, value in settings.items())
    remarks = ["warm-up and decay are shares of the steps that this ramp takes: another ramp needs others"]
    if tuple(stages) != run.stages:
        remarks.append(
            "MaxText's stages have equal shares of samples: this is the nearest, not the ramp that was planned"
        )
    return Notation("MaxText", text, settings, real, (*remarks, *one_rate(run, "MaxText")))


def _share(steps: int, all_steps: int) -> float:
    """`int(all_steps · share)` is `steps`."""
    return (steps + 0.5) / all_steps if steps else 0.0
