"""Recorded results as Markdown: numbers, intervals and tables as the pages of the findings show them."""

import math
import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from experiments._lib.redraw import FOLDER, Recorded

RAISED = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
SCIENTIFIC = re.compile(r"(?P<sign>-?)(?P<factor>\d+(?:\.\d+)?)e(?P<power>[+-]?\d+)")
BRACED = re.compile(r"\^\{(-?\d+)\}")
MINUS = re.compile(r"(?<![\w.\]])-(?=[\d∞.])")


@cache
def recorded(name: str) -> Recorded:
    """Return the record of an experiment."""
    return Recorded(FOLDER / name)


@cache
def verdicts(name: str) -> list[dict[str, Any]]:
    """Its verdicts, read once."""
    return recorded(name).verdicts


def table(header: Sequence[str], rows: Iterable[Sequence[str]], align: str = "") -> str:
    """A Markdown table; `align` has an "r" for each column of numbers that stands to the right."""
    lines = ["---:" if mark == "r" else "---" for mark in align.ljust(len(header), "l")]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, lines, *rows))


def tidy(text: str) -> str:
    """Text of a verdict as a page has it: minus signs, powers of ten, and stars that are no emphasis."""
    text = SCIENTIFIC.sub(_power_of_ten, text)
    text = BRACED.sub(lambda found: found[1].translate(RAISED), text)
    text = MINUS.sub("−", text)
    text = re.sub(r"(?<= )-(?=\d)", "−", text)
    return text.replace("|", r"\|").replace("*", r"\*")


def _power_of_ten(found: re.Match[str]) -> str:
    factor = f"{float(found['factor']):g}"
    power = "10" + str(int(found["power"])).translate(RAISED)
    return found["sign"] + (power if factor == "1" else f"{factor}·{power}")


def number(value: Any, digits: int = 2, sign: bool = False) -> str:
    """To so many digits behind the point; texts as they are."""
    if isinstance(value, str):
        return tidy(value)
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return f"{value:{'+' if sign else ''}.{digits}f}".replace("-", "−")


def short(value: Any, digits: int = 3) -> str:
    """To so many significant digits, thousands by commas; texts as they are."""
    if value is None:
        return "∞"  # JSON has no infinity
    if isinstance(value, str):
        return tidy(value)
    if value == 0:
        return "0"
    if not math.isfinite(value):
        return number(value)
    size = math.floor(math.log10(abs(value)))
    if size < -3:
        return tidy(f"{value:.{digits - 1}e}")
    rounded = round(value, digits - 1 - size)
    return f"{rounded:,.{max(digits - 1 - size, 0)}f}".replace("-", "−")


def probability(value: float) -> str:
    """A p-value to one digit."""
    return short(value, 1)


def ends(interval: Sequence[Any], digits: int = 2) -> str:
    """low … high, to so many digits behind the point."""
    return " … ".join(number(each, digits) for each in interval)


def estimate(value: float, interval: Sequence[float], digits: int = 2, sign: bool = False) -> str:
    """value (low … high)."""
    return f"{number(value, digits, sign)} ({ends(interval, digits)})"


def bold(verdict: str) -> str:
    """A verdict as it is named on the pages."""
    return f"**{verdict}**"


def cases(statement: str) -> list[tuple[str, str]]:
    """("a, b", what follows) for each problem "a = 2, b = 3: …" of a statement."""
    parts = re.split(r"(?:^|[ ;|])a = ([\d.]+), b = ([\d.]+)(?:: | )", statement)
    return [(f"{a}, {b}", text) for a, b, text in zip(parts[1::3], parts[2::3], parts[3::3], strict=True)]


def found_in(pattern: str, text: str) -> tuple[str, ...]:
    """The groups of a pattern where it is first in a text.

    Raises:
        ValueError: it is not there: the experiment words its statements in another way than the table reads them.
    """
    found = re.search(pattern, text)
    if not found:
        raise ValueError(f"recorded statements must have {pattern!r} in them, got {text!r}; mend the table's pattern")
    return found.groups()


def claims(name: str, about: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Verdicts of an experiment: all, or those whose claim has one of these texts in it."""
    found = [each for each in verdicts(name) if not about or any(text in each["claim"] for text in about)]
    for text in about:
        if not any(text in each["claim"] for each in found):
            raise ValueError(f"no recorded claim of {name} has {text!r} in it; its claims are in verdicts.json")
    return found


def table_of_verdicts(name: str, about: Sequence[str] = ()) -> str:
    """Return a table with a row for each claim: claimed, predicted and measured, and the verdict."""
    rows = [
        (
            tidy(each["claim"]),
            short(each["predicted"]),
            short(each["measured"]),
            " … ".join(short(end) for end in each["interval"] or ()),
            bold(each["verdict"]),
        )
        for each in claims(name, about)
    ]
    return table(("claim", "predicted", "measured", "interval", "verdict"), rows)
