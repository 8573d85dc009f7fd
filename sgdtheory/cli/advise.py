"""`sgdtheory advise`: what to do to the settings of a run when its batch size or its data change, and why."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from sgdtheory import fits
from sgdtheory._common.sheets import Sheet, number
from sgdtheory.advice import BatchSizeChange, TrainingSetup, change_batch_size
from sgdtheory.cli.flags import Files
from sgdtheory.cli.function_command import Keywords
from sgdtheory.cli.log_flags import NUMBERS, LogFlags, has_columns, number_or_text, remarks_of_logs
from sgdtheory.cli.log_optimizer import optimizer_named, taken_optimizer
from sgdtheory.cli.target_logs import TargetSteps, law_of, steps_of_logs
from sgdtheory.logs import TrainingLog, loss_grid, run_settings

GRID = "batch_size", "samples", "learning_rate", "loss"


class Known(NamedTuple):
    """Contents of a run's files: settings, a fit, remarks, the logs, the answer about B*, and the law of γ*(B, D)."""

    settings: dict[str, float]
    fit: fits.LossGrid | fits.StepsLaw | None = None
    remarks: Sequence[str] = ()
    logs: Sequence[TrainingLog] = ()
    law: fits.FittedCriticalBatchSize | None = None
    rates: fits.LearningRateLaw | None = None
    table: Mapping[str, Any] | None = None  # the losses to which `fit` was fitted


def advise(
    logs: LogFlags,
    files: Files = (),
    new_batch_size: float | None = None,
    new_num_samples: float | None = None,
    target_loss: float | None = None,
    optimizer: Literal["sgd", "momentum", "adam", "adamw", "sign", "signum", "lion", "muon"] | None = None,
    warmup: float | None = None,
    decay: float | None = None,
    level: float = 0.95,
    **setup: Annotated[
        Any,
        Keywords(TrainingSetup, "beta1 beta2 weight_decay num_steps num_samples critical_batch_size reference"),
    ],
) -> Sheet:
    """Advise on another batch size or length of a run: learning rate, β₁, β₂, weight decay, warm-up, decay and steps.

    Samples are kept: half-lives, warm-up and decay. Each number has a range, a reason and a source. A training log says
    what the settings are now. With logs at three batch sizes or more and --target-loss, B* is fitted to them as `fit`
    does it. With runs at several batch sizes and learning rates, as logs or as a grid (columns batch_size, samples,
    learning_rate and loss), the learning rate follows the law that `fit-rates` fits to them, or their own exponent if
    the length of the run now is not given.

    Args:
        new_batch_size: Batch size to change to, in the unit of the one now; None: as it is.
        new_num_samples: Data of the new run, in the unit of the batch size; None: as they are.
        files: Log with the settings now; or logs at several batch sizes, files or folders; or a grid's CSV file.
        target_loss: Loss to which steps are counted in logs at three batch sizes or more, for B*.
        optimizer: What takes the steps; None: as the log says, or adam where it is a language model's or has a weight
            decay or Adam's settings.
        batch_size: Batch size now, over all devices and accumulated micro batches; of logs also their column, or that
            of each run: run7=64,run8=256; None: the log's, of several the nearest to the new one.
        learning_rate: Learning rate now, at its peak; of logs also their column, or that of each run; None: the log's.
        warmup: Steps of warm-up.
        decay: Steps of decay.
        level: Level of the intervals from logs or a grid.
    """
    if target_loss is not None and setup["critical_batch_size"] is not None:
        raise ValueError("target_loss asks for B* of the logs, and critical_batch_size gives it: leave one of them out")
    now = {name: number_or_text(getattr(logs, name)) for name in NUMBERS}
    if not files:
        for name, value in now.items():
            if isinstance(value, str):
                raise ValueError(f"{name} must be a number where there are no logs, got {value!r}")
    if new_batch_size is None and new_num_samples is None:
        raise ValueError("nothing changes: give new_batch_size, new_num_samples, or both")
    known = _known(logs, files, new_batch_size, target_loss, level)
    given = setup | {"warmup_steps": warmup, "decay_steps": decay}
    given |= {name: value for name, value in now.items() if isinstance(value, float)}
    current = known.settings | {name: value for name, value in given.items() if value is not None}
    if known.table is not None and (new_num_samples is not None or {"num_samples", "num_steps"} & current.keys()):
        known = _with_rates(known, level, needed=new_num_samples is not None)
    if setup["num_samples"] is not None and setup["num_steps"] is None:
        current.pop("num_steps", None)  # The data that a flag gives replace the steps that a log names.
    for name in NUMBERS:
        if name not in current:
            where = f"; `sgdtheory fit-curves {files[0]} --preview` shows what the log has" if files else ""
            raise ValueError(f"the {name.replace('_', ' ')} now is not known: give --{name.replace('_', '-')}{where}")
    taken = taken_optimizer(optimizer, known.logs, optimizer_named, setup | {"sequence_length": logs.sequence_length})
    change = change_batch_size(
        current,
        new_batch_size=new_batch_size,
        new_num_samples=new_num_samples,
        optimizer=taken.optimizer,
        fit=known.fit,
        rate_law=known.rates,
        level=level,
    )
    sheet = change.sheet()
    sheet = replace(sheet, remarks=[*known.remarks, *(taken.notes if known.law else [taken.doubt]), *sheet.remarks])
    if target_loss is None or known.law is None or all(row.name != "extra_data" for row in change.rows):
        return sheet
    return _with_answer(sheet, change, known.law, target_loss)


def _with_answer(
    sheet: Sheet, change: BatchSizeChange, found: fits.FittedCriticalBatchSize, target_loss: float
) -> Sheet:
    """Return the sheet with B* of the logs, and what the change costs, in the first line."""
    data, reference = change["extra_data"], found.convention.reference
    answer = (
        f"{sheet.answer}\nLoss {target_loss:g} takes {data.new:+.1%} ({data.low:+.1%} … {data.high:+.1%}) data at "
        f"batch size {number(change.new_batch_size)}, compared with {number(change.current.batch_size)}"
    )
    settings = {
        "target_loss": target_loss,
        "critical_batch_size": found.batch_size,
        "critical_batch_size_interval": found.interval,
        "reference": reference,
    }
    return replace(sheet, answer=answer, settings={**sheet.settings, **settings})


def _with_rates(known: Known, level: float, needed: bool) -> Known:
    """Return what is known with the law of the best learning rate in B and D.

    If the runs have no such law, the reason is a remark where it is `needed`. At the same D the exponent of the grid
    does without it, but that is one power of B, which misses a kink between the two batch sizes.
    """
    try:
        found = fits.fit_rates(known.table or {}, level=level, compare=False)
    except ValueError as error:
        reason = [f"the runs have no law of the best learning rate: {error}"] if needed else []
        return known._replace(remarks=[*reason, *known.remarks])
    whole = not np.isnan(found.duration_exponent + found.batch_exponent)
    return known._replace(rates=found) if whole or needed else known


def _known(
    flags: LogFlags, files: tuple[Path, ...], new: float | None, target_loss: float | None, level: float
) -> Known:
    """Return the fit of a grid of losses, or of several runs, and the settings of the run that is changed to `new`."""
    numbers = {name: value for name in NUMBERS if isinstance(value := number_or_text(getattr(flags, name)), float)}
    flags = replace(flags, **dict.fromkeys(numbers))  # A number is that of the run now, not that of every log.
    now = numbers.get("batch_size")
    if target_loss is not None:
        return _known_steps(steps_of_logs(flags, files, [target_loss]), new, now, level)
    if not files:
        return Known({})
    if len(files) == 1 and has_columns(files[0], *GRID):
        columns: dict[str, Any] = {name: name for name in GRID}
        table = fits.read_loss_grid(files[0], **columns, **({"group": flags.group} if flags.group else {}))
        return Known({}, fits.fit_loss_grid(table, level=level), table=table)
    logs, options = flags.read_several(files)
    remarks = remarks_of_logs(logs)
    runs = [run_settings(log, **{name: options.get(name) for name in (*NUMBERS, "sequence_length")}) for log in logs]
    sizes = {place: run["batch_size"] for place, run in enumerate(runs) if "batch_size" in run}
    if len(set(sizes.values())) < 2:
        found = [f"optimizer {logs[0].settings['optimizer']}"] if logs[0].settings.get("optimizer") else []
        found += [f"{name.replace('_', ' ')} {value:g}" for name, value in runs[0].items()]
        said = f"from the log of {logs[0].name or files[0].name}: {', '.join(found) or 'no settings'}"
        return Known(runs[0], None, [said, *remarks], logs)
    chosen = _nearest(set(sizes.values()), new, now)
    place = next((place for place, size in sizes.items() if size == chosen), None)
    settings = {} if place is None else runs[place]
    said = [] if place is None else [_said(logs[place], chosen, new, now)]
    count = len(set(sizes.values()))
    way = f"the logs are at {count} batch sizes: if they reach a common loss, --target-loss LOSS fits B* to them"
    try:
        table = loss_grid(logs, **options)
        grid = fits.fit_loss_grid(table, level=level)
    except ValueError as error:
        return Known(settings, None, [way, f"the ends of the runs are no grid: {error}", *said, *remarks], logs)
    used = f"the ends of {len(runs)} runs at several batch sizes are used as a grid"
    return Known(settings, grid, [*([] if grid.targets else [way]), used, *said, *remarks], logs, table=table)


def _known_steps(steps: TargetSteps, new: float | None, now: float | None, level: float) -> Known:
    """Return the law of the steps to a loss, and the settings of the best run at the batch size now."""
    (measured,) = steps.of_one_group()
    law = law_of(measured)
    best = steps.best_runs
    chosen = _nearest(set(best), new, now)
    settings, remarks = {}, []
    if chosen in best:
        run = best[chosen]
        log = next(log for log in steps.logs if (log.name, log.group) == (run.name, run.group))
        logged = {"learning_rate": run.learning_rate} if np.isfinite(run.learning_rate) else {}
        settings = {"num_steps": run.crossing.step} | run_settings(log) | {"batch_size": chosen} | logged
        remarks.append(_said(log, chosen, new, now))
    if new is not None and new in best and new != chosen:
        tried = best[new]
        remarks.append(
            f"{tried.name} has batch size {new:g}: it reached the loss in {number(tried.crossing.step)} steps with the "
            f"largest learning rate {number(tried.learning_rate)}"
        )
    convention = fits.Convention(fits.SMALLEST.reference_among(law.batch_sizes), fits.SMALLEST.overhead)
    ends = law.interval("critical_batch_size", level, convention=convention)
    found = fits.FittedCriticalBatchSize(law.critical_batch_size(convention=convention), *ends, convention, level)
    doubts = fits.LawsOfGroups((measured,), (law,), convention, level).sheet().remarks
    return Known(settings, law, [*remarks, *steps.sheet().remarks, *doubts], steps.logs, found)


def _nearest(sizes: set[float], new: float | None, now: float | None) -> float:
    """Return the batch size now: the one that is given, or of several in logs the nearest to the new one."""
    if now is not None:
        return now
    if new is None:
        if len(sizes) > 1:
            listed = ", ".join(f"{size:g}" for size in sorted(sizes))
            raise ValueError(f"the logs have several batch sizes, {listed}: name the one now with --batch-size")
        return next(iter(sizes))
    others = sorted(sizes - {new}) or sorted(sizes)
    return min(others, key=lambda size: abs(np.log(size / new)))


def _said(log: TrainingLog, size: float, new: float | None, now: float | None) -> str:
    """Return the sentence on the run whose settings are those now."""
    why = "" if now is not None or new is None else f", the nearest to {new:g}; --batch-size names another"
    return f"the settings now are those of {log.name}, with batch size {size:g}{why}"
