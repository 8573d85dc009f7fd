"""Parser of the command line; a mistake is answered by one sentence with what was probably meant."""

import itertools
from collections.abc import Mapping, Sequence
from functools import partial

from sgdtheory._common.version import version
from sgdtheory.cli.commands import COMMANDS, MOVED, REFUSED, command_named
from sgdtheory.cli.completion import completion
from sgdtheory.cli.flags import REPEATED, Flag, meant
from sgdtheory.cli.help import command_help, overview
from sgdtheory.cli.output import screen_width

HELP = "-h", "--help"
HELP_ALL = "--help-all"
ALIASES = {  # An error suggests the flag for each of these spellings of other programs.
    "--lr": "--learning-rate",
    "--bs": "--batch-size",
    "--wd": "--weight-decay",
    "--optimizer": "--method",
    "--scheduler": "--schedule",
    "--lr-schedule": "--schedule",
    "--output": "--plot",
}


def parse(arguments: Sequence[str]) -> partial[None]:
    """Return what the arguments ask for, a command, or help or the version; calling it does it and prints.

    Raises:
        ValueError: they are not understood.
    """
    if not arguments or arguments[0] in HELP:
        return partial(print, overview(screen_width()))
    if arguments[0] == "--version":
        return partial(print, version())
    if arguments[0] == "--print-completion":
        return partial(print, completion(*arguments[1:2]))
    name, *words = arguments
    if name not in COMMANDS:
        raise ValueError(f"{name} is not a command{meant(name, COMMANDS)} (see sgdtheory --help)")
    command = command_named(name)
    flags = command.flags_for(words)
    if {*HELP, HELP_ALL} & set(words):
        return partial(print, command_help(name, command, flags, screen_width(), every_flag=HELP_ALL in words))
    written = _written(name, flags, words)
    spelled = {spelling for spelling, _ in written.values()}
    needed = {each for flag, others in command.needed_without.items() if flag not in spelled for each in others}
    required = [flag for flag in flags if flag.required or flag.spellings[0] in needed]
    required.sort(key=lambda flag: (flag.positional, flag.required))  # those of needed_without first
    if missing := [flag.spellings[0] for flag in required if flag.name not in written]:
        raise ValueError(f"{name} needs {', '.join(missing)} too {_see(name)}")
    values = {flag.name: flag.default for flag in flags}
    try:
        values |= {flag.name: flag.value(*written[flag.name]) for flag in flags if flag.name in written}
    except ValueError as error:
        raise ValueError(f"{error} {_see(name)}") from None
    return partial(command.run, values, frozenset(written))


def _written(name: str, flags: Sequence[Flag], words: Sequence[str]) -> dict[str, tuple[str, list[str]]]:
    """Return name of each flag that was written → its spelling and the words after it; those of the last time count."""
    named = {spelling: flag for flag in flags for spelling in flag.spellings if not flag.positional}
    found: dict[str, tuple[str, list[str]]] = {}
    places, rest = [], list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--"):
            places.append(word)
            continue
        flag = _known(name, named, word)
        repeated = flag.marked(REPEATED)
        if "=" in word:
            after = [word.partition("=")[2]]
        else:
            most = 1 if repeated else flag.kind.count
            after = [*itertools.takewhile(lambda each: not each.startswith("--"), rest)][:most]
            del rest[: len(after)]
        if repeated and flag.name in found:
            after = [*found[flag.name][1], *after]
        found[flag.name] = _spelling(word), after
    for flag in flags:
        if flag.positional and places:
            count = len(places) if flag.kind.count is None else 1
            found[flag.name] = flag.name, places[:count]
            del places[:count]
    if places:
        raise ValueError(f"Unrecognized options: {' '.join(places)} {_see(name)}")
    return found


def _known(name: str, named: Mapping[str, Flag], word: str) -> Flag:
    """Return the flag that a word names; a ValueError says that the command has no such flag."""
    spelling = _spelling(word)
    if spelling in named:
        return named[spelling]
    if spelling in MOVED.get(name, {}):
        raise ValueError(f"{spelling} of sgdtheory {name} is a command now: sgdtheory {MOVED[name][spelling]}")
    if spelling in REFUSED.get(name, {}):
        raise ValueError(f"{spelling} is not a flag of sgdtheory {name}: {REFUSED[name][spelling]}")
    if spelling in ALIASES:
        alias = ALIASES[spelling]
        hint = f", did you mean {alias}?" if alias in named else ""
    else:
        hint = meant(spelling, named)
    raise ValueError(f"{spelling} is not a flag of sgdtheory {name}{hint} {_see(name)}")


def _spelling(word: str) -> str:
    """`--batch_size=3` → `--batch-size`."""
    return word.partition("=")[0].replace("_", "-")


def _see(name: str) -> str:
    return f"(see sgdtheory {name} --help)"
