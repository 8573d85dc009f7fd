"""Parquet, one row a logged step, as W&B exports histories."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from sgdtheory._common.files import TooLargeError
from sgdtheory.logs.column_names import ColumnNames
from sgdtheory.logs.files import first_bytes, open_sought, stem
from sgdtheory.logs.formats.format import AbstractLogFormat
from sgdtheory.logs.formats.library import needed
from sgdtheory.logs.table import Table, logs_of_table, numbers, texts
from sgdtheory.logs.training_log import TrainingLog

MARK = b"PAR1"
# A repeated number takes no room in the file and 8 bytes, several times over, in memory: some 0.6 GB at this limit. A
# log of a million steps has a few million numbers.
MOST_NUMBERS = 1 << 23
# Columns of more bytes are refused, before and after they are decoded; texts are longer than numbers.
MOST_BYTES = 32 * MOST_NUMBERS
BATCH = 1 << 16  # This many rows are unpacked at once; then their size in memory is checked.
LONGEST = 200  # Run names are cut to this many characters: repeated ones take room in memory, but not in the file.


class Parquet(AbstractLogFormat):
    """Read by pyarrow."""

    name = "Parquet"
    programs = ("W&B: history artifacts", "pandas, polars, Spark")

    def recognizes(self, path: Path, head: str) -> bool:
        """Look at the first four bytes."""
        return not head and first_bytes(path).startswith(MARK)

    def read(self, path: Path, names: ColumnNames) -> Sequence[TrainingLog]:
        """Read the columns that are asked for or guessed, and no others."""
        parquet = needed("pyarrow.parquet", "Parquet files")

        def opened(file: Any, words: Sequence[str] = ()) -> Any:
            return parquet.ParquetFile(file, read_dictionary=[*words])

        def read(numeric: Sequence[str], words: Sequence[str]) -> dict[str, np.ndarray]:
            with _named_errors(path), open_sought(path) as file:
                pieces = _read(opened(file, words), [*dict.fromkeys((*numeric, *words))])
            known: dict[str, str] = {}
            cells = {name: [_numbers(part, name, path) for part in pieces[name]] for name in numeric}
            cells |= {name: [_texts(part, known) for part in pieces[name]] for name in words}
            return {name: np.concatenate(parts) if parts else np.empty(0) for name, parts in cells.items()}

        with _named_errors(path), open_sought(path) as file:
            present = opened(file).schema_arrow.names
        return logs_of_table(Table(stem(path), self.name, present, read), names)


@contextmanager
def _named_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except TooLargeError as error:
        raise TooLargeError(f"cannot read {path}: {error}") from None
    except (OSError, ValueError, MemoryError) as error:  # of pyarrow: its errors are kinds of these
        raise ValueError(f"cannot read {path}: {error}; copy the file again") from None


def _read(table: Any, columns: list[str]) -> dict[str, list[Any]]:
    """Return column → its parts; a batch of rows is unpacked at a time.

    Raises:
        TooLargeError: the columns unpack to too much.
    """
    numbers = table.metadata.num_rows * max(1, len(columns))
    groups = [table.metadata.row_group(place) for place in range(table.metadata.num_row_groups)]
    size = sum(group.total_byte_size for group in groups)
    if numbers > MOST_NUMBERS or size > MOST_BYTES:
        raise TooLargeError(
            f"it unpacks to {numbers:,} numbers, {size >> 20:,} MiB, where at most {MOST_NUMBERS:,} and "
            f"{MOST_BYTES >> 20} MiB are read; keep fewer rows, or the columns of the log alone"
        )
    pieces: dict[str, list[Any]] = {name: [] for name in columns}
    taken = 0
    for batch in table.iter_batches(BATCH, columns=columns):
        for name in columns:
            pieces[name].append(batch.column(name))
        taken += batch.nbytes
        if taken > MOST_BYTES:
            raise TooLargeError(f"it unpacks to more than {MOST_BYTES >> 20} MiB; keep the columns of the log alone")
    return pieces


def _texts(column: Any, known: dict[str, str]) -> np.ndarray:
    if hasattr(column, "dictionary"):
        words = [str(each)[:LONGEST] for each in column.dictionary.to_pylist()]
        return texts([None if place is None else words[place] for place in column.indices.to_pylist()], known)
    return texts((None if (cell := each.as_py()) is None else str(cell)[:LONGEST] for each in column), known)


def _numbers(column: Any, name: str, path: Path) -> np.ndarray:
    """Return nan where a cell is null, inf where it holds nan or ±inf; texts are read as in CSV."""
    if hasattr(column, "dictionary") or str(column.type) in ("string", "large_string"):
        return numbers(_texts(column, {}).tolist(), name, str(path))
    try:
        values = np.array(column.to_numpy(zero_copy_only=False), float) if len(column) else np.empty(0)
    except (TypeError, ValueError):
        raise ValueError(f"{path}: {name} must be numbers, got {column.type}; name another column") from None
    values[~np.isfinite(values)] = np.inf
    values[np.asarray(column.is_null())] = np.nan
    return values
