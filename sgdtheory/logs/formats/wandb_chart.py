"""CSV as the W&B page exports a chart: one column a run, named "run - metric"."""

from collections.abc import Sequence
from pathlib import Path

from sgdtheory.logs.column_names import ColumnNames
from sgdtheory.logs.files import stem
from sgdtheory.logs.formats.csv_table import columns_of, header_of, header_of_file
from sgdtheory.logs.formats.format import AbstractLogFormat
from sgdtheory.logs.table import logs_of_columns, numbers, understood_columns
from sgdtheory.logs.training_log import TrainingLog

BETWEEN = " - "
ENDS = "__MIN", "__MAX"  # of a bin's values, beside their mean


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
        """A log for each run."""
        header = header_of_file(path)
        axis = header[0]
        metrics: dict[str, dict[str, str]] = {}
        for column in header[1:]:
            if BETWEEN in column and not column.endswith(ENDS):
                run, _, metric = column.rpartition(BETWEEN)
                metrics.setdefault(run, {})[metric] = column
        found: list[TrainingLog] = []
        for run, own in metrics.items():
            found += self._run(path, names, header, axis, run, own)
        return found

    def _run(
        self, path: Path, names: ColumnNames, header: list[str], axis: str, run: str, own: dict[str, str]
    ) -> list[TrainingLog]:
        understood, unused = understood_columns(names, [*own])
        if "step" in names.understand([axis]):
            understood["step"] = axis  # rather than run - _step, which counts calls of log()
        elif "step" not in understood:
            raise ValueError(
                f"{path}: its rows go by {axis!r}; if that counts steps, name it, step= (--step), and if not, "
                "export the chart with Step on its axis"
            )
        places = {attribute: own.get(column, column) for attribute, column in understood.items()}
        cells = columns_of(path, header, [*places.values()])
        values = {attribute: numbers(cells[column], column, str(path)) for attribute, column in places.items()}
        return logs_of_columns(run or stem(path), self.name, understood, values, unused)
