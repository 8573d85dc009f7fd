"""Titles and legends of panels, in HTML: there words wrap and have the page's size, on a canvas they are cut."""

import html
import re
from collections.abc import Sequence
from typing import NamedTuple

from sgdtheory.explore.appearance import Palette

DASHES = {"solid": "", "dashed": "6", "dotted": "2 4", "dotdash": "2 4 6 4"}  # as Bokeh draws them
STAR = "M0,-7 L1.7,-2.2 6.7,-2.2 2.6,0.8 4.1,5.7 0,2.7 -4.1,5.7 -2.6,0.8 -6.7,-2.2 -1.7,-2.2 Z"
POWER = re.compile(r"\^(?:(−?[\d.]+)|\(([^)]*)\))")  # of a number or of what is in brackets
CIRCLE = "M-4,0 a4,4 0 1,0 8,0 a4,4 0 1,0 -8,0 Z"
MARKS = {"star": STAR, "circle": CIRCLE, "": ""}
PALE = "opacity: .45; font-weight: normal"  # of what belongs to the position of a slider before


class Entry(NamedTuple):
    """A line of a legend.

    Attributes:
        words: what it says; the algorithm's name is said for "".
        slot: of the algorithm whose colour it has; −1: ink.
        dash: of its line; "": it has none.
        mark: "star", "circle" or "".
        width: of its line, over the usual.
        of: the name of what it is about, if it is named only while that is drawn.
    """

    words: str
    slot: int
    dash: str = "solid"
    mark: str = ""
    width: float = 1.0
    of: str = ""


def symbol(color: str, dash: str, mark: str, width: float, room: int = 34) -> str:
    """A piece of the line, and the mark on it; `room` sixteenths of an em wide."""
    how = f"stroke='{color}' stroke-width='{width}' stroke-dasharray='{DASHES[dash]}'" if dash else ""
    line = f"<path d='M1,8 H{room - 1}' {how}/>" if dash else ""
    point = f"<path d='{MARKS[mark]}' fill='{color}' transform='translate({room / 2:g},8)'/>" if mark else ""
    size = f"viewBox='0 0 {room} 16' width='{room / 16:g}em' height='1em'"
    return f"<svg {size} style='vertical-align: -.1em' fill='none' aria-hidden='true'>{line}{point}</svg>"


def legend(entries: Sequence[Entry], names: Sequence[str], palette: Palette) -> str:
    """The entries of the algorithms that are there, each with its symbol."""
    told = []
    for entry in entries:
        if entry.slot < len(names):
            color = palette.ink if entry.slot < 0 else palette.slots[entry.slot]
            words = html.escape(entry.words or names[entry.slot])
            drawn = symbol(color, entry.dash, entry.mark, 2 * entry.width)
            told.append(f"<span style='display: inline-block; margin-right: 1.2em'>{drawn} {words}</span>")
    return f"<div style='line-height: 1.35'>{' '.join(told)}</div>"


def title(words: str, pale: bool) -> str:
    """A title that keeps its room while there is none."""
    return f"<div style='font-weight: bold; {PALE if pale else ''}'>{raised(words) or '&nbsp;'}</div>"


def raised(words: str) -> str:
    """HTML of a sentence, its powers raised.

    >>> raised("B* ∝ D^0.35 for a < b")
    "B* ∝ D<sup style='line-height: 0'>0.35</sup> for a &lt; b"
    """
    return POWER.sub(lambda found: f"<sup style='line-height: 0'>{found[1] or found[2]}</sup>", html.escape(words))
