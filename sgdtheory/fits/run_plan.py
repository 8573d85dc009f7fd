"""A plan of a run: time, cost and data at each batch size, from a law of steps and a throughput.

A run of S(B) steps takes E = B S samples. n devices that compute r samples a second each finish it in E/(n r) seconds,
for n times as many device-seconds. Devices take at least m samples a step, so that a batch feeds B/m of them.

- With as many devices as the batch feeds, time is proportional to S and cost to E: larger batches buy time with money.
- With a fixed number of devices both are proportional to E/r: larger batches pay only as far as r grows with B/n.

The knee is where a batch size 1% larger saves ½% of the steps for ½% more data, the minimum of `S E = B S²`. For
S = a + b/B it is b/a, where McCandlish et al.'s S/S_min − 1 and E/E_min − 1 are both 1 (THEORY.md T13).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize

from sgdtheory._common.arguments import positive_array, positive_number, share_between_0_and_1, whole_number
from sgdtheory.fits.conventions import SMALLEST, Convention
from sgdtheory.fits.steps_law import StepsLaw
from sgdtheory.fits.throughput import ConstantThroughput, Throughput

CANDIDATES = 20_000  # batch sizes among which the choice is made, at most
POINTS = 400  # at which a knee is looked for
FARTHEST = 1e4  # factor beyond the batch sizes of the plan up to which a knee is looked for
HOUR = 3600.0


class HasSteps(Protocol):
    """A law of steps to a target: a `StepsLaw`, or your own.

    If it has `batch_sizes`, these are what was measured; `steps_interval(batch_size, level)`: intervals of its steps;
    `critical_batch_size(convention=…)`: B*.
    """

    def predict(self, batch_size: ArrayLike) -> np.ndarray:
        """Steps at `batch_size`."""
        ...


class PlanRow(NamedTuple):
    """A run at one batch size.

    Attributes:
        batch_size, devices: B, and how many devices it runs on.
        steps, samples: S(B) and B S(B).
        extra_data: samples over those at the reference batch size, less 1.
        hours, device_hours: of the run, and of all devices.
        cost: device-hours times their price; nan without a price.
        hours_interval, cost_interval: what the law's uncertainty makes of them; nan for a law without intervals.
    """

    batch_size: float
    devices: int
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
    steps: np.ndarray
    hours: np.ndarray
    device_hours: np.ndarray


@dataclass(frozen=True, eq=False)
class RunPlan:
    """What a run takes at each batch size, made by `plan`; hours, and device-hours.

    Attributes:
        law: steps against batch size.
        throughput: of one device.
        devices: how many there are; None: as many as the batch size feeds.
        micro_batch: fewest samples that a device takes a step.
        price: of a device-hour, or None.
        deadline: hours, or None.
        range: smallest and largest batch size that is looked at.
        convention: of B* and of what extra data are compared with.
        level: of the intervals.
    """

    law: HasSteps
    throughput: Throughput | ConstantThroughput
    devices: int | None
    micro_batch: int
    price: float | None
    deadline: float | None
    range: tuple[float, float]
    convention: Convention
    level: float

    # ------------------------------------------------------------------ at one batch size

    def at(self, batch_size: float) -> PlanRow:
        """The run at a batch size, as it is: rounded to one that the devices can share."""
        batch = float(self.feasible(batch_size))
        found = self.columns(np.array([batch]))
        hours, device_hours, steps = float(found.hours[0]), float(found.device_hours[0]), float(found.steps[0])
        intervals = self._shares(batch)
        price = float("nan") if self.price is None else self.price
        return PlanRow(
            batch,
            int(found.devices[0]),
            steps,
            batch * steps,
            batch * steps / self._reference_samples - 1,
            hours,
            device_hours,
            device_hours * price,
            (hours * intervals[0], hours * intervals[1]),
            (device_hours * price * intervals[0], device_hours * price * intervals[1]),
        )

    def columns(self, batch_sizes: np.ndarray) -> Columns:
        """The same at many feasible batch sizes, without intervals."""
        most = batch_sizes // self.micro_batch
        devices = most if self.devices is None else np.minimum(most, self.devices)
        steps = np.asarray(self.law.predict(batch_sizes), float)
        device_hours = batch_sizes * steps / self.throughput.at(batch_sizes / devices) / HOUR
        return Columns(batch_sizes, devices, steps, device_hours / devices, device_hours)

    def feasible(self, batch_size: ArrayLike) -> np.ndarray:
        """The nearest that devices can share: a multiple of devices × micro_batch, or, if smaller, of micro_batch."""
        batch = positive_array("batch_size", batch_size)
        whole = self.micro_batch * (self.devices or 1)
        unit = np.where(batch < whole, self.micro_batch, whole)
        return np.maximum(unit, unit * np.round(batch / unit))

    def _shares(self, batch: float) -> tuple[float, float]:
        """Ends of the interval of the steps over the steps."""
        interval = getattr(self.law, "steps_interval", None)
        if interval is None:
            return float("nan"), float("nan")
        steps = float(self.law.predict(batch))
        low, high = (float(end) / steps for end in interval(batch, self.level))
        return low, high

    @cached_property
    def reference(self) -> float:
        """The batch size that extra data are relative to."""
        return self.convention.reference_among(getattr(self.law, "batch_sizes", self.range))

    @property
    def _reference_samples(self) -> float:
        return self.reference * float(self.law.predict(self.reference))

    # ------------------------------------------------------------------ the choice

    @cached_property
    def candidates(self) -> Columns:
        """Batch sizes among which the choice is made, all over the range."""
        low, high = self.range
        batch = np.unique(self.feasible(np.geomspace(low, high, CANDIDATES)))
        return self.columns(batch[(batch >= low) & (batch <= high)])

    @cached_property
    def reachable(self) -> bool:
        """Whether a batch size meets the deadline; True without one."""
        return self.deadline is None or bool((self.candidates.hours <= self.deadline).any())

    @cached_property
    def choice(self) -> PlanRow:
        """The run to take.

        With a deadline the cheapest that meets it, or where none does the fastest; without one that of the least
        hours × device-hours, where 1% less of one costs 1% more of the other.
        """
        found = self.candidates
        if self.deadline is None:
            first, second = found.hours * found.device_hours, found.hours
        elif self.reachable:
            late = found.hours > self.deadline
            first, second = np.where(late, np.inf, found.device_hours), found.hours
        else:
            first, second = found.hours, found.device_hours
        return self.at(float(found.batch_size[np.lexsort((second, first))[0]]))

    @cached_property
    def rows(self) -> list[PlanRow]:
        """Runs at doubling batch sizes, at the choice, and next to the knee and B*."""
        low, high = self.range
        doublings = low * 2.0 ** np.arange(np.floor(np.log2(high / low) + 1e-9) + 1)
        marked = [end for end in (self.knee, self.critical_batch_size) if low <= end <= high]
        batch = np.unique(self.feasible([*doublings, *marked, self.choice.batch_size]))
        return [self.at(float(each)) for each in batch if low <= each <= high]

    # ------------------------------------------------------------------ batch sizes of the law

    @cached_property
    def knee(self) -> float:
        """Where 1% more batch size saves ½% of the steps; inf or 0 where the law has no such place."""
        return knee(self.law, self.range)

    @cached_property
    def knee_interval(self) -> tuple[float, float]:
        """Its confidence interval; nan for laws other than a `StepsLaw` with a fixed α."""
        if not isinstance(self.law, StepsLaw) or self.law.alpha_fitted or self.law.alpha <= 0.5:
            return float("nan"), float("nan")
        ends = (np.array(self.law.interval("b/a", self.level)) * (2 * self.law.alpha - 1)) ** (1 / self.law.alpha)
        return float(ends[0]), float(ends[1])

    @cached_property
    def critical_batch_size(self) -> float:
        """B* of the law by the convention; nan for laws that have none."""
        find = getattr(self.law, "critical_batch_size", None)
        return float("nan") if find is None else float(find(convention=Convention(self.reference, self._overhead)))

    @cached_property
    def critical_interval(self) -> tuple[float, float]:
        """Its confidence interval; nan for laws other than a `StepsLaw`."""
        if not isinstance(self.law, StepsLaw):
            return float("nan"), float("nan")
        return self.law.interval(level=self.level, convention=Convention(self.reference, self._overhead))

    @property
    def _overhead(self) -> float:
        return self.convention.overhead

    # ------------------------------------------------------------------ words

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What makes the choice worth less than it looks."""
        return tuple(self._notes())

    def _notes(self) -> Iterator[str]:
        choice, found = self.choice, self.candidates
        if not self.reachable:
            yield (
                f"no batch size from {self.range[0]:g} to {self.range[1]:g} meets the deadline of {self.deadline:g} h: "
                f"the fastest takes {choice.hours:.3g} h; it takes more devices, a later deadline, or other batch sizes"
            )
        elif self.deadline is not None and choice.hours_interval[1] > self.deadline:
            yield (
                f"the interval of the time reaches {choice.hours_interval[1]:.3g} h, past the deadline of "
                f"{self.deadline:g} h: the law does not make sure of it"
            )
        if self.devices == choice.devices and isinstance(self.throughput, ConstantThroughput):
            yield (
                "with one throughput for all batch sizes, larger batches on the same devices save no time: give a "
                "table of throughput, or leave the number of devices out"
            )
        if self.devices is not None and choice.devices < self.devices:
            yield f"batch size {choice.batch_size:g} feeds {choice.devices} of {self.devices} devices"
        if bool(self.throughput.outside(choice.batch_size / choice.devices)):
            yield (
                f"{choice.batch_size / choice.devices:g} samples a device and step lie outside of the table of "
                "throughput: above it the last one is taken, below it a step as long as the first one's"
            )
        measured = getattr(self.law, "batch_sizes", None)
        if measured is not None and not np.min(measured) <= choice.batch_size <= np.max(measured):
            ends = f"{np.min(measured):g} … {np.max(measured):g}"
            yield f"batch size {choice.batch_size:g} lies outside of those measured, {ends}"
        smallest, largest = found.batch_size[[0, -1]]
        if self.deadline is None and smallest < largest == choice.batch_size:
            yield f"{choice.batch_size:g} is the largest batch size that was looked at: larger ones may be better"


def knee(law: HasSteps, around: tuple[float, float]) -> float:
    """The batch size with the least S E = B S(B)², looked for up to a factor of 10⁴ around; 0 or inf at the ends."""
    if isinstance(law, StepsLaw):
        if law.alpha <= 0.5 or not law.b:
            return 0.0
        return float(((2 * law.alpha - 1) * law.b / law.a) ** (1 / law.alpha)) if law.a else float("inf")
    low, high = np.log(around[0] / FARTHEST), np.log(around[1] * FARTHEST)

    def product(log_batch: float) -> float:
        return log_batch + 2 * float(np.log(law.predict(np.exp(log_batch))))

    grid = np.linspace(low, high, POINTS)
    best = int(np.argmin([product(point) for point in grid]))
    if best in (0, grid.size - 1):
        return 0.0 if best == 0 else float("inf")
    fine: Any = optimize.minimize_scalar(product, bounds=(grid[best - 1], grid[best + 1]), options={"xatol": 1e-9})
    return float(np.exp(fine.x))


def plan(
    law: HasSteps,
    throughput: float | Throughput | Mapping[float, float],
    *,
    devices: int | None = None,
    micro_batch: int = 1,
    price: float | None = None,
    deadline: float | None = None,
    batch_sizes: tuple[float, float] | None = None,
    convention: Convention = SMALLEST,
    level: float = 0.95,
) -> RunPlan:
    """Time, cost and extra data of a run at each batch size, and which one to take.

    >>> import sgdtheory as st
    >>> law = st.fit_steps_law([64, 256, 1024, 4096], [50000, 14000, 5000, 2800])
    >>> plan = st.plan(law, throughput=12, micro_batch=8, price=2.5, deadline=3.5)
    >>> choice = plan.choice
    >>> choice.batch_size, choice.devices, round(choice.hours, 2), round(choice.cost), round(choice.extra_data, 3)
    (184.0, 23, 3.46, 199, 0.077)
    >>> round(plan.knee), plan.notes[0][:46]
    (1497, 'the interval of the time reaches 3.51 h, past ')

    Args:
        law: of the steps to the target: a `StepsLaw`, or anything with `predict(batch_size)`.
        throughput: samples a second of one device: a number, or a table of it against the samples that a device takes
            a step (a `Throughput`, or a mapping).
        devices: how many there are; None: as many as the batch size feeds, B/micro_batch.
        micro_batch: fewest samples that a device takes a step; batch sizes are multiples of it, and where devices are
            fixed of devices × micro_batch.
        price: of a device-hour.
        deadline: hours.
        batch_sizes: smallest and largest that may be taken; None: those that the law was measured at.
        convention: of B*; its reference is also what extra data are relative to: the smallest batch size measured.
        level: of the intervals.

    Returns:
        RunPlan, with the `choice` and `rows` of a table; an unreachable deadline is told by `reachable` and `notes`.

    Raises:
        ValueError: numbers that are not positive, or batch sizes among which devices can share none.
    """
    if not hasattr(law, "predict"):
        raise ValueError(f"law must have predict(batch_size), as a StepsLaw has, got {law!r}")
    if batch_sizes is None:
        if not hasattr(law, "batch_sizes"):
            raise ValueError("batch_sizes must be given, smallest and largest: the law does not say what was measured")
        measured = positive_array("batch_sizes", law.batch_sizes)  # pyright: ignore[reportAttributeAccessIssue]
        batch_sizes = float(measured.min()), float(measured.max())
    ends = positive_array("batch_sizes", batch_sizes)
    if ends.shape != (2,) or ends[0] > ends[1]:
        raise ValueError(f"batch_sizes must be the smallest and the largest, got {np.asarray(batch_sizes).tolist()}")
    made = RunPlan(
        law,
        _throughput(throughput),
        None if devices is None else whole_number("devices", devices, 1),
        whole_number("micro_batch", micro_batch, 1),
        None if price is None else positive_number("price", price),
        None if deadline is None else positive_number("deadline", deadline),
        (float(ends[0]), float(ends[1])),
        convention,
        share_between_0_and_1("level", level),
    )
    if not made.candidates.batch_size.size:
        shared = (
            f"{made.micro_batch} samples on each of {devices} devices" if devices else f"{made.micro_batch} samples"
        )
        raise ValueError(
            f"batch_sizes from {ends[0]:g} to {ends[1]:g} hold no multiple of {shared}: widen them, or take a smaller "
            "micro_batch"
        )
    return made


def _throughput(throughput: float | Throughput | Mapping[float, float]) -> Throughput | ConstantThroughput:
    if isinstance(throughput, Throughput):
        return throughput
    if isinstance(throughput, Mapping):
        return Throughput(list(throughput), list(throughput.values()))
    return ConstantThroughput(positive_number("throughput", throughput))
