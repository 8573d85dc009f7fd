"""Results that show themselves: a short table in print and in a notebook, and the figure that there is of them."""

import html
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from sgdtheory._common.figures import figure_function
from sgdtheory._common.printable import one_line, printable

MOST_ROWS = 12  # of a table: a longer one is shown by its two ends
WIDTH = 100  # characters of a line of notes


class Sheet(NamedTuple):
    """A table: what it is of, names of columns with their units, cells, and sentences below it."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()


class Shown:
    """A result: derive from it, and say what its table holds. `repr` stays that of the dataclass.

    Attributes:
        figure: the function of `st.plot` that draws it; empty: none.
    """

    figure: ClassVar[str] = ""

    def sheet(self) -> Sheet:
        """Its table: numbers with their intervals, units and conventions, and remarks."""
        raise NotImplementedError

    def __str__(self) -> str:
        """The table as text."""
        return as_text(self.sheet())

    def _repr_html_(self) -> str:
        """The table, as a notebook shows it."""
        return as_html(self.sheet())

    def plot(self, **options: Any) -> Any:
        """Its figure, of matplotlib; `options` are those of the function of `st.plot` that draws it.

        Raises:
            ValueError: there is none of this result.
        """
        if not self.figure:
            raise ValueError(f"plot must be called on a result that has a figure; {type(self).__name__} has none")
        return figure_function(self.figure)(*self._drawn(), **options)

    def _drawn(self) -> tuple[Any, ...]:
        """Return the first arguments of the function that draws the figure."""
        return (self,)


def number(value: Any, digits: int = 4) -> str:
    """A number with so many digits; whole numbers up to 10^9 with all of theirs, `—` for what is not known."""
    value = float(value)
    if np.isnan(value):
        return "—"
    if np.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == round(value) and 1000 <= abs(value) < 1e9:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def between(low: Any, high: Any, digits: int = 4) -> str:
    """An interval."""
    return f"{number(low, digits)} … {number(high, digits)}"


def columns_sheet(title: str, columns: Mapping[str, Any], notes: Iterable[str] = ()) -> Sheet:
    """A table of arrays of numbers or texts of one shape, a column each; of many rows the first and the last."""
    arrays = np.broadcast_arrays(*(np.asarray(each) for each in columns.values()))
    rows = list(zip(*(array.ravel().tolist() for array in arrays), strict=True))
    cells = [tuple(each if isinstance(each, str) else number(each) for each in row) for row in rows]
    if len(cells) > MOST_ROWS:
        half = MOST_ROWS // 2
        cells = [*cells[:half], ("…",) * len(columns), *cells[-half:]]
    return Sheet(title, tuple(columns), cells, tuple(note for note in notes if note))


def as_text(sheet: Sheet) -> str:
    """Title, columns at the width of their longest cell, and notes."""
    grid = [[one_line(cell) for cell in row] for row in (sheet.header, *sheet.rows)]
    widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
    words = [bool(sheet.rows) and not _numeric(row[k] for row in sheet.rows) for k in range(len(widths))]
    lines = [printable(sheet.title)] if sheet.title else []
    for row in grid:
        cells = [cell.ljust(w) if left else cell.rjust(w) for cell, w, left in zip(row, widths, words, strict=True)]
        lines.append("  ".join(["", *cells]).rstrip())
    for note in sheet.notes:
        lines += textwrap.wrap(printable(note), WIDTH, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines)


def as_html(sheet: Sheet) -> str:
    """A table with its title as caption, and the notes below it."""
    right = [not sheet.rows or _numeric(row[k] for row in sheet.rows) for k in range(len(sheet.header))]
    head = "".join(_cell("th", name, side) for name, side in zip(sheet.header, right, strict=True))
    body = [
        "<tr>" + "".join(_cell("td", cell, side) for cell, side in zip(row, right, strict=True)) + "</tr>"
        for row in sheet.rows
    ]
    caption = f"<caption style='text-align: left'>{html.escape(sheet.title)}</caption>" if sheet.title else ""
    notes = "".join(f"<p>{html.escape(note)}</p>" for note in sheet.notes)
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>{notes}"


def _cell(tag: str, text: str, right: bool) -> str:
    return f"<{tag} style='text-align: {'right' if right else 'left'}'>{html.escape(text)}</{tag}>"


def _numeric(cells: Iterable[str]) -> bool:
    """Return whether a column holds numbers, which are aligned to the right."""
    return all(not any(letter.isalpha() for letter in cell.replace("e", "")) for cell in cells)
