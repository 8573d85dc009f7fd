"""Tables at any width: whole, or as many records beside each other as fit, or one line a number; no number is cut."""

import sys
import textwrap
from collections.abc import Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sgdtheory._common.printable import one_line
from sgdtheory.cli.plain import plain

Grid = list[list[Text]]  # rows of cells


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """The text, as standard output will have it, in lines that break at blanks alone; a longer word keeps whole."""
    text = plain(text, sys.stdout)
    options = {"break_long_words": False, "break_on_hyphens": False, "subsequent_indent": indent}
    return [line for part in text.splitlines() for line in textwrap.wrap(part, width, **options) or [""]]


def print_table(console: Console, table: Table) -> None:
    """Print a table with its title and caption, no wider than the console where its words are not."""
    title = None if table.title is None else Text(one_line(_plain(table.title).plain))
    _print_words(console, title, "italic")
    _print_cells(console, table)
    _print_words(console, table.caption, "dim italic")


def _print_words(console: Console, text: Any, style: str) -> None:
    for line in wrapped(_plain(text).plain, console.width) if text is not None else []:
        console.print(line, style=style, markup=False, soft_wrap=True)


def _print_cells(console: Console, table: Table) -> None:
    """Records are the table's rows, or its columns where it has no header: then its first column names the fields."""
    if not table.columns:
        return
    grid, header = _grid(table), table.show_header
    names, *records = grid if header else _transposed(grid)
    whole = _drawn(grid, [column.justify for column in table.columns], header=header)
    turned = _block(names, records, header)
    for way in (whole, turned) if header else (turned,):
        if _fits(console, way):
            console.print(way)
            return
    if header and _fold(console, whole):
        console.print(whole)
        return
    while records:
        records = _print_some(console, names, records, header)


def _print_some(console: Console, names: list[Text], records: Grid, header: bool) -> Grid:
    """Print as many records beside each other as fit; the others."""
    count = len(records)
    while count > 1 and not _fits(console, _block(names, records[:count], header)):
        count -= 1
    block = _block(names, records[:count], header)
    if _fits(console, block) or _fold(console, block):
        console.print(block)
    else:
        _print_lines(console, names, records[0])
    return records[count:]


def _plain(cell: Any) -> Text:
    """A cell's text with its styles, spelt as standard output will have it."""
    text = cell if isinstance(cell, Text) else Text.from_markup(str(cell))
    spelled = plain(text.plain, sys.stdout)
    return text if spelled == text.plain else Text(spelled, style=text.spans[0].style if text.spans else "")


def _grid(table: Table) -> Grid:
    columns = [[_plain(cell) for cell in column.cells] for column in table.columns]
    headers = [_plain(column.header) for column in table.columns]
    rows = _transposed([[header, *cells] for header, cells in zip(headers, columns, strict=True)])
    return rows if table.show_header else rows[1:]


def _transposed(grid: Grid) -> Grid:
    return [list(column) for column in zip(*grid, strict=True)]


def _block(names: list[Text], records: Grid, header: bool) -> Table:
    """Records side by side, each a column, under the first of their fields."""
    grid = _transposed([names, *records])
    return _drawn(grid, ["left", *["right"] * len(records)], header=header)


def _drawn(grid: Grid, justify: Sequence[Any], *, header: bool) -> Table:
    table = Table(show_header=header)
    first, *rest = grid if header else [[Text("")] * len(justify), *grid]
    for name, side in zip(first, justify, strict=True):
        table.add_column(name, justify=side, no_wrap=True)
    for row in rest:
        table.add_row(*row)
    return table


def _fits(console: Console, table: Table) -> bool:
    return console.measure(table, options=console.options.update(max_width=10**6)).maximum <= console.width


def _fold(console: Console, table: Table) -> bool:
    """Narrow the widest columns, whose cells then fold at blanks, until the table fits; whether it can."""
    cells = [[_plain(cell).plain for cell in (column.header, *column.cells)] for column in table.columns]
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


def _print_lines(console: Console, names: list[Text], record: list[Text]) -> None:
    """One field a line, folded at blanks."""
    for name, value in zip(names, record, strict=True):
        text = f"{name.plain}: {' '.join(value.plain.split())}".removeprefix(": ")
        for line in wrapped(text, console.width, "  "):
            console.print(line, style=value.style, markup=False, soft_wrap=True)
    console.print()
