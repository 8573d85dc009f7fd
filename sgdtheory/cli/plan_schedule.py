"""`sgdtheory plan --schedule`: the batch ramp of a plan, in the settings of the trainer that is asked for."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from sgdtheory._common.sheets import Sheet
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
from sgdtheory.fits import BatchRamp, Machine, RunPlan, StepsLaw, StepsMeasurement, batch_ramp, fit_steps_law

Trainer = Literal["hf", "megatron", "megatron-rampup", "megatron-bridge", "torchtitan", "olmo", "maxtext"]


@dataclass(frozen=True, kw_only=True)
class ScheduleFlags:
    """The flags that ask for batch sizes along the run, in the settings of a trainer."""

    FLAG_GROUPS: ClassVar[dict[str, tuple[str, ...]]] = {
        "schedule": ("schedule", "trainer", "rate_exponent", "warmup_samples", "decay_samples"),
    }

    schedule: bool = False
    """Batch sizes along the run too, from all targets up to the one planned for."""
    trainer: Trainer | None = None
    """Write that schedule in the settings of Hugging Face's Trainer, Megatron-LM (megatron-rampup: before April 2026),
    Megatron-Bridge, torchtitan, OLMo-core or MaxText; --learning-rate is then the peak with the last batch size."""
    rate_exponent: float = 0.5
    """p of γ ∝ B^p along that schedule: 0.5 for Adam, 1 for SGD."""
    warmup_samples: int = 0
    """Samples in which the learning rate rises there."""
    decay_samples: int = 0
    """Last samples, in which it falls to 0."""

    @property
    def asked(self) -> bool:
        """Return whether batch sizes along the run are asked for."""
        return self.schedule or self.trainer is not None

    def added_to(
        self,
        sheet: Sheet,
        made: RunPlan,
        measured: Mapping[str, StepsMeasurement],
        target: str,
        micro_batch: int,
        sequence_length: int | None,
        learning_rate: str | float | None,
    ) -> Sheet:
        """Return the sheet of a plan with the stages of its ramp, in the settings of the trainer if one is named.

        Args:
            sheet: of the plan.
            made: the plan.
            measured: steps to the targets on the way.
            target: the one that is planned for.
            micro_batch: fewest samples that a device takes at once.
            sequence_length: tokens of a sample; None: not known.
            learning_rate: at its peak with the last batch size.
        """
        ramp = _batch_ramp(made, measured, target, micro_batch)
        found = ramp.sheet(sequence_length)
        remarks, schedule, copy = [*sheet.remarks, *found.remarks], dict(found.settings), found.copy
        if ramp.batch_sizes.size == 1:
            remarks.append("laws of one target justify one batch size: for a ramp give targets on the way, --group")
        elif len(ramp.stages) == 1:
            remarks.append(f"no ramp: in multiples of {ramp.multiple} the best batch sizes of all stages are the same")
        if self.trainer is not None:
            if not isinstance(learning_rate, float):
                raise ValueError(
                    f"learning_rate must be a number for trainer {self.trainer}, the peak with the last batch size, "
                    f"got {'none' if learning_rate is None else learning_rate}"
                )
            written = self._notation(ramp, made, sequence_length, learning_rate)
            schedule |= {name: getattr(written, name) for name in ("trainer", "text", "settings")}
            schedule["trainer_steps"] = written.run.num_steps
            copy = f"{ramp.saving(written.run.num_steps)} {written.trainer}:\n{written.text}"
            remarks += [f"{written.trainer}: {remark}" for remark in written.remarks]
        tables = [*sheet.tables, *(replace(table, title=found.title) for table in found.tables)]
        settings = {**sheet.settings, "schedule": schedule}
        return replace(sheet, tables=tables, remarks=remarks, copy=copy, settings=settings)

    def _notation(self, ramp: BatchRamp, made: RunPlan, sequence_length: int | None, learning_rate: float) -> Notation:
        """Return the ramp in the trainer's settings.

        Raises:
            ValueError: the trainer counts tokens, and the length of a sequence is not known.
        """
        options: dict[str, Any] = {name: getattr(self, name) for name in ("warmup_samples", "decay_samples")}
        run = RampedRun.of_ramp(ramp, learning_rate=learning_rate, exponent=self.rate_exponent, **options)
        machine, devices = _machine(made), made.choice.devices
        match self.trainer:
            case "megatron":
                written = megatron(run, sequence_length=sequence_length)
            case "megatron-rampup":
                written = megatron_rampup(run)
            case "megatron-bridge":
                written = megatron_bridge(run)
            case "maxtext":
                written = maxtext(run, num_devices=devices)
            case "hf":
                counts, micro = layouts(run, machine)
                written = hugging_face(run, micro_batch=(counts * micro).tolist(), num_devices=counts.tolist())
            case _:
                if sequence_length is None:
                    raise ValueError(f"sequence_length must be given for {self.trainer}, which counts tokens")
                write = olmo_core if self.trainer == "olmo" else torchtitan
                written = write(run, sequence_length=sequence_length)
        return replace(written, remarks=(*written.remarks, *_on_devices(written.run, self.trainer, machine, devices)))


def _batch_ramp(made: RunPlan, measured: Mapping[str, StepsMeasurement], target: str, micro_batch: int) -> BatchRamp:
    """Return the ramp with as many samples as the choice takes; devices that were not given follow the batch."""
    fitted = {name: _law(each) for name, each in measured.items()}
    last = fitted[target]
    laws = [each for each in fitted.values() if each.a and 0 < each.b <= last.b]
    if not laws:
        raise ValueError("schedule needs a law with a plateau and a slope: measure more batch sizes")
    multiple = micro_batch * (_machine(made).counts or (1,))[0]
    return batch_ramp(laws, num_samples=made.choice.samples, multiple=multiple)


def _law(measured: StepsMeasurement) -> StepsLaw:
    return fit_steps_law(measured.batch_sizes, measured.steps, standard_errors=measured.standard_errors)


def _machine(made: RunPlan) -> Machine:
    """Return the machine of a schedule: of several numbers of devices it has that of the choice."""
    return made.machine if made.machine.counts is None else replace(made.machine, counts=(made.choice.devices,))


def layouts(run: RampedRun, machine: Machine) -> tuple[np.ndarray, np.ndarray]:
    """Return the devices of each stage, (k,), and the samples that one of them takes at once."""
    found = machine.layouts(np.array([size for _, size in run.stages], float))[0]
    return found.devices.astype(int), found.micro_batch.astype(int)


def _on_devices(run: RampedRun, trainer: Trainer | None, machine: Machine, num_devices: int) -> tuple[str, ...]:
    """Say which devices the settings need where the plan takes as many as a batch feeds."""
    if machine.counts is not None:
        share = run.stages[-1][1] // num_devices
        if trainer == "maxtext" and machine.most is not None and share > machine.most:
            return (
                f"a device takes {share} samples at once with these settings, --max-micro-batch is {machine.most}: "
                "MaxText's ramp does not count gradient_accumulation_steps",
            )
        return ()
    if trainer == "maxtext" or len(run.stages) == 1:
        return ()
    fed = in_words([f"{size // machine.unit}" for _, size in run.stages])
    if trainer in ("hf", "torchtitan"):
        return (f"the stages run on {fed} devices, as many as a batch feeds; --devices says how many there are",)
    return (
        f"the stages feed {fed} devices, but one run keeps their number: batch sizes must be multiples of micro batch "
        "× data-parallel devices, which --devices makes sure of",
    )
