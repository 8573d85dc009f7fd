"""Parquet, one row a logged step, as W&B exports histories."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sgdtheory.logs.column_names import ColumnNames
from sgdtheory.logs.files import first_bytes, open_bytes, stem
from sgdtheory.logs.formats.format import AbstractLogFormat
from sgdtheory.logs.formats.library import needed
from sgdtheory.logs.table import TEXTS, logs_of_columns, numbers, understood_columns
from sgdtheory.logs.training_log import TrainingLog

MARK = b"PAR1"


class Parquet(AbstractLogFormat):
    """Read by pyarrow."""

    name = "Parquet"
    programs = ("W&B: history artifacts", "pandas, polars, Spark")

    def recognizes(self, path: Path, head: str) -> bool:
        """Its first four bytes."""
        return not head and first_bytes(path).startswith(MARK)

    def read(self, path: Path, names: ColumnNames) -> Sequence[TrainingLog]:
        """The columns that are asked for or guessed, and no others."""
        parquet = needed("pyarrow.parquet", "Parquet files")
        with open_bytes(path) as file:
            try:
                table = parquet.ParquetFile(file)
                understood, unused = understood_columns(names, table.schema_arrow.names)
                columns = table.read(columns=[*dict.fromkeys(understood.values())])
            except (OSError, ValueError) as error:  # of pyarrow: its errors are kinds of these
                raise ValueError(f"cannot read {path}: {error}; copy the file again") from None
        values = {
            attribute: _texts(columns[name]) if attribute in TEXTS else _numbers(columns[name], name, path)
            for attribute, name in understood.items()
        }
        return logs_of_columns(stem(path), self.name, understood, values, unused)


def _texts(column: Any) -> np.ndarray:
    return np.array(["" if cell is None else str(cell) for cell in column.to_pylist()])


def _numbers(column: Any, name: str, path: Path) -> np.ndarray:
    """nan where a cell is null, inf where it holds nan or ±inf; texts are read as in CSV."""
    if str(column.type) in ("string", "large_string"):
        return numbers(_texts(column), name, str(path))
    try:
        values = np.array(column.to_numpy(zero_copy_only=False), float) if len(column) else np.empty(0)
    except (TypeError, ValueError):
        raise ValueError(f"{path}: {name} must be numbers, got {column.type}; name another column") from None
    values[~np.isfinite(values)] = np.inf
    values[np.asarray(column.is_null())] = np.nan
    return values
