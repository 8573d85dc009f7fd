"""Tables of a log: cells to numbers, rows to runs."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sgdtheory._common.arguments import is_number
from sgdtheory.logs.column_names import ColumnNames
from sgdtheory.logs.training_log import COLUMNS, LOSSES, TrainingLog

BLANK = "", "None", "null", "NA", "N/A", "<NA>"  # what programs write where there is no number
TEXTS = "run", "group"


def numbers(cells: Sequence[Any] | np.ndarray, column: str, place: str) -> np.ndarray:
    """Cells of a column as numbers: nan where one is blank, inf where nan or ±inf was logged.

    Raises:
        ValueError: a cell is neither; the sentence names the row, counted from 1 below the header.
    """
    texts = np.asarray(cells, dtype=str)
    blank = np.isin(texts, BLANK)
    try:
        values = np.where(blank, "nan", texts).astype(float)
    except ValueError:
        rows = enumerate(texts.tolist())
        row, text = next((row, text) for row, text in rows if text not in BLANK and not is_number(text))
        raise ValueError(f"{place}, row {row + 1}: {column} must be a number, got {text!r}") from None
    values[~np.isfinite(values)] = np.inf
    values[blank] = np.nan
    return values


def logs_of_columns(
    name: str,
    format: str,
    understood: Mapping[str, str],
    values: Mapping[str, Any],
    unused: Sequence[str] = (),
    remarks: Sequence[str] = (),
) -> list[TrainingLog]:
    """The runs of a table, in the order in which they begin.

    Args:
        name: of the run, where no column tells runs apart.
        format: that read it.
        understood: attribute → column.
        values: attribute → (R,) numbers as `numbers` makes them, texts of `run` and `group`.
        unused: other columns.
        remarks: of all runs.

    Raises:
        ValueError: no column counts steps.
    """
    if "step" not in values:
        there = ", ".join(map(repr, [*understood.values(), *unused])) or "none"
        raise ValueError(f"{name}: no column counts optimizer steps; name it, step= (--step); its columns are: {there}")
    found = []
    columns = {attribute: column for attribute, column in understood.items() if attribute not in TEXTS}
    for (run, group), rows in _runs(values):
        series = {column: _logged(values, column, rows) for column in COLUMNS if column in values}
        extra = {"columns": columns, "unused": tuple(unused), "group": group, "remarks": tuple(remarks)}
        found.append(TrainingLog.from_series(run or name, format, series, **extra))
    return found


def _logged(values: Mapping[str, np.ndarray], column: str, rows: Any) -> tuple[np.ndarray, np.ndarray]:
    """Steps and values where both are there; a rate or a batch size that is no number was not logged."""
    steps = values["step"][rows]
    cells = values[column][rows]
    there = np.isfinite(steps) & (~np.isnan(cells) if column in LOSSES else np.isfinite(cells))
    return steps[there], cells[there]


def _runs(values: Mapping[str, np.ndarray]) -> list[tuple[tuple[str, str], Any]]:
    """((run, group), rows) of each."""
    size = values["step"].size
    labels = [values.get(text, np.zeros(size, int)) for text in TEXTS]
    codes = [np.unique(label, return_index=True, return_inverse=True) for label in labels]
    joint = codes[0][2] * codes[1][0].size + codes[1][2]
    _, first, inverse = np.unique(joint, return_index=True, return_inverse=True)
    found = []
    for code in np.argsort(first):
        row = first[code]
        name = tuple(str(label[row]) if text in values else "" for text, label in zip(TEXTS, labels, strict=True))
        found.append((name, np.flatnonzero(inverse == code)))
    return found


def understood_columns(names: ColumnNames, present: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Attribute → column, and the columns that are none of these."""
    understood = names.understand(present)
    used = set(understood.values())
    return understood, [name for name in present if name not in used]
