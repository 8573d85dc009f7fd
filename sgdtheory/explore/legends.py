"""Titles and legends of panels as HTML, in which words wrap and have the size of the page."""

import html
from collections.abc import Mapping, Sequence

from sgdtheory.explore.appearance import number
from sgdtheory.explore.formulas import PLACEHOLDER, filled, typeset
from sgdtheory.explore.spec import INK, Glyph

DASHES = {"solid": "", "dashed": "6", "dotted": "2 4", "dotdash": "2 4 6 4"}  # Bokeh draws dashes with these lengths.
MARKS = {
    "star": "M0,-7 L1.7,-2.2 6.7,-2.2 2.6,0.8 4.1,5.7 0,2.7 -4.1,5.7 -2.6,0.8 -6.7,-2.2 -1.7,-2.2 Z",
    "circle": "M-4,0 a4,4 0 1,0 8,0 a4,4 0 1,0 -8,0 Z",
}
COLORS = {0: "var(--first)", 1: "var(--second)", INK: "var(--ink)"}


def symbol(glyph: Glyph, slot: int, room: int = 34) -> str:
    """Return an SVG of a piece of the line, or of the mark, `room` sixteenths of an em wide."""
    color = COLORS[slot]
    if glyph.kind in MARKS:
        drawn = f"<path d='{MARKS[glyph.kind]}' fill='{color}' transform='translate({room / 2:g},8)'/>"
    else:
        dashes = f"stroke-width='{2 * glyph.width}' stroke-dasharray='{DASHES[glyph.dash]}'"
        drawn = f"<path d='M1,8 H{room - 1}' stroke='{color}' {dashes}/>"
    size = f"viewBox='0 0 {room} 16' width='{room / 16:g}em' height='1em'"
    return f"<svg {size} style='vertical-align: -.1em' fill='none' aria-hidden='true'>{drawn}</svg>"


def legend(glyphs: Sequence[Glyph], names: Sequence[str]) -> str:
    """Return the legend of these glyphs, with the names of the algorithms that are shown."""
    listed = []
    for glyph in glyphs:
        if glyph.words is None:
            continue
        entries = enumerate(map(html.escape, names)) if not glyph.words else [(glyph.first, typeset(glyph.words))]
        for slot, words in entries:
            listed.append(f"<span class='entry'>{symbol(glyph, slot)} {words}</span>")
    return " ".join(listed)


def caption(captions: Sequence[str], marks: Mapping[str, float]) -> str:
    """Return the first of several titles whose numbers are all known, as HTML; "" if there is none."""
    for text in captions:
        names = {found[0][1:-1]: found for found in PLACEHOLDER.finditer(text)}
        if all(found[1] in marks for found in names.values()):
            values = {
                name: f"{number(100 * marks[found[1]])}%" if found[2] else number(marks[found[1]])
                for name, found in names.items()
            }
            return filled(typeset(text), values)
    return ""
