"""Logs that are lines of text: what all of them share, prefixes of ranks, colours, a last line that was cut."""

import re
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TextIO

from sgdtheory.logs.column_names import ColumnNames
from sgdtheory.logs.files import HEAD, open_text, stem
from sgdtheory.logs.formats.format import AbstractLogFormat
from sgdtheory.logs.training_log import TrainingLog

COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
RANK = re.compile(r"\[default(\d+)\]:|\[rank(\d+)\]: |\s*(\d+): ")  # torchrun's two, and that of `srun --label`
FAR = 4 << 20  # characters; what clusters, containers and NCCL write before the first step is less
# No two parts of it can take the same characters: else matching would take the square of a long line's length.
NUMBER = r"(?:[-+]?(?:\d+(?:,\d+)*(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?[kKMBTPE]?|[-+]?(?:[nN][aA][nN]|[iI][nN][fF]))"
UNITS = {"k": 1e3, "K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}


class Entry(NamedTuple):
    """What a line says: the number of a column at a step, or a setting of the run, which has none.

    Attributes:
        name: of the column of `TrainingLog`, or of the setting.
        value: the number; of settings perhaps text.
        step: at which it was logged.
        called: what the log calls it.
    """

    name: str
    value: Any
    step: float | None = None
    called: str = ""


class AbstractTextFormat(AbstractLogFormat):
    """A log of lines: what only its program writes, and what its lines say.

    The lines come without the prefix of a rank and without colours; what stands before a program's own words, a clock
    or a logger's name, stays. Of ranks that all log a column the first one counts. Lines end: a last one that does not
    was cut in the middle, perhaps of a number, and is left out.

    Attributes:
        mark: what a line of this program contains, and none of another.
    """

    mark: ClassVar[re.Pattern[str]]

    @abstractmethod
    def entries(self, lines: Iterator[str]) -> Iterator[Entry]:
        """What the lines say, in their order."""

    # Final: the rest is the same for all.

    def recognizes(self, path: Path, head: str) -> bool:
        """By the mark, which may come after much that others wrote."""
        if self.mark.search(COLOURS.sub("", head)):
            return True
        if len(head) < HEAD // 4:  # the whole file, even if every character took four bytes
            return False
        with open_text(path) as file:
            return bool(self.mark.search(COLOURS.sub("", file.read(FAR))))

    def read(self, path: Path, names: ColumnNames) -> Sequence[TrainingLog]:  # noqa: ARG002  (a program's words are fixed)
        """The run."""
        series: dict[str, tuple[list[float], list[float]]] = {}
        settings: dict[str, Any] = {}
        columns: dict[str, str] = {}
        ranks: dict[str, str] = {}
        with open_text(path) as file:
            source = RankedLines(file)
            for entry in self.entries(source):
                if entry.step is None:
                    settings[entry.name] = entry.value
                elif ranks.setdefault(entry.name, source.rank) == source.rank:
                    steps, values = series.setdefault(entry.name, ([], []))
                    steps.append(entry.step)
                    values.append(entry.value)
                    columns.setdefault(entry.name, entry.called)
        if not series:
            raise ValueError(f"{path} holds no step of {self.name} yet; give a log of a run that has begun")
        remarks = (*self.finish(settings, columns), *source.remarks)
        return [
            TrainingLog.from_series(stem(path), self.name, series, settings=settings, columns=columns, remarks=remarks)
        ]

    def finish(self, settings: dict[str, Any], columns: dict[str, str]) -> Sequence[str]:  # noqa: ARG002
        """Compute settings from others that the log has, in place; what a reader should know, a sentence each."""
        return ()


class RankedLines(Iterator[str]):
    """The lines of a file that end, without the prefix of a rank; owns the file's place.

    Attributes:
        rank: that wrote the last line given, "" where it does not say.
        remarks: of the log, once all lines are read: whether the file ends within one.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self.rank = ""
        self.remarks: tuple[str, ...] = ()

    def __next__(self) -> str:
        line = next(self._file)
        if not line.endswith(("\n", "\r")):
            if line.strip():
                self.remarks = ("the last line was cut, and is left out",)
            raise StopIteration
        text = COLOURS.sub("", line).rstrip()
        prefix = RANK.match(text)
        self.rank = prefix[0].strip() if prefix else ""
        return text[prefix.end() :] if prefix else text


def number(text: str) -> float | None:
    """The number that a text is, with commas or a unit (1,024 or 1.05B), nan and inf too; None of other text."""
    text = text.strip().rstrip(",;|")
    if not re.fullmatch(NUMBER, text):
        return None
    scale = UNITS.get(text[-1], 1.0) if "n" not in text.lower() else 1.0
    digits = text.rstrip("".join(UNITS)) if scale != 1.0 else text
    return float(digits.replace(",", "")) * scale


def numbers_of_cells(text: str) -> dict[str, float]:
    """Of `key: number | key: number | …`; cells that hold no number are left out."""
    pairs = (cell.rpartition(": ") for cell in text.split("|"))
    return {key.strip(): value for key, _, rest in pairs if (value := number(rest)) is not None}


def setting(name: str, text: str) -> Entry:
    """Of what a program prints of its arguments: a number where it is one."""
    value = number(text)
    return Entry(name, text.strip() if value is None else value)
