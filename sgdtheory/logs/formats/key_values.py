"""Lines of any other program, with a step and a loss: the last resort."""

import re
from array import array
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np

from sgdtheory.logs.column_names import GUESSES, ColumnNames
from sgdtheory.logs.files import open_text, stem
from sgdtheory.logs.formats.format import AbstractLogFormat
from sgdtheory.logs.formats.lines import NUMBER, RankedLines, number
from sgdtheory.logs.table import Table, logs_of_table
from sgdtheory.logs.training_log import COLUMNS, TrainingLog

FEWEST = 3  # A text is a log if it has at least this many lines with a step and a loss or learning rate.
EPOCH = "epoch"
SIGN = re.compile("[:=]")


class KeyValues(AbstractLogFormat):
    """`step: 100, loss: 3.1`, `iter=100 train_loss=3.1 lr=3e-4`, `Step 100 | loss 3.1`, and the like.

    No program's: keys are the words by which other logs are understood, those that the user named among them, and a
    number follows, after a colon, an equals sign or a space. Lines without a step are left out.
    """

    name = "lines of keys and values"
    programs = ("your own loop",)

    def recognizes(self, path: Path, head: str) -> bool:  # noqa: ARG002  (nothing but the text counts)
        """Look for three lines that have a step and a loss; or a learning rate, both with a colon or an equals sign."""
        words, keys = ColumnNames(), _keys(ColumnNames())
        count = 0
        for line in head.splitlines():
            understood = _columns(words, _pairs(line, keys))
            signed = _columns(words, dict.fromkeys(found[1] for found in keys.finditer(line) if SIGN.search(found[0])))
            losses = {"loss", "evaluation_loss"} & understood.keys()
            count += "step" in understood if losses else {"step", "learning_rate"} <= signed.keys()
        return count >= FEWEST

    def read(self, path: Path, names: ColumnNames) -> Sequence[TrainingLog]:
        """Read the run; of several ranks that log a key the first one counts."""
        cells: dict[str, array[float]] = {}
        ranks: dict[str, str] = {}
        count = 0
        with open_text(path) as file:
            source = RankedLines(file)
            keys = _keys(names)
            for line in source:
                if not (pairs := _pairs(line, keys)):
                    continue
                for key, value in pairs.items():
                    if (own := cells.get(key)) is None:
                        own, ranks[key] = cells.setdefault(key, array("d")), source.rank
                    if ranks[key] == source.rank:
                        if len(own) < count:
                            own.extend([np.nan] * (count - len(own)))
                        own.append(value if value - value == 0.0 else np.inf)
                count += 1
        for own in cells.values():
            own.extend([np.nan] * (count - len(own)))
        understood = names.understand([*cells])
        if not {"step"} < set(understood):
            raise ValueError(f"{path} has no line with a step and a loss; name them, step= and loss= (--step, --loss)")

        def read(numeric: Sequence[str], words: Sequence[str]) -> dict[str, np.ndarray]:  # noqa: ARG001
            return {key: np.array(cells[key]) for key in numeric}

        return logs_of_table(Table(stem(path), self.name, [*cells], read, source.remarks), names)


def _keys(names: ColumnNames) -> re.Pattern[str]:
    """Return a pattern of every key that may be meant, the longest first, and the number after it."""
    guesses = [each for column in ("step", *COLUMNS) for each in GUESSES[column] if not each.startswith("_")]
    words = [re.escape(each).replace("_", "[ _-]") for each in guesses]
    given = [value for name, value in names.given.items() if name != "step"]
    given += [column for column, _ in ColumnNames.terms(names.step or "") if column]
    words += [EPOCH, *map(re.escape, given)]
    first: dict[str, list[str]] = {}  # by first letter, so that most places of a line are passed over at once
    for word in sorted(set(words), key=len, reverse=True):
        first.setdefault(word.lstrip("\\")[:1].lower(), []).append(word)
    longest = "|".join(f"(?={re.escape(letter)})(?:{'|'.join(own)})" for letter, own in first.items())
    letters = "".join(map(re.escape, first))
    value = rf"['\"]?(?:\s*+[:=]|\s)\s*+\[?\s*+({NUMBER})(?![\w.])"
    return re.compile(rf"(?<![\w/])(?=[{letters}])({longest}){value}", re.IGNORECASE)


def _pairs(line: str, keys: re.Pattern[str]) -> dict[str, float]:
    found = keys.findall(line)
    try:  # `float` is three times as fast as `number`, which also reads commas and units.
        return {key: float(text) for key, text in found}
    except ValueError:
        return {key: value for key, text in found if (value := number(text)) is not None}


def _columns(names: ColumnNames, pairs: Collection[str]) -> dict[str, str]:
    return names.understand([key for key in pairs if key != EPOCH])
