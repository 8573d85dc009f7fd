"""What a sweep hands back: configs and results, and both as a table."""

import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sgdtheory._common.arguments import checked_name
from sgdtheory._common.files import csv_columns
from sgdtheory.sweep.store import Store
from sgdtheory.training import FIELDS, TrainConfig, TrainResult

ALWAYS = "width", "batch_size", "learning_rate", "seed"


@dataclass(frozen=True, eq=False)
class SweepTable:
    """Runs of a sweep.

    Attributes:
        configs: of the runs, in the order of the sweep.
        results: of each; None for a run that has not ended.
        notes: what was found in the store that was no run of it.
        interrupted: whether Ctrl-C, or the end of the time that the sweep had, came before its end.
    """

    configs: tuple[TrainConfig, ...]
    results: tuple[TrainResult | None, ...]
    notes: tuple[str, ...] = ()
    interrupted: bool = False

    @classmethod
    def from_store(cls, store: str | Path, *, entry_point: str | None = None) -> "SweepTable":
        """Read all runs of a store, sorted by what varies between them; nothing that the store names is imported.

        Args:
            store: folder of the runs.
            entry_point: "module:name" of a model of your own, whose runs of the store may be trained further: configs
                of a model that the store alone names are refused by `sweep`.

        Raises:
            ValueError: there is no such store, or no run in it has this model.
        """
        entries = list(Store(store).entries())
        runs = [(entry.config.naming(entry_point), entry.result) for entry in entries if entry.config is not None]
        runs = [(config, result and replace(result, config=config)) for config, result in runs]
        names = varying([config for config, _ in runs])
        runs.sort(key=lambda run: [sortable(run[0].value(name)) for name in names])
        notes = [f"{entry.name} is left out: {entry.problem}" for entry in entries if entry.problem]
        configs = tuple(config for config, _ in runs)
        if entry_point is not None and all(config.value("entry_point") != entry_point for config in configs):
            raise ValueError(f"entry_point must be that of runs in {store}, got {entry_point}, which none of them has")
        return cls(configs, tuple(result for _, result in runs), tuple(notes))

    def where(self, **values: Any) -> "SweepTable":
        """The runs whose fields have these values, or one of the values of a list: `where(width=[32, 64], seed=0)`.

        Raises:
            ValueError: an unknown field, or no run is left; the values that there are are named.
        """
        kept = range(len(self.configs))
        for name, value in values.items():
            checked_name("where", name, FIELDS)
            allowed = {_cell(each) for each in (value if isinstance(value, list | set) else [value])}
            kept, before = [row for row in kept if _cell(self.configs[row].value(name)) in allowed], kept
            if not kept:
                found = sorted({_cell(self.configs[row].value(name)) for row in before}, key=sortable)
                raise ValueError(
                    f"where {name} must be one of {', '.join(map(str, found)) or 'no runs'}, got "
                    f"{', '.join(sorted(map(str, allowed)))}"
                )
        return replace(
            self, configs=tuple(self.configs[row] for row in kept), results=tuple(self.results[row] for row in kept)
        )

    @property
    def finished(self) -> list[TrainResult]:
        """Results of the runs that have ended."""
        return [result for result in self.results if result is not None]

    def columns(self) -> dict[str, list[Any]]:
        """One row a run: its hash, what varies between the runs, and its result; None where there is none.

        Nothing in it depends on how fast a machine was.
        """
        fields = varying(self.configs, ALWAYS)
        averages = sorted({name for config in self.configs for name in config.average_names}, key=_average_order)
        columns: dict[str, list[Any]] = {"run": [config.fingerprint for config in self.configs]}
        columns |= {name: [_cell(config.value(name)) for config in self.configs] for name in fields}
        columns["outcome"] = [result.outcome if result else "unfinished" for result in self.results]
        columns["num_steps"] = [result.num_steps if result else None for result in self.results]
        for name in averages:
            columns[f"loss_{name}"] = [_last(result, name) for result in self.results]
        for name in averages:
            columns[f"steps_{name}"] = [_steps(result, name) for result in self.results]
        return columns

    def to_csv(self) -> str:
        """The table as CSV; empty where there is no value."""
        return csv_columns(self.columns())


def conditions(texts: Sequence[str]) -> dict[str, Any]:
    """Arguments of `SweepTable.where` from "width=32", "width=32,64", "averages=[0.9, 0.99]", "parametrization=mup".

    Raises:
        ValueError: a text without a field and a value, or an unknown field.
    """
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.replace("-", "_")
        if not equals or not value:
            raise ValueError(f"where must be FIELD=VALUE, as width=32 or width=32,64, got {text}")
        checked_name("where", name, FIELDS)
        parsed = _parsed(value)
        found[name] = tuple(parsed) if name == "averages" and isinstance(parsed, list) else parsed
    return found


def _parsed(text: str) -> Any:
    """A value as JSON has it, a list of values with commas between them, or the text itself."""
    for candidate in (text, f"[{text}]"):
        with contextlib.suppress(json.JSONDecodeError):
            return json.loads(candidate)
    return text.split(",") if "," in text else text


def varying(configs: Sequence[TrainConfig], always: Sequence[str] = ()) -> list[str]:
    """Names of the fields that differ between the configs, and of those in `always`."""
    return [name for name in FIELDS if name in always or len({config.value(name) for config in configs}) > 1]


def sortable(value: Any) -> tuple[int, Any]:
    """A key that sorts values of a field that may be of several kinds: numbers first, then the rest by its words."""
    return (0, value) if isinstance(value, int | float) and value == value else (1, str(value))


def _average_order(name: str) -> tuple[int, float]:
    special = {"iterate": (0, 0.0), "uniform": (2, 0.0)}
    return special[name] if name in special else (1, float(name))


def _cell(value: Any) -> Any:
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return getattr(value, "name", value)


def _last(result: TrainResult | None, name: str) -> float | None:
    return float(result.curve(name)[-1]) if result and name in result.names else None


def _steps(result: TrainResult | None, name: str) -> float | None:
    found = result.steps_to_target.get(name) if result else None
    return None if found is None or found != found else found
