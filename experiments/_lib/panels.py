"""A figure with one panel a problem, in rows."""

import math

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sgdtheory.plotting.style import new_figure

MOST_COLUMNS = 3
LEAST_WIDTH = 7.2  # of the figure, inches: its title and legend need it


def panels(number: int, *, width: float = 3.6, height: float = 3.0) -> tuple[Figure, list[Axes]]:
    """A figure with so many panels, at most three in a row; places that are left over are empty."""
    columns = min(number, MOST_COLUMNS if number != 4 else 2)
    width = max(width, LEAST_WIDTH / columns)
    figure, axes = new_figure(math.ceil(number / columns), columns, width=width, height=height)
    for axis in axes.flat[number:]:
        axis.remove()
    return figure, list(axes.flat[:number])


def name_problem(axis: Axes, pair: tuple[float, float]) -> None:
    """Title of a panel: a and b, and the phase."""
    capacity, source = pair
    relation = "<" if source < capacity else "=" if source == capacity else ">"
    phase = "b > 2a + 1" if source > 2 * capacity + 1 else f"b {relation} a"
    axis.set_title(f"$a = {capacity:g}$, $b = {source:g}$: ${phase}$")
