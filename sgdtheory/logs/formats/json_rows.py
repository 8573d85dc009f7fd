"""JSON, one object a logged step: a line each, or all in one array."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sgdtheory._common.files import json_data
from sgdtheory.logs.column_names import ColumnNames
from sgdtheory.logs.files import HEAD, head_of, open_text, stem, whole_text
from sgdtheory.logs.formats.format import AbstractLogFormat
from sgdtheory.logs.table import TEXTS, logs_of_columns, numbers, understood_columns
from sgdtheory.logs.training_log import TrainingLog

DEEPEST = 32  # objects in objects: names of metrics have two or three levels


class JsonRows(AbstractLogFormat):
    """Rows of W&B's history, or any program's, in JSON lines or a JSON array.

    Keys of objects in objects are joined by a slash, as `metrics/loss`.
    """

    name = "JSON rows"
    programs = ("W&B: rows of run.scan_history()", "any program that writes JSON lines")

    def recognizes(self, path: Path, head: str) -> bool:
        """The first line is an object, or longer than what is seen of it, or an array of objects begins."""
        start = head.lstrip()
        if len(head) >= HEAD // 2 and start[:1] == "{" and "\n" not in start:
            return True
        return _is_object(start.partition("\n")[0]) or (start[:1] == "[" and start[1:].lstrip()[:1] == "{")

    def read(self, path: Path, names: ColumnNames) -> Sequence[TrainingLog]:
        """The keys that are asked for or guessed."""
        rows = [*_rows(path)]
        present = [*dict.fromkeys(key for row in rows for key, value in row.items() if _is_cell(value))]
        understood, unused = understood_columns(names, present)
        values = {}
        for attribute, key in understood.items():
            cells = ["" if (value := row.get(key)) is None else str(value) for row in rows]
            values[attribute] = numbers(cells, key, str(path)) if attribute not in TEXTS else cells
        return logs_of_columns(stem(path), self.name, understood, values, unused)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    """The objects, flat.

    Raises:
        ValueError: a line is no JSON; a last line that was cut off, as of a run under way, is left out.
    """
    if head_of(path).lstrip().startswith("["):  # perhaps one long line
        yield from map(_flat, _array(whole_text(path), path))
        return
    with open_text(path) as file:
        first = file.readline()
        while first and not first.strip():
            first = file.readline()
        number = 1
        while first:
            following = file.readline()
            try:
                if first.strip():
                    yield _flat(json_data(first))
            except json.JSONDecodeError:
                if following:
                    raise ValueError(f"{path}, line {number}: not a JSON object: {first.strip()[:60]!r}") from None
            first = following
            number += 1


def _array(text: str, path: Path) -> list[Any]:
    try:
        return json_data(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"cannot read {path}: line {error.lineno}: {error.msg}; it is no whole JSON array") from None


def _flat(row: Any, before: str = "", deepest: int = DEEPEST) -> dict[str, Any]:
    """Keys of inner objects behind those of the outer, with a slash; what lies deeper is left out."""
    if not isinstance(row, dict) or not deepest:
        return {}
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
