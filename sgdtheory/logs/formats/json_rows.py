"""JSON, one object a logged step: a line each, or all in one array."""

import json
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from sgdtheory._common.files import TooLargeError, check_size, json_data
from sgdtheory.logs.column_names import ColumnNames
from sgdtheory.logs.files import HEAD, head_of, open_text, stem, whole_text
from sgdtheory.logs.formats.format import AbstractLogFormat
from sgdtheory.logs.table import Table, logs_of_table, numbers, texts
from sgdtheory.logs.training_log import TrainingLog

CHUNK = 1 << 14  # This many rows are Python objects at once.
DECODER = json.JSONDecoder()
SPACE = re.compile(r"[\s,]*")
DEEPEST = 32  # Objects that are nested deeper are left out; names of metrics have two or three levels.


class JsonRows(AbstractLogFormat):
    """Rows of W&B's history, or any program's, in JSON lines or a JSON array.

    Keys of objects in objects are joined by a slash, as `metrics/loss`.
    """

    name = "JSON rows"
    programs = ("W&B: rows of run.scan_history()", "any program that writes JSON lines")

    def recognizes(self, path: Path, head: str) -> bool:
        """Look for a first line that is an object, or longer than what is seen of it, or for an array of objects."""
        start = head.lstrip()
        if len(head) >= HEAD // 2 and start[:1] == "{" and "\n" not in start:
            return True
        return _is_object(start.partition("\n")[0]) or (start[:1] == "[" and start[1:].lstrip()[:1] == "{")

    def read(self, path: Path, names: ColumnNames) -> Sequence[TrainingLog]:
        """Read the keys that are asked for or guessed: the rows are parsed twice, so that no others are kept."""
        present: dict[str, None] = {}
        kinds: set[tuple[str, ...]] = set()  # of rows, by their keys
        for row in _rows(path):
            if (keys := tuple(row)) not in kinds:
                kinds.add(keys)
                present |= dict.fromkeys(key for key, value in row.items() if _is_cell(value))

        def read(numeric: Sequence[str], words: Sequence[str]) -> dict[str, np.ndarray]:
            pieces: dict[str, list[np.ndarray]] = {key: [] for key in (*numeric, *words)}
            known: dict[str, str] = {}
            rows, first = _rows(path), 1
            while chunk := [*islice(rows, CHUNK)]:
                for key in numeric:
                    pieces[key].append(numbers([row.get(key) for row in chunk], key, str(path), first))
                for key in words:
                    pieces[key].append(texts([row.get(key) for row in chunk], known))
                first += len(chunk)
            return {key: np.concatenate(parts) for key, parts in pieces.items()}

        return logs_of_table(Table(stem(path), self.name, [*present], read), names)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects, flat.

    Raises:
        ValueError: a line is no JSON; a last line that was cut off, as of a run under way, is left out.
    """
    if head_of(path).lstrip().startswith("["):  # perhaps one long line
        yield from map(_flat, _array(whole_text(path), path))
        return
    with open_text(path) as file:
        unread = None
        for number, line in enumerate(file, 1):
            if unread is not None:
                raise ValueError(f"{path}, line {unread[0]}: not a JSON object: {unread[1].strip()[:60]!r}")
            if line.strip():
                try:
                    yield _flat(_value(line))
                except json.JSONDecodeError:
                    unread = number, line


def _value(line: str) -> Any:
    """Return what a line of JSON holds, in two thirds of the time of `json_data` where it is plain.

    Raises:
        json.JSONDecodeError: as of `json_data`.
    """
    try:
        value, end = DECODER.raw_decode(line)
    except (ValueError, RecursionError):
        return json_data(line)
    return value if line[end:].isspace() or end == len(line) else json_data(line)


def _array(text: str, path: Path) -> Iterator[Any]:
    """Yield the elements of an array one by one: all at once take ten times the room of their text.

    Raises:
        ValueError: the text is no array, or ends within it.
    """
    place, rows = text.index("[") + 1, 0
    try:
        while text[(place := SPACE.match(text, place).end())] != "]":  # pyright: ignore[reportOptionalMemberAccess]
            value, place = DECODER.raw_decode(text, place)
            rows += 1
            check_size(path, rows=rows)
            yield value
    except IndexError:
        reason = "it ends within the array"
    except RecursionError:
        reason = "nested too deeply"
    except TooLargeError:
        raise
    except ValueError as error:
        reason = str(error)
    else:
        return
    raise ValueError(f"cannot read {path}: {reason}; it is no whole JSON array")


def _flat(row: Any, before: str = "", deepest: int = DEEPEST) -> dict[str, Any]:
    """Return an object with the keys of inner objects behind those of the outer ones and a slash, down to a depth."""
    if not isinstance(row, dict) or not deepest:
        return {}
    if not before and dict not in map(type, row.values()):
        return row
    found = {}
    for key, value in row.items():
        if isinstance(value, dict):
            found |= _flat(value, f"{before}{key}/", deepest - 1)
        else:
            found[before + key] = value
    return found


def _is_cell(value: Any) -> bool:
    return isinstance(value, str | int | float) or value is None


def _is_object(line: str) -> bool:
    try:
        return isinstance(json_data(line), dict)
    except json.JSONDecodeError:
        return False
