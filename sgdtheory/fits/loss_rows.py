"""Rows of a grid of losses: batch size, samples, learning rate and loss of every run, checked, or read from a file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sgdtheory._common.arguments import first_where, positive_array, refuse_complex
from sgdtheory._common.csv_rows import csv_rows, positive_cell
from sgdtheory._common.files import csv_number

NEEDED = "batch_size", "samples", "learning_rate", "loss"
OPTIONAL = "group", "size", "seed"


@dataclass(frozen=True, eq=False)
class LossRows:
    """Runs, or points of their loss curves, of one group.

    Attributes:
        group: its name, "" where there are no groups.
        size: model size, nan where there is none.
        batch_size, samples, learning_rate: (N,) B, D and γ, positive.
        loss: (N,) positive; inf of a run that diverged.
        seeds: whether rows have a seed: then those of one B, γ and seed are points of one run.
    """

    group: str
    size: float
    batch_size: np.ndarray
    samples: np.ndarray
    learning_rate: np.ndarray
    loss: np.ndarray
    seeds: bool


def read_loss_grid(
    path: str | Path,
    *,
    batch_size: str = "batch_size",
    samples: str = "samples",
    learning_rate: str = "learning_rate",
    loss: str = "loss",
    group: str | None = None,
    size: str | None = None,
    seed: str | None = None,
) -> dict[str, list[Any]]:
    """Read a CSV file with a header: one row a run, or a point of its loss curve; columns for `fit_loss_grid`.

    >>> import pathlib, tempfile
    >>> import sgdtheory as st
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "grid.csv"
    >>> _ = path.write_text("bs,tokens,lr,loss\\n64,1e6,0.1,3.2\\n64,1e6,0.2,nan\\n")
    >>> st.read_loss_grid(path, batch_size="bs", samples="tokens", learning_rate="lr")
    {'batch_size': [64.0, 64.0], 'samples': [1000000.0, 1000000.0], 'learning_rate': [0.1, 0.2], 'loss': [3.2, nan]}

    Args:
        path: the file.
        batch_size, samples, learning_rate, loss: names of the columns with B, D (in the unit of B), γ and the loss;
            an empty cell, nan or inf is the loss of a run that diverged.
        group: name of the column that tells grids apart (a model's name); None: one grid.
        size: name of the column with the model size, constant within a group; None: no sizes.
        seed: name of the column with the seed of a run; None: every row is a run of its own.

    Returns:
        The columns, under the names that `fit_loss_grid` has for them.

    Raises:
        ValueError: no such file or column, or an entry that is no number of the kind; the message has the line.
    """
    numbers = {"batch_size": batch_size, "samples": samples, "learning_rate": learning_rate}
    numbers |= {"size": size} if size else {}
    texts = {name: column for name, column in (("group", group), ("seed", seed)) if column}
    columns: dict[str, list[Any]] = {name: [] for name in (*NEEDED, *OPTIONAL) if name in {*numbers, *texts, "loss"}}
    for line, row in csv_rows(Path(path), [*numbers.values(), loss, *texts.values()]):
        where = f"{path}, line {line}"
        for name, column in numbers.items():
            columns[name].append(positive_cell(row[column], column, where))
        for name, column in texts.items():
            columns[name].append(row[column].strip())
        columns["loss"].append(_loss_cell(row[loss], loss, where))
    if not columns["loss"]:
        raise ValueError(f"{path} has no rows below its header")
    return columns


def _loss_cell(text: str, column: str, where: str) -> float:
    try:
        return csv_number(text.strip())
    except ValueError:
        raise ValueError(f"{where}: {column} must be a number, or empty of a run that diverged, got {text!r}") from None


def loss_rows(table: Mapping[str, Any] | Sequence[Any]) -> list[LossRows]:
    """The rows of every group, in the order of the table; without a column of groups each model size is one.

    Args:
        table: columns by name, or rows: mappings, or (batch_size, samples, learning_rate, loss).

    Raises:
        ValueError: a column that is missing or of another length, numbers that are not positive, a batch larger than
            the data, a size that varies within a group, or a group whose runs all diverged.
    """
    columns = _columns(table)
    numbers = {name: positive_array(name, columns[name]) for name in NEEDED[:3]}
    loss = _losses(columns["loss"])
    # Less data than a batch come from two different units, as samples and tokens.
    short = numbers["samples"] < numbers["batch_size"]
    if short.any():
        raise ValueError(
            f"samples must be at least batch_size, one step, got {first_where(numbers['samples'], short):g} with "
            f"batch_size {first_where(numbers['batch_size'], short):g}: count both in the same unit"
        )
    sizes = positive_array("size", columns["size"]) if "size" in columns else np.full(loss.size, np.nan)
    # Without names of groups each model size is one, and a single size needs no name.
    without = [f"{size:.10g}" for size in sizes] if np.unique(sizes).size > 1 else [""] * loss.size
    names = np.array([str(each) for each in columns.get("group", without)])
    found = []
    for name in dict.fromkeys(names.tolist()):
        here = names == name
        where = name or "the table"
        if np.unique(sizes[here]).size > 1:
            raise ValueError(
                f"size must be the same in all rows of {where}, got {sizes[here].min():g} and {sizes[here].max():g}; "
                "give each size a group of its own"
            )
        if not np.isfinite(loss[here]).any():
            raise ValueError(f"loss must be finite somewhere in {where}, but all of its runs diverged: lower the rates")
        batch, samples, rate = (numbers[each][here] for each in NEEDED[:3])
        found.append(LossRows(name, float(sizes[here][0]), batch, samples, rate, loss[here], "seed" in columns))
    return found


def _columns(table: Mapping[str, Any] | Sequence[Any]) -> dict[str, list[Any]]:
    """Columns by name, all that are needed and of one length."""
    by_name: Any = table
    if hasattr(table, "keys"):
        columns = {name: list(by_name[name]) for name in (*NEEDED, *OPTIONAL) if name in by_name.keys()}  # noqa: SIM118
    else:
        columns = _columns_of_rows(list(table))
    missing = [name for name in NEEDED if name not in columns]
    if missing:
        raise ValueError(
            f"table must have the columns {', '.join(NEEDED)}, got none called {' or '.join(missing)}; rename them, or "
            "read a file with read_loss_grid"
        )
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"table must have columns of one length, got {lengths}")
    if not lengths["loss"]:
        raise ValueError("table must have rows, got none")
    return columns


def _columns_of_rows(rows: list[Any]) -> dict[str, list[Any]]:
    if rows and all(isinstance(row, Mapping) for row in rows):
        names = [name for name in (*NEEDED, *OPTIONAL) if any(name in row for row in rows)]
        for place, row in enumerate(rows):
            for name in names:
                if name not in row:
                    raise ValueError(f"table must have {name} in every row, got none in row {place}")
        return {name: [row[name] for row in rows] for name in names}
    for row in rows:
        if isinstance(row, str | Mapping) or not hasattr(row, "__len__") or len(row) != len(NEEDED):
            raise ValueError(f"table must have rows ({', '.join(NEEDED)}), or rows with these names, got {row!r}")
    return {name: [row[place] for row in rows] for place, name in enumerate(NEEDED)}


def _losses(column: Sequence[Any]) -> np.ndarray:
    """(N,) losses, inf where the run diverged."""
    refuse_complex("loss", column)
    try:
        loss = np.array([np.nan if each is None else each for each in column], dtype=float)
    except (TypeError, ValueError):
        raise ValueError("loss must hold numbers, and nan or inf of a run that diverged") from None
    bad = loss <= 0
    if bad.any():
        raise ValueError(f"loss must be positive, got {first_where(loss, bad):g}: ratios of losses are taken")
    return np.where(np.isfinite(loss), loss, np.inf)
