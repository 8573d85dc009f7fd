"""torchtitan and Hugging Face's Trainer: no ramp, so runs one after the other, from each other's checkpoints.

torchtitan at b5bcd76 has one `training.num_tokens_per_train_step` (before: `global_batch_size`) a run; its schedule
counts steps, of `lr_scheduler.total_steps` (`torchtitan/components/optimizer/lr_scheduler.py`), with a warm-up of
`warmup_steps` and a decay of `round(total_steps · decay_ratio)`. A fork's pull request for a ramp is open
(NousResearch/torchtitan #39).

transformers' Trainer has none either (huggingface/transformers #31222 is open): stages differ in
`gradient_accumulation_steps`. On resuming it skips data by the new accumulation, which is not what was seen.
"""

from collections.abc import Sequence
from typing import Any

from sgdtheory._common.arguments import whole_number
from sgdtheory.advice.notations.notation import Notation
from sgdtheory.advice.ramped_run import RampedRun


def torchtitan(run: RampedRun, *, sequence_length: int) -> Notation:
    """A run for each stage, all with the schedule of the whole."""
    schedule: dict[str, Any] = {
        "lr_scheduler.total_steps": run.num_steps,
        "lr_scheduler.warmup_steps": run.warmup_steps,
        "lr_scheduler.decay_ratio": run.decay_steps / run.num_steps,
    }
    runs = [
        {
            "training.num_tokens_per_train_step": size * sequence_length,
            "training.steps": end,
            "optimizer.lr": float(rate),
        }
        for (_, size), (end, _), rate in zip(run.stages, run.stage_ends, run.peak_learning_rates, strict=True)
    ]
    lines = [" ".join(f"--{name} {value}" for name, value in (each | schedule).items()) for each in runs]
    remarks = (
        "torchtitan has no batch ramp: one run a stage, each from the checkpoint of the one before",
        "its warm-up and decay are linear in steps: one that spans stages bends there",
        "a checkpoint may bring back the learning rate of the stage before: look at the first steps of each",
    )
    return Notation("torchtitan", "\n".join(lines), {"runs": runs, "schedule": schedule}, run, remarks)


HUGGING_FACE = """# one run each: first step, max_steps, samples before it, batch size, peak learning rate
STAGES = {stages}
# of each: devices × per_device_train_batch_size × gradient_accumulation_steps = batch size
LAYOUTS = {layouts}
SAMPLES, WARMUP, DECAY, RATE = {samples}, {warmup}, {decay}, {rate!r}

def factor(step):  # for LambdaLR over learning_rate=RATE
    first, _, before, size, peak = next((each for each in STAGES if step < each[1]), STAGES[-1])
    seen = before + (step - first) * size
    rise = min(1.0, seen / WARMUP) if WARMUP else 1.0
    fall = min(1.0, max(0, SAMPLES - seen) / DECAY) if DECAY else 1.0
    return peak / RATE * rise * fall"""


def hugging_face(
    run: RampedRun, *, micro_batch: int | Sequence[int] = 1, num_devices: int | Sequence[int] = 1
) -> Notation:
    """Stages by gradient accumulation, and a factor for `LambdaLR`.

    Args:
        run: the run.
        micro_batch: samples of one forward pass over all devices, per_device_train_batch_size × world size; one number,
            or one for each stage.
        num_devices: world size; one number, or one for each stage.

    Raises:
        ValueError: devices that do not divide the micro batch, or a micro batch that does not divide the batch size.
    """
    layouts = _layouts(run, micro_batch, num_devices)
    firsts = [(0, 0), *run.stage_ends[:-1]]
    stages = [
        (first, end, before, size, float(rate))
        for (first, before), (end, _), (_, size), rate in zip(
            firsts, run.stage_ends, run.stages, run.peak_learning_rates, strict=True
        )
    ]
    accumulation = [each[2] for each in layouts]
    text = HUGGING_FACE.format(
        stages=stages,
        layouts=layouts,
        samples=run.num_samples,
        warmup=run.warmup_samples,
        decay=run.decay_samples,
        rate=run.learning_rate,
    )
    remarks = (
        "transformers' Trainer has no batch ramp: one run a stage, with resume_from_checkpoint, max_steps, "
        f"gradient_accumulation_steps {accumulation} and optimizers=(optimizer, LambdaLR(optimizer, factor))",
        "it skips data by the new accumulation on resuming: ignore_data_skip=True, and skip the samples seen yourself",
    )
    settings = {
        "stages": stages,
        "devices": [each[0] for each in layouts],
        "per_device_train_batch_size": [each[1] for each in layouts],
        "gradient_accumulation_steps": accumulation,
    }
    return Notation("Hugging Face", text, settings, run, remarks)


def _layouts(
    run: RampedRun, micro_batch: int | Sequence[int], num_devices: int | Sequence[int]
) -> list[tuple[int, int, int]]:
    """(devices, samples of a device at once, accumulation) of each stage."""
    micro = _of_stages("micro_batch", micro_batch, run)
    devices = _of_stages("num_devices", num_devices, run)
    layouts = []
    for (_, size), at_once, count in zip(run.stages, micro, devices, strict=True):
        if size % at_once:
            raise ValueError(f"micro_batch must divide all batch sizes, got {at_once} and {size}")
        if at_once % count:
            raise ValueError(f"num_devices must divide micro_batch, samples of all devices, got {count} and {at_once}")
        layouts.append((count, at_once // count, size // at_once))
    return layouts


def _of_stages(name: str, numbers: int | Sequence[int], run: RampedRun) -> list[int]:
    """One whole number for each stage."""
    several = list(numbers) if isinstance(numbers, Sequence) else [numbers] * len(run.stages)
    if len(several) != len(run.stages):
        raise ValueError(f"{name} must be one number or {len(run.stages)}, one for each stage, got {len(several)}")
    return [whole_number(name, each, 1) for each in several]
