"""`sgdtheory plan --schedule`: the batch ramp of a plan, in the settings of the trainer that is asked for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from sgdtheory import advice, fits
from sgdtheory._common.sheets import Sheet
from sgdtheory.cli.fit_curves import FittedCurveFlags
from sgdtheory.cli.log_flags import number_or_text
from sgdtheory.cli.target_logs import TargetSteps, law_of


@dataclass(frozen=True, kw_only=True)
class ScheduleFlags:
    """The flags that ask for batch sizes along the run, in the settings of a trainer."""

    GROUP: ClassVar[str] = "schedule"

    schedule: bool = False
    """Batch sizes along the run too, from all targets up to the one planned for."""
    trainer: advice.Trainer | None = None
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


def with_ramp(
    sheet: Sheet,
    flags: ScheduleFlags,
    columns: FittedCurveFlags,
    source: Source,
    machine: fits.Machine,
    level: float,
    choice: fits.PlanRow | None = None,
) -> Sheet:
    """Return a sheet with the ramp that laws of several targets justify, in the settings of a trainer if one is named.

    A trainer needs the tokens of a sequence, the optimizer and the learning rate, which the flags of logs have.

    Args:
        sheet: of the plan.
        flags: that ask for the ramp.
        columns: flags of logs.
        source: of the steps to the targets on the way.
        machine: devices; those that were not given follow the batch.
        level: of the intervals.
        choice: of the plan, whose devices and samples the ramp has; None: not known, and as many samples as a constant
            batch size at the knee takes.
    """
    every = {name: law_of(each) for name, each in source.measured.items()}
    laws = [law for law in every.values() if law.a and 0 < law.b <= every[source.target].b]
    if not laws:
        raise ValueError("schedule needs a law with a plateau and a slope: measure more batch sizes")
    multiple = machine.unit * (machine.counts or (1,))[0]
    ramp = fits.batch_ramp(laws, num_samples=choice and choice.samples, multiple=multiple)
    sequence_length = None if columns.sequence_length is None else int(columns.sequence_length)
    found, verdict = ramp.sheet(sequence_length), ramp.verdict(laws, level)
    remarks, schedule, copy = [*sheet.remarks, *found.remarks], dict(found.settings), found.copy
    if len(laws) == 1:
        remarks.append(
            "laws of one target justify one batch size: for a ramp give several targets of one run, of logs "
            "--target-loss, of a table --group"
        )
    if flags.trainer is not None:
        exponent = _rate_exponent(flags, columns, source)
        rate, remark = _peak(flags.trainer, columns, source, ramp, exponent)
        lengths = {"warmup_samples": flags.warmup_samples, "decay_samples": flags.decay_samples}
        run = advice.RampedRun.of_ramp(ramp, learning_rate=rate, exponent=exponent, **lengths)
        written = advice.in_settings_of(
            flags.trainer,
            run,
            machine=machine,
            devices=choice and choice.devices,
            sequence_length=sequence_length,
        )
        schedule |= {name: getattr(written, name) for name in ("trainer", "text", "settings")}
        schedule["trainer_steps"] = written.run.num_steps
        copy = f"{ramp.saving(written.run.num_steps)} {written.trainer}:\n{written.text}"
        remarks += [*(f"{written.trainer}: {each}" for each in written.remarks), remark]
    tables = [*sheet.tables, *(replace(table, title=found.title) for table in found.tables)]
    settings = {**sheet.settings, "schedule": schedule | {"verdict": verdict}}
    answer = "\n".join(filter(None, [sheet.answer, verdict]))
    return replace(sheet, tables=tables, remarks=remarks, copy=copy, settings=settings, answer=answer)


def _rate_exponent(flags: ScheduleFlags, columns: FittedCurveFlags, source: Source) -> float:
    """Return p of γ ∝ B^p along the ramp."""
    if flags.rate_exponent is not None:
        return flags.rate_exponent
    optimizer = columns.optimizer
    if source.of_logs and source.of_logs.logs:
        optimizer = columns.taken_optimizer(source.of_logs.logs).optimizer
    return 1.0 if optimizer == "sgd" else 0.5


def _peak(
    trainer: advice.Trainer, columns: FittedCurveFlags, source: Source, ramp: fits.BatchRamp, exponent: float
) -> tuple[float, str]:
    """Return the largest learning rate with the last batch size, and a remark if it is taken from the logs.

    Raises:
        ValueError: it is not given, and there are no logs that have it.
    """
    given = number_or_text(columns.learning_rate)
    if isinstance(given, float):
        return given, ""
    best = source.of_logs.best_runs if source.of_logs else {}
    rates = {batch: run.learning_rate for batch, run in best.items() if np.isfinite(run.learning_rate)}
    if not rates:
        raise ValueError(
            f"learning_rate must be a number for trainer {trainer}, the peak with the last batch size, "
            f"got {'none' if given is None else given}"
        )
    last = ramp.stages[-1][1]
    nearest = min(rates, key=lambda batch: abs(np.log(batch / last)))
    peak = rates[nearest] * (last / nearest) ** exponent
    return peak, (
        f"the peak learning rate {peak:.3g} with the last batch size is that of the run with batch size "
        f"{nearest:g}, {rates[nearest]:.3g}, by γ ∝ B^{exponent:g}; --learning-rate gives another"
    )
