"""Common parts of the server's page and the exported one: style, headings of panels, and the fonts of formulas."""

import base64
import functools
import html
import json
from pathlib import Path
from typing import Any

from sgdtheory.explore.appearance import FONT_SIZES
from sgdtheory.explore.formulas import formula, typeset
from sgdtheory.explore.registry import SPECS, TITLES

FOLDER = Path(__file__).with_name("static")
LAW = f"{formula('λ_i = i^{−a}')}, {formula('s_i = i^{−b}')}"


def part(name: str) -> str:
    """Return a file of the pages."""
    return (FOLDER / name).read_text(encoding="utf-8")


@functools.cache
def style() -> str:
    """Return the style of both pages, with the font of formulas inside, so that nothing else has to be fetched."""
    font = base64.b64encode((FOLDER / "math.woff2").read_bytes()).decode()
    return part("texts.css") + part("page.css").replace("math.woff2", f"data:font/woff2;base64,{font}")


def tabs() -> str:
    """Return a button for each panel, for screens with room for one panel."""
    return "".join(
        f'<button data-panel="{name}" aria-pressed="false" title="{html.escape(title)}">'
        f"{typeset(SPECS[name].short)}</button>"
        for name, title in TITLES.items()
    )


def heading(name: str) -> str:
    """Return the title and the formula of a panel."""
    drawn = formula(SPECS[name].formula) if SPECS[name].formula else ""
    return f"<h2><span>{html.escape(TITLES[name])}</span> {drawn}</h2>"


def heights() -> dict[str, tuple[int, float]]:
    """Return for each figure its height in pixels, and its share of the height of its panel."""
    found = {}
    for name, spec in SPECS.items():
        together = [each for each in SPECS.values() if (spec.beneath or name) in (each.name, each.beneath)]
        found[name] = spec.height, spec.height / sum(each.height for each in together)
    return found


def template_variables() -> dict[str, Any]:
    """Return the variables of the template of the server's page."""
    return {
        "style": style(),
        "numbers_js": part("numbers.js"),
        "view_js": part("view.js"),
        "tabs": tabs(),
        "headings": {name: heading(name) for name in TITLES},
        "law": LAW,
        "heights": json.dumps(heights()),
        "fonts": json.dumps(FONT_SIZES),
    }
