"""`sgdtheory plan`: from steps to a target and a throughput to a batch size, its time and cost, and a batch ramp."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

from sgdtheory import curves as loss_curves
from sgdtheory import fits
from sgdtheory._common.csv_rows import csv_header
from sgdtheory._common.sheets import Sheet
from sgdtheory.cli.fit_curves import FittedCurveFlags, fitted, longest
from sgdtheory.cli.flags import Files
from sgdtheory.cli.function_command import Drawn, Keywords, Output, Progress
from sgdtheory.cli.log_flags import is_table, number_or_text
from sgdtheory.cli.plan_schedule import ScheduleFlags, Source, with_ramp
from sgdtheory.cli.settings import Overhead
from sgdtheory.cli.target_logs import law_of, once_for_all, steps_of_logs
from sgdtheory.fits import ConstantThroughput, Convention, HasThroughput, Machine

OF_TIME = {"deadline", "batch_sizes", "price", "memory", "optimal_batch_size", "plot"}  # These flags need a throughput.
UNITS = {"s": 1 / 3600, "min": 1 / 60, "h": 1.0, "d": 24.0}


@dataclass(frozen=True, kw_only=True)
class MachineFlags:
    """The flags that say what devices there are, what they compute and what they cost."""

    GROUP: ClassVar[str] = "machine"

    throughput: float | None = None
    """Samples a second of one device, whatever it takes a step."""
    throughput_table: Path | None = None
    """CSV file of throughput: batch_size, samples a step of one device, and samples_per_second, of one device; or as
    logged micro_batch, samples_per_second of all devices, and where they differ devices, accumulation, memory_gb."""
    devices: tuple[int, ...] = ()
    """How many devices there are, or the numbers of them to choose from; None: those that were measured, or as many as
    the batch feeds."""
    micro_batch: int = 1
    """Fewest samples that a device takes at once."""
    max_micro_batch: int | None = None
    """Most samples that a device takes at once; the rest of its share it accumulates."""
    memory: float | None = None
    """GB of a device, which limit what it takes at once where memory_gb was measured."""
    price: float | None = None
    """Price of a device-hour."""
    currency: str = "USD"
    """Currency of the price."""

    @property
    def samples_per_second(self) -> float | HasThroughput:
        """Return the throughput, of the two flags that may give it."""
        if (self.throughput is None) == (self.throughput_table is None):
            raise ValueError("give --throughput, samples a second of one device, or --throughput-table, one of the two")
        if self.throughput_table is not None:
            return fits.read_throughput(self.throughput_table)
        assert self.throughput is not None
        return self.throughput


def plan(
    given: frozenset[str],
    progress: Progress,
    columns: FittedCurveFlags,
    machine: MachineFlags,
    ramp: ScheduleFlags,
    files: Files,
    steps: str = "steps",
    standard_error: str | None = None,
    target: str | None = None,
    target_loss: tuple[float, ...] = (),
    num_samples: float | None = None,
    deadline: str | None = None,
    reference: float | None = None,
    overhead: Overhead | None = None,
    **options: Annotated[Any, Keywords(fits.plan, "batch_sizes optimal_batch_size level")],
) -> Drawn | Output:
    """Choose a batch size from steps to a target, or training logs, and the throughput of devices.

    With a deadline it is the cheapest one that meets it; without one that of the least time × cost. Devices are as many
    as the batch feeds, or --devices at most. Extra data are relative to the smallest batch size measured. From
    training logs at several batch sizes with --target-loss, steps are interpolated as `fit` does it, and several losses
    give a batch ramp, without a throughput the ramp alone. To other training logs the theory is fitted as fit-curves
    does it, and the target is the least loss of --num-samples.

    Args:
        files: CSV file with a header, one row a batch size, as `sgdtheory fit` reads it, or fit-curves or fit-grid
            wrote it; or training logs, as fit-curves reads them.
        batch_size: Column with the batch size; of training logs it may be the number, or "524288 tokens"; None:
            batch_size.
        steps: Column with the steps to the target.
        group: Column that separates targets, or models; None: `group`, if a file of steps has one.
        standard_error: Column with the standard error of the steps; None: `standard_error`, if there is one.
        target: The group to plan for; needed where there are several. With --target-loss it is the lowest loss.
        target_loss: Loss to reach, of logs at three batch sizes or more; or several, on the way of a batch ramp.
        sequence_length: Tokens of a sequence: batch sizes from the tokens of a log, and the schedule in tokens, as
            Megatron-LM reads it with --seq-length.
        num_samples: D of training logs, whose least loss is the target, in the unit of the batch sizes; None: of the
            longest run.
        max_learning_rate: Largest learning rate of a run; None: the largest of the logs.
        hold_out: Names of logs that are not fitted.
        deadline: Time in which the run has to end: 72h, 3d or 90min.
        reference: Reference batch size of B* and of extra data; None: that of the fit, or the smallest measured.
        overhead: Extra data, relative to the reference batch size, that defines B*: 0.2 or 20%; None: that of the fit,
            or 20%.
    """
    share = 0.95 if options["level"] is None else options["level"]
    if target_loss:
        source = _of_targets(columns, files, target_loss, target, given)
    elif num_samples is not None or not is_table(files, columns.batch_size or "batch_size", steps):
        if ramp.asked:
            raise ValueError("--schedule needs several losses on the way: --target-loss 2.9 2.75 2.6, for example")
        source = _of_curves(columns, files, target, num_samples, overhead, share, progress)
    else:
        source = _of_table(files[0], columns, steps, standard_error, target)
    critical = source.law.critical if source.measured else None  # that of the fit which wrote the file of steps
    defined = fits.SMALLEST if critical is None else critical.convention
    convention = Convention(
        defined.reference if reference is None else reference, defined.overhead if overhead is None else overhead
    )
    if len(target_loss) > 1 and machine.throughput is None and machine.throughput_table is None:
        for name in sorted(given & OF_TIME):
            raise ValueError(f"{name} needs a throughput: give --throughput, samples a second of one device, too")
        # Devices that compute one sample a second each stand for those whose throughput is not known.
        sizes = machine.micro_batch, machine.max_micro_batch
        devices = Machine(ConstantThroughput(1.0), machine.devices[:1] or None, *sizes)
        sheet = _without_throughput(source, convention, share)
        return Output(with_ramp(sheet, ramp, columns, source, devices, share))
    made = fits.plan(
        source.law,
        machine.samples_per_second,
        micro_batch=machine.micro_batch,
        max_micro_batch=machine.max_micro_batch,
        devices=machine.devices or None,
        memory=machine.memory,
        price=machine.price,
        deadline=None if deadline is None else hours_of(deadline),
        convention=convention,
        **options,
    )
    sheet = made.sheet(machine.currency)
    sheet = replace(sheet, remarks=[*source.remarks, *sheet.remarks])
    if ramp.asked or len(target_loss) > 1:
        choice, devices = made.choice, made.machine
        if devices.counts is not None:  # of several numbers of devices the schedule has that of the choice
            devices = replace(devices, counts=(choice.devices,))
        sheet = with_ramp(sheet, ramp, columns, source, devices, made.level, choice)
    return Drawn(sheet, draw=lambda: made.plot(currency=machine.currency))


def _of_targets(
    columns: FittedCurveFlags,
    files: tuple[Path, ...],
    target_loss: tuple[float, ...],
    target: str | None,
    given: frozenset[str],
) -> Source:
    """Return the steps of logs to each loss, as `fit` reads them: of evaluations where every run has them.

    A learning rate that is a number belongs to the settings of a trainer, not to the logs, which hold one group.
    """
    rate = columns.learning_rate
    flags = replace(
        columns,
        loss=columns.loss if "loss" in given else None,
        learning_rate=None if isinstance(number_or_text(rate), float) else rate,
    )
    found = steps_of_logs(flags, files, target_loss)
    found.of_one_group()
    measured = {each.group or f"loss {loss:g}": each for loss, each in found.named}
    group = list(measured)[-1] if target is None else _chosen(measured, target)
    return Source(group, measured[group], found.sheet().remarks, measured, found)


def _of_curves(
    columns: FittedCurveFlags,
    files: tuple[Path, ...],
    target: str | None,
    num_samples: float | None,
    overhead: float | None,
    level: float,
    progress: Progress,
) -> Source:
    """Return the steps of the theory that is fitted to logs, as fit-curves does it, and notes on the fit."""
    models = {model.curves[0].group: model for model in columns.models(files)}
    group = _chosen(models, target)
    model = models[group]
    samples = longest(model.curves)[0] if num_samples is None else num_samples
    found = fitted(model, level, progress)
    progress("steps of the theory, and B* with its interval")
    share = fits.SMALLEST.overhead if overhead is None else overhead
    law = found.steps_law(samples, max_learning_rate=columns.max_learning_rate, overhead=share)
    remarks = [*model.notes, *loss_curves.curve_remarks(model.curves), found.remark, law.remark]
    return Source(group, law, [*filter(None, remarks), f"to the least loss of D = {samples:g}"])


def _of_table(
    path: Path, columns: FittedCurveFlags, steps: str, standard_error: str | None, target: str | None
) -> Source:
    """Return the measurements of a file of steps."""
    header = csv_header(path)
    names: dict[str, Any] = {"group": columns.group, "standard_error": standard_error}
    names = {name: name if given is None and name in header else given for name, given in names.items()}
    names |= {"batch_size": columns.batch_size or "batch_size", "steps": steps}
    measured = {each.group: each for each in fits.read_measurements(path, **names)}
    group = _chosen(measured, target)
    return Source(group, measured[group], measured[group].remarks, measured)


def _without_throughput(source: Source, convention: Convention, level: float) -> Sheet:
    """Return B* at each target, as `fit` prints it: without a throughput there is no time and no cost."""
    measured = tuple(source.measured.values())
    sizes = [each.batch_sizes for each in measured]
    shared = fits.common_convention(sizes, convention.reference, convention.overhead)
    sheet = fits.LawsOfGroups(measured, tuple(map(law_of, measured)), shared, level).sheet()
    return replace(sheet, remarks=[*source.remarks, *once_for_all(sheet.remarks, list(source.measured))])


def hours_of(text: str) -> float:
    """Return the hours of 72h, 3d, 90min or 600s, or of a bare number; another text is a ValueError."""
    found = re.fullmatch(r"(\d+\.?\d*(?:e\d+)?)(s|min|h|d)?", text)
    if not found:
        raise ValueError(f"deadline must be a time such as 72h, 3d or 90min, got {text}")
    return float(found[1]) * UNITS[found[2] or "h"]


def _chosen(groups: Mapping[str, object], target: str | None) -> str:
    """Return the group to plan for."""
    if target is None and len(groups) == 1:
        return next(iter(groups))
    if target is None:
        raise ValueError(f"target must name the group to plan for, one of {', '.join(groups)}")
    if target not in groups:
        raise ValueError(f"target must be one of {', '.join(filter(None, groups)) or 'no group'}, got {target}")
    return target
