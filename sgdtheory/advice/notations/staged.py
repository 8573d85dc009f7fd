"""torchtitan and Hugging Face's Trainer: no ramp, so runs one after the other, from each other's checkpoints.

torchtitan at b5bcd76 has one `training.num_tokens_per_train_step` (before: `global_batch_size`) a run; its schedule
counts steps, of `lr_scheduler.total_steps` (`torchtitan/components/optimizer/lr_scheduler.py`), with a warm-up of
`warmup_steps` and a decay of `round(total_steps · decay_ratio)`. A fork's pull request for a ramp is open
(NousResearch/torchtitan #39).

transformers' Trainer has none either (huggingface/transformers #31222 is open): stages differ in
`gradient_accumulation_steps`. On resuming it skips data by the new accumulation, which is not what was seen.
"""

from typing import Any

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
SAMPLES, WARMUP, DECAY, RATE = {samples}, {warmup}, {decay}, {rate!r}

def factor(step):  # for LambdaLR over learning_rate=RATE
    first, _, before, size, peak = next((each for each in STAGES if step < each[1]), STAGES[-1])
    seen = before + (step - first) * size
    rise = min(1.0, seen / WARMUP) if WARMUP else 1.0
    fall = min(1.0, max(0, SAMPLES - seen) / DECAY) if DECAY else 1.0
    return peak / RATE * rise * fall"""


def hugging_face(run: RampedRun, *, micro_batch: int = 1) -> Notation:
    """Stages by gradient accumulation, and a factor for `LambdaLR`.

    Args:
        run: the run.
        micro_batch: samples of one forward pass over all devices, per_device_train_batch_size × world size.
    """
    uneven = [size for _, size in run.stages if size % micro_batch]
    if uneven:
        raise ValueError(f"micro_batch must divide all batch sizes, got {micro_batch} and {uneven[0]}")
    firsts = [(0, 0), *run.stage_ends[:-1]]
    stages = [
        (first, end, before, size, float(rate))
        for (first, before), (end, _), (_, size), rate in zip(
            firsts, run.stage_ends, run.stages, run.peak_learning_rates, strict=True
        )
    ]
    accumulation = [size // micro_batch for _, size in run.stages]
    text = HUGGING_FACE.format(
        stages=stages,
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
    settings = {"stages": stages, "gradient_accumulation_steps": accumulation}
    return Notation("Hugging Face", text, settings, run, remarks)
