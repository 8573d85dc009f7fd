"""A plan in words, tables and JSON."""

from typing import Any, NamedTuple

import numpy as np
from rich.table import Table

from sgdtheory.advice import Notation
from sgdtheory.cli.output import interval_text, print_tables, print_text
from sgdtheory.fits import BatchRamp, MeasuredThroughput, PlanRow, RunPlan

# of marks that mean the same in every plan; B* has the plan's overhead in its meaning
MEANINGS = {"knee": "where 1% more batch saves ½% of the steps", "B_opt": "the least data"}


class PlanReport(NamedTuple):
    """What is printed of a plan."""

    made: RunPlan
    ramp: BatchRamp | None
    currency: str
    sequence_length: int | None
    written: Notation | None = None

    def json(self) -> dict[str, Any]:
        """Everything, for a program."""
        made = self.made
        ramp = self.ramp
        found: dict[str, Any] = {
            "choice": made.choice._asdict(),
            "reachable": made.reachable,
            "knee": made.knee,
            "knee_interval": made.knee_interval,
            "critical_batch_size": made.critical_batch_size,
            "critical_batch_size_interval": made.critical_interval,
            "smallest_batch_size": made.smallest_batch_size,
            "smallest_batch_size_interval": made.interval("smallest useful"),
            "optimal_batch_size": made.optimal_batch_size,
            "optimal_batch_size_interval": made.interval("B_opt"),
            "max_micro_batch": made.machine.most,
            "reference": made.reference,
            "overhead": made.convention.overhead,
            "level": made.level,
            "rows": [row._asdict() for row in made.rows],
        }
        if ramp:
            names = "starts", "batch_sizes", "noise_scales", "steps", "samples", "constant_steps"
            found["schedule"] = {name: getattr(ramp, name) for name in names}
            found["schedule"] |= {"pairs": ramp.pairs(self.sequence_length), "rampup_batch_size": ramp.linear}
            found["schedule"] |= {"rampup_steps": ramp.even.steps, "rampup_global_batch_size": ramp.even.last}
        if self.written:
            found["schedule"] |= {name: getattr(self.written, name) for name in ("trainer", "text", "settings")}
            found["schedule"]["trainer_steps"] = self.written.run.num_steps
        return found

    def print(self) -> None:
        """The answer, batch sizes with a name, the table, and the ramp."""
        made = self.made
        choice = made.choice
        if made.price is None:
            cost = f"{choice.device_hours:,.4g} device-hours"
        else:
            cost = f"{choice.cost:,.0f} {self.currency}"
        print_text(
            f"Batch size {choice.batch_size:g} = {_layout(choice)}: {choice.hours:.3g} h, {cost}, "
            f"{choice.extra_data:.0%} more data than at batch size {made.reference:.4g}"
        )
        meanings = MEANINGS | {"B*": f"{made.convention.overhead:.0%} more data"}
        # 0 says of B_opt and of the smallest useful one that the law has none; of the knee it is an answer
        named = {name: end for name, end in made.marks.items() if name in ("B*", "knee") or end > 0}
        print_text("; ".join(_named(made, name, end, meanings.get(name, "")) for name, end in named.items()))
        for line in _machine(made):
            print_text(line)
        print_tables(self._table(), *([_stages(self.ramp)] if self.ramp else []))
        if self.ramp:
            self._print_schedule(self.ramp)

    def _table(self) -> Table:
        made = self.made
        known = not np.isnan(made.choice.hours_interval[0])
        title = f"{made.level:.0%} intervals in brackets" if known else "nothing says how far these steps are known"
        table = Table(title=title)
        last = "device-hours" if made.price is None else f"cost ({self.currency})"
        # without a limit a device takes all of its share at once, so that the number of devices says everything
        layout = ["devices"] if made.machine.most is None else ["devices", "micro batch", "accumulation"]
        for header in ("batch size", *layout, "steps", "extra data", "hours", last, ""):
            table.add_column(header, justify="right" if header else "left")
        low, high = made.range
        # of those that devices can share, as rows are
        marked = {name: float(made.feasible(end)) for name, end in made.marks.items() if low <= end <= high}
        for row in made.rows:
            shares = [f"{row.devices}", f"{row.micro_batch:g}", f"{row.accumulation}"][: len(layout)]
            table.add_row(f"{row.batch_size:g}", *shares, *_cells(row, made), _words(row, made, marked))
        return table

    def _print_schedule(self, ramp: BatchRamp) -> None:
        unit = "samples" if self.sequence_length is None else f"tokens, with --seq-length {self.sequence_length}"
        if self.written:
            print_text(f"{_steps(self.written.run.num_steps, ramp)} {self.written.trainer}:")
            print(self.written.text)  # to copy: no line is broken
            return
        steps = ramp.target.steps(ramp.stages)
        print_text(f"{_steps(steps, ramp)} Megatron-LM (since April 2026; starts in {unit}):")
        print_text(f'--step-batch-size-schedule "{ramp.pairs(self.sequence_length)}"')
        if len(ramp.stages) > 1:
            _print_rampup(ramp)


def _print_rampup(ramp: BatchRamp) -> None:
    """The nearest even ramp, or that none is worth its steps."""
    even = ramp.even
    if ramp.linear is None:
        print_text(
            f"No linear ramp for older ones takes fewer steps than a constant batch size; {_steps(even.steps, ramp)}"
        )
        print_text(f"--global-batch-size {even.last}")
        return
    first, increment, samples = ramp.linear
    print_text(f"The nearest linear ramp, for older ones, always in samples; {_steps(even.steps, ramp)}")
    print_text(f"--rampup-batch-size {first} {increment} {samples} --global-batch-size {even.last}")


def _steps(steps: int, ramp: BatchRamp) -> str:
    """The steps that a trainer takes, beside those at a constant batch size."""
    saved = 1 - steps / ramp.constant_steps
    than = "at a constant batch size with the same samples"
    if len(ramp.stages) == 1:
        return f"{steps:,} steps."
    return f"{steps:,} steps, {abs(saved):.1%} {'fewer' if saved >= 0 else 'more'} than {than}."


def _layout(row: PlanRow) -> str:
    devices = f"{row.devices} device{'s' if row.devices > 1 else ''}"
    return f"{devices} × micro batch {row.micro_batch:g} × accumulation {row.accumulation}"


def _named(made: RunPlan, name: str, end: float, meaning: str) -> str:
    ends = made.interval(name)
    bracket = "" if np.isnan(ends[0]) else f" ({interval_text(ends)})"
    return f"{name} {end:.4g}{bracket}{', ' if meaning else ''}{meaning}"


def _machine(made: RunPlan) -> list[str]:
    """What was fitted to points of throughput."""
    measured = made.machine.throughput
    if not isinstance(measured, MeasuredThroughput):
        return []
    choice = made.choice
    micro = float(choice.micro_batch / measured.at(choice.micro_batch))
    update = float(measured.update_seconds(choice.devices))
    lines = [
        f"a step of the choice: {choice.accumulation} × {micro:.3g} s + {update:.3g} s; "
        f"the fit is off by {measured.largest_error:.1%} at most"
    ]
    if measured.memory is not None:
        base, slope = measured.memory
        used = base + slope * choice.micro_batch
        lines.append(
            f"memory: {base:.3g} GB + {slope:.3g} GB a sample, {used:.3g} GB for micro batch {choice.micro_batch:g}"
        )
    return lines


def _words(row: PlanRow, made: RunPlan, marked: dict[str, float]) -> str:
    """What a row is: the choice, a batch size with a name, outside of the useful range."""
    words = ["choice"] if row.batch_size == made.choice.batch_size else []
    words += [name for name, batch_size in marked.items() if batch_size == row.batch_size]
    if row.batch_size < made.smallest_batch_size:
        words.append("below the useful range")
    return ", ".join(words)


def _cells(row: PlanRow, made: RunPlan) -> list[str]:
    known = not np.isnan(row.hours_interval[0])
    hours = f"{row.hours:.3g} ({_short(row.hours_interval)})" if known else f"{row.hours:.3g}"
    cost = f"{row.device_hours:,.4g}"
    if made.price is not None:
        cost = f"{row.cost:,.0f}"
        cost += f" ({row.cost_interval[0]:,.0f} … {row.cost_interval[1]:,.0f})" if known else ""
    return [f"{row.steps:,.0f}", f"{row.extra_data:.0%}", hours, cost]


def _short(ends: tuple[float, float]) -> str:
    return " … ".join(f"{end:.3g}" for end in ends)


def _stages(ramp: BatchRamp) -> Table:
    table = Table(title="batch sizes along the run")
    for header in ("samples seen", "batch size", "noise scale"):
        table.add_column(header, justify="right")
    first = [start for start, _ in ramp.stages]
    ends = [*np.searchsorted(np.round(ramp.starts), first[1:]), ramp.starts.size]
    begin = 0
    for (start, size), end in zip(ramp.stages, ends, strict=True):
        scales = [f"{scale:.4g}" for scale in ramp.noise_scales[begin:end]]
        table.add_row(f"{start:,}", f"{size}", " … ".join(dict.fromkeys((scales[0], scales[-1]))))
        begin = end
    return table
