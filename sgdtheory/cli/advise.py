"""`sgdtheory advise`: what to do to the settings of a run when its batch size changes, and why."""

import csv
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import tyro

from sgdtheory.advice import change_batch_size
from sgdtheory.cli.log_flags import remarks_of_logs
from sgdtheory.cli.log_optimizer import names_in, optimizer_named, taken_optimizer
from sgdtheory.cli.output import print_sheet
from sgdtheory.fits import LossGrid, fit_loss_grid, read_loss_grid
from sgdtheory.logs import TrainingLog, loss_grid, read_logs

LONGEST_HEADER = 1 << 20  # characters of a line that may name columns
SETTINGS = {  # flag → setting
    "batch_size": "batch_size",
    "learning_rate": "learning_rate",
    "beta1": "beta1",
    "beta2": "beta2",
    "weight_decay": "weight_decay",
    "warmup": "warmup_steps",
    "decay": "decay_steps",
    "num_steps": "num_steps",
    "critical_batch_size": "critical_batch_size",
    "reference": "reference",
}
GRID = "batch_size", "samples", "learning_rate", "loss"


@dataclass(frozen=True, kw_only=True)
class AdviseCommand:
    """Advise on a change of the batch size: learning rate, β₁, β₂, weight decay, warm-up, decay and steps.

    Samples are kept: half-lives, warm-up and decay. Each number has a range, a reason and a source. A training log says
    what the settings are now. With runs at several batch sizes, as logs or as a grid (columns batch_size, samples,
    learning_rate and loss), the learning rate follows their own exponent.
    """

    FLAG_GROUPS: ClassVar[dict[str, tuple[str, ...]]] = {
        "change": ("new_batch_size", "optimizer"),
        "settings now": tuple(SETTINGS),
        "measurements": ("file", "level"),
        "output": ("json",),
    }

    file: Annotated[Path | None, tyro.conf.Positional] = None
    """Log with the settings now; or measurements: logs at several batch sizes (a folder), or a grid's CSV file."""
    new_batch_size: float
    """Batch size to change to, in the unit of the one now."""
    batch_size: float | None = None
    """Batch size now, over all devices and accumulated micro batches; by default the log's."""
    learning_rate: float | None = None
    """Learning rate now, at its peak; by default the log's."""
    optimizer: Literal["sgd", "momentum", "adam", "adamw", "sign", "signum", "lion", "muon"] | None = None
    """What takes the steps; None: as the log says, or adam."""
    beta1: float | None = None
    """Of Adam; the momentum of others."""
    beta2: float | None = None
    """Of Adam."""
    weight_decay: float | None = None
    """Decoupled, as AdamW's."""
    warmup: float | None = None
    """Steps of warm-up."""
    decay: float | None = None
    """Steps of decay."""
    num_steps: float | None = None
    """Steps of the run."""
    critical_batch_size: float | None = None
    """B*, with which a run needs 20% more data than with --reference, if you know it."""
    reference: float | None = None
    """Batch size from which B* counts, as fit prints both; None: batches so small that they waste nothing."""
    level: float = 0.95
    """Level of the intervals from a grid."""
    json: bool = False
    """Print JSON."""

    def run(self) -> None:
        """Advise and print."""
        grid, current, said, names = self._file()
        current |= {name: getattr(self, flag) for flag, name in SETTINGS.items() if getattr(self, flag) is not None}
        for flag in ("batch_size", "learning_rate"):
            if flag not in current:
                name = flag.replace("_", " ")
                where = f"; fit-curves {self.file} --preview says what the log has of it" if self.file else ""
                raise ValueError(f"the {name} now is not known: give --{flag.replace('_', '-')}{where}")
        taken = taken_optimizer(self.optimizer, names, "adam", optimizer_named)
        change = change_batch_size(
            current, new_batch_size=self.new_batch_size, optimizer=taken.optimizer, fit=grid, level=self.level
        )
        sheet = change.sheet()
        print_sheet(replace(sheet, remarks=[*said, taken.doubt, *sheet.remarks]), self.json)

    def _file(self) -> tuple[LossGrid | None, dict[str, float], list[str], list[str]]:
        """A grid, or the settings of a log's first run; remarks on them; the optimizers that the logs name."""
        if self.file is None:
            return None, {}, [], []
        if _is_grid(self.file):
            columns: dict[str, Any] = {name: name for name in GRID}
            return fit_loss_grid(read_loss_grid(self.file, **columns), level=self.level), {}, [], []
        logs = read_logs(self.file)
        remarks = remarks_of_logs(logs)
        runs = [settings_of(log) for log in logs]
        names = names_in(log.settings for log in logs)
        if len({run["batch_size"] for run in runs if "batch_size" in run}) > 1:
            said = f"the ends of {len(runs)} runs at several batch sizes are used as a grid, and the settings of flags"
            return fit_loss_grid(loss_grid(logs), level=self.level), {}, [said, *remarks], names
        found = [f"optimizer {names[0]}"] if len(names) == 1 else []
        found += [f"{each.replace('_', ' ')} {value:g}" for each, value in runs[0].items()]
        said = f"from the log of {logs[0].name or self.file.name}: {', '.join(found) or 'no settings'}"
        return None, runs[0], [said, *remarks], names


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
