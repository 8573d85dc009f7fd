"""Tables whose rows are named tuples: as columns to write, and read back to draw again."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from sgdtheory._common.files import csv_number

Row = TypeVar("Row")  # a named tuple


def columns_of(rows: Sequence[Any]) -> dict[str, np.ndarray]:
    """One column a field of the rows, all of one kind."""
    return {name: np.array([getattr(row, name) for row in rows]) for name in rows[0]._fields}


def against_data(rows: Sequence[Any], column: str, **fixed: Any) -> tuple[np.ndarray, np.ndarray]:
    """(D, a column) at increasing D, of the rows with these values."""
    mine = sorted(
        (row.num_samples, getattr(row, column))
        for row in rows
        if all(getattr(row, name) == value for name, value in fixed.items())
    )
    table = np.array(mine).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def rows_of(kind: type[Row], table: Iterable[Mapping[str, str]]) -> list[Row]:
    """The rows of a table that was written by `columns_of`; fields that are no texts are numbers."""
    texts = {name for name, each in kind.__annotations__.items() if each is str}
    return [
        kind(**{name: cells[name] if name in texts else csv_number(cells[name]) for name in kind.__annotations__})
        for cells in table
    ]
