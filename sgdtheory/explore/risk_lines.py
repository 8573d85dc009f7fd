"""Risks as lines, of the first algorithm with bias and variance, for panels that draw them against something."""

from typing import Any

import numpy as np

from sgdtheory.explore.legends import Entry
from sgdtheory.explore.spec import Columns
from sgdtheory.explore.state import SLOTS

LINES = "risk", "bias", "variance"
PARTS = Entry("its bias", 0, "dashed", width=0.6), Entry("its variance", 0, "dotdash", width=0.6)


def draw_risks(drawing: Any) -> None:
    """The lines, empty."""
    for slot in range(len(SLOTS)):
        drawing.line("risk", slot, hover=True)
    for entry, name in zip(PARTS, LINES[1:], strict=True):
        drawing.line(name, 0, entry.dash, entry.width)


def put_risks(drawing: Any, slot: int, x: np.ndarray, columns: Columns) -> None:
    """Draw risks at x; a part that is not known is not drawn."""
    drawing.put("risk", slot, x, columns["risk"])
    for part in LINES[1:] if slot == 0 else ():
        drawing.put(part, 0, x, columns.get(part, np.full(len(x), np.nan)))
