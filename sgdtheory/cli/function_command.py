"""A command from a function: flags from its signature and docstring, the call, what it prints, and its figure.

    def cbs(
        regression: ProblemFlags,
        num_samples: tuple[float, ...],
        **options: Annotated[Any, Keywords(critical_batch_size, "overhead risk_factor")],
    ) -> Drawn:
        (docstring: what the command does; under Args a sentence for each flag)
        found = critical_batch_size(regression.problem, num_samples=num_samples, **options)
        return Drawn(found.sheet(), draw=found.plot)

Keywords that a command passes on to a function of the library have their types, defaults and sentences from there. The
function must be quick to import, because help needs it too. A parameter whose type is a dataclass stands for the flags
of its fields, which commands share; the function gets an instance of it. The command's Args may describe any of these
flags in words of its own. GROUP of a dataclass is the heading of all its flags in help. FLAG_GROUPS has several
headings, with the names of flags, also of those that a command adds.

A command that returns something has --json, and one that returns a Drawn has --plot. Three parameters are no flags:
`drawn`, whether a figure was asked for, `given`, the names of the flags that were written, and `progress`, a function
that shows what is being done. A command that follows a file returns an iterator of outputs, each of which is printed on
a line when it comes.
"""

import dataclasses
import functools
import inspect
import re
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from sgdtheory._common.sheets import Sheet
from sgdtheory.cli.flags import OPTIONS, Flag, field_texts, in_flags, with_methods
from sgdtheory.cli.output import print_json_line, print_sheet, require_figure_suffix, write_figures
from sgdtheory.cli.progress import phases

FIGURE = "Draw a figure to this .png, .pdf or .svg."
JSON = 'Print JSON; null stands for what is absent, "inf" for what is infinite.'
LEVEL = "Level of the confidence intervals."
NO_FLAGS = "drawn", "given", "progress"
# The function's own flags without a group have the first heading, --plot and --json the second.
OWN, LAST = "flags", "output"
ARGUMENTS = re.compile(r"\n(?:Args|Attributes):\n")
ARGUMENT = re.compile(r"^    (\w+): ((?:.|\n     )*)", re.MULTILINE)  # The pattern matches an entry of Args.
Progress = Callable[[str], None]  # shows what is being done


class Keywords(NamedTuple):
    """Keywords of a function of the library that are flags; `names` has blanks between them."""

    function: Callable[..., Any]
    names: str


@dataclass(frozen=True)
class Output:
    """A sheet that a command prints, and how the command ends."""

    sheet: Sheet
    end: Callable[[], Any] = lambda: None  # is called at the end, to leave with another exit status than 0


@dataclass(frozen=True)
class Drawn(Output):
    """An output with a figure, which `draw` makes if one is asked for, or with a dictionary of several by name."""

    draw: Callable[[], Any] = lambda: None


@dataclass(frozen=True)
class Command:
    """A command."""

    function: Callable[..., Any]  # that does it
    description: str  # what it does
    flags: Sequence[Flag]  # in the order of help
    own: Sequence[str]  # names of the flags that are its parameters or keywords
    shared: Mapping[str, type]  # parameters that are dataclasses of flags
    needed_without: Mapping[str, Sequence[str]]  # a flag's spelling → those of flags that are needed unless it is given

    def flags_for(self, words: Sequence[str]) -> Sequence[Flag]:
        """Return the flags, with the defaults of a preset that is named among the words of the command line."""
        for kind in self.shared.values():
            if hasattr(kind, "defaults_from"):
                chosen = typing.cast(Any, kind).defaults_from(words)
                return [dataclasses.replace(each, default=chosen.get(each.name, each.default)) for each in self.flags]
        return self.flags

    def run(self, values: Mapping[str, Any], given: frozenset[str]) -> None:
        """Call the function with the values of all flags, draw its figure and print its sheet; errors name flags."""
        try:
            self._run(values, given)
        except ValueError as error:
            raise ValueError(in_flags(str(error), values)) from None

    def _run(self, values: Mapping[str, Any], given: frozenset[str]) -> None:
        plot = values.get("plot")
        require_figure_suffix(plot)
        parameters = inspect.signature(self.function).parameters
        about = {"drawn": plot is not None, "given": given}
        arguments = {name: value for name, value in about.items() if name in parameters}
        arguments |= {name: values[name] for name in self.own}
        for name, kind in self.shared.items():
            arguments[name] = kind(**{each.name: values[each.name] for each in dataclasses.fields(kind)})
            if hasattr(kind, "given"):
                object.__setattr__(arguments[name], "given", given)
            if values.get("preview") and hasattr(kind, "preview_of"):
                print_sheet(arguments[name].preview_of(values), values["json"])
                return
        if "progress" in parameters:
            with phases(self.function.__name__.replace("_", "-")) as show:
                found = self.function(**arguments, progress=show)
        else:
            found = self.function(**arguments)
        if isinstance(found, Iterator):
            for each in found:
                _write(each, plot)
                if values["json"]:
                    print_json_line(each.sheet.json())
                else:
                    print(each.sheet.title, flush=True)
        elif found is not None:  # else another process prints, or the function itself has printed
            output = found if isinstance(found, Output) else Output(found)
            _write(output, plot)
            print_sheet(output.sheet, values["json"])
            output.end()


@functools.cache
def command_of(function: Callable[..., Any]) -> Command:
    """Return the command of a function."""
    hints = typing.get_type_hints(function, include_extras=True)
    returned = hints.pop("return")
    description, told = _documentation(function)
    texts, groups, needed, shared = {"plot": FIGURE, "json": JSON, "level": LEVEL}, {}, {}, {}
    fields: list[tuple[str, Any, Any]] = []
    own: list[str] = []
    for name, parameter in inspect.signature(function).parameters.items():
        kind = hints[name]
        if dataclasses.is_dataclass(kind):
            shared[name] = kind
            types = typing.get_type_hints(kind, include_extras=True)
            fields += [(each.name, types[each.name], each.default) for each in dataclasses.fields(kind)]
            texts |= field_texts(typing.cast(type, kind))
            needed |= getattr(kind, "NEEDED_WITHOUT", {})
            groups |= getattr(kind, "FLAG_GROUPS", {})
            if heading := getattr(kind, "GROUP", ""):
                groups[heading] = tuple(each.name for each in dataclasses.fields(kind))
        elif name not in NO_FLAGS:
            home = kind.__metadata__[0] if parameter.kind is parameter.VAR_KEYWORD else Keywords(function, name)
            taken, sentences = inspect.signature(home.function).parameters, _documentation(home.function)[1]
            for each in home.names.split():
                hint = kind if home.function is function else taken[each].annotation
                fields.append((each, hint, taken[each].default))
                texts[each] = sentences.get(each, texts.get(each, ""))
                own.append(each)
    texts |= told
    if Drawn in (typing.get_args(returned) or (returned,)):
        fields.append(("plot", Path | None, None))
    if returned is not type(None):
        fields.append(("json", bool, False))
    headings = dict.fromkeys(own, OWN) | {name: group for group, names in groups.items() for name in names}
    headings |= {"plot": LAST, "json": LAST}
    order = [OWN, *groups, LAST, OPTIONS]
    flags = [
        Flag(name, hint, default, texts.get(name, ""), headings.get(name, OPTIONS)) for name, hint, default in fields
    ]
    flags.sort(key=lambda flag: order.index(flag.group))
    return Command(function, description, flags, own, shared, needed)


def _documentation(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """Return what a function does, and the sentence on each argument."""
    description, *rest = ARGUMENTS.split(inspect.cleandoc(function.__doc__ or ""), maxsplit=1)
    texts = {name: with_methods(text) for name, text in ARGUMENT.findall("".join(rest))}
    return description.strip(), {name: text[:1].upper() + text[1:] for name, text in texts.items()}


def _write(output: Output, plot: Path | None) -> None:
    """Write the figures of an output, if they are asked for and it has any."""
    if plot and isinstance(output, Drawn):
        write_figures(output.draw(), plot)
