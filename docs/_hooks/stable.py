"""Which names are stable: those of `sgdtheory` itself, and what the README and the guides use of its wings."""

import functools
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
OTHER_NAMES = {"plot": "plotting"}  # a wing's second name → its folder
ATTRIBUTE = re.compile(r"\bst\.(\w+)\.(\w+)")
IMPORT = re.compile(r"^from sgdtheory\.(\w+) import ([\w, ]+)$", re.MULTILINE)


@functools.cache
def stable_names() -> dict[str, frozenset[str]]:
    """Wing → its names that the README or a guide uses in code."""
    found: dict[str, set[str]] = {}
    for page in (
        ROOT / "README.md",
        *sorted((ROOT / "docs").glob("*.md")),
        *sorted((ROOT / "docs/tutorials").glob("*.md")),
    ):
        text = page.read_text(encoding="utf-8")
        uses = [(wing, [name]) for wing, name in ATTRIBUTE.findall(text)]
        uses += [(wing, re.split(r",\s*", names)) for wing, names in IMPORT.findall(text)]
        for wing, names in uses:
            found.setdefault(OTHER_NAMES.get(wing, wing), set()).update(names)
    return {wing: frozenset(names) for wing, names in found.items()}
