"""Flags of every command that reads training logs: what columns are called, and what the logs do not say."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from sgdtheory import fits
from sgdtheory._common.csv_rows import csv_header
from sgdtheory._common.sheets import Sheet, shared
from sgdtheory.cli.log_optimizer import TakenOptimizer, optimizer_of_curves, taken_optimizer
from sgdtheory.curves import LossCurve
from sgdtheory.logs import ColumnNames, TrainingLog, loss_curve, loss_grid, preview, read_logs

Use = Literal["curves", "steps", "grid"]  # what is made of logs: loss curves, steps to a target, a grid of losses
NUMBERS = "learning_rate", "batch_size"  # Each of these flags takes the name of a column or the number itself.


@dataclass(frozen=True, kw_only=True)
class LogFlags:
    """The flags of a command on logs of any format that `read_training_log` knows; a table may have the columns too."""

    FLAG_GROUPS: ClassVar[dict[str, tuple[str, ...]]] = {
        "columns": ("step", "learning_rate", "loss", "batch_size", "tokens", "curve", "group"),
        "logs": (
            *("sequence_length", "warmup", "weight_decay", "optimizer", "hold_out", "max_learning_rate", "preview"),
        ),
    }

    USE: ClassVar[Use] = "steps"

    step: str | None = None
    """Column, key or tag that counts optimizer steps; None: guessed, as all columns of logs are."""
    learning_rate: str | None = None
    """Column with the learning rate, or the number."""
    loss: str | None = None
    """Which loss: train, eval, or the name of its column."""
    batch_size: str | None = None
    """Column with the batch size, or the number, in sequences or as "524288 tokens", or that of each run:
    run7=64,run8=256; None: as the log says, or not known."""
    tokens: str | None = None
    """Column with the tokens seen."""
    curve: str | None = None
    """Column that separates the runs of a file."""
    group: str | None = None
    """Column that separates models: each is fitted on its own."""
    sequence_length: float | None = None
    """Tokens of a sequence: tokens from batch sizes, and batch sizes from tokens."""
    preview: bool = False
    """Print what was understood of the logs (rows, columns, gaps, what is missing), and fit nothing."""

    def log_options(self, use: Use) -> dict[str, Any]:
        """Return the keywords of `read_logs` and of what is made of logs; only curves may count batches in tokens."""
        same = "step", "loss", "tokens", "group", "sequence_length"
        numbers = {name: _number_of_each(number_or_text(getattr(self, name))) for name in NUMBERS}
        options = {name: getattr(self, name) for name in same} | {"run": self.curve} | numbers
        if use != "curves" and "batch_tokens" in ColumnNames.among(options)[1]:
            raise ValueError(f"batch_size {self.batch_size} needs the tokens of a sequence, --sequence-length")
        return options

    def preview_of(self, values: Mapping[str, Any]) -> Sheet:
        """Return the sheet of the preview of a command's logs, from the values of all its flags."""
        paths = [path for name in ("log", "logs", "files", "also") for path in np.ravel(values.get(name, ()))]
        if not paths:
            raise ValueError("preview needs files: name logs")
        use = "steps" if values.get("target_loss") else self.USE
        return preview(paths, use=use, **self.log_options(use)).sheet()

    def read_several(self, paths: Sequence[Path]) -> tuple[list[TrainingLog], dict[str, Any]]:
        """Return the logs among files and in folders, and the keywords of `steps_to_target` and `loss_grid`."""
        names, given = ColumnNames.among(self.log_options("steps"))
        return read_logs(paths, **vars(names)), given


@dataclass(frozen=True, kw_only=True)
class CurveFlags(LogFlags):
    """The flags of a command that reads loss curves from logs."""

    USE: ClassVar[Use] = "curves"

    loss: str | None = "train"
    """Which loss: train, eval, or the name of its column."""
    warmup: float | None = None
    """Steps of linear warm-up before the first row; None: as the log says, or 0."""
    weight_decay: float | None = None
    """Weight decay of AdamW; None: as the log says, or none; 0: none."""
    optimizer: Literal["sgd", "adam"] | None = None
    """Whether steps follow the size of gradients, as Adam's do: then what a learning rate does depends on the batch
    size; None: as the log says, or adam where it is a language model's or has a weight decay or Adam's settings."""

    def log_options(self, use: Use) -> dict[str, Any]:
        """Return the keywords of `read_training_log`: a loss curve has a warm-up."""
        return super().log_options(use) | ({"warmup": self.warmup} if use == "curves" else {})

    def read_runs(self, paths: Sequence[Path]) -> list[tuple[TrainingLog, LossCurve]]:
        """Return each loss curve with its log, which has the settings of the run."""
        names, given = ColumnNames.among(self.log_options("curves"))
        return [(log, loss_curve(log, **given)) for log in read_logs(paths, **vars(names))]

    def taken_optimizer(self, logs: Sequence[TrainingLog]) -> TakenOptimizer:
        """Return the optimizer of runs that are fitted together."""
        flags = {"weight_decay": self.weight_decay, "sequence_length": self.sequence_length}
        return taken_optimizer(self.optimizer, logs, optimizer_of_curves, flags)

    def taken_weight_decay(self, logs: Sequence[TrainingLog]) -> tuple[float | None, list[str]]:
        """Return the weight decay of runs that are fitted together, None for 0, and a note if it is the logs'.

        Raises:
            ValueError: the logs name several weight decays, and no flag decides.
        """
        named = {float(log.settings["weight_decay"] or 0.0) for log in logs if "weight_decay" in log.settings}
        if self.weight_decay is not None:
            return self.weight_decay or None, []
        if len(named) > 1:
            several = " and ".join(f"{each:g}" for each in sorted(named))
            raise ValueError(
                f"the logs name several weight decays, {several}: give --weight-decay, or fit their runs apart"
            )
        decay = next(iter(named), 0.0)
        return decay or None, [f"weight decay, from the log: {decay:g}"] if decay else []


@dataclass(frozen=True, kw_only=True)
class GridFlags(LogFlags):
    """The flags of a command on a grid of losses: a table, or the ends of logs."""

    FLAG_GROUPS: ClassVar[dict[str, tuple[str, ...]]] = {
        **LogFlags.FLAG_GROUPS,
        "columns": (*LogFlags.FLAG_GROUPS["columns"], "samples", "size", "seed"),
    }

    USE: ClassVar[Use] = "grid"

    learning_rate: str | None = None
    """Column with the learning rate; of logs also the number, or that of each run: run7=1e-3,run8=2e-3; None:
    learning_rate, and guessed of logs."""
    loss: str | None = None
    """Column with the loss; of logs also train or eval; None: loss, and of logs evaluations where every run has
    them."""
    batch_size: str | None = None
    """Column with the batch size; of logs also the number, or that of each run: run7=64,run8=256; None: batch_size,
    and guessed of logs."""
    samples: str = "samples"
    """Column with the data, in the unit of the batch size."""
    size: str | None = None
    """Column with the model size."""
    seed: str | None = None
    """Column with the seed: rows of one batch size, learning rate and seed are then points of one run."""

    def losses(self, files: Sequence[Path], command: str) -> tuple[dict[str, list[Any]], list[str]]:
        """Return the columns of the table, or of the logs, and the remarks of the logs."""
        if not files:
            raise ValueError(f"{command} needs a CSV file of losses, or logs: name files or folders")
        if is_table(files, self.samples):
            named = {name: getattr(self, name) or name for name in ("batch_size", "learning_rate", "loss")}
            more = {name: getattr(self, name) for name in ("samples", "size", "seed", "group")}
            return fits.read_loss_grid(files[0], **named, **more), []
        read, options = self.read_several(files)
        return loss_grid(read, **options), remarks_of_logs(read)


def remarks_of_logs(logs: Sequence[TrainingLog]) -> list[str]:
    """Return what was not understood of logs, or left out of them, for the notes of a command."""
    return shared(((log.name, remark) for log in logs for remark in log.remarks), "logs")


def number_or_text(value: str | None) -> str | float | None:
    """Return a number where the text is one, else the text: the name of a column."""
    try:
        return value if value is None else float(value)
    except ValueError:
        return value


def _number_of_each(value: str | float | None) -> str | float | dict[str, float] | None:
    """Return `run=64,other=256` as a mapping, and any other value as it is."""
    if not isinstance(value, str) or "=" not in value:
        return value
    found = {}
    for pair in value.split(","):
        name, _, number = pair.partition("=")
        try:
            found[name.strip()] = float(number)
        except ValueError:
            raise ValueError(f"a number for each run must be written run=64,other=256, got {value!r}") from None
    return found


def has_columns(path: Path, *columns: str) -> bool:
    """Return whether the first line of a file names columns."""
    with suppress(ValueError):  # The file is no CSV in UTF-8: a folder, a compressed log, or Parquet.
        return set(columns) <= set(csv_header(path))
    return False


def is_table(paths: Sequence[Path], *columns: str) -> bool:
    """Return whether measurements are a CSV table: one file with these columns, or without a loss in any format."""
    if len(paths) != 1 or paths[0].is_dir():
        return False
    if has_columns(paths[0], *columns):
        return True
    try:
        return not any(log.has("loss") or log.has("evaluation_loss") for log in read_logs(paths[0]))
    except ValueError:
        return True  # Reading the table says what is wrong with the file.
