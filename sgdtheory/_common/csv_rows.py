"""Rows of CSV files that people write: columns by name, and what is wrong with a cell in one sentence."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from sgdtheory._common.files import check_regular

OTHER_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}


def csv_rows(path: Path, columns: list[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """(line number, row) of each row, its cells by column.

    Args:
        path: the file.
        columns: that it must have.

    Raises:
        ValueError: no such file, no such column, another separator than commas, or no CSV.
    """
    check_regular(path)
    try:
        file = path.open(newline="", encoding="utf-8-sig")
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror or error}") from None
    with file:
        try:
            reader = csv.DictReader(file, restval="")  # cells that a short line leaves out
            present = reader.fieldnames or []
            for column in columns:
                if column not in present:
                    raise ValueError(f"{path} has no column {column!r}; {_instead(present)}")
            for row in reader:
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
            return next(csv.reader(file), [])
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror or error}") from None
    except (UnicodeDecodeError, csv.Error):
        raise ValueError(f"cannot read {path}: it is not a CSV file in UTF-8") from None


def _instead(present: Sequence[str]) -> str:
    """Return the part of an error message that names the columns of a header."""
    if len(present) == 1:
        for mark, name in OTHER_SEPARATORS.items():
            if mark in present[0]:
                return f"its header is separated by {name}, {mark!r}: separate columns by commas"
    return f"its columns are: {', '.join(map(repr, present)) or 'none'}"


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
