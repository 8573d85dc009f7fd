"""Megatron-LM and Megatron-Bridge.

`megatron/core/num_microbatches_calculator.py` of NVIDIA/Megatron-LM at d98e8a6 (August 2026):
`--step-batch-size-schedule "START:SIZE …"`, of which the last start ≤ consumed samples counts, in tokens with
`--seq-length`, floored to samples; the older ramp is ignored there. Up to 00caa53 it was
`--rampup-batch-size start increment samples`: `start + ⌊consumed/(samples/k)⌋ increment` with k increments.

Schedules count samples with `--train-samples` (`megatron/training/training.py`), which a ramp leaves alone. With
iterations they are iterations times the last batch size. Megatron-Bridge at 067f987 has the old ramp, with iterations
only, and multiplies by the last batch size (`ConfigContainer._calculate_scheduler_steps`, its issue #2609): what is
meant as W samples is written as W/B_last iterations there, whole ones, and `train_iters` alone counts real steps.
"""

from typing import Any

from sgdtheory.advice.notations.notation import Notation, no_ramp, one_rate
from sgdtheory.advice.ramped_run import RampedRun
from sgdtheory.fits import EvenRamp, megatron_stages

EQUAL_INCREMENTS = "by equal increments between planned batch sizes"


def megatron(run: RampedRun, *, sequence_length: int | None = None) -> Notation:
    """`--step-batch-size-schedule`, and all lengths in samples.

    Args:
        run: the run.
        sequence_length: tokens of a sequence (`--seq-length`), for starts in tokens; None: starts in samples.
    """
    length = 1 if sequence_length is None else sequence_length
    pairs = " ".join(f"{start * length}:{size}" for start, size in run.stages)
    settings: dict[str, Any] = {"step-batch-size-schedule": pairs, **_in_samples(run)}
    unit = "samples" if sequence_length is None else f"tokens, as Megatron-LM reads them with --seq-length {length}"
    return Notation(
        "Megatron-LM", _flags(settings), settings, run, (f"starts are {unit}", *one_rate(run, "Megatron-LM"))
    )


def megatron_rampup(run: RampedRun) -> Notation:
    """`--rampup-batch-size` of Megatron-LM before April 2026.

    The ramp by equal increments with the fewest steps to the same target, or a constant batch size where it has fewer.
    """
    even, real = _even(run)
    ramp = {"rampup-batch-size": f"{even.start} {even.increment} {even.samples}"} if even.count else {}
    settings: dict[str, Any] = {**ramp, "global-batch-size": even.last, **_in_samples(real)}
    remarks = (*no_ramp(run, real, EQUAL_INCREMENTS), *one_rate(real, "Megatron-LM"))
    return Notation("Megatron-LM before April 2026", _flags(settings), settings, real, remarks)


def megatron_bridge(run: RampedRun) -> Notation:
    """`rampup_batch_size` of Megatron-Bridge, with iterations that its conversion turns into the planned samples."""
    even, real = _even(run)
    last = even.last
    ramp = {"train.rampup_batch_size": [even.start, even.increment, even.samples]} if even.count else {}
    settings: dict[str, Any] = {
        "train.global_batch_size": last,
        **ramp,
        "train.train_iters": real.num_steps,
        "scheduler.lr_warmup_iters": round(run.warmup_samples / last),
        "scheduler.lr_decay_iters": round(run.num_samples / last),
        "optimizer.lr": float(real.learning_rate),
    }
    if run.decay_samples:
        settings |= {"scheduler.lr_decay_style": "WSD", "scheduler.lr_wsd_decay_style": "linear"}
        settings["scheduler.lr_wsd_decay_iters"] = round(run.decay_samples / last)
    remark = f"lr_*_iters are samples over {last}, which is how Megatron-Bridge reads them; only train_iters are steps"
    text = "\n".join(f"{name}={value!r}" for name, value in settings.items())
    remarks = (remark, *no_ramp(run, real, EQUAL_INCREMENTS), *one_rate(real, "Megatron-Bridge"))
    return Notation("Megatron-Bridge", text, settings, real, remarks)


def _in_samples(run: RampedRun) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "train-samples": run.num_samples,
        "lr-warmup-samples": run.warmup_samples,
        "lr-decay-samples": run.num_samples,
        "lr": float(run.learning_rate),
    }
    if run.decay_samples:
        settings |= {"lr-decay-style": "WSD", "lr-wsd-decay-style": "linear", "lr-wsd-decay-samples": run.decay_samples}
    return settings


def _flags(settings: dict[str, Any]) -> str:
    quoted = {"step-batch-size-schedule"}
    return " ".join(
        f'--{name} "{value}"' if name in quoted else f"--{name} {value}" for name, value in settings.items()
    )


def _even(run: RampedRun) -> tuple[EvenRamp, RampedRun]:
    """The nearest even ramp, and the run that Megatron makes of it."""
    even = run.nearest_even(megatron_stages)
    return even, run.with_stages(even.stages)
