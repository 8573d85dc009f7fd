"""`plan`: what it takes for steps and for throughput, and which batch sizes it may choose from."""

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from sgdtheory._common.arguments import positive_array, positive_number, share_between_0_and_1, whole_number
from sgdtheory.fits.abstract_law import HasSteps
from sgdtheory.fits.conventions import SMALLEST, Convention
from sgdtheory.fits.layouts import HasThroughput, Machine
from sgdtheory.fits.run_plan import RunPlan
from sgdtheory.fits.steps_fit import fit_steps_law
from sgdtheory.fits.steps_measurement import FittedCriticalBatchSize, StepsMeasurement
from sgdtheory.fits.steps_table import StepsTable
from sgdtheory.fits.throughput import ConstantThroughput, MeasuredThroughput, Throughput


@runtime_checkable
class HasStepsLaw(Protocol):
    """A fitted theory, as `CurvesFit` is one."""

    def steps_law(self, num_samples: float, *, overhead: float) -> HasSteps:
        """Its steps to the least loss of that many samples."""
        ...


def plan(
    law: HasSteps | StepsMeasurement | HasStepsLaw,
    throughput: float | HasThroughput | Mapping[float, float],
    *,
    num_samples: float | None = None,
    devices: int | Sequence[int] | None = None,
    micro_batch: int = 1,
    max_micro_batch: int | None = None,
    memory: float | None = None,
    price: float | None = None,
    deadline: float | None = None,
    batch_sizes: tuple[float, float] | None = None,
    convention: Convention | None = None,
    level: float | None = None,
    optimal_batch_size: bool = False,
) -> RunPlan:
    """Time, cost and extra data of a run at each batch size, and which one to take.

    >>> import sgdtheory as st
    >>> law = st.fit_steps_law([64, 256, 1024, 4096], [50000, 14000, 5000, 2800])
    >>> plan = st.plan(law, throughput=12, micro_batch=8, price=2.5, deadline=3.5)
    >>> choice = plan.choice
    >>> choice.batch_size, choice.devices, round(choice.hours, 2), round(choice.cost), round(choice.extra_data, 3)
    (184.0, 23, 3.46, 199, 0.077)
    >>> round(plan.knee), plan.notes[0][:46]
    (1497, 'the interval of the time reaches 3.59 h, past ')

    Args:
        law: of the steps to the target. A `StepsLaw` or `StepsTable`, or anything with `predict(batch_size)`, as it is;
            a `StepsMeasurement`, measured steps with or without errors, to which a law is fitted, or a theory's, which
            are taken as they are; a fitted theory (`CurvesFit`), with `num_samples`.
        throughput: samples a second of one device: a number, or a table of it against the samples that a device takes
            a step (a `Throughput`, or a mapping), or points as they are logged (a `MeasuredThroughput`).
        num_samples: D of a fitted theory: steps to the least loss of that many samples.
        devices: how many there are; several numbers: any one of them may be taken; None: those that were measured or,
            where the throughput is of one device, as many as the batch size feeds, B/micro_batch.
        micro_batch: fewest samples that a device takes at once; batch sizes are multiples of it, and where devices are
            fixed of devices × micro_batch.
        max_micro_batch: most samples that a device takes at once: the others of its share it accumulates, one micro
            batch after the other. None: no limit and no accumulation; of measured points the largest one measured.
        memory: of a device, in GB, which limits the micro batch too, where it was measured.
        price: of a device-hour.
        deadline: hours.
        batch_sizes: smallest and largest batch size that may be taken; None: those that the law was measured at.
        convention: of B*; its reference is also what extra data are relative to. None: that of the fit which the steps
            are from, else 20% over the smallest batch size measured.
        level: level of the intervals; None: that of the fit, or 0.95.
        optimal_batch_size: fit a + b/B + c/B² to measured steps: small batch sizes may take more data, too.

    Returns:
        RunPlan, with the `choice` and `rows` of a table; `reachable` and `notes` say whether a deadline is unreachable.

    Raises:
        ValueError: numbers that are not positive, or batch sizes among which devices can share none.
    """
    # A B* that the fit of the steps has found keeps its convention and level, unless others are asked for.
    steps, fitted = _steps(law, num_samples, convention, optimal_batch_size)
    if convention is None:
        convention = SMALLEST if fitted is None else fitted.convention
    if level is None:
        level = 0.95 if fitted is None else fitted.level
    ends = _range(steps, batch_sizes)
    unit = whole_number("micro_batch", micro_batch, 1)
    made = RunPlan(
        steps,
        _machine(_throughput(throughput), devices, unit, max_micro_batch, memory),
        None if price is None else positive_number("price", price),
        None if deadline is None else positive_number("deadline", deadline),
        ends,
        convention,
        share_between_0_and_1("level", level),
        fitted,
    )
    if not made.machine.candidates(*ends).size:
        devices_text = " or ".join(f"{count}" for count in made.machine.counts or ())
        shared = f"{unit} samples on each of {devices_text} devices" if devices_text else f"{unit} samples"
        raise ValueError(
            f"batch_sizes from {ends[0]:g} to {ends[1]:g} hold no multiple of {shared}: widen them, or take a smaller "
            "micro_batch"
        )
    return made


def _steps(
    law: HasSteps | StepsMeasurement | HasStepsLaw,
    num_samples: float | None,
    convention: Convention | None,
    optimal_batch_size: bool,
) -> tuple[HasSteps, FittedCriticalBatchSize | None]:
    """The law as `RunPlan` takes it, and B* where its fit says one."""
    if isinstance(law, HasStepsLaw):
        if num_samples is None:
            raise ValueError("num_samples must be given: steps of a theory are to the least loss of that many samples")
        overhead = SMALLEST.overhead if convention is None else convention.overhead
        law = law.steps_law(positive_number("num_samples", num_samples), overhead=overhead)
    elif num_samples is not None:
        raise ValueError("num_samples is of a fitted theory: measured steps have their target, leave it out")
    if optimal_batch_size and (not isinstance(law, StepsMeasurement) or law.computed):
        raise ValueError("optimal_batch_size is of a law that is fitted to measured steps: leave it out")
    if isinstance(law, StepsMeasurement):
        return _of_measurement(law, optimal_batch_size), law.critical
    if not hasattr(law, "predict"):
        raise ValueError(f"law must have predict(batch_size), as a StepsLaw has, got {law!r}")
    return law, getattr(law, "critical", None)


def _of_measurement(measured: StepsMeasurement, optimal_batch_size: bool) -> HasSteps:
    """The table of a theory, or the law that is fitted to measured steps: of the form that its fit had before."""
    fitted = measured.critical
    if measured.computed:
        errors = None if fitted is not None else measured.standard_errors
        return StepsTable(measured.batch_sizes, measured.steps, standard_errors=errors, critical=fitted)
    return fit_steps_law(
        measured.batch_sizes,
        measured.steps,
        standard_errors=measured.standard_errors,
        optimal_batch_size=optimal_batch_size or (fitted is not None and fitted.u_shaped),
    )


def _range(law: HasSteps, batch_sizes: tuple[float, float] | None) -> tuple[float, float]:
    """Smallest and largest batch size that is looked at."""
    if batch_sizes is None:
        if not hasattr(law, "batch_sizes"):
            raise ValueError("batch_sizes must be given, smallest and largest: the law does not say what was measured")
        measured = positive_array("batch_sizes", law.batch_sizes)  # pyright: ignore[reportAttributeAccessIssue]
        batch_sizes = float(measured.min()), float(measured.max())
    ends = positive_array("batch_sizes", batch_sizes)
    if ends.shape != (2,) or ends[0] > ends[1]:
        raise ValueError(f"batch_sizes must be the smallest and the largest, got {np.asarray(batch_sizes).tolist()}")
    return float(ends[0]), float(ends[1])


def _throughput(throughput: float | HasThroughput | Mapping[float, float]) -> HasThroughput:
    if isinstance(throughput, Mapping):
        return Throughput(list(throughput), list(throughput.values()))
    return throughput if hasattr(throughput, "at") else ConstantThroughput(positive_number("throughput", throughput))  # pyright: ignore[reportReturnType]


def _machine(
    throughput: HasThroughput,
    devices: int | Sequence[int] | None,
    unit: int,
    most: int | None,
    memory: float | None,
) -> Machine:
    measured = throughput if isinstance(throughput, MeasuredThroughput) else None
    if memory is not None and measured is None:
        raise ValueError(
            "memory needs a table of throughput with memory_gb, got a throughput without: give max_micro_batch"
        )
    # The smallest of three limits counts: the caller's, that of the memory, and without a memory the largest measured.
    limits = [] if most is None else [whole_number("max_micro_batch", most, 1)]
    if measured is not None:
        limits.append(
            measured.largest_micro_batch(memory) if memory is not None else int(measured.micro_batches.batch_sizes[-1])
        )
    if limits and min(limits) < unit:
        raise ValueError(f"micro_batch must be at most {min(limits)}, the largest that a device can take, got {unit}")
    counts = None if devices is None else tuple(whole_number("devices", each, 1) for each in np.atleast_1d(devices))
    if counts is None and measured is not None:
        counts = tuple(int(count) for count in measured.devices)
    return Machine(throughput, counts, unit, min(limits) if limits else None)
