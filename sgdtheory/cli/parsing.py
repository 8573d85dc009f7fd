"""Parser of the command line; a mistake is answered by one sentence with what was probably meant."""

import contextlib
import dataclasses
import difflib
import io
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from sgdtheory._common.version import version
from sgdtheory.cli.commands import COMMANDS, MOVED, REFUSED, command_class
from sgdtheory.cli.completion import completion
from sgdtheory.cli.flags import Flag, constructor, flags_of
from sgdtheory.cli.help import command_help, overview
from sgdtheory.cli.output import screen_width

HELP = "-h", "--help"
MOST_DIGITS = 30  # of a whole number: Python would write out all digits of 1e999999999
HELP_ALL = "--help-all"
ALIASES = {  # abbreviations that other programs have → flag
    "--lr": "--learning-rate",
    "--bs": "--batch-size",
    "--wd": "--weight-decay",
    "--optimizer": "--method",
    "--scheduler": "--schedule",
    "--lr-schedule": "--schedule",
    "--output": "--plot",
}
KINDS = {  # of what follows a flag, in words
    "FLOAT": "a number",
    "INT": "a whole number",
    "FLOAT ...": "numbers",
    "INT ...": "whole numbers",
    "FLOAT FLOAT": "two numbers",
    "SHARE": "a share such as 0.2 or 20%",
}


class Words(NamedTuple):
    """Help, or the version."""

    text: str

    def run(self) -> None:
        """Print it."""
        print(self.text)


def parse(arguments: Sequence[str]) -> Any:
    """The command that the arguments ask for, with the values of its flags; its `run` does it and prints.

    Raises:
        ValueError: they are not understood.
    """
    if not arguments or arguments[0] in HELP:
        return Words(overview(screen_width()))
    if arguments[0] == "--version":
        return Words(version())
    if arguments[0] == "--print-completion":
        return Words(completion(*arguments[1:2]))
    name, *rest = arguments
    if name not in COMMANDS:
        raise ValueError(f"{name} is not a command{_meant(name, COMMANDS)} (see sgdtheory --help)")
    kind = command_class(name)
    chosen = kind.defaults_from(rest)
    flags = flags_of(kind, chosen)
    if {*HELP, HELP_ALL} & set(rest):
        return Words(command_help(name, kind, flags, screen_width(), every_flag=HELP_ALL in rest))
    _check_flags(name, flags, rest, kind.NEEDED_WITHOUT)
    default = {"default": kind(**chosen)} if chosen else {}
    usage = io.StringIO()
    try:
        with contextlib.redirect_stderr(usage), _wide():
            command = tyro.cli(kind, prog=f"sgdtheory {name}", args=rest, registry=_counts(), **default)
    except SystemExit:
        sentence = _sentence(usage.getvalue())
        if sentence.startswith("Missing from"):  # what is required by its place; flags were looked at before
            sentence = f"{name} needs {', '.join(_required_places(flags))} too"
        sentence = _mistaken(sentence, flags, rest) or sentence
        raise ValueError(f"{sentence} {_see(name)}") from None
    written = {_spelling(word) for word in rest}  # of a flag that was written its default is a choice too
    given = frozenset(flag.name for flag in flags if written & set(flag.spellings))
    object.__setattr__(command, "given", given)
    return command


def _mistaken(sentence: str, flags: list[Flag], words: Sequence[str]) -> str:
    """Return the kind of value that a flag takes and the one it was given; empty if something else is wrong."""
    if choice := re.match(r"Invalid choice '(?P<word>.*)' for argument '(?P<flag>[^']*)'", sentence):
        choices = next((each.choices for each in flags if choice["flag"] in each.spellings), ())
        word = choice["word"]
        return f"{choice['flag']} must be one of {', '.join(choices)}, got {word}{_meant(word, choices)}"
    if missing := re.match("Missing value for argument '(?P<flag>[^']*)'", sentence):
        sentence = f"Error parsing {missing['flag']}: "
    flag, _, reason = sentence.removeprefix("Error parsing ").partition(": ")
    kind = KINDS.get(next((each.value for each in flags if flag in each.spellings), ""))
    written = [place for place, word in enumerate(words) if _spelling(word) == flag]
    if not sentence.startswith("Error parsing ") or kind is None or not written:
        return ""
    name = flag.removeprefix("--").replace("-", "_")
    if reason.startswith(f"{name} is "):  # The reader of this flag has found out what is wrong.
        return f"{flag}{reason.removeprefix(name)}"
    first, equals, value = words[written[-1]].partition("=")
    after = itertools.takewhile(lambda word: not word.startswith("--"), words[written[-1] + 1 :])
    got = [value] if equals else list(after)
    return f"{flag} must be {kind}, got {' '.join(got) or 'nothing'}"


def in_flags(message: str, command: Any) -> str:
    """Return an error of the library in the words of the command line: `batch_size` is --batch-size there."""
    if not dataclasses.is_dataclass(command) or re.search(r", line \d", message):  # which is about columns of a file
        return message
    for name in sorted((field.name for field in dataclasses.fields(command)), key=len, reverse=True):
        flag = f"--{name.replace('_', '-')}"
        message = re.sub(rf"(?<![\w.-])`?{name}=`? \({flag}\)", flag, message)  # named in both ways
        if "_" in name:  # A name without underscores may be a word of the sentence, but for its first one.
            message = re.sub(rf"(?<![\w.'\"-]){name} = (?=\d)", f"{flag} ", message)
            message = re.sub(rf"(?<![\w.'\"-]){name}(?![\w.'\"(-])", flag, message)
        message = re.sub(rf"^{name}(?= (must|needs?|belongs)\b)", flag, message)
    return message


def _counts() -> ConstructorRegistry:
    """Return a registry by which whole numbers may be written 1e8 or 100_000 too."""
    registry = ConstructorRegistry()

    @registry.primitive_rule
    def rule(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec | None:
        return constructor(int, "INT", _whole) if info.type is int else None

    return registry


def _whole(word: str) -> int:
    try:
        value = Decimal(word)
    except InvalidOperation:
        raise ValueError(f"{word} is no number") from None
    if not value.is_finite() or value.adjusted() > MOST_DIGITS or value != value.to_integral_value():
        raise ValueError(f"{word} is no whole number")
    return int(value)


def _check_flags(
    name: str, flags: list[Flag], given: Sequence[str], needed_without: Mapping[str, Sequence[str]]
) -> None:
    """Every flag given exists, and what is required is given, or needed without a flag that is not."""
    spellings = {spelling: flag.name for flag in flags for spelling in flag.spellings if not flag.positional}
    found = [_spelling(word) for word in given if word.startswith("--")]
    for word in found:
        if word in MOVED.get(name, {}):
            raise ValueError(f"{word} of sgdtheory {name} is a command now: sgdtheory {MOVED[name][word]}")
        if word not in spellings and word in REFUSED.get(name, {}):
            raise ValueError(f"{word} is not a flag of sgdtheory {name}: {REFUSED[name][word]}")
        if word not in spellings:
            raise ValueError(f"{word} is not a flag of sgdtheory {name}{_meant(word, spellings)} {_see(name)}")
    required = [flag.spellings[0] for flag in flags if flag.required and not flag.positional]
    needed = [each for flag, others in needed_without.items() if flag not in found for each in others]
    missing = [spelling for spelling in (*needed, *required) if spelling not in found]
    missing += [] if given else _required_places(flags)
    if missing:
        raise ValueError(f"{name} needs {', '.join(missing)} too {_see(name)}")


def _required_places(flags: list[Flag]) -> list[str]:
    """Return the required arguments that have no flag."""
    return [flag.spellings[0] for flag in flags if flag.required and flag.positional]


def _spelling(word: str) -> str:
    """`--batch_size=3` → `--batch-size`."""
    return word.partition("=")[0].replace("_", "-")


def _meant(word: str, spellings: Iterable[str]) -> str:
    if word in ALIASES:
        nearest = [ALIASES[word]] if ALIASES[word] in spellings else []
    else:
        nearest = difflib.get_close_matches(word, spellings, 1)
    return f", did you mean {nearest[0]}?" if nearest else ""


def _see(name: str) -> str:
    return f"(see sgdtheory {name} --help)"


def _sentence(frame: str) -> str:
    """The message of a frame: title, message and details, with lines drawn between them."""
    _, *lines = (line.strip("╭╮╰╯│─- ") for line in frame.splitlines())
    message = " ".join(itertools.takewhile(bool, itertools.dropwhile(lambda line: not line, lines))).rstrip(".")
    return message[:1].upper() + message[1:]


@contextlib.contextmanager
def _wide() -> Iterator[None]:
    """So wide a screen that no message is folded."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "10000"
    try:
        yield
    finally:
        os.environ.pop("COLUMNS")
        if before is not None:
            os.environ["COLUMNS"] = before
