"""Text logs: prefixes of ranks, colours, a last line that was cut; and formats that are tables of patterns."""

import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from sgdtheory.logs.column_names import ColumnNames
from sgdtheory.logs.files import HEAD, open_text, stem
from sgdtheory.logs.formats.format import AbstractLogFormat
from sgdtheory.logs.training_log import COLUMNS, LOSSES, TrainingLog

COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
RANK = re.compile(r"\[default(\d+)\]:|\[rank(\d+)\]: |\s*(\d+): ")  # The first two are torchrun's, the last is srun's.
# A format's mark is searched in this many characters: clusters, containers and NCCL write less before it.
FAR = 4 << 20
# No two parts of this pattern can match the same characters. Otherwise the time would grow with the square of a line.
NUMBER = r"(?:[-+]?(?:\d+(?:,\d+)*(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?[kKMGBTPE]?|[-+]?(?:[nN][aA][nN]|[iI][nN][fF]))"
ALONE = re.compile(NUMBER)
# The pattern matches a row's first cell, which may be empty, if it is a number.
FIRST_CELL = re.compile(r"[-+.\d]*(?:[eE][-+]?\d+)?,")
UNITS = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}


class Entry(NamedTuple):
    """One number of a line: a value of a column at a step, or a setting of the run, which has no step.

    Attributes:
        name: column of `TrainingLog`, or setting.
        value: number; settings may be text.
        step: at which it was logged.
        called: the log's own name of the column.
    """

    name: str
    value: Any
    step: float | None = None
    called: str = ""


class AbstractTextFormat(AbstractLogFormat):
    """A log of lines: the mark by which it is recognized, and the numbers that its lines hold.

    The lines come without the prefix of a rank and without colours; what stands before a program's own words, a clock
    or a logger's name, stays. If several ranks log a column, the first of them counts. A last line without an end was
    cut, perhaps within a number, and is left out.

    Attributes:
        mark: pattern that lines of this program contain and those of no other program.
    """

    mark: re.Pattern[str]

    @abstractmethod
    def entries(self, lines: Iterator[str]) -> Iterator[Entry]:
        """Yield the entries of all lines, in their order."""

    # Final: the rest is the same for all.

    def recognizes(self, path: Path, head: str) -> bool:
        """Search for the mark, which may come after much that other programs wrote."""
        if self.begins(head):
            return True
        # The head is the whole file if it is short, even where every character took four bytes. Rows of JSON and of a
        # table are no text log that begins late. To search a long file for all marks takes a second.
        lines = head.splitlines()[:-1]
        if len(head) < HEAD // 4 or all(line.startswith("{") for line in lines) or _are_rows(lines):
            return False
        with open_text(path) as file:
            return bool(self.mark.search(COLOURS.sub("", file.read(FAR))))

    def begins(self, head: str) -> bool:
        """Return whether the mark is in the beginning of a file, where it is nearly always."""
        return bool(self.mark.search(COLOURS.sub("", head)))

    def read(self, path: Path, names: ColumnNames) -> Sequence[TrainingLog]:  # noqa: ARG002  (a program's words are fixed)
        """Read the run."""
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
        """Compute settings from others of the log, in place, and return remarks for the reader."""
        return ()


def _are_rows(lines: Sequence[str]) -> bool:
    """Return whether all lines have as many commas as the first, one at least, and begin with a number after it."""
    commas = lines[0].count(",") if lines else 0
    return commas > 0 and all(line.count(",") == commas for line in lines) and all(map(FIRST_CELL.match, lines[1:]))


@dataclass(frozen=True, kw_only=True)
class Console(AbstractTextFormat):
    """A program's console as a table of patterns.

    Each line is matched by the first pattern that is found in it. The named groups of the pattern say what a number is:
    `step`, a column of `TrainingLog` (`loss`, `learning_rate`, …), or a setting (`num_steps`, `warmup`, …). A loss in a
    line without a step belongs to the last step before it. The groups `epoch`, `in_epoch` and `length` together make
    the step of a counter that begins again with each epoch. A pattern with the groups `key` and `value` may be found
    several times in a line; `metrics` and `settings` say what each key is. Where `source` is a group, as the name of a
    data set, the first source of the log counts and others are passed over.

    Attributes:
        name, programs, mark: as every format has them.
        patterns: in the order in which they are tried.
        metrics: key of the log → column.
        settings: key of the log → setting.
        called: column → the log's own name, where that is not the column's.
        changes: columns that are printed with every line, and logged where they change.
        nats: that one unit of the printed losses is, as ln 2 where a program prints bits.
        first_epoch: number of the first epoch.
        defaults: settings that the program has where its log shows no other, and which are remarked.
        notes: remarks on every log of the program.
    """

    name: str
    programs: tuple[str, ...]
    mark: re.Pattern[str]
    patterns: tuple[re.Pattern[str], ...]
    metrics: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    called: Mapping[str, str] = field(default_factory=dict)
    changes: frozenset[str] = frozenset()
    nats: float = 1.0
    first_epoch: int = 0
    defaults: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def entries(self, lines: Iterator[str]) -> Iterator[Entry]:
        """Yield the entries of the groups of each line's pattern."""
        step: float | None = None
        last: dict[str, Any] = {}
        for line in lines:
            found = next((match for pattern in self.patterns if (match := pattern.search(line))), None)
            if found is None:
                continue
            groups = {name: text for name, text in found.groupdict().items() if text is not None}
            if "key" in groups:
                pairs = [(each["key"].strip(), each["value"]) for each in found.re.finditer(line)]
                yield from (setting(self.settings[key], text) for key, text in pairs if key in self.settings)
                texts = {self.metrics[key]: (text, key) for key, text in pairs if key in self.metrics}
            else:
                here = self._step(groups)
                step = step if here is None else here
                texts = {name: (text, self.called.get(name, name)) for name, text in groups.items()}
                if here is None:  # numbers of the set-up; losses belong to the step before them
                    kept = (*LOSSES, "source")
                    yield from (setting(name, text) for name, text in groups.items() if name not in kept)
                    texts = {name: texts[name] for name in kept if name in texts}
            source = texts.pop("source", ("",))[0]
            if source and last.setdefault("source", source) != source:
                continue
            for name, (text, called) in texts.items():
                value = number(text)
                if name not in COLUMNS:
                    yield setting(name, text)
                elif value is not None and step is not None and not (name in self.changes and last.get(name) == value):
                    last[name] = value
                    yield Entry(name, value * (self.nats if name in LOSSES else 1.0), step, called)

    def _step(self, groups: dict[str, str]) -> float | None:
        """Return the step that a line names, and take the groups that name it away."""
        if "length" in groups:
            epoch, within, length = (float(groups.pop(name)) for name in ("epoch", "in_epoch", "length"))
            return (epoch - self.first_epoch) * length + within
        if "completed_steps" in groups:  # before this one
            return float(groups["completed_steps"]) + 1
        return number(groups.pop("step")) if "step" in groups else None

    def finish(self, settings: dict[str, Any], columns: dict[str, str]) -> Sequence[str]:  # noqa: ARG002
        """Take settings that the log does not show from the program; compute batch sizes that are in tokens."""
        notes = list(self.notes)
        tokens, samples = settings.pop("tokens_per_step", None), settings.pop("samples_seen", 0)
        completed, last = settings.pop("completed_steps", 0), settings.pop("last_step", None)
        if last is not None:
            settings["num_steps"] = last + 1
        if samples and completed:
            settings.setdefault("batch_size", samples / completed)
        assumed = {name: value for name, value in self.defaults.items() if name not in settings} if tokens else {}
        settings |= assumed
        if "sequence_length" in assumed:
            length = assumed["sequence_length"]
            notes.append(f"sequences of {length:g} tokens, which is {self.name}'s own: the log overrides it nowhere")
        if tokens and settings.get("sequence_length"):
            settings["batch_size"] = tokens / settings["sequence_length"]
        warm_up_in_steps(settings)
        return notes


class RankedLines(Iterator[str]):
    """The lines of a file that end, without the prefix of a rank; owns the file's place.

    Attributes:
        rank: that wrote the last line given, "" where it does not say.
        remarks: of the log, once all lines are read: whether the file ends within one.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = iter(file)
        self.rank = ""
        self.remarks: tuple[str, ...] = ()

    def __next__(self) -> str:
        line = next(self._file)
        if line[-1] not in "\n\r":
            if line.strip():
                self.remarks = ("the last line was cut, and is left out",)
            raise StopIteration
        text = (COLOURS.sub("", line) if "\x1b" in line else line).rstrip()
        prefix = RANK.match(text)
        self.rank = prefix[0].strip() if prefix else ""
        return text[prefix.end() :] if prefix else text


def number(text: str) -> float | None:
    """Return the number that a text is, with commas or a unit (1,024 or 1.05B), nan and inf too; None of other text."""
    text = text.strip().rstrip(",;|")
    if not ALONE.fullmatch(text):
        return None
    if text[-1] in "0123456789" and "," not in text:
        return float(text)
    scale = UNITS.get(text[-1], 1.0) if "n" not in text.lower() else 1.0
    digits = text.rstrip("".join(UNITS)) if scale != 1.0 else text
    return float(digits.replace(",", "")) * scale


def numbers_of_cells(text: str) -> dict[str, float]:
    """Return key → number of `key: number | key: number | …`, without the cells that hold no number."""
    pairs = (cell.rpartition(": ") for cell in text.split("|"))
    return {key.strip(): value for key, _, rest in pairs if (value := number(rest)) is not None}


def setting(name: str, text: str) -> Entry:
    """Return the entry of a printed argument: a number, also as a product (8*64), or else its text."""
    factors = [number(each) for each in text.split("*")]
    known = [each for each in factors if each is not None]
    return Entry(name, prod(known) if len(known) == len(factors) else text.strip())


def warm_up_in_steps(settings: dict[str, Any]) -> None:
    """Replace a warm-up in samples, or in shares of the decay, by its steps."""
    samples, share = settings.pop("warmup_samples", 0), settings.pop("warmup_fraction", 0)
    decay = settings.pop("decay_steps", 0)
    if samples and settings.get("batch_size"):
        settings["warmup"] = samples / settings["batch_size"]
    elif share:
        settings["warmup"] = share * (decay if decay > 0 else settings.get("num_steps", 0))
