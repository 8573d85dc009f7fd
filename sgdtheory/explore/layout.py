"""What the page of the server and the exported one have in common: one panel at a time, keys, formulas."""

import html
import json
from pathlib import Path
from typing import Any

from sgdtheory.explore.appearance import FONT_SIZES
from sgdtheory.explore.formulas import formula
from sgdtheory.explore.registry import SPECS, TITLES

FOLDER = Path(__file__).with_name("static")
LAW = f"{formula('λ_i = i^{−a}')}, {formula('s_i = i^{−b}')}"


def part(name: str) -> str:
    """A file of the pages."""
    return (FOLDER / name).read_text(encoding="utf-8")


def tabs() -> str:
    """A button a panel, for where there is room for one panel only."""
    return "".join(
        f'<button data-panel="{name}" aria-pressed="false">{html.escape(title)}</button>'
        for name, title in TITLES.items()
    )


def formulas() -> dict[str, str]:
    """What each panel draws, as MathML."""
    return {name: formula(SPECS[name].formula) if SPECS[name].formula else "" for name in TITLES}


def heights() -> dict[str, tuple[int, float]]:
    """Of each figure the height in pixels, and its share of that of its panel, with those beneath it."""
    found = {}
    for name, spec in SPECS.items():
        together = [each for each in SPECS.values() if (spec.beneath or name) in (each.name, each.beneath)]
        found[name] = spec.height, spec.height / sum(each.height for each in together)
    return found


def template_variables() -> dict[str, Any]:
    """What the template of the server's page is filled with."""
    return {
        "view_css": part("view.css"),
        "view_js": part("view.js"),
        "tabs": tabs(),
        "formulas": formulas(),
        "law": LAW,
        "heights": json.dumps(heights()),
        "fonts": json.dumps(FONT_SIZES),
    }
