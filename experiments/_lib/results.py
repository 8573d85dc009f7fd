"""Results of an experiment, and how they are written: config, tidy data, figures and verdicts."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib.figure import Figure

from experiments._lib.interruption import protected
from sgdtheory._common.files import csv_columns, json_text, write_atomically
from sgdtheory.plotting.style import save

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


def write_result(folder: Path, config: Any, result: Result, kept: Callable[[], None] = lambda: None) -> None:
    """Write config.json, columns.json, data.csv and verdicts.json, all of them or none, and then the figures.

    Each file is written atomically. Figures of an earlier run go first: they would not be of these data. `kept` is
    called when data and verdicts are in place; drawing the figures takes seconds, in which Ctrl-C may come.
    """
    if result.columns.keys() != result.units.keys():
        raise ValueError(f"units must name every column, got {sorted(result.columns.keys() ^ result.units.keys())}")
    texts = {
        "config.json": json_text(dataclasses.asdict(config)),
        "columns.json": json_text(result.units),
        "data.csv": csv_columns({name: np.asarray(column) for name, column in result.columns.items()}),
        "verdicts.json": json_text([dataclasses.asdict(verdict) for verdict in result.verdicts]),
    }
    with protected():
        for stale in (*folder.glob("*.png"), *folder.glob("*.pdf")):
            stale.unlink()
        for name, text in texts.items():
            write_atomically(folder / name, text)
        kept()
    for name, figure in result.figures.items():
        save(figure, folder / name)
