"""Rows of CSV files that people write: columns by name, and what is wrong with a cell in one sentence."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import numpy as np

from sgdtheory._common.files import check_regular, check_size

SEPARATORS = ",;\t|"


def csv_rows(path: Path, columns: list[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield (line number, row) of each row, its cells by column; commas, semicolons, tabs or bars separate columns.

    Args:
        path: the file.
        columns: that it must have.

    Raises:
        ValueError: no such file, no such column, or no CSV.
    """
    check_regular(path)
    try:
        check_size(path, size=path.stat().st_size)
        file = path.open(newline="", encoding="utf-8-sig")
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror or error}") from None
    with file:
        try:
            reader = csv.DictReader(file, restval="", delimiter=_separator(file))  # cells that a short line leaves out
            present = reader.fieldnames or []
            for column in columns:
                if column not in present:
                    columns_are = ", ".join(map(repr, present)) or "none"
                    raise ValueError(f"{path} has no column {column!r}; its columns are: {columns_are}")
            for count, row in enumerate(reader, 1):
                check_size(path, rows=count)
                yield reader.line_num, row
        except (UnicodeDecodeError, csv.Error):
            raise ValueError(f"cannot read {path}: it is not a CSV file in UTF-8") from None


def csv_header(path: Path) -> list[str]:
    """Names of the columns; none of an empty file.

    Raises:
        ValueError: no such file, or no CSV.
    """
    check_regular(path)
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            return next(csv.reader(file, delimiter=_separator(file)), [])
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror or error}") from None
    except (UnicodeDecodeError, csv.Error):
        raise ValueError(f"cannot read {path}: it is not a CSV file in UTF-8") from None


def _separator(file: TextIO) -> str:
    """Return what separates the columns of a file's header: a comma, where there is one or nothing else does."""
    header = file.readline()
    file.seek(0)
    return next((mark for mark in SEPARATORS if mark in header), ",")


def positive_cell(text: str, column: str, where: str) -> float:
    """The positive number in a cell.

    Raises:
        ValueError: it holds something else; the message names the column, and where it stands.
    """
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{where}: {column} must be a number, got {text!r}") from None
    if not (value > 0 and np.isfinite(value)):
        raise ValueError(f"{where}: {column} must be positive and finite, got {value:g}")
    return value
