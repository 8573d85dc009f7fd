"""Parquet, one row a logged step, as W&B exports histories."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sgdtheory.logs.column_names import ColumnNames
from sgdtheory.logs.files import first_bytes, open_sought, stem
from sgdtheory.logs.formats.format import AbstractLogFormat
from sgdtheory.logs.formats.library import needed
from sgdtheory.logs.table import TEXTS, logs_of_columns, numbers, understood_columns
from sgdtheory.logs.training_log import TrainingLog

MARK = b"PAR1"
# Numbers of the columns that are read. A repeated number takes no room in the file and 8 bytes, several times over, in
# memory: some 1.5 GB at this limit. A log of a million steps has a few million numbers.
MOST_NUMBERS = 1 << 25
MOST_BYTES = 8 * MOST_NUMBERS  # of the columns, before their encoding is undone; texts are longer than numbers
BATCH = 1 << 16  # rows that are unpacked at once, before what they take is looked at


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
        try:
            with open_sought(path) as file:
                table = parquet.ParquetFile(file)
                understood, unused = understood_columns(names, table.schema_arrow.names)
                columns = _read(table, [*dict.fromkeys(understood.values())])
        except (OSError, ValueError, MemoryError) as error:  # of pyarrow: its errors are kinds of these
            raise ValueError(f"cannot read {path}: {error}; copy the file again") from None
        values = {
            attribute: _texts(columns[name]) if attribute in TEXTS else _numbers(columns[name], name, path)
            for attribute, name in understood.items()
        }
        return logs_of_columns(stem(path), self.name, understood, values, unused)


def _read(table: Any, columns: list[str]) -> Any:
    """Columns of a file, a batch of rows at a time.

    Raises:
        ValueError: they unpack to too much.
    """
    numbers = table.metadata.num_rows * max(1, len(columns))
    groups = [table.metadata.row_group(place) for place in range(table.metadata.num_row_groups)]
    size = sum(group.total_byte_size for group in groups)
    if numbers > MOST_NUMBERS or size > MOST_BYTES:
        raise ValueError(
            f"it unpacks to {numbers:,} numbers, {size >> 20:,} MiB, where at most {MOST_NUMBERS:,} and "
            f"{MOST_BYTES >> 20} MiB are read; keep fewer rows, or the columns of the log alone"
        )
    batches, taken = [], 0
    for batch in table.iter_batches(BATCH, columns=columns):
        batches.append(batch)
        taken += batch.nbytes
        if taken > 2 * MOST_BYTES:
            raise ValueError(f"it unpacks to more than {2 * MOST_BYTES >> 20} MiB; keep the columns of the log alone")
    if not batches:
        return table.schema_arrow.empty_table().select(columns)
    return needed("pyarrow", "Parquet files").Table.from_batches(batches)


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
