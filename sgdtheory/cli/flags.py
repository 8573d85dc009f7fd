"""The flags of a command, from the fields of its dataclass and the sentences below them."""

import ast
import dataclasses
import functools
import inspect
import re
import textwrap
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Union

import tyro
from tyro.constructors import PrimitiveConstructorSpec

from sgdtheory.algorithms import KINDS, NonlinearMethod

OPTIONS = "options"  # flags that are in no group
UNLESS_GIVEN = re.compile(
    r"[;.,] None: (?P<words>[^.]*)\.?$"
)  # the end of a text that says what holds without the flag


@dataclass(frozen=True)
class Flag:
    """One flag, or a positional argument.

    Attributes:
        name: of the field.
        spellings: that are accepted, the one that help shows first; for a positional argument its name in capitals.
        value: what follows it in help; empty for a switch.
        text: what it means.
        default: what holds without the flag, as help shows it; empty if there is nothing to say.
        required: whether it has to be given.
        group: heading in help.
        choices: the words that it takes, if it does not take any others.
    """

    name: str
    spellings: tuple[str, ...]
    value: str
    text: str
    default: str
    required: bool
    group: str
    choices: tuple[str, ...] = ()

    @property
    def positional(self) -> bool:
        """Return whether the argument is recognized by its place on the command line, not by a name."""
        return not self.spellings[0].startswith("-")

    @property
    def usage(self) -> str:
        """Return the flag and its value as they are written on the command line."""
        return f"{self.spellings[0]} {self.value}".strip()


def constructor(kind: type, metavar: str, read: Callable[[str], Any]) -> PrimitiveConstructorSpec:
    """Return how tyro reads a value of one word: by a function, which raises a ValueError for another one."""
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=metavar,
        instance_from_str=lambda words: read(words[0]),
        is_instance=lambda value: isinstance(value, kind),
        str_from_instance=lambda value: [str(value)],
    )


def flags_of(kind: type, defaults: Mapping[str, Any]) -> list[Flag]:
    """Return the flags of a command's dataclass, with `defaults` in the place of its own."""
    hints, texts = typing.get_type_hints(kind, include_extras=True), field_texts(kind)
    groups = {name: group for group, names in getattr(kind, "FLAG_GROUPS", {}).items() for name in names}
    found = []
    for field in dataclasses.fields(kind):
        hint, metadata = _without_metadata(hints[field.name])
        default = defaults.get(field.name, field.default)
        text, shown = texts.get(field.name, ""), _shown(default)
        if without := UNLESS_GIVEN.search(text):
            text = f"{text[: without.start()]}."
            shown = shown or without["words"]
        found.append(
            Flag(
                name=field.name,
                spellings=_spellings(field.name, hint, metadata, default),
                value=_value(hint, metadata),
                text=text,
                default=shown,
                required=default is dataclasses.MISSING,
                group=groups.get(field.name, OPTIONS),
                choices=_choices(hint),
            )
        )
    order = [*getattr(kind, "FLAG_GROUPS", {})]
    return sorted(found, key=lambda flag: order.index(flag.group) if flag.group in order else len(order))


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
    nonlinear = ", ".join(name for name, each in KINDS["method"].items() if issubclass(each, NonlinearMethod))
    return " ".join(text.split()).replace("{nonlinear}", nonlinear)


def _without_metadata(hint: Any) -> tuple[Any, tuple]:
    return (hint.__origin__, hint.__metadata__) if hasattr(hint, "__metadata__") else (hint, ())


def _spellings(name: str, hint: Any, metadata: tuple, default: Any) -> tuple[str, ...]:
    if tyro.conf.Positional in metadata:
        return (name.upper(),)
    word = name.replace("_", "-")
    if hint is not bool:
        return (f"--{word}",)
    return (f"--no-{word}", f"--{word}") if default is True else (f"--{word}", f"--no-{word}")


def _choices(hint: Any) -> tuple[str, ...]:
    """Return the words of a Literal, which may be optional."""
    if typing.get_origin(hint) is Literal:
        return typing.get_args(hint)
    if typing.get_origin(hint) in (Union, types.UnionType):
        return next(filter(None, map(_choices, typing.get_args(hint))), ())
    return ()


def _value(hint: Any, metadata: tuple) -> str:
    hint, more = _without_metadata(hint)
    for each in (*metadata, *more):
        if isinstance(each, PrimitiveConstructorSpec):
            return each.metavar
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is bool or tyro.conf.Positional in metadata:
        return ""
    if origin is Literal:
        return f"{{{', '.join(arguments)}}}"
    if origin in (Union, types.UnionType):
        return _value(next(each for each in arguments if each is not type(None)), ())
    if origin is tuple and arguments[-1] is not Ellipsis:
        return " ".join(_value(each, ()) for each in arguments)
    if origin is tuple:
        return f"{_value(arguments[0], ())} ..."
    return hint.__name__.upper()


def _shown(default: Any) -> str:
    if default is None or default is dataclasses.MISSING or isinstance(default, bool) or default == ():
        return ""
    return " ".join(map(str, default)) if isinstance(default, tuple) else str(default)
