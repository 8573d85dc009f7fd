"""Files: one way to write CSV and JSON, and atomic writes: a killed process leaves the old file or the new one.

Numbers that are not finite are written so that programs in any language read them as what they are:

- in CSV an empty cell is a number that is not there (None or nan), `Inf` and `-Inf` are infinite. R would take a column
  with "nan" or "inf" in it for text; Python, Julia, C and databases read these three as R does.
- in JSON, which has a word for none of them, all are null. Where it matters which, the CSV file has it.

`csv_number` reads a cell of CSV back, those that version 0.1.0 wrote, "nan" and "inf", too.
"""

import csv
import io
import json
import math
import os
import shlex
import stat
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

# A text of more bytes, compressed or not, is refused. A log of a million steps fits: 23 MB of CSV with four columns, 46
# MB of JSON. A file at both limits takes 3 seconds of processor time as CSV, 5 as rows of JSON (9 with objects in
# objects), and up to 13 as lines of keys and values. The memory is 0.6 GB at most.
MOST_BYTES = 64 << 20
MOST_ROWS = 1 << 20  # A text of more rows is refused.


class TooLargeError(ValueError):
    """A file that is not damaged, but larger than what is read."""


def write_atomically(path: str | Path, content: str | bytes) -> Path:
    """Write `content` to a temporary file beside `path` and rename it into place."""
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"cannot write {path}: it is a folder; name a file in it")
    data = content.encode() if isinstance(content, str) else content
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=".writing-", dir=path.parent)
    except OSError as error:
        raise OSError(f"cannot write {path}: {error.strerror}") from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        Path(temporary).chmod(0o666 & ~umask)  # mkstemp's 0600 is not what a result should have
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path


def check_regular(path: str | Path) -> None:
    """Refuse a path that is there and is neither a regular file nor a folder.

    A pipe would be waited for without an end, and most readers look at a file more than once.

    Raises:
        ValueError: it is a pipe, a device or a socket.
    """
    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError):  # who opens it says why it cannot be
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise ValueError(f"{path} is a pipe, a device or a socket: write its content to a file, and give that file")


def check_size(path: Path, *, size: int = 0, rows: int = 0) -> None:
    """Refuse a text file of too many bytes or rows.

    Raises:
        TooLargeError: there are more than `MOST_BYTES` or `MOST_ROWS`.
    """
    if size > MOST_BYTES or rows > MOST_ROWS:
        many = f"{MOST_ROWS:,} rows" if rows > MOST_ROWS else f"{MOST_BYTES >> 20} MiB of text"
        raise TooLargeError(
            f"{path} has more than {many}, more than is read; keep fewer columns, or every tenth line: awk "
            f"'NR % 10 == 1' {shlex.quote(str(path))} > {shlex.quote(f'shorter-{path.name}')}"
        )


def json_data(text: str | bytes) -> Any:
    """Return what a JSON text holds.

    Raises:
        json.JSONDecodeError: it is no JSON, is nested too deeply to be data, or has a number of thousands of digits.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except RecursionError:
        raise json.JSONDecodeError("nested too deeply", "", 0) from None
    except ValueError as error:
        raise json.JSONDecodeError(str(error), "", 0) from None


def damage(error: Exception) -> str:
    """Return what is wrong with a file that a run wrote, in words, from the error that reading it raised."""
    if isinstance(error, KeyError):
        return f"it has no {error.args[0]}"
    if isinstance(error, OSError) and error.strerror:
        return f"{Path(error.filename).name}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, json.JSONDecodeError):
        return f"it is no JSON: {error}"
    if isinstance(error, ValueError | csv.Error) and not isinstance(error, UnicodeError):
        return " ".join(str(error).split())
    return "its content is not what a run writes"


def csv_text(header: Iterable[str], rows: Iterable[Sequence[Any]]) -> str:
    """CSV with lines that end in a line feed; numbers that are not finite as the head of this module has it."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_csv_cell(value) for value in row] for row in rows)
    return buffer.getvalue()


def _csv_cell(value: Any) -> Any:
    if not isinstance(value, float | np.floating) or math.isfinite(value):
        return value
    return None if math.isnan(value) else "Inf" if value > 0 else "-Inf"


def csv_number(cell: str) -> float:
    """The number in a cell of CSV; nan where it is empty.

    Raises:
        ValueError: it holds something else.
    """
    try:
        return float(cell or "nan")
    except ValueError:
        raise ValueError(f"{cell!r} is not a number") from None


def csv_columns(columns: Mapping[str, Iterable[Any]]) -> str:
    """CSV of named columns of one length; NumPy arrays with every digit that it takes to read them back.

    Raises:
        ValueError: columns of different lengths.
    """
    plain = [column.tolist() if isinstance(column, np.ndarray) else column for column in columns.values()]
    return csv_text(columns, zip(*plain, strict=True))


def finite(value: float) -> float | None:
    """Return a number that JSON can hold, or None."""
    return value if math.isfinite(value) else None


def json_text(value: Any, number: Callable[[float], Any] = finite, **options: Any) -> str:
    """Strict JSON of dictionaries, lists, texts, numbers and NumPy arrays.

    Args:
        value: to be written.
        number: returns what is written for a float; null for one that is not finite, unless another function is given.
        options: of `json.dumps`, in the place of an indent of two and of letters beyond ASCII as they are.
    """
    options = {"indent": 2, "ensure_ascii": False} | options
    return json.dumps(_jsonable(value, number), **options, allow_nan=False) + "\n"


def _jsonable(value: Any, number: Callable[[float], Any]) -> Any:
    if isinstance(value, dict):
        return {name: _jsonable(entry, number) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(entry, number) for entry in value]
    if hasattr(value, "tolist"):  # of NumPy
        return _jsonable(value.tolist(), number)
    return number(value) if isinstance(value, float) else value
