"""`sgdtheory plan`: from steps to a target and a throughput to a batch size, its time and cost, and a batch ramp."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import tyro
from rich.table import Table

from sgdtheory.cli.output import (
    interval_text,
    print_json,
    print_note,
    print_tables,
    print_text,
    require_figure_suffix,
    write_figure,
)
from sgdtheory.cli.settings import Overhead
from sgdtheory.fits import (
    BatchRamp,
    Convention,
    PlanRow,
    RunPlan,
    StepsLaw,
    StepsTable,
    Throughput,
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
        "measurements": ("csv", "batch_size", "steps", "group", "standard_error", "target"),
        "machine": ("throughput", "throughput_table", "devices", "micro_batch", "price", "currency"),
        "plan": ("deadline", "batch_sizes", "schedule", "sequence_length"),
        "definition of B* and of intervals": ("reference", "overhead", "level"),
        "output": ("plot", "json"),
    }

    csv: Annotated[Path, tyro.conf.Positional]
    """CSV file with a header, one row a batch size, as `sgdtheory fit` reads it."""
    batch_size: str = "batch_size"
    """Column with the batch size."""
    steps: str = "steps"
    """Column with the steps to the target."""
    group: str | None = None
    """Column that tells targets apart."""
    standard_error: str | None = None
    """Column with the standard error of the steps."""
    target: str | None = None
    """The group to plan for; needed where there are several."""
    throughput: float | None = None
    """Samples a second of one device, whatever it takes a step."""
    throughput_table: Path | None = None
    """CSV file with columns batch_size, samples a step of one device, and samples_per_second, of one device."""
    devices: int | None = None
    """How many devices there are; None: as many as the batch feeds."""
    micro_batch: int = 1
    """Fewest samples that a device takes a step."""
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
    """Reference batch size of B* and of extra data; None: the smallest measured."""
    overhead: Overhead = 0.2
    """Extra data, relative to the reference batch size, that defines B*: 0.2 or 20%."""
    level: float = 0.95
    """Level of the intervals."""
    plot: Path | None = None
    """Draw time and cost against batch size to this .png, .pdf or .svg."""
    json: bool = False
    """Print JSON; null stands for what is infinite or absent."""

    def run(self) -> None:
        """Fit, plan and print."""
        require_figure_suffix(self.plot)
        law, before = self._laws()
        made = plan(
            law,
            self._throughput(),
            devices=self.devices,
            micro_batch=self.micro_batch,
            price=self.price,
            deadline=None if self.deadline is None else hours_of(self.deadline),
            batch_sizes=self.batch_sizes,
            convention=Convention(self.reference, self.overhead),
            level=self.level,
        )
        ramp = self._ramp(made, before) if self.schedule else None
        notes = [*made.notes, *([ramp.remark] if ramp and ramp.remark else [])]
        if ramp and ramp.batch_sizes.size == 1:
            notes.append("laws of one target justify one batch size: for a ramp give targets on the way, --group")
        if self.plot:
            from sgdtheory import plotting  # matplotlib is slow to import

            write_figure(plotting.run_plan(made, currency=self.currency), self.plot)
        if self.json:
            print_json(self._json(made, ramp, notes))
        else:
            self._print(made, ramp)
        for note in notes:
            print_note(note)

    def _laws(self) -> tuple[StepsLaw | StepsTable, list[StepsLaw]]:
        """The law to plan with, or the table of a theory, and laws of the targets up to it."""
        columns: dict[str, Any] = {
            name: getattr(self, name) for name in ("batch_size", "steps", "group", "standard_error")
        }
        measured = {each.group: each for each in read_measurements(self.csv, **columns)}
        target = self.target if self.target is not None else next(iter(measured)) if len(measured) == 1 else None
        if target is None:
            raise ValueError(f"target must name the group to plan for, one of {', '.join(measured)}")
        if target not in measured:
            raise ValueError(f"target must be one of {', '.join(filter(None, measured)) or 'no group'}, got {target}")
        laws = {
            name: fit_steps_law(each.batch_sizes, each.steps, standard_errors=each.standard_errors)
            for name, each in measured.items()
        }
        law = laws[target]
        before = [each for each in laws.values() if each.a and 0 < each.b <= law.b]
        chosen = measured[target]
        return (StepsTable(chosen.batch_sizes, chosen.steps) if chosen.computed else law), before

    def _throughput(self) -> float | Throughput:
        if (self.throughput is None) == (self.throughput_table is None):
            raise ValueError("give throughput, samples a second of one device, or throughput-table, one of the two")
        return self.throughput if self.throughput_table is None else read_throughput(self.throughput_table)  # pyright: ignore[reportReturnType]

    def _ramp(self, made: RunPlan, laws: list[StepsLaw]) -> BatchRamp:
        """The ramp with as many samples as the choice takes; devices that were not given follow the batch."""
        if not laws:
            raise ValueError("schedule needs a law with a plateau and a slope: measure more batch sizes")
        return batch_ramp(laws, num_samples=made.choice.samples, multiple=self.micro_batch * (self.devices or 1))

    # ------------------------------------------------------------------ output

    def _json(self, made: RunPlan, ramp: BatchRamp | None, notes: list[str]) -> dict[str, Any]:
        found: dict[str, Any] = {
            "choice": made.choice._asdict(),
            "reachable": made.reachable,
            "knee": made.knee,
            "knee_interval": made.knee_interval,
            "critical_batch_size": made.critical_batch_size,
            "critical_batch_size_interval": made.critical_interval,
            "reference": made.reference,
            "level": self.level,
            "rows": [row._asdict() for row in made.rows],
            "notes": notes,
        }
        if ramp:
            found["schedule"] = {
                name: getattr(ramp, name)
                for name in ("starts", "batch_sizes", "noise_scales", "steps", "samples", "constant_steps")
            }
            found["schedule"] |= {"pairs": ramp.pairs(self.sequence_length), "rampup_batch_size": ramp.linear}
        return found

    def _print(self, made: RunPlan, ramp: BatchRamp | None) -> None:
        choice = made.choice
        devices = f"{choice.devices} device{'s' if choice.devices > 1 else ''}"
        cost = f"{choice.device_hours:,.4g} device-hours"
        cost = cost if self.price is None else f"{choice.cost:,.0f} {self.currency}"
        print_text(
            f"Batch size {choice.batch_size:g} on {devices}: {choice.hours:.3g} h, {cost}, "
            f"{choice.extra_data:.0%} more data than at batch size {made.reference:g}"
        )
        knee, critical = (_bracket(ends) for ends in (made.knee_interval, made.critical_interval))
        print_text(
            f"knee {made.knee:.4g}{knee}, where 1% more batch saves ½% of the steps; "
            f"B* {made.critical_batch_size:.4g}{critical}, {self.overhead:.0%} more data"
        )
        print_tables(self._table(made), *([_stages(ramp)] if ramp else []))
        if ramp:
            self._print_schedule(ramp)

    def _table(self, made: RunPlan) -> Table:
        known = not np.isnan(made.choice.hours_interval[0])
        title = f"{made.level:.0%} intervals in brackets" if known else "steps of a theory: without intervals"
        table = Table(title=title)
        last = "device-hours" if self.price is None else f"cost ({self.currency})"
        for header in ("batch size", "devices", "steps", "extra data", "hours", last, ""):
            table.add_column(header, justify="right" if header else "left")
        marks = {float(made.feasible(end)): name for end, name in _marks(made)}
        for row in made.rows:
            chosen = "choice" if row.batch_size == made.choice.batch_size else ""
            words = ", ".join(filter(None, (chosen, marks.get(row.batch_size, ""))))
            table.add_row(*_cells(row, made), words)
        return table

    def _print_schedule(self, ramp: BatchRamp) -> None:
        unit = "samples" if self.sequence_length is None else f"tokens, with --seq-length {self.sequence_length}"
        saved = (
            f", {1 - ramp.steps / ramp.constant_steps:.1%} fewer than at a constant batch size with the same samples"
        )
        print_text(
            f"{ramp.steps:,.0f} steps{saved if ramp.batch_sizes.size > 1 else ''}. "
            f"Megatron-LM (since April 2026; starts in {unit}):"
        )
        print_text(f'--step-batch-size-schedule "{ramp.pairs(self.sequence_length)}"')
        if ramp.linear:
            first, increment, samples = ramp.linear
            print_text("The nearest linear ramp, for older ones, always in samples:")
            print_text(
                f"--rampup-batch-size {first} {increment} {samples} --global-batch-size {ramp.batch_sizes[-1]:g}"
            )


def _marks(made: RunPlan) -> list[tuple[float, str]]:
    marks = [(made.knee, "knee"), (made.critical_batch_size, "B*")]
    return [(end, name) for end, name in marks if made.range[0] <= end <= made.range[1]]


def _cells(row: PlanRow, made: RunPlan) -> list[str]:
    known = not np.isnan(row.hours_interval[0])
    hours = f"{row.hours:.3g} ({_short(row.hours_interval)})" if known else f"{row.hours:.3g}"
    cost = f"{row.device_hours:,.4g}"
    if made.price is not None:
        cost = f"{row.cost:,.0f}"
        cost += f" ({row.cost_interval[0]:,.0f} … {row.cost_interval[1]:,.0f})" if known else ""
    return [f"{row.batch_size:g}", f"{row.devices}", f"{row.steps:,.0f}", f"{row.extra_data:.0%}", hours, cost]


def _bracket(ends: tuple[float, float]) -> str:
    """An interval in brackets; empty where there is none."""
    return "" if np.isnan(ends[0]) else f" ({interval_text(ends)})"


def _short(ends: tuple[float, float]) -> str:
    return " … ".join(f"{end:.3g}" for end in ends)


def _stages(ramp: BatchRamp) -> Table:
    table = Table(title="batch sizes along the run")
    for header in ("samples seen", "batch size", "noise scale"):
        table.add_column(header, justify="right")
    for start, size, scale in zip(ramp.starts, ramp.batch_sizes, ramp.noise_scales, strict=True):
        table.add_row(f"{start:,.0f}", f"{size:g}", f"{scale:.4g}")
    return table
