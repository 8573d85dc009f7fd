"""Previews of logs: what was read, before anything is fitted."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from sgdtheory._common.printable import one_line
from sgdtheory._common.sheets import Quantity, Sheet, Table
from sgdtheory._common.shown import Shown
from sgdtheory.logs.column_names import ColumnNames
from sgdtheory.logs.loss_curves import loss_curve, losses_of
from sgdtheory.logs.reading import read_logs
from sgdtheory.logs.run_files import Paths
from sgdtheory.logs.several_runs import Given, known_rate, one_batch_size, which_loss
from sgdtheory.logs.training_log import COLUMNS, KINDS, TrainingLog

UNITS = {
    "step": "optimizer steps",
    "loss": "training",
    "evaluation_loss": "evaluation",
    "learning_rate": "of a step",
    "batch_size": "sequences a step, all devices",
    "tokens": "seen so far",
    "batch_tokens": "tokens a step, all devices",
}
WIDE = 3.0  # A gap is named if it is at least this many times as wide as the median distance between rows.
MOST = 8  # At most this many unused columns or gaps are named.


class Understood(NamedTuple):
    """One number of a log: what it is, what the log calls it, how many rows have it, first and last value, unit."""

    attribute: str
    column: str
    count: int
    first: float
    last: float
    unit: str


@dataclass(frozen=True, eq=False)
class LogPreview(Shown):
    """Preview of one log.

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
        rows = self.log.step.size
        return f"{self.log.name}: {self.log.format}, {rows} row{'s' * (rows != 1)}"

    @property
    def notes(self) -> list[str]:
        """Settings, gaps, what is not used, and the sentences."""
        found = []
        if self.log.settings:
            found.append("settings: " + ", ".join(f"{key} {_plain(value)}" for key, value in self.log.settings.items()))
        if self.gaps:
            found.append("nothing logged between steps " + _some([f"{a:g} and {b:g}" for a, b in self.gaps]))
        if self.log.unused:
            found.append("not used: " + _some(self.log.unused))
        return [*found, *self.sentences]

    def sheet(self) -> Sheet:
        """Return a row for each number that the log holds, and the sentences below them."""
        columns = list(zip(*self.rows, strict=True))
        words = [name.replace("_", " ") for name in columns[0]]
        quantities = [
            Quantity("number", "number", words),
            Quantity("column", "the log's name", list(columns[1])),
            Quantity("rows", "rows", list(columns[2])),
            Quantity("first", "first", list(columns[3]), digits=6),
            Quantity("last", "last", list(columns[4]), digits=6),
            Quantity("unit", "unit", list(columns[5])),
        ]
        legend = "\n".join(map(one_line, self.notes))
        return Sheet(self.title, [Table(quantities, "numbers", legend=legend)], settings={"sentences": self.notes})


@dataclass(frozen=True, eq=False)
class Preview(Shown):
    """Previews of several logs, which print as text."""

    logs: tuple[LogPreview, ...]

    def sheet(self) -> Sheet:
        """Return the sheet of each log."""
        return Sheet("", [], groups=[each.sheet() for each in self.logs])

    def __repr__(self) -> str:
        """Return the tables: there is nothing else to see of a preview."""
        return str(self)


def preview(
    paths: Paths, *, loss: str | None = "train", use: Literal["curves", "steps", "grid"] = "curves", **given: Any
) -> Preview:
    """Preview logs as `read_training_log` reads them: rows, columns, units, gaps, settings, and what is missing.

    Args:
        paths, loss: as there; None: evaluations where every run has them, for `steps_to_target` and `loss_grid`.
        use: what the logs are for, which decides what is missing: loss curves, `steps_to_target`, or `loss_grid`.
        given: other keywords of `read_training_log`; or of `read_logs` and the function that the logs are for.

    Raises:
        ValueError: a file of no known format, or damaged.
    """
    files = {key: given.pop(key) for key in ("name", "formats") if key in given}
    names, numbers = ColumnNames.among({"loss": loss, **given})
    logs = read_logs(paths, **vars(names), **files)
    if use == "curves":
        return Preview(tuple(_preview(log, *_of_curve(log, numbers)) for log in logs))
    numbers["loss"] = which_loss(logs, loss)
    return Preview(tuple(_preview(log, _of_run(log, use == "grid", **numbers), log.step) for log in logs))


def _of_curve(log: TrainingLog, numbers: dict[str, Any]) -> tuple[list[str], np.ndarray]:
    """Return remarks on a loss curve, and its steps."""
    try:
        curve = loss_curve(log, **numbers)
    except ValueError as error:
        return [*log.remarks, str(error)], log.step
    return [curve.remark, *curve.assumed], curve.step


def _of_run(
    log: TrainingLog,
    needs_rate: bool,
    *,
    loss: str,
    batch_size: Given = None,
    learning_rate: Given = None,
    sequence_length: float | None = None,
) -> list[str]:
    """Return remarks on a run among several: everything that would stop a fit of them."""
    asked = [partial(losses_of, log, loss), partial(one_batch_size, log, batch_size, sequence_length)]
    if needs_rate:
        asked.append(partial(known_rate, log, learning_rate))
    steps, losses = log.series(KINDS.get(loss, "loss"))
    bad = steps[~np.isfinite(losses)]
    lost = f"the loss is nan or inf from step {bad[0]:g} on: the run diverged" if bad.size else ""
    return [*log.remarks, lost, *_refusals(asked)]


def _refusals(asked: Sequence[Callable[[], object]]) -> Iterator[str]:
    for each in asked:
        try:
            each()
        except ValueError as error:
            yield str(error)


def _preview(log: TrainingLog, sentences: Sequence[str], at: np.ndarray) -> LogPreview:
    rows = [Understood("step", log.columns.get("step", "step"), log.step.size, *_ends(log.step), UNITS["step"])]
    for column in COLUMNS:
        _, values = log.series(column)
        if values.size:
            place = log.columns.get(column, column)
            finite = values[np.isfinite(values)]  # a run that diverged ends with losses that are not
            rows.append(Understood(column, place, values.size, *_ends(finite), UNITS[column]))
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


def _plain(value: object) -> object:
    """Return a whole number without a point, and others as they are."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
