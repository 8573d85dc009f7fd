"""Sheets: what a result shows, and three ways to show it: as text, in a notebook, and as JSON.

A result lists its quantities once, each with a key for programs and a heading for readers. The table in print, the
table of a command, the table in a notebook and the JSON are made from this list.
"""

import html
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from sgdtheory._common.printable import one_line, printable

MOST_ROWS = 12  # A longer table is printed by its two ends: 12 rows and a title fit on a terminal of 24 lines.
WIDTH = 100  # characters of a line of remarks
ABSENT = "—"


class Quantity(NamedTuple):
    """A quantity of a result, or of each record of a table.

    Attributes:
        name: its key in JSON.
        label: its heading for readers, with the unit.
        value: a number, text, truth value or None where it is absent; or (m,) of them, one for each record.
        interval: ends (low, high) of its interval, or (m, 2) of them; None if it has none.
        digits: significant digits that readers see; JSON has all of them.
    """

    name: str
    label: str
    value: Any
    interval: Any = None
    digits: int = 4

    @property
    def scalar(self) -> bool:
        """Return whether the result has this quantity once, not one for each record."""
        return np.ndim(self.value) == 0

    def values(self) -> list[Any]:
        """Return the values of all records."""
        return np.ravel(np.asarray(self.value, dtype=object)).tolist()

    def intervals(self) -> list[Any]:
        """Return the ends of the intervals of all records."""
        return np.reshape(np.asarray(self.interval, dtype=object), (-1, 2)).tolist()


@dataclass(frozen=True)
class Table:
    """Quantities side by side: one record of each, which is shown as a line for each quantity, or m records.

    Attributes:
        quantities: of the records.
        name: key of the records in JSON; empty if the quantities themselves are keys.
        title: of this table, where the sheet has several.
        interval: heading of the intervals: their level.
        legend: what the headings mean, where they do not say it.
        hidden: keys of quantities that JSON has and readers do not see.
        in_json: whether JSON has this table; false where the sheet's settings hold the same numbers in another form.
    """

    quantities: Sequence[Quantity]
    name: str = ""
    title: str = ""
    interval: str = "95%"
    legend: str = ""
    hidden: Sequence[str] = ()
    in_json: bool = True

    @property
    def upright(self) -> bool:
        """Return whether there is a single record, which has a line for each quantity."""
        return all(each.scalar for each in self.quantities)

    def grid(self) -> tuple[list[str], list[list[str]]]:
        """Return the header and the rows of cells that readers see; the header of a single record may be empty."""
        shown = [each for each in self.quantities if each.name not in self.hidden]
        known = any(each.interval is not None for each in shown)
        if self.upright:
            rows = [[each.label, cell(each.value, each.digits), *([_ends(each)[0]] if known else [])] for each in shown]
            return (["", "value", self.interval] if known else []), rows
        header, columns = [], []
        length = max(len(each.values()) for each in shown)
        for each in shown:
            cells = [cell(value, each.digits) for value in each.values()]
            header.append(each.label)
            columns.append(cells * length if each.scalar else cells)
            if each.interval is not None:
                header.append(self.interval)
                columns.append(_ends(each))
        return header, [list(row) for row in zip(*columns, strict=True)]

    def json(self) -> dict[str, Any]:
        """Return the quantities for a program: with a name the records under it, else each under its own key."""
        columns: dict[str, Any] = {}
        for each in self.quantities:
            columns[each.name] = each.value
            if each.interval is not None:
                columns[f"{each.name}_interval"] = each.interval
        if not self.name or self.upright:
            return {self.name: columns} if self.name else columns
        length = max(len(each.values()) for each in self.quantities)
        lists = [list(value) if np.ndim(value) else [value] * length for value in columns.values()]
        return {self.name: [dict(zip(columns, record, strict=True)) for record in zip(*lists, strict=True)]}


@dataclass(frozen=True)
class Sheet:
    """The tables and remarks that a result shows.

    Attributes:
        title: what the result is.
        tables: of its quantities.
        remarks: sentences for readers, the most important first; empty ones are left out.
        settings: what was asked, and numbers that no table has, for programs.
    """

    title: str
    tables: Sequence[Table]
    remarks: Sequence[str] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)

    def json(self) -> dict[str, Any]:
        """Return everything for a program."""
        found = dict(self.settings)
        for table in self.tables:
            found |= table.json() if table.in_json else {}
        return found | {"notes": kept(self.remarks)}


def kept(remarks: Iterable[str]) -> list[str]:
    """Return the remarks that say something, each once."""
    return list(dict.fromkeys(filter(None, remarks)))


def number(value: Any, digits: int = 4) -> str:
    """A number with so many digits; whole numbers up to 10^9 with all of theirs, `—` for what is not known."""
    value = float(value)
    if np.isnan(value):
        return ABSENT
    if np.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == round(value) and 1000 <= abs(value) < 1e9:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def between(low: Any, high: Any, digits: int = 4) -> str:
    """An interval."""
    return f"{number(low, digits)} … {number(high, digits)}"


def cell(value: Any, digits: int = 4) -> str:
    """A value as a table has it."""
    if value is None:
        return ABSENT
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    return value if isinstance(value, str) else number(value, digits)


def _ends(quantity: Quantity) -> list[str]:
    """Return the cells of the intervals of a quantity; empty ones where there is none, a dash where it is not known."""
    if quantity.interval is None:
        return [""]
    ends = [(np.nan if low is None else low, np.nan if high is None else high) for low, high in quantity.intervals()]
    return [ABSENT if np.isnan(low) and np.isnan(high) else between(low, high, quantity.digits) for low, high in ends]


def as_text(sheet: Sheet) -> str:
    """Title, tables whose columns are as wide as their longest cell, and remarks."""
    lines = [printable(sheet.title)] if sheet.title else []
    for table in sheet.tables:
        if table.title:
            lines.append(printable(table.title))
        header, rows = table.grid()
        grid = [[one_line(text) for text in row] for row in ([header] if header else []) + _both_ends(rows)]
        widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
        right = sides(rows, len(widths))
        for row in grid:
            cells = [text.rjust(w) if side else text.ljust(w) for text, w, side in zip(row, widths, right, strict=True)]
            lines.append("  ".join(["", *cells]).rstrip())
        lines += _wrapped(table.legend)
    for remark in kept(sheet.remarks):
        lines += _wrapped(remark)
    return "\n".join(lines)


def _wrapped(sentences: str) -> list[str]:
    wrapper = textwrap.TextWrapper(WIDTH, break_long_words=False, break_on_hyphens=False)
    return [line for each in sentences.splitlines() for line in wrapper.wrap(printable(each))]


def as_html(sheet: Sheet) -> str:
    """Tables with their titles as captions, and the remarks below them."""
    parts = []
    for table, title in zip(sheet.tables, [sheet.title, *[""] * len(sheet.tables)], strict=False):
        header, rows = table.grid()
        right = sides(rows, len(header))
        lines = ["".join(_cell("td", *each) for each in zip(row, right, strict=True)) for row in _both_ends(rows)]
        captions = "<br>".join(html.escape(each) for each in (title, table.title) if each)
        caption = f"<caption style='text-align: left'>{captions}</caption>" if captions else ""
        head = "".join(_cell("th", *each) for each in zip(header, right, strict=True)) if header else ""
        body = "".join(f"<tr>{line}</tr>" for line in lines)
        legend = f"<p>{html.escape(table.legend)}</p>" if table.legend else ""
        parts.append(f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{legend}")
    return "".join(parts) + "".join(f"<p>{html.escape(remark)}</p>" for remark in kept(sheet.remarks))


def _both_ends(rows: list[list[str]]) -> list[list[str]]:
    """Return the rows, or the first and the last of many with dots between them."""
    if len(rows) <= MOST_ROWS:
        return rows
    half = MOST_ROWS // 2
    return [*rows[:half], ["…"] * len(rows[0]), *rows[-half:]]


def sides(rows: list[list[str]], width: int) -> list[bool]:
    """Return whether each column holds numbers, which are aligned to the right."""
    if not rows:
        return [False] * width
    return [
        not any(letter.isalpha() for text in column for letter in text.replace("e", ""))
        for column in zip(*rows, strict=True)
    ]


def _cell(tag: str, text: str, right: bool) -> str:
    return f"<{tag} style='text-align: {'right' if right else 'left'}'>{html.escape(text)}</{tag}>"
