"""`sgdtheory plan`: from steps to a target and a throughput to a batch size, its time and cost, and a batch ramp."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

import tyro

from sgdtheory._common.csv_rows import csv_header
from sgdtheory._common.sheets import Sheet
from sgdtheory.cli.fit_curves import FitCurvesCommand, longest
from sgdtheory.cli.log_flags import LOG_GROUPS, LogFlags, number_or_text
from sgdtheory.cli.output import print_sheet, require_figure_suffix, write_figures
from sgdtheory.cli.plan_notation import Asked, Trainer, notation
from sgdtheory.cli.progress import phases
from sgdtheory.cli.settings import Overhead
from sgdtheory.fits import (
    SMALLEST,
    BatchRamp,
    Convention,
    FittedCriticalBatchSize,
    HasThroughput,
    Machine,
    RunPlan,
    StepsLaw,
    StepsMeasurement,
    StepsTable,
    batch_ramp,
    fit_steps_law,
    plan,
    read_measurements,
    read_throughput,
)

UNITS = {"s": 1 / 3600, "min": 1 / 60, "h": 1.0, "d": 24.0}


def hours_of(text: str) -> float:
    """The hours of 72h, 3d, 90min or 600s; of a bare number.

    Raises:
        ValueError: another text.
    """
    found = re.fullmatch(r"(\d+\.?\d*(?:e\d+)?)(s|min|h|d)?", text)
    if not found:
        raise ValueError(f"deadline must be a time such as 72h, 3d or 90min, got {text}")
    return float(found[1]) * UNITS[found[2] or "h"]


@dataclass(frozen=True, kw_only=True)
class PlanCommand(LogFlags):
    """Choose a batch size from steps to a target, or training logs, and the throughput of devices.

    With a deadline it is the cheapest one that meets it; without one that of the least time × cost. Devices are as many
    as the batch feeds, or --devices at most. Extra data are relative to the smallest batch size measured. Of training
    logs the theory is fitted as fit-curves does it, and the target is the least loss of --num-samples.
    """

    FLAG_GROUPS: ClassVar[dict[str, tuple[str, ...]]] = {
        "measurements": ("files", "steps", "standard_error", "target", "optimal_batch_size"),
        **LOG_GROUPS,
        "training logs": ("num_samples", "max_learning_rate", "hold_out", "weight_decay", "optimizer"),
        "machine": (
            "throughput",
            "throughput_table",
            "devices",
            "micro_batch",
            "max_micro_batch",
            "memory",
            "price",
            "currency",
        ),
        "plan": ("deadline", "batch_sizes", "schedule"),
        "schedule in a trainer's settings": ("trainer", "rate_exponent", "warmup_samples", "decay_samples"),
        "definition of B* and of intervals": ("reference", "overhead", "level"),
        "output": ("plot", "json"),
    }

    files: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """CSV file with a header, one row a batch size, as `sgdtheory fit` reads it, or fit-curves or fit-grid wrote it; or
    training logs, as fit-curves reads them."""
    batch_size: str | None = None
    """Column with the batch size, by default batch_size; of training logs it may be the number, or "524288 tokens"."""
    steps: str = "steps"
    """Column with the steps to the target."""
    group: str | None = None
    """Column that separates targets, or models; None: `group`, if a file of steps has one."""
    standard_error: str | None = None
    """Column with the standard error of the steps; None: `standard_error`, if there is one."""
    target: str | None = None
    """The group to plan for; needed where there are several."""
    optimal_batch_size: bool = False
    """Fit a + b/B + c/B²: small batch sizes may take more data, too."""
    sequence_length: float | None = None
    """Tokens of a sequence: batch sizes from the tokens of a log, and the schedule in tokens, as Megatron-LM reads it
    with --seq-length."""
    num_samples: float | None = None
    """D of training logs, whose least loss is the target, in the unit of the batch sizes; None: of the longest run."""
    max_learning_rate: float | None = None
    """Largest learning rate of a run; None: the largest of the logs."""
    hold_out: tuple[str, ...] = ()
    """Names of logs that are not fitted."""
    weight_decay: float | None = None
    """Weight decay of AdamW; None: none."""
    throughput: float | None = None
    """Samples a second of one device, whatever it takes a step."""
    throughput_table: Path | None = None
    """CSV file of throughput: batch_size, samples a step of one device, and samples_per_second, of one device; or as
    logged micro_batch, samples_per_second of all devices, and where they differ devices, accumulation, memory_gb."""
    devices: tuple[int, ...] = ()
    """How many devices there are, or the numbers of them to choose from; by default those that were measured, or as
    many as the batch feeds."""
    micro_batch: int = 1
    """Fewest samples that a device takes at once."""
    max_micro_batch: int | None = None
    """Most samples that a device takes at once; the rest of its share it accumulates."""
    memory: float | None = None
    """GB of a device, which limit what it takes at once where memory_gb was measured."""
    price: float | None = None
    """Price of a device-hour."""
    currency: str = "USD"
    """Of the price."""
    deadline: str | None = None
    """72h, 3d or 90min."""
    batch_sizes: tuple[float, float] | None = None
    """Smallest and largest batch size that may be taken; None: those measured."""
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
    reference: float | None = None
    """Reference batch size of B* and of extra data; None: that of the fit, or the smallest measured."""
    overhead: Overhead | None = None
    """Extra data, relative to the reference batch size, that defines B*: 0.2 or 20%; None: that of the fit, or 20%."""
    level: float | None = None
    """Level of the intervals; None: that of the fit, or 0.95."""
    plot: Path | None = None
    """Draw time and cost against batch size to this .png, .pdf or .svg."""
    json: bool = False
    """Print JSON; null stands for what is absent, "inf" for what is infinite."""

    def run(self) -> None:
        """Fit, plan and print."""
        require_figure_suffix(self.plot)
        if self.preview:
            self.print_preview(self.files)
            return
        made, ramp, notes = self._of_logs() if self._are_logs else self._of_steps()
        if self.plot:
            from sgdtheory import plotting  # matplotlib is slow to import

            write_figures(plotting.run_plan(made, currency=self.currency), self.plot)
        sheet = made.sheet(self.currency)
        sheet = replace(sheet, remarks=[*notes, *sheet.remarks])
        print_sheet(sheet if ramp is None else self._with_schedule(sheet, made, ramp), self.json)

    def _with_schedule(self, sheet: Sheet, made: RunPlan, ramp: BatchRamp) -> Sheet:
        """The sheet of the plan with the stages of the ramp, in the settings of the trainer if one is named."""
        length = None if self.sequence_length is None else int(self.sequence_length)
        found = ramp.sheet(length)
        remarks, schedule, copy = [*sheet.remarks, *found.remarks], dict(found.settings), found.copy
        if ramp.batch_sizes.size == 1:
            remarks.append("laws of one target justify one batch size: for a ramp give targets on the way, --group")
        elif len(ramp.stages) == 1:
            remarks.append(f"no ramp: in multiples of {ramp.multiple} the best batch sizes of all stages are the same")
        if self.trainer is not None:
            written = notation(ramp, self._asked(made, length))
            schedule |= {name: getattr(written, name) for name in ("trainer", "text", "settings")}
            schedule["trainer_steps"] = written.run.num_steps
            copy = f"{ramp.saving(written.run.num_steps)} {written.trainer}:\n{written.text}"
            remarks += [f"{written.trainer}: {remark}" for remark in written.remarks]
        tables = [*sheet.tables, *(replace(table, title=found.title) for table in found.tables)]
        return replace(
            sheet, tables=tables, remarks=remarks, copy=copy, settings={**sheet.settings, "schedule": schedule}
        )

    @property
    def _are_logs(self) -> bool:
        """Return whether files are training logs: anything but one table of steps, or what is meant to be one."""
        first = self.files[0]
        if self.num_samples is not None or len(self.files) > 1 or first.is_dir():
            return True
        try:
            header = csv_header(first)
        except ValueError:
            return first.exists()
        if {self.batch_size or "batch_size", self.steps} <= set(header):
            return False
        return first.suffix.lower() != ".csv" or any("loss" in name.lower() for name in header)

    def _of_logs(self) -> tuple[RunPlan, None, list[str]]:
        """The plan of the theory that is fitted to logs, as fit-curves does it."""
        from sgdtheory.curves import curve_remarks

        if self._is_scheduled:
            raise ValueError("schedule needs steps to several targets of one run: write them with fit-grid --steps-csv")
        shared = "hold_out", "max_learning_rate", "weight_decay", "optimizer", *sum(LOG_GROUPS.values(), ())
        level = 0.95 if self.level is None else self.level
        command = FitCurvesCommand(logs=self.files, level=level, **{name: getattr(self, name) for name in shared})
        groups = {model.curves[0].group: model for model in command.models()}
        model = groups[self._chosen(groups)]
        samples = longest(model.curves)[0] if self.num_samples is None else self.num_samples
        convention = self._convention(None)
        with phases("") as show:
            found, _ = command.fitted(model, show)
            show("steps of the theory, and B* with its interval")
            law = found.steps_law(samples, max_learning_rate=self.max_learning_rate, overhead=convention.overhead)
        target = f"to the least loss of D = {samples:g}"
        return (
            self._plan(law, convention),
            None,
            [
                *model.taken.notes,
                *curve_remarks(model.curves),
                *filter(None, [found.remark, law.remark]),
                target,
            ],
        )

    def _of_steps(self) -> tuple[RunPlan, BatchRamp | None, list[str]]:
        """The plan of a file of steps, and the ramp."""
        columns: dict[str, Any] = {"batch_size": self.batch_size or "batch_size", "steps": self.steps}
        header = csv_header(self.files[0])
        for name in ("group", "standard_error"):
            given = getattr(self, name)
            columns[name] = name if given is None and name in header else given
        measured = {each.group: each for each in read_measurements(self.files[0], **columns)}
        target = measured[self._chosen(measured)]
        made = self._plan(target, self._convention(target.critical))
        return made, self._ramp(made, measured, target) if self._is_scheduled else None, []

    @property
    def _is_scheduled(self) -> bool:
        return self.schedule or self.trainer is not None

    def _asked(self, made: RunPlan, sequence_length: int | None) -> Asked:
        """Return the trainer whose settings are written, with the run's numbers that they need."""
        assert self.trainer is not None
        rate = number_or_text(self.learning_rate)
        if not isinstance(rate, float):
            raise ValueError(
                f"learning-rate must be a number for trainer {self.trainer}, the peak with the last batch size, got "
                f"{'none' if rate is None else rate}"
            )
        return Asked(
            self.trainer,
            rate,
            self.rate_exponent,
            self.warmup_samples,
            self.decay_samples,
            sequence_length,
            _machine(made),
            made.choice.devices,
        )

    def _chosen(self, groups: Mapping[str, object]) -> str:
        """The group to plan for."""
        target = self.target if self.target is not None else next(iter(groups)) if len(groups) == 1 else None
        if target is None:
            raise ValueError(f"target must name the group to plan for, one of {', '.join(groups)}")
        if target not in groups:
            raise ValueError(f"target must be one of {', '.join(filter(None, groups)) or 'no group'}, got {target}")
        return target

    def _plan(self, steps: StepsMeasurement | StepsTable, convention: Convention) -> RunPlan:
        return plan(
            steps,
            self._throughput(),
            devices=self.devices or None,
            micro_batch=self.micro_batch,
            max_micro_batch=self.max_micro_batch,
            memory=self.memory,
            price=self.price,
            deadline=None if self.deadline is None else hours_of(self.deadline),
            batch_sizes=self.batch_sizes,
            convention=convention,
            level=self.level,
            optimal_batch_size=self.optimal_batch_size,
        )

    def _convention(self, critical: FittedCriticalBatchSize | None) -> Convention:
        """Return the convention of the flags, else of the fit of the steps, else 20% over the smallest batch size."""
        fitted = SMALLEST if critical is None else critical.convention
        reference = fitted.reference if self.reference is None else self.reference
        return Convention(reference, fitted.overhead if self.overhead is None else self.overhead)

    def _throughput(self) -> float | HasThroughput:
        if (self.throughput is None) == (self.throughput_table is None):
            raise ValueError("give throughput, samples a second of one device, or throughput-table, one of the two")
        return self.throughput if self.throughput_table is None else read_throughput(self.throughput_table)  # pyright: ignore[reportReturnType]

    def _ramp(self, made: RunPlan, measured: dict[str, StepsMeasurement], target: StepsMeasurement) -> BatchRamp:
        """The ramp with as many samples as the choice takes; devices that were not given follow the batch."""
        fitted = {name: _law(each) for name, each in measured.items()}
        last = fitted[target.group]
        laws = [each for each in fitted.values() if each.a and 0 < each.b <= last.b]
        if not laws:
            raise ValueError("schedule needs a law with a plateau and a slope: measure more batch sizes")
        multiple = self.micro_batch * (_machine(made).counts or (1,))[0]
        return batch_ramp(laws, num_samples=made.choice.samples, multiple=multiple)


def _machine(made: RunPlan) -> Machine:
    """The machine of a schedule: of several numbers of devices that of the choice."""
    return made.machine if made.machine.counts is None else replace(made.machine, counts=(made.choice.devices,))


def _law(measured: StepsMeasurement) -> StepsLaw:
    return fit_steps_law(measured.batch_sizes, measured.steps, standard_errors=measured.standard_errors)
