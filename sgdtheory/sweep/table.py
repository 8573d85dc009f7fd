"""The result of a sweep: configs and results, and both as a table."""

import contextlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sgdtheory._common.arguments import checked_name
from sgdtheory._common.files import csv_columns
from sgdtheory._common.sheets import Quantity, Sheet, Table
from sgdtheory._common.shown import Shown
from sgdtheory.sweep.store import Store
from sgdtheory.training import FIELDS, TrainConfig, TrainResult

ALWAYS = "width", "batch_size", "learning_rate", "seed"


@dataclass(frozen=True, eq=False)
class SweepTable(Shown):
    """Configs and results of a sweep.

    Attributes:
        configs: configs of the runs, in the order of the sweep.
        results: result of each run; None for a run that has not ended.
        notes: remarks on directories of the store that could not be used.
        interrupted: whether Ctrl-C or the time limit came before the end of the sweep.
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
            entry_point: "module:name" of a custom model, so that its runs may be trained further: `sweep` refuses
                configs of a model that only the store names.

        Raises:
            ValueError: if there is no such store, or no run in it has this model.
        """
        entries = list(Store(store).entries())
        runs = [(entry.config.naming(entry_point), entry.result) for entry in entries if entry.config is not None]
        runs = [(config, result and replace(result, config=config)) for config, result in runs]
        # A store has no order of its own, and the same runs give the same table on every machine.
        names = varying([config for config, _ in runs])
        runs.sort(key=lambda run: [sortable(run[0].value(name)) for name in names])
        notes = [f"{entry.name} is left out: {entry.problem}" for entry in entries if entry.problem]
        configs = tuple(config for config, _ in runs)
        if entry_point is not None and all(config.value("entry_point") != entry_point for config in configs):
            raise ValueError(f"entry_point must be that of runs in {store}, got {entry_point}, which none of them has")
        return cls(configs, tuple(result for _, result in runs), tuple(notes))

    def where(self, **values: Any) -> "SweepTable":
        """Select the runs whose fields have these values, or one of a list of values: `where(width=[32, 64], seed=0)`.

        Raises:
            ValueError: if a field is unknown, or no run is left; the message lists the values that occur.
        """
        kept = range(len(self.configs))
        for name, value in values.items():
            checked_name("where", name, FIELDS)
            allowed = {_cell(each) for each in (value if isinstance(value, list | set) else [value])}
            before = kept
            kept = [row for row in kept if _cell(self.configs[row].value(name)) in allowed]
            # Fields are applied one after the other: the values listed are those that the earlier ones leave.
            if not kept:
                present = sorted({_cell(self.configs[row].value(name)) for row in before}, key=sortable)
                raise ValueError(
                    f"where {name} must be one of {', '.join(map(str, present)) or 'no runs'}, got "
                    f"{', '.join(sorted(map(str, allowed)))}"
                )
        return replace(
            self, configs=tuple(self.configs[row] for row in kept), results=tuple(self.results[row] for row in kept)
        )

    @property
    def finished(self) -> list[TrainResult]:
        """The results of the runs that have ended."""
        return [result for result in self.results if result is not None]

    @property
    def target_losses(self) -> list[float]:
        """The targets of the runs, the highest first."""
        return sorted({config.target_loss for config in self.configs if config.target_loss is not None}, reverse=True)

    def columns(self) -> dict[str, list[Any]]:
        """Return one row per run: its hash, the fields that vary between the runs, and its result (None if missing).

        The columns do not depend on the speed of the machine.
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
        """Return the table as CSV, with empty cells where there is no value."""
        return csv_columns(self.columns())

    def sheet(self, store: str | Path | None = None) -> Sheet:
        """Return how many runs have ended in which way.

        Args:
            store: folder of the runs, which distinguishes a run that has not begun from one that has not ended.
        """
        directory = None if store is None else Store(store).directory
        outcomes = Counter(result.outcome for result in self.finished)
        for config, result in zip(self.configs, self.results, strict=True):
            if result is None:
                begun = directory is None or directory(config).exists()
                outcomes["unfinished" if begun else "not begun"] += 1
        names = sorted(outcomes)
        quantities = [Quantity("", "outcome", names), Quantity("", "runs", [outcomes[name] for name in names])]
        seconds = sum(result.seconds for result in self.finished)
        legend = f"{seconds:.0f} s of training, runs side by side counted each"
        place = "" if store is None else f" in {store}"
        title = f"{len(self.configs)} run{'s' * (len(self.configs) != 1)}{place}"
        settings = {"runs": self.columns(), "outcomes": outcomes}
        return Sheet(title, [Table(quantities, legend=legend)], self.notes, settings)


def conditions(texts: Sequence[str]) -> dict[str, Any]:
    """Parse arguments of `SweepTable.where` from texts such as "width=32", "width=32,64" or "averages=[0.9, 0.99]".

    Raises:
        ValueError: if a text has no field or no value, or the field is unknown.
    """
    arguments: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.replace("-", "_")
        if not equals or not value:
            raise ValueError(f"where must be FIELD=VALUE, as width=32 or width=32,64, got {text}")
        checked_name("where", name, FIELDS)
        parsed = _parsed(value)
        arguments[name] = tuple(parsed) if name == "averages" and isinstance(parsed, list) else parsed
    return arguments


def _parsed(text: str) -> Any:
    """Parse a JSON value or a comma-separated list of values; any other text is returned unchanged."""
    for candidate in (text, f"[{text}]"):
        with contextlib.suppress(json.JSONDecodeError):
            return json.loads(candidate)
    return text.split(",") if "," in text else text


def varying(configs: Sequence[TrainConfig], always: Sequence[str] = ()) -> list[str]:
    """List the fields that differ between the configs, and those in `always`."""
    return [name for name in FIELDS if name in always or len({config.value(name) for config in configs}) > 1]


def sortable(value: Any) -> tuple[int, Any]:
    """Return a sort key for values of mixed types: numbers first, then all others by their text."""
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
    steps = result.steps_to_target.get(name) if result else None
    # nan is a target that was not reached, which CSV and JSON have as an empty cell and null.
    return None if steps is None or steps != steps else steps
