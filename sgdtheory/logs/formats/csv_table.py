"""CSV with a header, one row a logged step: any program's, and a run's history as W&B exports it."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from itertools import filterfalse, islice
from pathlib import Path
from typing import Any

import numpy as np

from sgdtheory._common.arguments import is_number
from sgdtheory.logs.column_names import ColumnNames
from sgdtheory.logs.files import open_text, stem
from sgdtheory.logs.formats.format import AbstractLogFormat
from sgdtheory.logs.table import Table, logs_of_table, numbers, texts
from sgdtheory.logs.training_log import TrainingLog

SEPARATORS = ",", "\t", ";"
ROWS = 50  # The first lines of a file, this many, show whether it is a table of numbers.
LONGEST = 200  # A cell of the header with this many characters is text and no name.
# This many rows are text in memory at once. With 16 times as many, reading takes longer, since Python's garbage
# collector looks through all of them.
CHUNK = 1 << 12


class CsvTable(AbstractLogFormat):
    """Any CSV file whose header names the columns; commas, tabs or semicolons."""

    name = "CSV"
    programs = ("any program that writes tables", "Lightning's CSVLogger")

    def recognizes(self, path: Path, head: str) -> bool:
        """Look for two columns or more, whose names are no numbers, and no brace."""
        header = header_of(head)
        return len(header) > 1 and all(_is_name(cell) for cell in header) and _has_a_number(head)

    def read(self, path: Path, names: ColumnNames) -> Sequence[TrainingLog]:
        """Read the columns that are asked for or guessed, and no others."""
        header = header_of_file(path)
        remarks: list[str] = []

        def read(numeric: Sequence[str], words: Sequence[str]) -> dict[str, np.ndarray]:
            remarks.extend(_twice([*numeric, *words], header))
            return columns_of(path, header, numeric, words, remarks)

        return logs_of_table(Table(stem(path), self.name, header, read, remarks), names)


class WandbHistory(CsvTable):
    """A run's history from W&B's API: `run.history().to_csv(path)`, or `scan_history`."""

    name = "W&B history"
    programs = ("W&B: run.history(), run.scan_history()",)

    def recognizes(self, path: Path, head: str) -> bool:
        """Look for `_step`, in which W&B counts rows."""
        return super().recognizes(path, head) and "_step" in header_of(head)


def separator_of(line: str) -> str:
    """Return the separator of the cells of a header."""
    return max(SEPARATORS, key=line.count)


def header_of(head: str) -> list[str]:
    """Return the cells of a file's first line."""
    line = next((line for line in head.splitlines() if line.strip()), "")
    if "{" in line:
        return []
    try:
        return next(csv.reader([line], delimiter=separator_of(line)), [])
    except csv.Error:  # a cell of more than 131,072 characters
        return []


def header_of_file(path: Path) -> list[str]:
    """Return the header of a file, however long it is."""
    with open_text(path) as file:
        return header_of(next((line for line in file if line.strip()), ""))


def columns_of(
    path: Path,
    header: Sequence[str],
    numeric: Sequence[str],
    words: Sequence[str] = (),
    remarks: list[str] | None = None,
) -> dict[str, np.ndarray]:
    """Return column → its cells, as numbers or as texts; a short row's are blank.

    Args:
        path: of the file.
        header: its columns.
        numeric, words: those of them that are read, as numbers and as texts; of several of one name the first.
        remarks: to which is added how many rows have more cells than the header.

    Raises:
        ValueError: the file is no CSV, or has no row below its header, or a cell is no number.
    """
    places = {column: list(header).index(column) for column in (*numeric, *words)}
    pieces: dict[str, list[np.ndarray]] = {column: [] for column in places}
    known: dict[str, str] = {}
    longer = read = 0
    for rows in _chunks(path, len(header)):
        longer += sum(any(row[len(header) :]) for row in rows if len(row) > len(header))
        for column in numeric:
            place = places[column]
            pieces[column].append(numbers([row[place] for row in rows], column, str(path), read + 1))
        for column in words:
            place = places[column]
            pieces[column].append(texts([row[place] for row in rows], known))
        read += len(rows)
    if not read:
        raise ValueError(f"{path} has no row below its header; give a file with one row a logged step")
    if longer and remarks is not None:
        rows = "1 row has" if longer == 1 else f"{longer:,} rows have"
        remarks.append(f"{rows} more cells than the header, which may stand in other columns than they seem to")
    return {column: np.concatenate(parts) for column, parts in pieces.items()}


def _twice(used: Iterable[str], header: Sequence[str]) -> list[str]:
    """Return a remark on each column that is read and whose name stands in the header more than once."""
    return [
        f"{header.count(name)} columns are called {name!r}: the first is taken"
        for name in dict.fromkeys(used)
        if header.count(name) > 1
    ]


def _chunks(path: Path, width: int) -> Iterator[list[list[str]]]:
    """Yield the rows of a file without its header and without empty lines, many at a time."""
    with open_text(path) as file:
        first = next((line for line in file if line.strip()), "")
        filled = filterfalse(str.isspace, file)
        reader: Any = csv.reader(filled, delimiter=separator_of(first))
        try:
            while rows := list(islice(reader, CHUNK)):
                kept = [row if len(row) >= width else row + [""] * (width - len(row)) for row in rows if row]
                if kept:
                    yield kept
        except csv.Error as error:
            raise ValueError(f"cannot read {path}: line {reader.line_num + 1}: {error}; it is no CSV file") from None
        except (OSError, EOFError) as error:
            raise ValueError(f"cannot read {path}: {error}; copy the file again") from None


def _has_a_number(head: str) -> bool:
    """Return whether a cell below the header is a number, as none of prose with commas is; or there is none yet."""
    first, *rows = [line for line in head.splitlines() if line.strip()][:ROWS]
    cells = [cell.strip().strip('"') for row in rows for cell in row.split(separator_of(first))]
    return not rows or any(is_number(cell) for cell in cells)


def _is_name(cell: str) -> bool:
    """Return whether a cell of a header is a name; the first may be empty, as that of pandas' index is."""
    words = cell.removeprefix("Unnamed: ")  # pandas' name for a column without one
    text = ": " in words or words.startswith("[") or "] " in words  # as in a line of a text log
    return not is_number(cell) and len(words) < LONGEST and not text
