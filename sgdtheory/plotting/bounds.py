"""A figure of published bounds: each relative to the exact risk that it bounds."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sgdtheory.bounds import BoundsAtSetting
from sgdtheory.plotting.style import BLUE, GRAY, ORANGE, SMALL, VERMILLION, figure_of, legend_below, panel, plain_label

SIDES = {  # Each side of the risk has a colour, a marker that points to the risk, and words.
    "upper": (BLUE, "<", "upper bound"),
    "lower": (VERMILLION, ">", "lower bound"),
    "both": (ORANGE, "D", "up to constants that are not stated"),
}
REASON = 60  # The plot shows this many characters of a condition that fails.


def published_bounds(found: BoundsAtSetting, *, title: str | None = None, axes: Axes | None = None) -> Figure:
    """Draw every published bound at a setting, relative to the exact risk; where one does not apply, why.

    >>> import sgdtheory as st
    >>> problem = st.PowerLaw(2.0, 3.0, dim=50)
    >>> found = st.bounds.at_setting(problem, batch_size=1, learning_rate=0.1, num_samples=1e5)
    >>> figure = st.plot.published_bounds(found)

    Args:
        found: result of `st.bounds.at_setting`.
        title: of the panel; None: that of the result.
        axes: the panel to draw in; None: that of a new figure.

    Returns:
        The figure.
    """
    axes = panel(axes, width=7.2, height=0.9 + 0.28 * len(found.bounds))
    relative = 1 / found.ratio
    drawn = found.applies & np.isfinite(relative) & (relative > 0)
    low, high = min([0.1, *(relative[drawn] / 3)]), max([10.0, *(relative[drawn] * 3)])
    axes.axvline(1, color=GRAY, lw=1, ls="--")
    for place, (bound, value) in enumerate(zip(found.bounds, found.values, strict=True)):
        color, marker, _ = SIDES[bound.side]
        if drawn[place]:
            axes.plot([1, relative[place]], [place, place], color=color, lw=1)
            face = color if bound.standing == "verified" else "white"
            axes.plot(relative[place], place, marker=marker, color=color, mfc=face, ls="", ms=6)
        else:
            why = f"needs {value.reasons[0]}" if value.reasons else "the exact risk is infinite"
            style: dict[str, Any] = {"va": "center", "color": GRAY, "fontsize": SMALL}
            axes.text(0.01, place, plain_label(why, REASON), transform=axes.get_yaxis_transform(), **style)
    axes.set(
        xscale="log",
        xlim=(low, high),
        ylim=(len(found.bounds) - 0.5, -0.5),
        title=found.title if title is None else title,
    )
    axes.set_yticks(range(len(found.bounds)), [plain_label(bound.name) for bound in found.bounds])
    axes.set_xlabel("bound / exact risk")
    for color, marker, words in SIDES.values():
        axes.plot([], [], color=color, marker=marker, ls="", label=words)
    axes.plot([], [], color=GRAY, marker="o", mfc="white", ls="", label="hollow: constants not verified or not stated")
    figure = figure_of(axes)
    legend_below(figure, axes, columns=2)
    return figure
