"""The runs of a sweep from a TOML file: fixed fields, a grid, and fields that change together."""

import itertools
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sgdtheory._common.arguments import checked_name
from sgdtheory._common.files import check_regular
from sgdtheory.training import FIELDS, KINDS, PRESETS, TrainConfig, homes_of

TABLES = "fixed", "grid", "cases"
SINGLE = "averages"  # Each value of this field is itself a list.


def read_grid(path: str | Path) -> list[TrainConfig]:
    r"""Read the configs that a TOML file describes, every combination once.

    `[fixed]` has flat fields of `TrainConfig` (and optionally `preset`, whose fields the tables may change). `[grid]`
    has a list of values for each field that varies. Each `[[cases.NAME]]` has fields that change together. The configs
    are the product of the grid's lists and every NAME's cases. Fields of only one kind, such as those of an optimizer,
    belong in the case that chooses the kind.

    >>> import pathlib, tempfile
    >>> from sgdtheory.sweep import read_grid
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "sweep.toml")
    ...     _ = path.write_text("[fixed]\nwidth = 64\n[grid]\nlearning_rate = [0.01, 0.1]\nseed = [0, 1, 2]\n")
    ...     len(read_grid(path))
    6

    Raises:
        ValueError: if the file is missing or not TOML, a field is unknown (the message suggests the nearest one) or
            given twice, a list is empty, or a combination is not a valid config.
    """
    check_regular(path)
    try:
        tables = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path} is not TOML: {error}") from None
    try:
        return list(grid(tables))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def grid(tables: Mapping[str, Any]) -> Iterator[TrainConfig]:
    """Generate the configs of tables in the form of `read_grid`; the last field of the grid varies fastest."""
    for name, table in tables.items():
        checked_name("a table", name, TABLES)
        if not isinstance(table, Mapping):
            raise ValueError(f"{name} must be a table, got {table!r}; write [{name}] above its fields")
    preset, fixed = _fixed(tables.get("fixed", {}))
    choices = [*_lists(tables.get("grid", {})), *_cases(tables.get("cases", {}))]
    _check_names(fixed, choices)
    _check_once([("fixed", tables.get("fixed", {})), *((where, _union(rows)) for where, rows in choices)])
    configs = {}
    for combination in itertools.product(*(rows for _, rows in choices)):
        changes = {name: value for row in combination for name, value in row.items()}
        config = _config(preset, fixed, changes)
        configs[config.fingerprint] = config
    yield from configs.values()


def _fixed(table: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split `[fixed]` into the fields of its preset, which the tables may change or drop, and the given fields."""
    fields = dict(table)
    if "preset" not in fields:
        return {}, fields
    return PRESETS[checked_name("fixed.preset", fields.pop("preset"), PRESETS)], fields


def _lists(table: Mapping[str, Any]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return (table and field, [{field: value}, …]) for each list of the grid."""
    lists = []
    for name, values in table.items():
        if not isinstance(values, list) or (name == SINGLE and not all(isinstance(each, list) for each in values)):
            raise ValueError(f"grid.{name} must be a list of values, got {values!r}; what does not vary goes to fixed")
        if not values:
            raise ValueError(f"grid.{name} is empty: give it at least one value, or leave it out")
        lists.append((f"grid.{name}", [{name: value} for value in values]))
    return lists


def _cases(table: Mapping[str, Any]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return (table and name, cases) for each array of tables."""
    cases = []
    for name, rows in table.items():
        if not isinstance(rows, list) or not all(isinstance(row, Mapping) and row for row in rows) or not rows:
            raise ValueError(f"cases.{name} must be tables with fields: write [[cases.{name}]] above each")
        if any(_shared(row) != _shared(rows[0]) for row in rows):
            raise ValueError(f"cases.{name} must have the same fields in each of its tables, got {rows}")
        cases.append((f"cases.{name}", [dict(row) for row in rows]))
    return cases


def _shared(row: Mapping[str, Any]) -> set[str]:
    """Return the fields of a case that every other case needs too: all except those of the kinds that it chooses."""
    chosen = {row[place] for place in KINDS if isinstance(row.get(place), str)}
    return {name for name in row if not chosen & homes_of(name).keys()}


def _check_names(fixed: Mapping[str, Any], choices: list[tuple[str, list[dict[str, Any]]]]) -> None:
    known = FIELDS
    for name in fixed:
        checked_name("a field of fixed", name, known)
    for where, rows in choices:
        for name in _union(rows):
            checked_name(f"a field of {where}", name, known)


def _union(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the fields that occur in at least one of the cases."""
    return {name: value for row in rows for name, value in row.items()}


def _check_once(tables: list[tuple[str, Mapping[str, Any]]]) -> None:
    """Check that no field is given in two tables."""
    table_of: dict[str, str] = {}
    for table, fields in tables:
        for name in fields:
            if name in table_of:
                raise ValueError(f"{name} is given by {table_of[name]} and by {table}: keep one of them")
            table_of[name] = table


def _config(preset: Mapping[str, Any], fixed: Mapping[str, Any], changes: Mapping[str, Any]) -> TrainConfig:
    try:
        return TrainConfig.from_fields({**fixed, **changes}, preset)
    except (ValueError, TypeError) as error:
        where = ", ".join(f"{name} = {value}" for name, value in changes.items())
        raise ValueError(f"{error} (with {where})" if where else str(error)) from None
