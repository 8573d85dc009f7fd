"""A plan of a run: time, cost and data at each batch size, from a law of steps and a throughput.

A run of S(B) steps takes E = B S samples. n devices that compute r samples a second each finish it in E/(n r) seconds,
for n times as many device-seconds. Devices take at least m samples a step, so that a batch feeds B/m of them; what they
do not take at once they accumulate (`layouts`).

- With as many devices as the batch feeds, time is proportional to S and cost to E: larger batches buy time with money.
- With a fixed number of devices both are proportional to E/r: larger batches pay only as far as r grows with B/n.

The knee is where a batch size 1% larger saves ½% of the steps for ½% more data, the minimum of `S E = B S²`. For
S = a + b/B it is b/a, where McCandlish et al.'s S/S_min − 1 and E/E_min − 1 are both 1 (THEORY.md T13).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from sgdtheory._common.array_like import ArrayLike
from sgdtheory._common.sheets import Sheet
from sgdtheory._common.shown import Shown
from sgdtheory.fits.abstract_law import HasSteps, knee
from sgdtheory.fits.conventions import Convention
from sgdtheory.fits.layouts import Layout, Machine
from sgdtheory.fits.plan_sheet import MARKS, plan_sheet
from sgdtheory.fits.steps_law import StepsLaw
from sgdtheory.fits.steps_measurement import FittedCriticalBatchSize
from sgdtheory.fits.throughput import ConstantThroughput, MeasuredThroughput
from sgdtheory.fits.u_shaped_law import UShapedLaw

UNKNOWN = float("nan"), float("nan")


class PlanRow(NamedTuple):
    """A run at one batch size.

    Attributes:
        batch_size: B = devices × micro_batch × accumulation.
        devices: how many it runs on.
        micro_batch: samples that a device takes at once.
        accumulation: micro batches of a step.
        steps, samples: S(B) and B S(B).
        extra_data: samples over those at the reference batch size, less 1.
        hours, device_hours: of the run, and of all devices.
        cost: device-hours times their price; nan without a price.
        hours_interval, cost_interval: what the law's uncertainty makes of them; nan for a law without intervals.
    """

    batch_size: float
    devices: int
    micro_batch: float
    accumulation: int
    steps: float
    samples: float
    extra_data: float
    hours: float
    device_hours: float
    cost: float
    hours_interval: tuple[float, float]
    cost_interval: tuple[float, float]


class Columns(NamedTuple):
    """Many runs side by side, (k,) each; as in `PlanRow`."""

    batch_size: np.ndarray
    devices: np.ndarray
    micro_batch: np.ndarray
    accumulation: np.ndarray
    steps: np.ndarray
    hours: np.ndarray
    device_hours: np.ndarray


@dataclass(frozen=True, eq=False)
class RunPlan(Shown):
    """Steps, hours and device-hours of a run at each batch size; made by `plan`.

    Attributes:
        law: steps against batch size.
        machine: throughput, and how devices share a batch.
        price: of a device-hour, or None.
        deadline: hours, or None.
        range: smallest and largest batch size that is looked at.
        convention: of B* and of what extra data are compared with.
        level: of the intervals.
        fitted: B* as the fit of the steps has found it; None: that of the law.
    """

    figure: ClassVar[str] = "run_plan"

    law: HasSteps
    machine: Machine
    price: float | None
    deadline: float | None
    range: tuple[float, float]
    convention: Convention
    level: float
    fitted: FittedCriticalBatchSize | None = None

    # ------------------------------------------------------------------ at one batch size

    def at(self, batch_size: float) -> PlanRow:
        """The run at a batch size, as it is: rounded to one that the devices can share."""
        batch = float(self.feasible(batch_size))
        found = self.columns(np.array([batch]))
        hours, device_hours, steps = float(found.hours[0]), float(found.device_hours[0]), float(found.steps[0])
        # Time and cost are proportional to the steps, and so are the ends of their intervals.
        low, high = self._shares(batch)
        cost = float("nan") if self.price is None else device_hours * self.price
        return PlanRow(
            batch,
            int(found.devices[0]),
            float(found.micro_batch[0]),
            int(found.accumulation[0]),
            steps,
            batch * steps,
            batch * steps / self._reference_samples - 1,
            hours,
            device_hours,
            cost,
            (hours * low, hours * high),
            (cost * low, cost * high),
        )

    def columns(self, batch_sizes: np.ndarray) -> Columns:
        """Return the plan's columns at many feasible batch sizes, with the best layout of each and no intervals."""
        steps = np.asarray(self.law.predict(batch_sizes), float)
        layouts = self.machine.layouts(batch_sizes)
        runs = [self._runs(batch_sizes, steps, layout) for layout in layouts]
        best = self._best(runs)
        return Columns(*(np.take_along_axis(np.stack(column), best, 0)[0] for column in zip(*runs, strict=True)))

    def _runs(self, batch_sizes: np.ndarray, steps: np.ndarray, layout: Layout) -> Columns:
        hours = steps * layout.seconds / 3600
        shares = layout.devices, layout.micro_batch, layout.accumulation
        return Columns(batch_sizes, *shares, steps, hours, hours * layout.devices)

    def _best(self, runs: list[Columns]) -> np.ndarray:
        """(1, k) which of several runs is the best at each place."""
        keys = np.stack([self._worth(each) for each in runs], axis=1)  # (3, runs, k)
        return np.lexsort(keys[::-1], axis=0)[:1]  # its last key counts first

    def _worth(self, found: Columns) -> np.ndarray:
        """(3, k) by which runs are compared, one after the other, the smaller the better."""
        if self.deadline is None:
            return np.stack([np.zeros_like(found.hours), found.hours * found.device_hours, found.hours])
        late = found.hours > self.deadline
        pair = found.device_hours, found.hours
        return np.stack([late, np.where(late, *pair[::-1]), np.where(late, *pair)])

    def feasible(self, batch_size: ArrayLike) -> np.ndarray:
        """The nearest that devices can share: a multiple of devices × micro batch, or, if smaller, of micro batches.

        Of several numbers of devices that on which the run is best; what any of them can share stays as it is.
        """
        found = self.machine.nearest(batch_size)
        batch = np.asarray(batch_size, float)
        best = self._best([self.columns(each.ravel()) for each in found]).reshape(1, *batch.shape)
        return np.where((found == batch).any(0), batch, np.take_along_axis(found, best, 0)[0])

    def _shares(self, batch: float) -> tuple[float, float]:
        """Ends of the interval of the steps over the steps."""
        interval = getattr(self.law, "steps_interval", None)
        if interval is None:
            return UNKNOWN
        steps = float(self.law.predict(batch))
        low, high = (float(end) / steps for end in interval(batch, self.level))
        return low, high

    @cached_property
    def reference(self) -> float:
        """Batch size to which extra data are relative: the convention's, or the law's best where that is larger."""
        reference = self.convention.reference_among(self._batch_sizes)
        best = self.optimal_batch_size
        return best if isinstance(self.law, UShapedLaw) and reference < best < np.inf else reference

    @property
    def _reference_samples(self) -> float:
        return self.reference * float(self.law.predict(self.reference))

    # ------------------------------------------------------------------ the choice

    @cached_property
    def candidates(self) -> Columns:
        """Batch sizes among which the choice is made, all over the range."""
        return self.columns(self.machine.candidates(*self.range))

    @cached_property
    def reachable(self) -> bool:
        """Return whether a batch size meets the deadline; True without one."""
        return self.deadline is None or bool((self.candidates.hours <= self.deadline).any())

    @cached_property
    def choice(self) -> PlanRow:
        """The run to take.

        With a deadline the cheapest that meets it, or where none does the fastest; without one that of the least
        hours × device-hours, where 1% less of one costs 1% more of the other.
        """
        best = np.lexsort(self._worth(self.candidates)[::-1])[0]
        return self.at(float(self.candidates.batch_size[best]))

    @cached_property
    def rows(self) -> list[PlanRow]:
        """Runs at doubling batch sizes, at the choice, and next to the knee, B* and the useful range's other marks."""
        low, high = self.range
        first = self.candidates.batch_size[0]
        doublings = first * 2.0 ** np.arange(np.floor(np.log2(high / first) + 1e-9) + 1)
        marked = [end for end in self.marks.values() if low <= end <= high]
        batch = np.unique(self.feasible([*doublings, *marked, self.choice.batch_size]))
        return [self.at(float(each)) for each in batch if low <= each <= high]

    # ------------------------------------------------------------------ batch sizes of the law

    @property
    def marks(self) -> dict[str, float]:
        """Batch sizes with a name, of the useful range and the knee; 0, inf or nan where there is none."""
        return {name: getattr(self, quantity) for name, quantity in MARKS.items()}

    @cached_property
    def knee(self) -> float:
        """Batch size at which 1% more saves ½% of the steps; inf or 0 where the law has no such place."""
        return self.law.knee if isinstance(self.law, StepsLaw) else knee(self.law, self.range)

    @cached_property
    def knee_interval(self) -> tuple[float, float]:
        """Confidence interval of the knee; nan for laws other than a `StepsLaw`."""
        return self.law.interval("knee", self.level) if isinstance(self.law, StepsLaw) else UNKNOWN

    @cached_property
    def critical_batch_size(self) -> float:
        """B* by the convention, that of the steps' own fit where it says one; nan for laws that have none."""
        if self._known:
            return self._known.batch_size
        find = getattr(self.law, "critical_batch_size", None)
        return float("nan") if find is None else float(find(convention=self._convention))

    @cached_property
    def critical_interval(self) -> tuple[float, float]:
        """Confidence interval of B*; nan for laws that have none."""
        return self._known.interval if self._known else self._interval()

    @cached_property
    def optimal_batch_size(self) -> float:
        """Batch size with the least data, where the law has one; else 0."""
        return float(getattr(self.law, "optimal_batch_size", 0.0))

    @cached_property
    def smallest_batch_size(self) -> float:
        """Below it more than the overhead is lost too; 0 where smaller batch sizes never take more data."""
        find = getattr(self.law, "smallest_batch_size", None)
        return 0.0 if find is None else float(find(convention=self._convention))

    def interval(self, name: str) -> tuple[float, float]:
        """Confidence interval of one of the `marks`; nan where the law says none."""
        if name == "B*":
            return self.critical_interval
        if name == "knee":
            return self.knee_interval
        return self._interval(MARKS[name]) if isinstance(self.law, UShapedLaw) else UNKNOWN

    def _interval(self, *quantity: str) -> tuple[float, float]:
        find = getattr(self.law, "interval", None)
        return UNKNOWN if find is None else find(*quantity, level=self.level, convention=self._convention)

    @property
    def _batch_sizes(self) -> ArrayLike:
        """Batch sizes at which the law was measured; the ends of the range where they are not known."""
        return getattr(self.law, "batch_sizes", self.range)

    @cached_property
    def _convention(self) -> Convention:
        """The convention with a number as its reference."""
        return Convention(self.convention.reference_among(self._batch_sizes), self.convention.overhead)

    @cached_property
    def _known(self) -> FittedCriticalBatchSize | None:
        """B* as the fit has found it, if it is by this convention."""
        if self.fitted is None or not self.fitted.answers(self._convention, self._batch_sizes):
            return None
        self.fitted.require(self.level)
        return self.fitted

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Reasons to trust the choice less."""
        return (*_on_time(self), *_on_devices(self), *_on_throughput(self), *_on_batch_sizes(self))

    def sheet(self, currency: str = "USD") -> Sheet:
        """Return the choice, batch sizes with a name, and runs at some batch sizes; costs are in this currency."""
        return plan_sheet(self, currency)


def _on_time(plan: RunPlan) -> Iterator[str]:
    choice = plan.choice
    if not plan.reachable:
        yield (
            f"no batch size from {plan.range[0]:g} to {plan.range[1]:g} meets the deadline of {plan.deadline:g} h: "
            f"the fastest takes {choice.hours:.3g} h; it takes more devices, a later deadline, or other batch sizes"
        )
    elif plan.deadline is not None and choice.hours_interval[1] > plan.deadline:
        high = choice.hours_interval[1]
        remedy = f"; plan for {plan.deadline * choice.hours / high:.3g} h" if high < np.inf else ""
        yield (
            f"the interval of the time reaches {high:.3g} h, past the deadline of {plan.deadline:g} h: a run whose "
            f"estimate just meets the deadline misses it about every second time{remedy}"
        )


def _on_devices(plan: RunPlan) -> Iterator[str]:
    choice = plan.choice
    counts = plan.machine.counts
    if counts is None:
        return
    if choice.devices in counts and isinstance(plan.machine.throughput, ConstantThroughput):
        yield (
            "with one throughput for all batch sizes, larger batches on the same devices save no time: give a "
            "table of throughput, or leave the number of devices out"
        )
    if choice.devices < min(counts):
        yield f"batch size {choice.batch_size:g} feeds {choice.devices} of {min(counts)} devices"


def _on_throughput(plan: RunPlan) -> Iterator[str]:
    choice = plan.choice
    throughput = plan.machine.throughput
    # Between measured points the fit interpolates. Beyond them it assumes what no run has shown.
    if bool(throughput.outside(choice.micro_batch)):
        yield (
            f"{choice.micro_batch:g} samples a device and step lie outside of the table of "
            "throughput: above it the last one is taken, below it a step as long as the first one's"
        )
    if not isinstance(throughput, MeasuredThroughput):
        return
    if throughput.largest_error > 0.05:
        off = f"{throughput.largest_error:.0%}"
        yield f"times of steps lie off k t(m) + u(n) by up to {off}, and so may the time of the run"
    measured = throughput.devices
    if choice.devices not in measured:
        yield (
            f"nothing was measured on {choice.devices} devices: their communication is taken from "
            f"{', '.join(f'{each:g}' for each in measured)}"
        )


def _on_batch_sizes(plan: RunPlan) -> Iterator[str]:
    batch = plan.choice.batch_size
    measured = getattr(plan.law, "batch_sizes", None)
    if measured is not None and not np.min(measured) <= batch <= np.max(measured):
        ends = f"{np.min(measured):g} … {np.max(measured):g}"
        yield f"batch size {batch:g} lies outside of those measured, {ends}"
    if batch < plan.smallest_batch_size:
        yield (
            f"batch size {batch:g} lies below the useful range, which begins at {plan.smallest_batch_size:.4g}: a "
            "larger one takes fewer steps and less data"
        )
    smallest, largest = plan.candidates.batch_size[[0, -1]]
    if plan.deadline is None and smallest < largest == batch:
        yield f"{batch:g} is the largest batch size that was looked at: larger ones may be better"
