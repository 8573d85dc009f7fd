"""`sgdtheory plan --schedule`: the batch ramp of a plan, in the settings of the trainer that is asked for."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np

from sgdtheory._common.sheets import Sheet, between
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

LEAST_SAVED = 5e-4  # A smaller share of the steps is printed as 0.0%.
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
    rate_exponent: float | None = None
    """p of γ ∝ B^p along that schedule; None: 1 with SGD, otherwise 0.5."""
    warmup_samples: int = 0
    """Samples in which the learning rate rises there."""
    decay_samples: int = 0
    """Last samples, in which it falls to 0."""

    @property
    def asked(self) -> bool:
        """Return whether batch sizes along the run are asked for."""
        return self.schedule or self.trainer is not None

    def added_to(self, sheet: Sheet, asked: "AskedRamp") -> Sheet:
        """Return a sheet with the stages of the ramp, in the settings of the trainer if one is named."""
        ramp = asked.ramp
        found = ramp.sheet(asked.sequence_length)
        remarks, schedule, copy = [*sheet.remarks, *found.remarks], dict(found.settings), found.copy
        if len(asked.laws) == 1:
            remarks.append(
                "laws of one target justify one batch size: for a ramp give several targets of one run, of logs "
                "--target-loss, of a table --group"
            )
        if self.trainer is not None:
            written = self._notation(asked)
            schedule |= {name: getattr(written, name) for name in ("trainer", "text", "settings")}
            schedule["trainer_steps"] = written.run.num_steps
            copy = f"{ramp.saving(written.run.num_steps)} {written.trainer}:\n{written.text}"
            remarks += [f"{written.trainer}: {remark}" for remark in written.remarks]
            remarks += [asked.rate_remark] if asked.rate_remark else []
        tables = [*sheet.tables, *(replace(table, title=found.title) for table in found.tables)]
        settings = {**sheet.settings, "schedule": schedule | {"verdict": asked.verdict}}
        answer = "\n".join(filter(None, [sheet.answer, asked.verdict]))
        return replace(sheet, tables=tables, remarks=remarks, copy=copy, settings=settings, answer=answer)

    def _notation(self, asked: "AskedRamp") -> Notation:
        """Return the ramp in the trainer's settings.

        Raises:
            ValueError: the trainer counts tokens, or shares of devices, and what they need is not known.
        """
        options: dict[str, Any] = {name: getattr(self, name) for name in ("warmup_samples", "decay_samples")}
        run = RampedRun.of_ramp(
            asked.ramp, learning_rate=asked.peak(self.trainer), exponent=asked.rate_exponent, **options
        )
        sequence_length, machine = asked.sequence_length, asked.machine
        match self.trainer:
            case "megatron":
                written = megatron(run, sequence_length=sequence_length)
            case "megatron-rampup":
                written = megatron_rampup(run)
            case "megatron-bridge":
                written = megatron_bridge(run)
            case "maxtext":
                if asked.devices is None:
                    raise ValueError("devices must be given for trainer maxtext, or a throughput that says how many")
                written = maxtext(run, num_devices=asked.devices)
            case "hf":
                counts, micro = layouts(run, machine)
                written = hugging_face(run, micro_batch=(counts * micro).tolist(), num_devices=counts.tolist())
            case _:
                if sequence_length is None:
                    raise ValueError(f"sequence_length must be given for {self.trainer}, which counts tokens")
                write = olmo_core if self.trainer == "olmo" else torchtitan
                written = write(run, sequence_length=sequence_length)
        remarks = _on_devices(written.run, self.trainer, machine, asked.devices or 1)
        return replace(written, remarks=(*written.remarks, *remarks))


@dataclass(frozen=True)
class AskedRamp:
    """The ramp that laws of several targets justify, and what a trainer's settings need beside it.

    Attributes:
        ramp: of the laws.
        laws: of the steps to each target, by its name.
        machine: of the devices.
        devices: of the choice of a plan; None: not known.
        level: of the intervals.
        sequence_length: tokens of a sample; None: not known.
        learning_rate: at its peak with the last batch size; None: that of the logs, if there are any.
        rate_exponent: p of γ ∝ B^p along the ramp.
        rates: largest learning rate of the logs at each of their batch sizes.
    """

    ramp: BatchRamp
    laws: Mapping[str, StepsLaw]
    machine: Machine
    devices: int | None
    level: float
    sequence_length: int | None = None
    learning_rate: str | float | None = None
    rate_exponent: float = 0.5
    rates: Mapping[float, float] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """Return a sentence where no ramp is worth it; empty where one is, or where there is one target."""
        sizes = [size for _, size in self.ramp.stages]
        begin = "No ramp is worth it"
        if len(self.laws) == 1:
            return ""
        if len(sizes) == 1:
            return f"{begin}: in multiples of {self.ramp.multiple} the best batch size of all stages is {sizes[0]:,}."
        # Where the noise scale stays the same along the run, all ratios b/a are equal, and no ramp saves steps.
        laws = [law for law in self.laws.values() if law.a and law.b and law.freedom]
        ends = np.array([law.interval("b/a", self.level) for law in laws]).reshape(-1, 2)
        if len(laws) < 2 or ends[:, 0].max() > ends[:, 1].min():
            return ""
        saved = 1 - self.ramp.target.steps(self.ramp.stages) / self.ramp.constant_steps
        saves = f"the {saved:.1%} of the steps that they save" if saved > LEAST_SAVED else "any steps that they save"
        constant = self.ramp.multiple * round(self.ramp.samples / self.ramp.constant_steps / self.ramp.multiple)
        return (
            f"{begin} by these measurements: one noise scale, {between(ends[:, 0].max(), ends[:, 1].min())}, lies in "
            f"the {self.level:.0%} intervals of all targets, so that the stages below and {saves} may be noise. The "
            f"constant batch size {constant:,} takes {self.ramp.constant_steps:,.0f} steps."
        )

    @property
    def _nearest(self) -> float:
        """Batch size of the logs that is nearest to the last one of the ramp, of those with a learning rate."""
        last = self.ramp.stages[-1][1]
        return min(self.rates, key=lambda batch: abs(np.log(batch / last)))

    @property
    def rate_remark(self) -> str:
        """Return the remark on a learning rate that was taken from the logs."""
        if isinstance(self.learning_rate, float) or not self.rates:
            return ""
        return (
            f"the peak learning rate {self._from_logs:.3g} with the last batch size is that of the run with batch size "
            f"{self._nearest:g}, {self.rates[self._nearest]:.3g}, by γ ∝ B^{self.rate_exponent:g}; --learning-rate "
            "gives another"
        )

    @property
    def _from_logs(self) -> float:
        last = self.ramp.stages[-1][1]
        return self.rates[self._nearest] * (last / self._nearest) ** self.rate_exponent

    def peak(self, trainer: str | None) -> float:
        """Return the largest learning rate with the last batch size.

        Raises:
            ValueError: it is not given, and there are no logs that have it.
        """
        if isinstance(self.learning_rate, float):
            return self.learning_rate
        if self.rates:
            return self._from_logs
        raise ValueError(
            f"learning_rate must be a number for trainer {trainer}, the peak with the last batch size, got "
            f"{'none' if self.learning_rate is None else self.learning_rate}"
        )


def ramp_of(
    measured: Mapping[str, StepsMeasurement], target: str, machine: Machine, num_samples: float | None
) -> tuple[BatchRamp, dict[str, StepsLaw]]:
    """Return the ramp to a target in multiples of micro batch and devices, and the laws of all targets on the way.

    Args:
        measured: steps to the targets on the way.
        target: the one that is planned for.
        machine: of the devices; those that were not given follow the batch.
        num_samples: to spend; None: as many as a constant batch size at the knee takes.
    """
    fitted = {name: _law(each) for name, each in measured.items()}
    last = fitted[target]
    laws = {name: each for name, each in fitted.items() if each.a and 0 < each.b <= last.b}
    if not laws:
        raise ValueError("schedule needs a law with a plateau and a slope: measure more batch sizes")
    multiple = machine.unit * (machine.counts or (1,))[0]
    return batch_ramp(list(laws.values()), num_samples=num_samples, multiple=multiple), laws


def _law(measured: StepsMeasurement) -> StepsLaw:
    return fit_steps_law(measured.batch_sizes, measured.steps, standard_errors=measured.standard_errors)


def machine_of(made: RunPlan) -> Machine:
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
