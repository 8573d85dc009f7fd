"""CSV as the W&B page exports a chart: one column a run, named "run - metric"."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sgdtheory.logs.column_names import ColumnNames
from sgdtheory.logs.files import stem
from sgdtheory.logs.formats.csv_table import columns_of, header_of, header_of_file
from sgdtheory.logs.formats.format import AbstractLogFormat
from sgdtheory.logs.table import Table, logs_of_table
from sgdtheory.logs.training_log import TrainingLog

BETWEEN = " - "
ENDS = "__MIN", "__MAX"  # The columns of a bin's least and largest value end so, beside that of its mean.


class WandbChart(AbstractLogFormat):
    """A chart of several runs: the first column is its horizontal axis, then three columns for each run and metric.

    A chart shows one metric: losses and learning rates lie in two files, which are joined by the names of the runs.
    """

    name = "W&B chart"
    programs = ("W&B: export of a chart as CSV",)

    def recognizes(self, path: Path, head: str) -> bool:
        """A column of a metric has its `__MIN` beside it, or all but the axis are metrics of runs."""
        header = header_of(head)
        if any(BETWEEN in name and f"{name}{ENDS[0]}" in header for name in header):
            return True
        return len(header) > 1 and header[0] == "Step" and all(BETWEEN in name for name in header[1:])

    def read(self, path: Path, names: ColumnNames) -> Sequence[TrainingLog]:
        """Return a log for each run."""
        header = header_of_file(path)
        axis = header[0]
        metrics: dict[str, dict[str, str]] = {}
        for column in header[1:]:
            if BETWEEN in column and not column.endswith(ENDS):
                run, _, metric = column.rpartition(BETWEEN)
                metrics.setdefault(run, {})[metric] = column
        counts = bool(names.counters([axis]))
        wanted = {column for own in metrics.values() for column in _wanted(names, own)}
        cells = columns_of(
            path, header, [column for column in header if column in wanted or (counts and column == axis)]
        )
        found: list[TrainingLog] = []
        for run, own in metrics.items():

            def read(numeric: Sequence[str], words: Sequence[str], own: dict[str, str] = own) -> dict[str, np.ndarray]:  # noqa: ARG001
                return {column: cells[own.get(column, column)] for column in numeric}

            present = [column for column in own if not counts or column not in names.counters([*own])]
            if not counts and not names.counters(present):
                raise ValueError(
                    f"{path}: its rows go by {axis!r}; if that counts steps, name it, step= (--step), and if not, "
                    "export the chart with Step on its axis"
                )
            present = [axis, *present] if counts else present
            found += logs_of_table(Table(run or stem(path), self.name, present, read, calls=(axis,)), names)
        return found


def _wanted(names: ColumnNames, own: dict[str, str]) -> list[str]:
    """Return the columns of a run that `logs_of_table` may read: those of its metrics that are understood."""
    understood = [*names.understand([*own]).values(), *names.counters([*own]), *names.epoch([*own])]
    return [own[column] for column in understood if column in own]
