"""What an experiment hands back, and how it is written: config, tidy data, figures and verdicts."""

import dataclasses
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib.figure import Figure

from sgdtheory.files import csv_columns, write_atomically
from sgdtheory.plotting import save_figure

VerdictName = Literal["holds", "fails", "inconclusive", "imprecise in the paper"]
COLORS = {"holds": "green", "fails": "bold red", "inconclusive": "yellow", "imprecise in the paper": "cyan"}


@dataclass(frozen=True)
class Verdict:
    """One claim, checked.

    Attributes:
        claim: short name, for example "Theorem 7, total".
        statement: the claim in a sentence.
        predicted, measured: what the theory says and what was found, as numbers or short texts.
        interval: range of what was measured, or None.
        verdict: "holds", "fails" (it should hold and does not), "inconclusive", or "imprecise in the paper".
        seconds: time that it took to measure.
    """

    claim: str
    statement: str
    predicted: float | str
    measured: float | str
    interval: tuple[float, float] | None
    verdict: VerdictName
    seconds: float = 0.0


@dataclass(frozen=True)
class Result:
    """Everything that an experiment found.

    Attributes:
        columns: name → one value a point; all of one length.
        units: name → unit or meaning of the column.
        figures: name → figure.
        verdicts: the claims checked.
    """

    columns: dict[str, Any]
    units: dict[str, str]
    figures: dict[str, Figure] = field(default_factory=dict)
    verdicts: tuple[Verdict, ...] = ()


def write_result(folder: Path, config: Any, result: Result) -> None:
    """Write config.json, data.csv, columns.json, the figures and, last, verdicts.json; each atomically."""
    if result.columns.keys() != result.units.keys():
        raise ValueError(f"units must name every column, got {sorted(result.columns.keys() ^ result.units.keys())}")
    write_json(folder / "config.json", dataclasses.asdict(config))
    write_json(folder / "columns.json", result.units)
    write_atomically(folder / "data.csv", _csv(result.columns))
    for name, figure in result.figures.items():
        save_figure(figure, folder / name)
    write_json(folder / "verdicts.json", [dataclasses.asdict(verdict) for verdict in result.verdicts])


def write_json(path: Path, value: Any) -> None:
    """Write strict JSON atomically; a number that is not finite becomes a string."""
    write_atomically(path, json.dumps(_plain(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _csv(columns: dict[str, Any]) -> str:
    return csv_columns({name: np.asarray(column) for name, column in columns.items()})
