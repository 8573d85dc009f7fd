"""`sgdtheory plan --trainer`: the ramp of a plan in the settings of the trainer that is asked for."""

from typing import Literal, NamedTuple

from sgdtheory.advice import (
    Notation,
    RampedRun,
    hugging_face,
    maxtext,
    megatron,
    megatron_bridge,
    megatron_rampup,
    olmo_core,
    torchtitan,
)
from sgdtheory.fits import BatchRamp

Trainer = Literal["hf", "megatron", "megatron-rampup", "megatron-bridge", "torchtitan", "olmo", "maxtext"]


class Asked(NamedTuple):
    """For whom a ramp is written, and what its laws do not tell.

    Attributes:
        trainer: name.
        learning_rate: at its peak with the last batch size.
        exponent: p of γ ∝ B^p along the ramp.
        warmup_samples, decay_samples: first and last ones.
        sequence_length: tokens of a sample; None: not known.
        num_devices: of the last batch size.
        micro_batch: samples of a forward pass over all devices.
    """

    trainer: Trainer
    learning_rate: float
    exponent: float
    warmup_samples: int
    decay_samples: int
    sequence_length: int | None
    num_devices: int
    micro_batch: int


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
            return hugging_face(run, micro_batch=asked.micro_batch)
        case "olmo" | "torchtitan":
            if asked.sequence_length is None:
                raise ValueError(f"sequence-length must be given for {asked.trainer}, which counts tokens")
            written = olmo_core if asked.trainer == "olmo" else torchtitan
            return written(run, sequence_length=asked.sequence_length)
