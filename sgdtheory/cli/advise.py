"""`sgdtheory advise`: what to do to the settings of a run when its batch size changes, and why."""

import csv
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import tyro

from sgdtheory._common.sheets import Sheet
from sgdtheory.advice import change_batch_size
from sgdtheory.cli.log_flags import remarks_of_logs
from sgdtheory.cli.log_optimizer import names_in, optimizer_named, taken_optimizer
from sgdtheory.fits import LossGrid, fit_loss_grid, read_loss_grid
from sgdtheory.logs import TrainingLog, loss_grid, read_logs

LONGEST_HEADER = 1 << 20  # A first line of more characters than this names no columns: the file is not a grid.
GRID = "batch_size", "samples", "learning_rate", "loss"


class Known(NamedTuple):
    """Contents of a run's file: a fitted grid of losses or None, settings by name, remarks, names of optimizers."""

    grid: LossGrid | None
    settings: dict[str, float]
    remarks: list[str]
    optimizers: list[str]


def advise(
    new_batch_size: float,
    file: Annotated[Path | None, tyro.conf.Positional] = None,
    optimizer: Literal["sgd", "momentum", "adam", "adamw", "sign", "signum", "lion", "muon"] | None = None,
    batch_size: float | None = None,
    learning_rate: float | None = None,
    beta1: float | None = None,
    beta2: float | None = None,
    weight_decay: float | None = None,
    warmup: float | None = None,
    decay: float | None = None,
    num_steps: float | None = None,
    critical_batch_size: float | None = None,
    reference: float | None = None,
    level: float = 0.95,
) -> Sheet:
    """Advise on a change of the batch size: learning rate, β₁, β₂, weight decay, warm-up, decay and steps.

    Samples are kept: half-lives, warm-up and decay. Each number has a range, a reason and a source. A training log says
    what the settings are now. With runs at several batch sizes, as logs or as a grid (columns batch_size, samples,
    learning_rate and loss), the learning rate follows their own exponent.

    Args:
        new_batch_size: Batch size to change to, in the unit of the one now.
        file: Log with the settings now; or measurements: logs at several batch sizes (a folder), or a grid's CSV file.
        optimizer: What takes the steps; None: as the log says, or adam.
        batch_size: Batch size now, over all devices and accumulated micro batches; None: the log's.
        learning_rate: Learning rate now, at its peak; None: the log's.
        beta1: Adam's β₁; the momentum of other optimizers.
        beta2: Adam's β₂.
        weight_decay: Weight decay, decoupled as AdamW's.
        warmup: Steps of warm-up.
        decay: Steps of decay.
        num_steps: Steps of the run.
        critical_batch_size: B*, with which a run needs 20% more data than with --reference, if you know it.
        reference: Batch size from which B* counts, as fit prints both; None: batches so small that they waste nothing.
        level: Level of the intervals from a grid.
    """
    given = {
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "beta1": beta1,
        "beta2": beta2,
        "weight_decay": weight_decay,
        "warmup_steps": warmup,
        "decay_steps": decay,
        "num_steps": num_steps,
        "critical_batch_size": critical_batch_size,
        "reference": reference,
    }
    known = Known(None, {}, [], []) if file is None else _known(file, level)
    current = known.settings | {name: value for name, value in given.items() if value is not None}
    for name in ("batch_size", "learning_rate"):
        if name not in current:
            where = f"; fit-curves {file} --preview says what the log has of it" if file else ""
            raise ValueError(f"the {name.replace('_', ' ')} now is not known: give --{name.replace('_', '-')}{where}")
    taken = taken_optimizer(optimizer, known.optimizers, "adam", optimizer_named)
    change = change_batch_size(
        current, new_batch_size=new_batch_size, optimizer=taken.optimizer, fit=known.grid, level=level
    )
    sheet = change.sheet()
    return replace(sheet, remarks=[*known.remarks, taken.doubt, *sheet.remarks])


def _known(file: Path, level: float) -> Known:
    """Return the fit of a grid of losses, or of the ends of several runs; or the settings of a log's first run."""
    if _is_grid(file):
        columns: dict[str, Any] = {name: name for name in GRID}
        return Known(fit_loss_grid(read_loss_grid(file, **columns), level=level), {}, [], [])
    logs = read_logs(file)
    remarks = remarks_of_logs(logs)
    runs = [settings_of(log) for log in logs]
    names = names_in(log.settings for log in logs)
    if len({run["batch_size"] for run in runs if "batch_size" in run}) > 1:
        said = f"the ends of {len(runs)} runs at several batch sizes are used as a grid, and the settings of flags"
        return Known(fit_loss_grid(loss_grid(logs), level=level), {}, [said, *remarks], names)
    found = [f"optimizer {names[0]}"] if len(names) == 1 else []
    found += [f"{each.replace('_', ' ')} {value:g}" for each, value in runs[0].items()]
    said = f"from the log of {logs[0].name or file.name}: {', '.join(found) or 'no settings'}"
    return Known(None, runs[0], [said, *remarks], names)


def _is_grid(path: Path) -> bool:
    """Return whether the first line of a file names the columns of a grid."""
    if not path.is_file():
        return False
    with path.open(encoding="utf-8", errors="replace", newline="") as file, suppress(csv.Error):
        return set(GRID) <= set(next(csv.reader([file.readline(LONGEST_HEADER)]), []))
    return False


def settings_of(log: TrainingLog) -> dict[str, float]:
    """Return the settings of a log's run: the last batch size, the largest learning rate, and those logged by name."""
    same = "batch_size", "learning_rate", "beta1", "beta2", "weight_decay", "num_steps"
    named = {"warmup": "warmup_steps", **{name: name for name in same}}
    found = {named[name]: float(value) for name, value in log.settings.items() if name in named and value is not None}
    batches = log.batch_size[np.isfinite(log.batch_size)]
    if batches.size:
        found["batch_size"] = float(batches[-1])
    rates = log.learning_rate[np.isfinite(log.learning_rate)]
    if rates.size:
        found["learning_rate"] = float(rates.max())
    return found
