"""A command from a function: flags from its signature and docstring, the call, what it prints, and its figure.

    def cbs(regression: ProblemFlags, num_samples: tuple[float, ...], overhead: float = 0.2) -> Drawn:
        (docstring: what the command does; under Args a sentence for each flag)
        found = critical_batch_size(regression.problem, num_samples=num_samples, overhead=overhead)
        return Drawn(found.sheet(), draw=found.plot)

A parameter whose type is a dataclass stands for the flags of its fields, which commands share; the function gets an
instance of it, and its Args may describe a shared flag in words of their own. GROUP of a dataclass is the heading of
all its flags in help. FLAG_GROUPS has several headings, with the names of flags, also of those that a command adds.

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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sgdtheory._common.sheets import Sheet
from sgdtheory.cli.flags import field_texts, with_methods
from sgdtheory.cli.output import print_json_line, print_sheet, require_figure_suffix, write_figures
from sgdtheory.cli.progress import phases

FIGURE = "Draw a figure to this .png, .pdf or .svg."
JSON = 'Print JSON; null stands for what is absent, "inf" for what is infinite.'
NO_FLAGS = "drawn", "given", "progress"
OWN = "flags"  # heading of a function's own flags that are in no group
ARGUMENT = re.compile(r"^    (\w+): ((?:.|\n     )*)", re.MULTILINE)  # an entry of Args, with its indented lines


@dataclass(frozen=True)
class Output:
    """A sheet that a command prints, and how the command ends.

    Attributes:
        sheet: that is printed.
        end: is called at the end, to leave with another exit status than 0.
    """

    sheet: Sheet
    end: Callable[[], Any] = lambda: None


@dataclass(frozen=True)
class Drawn(Output):
    """An output with a figure, which `draw` makes if one is asked for, or with a dictionary of several by name."""

    draw: Callable[[], Any] = lambda: None


@functools.cache
def command_of(function: Callable[..., Any]) -> type:
    """Return the dataclass of a function's flags, whose `run` calls the function and prints what it returns."""
    hints = typing.get_type_hints(function, include_extras=True)
    returned = hints.pop("return")
    parameters = {name: each for name, each in inspect.signature(function).parameters.items() if name not in NO_FLAGS}
    outputs = typing.get_args(returned) or (returned,)
    shared = {name: hints[name] for name in parameters if dataclasses.is_dataclass(hints[name])}
    description, _, arguments = inspect.cleandoc(function.__doc__ or "").partition("\nArgs:\n")
    texts = {"plot": FIGURE, "json": JSON}
    fields: list[tuple[str, Any, Any]] = []
    needed, groups, presets = {}, {}, lambda words: {}
    for name, parameter in parameters.items():
        if name not in shared:
            fields.append((name, hints[name], _field(parameter.default)))
            continue
        kind = shared[name]
        types = typing.get_type_hints(kind, include_extras=True)
        fields += [(each.name, types[each.name], _field(each.default)) for each in dataclasses.fields(kind)]
        texts |= field_texts(kind)
        needed |= getattr(kind, "NEEDED_WITHOUT", {})
        groups |= getattr(kind, "FLAG_GROUPS", {})
        if hasattr(kind, "GROUP"):
            groups[kind.GROUP] = tuple(each.name for each in dataclasses.fields(kind))
        presets = getattr(kind, "defaults_from", presets)
    texts |= {name: with_methods(text) for name, text in ARGUMENT.findall(arguments)}
    if Drawn in outputs:
        fields.append(("plot", Path | None, dataclasses.field(default=None)))
    if returned is not type(None):
        fields.append(("json", bool, dataclasses.field(default=False)))
    grouped = {name for names in groups.values() for name in names}
    groups = {OWN: tuple(name for name in parameters if name not in grouped and name not in shared)} | groups
    namespace = {
        "__doc__": description.strip(),
        "FLAG_TEXTS": texts,
        "FLAG_GROUPS": groups | {"output": ("plot", "json")},
        "NEEDED_WITHOUT": needed,
        "defaults_from": staticmethod(presets),  # the flags that a preset among the words sets
        "given": frozenset(),  # names of the flags that were written; the parser says so
        "run": lambda command: _run(command, function, shared, [name for name in parameters if name not in shared]),
    }
    return dataclasses.make_dataclass(function.__name__, fields, namespace=namespace, frozen=True, kw_only=True)


def _field(default: Any) -> Any:
    required = default is inspect.Parameter.empty or default is dataclasses.MISSING
    return dataclasses.field() if required else dataclasses.field(default=default)


def _run(command: Any, function: Callable[..., Any], shared: dict[str, type], own: list[str]) -> None:
    """Call the function with the values of the flags, draw its figure and print its sheet."""
    plot = getattr(command, "plot", None)
    require_figure_suffix(plot)
    arguments: dict[str, Any] = {name: getattr(command, name) for name in own}
    for name, kind in shared.items():
        arguments[name] = kind(**{each.name: getattr(command, each.name) for each in dataclasses.fields(kind)})
        if hasattr(kind, "given"):
            object.__setattr__(arguments[name], "given", command.given)
    parameters = inspect.signature(function).parameters
    about = {"drawn": plot is not None, "given": command.given}
    arguments |= {name: value for name, value in about.items() if name in parameters}
    if "progress" in parameters:
        with phases(function.__name__.replace("_", "-")) as show:
            found = function(**arguments, progress=show)
    else:
        found = function(**arguments)
    if isinstance(found, Iterator):
        for each in found:
            _write(each, plot)
            if command.json:
                print_json_line(each.sheet.json())
            else:
                print(each.sheet.title, flush=True)
    elif found is not None:  # else another process prints, or the function itself has printed
        output = found if isinstance(found, Output) else Output(found)
        _write(output, plot)
        print_sheet(output.sheet, command.json)
        output.end()


def _write(output: Output, plot: Path | None) -> None:
    """Write the figures of an output, if they are asked for and it has any."""
    if plot and isinstance(output, Drawn):
        write_figures(output.draw(), plot)
