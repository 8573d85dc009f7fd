"""Help of a command: its main flags, or all of them; lines break at blanks alone, at any width."""

import itertools
from collections.abc import Sequence

from sgdtheory.cli.commands import BRIEF, COMMANDS, GROUPS
from sgdtheory.cli.flags import Flag
from sgdtheory.cli.function_command import Command
from sgdtheory.cli.tables import wrapped

WIDEST = 100  # Lines have at most this many columns, because longer ones are hard to read.
COLUMN = 26  # Texts beside flags begin at this column.
NAMES = 20  # Texts beside names of commands begin at this column.
NARROW = 60  # If the terminal has fewer columns, texts begin on a line of their own.


def overview(width: int) -> str:
    """Return the overview that `sgdtheory` alone prints: the commands and an example."""
    width = min(width, WIDEST)
    head = [
        "usage: sgdtheory COMMAND ...",
        "The critical batch size of mini-batch SGD: theory, simulation, fits, networks.",
    ]
    listed = []
    for group, entries in GROUPS.items():
        if group == BRIEF:
            listed.append(f"{group}: {', '.join(entries)}")
            continue
        listed += [f"{group}:", *(_entry(name, each.summary, width, 2, NAMES) for name, each in entries.items())]
    tail = [
        f"Example: sgdtheory {COMMANDS['cbs'].example}",
        "Also sgdtheory COMMAND --help, --help-all; --version; --print-completion SHELL.",
    ]
    lines = [*head, *listed, *tail]  # An entry begins with blanks, and its lines are broken already.
    return "\n".join(part for each in lines for part in ([each] if each[:1] == " " else wrapped(each, width)))


def command_help(name: str, command: Command, flags: Sequence[Flag], width: int, *, every_flag: bool) -> str:
    """Usage, an example, what the command does, and its flags: all of them, or those that most users need first."""
    width = min(width, WIDEST)
    needed = {spelling for others in command.needed_without.values() for spelling in others}
    positional = [flag.usage if flag.required else f"[{flag.usage}]" for flag in flags if flag.positional]
    named = [flag for flag in flags if not flag.positional]
    required = [flag.usage for flag in named if flag.required or flag.spellings[0] in needed]
    lines = wrapped(" ".join(["usage: sgdtheory", name, *positional, *required, "[FLAGS]"]), width, "    ")
    lines += wrapped(f"example: sgdtheory {COMMANDS[name].example}", width, "    ")
    main = COMMANDS[name].main.split()
    shown = [flag for flag in flags if every_flag or not main or flag.name in main or flag.required]
    paragraphs = command.description.split("\n\n")
    for paragraph in paragraphs if len(shown) == len(flags) else paragraphs[:1]:
        lines += ["", *wrapped(" ".join(paragraph.split()), width)]
    if len(shown) == len(flags):
        for group, members in itertools.groupby(flags, key=lambda flag: flag.group):
            lines += ["", f"{group}:", *(_entry(flag.usage, _text(flag), width, 2, COLUMN) for flag in members)]
    else:
        first = sorted(shown, key=lambda flag: (not flag.positional, main.index(flag.name) if flag.name in main else 0))
        lines += ["", *(_entry(flag.usage, _text(flag), width, 2, COLUMN) for flag in first)]
        lines += ["", f"sgdtheory {name} --help-all: {len(flags) - len(shown)} more flags."]
    return "\n".join(lines)


def _text(flag: Flag) -> str:
    if flag.required:
        return f"{flag.text} (required)"
    return f"{flag.text} (default: {flag.shown})" if flag.shown else flag.text


def _entry(head: str, text: str, width: int, indent: int, column: int) -> str:
    """A head with its text beside it, or below it where there is no room."""
    column = column if width >= NARROW else 2 * indent + 2
    blank = " " * column
    heads = [" " * indent + line for line in wrapped(head, width - indent, " " * indent)]
    texts = [blank + line for line in wrapped(text, width - column)]
    if len(heads) == 1 and len(heads[0]) + 2 <= column:
        texts[0] = heads.pop().ljust(column) + texts[0][column:]
    return "\n".join([*heads, *texts])
