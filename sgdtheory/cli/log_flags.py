"""Flags of every command that reads training logs: what columns are called, what the log does not say, a preview."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sgdtheory._common.sheets import shared
from sgdtheory.cli.log_optimizer import TakenOptimizer, names_in, optimizer_of_curves, taken_optimizer
from sgdtheory.cli.output import print_sheet

if TYPE_CHECKING:
    from sgdtheory.curves import LossCurve
    from sgdtheory.logs import TrainingLog

LOG_GROUPS: dict[str, tuple[str, ...]] = {
    "columns": ("step", "learning_rate", "loss", "batch_size", "tokens", "curve", "group"),
    "what a log does not say": ("sequence_length", "warmup", "preview"),
}


@dataclass(frozen=True, kw_only=True)
class LogFlags:
    """The flags of a command whose files are logs of any format that `read_training_log` knows."""

    step: str | None = None
    """Column, key or tag that counts optimizer steps; None: guessed, as all columns are."""
    learning_rate: str | None = None
    """Column with the learning rate, or the number."""
    loss: str = "train"
    """Which loss: train, eval, or the name of its column."""
    batch_size: str | None = None
    """Column with the batch size, or the number, in sequences or as "524288 tokens"; None: as the log says, or not
    known."""
    tokens: str | None = None
    """Column with the tokens seen."""
    curve: str | None = None
    """Column that separates the runs of a file."""
    group: str | None = None
    """Column that separates models: each is fitted on its own."""
    sequence_length: float | None = None
    """Tokens of a sequence: tokens from batch sizes, and batch sizes from tokens."""
    warmup: float | None = None
    """Steps of linear warm-up before the first row; None: as the log says, or 0."""
    preview: bool = False
    """Print what was understood of the files (rows, columns, gaps, what is missing), and fit nothing."""
    optimizer: Literal["sgd", "adam"] | None = None
    """Whether steps follow the size of gradients, as Adam's do: then what a learning rate does depends on the batch
    size; None: as the log says, or sgd."""

    @property
    def log_options(self) -> dict[str, Any]:
        """Keywords of `read_training_log` and `preview`."""
        same = "step", "loss", "tokens", "group", "sequence_length", "warmup"
        options: dict[str, Any] = {name: getattr(self, name) for name in same}
        options |= {name: number_or_text(getattr(self, name)) for name in ("learning_rate", "batch_size")}
        return options | {"run": self.curve}

    def read_curves(self, paths: Sequence[Path]) -> "list[LossCurve]":
        """The curves of files."""
        from sgdtheory.logs import read_training_log

        return read_training_log(paths, **self.log_options)

    def read_runs(self, paths: Sequence[Path]) -> "list[tuple[TrainingLog, LossCurve]]":
        """Return each loss curve with its log, which has the settings of the run."""
        from sgdtheory.logs import ColumnNames, loss_curve, read_logs

        names, given = ColumnNames.among(self.log_options)
        return [(log, loss_curve(log, **given)) for log in read_logs(paths, **vars(names))]

    def taken_optimizer(self, settings: Iterable[Mapping[str, Any]]) -> TakenOptimizer:
        """Return the optimizer of runs that are fitted together, from the settings in their logs."""
        return taken_optimizer(self.optimizer, names_in(settings), "sgd", optimizer_of_curves)

    def print_preview(self, paths: Sequence[Path]) -> None:
        """Print the preview of the files."""
        from sgdtheory.logs import preview

        print_sheet(preview(paths, **self.log_options).sheet(), as_json=False)


def remarks_of_logs(logs: "Sequence[TrainingLog]") -> list[str]:
    """Return what was not understood of logs, or left out of them, for the notes of a command."""
    return shared(((log.name, remark) for log in logs for remark in log.remarks), "logs")


def number_or_text(value: str | None) -> str | float | None:
    """A number where it is one, else the name of a column."""
    try:
        return value if value is None else float(value)
    except ValueError:
        return value
