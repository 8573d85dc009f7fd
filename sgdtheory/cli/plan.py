"""`sgdtheory plan`: from steps to a target and a throughput to a batch size, its time and cost, and a batch ramp."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import tyro

from sgdtheory._common.csv_rows import csv_header
from sgdtheory.cli.output import print_json, print_note, require_figure_suffix, write_figure
from sgdtheory.cli.plan_output import PlanReport
from sgdtheory.cli.settings import Overhead
from sgdtheory.fits import (
    SMALLEST,
    BatchRamp,
    Convention,
    HasThroughput,
    RunPlan,
    StepsLaw,
    StepsMeasurement,
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
class PlanCommand:
    """Which batch size to take, from steps to a target and the throughput of a device.

    With a deadline it is the cheapest one that meets it; without one that of the least time × cost. Devices are as many
    as the batch feeds, or --devices at most. Extra data are relative to the smallest batch size measured.
    """

    FLAG_GROUPS: ClassVar[dict[str, tuple[str, ...]]] = {
        "measurements": ("csv", "batch_size", "steps", "group", "standard_error", "target", "optimal_batch_size"),
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
        "plan": ("deadline", "batch_sizes", "schedule", "sequence_length"),
        "definition of B* and of intervals": ("reference", "overhead", "level"),
        "output": ("plot", "json"),
    }

    csv: Annotated[Path, tyro.conf.Positional]
    """CSV file with a header, one row a batch size, as `sgdtheory fit` reads it, or fit-curves or fit-grid wrote it."""
    batch_size: str = "batch_size"
    """Column with the batch size."""
    steps: str = "steps"
    """Column with the steps to the target."""
    group: str | None = None
    """Column that tells targets apart; None: `group`, if there is one."""
    standard_error: str | None = None
    """Column with the standard error of the steps; None: `standard_error`, if there is one."""
    target: str | None = None
    """The group to plan for; needed where there are several."""
    optimal_batch_size: bool = False
    """Fit a + b/B + c/B²: small batch sizes may take more data, too."""
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
    sequence_length: int | None = None
    """Tokens of a sample: the schedule in tokens, as Megatron-LM reads it with --seq-length."""
    reference: float | None = None
    """Reference batch size of B* and of extra data; None: that of the fit, or the smallest measured."""
    overhead: Overhead | None = None
    """Extra data, relative to the reference batch size, that defines B*: 0.2 or 20%; None: that of the fit, or 20%."""
    level: float | None = None
    """Level of the intervals; None: that of the fit, or 0.95."""
    plot: Path | None = None
    """Draw time and cost against batch size to this .png, .pdf or .svg."""
    json: bool = False
    """Print JSON; null stands for what is infinite or absent."""

    def run(self) -> None:
        """Fit, plan and print."""
        require_figure_suffix(self.plot)
        measured = self._measured()
        target = self._target(measured)
        made = self._plan(target)
        ramp = self._ramp(made, measured, target) if self.schedule else None
        notes = [*made.notes, *([ramp.remark] if ramp and ramp.remark else [])]
        if ramp and ramp.batch_sizes.size == 1:
            notes.append("laws of one target justify one batch size: for a ramp give targets on the way, --group")
        if self.plot:
            from sgdtheory import plotting  # matplotlib is slow to import

            write_figure(plotting.run_plan(made, currency=self.currency), self.plot)
        report = PlanReport(made, ramp, self.currency, self.sequence_length)
        if self.json:
            print_json(report.json() | {"notes": notes})
        else:
            report.print()
        for note in notes:
            print_note(note)

    def _measured(self) -> dict[str, StepsMeasurement]:
        """Steps to each target."""
        names = "batch_size", "steps", "group", "standard_error"
        columns: dict[str, Any] = {name: getattr(self, name) for name in names}
        header = csv_header(self.csv)
        for name in ("group", "standard_error"):
            if columns[name] is None and name in header:
                columns[name] = name
        return {each.group: each for each in read_measurements(self.csv, **columns)}

    def _target(self, measured: dict[str, StepsMeasurement]) -> StepsMeasurement:
        """The one to plan for."""
        target = self.target if self.target is not None else next(iter(measured)) if len(measured) == 1 else None
        if target is None:
            raise ValueError(f"target must name the group to plan for, one of {', '.join(measured)}")
        if target not in measured:
            raise ValueError(f"target must be one of {', '.join(filter(None, measured)) or 'no group'}, got {target}")
        return measured[target]

    def _plan(self, target: StepsMeasurement) -> RunPlan:
        return plan(
            target,
            self._throughput(),
            devices=self.devices or None,
            micro_batch=self.micro_batch,
            max_micro_batch=self.max_micro_batch,
            memory=self.memory,
            price=self.price,
            deadline=None if self.deadline is None else hours_of(self.deadline),
            batch_sizes=self.batch_sizes,
            convention=self._convention(target),
            level=self.level,
            optimal_batch_size=self.optimal_batch_size,
        )

    def _convention(self, target: StepsMeasurement) -> Convention:
        """What the flags say, else what the fit of the steps says, else 20% over the smallest batch size."""
        fitted = SMALLEST if target.critical is None else target.critical.convention
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
        multiple = self.micro_batch * max(made.machine.counts or (1,))
        return batch_ramp(laws, num_samples=made.choice.samples, multiple=multiple)


def _law(measured: StepsMeasurement) -> StepsLaw:
    return fit_steps_law(measured.batch_sizes, measured.steps, standard_errors=measured.standard_errors)
