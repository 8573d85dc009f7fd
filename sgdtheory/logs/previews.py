"""What was understood of logs, before anything is fitted."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sgdtheory.logs.loss_curves import loss_curve
from sgdtheory.logs.reading import read_logs
from sgdtheory.logs.run_files import Paths
from sgdtheory.logs.training_log import COLUMNS, TrainingLog

UNITS = {
    "step": "optimizer steps",
    "loss": "training",
    "evaluation_loss": "evaluation",
    "learning_rate": "of a step",
    "batch_size": "sequences a step, all devices",
    "tokens": "seen so far",
}
WIDE = 3.0  # times the usual distance between rows, from which on a gap is named
MOST = 8  # unused columns and gaps that are named


class Understood(NamedTuple):
    """One number of a log: what it is, what the log calls it, how many rows have it, first and last value, unit."""

    attribute: str
    column: str
    count: int
    first: float
    last: float
    unit: str


@dataclass(frozen=True, eq=False)
class LogPreview:
    """What was understood of one log.

    Attributes:
        log: as it was read.
        rows: what it holds.
        gaps: (first step, last step) between which nothing was logged for three times as long as usual, or longer.
        sentences: what was left out, what is not known and how to give it.
    """

    log: TrainingLog
    rows: tuple[Understood, ...]
    gaps: tuple[tuple[float, float], ...]
    sentences: tuple[str, ...]

    @property
    def title(self) -> str:
        """Run, format, rows."""
        return f"{self.log.name}: {self.log.format}, {self.log.step.size} rows"

    @property
    def notes(self) -> list[str]:
        """Settings, gaps, what is not used, and the sentences."""
        found = []
        if self.log.settings:
            found.append("settings: " + ", ".join(f"{key} {value}" for key, value in self.log.settings.items()))
        if self.gaps:
            found.append("nothing logged between steps " + _some([f"{a:g} and {b:g}" for a, b in self.gaps]))
        if self.log.unused:
            found.append("not used: " + _some(self.log.unused))
        return [*found, *self.sentences]

    def __str__(self) -> str:
        """A few lines of text."""
        lines = [self.title]
        for row in self.rows:
            ends = f"{row.first:.6g} … {row.last:.6g}"
            lines.append(f"  {row.attribute:16} {row.column:24} {row.count:8} rows  {ends:24} {row.unit}".rstrip())
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])


@dataclass(frozen=True, eq=False)
class Preview:
    """What was understood of each log; prints as text."""

    logs: tuple[LogPreview, ...]

    def __str__(self) -> str:
        """One log below the other."""
        return "\n\n".join(map(str, self.logs))

    __repr__ = __str__


def preview(paths: Paths, *, loss: str = "train", **given: Any) -> Preview:
    """What `read_training_log` would make of files: rows, columns, units, gaps, settings, and what is missing.

    Args:
        paths, loss: as there.
        given: its other keywords.

    Raises:
        ValueError: a file of no known format, or damaged.
    """
    numbers = {key: given.pop(key, None) for key in ("sequence_length", "warmup")}
    for key in ("learning_rate", "batch_size"):
        if key in given and not isinstance(given[key], str):
            numbers[key] = given.pop(key)
    logs = read_logs(paths, loss=None if loss in ("train", "eval") else loss, **given)
    return Preview(tuple(_preview(log, loss, numbers) for log in logs))


def _preview(log: TrainingLog, loss: str, numbers: dict[str, Any]) -> LogPreview:
    rows = [Understood("step", log.columns.get("step", "step"), log.step.size, *_ends(log.step), UNITS["step"])]
    for column in COLUMNS:
        _, values = log.series(column)
        if values.size:
            place = log.columns.get(column, column)
            rows.append(Understood(column, place, values.size, *_ends(values), UNITS[column]))
    try:
        curve = loss_curve(log, loss=loss, **numbers)
        sentences = [curve.remark, *curve.assumed]
        at = curve.step
    except ValueError as error:
        sentences = [*log.remarks, str(error)]
        at = log.step
    return LogPreview(log, tuple(rows), _gaps(at), tuple(filter(None, sentences)))


def _ends(values: np.ndarray) -> tuple[float, float]:
    return (float(values[0]), float(values[-1])) if values.size else (np.nan, np.nan)


def _gaps(steps: np.ndarray) -> tuple[tuple[float, float], ...]:
    apart = np.diff(steps)
    if apart.size < 2:
        return ()
    wide = np.flatnonzero(apart >= WIDE * np.median(apart))
    return tuple((float(steps[place]), float(steps[place + 1])) for place in wide)


def _some(texts: Sequence[str]) -> str:
    more = len(texts) - MOST
    return ", ".join(texts[:MOST]) + (f" and {more} more" if more > 0 else "")
