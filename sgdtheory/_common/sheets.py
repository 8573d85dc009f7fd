"""Sheets: what a result shows, and three ways to show it: as text, in a notebook, and as JSON.

A result lists its quantities once, each with a key for programs and a heading for readers. The table in print, the
table of a command, the table in a notebook and the JSON are made from this list.
"""

import html
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from sgdtheory._common.printable import one_line, printable

MOST_ROWS = 12  # A longer table is printed by its two ends: 12 rows and a title fit on a terminal of 24 lines.
WIDTH = 100  # A line of remarks has at most this many characters.
ABSENT = "—"


class Quantity(NamedTuple):
    """A quantity of a result, or of each record of a table.

    Attributes:
        name: its key in JSON; empty if the sheet's settings hold it for programs in another form.
        label: its heading for readers, with the unit.
        value: a number, text, truth value or None where it is absent; or (m,) of them, one for each record. A hidden
            list may hold anything that JSON can.
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
        return not isinstance(self.value, list | tuple) and np.ndim(self.value) == 0

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
    """

    quantities: Sequence[Quantity]
    name: str = ""
    title: str = ""
    interval: str = "95%"
    legend: str = ""
    hidden: Sequence[str] = ()

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
        named = [each for each in self.quantities if each.name]
        for each in named:
            columns[each.name] = each.value
            if each.interval is not None:
                columns[f"{each.name}_interval"] = each.interval
        if not self.name or self.upright:
            return {self.name: columns} if self.name else columns
        length = max(len(each.value) for each in self.quantities if not each.scalar)
        found: list[dict[str, Any]] = [{} for _ in range(length)]
        for each in named:
            for place, record in enumerate(found):
                record[each.name] = each.value if each.scalar else each.value[place]
                if each.interval is not None:
                    record[f"{each.name}_interval"] = each.interval if each.scalar else each.interval[place]
        return {self.name: found}


@dataclass(frozen=True)
class Sheet:
    """The tables and remarks that a result shows.

    Attributes:
        title: what the result is.
        tables: of its quantities.
        remarks: sentences for readers, the most important first; empty ones are left out.
        settings: what was asked, and what tables do not hold, for programs; readers see it in the title.
        groups: sheets of the parts of this result, which JSON has as a list, and whose remarks follow those above.
        answer: sentences above the tables, for readers: what was asked first.
        copy: lines below the tables, for readers to copy: none of them is broken.
    """

    title: str
    tables: Sequence[Table]
    remarks: Sequence[str] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    groups: Sequence["Sheet"] = ()
    answer: str = ""
    copy: str = ""

    @property
    def notes(self) -> list[str]:
        """Return the remarks of the sheet and its groups, each once."""
        return kept([*self.remarks, *(remark for group in self.groups for remark in group.notes)])

    def json(self) -> dict[str, Any]:
        """Return everything for a program."""
        return self._found() | {"notes": self.notes}

    def _found(self) -> dict[str, Any]:
        """Return all but the notes."""
        found = dict(self.settings)
        for table in self.tables:
            found |= table.json()
        return found | ({"groups": [group._found() for group in self.groups]} if self.groups else {})

    def flat(self) -> list[Table]:
        """Return the tables of the sheet and its groups; the title of a sheet is in that of its first table."""
        own = [
            replace(table, title="; ".join(filter(None, [title, table.title])))
            for title, table in zip([self.title, *[""] * len(self.tables)], self.tables, strict=False)
        ]
        return [*own, *(table for group in self.groups for table in group.flat())]


def kept(remarks: Iterable[str]) -> list[str]:
    """Return the remarks that say something, each once."""
    return list(dict.fromkeys(filter(None, remarks)))


def shared(sentences: Iterable[tuple[str, str]], plural: str) -> list[str]:
    """Return sentences about named things, each once: after the name of the one it is about, or the number of them.

    >>> shared([("a", "cut at step 5"), ("b", "no warm-up"), ("c", "no warm-up")], "runs")
    ['a: cut at step 5', '2 runs: no warm-up']
    """
    owners: dict[str, list[str]] = {}
    for name, sentence in sentences:
        if sentence:
            owners.setdefault(sentence, []).append(name)
    prefixes = {text: names[0] if len(names) == 1 else f"{len(names)} {plural}" for text, names in owners.items()}
    return [f"{name}: {text}" if name else text for text, name in prefixes.items()]


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
    lines = _lines(sheet)
    for remark in sheet.notes:
        lines += _wrapped(remark)
    return "\n".join(lines)


def _lines(sheet: Sheet) -> list[str]:
    """Return the lines of a sheet without its remarks."""
    lines = [*([one_line(sheet.title)] if sheet.title else []), *printable(sheet.answer).splitlines()]
    for table in sheet.tables:
        if table.title:
            lines.append(one_line(table.title))
        header, rows = table.grid()
        grid = [[one_line(text) for text in row] for row in ([header] if header else []) + _both_ends(rows)]
        widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
        right = sides(rows, len(widths))
        for row in grid:
            cells = [text.rjust(w) if side else text.ljust(w) for text, w, side in zip(row, widths, right, strict=True)]
            lines.append("  ".join(["", *cells]).rstrip())
        lines += _wrapped(table.legend)
    lines += printable(sheet.copy).splitlines()
    for group in sheet.groups:
        lines += [*([""] if lines else []), *_lines(group)]
    return lines


def _wrapped(sentences: str) -> list[str]:
    wrapper = textwrap.TextWrapper(WIDTH, break_long_words=False, break_on_hyphens=False)
    return [line for each in sentences.splitlines() for line in wrapper.wrap(printable(each))]


def as_html(sheet: Sheet) -> str:
    """Tables with their titles as captions, and the remarks below them."""
    return _body(sheet) + "".join(map(_paragraph, sheet.notes))


def _body(sheet: Sheet) -> str:
    """Return the HTML of a sheet without its remarks."""
    parts = [_paragraph(line) for line in sheet.answer.splitlines()]
    for table, title in zip(sheet.tables, [sheet.title, *[""] * len(sheet.tables)], strict=False):
        header, rows = table.grid()
        right = sides(rows, len(header))
        lines = ["".join(_cell("td", *each) for each in zip(row, right, strict=True)) for row in _both_ends(rows)]
        captions = "<br>".join(html.escape(each) for each in (title, table.title) if each)
        caption = f"<caption style='text-align: left'>{captions}</caption>" if captions else ""
        head = "".join(_cell("th", *each) for each in zip(header, right, strict=True)) if header else ""
        body = "".join(f"<tr>{line}</tr>" for line in lines)
        legend = _paragraph(table.legend) if table.legend else ""
        parts.append(f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{legend}")
    parts += [f"<pre>{html.escape(sheet.copy)}</pre>"] if sheet.copy else []
    return "".join(parts + [_body(group) for group in sheet.groups])


def _paragraph(text: str) -> str:
    return f"<p>{html.escape(text)}</p>"


def _both_ends(rows: list[list[str]]) -> list[list[str]]:
    """Return the rows, or the first and the last of many with dots between them."""
    if len(rows) <= MOST_ROWS:
        return rows
    half = MOST_ROWS // 2
    return [*rows[:half], ["…"] * len(rows[0]), *rows[-half:]]


def sides(rows: Sequence[Sequence[str]], width: int) -> list[bool]:
    """Return whether each column holds numbers, which are aligned to the right."""
    if not rows:
        return [False] * width
    return [
        not any(letter.isalpha() for text in column for letter in text.replace("e", ""))
        for column in zip(*rows, strict=True)
    ]


def _cell(tag: str, text: str, right: bool) -> str:
    return f"<{tag} style='text-align: {'right' if right else 'left'}'>{html.escape(text)}</{tag}>"
