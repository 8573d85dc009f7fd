"""The sheet of a plan: the choice in the first line, batch sizes with a name, and runs at several batch sizes."""

from typing import Any

import numpy as np

from sgdtheory._common.sheets import Quantity, Sheet, Table, between, number
from sgdtheory.fits.throughput import MeasuredThroughput

MEANINGS = {"knee": "beyond it 1% more batch saves less than ½% of the steps", "B_opt": "the least data"}
# These names of batch sizes in a plan stand for attributes of a `RunPlan`.
RANGE = {"smallest useful": "smallest_batch_size", "B_opt": "optimal_batch_size"}
MARKS = RANGE | {"B*": "critical_batch_size", "knee": "knee"}


def plan_sheet(plan: Any, currency: str) -> Sheet:
    """Return the sheet of a `RunPlan`; costs are in this currency."""
    choice = plan.choice
    cost = f"{choice.device_hours:,.4g} device-hours" if plan.price is None else f"{choice.cost:,.0f} {currency}"
    answer = (
        f"Batch size {choice.batch_size:g} = {_layout(choice)}: {_hours(plan)}, {cost}, "
        f"{choice.extra_data:.0%} more data than at batch size {plan.reference:.4g}"
    )
    settings = {
        "choice": choice._asdict(),
        "reachable": plan.reachable,
        "knee": plan.knee,
        "knee_interval": plan.knee_interval,
        "critical_batch_size": plan.critical_batch_size,
        "critical_batch_size_interval": plan.critical_interval,
        **{name: getattr(plan, name) for name in RANGE.values()},
        **{f"{name}_interval": plan.interval(mark) for mark, name in RANGE.items()},
        "max_micro_batch": plan.machine.most,
        "reference": plan.reference,
        "overhead": plan.convention.overhead,
        "level": plan.level,
    }
    # That B* is not determined comes before the answer, since the plan assumes the fitted law.
    lines = [_open_interval(plan), answer, _marks(plan), *_machine(plan)]
    return Sheet("", [_runs(plan, currency)], plan.notes, settings, answer="\n".join(filter(None, lines)))


def _layout(row: Any) -> str:
    devices = f"{row.devices} device{'s' if row.devices > 1 else ''}"
    return f"{devices} × micro batch {row.micro_batch:g} × accumulation {row.accumulation}"


def _hours(plan: Any) -> str:
    """Return the time of the choice with its interval, and whether the interval passes the deadline."""
    low, high = plan.choice.hours_interval
    if np.isnan(low):
        return f"{plan.choice.hours:.3g} h"
    late = plan.reachable and plan.deadline is not None and high > plan.deadline
    return f"{plan.choice.hours:.3g} h ({between(low, high, 3)}{', may miss the deadline' if late else ''})"


def _open_interval(plan: Any) -> str:
    """Return a sentence if the measurements do not determine B*; empty if they do, or if nothing says it."""
    low, high = plan.critical_interval
    if np.isnan(low) or (low > 0 and high < np.inf):
        return ""
    ends = f"{_size(low)} … {_size(high)}"
    return f"B* is not determined: its {plan.level:.0%} interval is {ends}. The plan assumes the fitted value."


def _marks(plan: Any) -> str:
    """Batch sizes with a name; 0 means that a law has no B_opt or smallest useful one, of B* and the knee it is one."""
    extra = f"{plan.convention.overhead:.0%} more data than at batch size {plan.reference:.4g}"
    meanings = MEANINGS | {"B*": extra}
    found = []
    for name, end in plan.marks.items():
        if name in ("B*", "knee") or end > 0:
            ends = plan.interval(name)
            bracket = "" if np.isnan(ends[0]) else f" ({_size(ends[0])} … {_size(ends[1])})"
            meaning = f", {meanings[name]}" if name in meanings else ""
            found.append(f"{name} {_size(end)}{bracket}{meaning}")
    return "; ".join(found)


def _size(batch_size: float) -> str:
    """A batch size, from 1,000 on without decimals."""
    return number(round(batch_size) if 1000 <= batch_size < np.inf else batch_size)


def _machine(plan: Any) -> list[str]:
    """Return sentences on the fit to points of throughput."""
    measured, choice = plan.machine.throughput, plan.choice
    if not isinstance(measured, MeasuredThroughput):
        return []
    micro = float(choice.micro_batch / measured.at(choice.micro_batch))
    update = float(measured.update_seconds(choice.devices))
    lines = [
        f"a step of the choice: {choice.accumulation} × {micro:.3g} s + {update:.3g} s; "
        f"the fit is off by {measured.largest_error:.1%} at most"
    ]
    if measured.memory is not None:
        base, slope = measured.memory
        used = f"{base + slope * choice.micro_batch:.3g} GB for micro batch {choice.micro_batch:g}"
        lines.append(f"memory: {base:.3g} GB + {slope:.3g} GB a sample, {used}")
    return lines


def _runs(plan: Any, currency: str) -> Table:
    """Runs at several batch sizes, with what each of these batch sizes is."""
    rows = plan.rows
    columns = {name: [getattr(row, name) for row in rows] for name in rows[0]._fields}
    known = not np.isnan(plan.choice.hours_interval[0])
    # Without a limit a device takes all of its share at once, so that the number of devices says everything.
    layout = {"devices": "devices", "micro_batch": "micro batch", "accumulation": "accumulation"}
    layout = layout if plan.machine.most is not None else {"devices": "devices"}
    hours = columns["hours"], columns["hours_interval"] if known else None
    if plan.price is None:
        last = Quantity("", "device-hours", columns["device_hours"])
    else:
        ends = [np.round(each) for each in columns["cost_interval"]]
        last = Quantity("", f"cost ({currency})", np.round(columns["cost"]), ends if known else None)
    shown = [
        Quantity("", "batch size", columns["batch_size"]),
        *(Quantity("", label, columns[name]) for name, label in layout.items()),
        Quantity("", "steps", np.round(columns["steps"])),
        Quantity("", "extra data", [f"{share:.0%}" for share in columns["extra_data"]]),
        Quantity("", "hours", *hours, digits=3),
        last,
        Quantity("", "", _words(plan)),
    ]
    for_programs = [Quantity(name, "", values) for name, values in columns.items()]
    legend = "" if known else "The uncertainty of these steps is not known, and so times and costs have no intervals."
    return Table([*for_programs, *shown], "rows", "", f"{plan.level:.0%}", legend, list(columns))


def _words(plan: Any) -> list[str]:
    """Return the mark of each row: the choice, a batch size with a name, or one below the useful range."""
    low, high = plan.range
    marked = {name: float(plan.feasible(end)) for name, end in plan.marks.items() if low <= end <= high}
    found = []
    for row in plan.rows:
        words = ["choice"] if row.batch_size == plan.choice.batch_size else []
        words += [name for name, batch_size in marked.items() if batch_size == row.batch_size]
        words += ["below the useful range"] if row.batch_size < plan.smallest_batch_size else []
        found.append(", ".join(words))
    return found
