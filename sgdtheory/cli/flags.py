"""The flags of a command: how they are written, what help says of them, and what the words after them mean."""

import ast
import dataclasses
import difflib
import functools
import inspect
import re
import textwrap
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Union

from sgdtheory.algorithms import KINDS as PARTS
from sgdtheory.algorithms import NonlinearMethod

OPTIONS = "options"  # Help lists flags that are in no group under this heading.
MOST_DIGITS = 30  # A whole number may have this decimal exponent: Python would write out all digits of 1e999999999.
UNLESS_GIVEN = re.compile(r"[;.,] None: (?P<words>[^.]*)\.?$")  # The end of a text may say what holds without the flag.
POSITIONAL, REPEATED = "positional", "repeated"
File = Annotated[Path, POSITIONAL]  # an argument that is recognized by its place, not by a name
Files = Annotated[tuple[Path, ...], POSITIONAL]
Repeated = Annotated[tuple[str, ...], REPEATED]  # a flag that is written again for each of its values


class UnreadableError(ValueError):
    """A word that is no value of a flag; the message continues the name of the flag."""


class Kind(NamedTuple):
    """Meaning of the words after a flag."""

    metavar: str  # what stands for the words in help; empty for a switch
    called: str  # what the value is, in an error
    read: Callable[[str], Any] = str  # returns the value of one word, or raises a ValueError
    count: int | None = 1  # number of words; None: any number
    choices: tuple[str, ...] = ()  # the words that are understood; empty: no list of words


@dataclass(frozen=True)
class Flag:
    """One flag, or a positional argument."""

    name: str  # of the parameter or field
    hint: Any  # its type
    default: Any  # its value without the flag; MISSING or `Parameter.empty` if it has to be given
    meaning: str  # what it means, and at the end what holds without it if the default does not say so
    group: str  # heading in help

    @functools.cached_property
    def kind(self) -> Kind:
        """Return what the words after the flag mean."""
        return kind_of(self.hint)

    def marked(self, mark: str) -> bool:
        """Return whether the type has one of the marks POSITIONAL and REPEATED."""
        return mark in getattr(self.hint, "__metadata__", ())

    @property
    def positional(self) -> bool:
        """Return whether the argument is recognized by its place on the command line, not by a name."""
        return self.marked(POSITIONAL)

    @property
    def required(self) -> bool:
        """Return whether the flag has to be given."""
        return self.default in (dataclasses.MISSING, inspect.Parameter.empty)

    @property
    def spellings(self) -> tuple[str, ...]:
        """Return the accepted spellings, the one that help shows first; for a positional argument its name."""
        word = self.name.replace("_", "-")
        if self.positional:
            return (self.name.upper(),)
        if self.hint is not bool:
            return (f"--{word}",)
        return (f"--no-{word}", f"--{word}") if self.default is True else (f"--{word}", f"--no-{word}")

    @property
    def usage(self) -> str:
        """Return the flag and its value as they are written on the command line."""
        return self.spellings[0] if self.positional else f"{self.spellings[0]} {self.kind.metavar}".strip()

    @property
    def text(self) -> str:
        """Return what it means."""
        return UNLESS_GIVEN.sub(".", self.meaning)

    @property
    def shown(self) -> str:
        """Return what holds without the flag, as help shows it; empty if there is nothing to say."""
        default, without = self.default, UNLESS_GIVEN.search(self.meaning)
        if default is None or self.required or isinstance(default, bool) or default == ():
            return without["words"] if without else ""
        return " ".join(map(str, default)) if isinstance(default, tuple) else str(default)

    def value(self, spelling: str, words: Sequence[str]) -> Any:
        """Return the value that words after the flag have; a ValueError says that they have none."""
        kind = self.kind
        try:
            values = tuple(map(kind.read, words))
        except UnreadableError as error:
            raise ValueError(f"{spelling} {error}") from None
        except ValueError:
            values = None
        without = self.marked(REPEATED) and not words
        if values is None or without or kind.count not in (None, len(values)):
            raise ValueError(f"{spelling} must be {kind.called}, got {' '.join(words) or 'nothing'}")
        if kind.count == 0:
            return spelling.removeprefix("--") == self.name.replace("_", "-")
        return values[0] if kind.count == 1 else values


def kind_of(hint: Any) -> Kind:
    """Return what words mean that stand for a value of a type."""
    if hint in READERS:
        return READERS[hint]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        own = next((each for each in arguments if isinstance(each, Kind)), None)
        return own or kind_of(arguments[0])
    if origin in (Union, types.UnionType):
        one = kind_of(next(each for each in arguments if each is not type(None)))
        return one._replace(read=functools.partial(_or_none, one.read)) if type(None) in arguments else one
    if origin is Literal:
        listed = ", ".join(arguments)
        return Kind(f"{{{listed}}}", f"one of {listed}", functools.partial(_choice, arguments), 1, arguments)
    one = kind_of(arguments[0])
    several = f"{one.called.partition(' ')[2]}s"
    if arguments[-1] is Ellipsis or origin is Sequence:
        return one._replace(metavar=f"{one.metavar} ...", called=several, count=None)
    return one._replace(metavar=f"{one.metavar} {one.metavar}", called=f"two {several}", count=2)


def _or_none(read: Callable[[str], Any], word: str) -> Any:
    """Return what a word means; None stands for the default, so that a script may always write the flag."""
    return None if word == "None" else read(word)


def _choice(choices: Sequence[str], word: str) -> str:
    if word not in choices:
        raise UnreadableError(f"must be one of {', '.join(choices)}, got {word}{meant(word, choices)}")
    return word


def _whole(word: str) -> int:
    """Return a whole number, which may be written 1e8 or 100_000 too."""
    try:
        value = Decimal(word)
    except InvalidOperation:
        raise ValueError(f"{word} is no number") from None
    if not value.is_finite() or value.adjusted() > MOST_DIGITS or value != value.to_integral_value():
        raise ValueError(f"{word} is no whole number")
    return int(value)


READERS = {
    bool: Kind("", "left without a value", count=0),
    float: Kind("FLOAT", "a number", float),
    int: Kind("INT", "a whole number", _whole),
    str: Kind("STR", "a text"),
    Path: Kind("PATH", "a path", Path),
}


def meant(word: str, known: Iterable[str]) -> str:
    """Return the question whether a similar word was meant, as the end of a sentence."""
    nearest = difflib.get_close_matches(word, known, 1)
    return f", did you mean {nearest[0]}?" if nearest else ""


def in_flags(message: str, names: Iterable[str]) -> str:
    """Return an error of the library in the words of the command line: `batch_size` is --batch-size there."""
    if re.search(r", line \d", message):  # which is about columns of a file
        return message
    for name in sorted(names, key=len, reverse=True):
        flag = f"--{name.replace('_', '-')}"
        message = re.sub(rf"(?<![\w.-])`?{name}=`? \({flag}\)", flag, message)  # named in both ways
        if "_" in name:  # A name without underscores may be a word of the sentence, but for its first one.
            message = re.sub(rf"(?<![\w.'\"-]){name} = (?=\d)", f"{flag} ", message)
            message = re.sub(rf"(?<![\w.'\"-]){name}(?![\w.'\"(-])", flag, message)
        message = re.sub(rf"^{name}(?= (must|needs?|belongs)\b)", flag, message)
    return message


@functools.cache  # it reads the source of the class
def field_texts(kind: type) -> dict[str, str]:
    """Field → the sentence below it, of the class and of those that it extends; or as its FLAG_TEXTS has it."""
    found = {}
    for each in reversed(kind.__mro__):
        if "FLAG_TEXTS" in vars(each):
            found |= vars(each)["FLAG_TEXTS"]
        elif dataclasses.is_dataclass(each):
            (definition,) = ast.parse(textwrap.dedent(inspect.getsource(each))).body
            assert isinstance(definition, ast.ClassDef)
            for field, below in zip(definition.body, definition.body[1:], strict=False):
                if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr):
                    found[ast.unparse(field.target)] = with_methods(ast.literal_eval(below.value))
    return found


def with_methods(text: str) -> str:
    """Return a flag's text on one line, the names of the methods that are not linear in the place of `{nonlinear}`."""
    nonlinear = ", ".join(name for name, each in PARTS["method"].items() if issubclass(each, NonlinearMethod))
    return " ".join(text.split()).replace("{nonlinear}", nonlinear)
