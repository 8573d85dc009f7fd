"""Lines of any other program, with a step and a loss: the last resort."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from sgdtheory.logs.column_names import GUESSES, ColumnNames
from sgdtheory.logs.files import open_text, stem
from sgdtheory.logs.formats.format import AbstractLogFormat
from sgdtheory.logs.formats.lines import NUMBER, RankedLines, number
from sgdtheory.logs.training_log import COLUMNS, TrainingLog

FEWEST = 3  # lines that make a log
EPOCH = "epoch"


class KeyValues(AbstractLogFormat):
    """`step: 100, loss: 3.1`, `iter=100 train_loss=3.1 lr=3e-4`, `Step 100 | loss 3.1`, and the like.

    No program's: keys are the words by which other logs are understood, those that the user named among them, and a
    number follows, after a colon, an equals sign or a space. Lines without a step are left out.
    """

    name = "lines of keys and values"
    programs = ("your own loop",)

    def recognizes(self, path: Path, head: str) -> bool:  # noqa: ARG002  (nothing but the text counts)
        """By three lines that have a step and a loss."""
        words = ColumnNames()
        understood = (_columns(words, pairs) for line in head.splitlines() if (pairs := _pairs(line, _keys(words))))
        rows = ({"step"} < set(each) and {"loss", "evaluation_loss"} & set(each) for each in understood)
        return sum(map(bool, rows)) >= FEWEST

    def read(self, path: Path, names: ColumnNames) -> Sequence[TrainingLog]:
        """The run."""
        with open_text(path) as file:
            source = RankedLines(file)
            rows = list(_rows(source, _keys(names)))
        present = list(dict.fromkeys(key for row in rows for key in row.pairs))
        understood = names.understand([key for key in present if key != EPOCH])
        step = understood.get("step")
        series: dict[str, tuple[list[float], list[float]]] = {}
        ranks: dict[str, str] = {}
        _check_epochs(path, rows, step)
        for row in rows:
            for column in COLUMNS:
                key = understood.get(column, "")
                if step in row.pairs and key in row.pairs and ranks.setdefault(column, row.rank) == row.rank:
                    steps, values = series.setdefault(column, ([], []))
                    steps.append(row.pairs[step])
                    values.append(row.pairs[key])
        if not series:
            raise ValueError(f"{path} has no line with a step and a loss; name them, step= and loss= (--step, --loss)")
        columns = {column: key for column, key in understood.items() if column in (*series, "step")}
        return [TrainingLog.from_series(stem(path), self.name, series, columns=columns, remarks=source.remarks)]


class _Row(NamedTuple):
    """Of a line: which rank wrote it, and key → number."""

    rank: str
    pairs: dict[str, float]


def _rows(lines: RankedLines, keys: re.Pattern[str]) -> Iterator[_Row]:
    for line in lines:
        if pairs := _pairs(line, keys):
            yield _Row(lines.rank, pairs)


def _keys(names: ColumnNames) -> re.Pattern[str]:
    """Every key that may be meant, longest first, and the number after it."""
    guesses = [each for column in ("step", *COLUMNS) for each in GUESSES[column] if not each.startswith("_")]
    words = [re.escape(each).replace("_", "[ _-]") for each in guesses]
    words += [EPOCH, *map(re.escape, names.given.values())]
    longest = "|".join(sorted(set(words), key=len, reverse=True))
    return re.compile(rf"(?<![\w/])({longest})['\"]?(?:\s*+[:=]|\s)\s*+\[?\s*+({NUMBER})(?![\w.])", re.IGNORECASE)


def _pairs(line: str, keys: re.Pattern[str]) -> dict[str, float]:
    return {found[1]: value for found in keys.finditer(line) if (value := number(found[2])) is not None}


def _columns(names: ColumnNames, pairs: dict[str, float]) -> dict[str, str]:
    return names.understand([key for key in pairs if key != EPOCH])


def _check_epochs(path: Path, rows: list[_Row], step: str | None) -> None:
    """Refuse steps that begin again with every epoch: they would be taken for restarts."""
    last: dict[str, tuple[float, float]] = {}
    for row in rows:
        epoch = next((row.pairs[key] for key in row.pairs if key.lower() == EPOCH), None)
        if epoch is None or step not in row.pairs:
            continue
        before = last.get(row.rank)
        if before is not None and epoch > before[0] and row.pairs[step] <= before[1]:
            raise ValueError(
                f"{path}: {step} begins again with epoch {epoch:g}; name a count that runs on, step= (--step)"
            )
        last[row.rank] = epoch, row.pairs[step]
