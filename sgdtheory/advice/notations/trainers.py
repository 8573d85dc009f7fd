"""A batch ramp in the settings of the trainer that is named, on the devices of a plan."""

from dataclasses import replace
from typing import Literal, get_args

import numpy as np

from sgdtheory._common.arguments import checked_name
from sgdtheory.advice.notations.maxtext import maxtext
from sgdtheory.advice.notations.megatron import megatron, megatron_bridge, megatron_rampup
from sgdtheory.advice.notations.notation import Notation, in_words
from sgdtheory.advice.notations.olmo_core import olmo_core
from sgdtheory.advice.notations.staged import hugging_face, torchtitan
from sgdtheory.advice.ramped_run import RampedRun
from sgdtheory.fits import Machine

Trainer = Literal["hf", "megatron", "megatron-rampup", "megatron-bridge", "torchtitan", "olmo", "maxtext"]
IN_SAMPLES = {"megatron-rampup": megatron_rampup, "megatron-bridge": megatron_bridge}
IN_TOKENS = {"olmo": olmo_core, "torchtitan": torchtitan}


def in_settings_of(
    trainer: Trainer,
    run: RampedRun,
    *,
    machine: Machine,
    devices: int | None = None,
    sequence_length: int | None = None,
) -> Notation:
    """Return a run in the settings of a trainer, with remarks on the devices that these settings need.

    >>> import sgdtheory as st
    >>> run = st.advice.RampedRun(((0, 8), (80, 16)), num_samples=1600, learning_rate=1.0)
    >>> machine = st.fits.Machine(st.fits.ConstantThroughput(1.0), None, 8, None)
    >>> written = st.advice.in_settings_of("olmo", run, machine=machine, sequence_length=512)
    >>> written.trainer
    'OLMo-core'
    >>> print(written.remarks[-1].split(":")[0])
    the stages feed 1, 2 devices, but one run keeps their number

    Args:
        trainer: name of the trainer.
        run: run whose batch size changes in stages.
        machine: devices, and the samples that each of them takes at once.
        devices: number of devices of the run, which MaxText counts; None: not known.
        sequence_length: tokens of a sample, which OLMo-core and torchtitan count; None: not known.

    Raises:
        ValueError: the trainer is unknown, or it needs `devices` (MaxText) or `sequence_length` (OLMo-core, torchtitan)
            and got None.
    """
    checked_name("trainer", trainer, get_args(Trainer))
    if trainer == "megatron":
        written = megatron(run, sequence_length=sequence_length)
    elif trainer in IN_SAMPLES:
        written = IN_SAMPLES[trainer](run)
    elif trainer == "maxtext":
        if devices is None:
            raise ValueError("devices must be given for trainer maxtext, or a throughput that says how many")
        written = maxtext(run, num_devices=devices)
    elif trainer == "hf":
        layout = machine.layouts(np.array([size for _, size in run.stages], float))[0]
        counts, micro = layout.devices.astype(int), layout.micro_batch.astype(int)
        written = hugging_face(run, micro_batch=(counts * micro).tolist(), num_devices=counts.tolist())
    elif sequence_length is None:
        raise ValueError(f"sequence_length must be given for {trainer}, which counts tokens")
    else:
        written = IN_TOKENS[trainer](run, sequence_length=sequence_length)
    remark = _on_devices(written.run, trainer, machine, devices or 1)
    return replace(written, remarks=(*written.remarks, remark)) if remark else written


def _on_devices(run: RampedRun, trainer: Trainer, machine: Machine, devices: int) -> str:
    """Return which devices the settings need where the plan takes as many as a batch feeds; empty where it is clear."""
    if machine.counts is not None:
        share = run.stages[-1][1] // devices
        if trainer == "maxtext" and machine.most is not None and share > machine.most:
            return (
                f"a device takes {share} samples at once with these settings, max_micro_batch= (--max-micro-batch) is "
                f"{machine.most}: MaxText's ramp does not count gradient_accumulation_steps"
            )
        return ""
    if trainer == "maxtext" or len(run.stages) == 1:
        return ""
    fed = in_words([f"{size // machine.unit}" for _, size in run.stages])
    if trainer in ("hf", "torchtitan"):
        return (
            f"the stages run on {fed} devices, as many as a batch feeds; devices= (--devices) says how many there are"
        )
    return (
        f"the stages feed {fed} devices, but one run keeps their number: batch sizes must be multiples of micro batch "
        "× data-parallel devices, which devices= (--devices) makes sure of"
    )
