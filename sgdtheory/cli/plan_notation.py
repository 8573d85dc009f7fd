"""`sgdtheory plan --trainer`: the ramp of a plan in the settings of the trainer that is asked for."""

from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np

from sgdtheory.advice import (
    Notation,
    RampedRun,
    hugging_face,
    in_words,
    maxtext,
    megatron,
    megatron_bridge,
    megatron_rampup,
    olmo_core,
    torchtitan,
)
from sgdtheory.fits import BatchRamp, Machine

Trainer = Literal["hf", "megatron", "megatron-rampup", "megatron-bridge", "torchtitan", "olmo", "maxtext"]


class Asked(NamedTuple):
    """For whom a ramp is written, and what its laws do not tell.

    Attributes:
        trainer: name.
        learning_rate: at its peak with the last batch size.
        exponent: p of γ ∝ B^p along the ramp.
        warmup_samples, decay_samples: first and last ones.
        sequence_length: tokens of a sample; None: not known.
        machine: how devices share a batch.
        num_devices: of the plan's choice.
    """

    trainer: Trainer
    learning_rate: float
    exponent: float
    warmup_samples: int
    decay_samples: int
    sequence_length: int | None
    machine: Machine
    num_devices: int


def notation(ramp: BatchRamp, asked: Asked) -> Notation:
    """The ramp in a trainer's settings.

    Raises:
        ValueError: a trainer that counts tokens, without the length of a sequence.
    """
    options = {
        "exponent": asked.exponent,
        "warmup_samples": asked.warmup_samples,
        "decay_samples": asked.decay_samples,
    }
    run = RampedRun.of_ramp(ramp, learning_rate=asked.learning_rate, **options)
    written = _written(run, asked)
    return replace(written, remarks=(*written.remarks, *_on_devices(written.run, asked)))


def _written(run: RampedRun, asked: Asked) -> Notation:
    match asked.trainer:
        case "megatron":
            return megatron(run, sequence_length=asked.sequence_length)
        case "megatron-rampup":
            return megatron_rampup(run)
        case "megatron-bridge":
            return megatron_bridge(run)
        case "maxtext":
            return maxtext(run, num_devices=asked.num_devices)
        case "hf":
            devices, micro = layouts(run, asked.machine)
            return hugging_face(run, micro_batch=(devices * micro).tolist(), num_devices=devices.tolist())
        case "olmo" | "torchtitan":
            if asked.sequence_length is None:
                raise ValueError(f"sequence-length must be given for {asked.trainer}, which counts tokens")
            written = olmo_core if asked.trainer == "olmo" else torchtitan
            return written(run, sequence_length=asked.sequence_length)


def layouts(run: RampedRun, machine: Machine) -> tuple[np.ndarray, np.ndarray]:
    """(k,) devices of each stage, and samples that one of them takes at once."""
    found = machine.layouts(np.array([size for _, size in run.stages], float))[0]
    return found.devices.astype(int), found.micro_batch.astype(int)


def _on_devices(run: RampedRun, asked: Asked) -> tuple[str, ...]:
    """Say which devices the settings need where the plan takes as many as a batch feeds."""
    machine = asked.machine
    if machine.counts is not None:
        share = run.stages[-1][1] // asked.num_devices
        if asked.trainer == "maxtext" and machine.most is not None and share > machine.most:
            return (
                f"a device takes {share} samples at once with these settings, --max-micro-batch is {machine.most}: "
                "MaxText's ramp does not count gradient_accumulation_steps",
            )
        return ()
    if asked.trainer == "maxtext" or len(run.stages) == 1:
        return ()
    fed = in_words([f"{size // machine.unit}" for _, size in run.stages])
    if asked.trainer in ("hf", "torchtitan"):
        return (f"the stages run on {fed} devices, as many as a batch feeds; --devices says how many there are",)
    return (
        f"the stages feed {fed} devices, but one run keeps their number: batch sizes must be multiples of micro batch "
        "× data-parallel devices, which --devices makes sure of",
    )
