"""Output of the commands: strict JSON, tables, wrapped sentences, and the path of a figure."""

import contextlib
import math
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

from sgdtheory import plotting, training
from sgdtheory._common.files import finite, json_text
from sgdtheory._common.printable import one_line
from sgdtheory._common.sheets import Sheet, Table
from sgdtheory.cli.tables import print_table, wrapped

PIPE = 160  # Output that goes to no terminal has this many columns, which is wide enough for every table.
NARROWEST = 20
MOST_EXACT = 2.0**53  # A larger float is a whole number for want of digits, and no count.
BOTH_NAMES = re.compile(r"\b[a-z_]+= \((--[a-z-]+)\)")  # The pattern matches `overhead= (--overhead)`.
SUFFIXES = ".png", ".pdf", ".svg"


def print_json(value: Any) -> None:
    """Print `value` as JSON: whole numbers are integers, what is infinite is "inf", and null is what is absent."""
    print(json_text(value, _number, ensure_ascii=True), end="")


def print_json_line(value: Any) -> None:
    """Print `value` as JSON on one line, at once: for a program that reads line by line."""
    print(json_text(value, _number, ensure_ascii=True, indent=None), end="", flush=True)


def _number(value: float) -> float | int | str | None:
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return int(value) if value.is_integer() and abs(value) < MOST_EXACT else finite(value)


def print_sheet(sheet: Sheet, as_json: bool) -> None:
    """Print the tables of a sheet, or all of it as JSON, and its remarks on standard error."""
    notes = [BOTH_NAMES.sub(r"\1", note) for note in sheet.notes]
    if as_json:
        print_json(sheet.json() | {"notes": notes})
    else:
        if sheet.answer:
            print_text(sheet.answer)
        print_tables(*sheet.flat())
        if sheet.copy:
            print(sheet.copy)
    for note in notes:
        print_note(note)


@contextlib.contextmanager
def native_output_on_stderr() -> Iterator[None]:
    """Send what compiled libraries print to standard error: standard output is for results."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def require_figure_suffix(path: Path | None) -> None:
    """Check the path of a figure, if there is one: its format, and that it needs one new folder at most.

    Raises:
        ValueError: the path ends in no format of figures, is a folder, or is far from any folder that exists.
    """
    if path and path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"plot must end in .png, .pdf or .svg, got {path}")
    if path and path.is_dir():
        raise ValueError(f"plot must name a file, got the folder {path}; name a file in it")
    if path and not path.absolute().parent.parent.is_dir():
        must = "plot must lie in a folder that exists, or in a new one in it"
        raise ValueError(f"{must}, got {path}; make {path.parent}")


def write_figures(figures: Any, path: Path) -> None:
    """Write a figure where `--plot` says, in the format that its suffix says, and say so on standard error.

    Several figures come by name; the names of their files end in it, where there is more than one.
    """
    named = figures if isinstance(figures, dict) else {"": figures}
    for name, figure in named.items():
        safe = re.sub(r"[^\w.-]", "_", name)  # a name of the user's data may have a slash in it
        for written in plotting.save(figure, path if len(named) == 1 else path.with_stem(f"{path.stem}_{safe}")):
            print_note(f"wrote {written}")


def print_note(text: str) -> None:
    """Print a line for the reader, on standard error: standard output is for results."""
    print(f"sgdtheory: note: {one_line(text)}", file=sys.stderr)


def announce_models(entry_points: Iterable[str | None]) -> None:
    """Print which Python code models of the user's own are, before they are imported."""
    for entry_point in sorted(set(filter(None, entry_points))):
        place = training.Custom.file_of(entry_point) or "a module that is not found here"
        print_note(f"the model {entry_point} is Python code in {place}")


def screen_width() -> int:
    """Columns of the terminal, or of the variable COLUMNS; 160 where neither says."""
    return max(NARROWEST, shutil.get_terminal_size((PIPE, 24)).columns)


def print_text(text: str) -> None:
    """Print sentences, no wider than the screen."""
    print("\n".join(wrapped(text, screen_width())))


def print_tables(*tables: Table) -> None:
    """Print tables with their titles and legends, no wider than the screen.

    A console would write every line at once. Lines wait in the buffer as printed text does, so that a Ctrl-C before the
    command has ended leaves no answer behind that its exit status denies.
    """
    console = Console(file=sys.stdout, width=screen_width(), highlight=False)
    with console.capture() as captured:
        for number, table in enumerate(tables):
            if number:
                console.print()
            print_table(console, table)
    print(captured.get(), end="")
