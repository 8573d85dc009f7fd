"""Help that breaks lines at blanks alone, at any width."""

import inspect
import itertools

from sgdtheory.cli.commands import COMMANDS
from sgdtheory.cli.flags import Flag
from sgdtheory.cli.tables import wrapped

WIDEST = 100  # longer lines are hard to read
COLUMN = 26  # at which texts begin
NARROW = 60  # columns below which they begin on a line of their own
EXAMPLE = "sgdtheory cbs --capacity 2 --source 3 --num-samples 1e4 1e6 1e8"


def overview(width: int) -> str:
    """What `sgdtheory` alone prints: the commands and an example, on one screen."""
    width = min(width, WIDEST)
    lines = [
        "usage: sgdtheory COMMAND ...",
        "",
        "Exact theory, bounds, simulation and training: the critical batch size of mini-batch SGD.",
        "",
        *(_entry(name, summary, width, 2, 14) for name, (_, summary) in COMMANDS.items()),
        "",
        "Example, the critical batch size of a power law at three data sizes:",
        f"  {EXAMPLE}",
        "",
        "sgdtheory COMMAND --help: its flags. sgdtheory --version: the version.",
    ]
    return "\n".join(part for line in lines for part in ([line] if "\n" in line else _kept(line, width)))


def command_help(name: str, kind: type, flags: list[Flag], width: int) -> str:
    """Usage, description and flags of one command."""
    width = min(width, WIDEST)
    required = [flag.usage for flag in flags if flag.required]
    positional = [f"[{flag.usage}]" for flag in flags if flag.positional]
    lines = wrapped(" ".join(["usage: sgdtheory", name, *positional, *required, "[FLAGS]"]), width, "    ")
    for paragraph in inspect.cleandoc(kind.__doc__ or "").split("\n\n"):
        lines += ["", *wrapped(" ".join(paragraph.split()), width)]
    for group, members in itertools.groupby(flags, key=lambda flag: flag.group):
        lines += ["", f"{group}:", *(_entry(flag.usage, _text(flag), width, 2, COLUMN) for flag in members)]
    return "\n".join(lines)


def _text(flag: Flag) -> str:
    if flag.required:
        return f"{flag.text} (required)"
    return f"{flag.text} (default: {flag.default})" if flag.default else flag.text


def _entry(head: str, text: str, width: int, indent: int, column: int) -> str:
    """A head with its text beside it, or below it where there is no room."""
    column = column if width >= NARROW else 2 * indent + 2
    blank = " " * column
    heads = [" " * indent + line for line in wrapped(head, width - indent, " " * indent)]
    texts = [blank + line for line in wrapped(text, width - column)]
    if len(heads) == 1 and len(heads[0]) + 2 <= column:
        texts[0] = heads.pop().ljust(column) + texts[0][column:]
    return "\n".join([*heads, *texts])


def _kept(line: str, width: int) -> list[str]:
    """The line in lines, with its indentation."""
    blank = line[: len(line) - len(line.lstrip())]
    return [blank + part for part in wrapped(line.strip(), width - len(blank))] or [""]
