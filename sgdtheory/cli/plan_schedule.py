"""`sgdtheory plan --schedule`: the batch ramp of a plan, in the settings of the trainer that is asked for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from sgdtheory import advice, fits
from sgdtheory._common.sheets import Sheet, between
from sgdtheory.cli.fit_curves import FittedCurveFlags
from sgdtheory.cli.log_flags import number_or_text
from sgdtheory.cli.target_logs import TargetSteps, law_of

LEAST_SAVED = 5e-4  # A smaller share of the steps is printed as 0.0%.
Trainer = Literal["hf", "megatron", "megatron-rampup", "megatron-bridge", "torchtitan", "olmo", "maxtext"]


@dataclass(frozen=True, kw_only=True)
class ScheduleFlags:
    """The flags that ask for batch sizes along the run, in the settings of a trainer."""

    GROUP: ClassVar[str] = "schedule"

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


@dataclass(frozen=True)
class Source:
    """The steps that a plan is made of; steps of the theory have none to other targets beside them."""

    target: str  # the one that is planned for
    law: fits.StepsMeasurement | fits.StepsTable  # measured steps to it, or the theory's
    remarks: Sequence[str]  # on the files
    measured: Mapping[str, fits.StepsMeasurement] = field(default_factory=dict)  # steps to all targets on the way
    of_logs: TargetSteps | None = None  # the logs in which they are interpolated, if they are


@dataclass(frozen=True)
class AskedRamp:
    """The ramp that laws of several targets justify, in the settings of the trainer that is asked for.

    A trainer needs the tokens of a sequence, the optimizer and the learning rate, which the flags of logs have.
    """

    flags: ScheduleFlags  # that ask for it
    columns: FittedCurveFlags  # flags of logs
    source: Source  # of the steps to the targets on the way
    machine: fits.Machine  # of the devices; those that were not given follow the batch
    level: float  # of the intervals
    devices: int | None = None  # of the choice of a plan; None: not known
    num_samples: float | None = None  # to spend; None: as many as a constant batch size at the knee takes

    @cached_property
    def laws(self) -> dict[str, fits.StepsLaw]:
        """Return the laws of the steps to all targets on the way, by their names."""
        fitted = {name: law_of(each) for name, each in self.source.measured.items()}
        laws = {name: each for name, each in fitted.items() if each.a and 0 < each.b <= fitted[self.source.target].b}
        if not laws:
            raise ValueError("schedule needs a law with a plateau and a slope: measure more batch sizes")
        return laws

    @cached_property
    def ramp(self) -> fits.BatchRamp:
        """Return the ramp to the target, in multiples of micro batch and devices."""
        multiple = self.machine.unit * (self.machine.counts or (1,))[0]
        return fits.batch_ramp(list(self.laws.values()), num_samples=self.num_samples, multiple=multiple)

    @cached_property
    def rate_exponent(self) -> float:
        """Return p of γ ∝ B^p along the ramp."""
        if self.flags.rate_exponent is not None:
            return self.flags.rate_exponent
        optimizer = self.columns.optimizer
        if self.flags.trainer and self.source.of_logs and self.source.of_logs.logs:
            optimizer = self.columns.taken_optimizer(self.source.of_logs.logs).optimizer
        return 1.0 if optimizer == "sgd" else 0.5

    @property
    def sequence_length(self) -> int | None:
        """Return the tokens of a sample; None: not known."""
        return None if self.columns.sequence_length is None else int(self.columns.sequence_length)

    def added_to(self, sheet: Sheet) -> Sheet:
        """Return a sheet with the stages of the ramp, in the settings of the trainer if one is named."""
        ramp = self.ramp
        found = ramp.sheet(self.sequence_length)
        remarks, schedule, copy = [*sheet.remarks, *found.remarks], dict(found.settings), found.copy
        if len(self.laws) == 1:
            remarks.append(
                "laws of one target justify one batch size: for a ramp give several targets of one run, of logs "
                "--target-loss, of a table --group"
            )
        if self.flags.trainer is not None:
            rate, remark = self._peak()
            written = self._notation(rate)
            schedule |= {name: getattr(written, name) for name in ("trainer", "text", "settings")}
            schedule["trainer_steps"] = written.run.num_steps
            copy = f"{ramp.saving(written.run.num_steps)} {written.trainer}:\n{written.text}"
            remarks += [*(f"{written.trainer}: {each}" for each in written.remarks), *remark]
        tables = [*sheet.tables, *(replace(table, title=found.title) for table in found.tables)]
        settings = {**sheet.settings, "schedule": schedule | {"verdict": self.verdict}}
        answer = "\n".join(filter(None, [sheet.answer, self.verdict]))
        return replace(sheet, tables=tables, remarks=remarks, copy=copy, settings=settings, answer=answer)

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

    def _peak(self) -> tuple[float, list[str]]:
        """Return the largest learning rate with the last batch size, and a remark if it is taken from the logs.

        Raises:
            ValueError: it is not given, and there are no logs that have it.
        """
        exponent = self.rate_exponent
        given = number_or_text(self.columns.learning_rate)
        if isinstance(given, float):
            return given, []
        best = self.source.of_logs.best_runs if self.source.of_logs else {}
        rates = {batch: run.learning_rate for batch, run in best.items() if np.isfinite(run.learning_rate)}
        if not rates:
            raise ValueError(
                f"learning_rate must be a number for trainer {self.flags.trainer}, the peak with the last batch size, "
                f"got {'none' if given is None else given}"
            )
        last = self.ramp.stages[-1][1]
        nearest = min(rates, key=lambda batch: abs(np.log(batch / last)))
        peak = rates[nearest] * (last / nearest) ** exponent
        return peak, [
            f"the peak learning rate {peak:.3g} with the last batch size is that of the run with batch size "
            f"{nearest:g}, {rates[nearest]:.3g}, by γ ∝ B^{exponent:g}; --learning-rate gives another"
        ]

    def _notation(self, learning_rate: float) -> advice.Notation:
        """Return the ramp in the trainer's settings; a ValueError says what it counts that is not known."""
        trainer, sequence_length, machine = self.flags.trainer, self.sequence_length, self.machine
        run = advice.RampedRun.of_ramp(
            self.ramp,
            learning_rate=learning_rate,
            exponent=self.rate_exponent,
            warmup_samples=self.flags.warmup_samples,
            decay_samples=self.flags.decay_samples,
        )
        if trainer == "megatron":
            written = advice.megatron(run, sequence_length=sequence_length)
        elif trainer in ("megatron-rampup", "megatron-bridge"):
            written = (advice.megatron_rampup if trainer == "megatron-rampup" else advice.megatron_bridge)(run)
        elif trainer == "maxtext":
            if self.devices is None:
                raise ValueError("devices must be given for trainer maxtext, or a throughput that says how many")
            written = advice.maxtext(run, num_devices=self.devices)
        elif trainer == "hf":
            found = machine.layouts(np.array([size for _, size in run.stages], float))[0]
            counts, micro = found.devices.astype(int), found.micro_batch.astype(int)
            written = advice.hugging_face(run, micro_batch=(counts * micro).tolist(), num_devices=counts.tolist())
        else:
            if sequence_length is None:
                raise ValueError(f"sequence_length must be given for {trainer}, which counts tokens")
            write = advice.olmo_core if trainer == "olmo" else advice.torchtitan
            written = write(run, sequence_length=sequence_length)
        remarks = _on_devices(written.run, trainer, machine, self.devices or 1)
        return replace(written, remarks=(*written.remarks, *remarks))


def _on_devices(
    run: advice.RampedRun, trainer: Trainer | None, machine: fits.Machine, num_devices: int
) -> tuple[str, ...]:
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
    fed = advice.in_words([f"{size // machine.unit}" for _, size in run.stages])
    if trainer in ("hf", "torchtitan"):
        return (f"the stages run on {fed} devices, as many as a batch feeds; --devices says how many there are",)
    return (
        f"the stages feed {fed} devices, but one run keeps their number: batch sizes must be multiples of micro batch "
        "× data-parallel devices, which --devices makes sure of",
    )
