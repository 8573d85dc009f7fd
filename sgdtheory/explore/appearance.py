"""Colours of figures on a light and on a dark page, and how numbers are written."""

from typing import NamedTuple

import numpy as np

from sgdtheory.plotting.style import BLUE, ORANGE, SKY, VERMILLION


class Palette(NamedTuple):
    """Colours of the two algorithms (Okabe and Ito's), of text and axes, of grid lines; `page.css` has the same."""

    slots: tuple[str, str]
    ink: str
    grid: str


LIGHT = Palette((BLUE, VERMILLION), "#222222", "#dddddd")
DARK = Palette((SKY, ORANGE), "#e8e8e8", "#444444")
FONT_SIZES = {"normal": "12px", "large": "17px"}
LINE_WIDTHS = {"normal": 2.0, "large": 3.5}


def number(value: float, digits: int = 3) -> str:
    """Return a number for a reader: 0.00123, 228, 1.02 × 10⁶; `static/numbers.js` does the same.

    >>> number(1.0e6), number(228.0), number(1234.5), number(0.0012345), number(1.45e-7)
    ('10⁶', '228', '1230', '0.00123', '1.45 × 10⁻⁷')
    """
    if not np.isfinite(value):
        return "∞" if value > 0 else "–" if np.isnan(value) else "−∞"
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        rounded = value if value == round(value) else float(f"{value:.{digits}g}")
        return f"{rounded:.15g}".replace("-", "−")
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    mantissa = mantissa.rstrip("0").rstrip(".").replace("-", "−")
    power = "10" + str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return power if mantissa == "1" else f"{mantissa} × {power}"
