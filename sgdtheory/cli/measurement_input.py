"""Input of `fit` and `fit-grid`: a CSV table of measurements, or logs of several runs."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from sgdtheory._common.csv_rows import csv_header
from sgdtheory.cli.log_flags import number_or_text, remarks_of_logs
from sgdtheory.cli.output import print_sheet

if TYPE_CHECKING:
    from sgdtheory.logs import StepsToTarget, TrainingLog

NUMBERS = "batch_size", "learning_rate"  # columns, or numbers of all runs, or of each
LOG_FLAGS = "step", "tokens", "curve", "sequence_length", "preview"  # beside what the command calls its columns


@dataclass(frozen=True, kw_only=True)
class MeasurementFlags:
    """The flags of a command that takes a table, or logs; it has batch_size, learning_rate, loss and group too.

    Columns whose name was left alone are guessed of logs, for the names by default are those of a table.
    """

    USE: ClassVar[Literal["steps", "grid"]]  # of logs, as `preview` has it

    step: str | None = None
    """Of logs: column, key or tag that counts optimizer steps; None: guessed, as all columns of logs are."""
    tokens: str | None = None
    """Of logs: column with the tokens seen."""
    curve: str | None = None
    """Of logs: column that separates the runs of a file."""
    sequence_length: float | None = None
    """Of logs: tokens of a sequence, for batch sizes from tokens."""
    preview: bool = False
    """Of logs: print what was understood of them (rows, columns, gaps, what is missing), and fit nothing."""

    def print_preview(self, paths: Sequence[Path]) -> None:
        """Print the preview of logs."""
        from sgdtheory.logs import preview

        print_sheet(preview(paths, use=self.USE, **self._log_options).sheet(), as_json=False)

    def read_runs(self, paths: Sequence[Path]) -> "tuple[list[TrainingLog], dict[str, Any]]":
        """The logs among files and in folders, and the keywords of `steps_to_target` and `loss_grid`."""
        from sgdtheory.logs import ColumnNames, read_logs

        names, given = ColumnNames.among(self._log_options)
        return read_logs(paths, **vars(names)), given

    @property
    def _log_options(self) -> dict[str, Any]:
        """Keywords of `preview`: names of columns, and numbers."""
        from sgdtheory.logs import ColumnNames

        options: dict[str, Any] = {name: getattr(self, name) for name in ("step", "tokens", "sequence_length")}
        options |= {name: self._given(name) for name in ("loss", "group")}
        options |= {name: _number_of_each(number_or_text(self._given(name))) for name in NUMBERS}
        if "batch_tokens" in ColumnNames.among(options)[1]:
            raise ValueError(f"batch-size {options['batch_size']} needs the tokens of a sequence, --sequence-length")
        return options | {"run": self.curve}

    def steps_of_logs(self, paths: Sequence[Path], target_loss: float) -> "StepsToTarget":
        """Return `steps_to_target` of logs, with the remarks of the logs."""
        from sgdtheory.logs import steps_to_target

        logs, given = self.read_runs(paths)
        found = steps_to_target(logs, target_loss=target_loss, **given)
        return replace(found, remarks=(*found.remarks, *remarks_of_logs(logs)))

    def grid_of_logs(self, paths: Sequence[Path]) -> tuple[dict[str, list[Any]], list[str]]:
        """Return `loss_grid` of logs, and the remarks of the logs."""
        from sgdtheory.logs import loss_grid

        logs, given = self.read_runs(paths)
        return loss_grid(logs, **given), remarks_of_logs(logs)

    def _given(self, name: str) -> str | None:
        """Return the user's name of a column; None if it was not given."""
        value = getattr(self, name)
        default = next(field.default for field in fields(self) if field.name == name)
        return None if value == default else value


def _number_of_each(value: str | float | None) -> str | float | dict[str, float] | None:
    """`run=64,other=256` as a mapping, whatever else as it is."""
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


def is_table(paths: Sequence[Path], column: str) -> bool:
    """Return whether measurements come from a CSV table: one file with this column, or without a loss in any format."""
    from sgdtheory.logs import read_logs

    if len(paths) != 1 or paths[0].is_dir():
        return False
    path = paths[0]
    with suppress(ValueError):  # no CSV in UTF-8, as a log that is compressed, or Parquet
        if column in csv_header(path):
            return True
    try:
        return not any(log.has("loss") or log.has("evaluation_loss") for log in read_logs(path))
    except ValueError:
        return True  # reading the table says what is wrong with it


def only_table(paths: Sequence[Path], advice: str) -> Path:
    """The one file with a table.

    Raises:
        ValueError: several files, a folder, or a log; `advice` is what to do with those.
    """
    if is_table(paths, ""):
        return paths[0]
    what = "several files are no table of measurements"
    if len(paths) == 1:
        what = f"{paths[0]} is a {'folder' if paths[0].is_dir() else 'log'}, not a table of measurements"
    raise ValueError(f"{what}; {advice}")
