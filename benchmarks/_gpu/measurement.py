"""Measurements by name, one row each, in a table that survives: none is measured twice."""

import csv
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sgdtheory._common.files import csv_columns, csv_number, write_atomically

WHAT = "what"


class Measurement(NamedTuple):
    """One row that is to be measured.

    Attributes:
        name: of the row.
        seconds: that it takes at most, roughly, compilation too, on the GPU that it is meant for.
        measure: gives the row's other columns.
    """

    name: str
    seconds: float
    measure: Callable[[], Mapping[str, Any]]


class Table:
    """Rows of one part in a CSV file, which is written anew after each."""

    def __init__(self, path: Path, units: Mapping[str, str]):
        self._path, self._names = path, [WHAT, *units]
        self.rows: list[dict[str, Any]] = []
        if path.exists():
            with path.open(newline="") as file:
                self.rows = [{name: _value(cell) for name, cell in row.items()} for row in csv.DictReader(file)]

    def __contains__(self, name: str) -> bool:
        return any(row[WHAT] == name for row in self.rows)

    def add(self, name: str, row: Mapping[str, Any]) -> None:
        """Keep a row."""
        self.rows.append({WHAT: name, **row})
        columns = {each: [own.get(each, math.nan) for own in self.rows] for each in self._names}
        write_atomically(self._path, csv_columns(columns))

    def value(self, name: str, column: str) -> float:
        """A number of the table; nan where it was not measured."""
        return next((float(row[column]) for row in self.rows if row[WHAT] == name), math.nan)


def _value(cell: str) -> Any:
    """Return the value of a cell, so that it is written again as it was."""
    try:
        return int(cell) if cell.isdecimal() else csv_number(cell)
    except ValueError:
        return cell
