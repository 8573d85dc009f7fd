"""Tables at any width: whole, or as many records beside each other as fit, or one line a number; no number is cut."""

import sys
import textwrap
from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sgdtheory._common import sheets
from sgdtheory._common.printable import one_line
from sgdtheory.cli.plain import plain

Grid = Sequence[Sequence[str]]  # rows of cells


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """The text, as standard output will have it, in lines that break at blanks alone; a longer word keeps whole."""
    text = plain(text, sys.stdout)
    options = {"break_long_words": False, "break_on_hyphens": False, "subsequent_indent": indent}
    return [line for part in text.splitlines() for line in textwrap.wrap(part, width, **options) or [""]]


def print_table(console: Console, table: sheets.Table) -> None:
    """Print a table with its title and legend, no wider than the console where its words are not."""
    _print_words(console, wrapped(one_line(table.title), console.width), "italic")
    header, rows = table.grid()
    grid = [[plain(cell, sys.stdout) for cell in row] for row in ([header, *rows] if header else rows)]
    if grid:
        _print_cells(console, grid, header=bool(header))
    _print_words(console, wrapped(table.legend, console.width), "dim italic")


def _print_words(console: Console, lines: Sequence[str], style: str = "") -> None:
    for line in lines:
        console.print(line, style=style, markup=False, soft_wrap=True)


def _print_cells(console: Console, grid: Grid, *, header: bool) -> None:
    """Records are the table's rows, or its columns where it has no header: then its first column names the fields.

    The table is printed whole if it fits, with its records beside each other if that fits, folded at blanks if it can
    be, and otherwise as many records beside each other as fit.
    """
    names, *records = grid if header else _transposed(grid)
    if header:
        whole = _drawn(grid, sheets.sides(grid[1:], len(names)), header)
        if _fits(console, whole) or not _fits(console, _block(names, records, header)) and _fold(console, whole):
            console.print(whole)
            return
    while records:
        count = len(records)
        while count > 1 and not _fits(console, _block(names, records[:count], header)):
            count -= 1
        block = _block(names, records[:count], header)
        if _fits(console, block) or _fold(console, block):
            console.print(block)
        else:
            for name, value in zip(names, records[0], strict=True):  # One field a line, folded at blanks.
                text = f"{name}: {' '.join(value.split())}".removeprefix(": ")
                _print_words(console, wrapped(text, console.width, "  "))
            console.print()
        records = records[count:]


def _transposed(grid: Grid) -> Grid:
    return [list(column) for column in zip(*grid, strict=True)]


def _block(names: Sequence[str], records: Grid, header: bool) -> Table:
    """Records side by side, each a column, under the first of their fields."""
    return _drawn(_transposed([names, *records]), [False, *[True] * len(records)], header)


def _drawn(grid: Grid, right: Sequence[bool], header: bool) -> Table:
    table = Table(show_header=header)
    first, *rest = grid if header else [[""] * len(right), *grid]
    for name, side in zip(first, right, strict=True):
        table.add_column(Text(name), justify="right" if side else "left", no_wrap=True)
    for row in rest:
        table.add_row(*map(Text, row))  # no markup in the names of others
    return table


def _fits(console: Console, table: Table) -> bool:
    return console.measure(table, options=console.options.update(max_width=10**6)).maximum <= console.width


def _fold(console: Console, table: Table) -> bool:
    """Narrow the widest columns, whose cells then fold at blanks, until the table fits; whether it can."""
    cells = [[str(cell) for cell in (column.header, *column.cells)] for column in table.columns]
    lines = [[line for cell in column for line in cell.splitlines()] for column in cells]
    widths = [max(map(cell_len, each), default=0) for each in lines]
    least = [max((cell_len(word) for line in each for word in line.split()), default=0) for each in lines]
    room = console.width - 3 * len(widths) - 1  # a frame and two blanks to each column
    if sum(least) > room:
        return False
    while sum(widths) > room:
        widest = max((place for place in range(len(widths)) if widths[place] > least[place]), key=widths.__getitem__)
        widths[widest] -= 1
    for column, width in zip(table.columns, widths, strict=True):
        column.width, column.no_wrap = width, False
    return True
