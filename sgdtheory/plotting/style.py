"""Style of every figure: colours, markers, logarithmic ticks, legends off the data, and atomic files."""

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.legend import Legend
from matplotlib.ticker import Formatter, LogLocator, MaxNLocator, NullFormatter
from matplotlib.transforms import Bbox

from sgdtheory._common.files import write_atomically

STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.grid": True,
    "axes.formatter.useoffset": False,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "savefig.bbox": "tight",
    "savefig.dpi": 160,
    "figure.constrained_layout.use": True,
    "pdf.fonttype": 42,
}
# This is Okabe and Ito's palette, whose colours are distinct in any of the common kinds of colour vision.
BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"
BLACK, GRAY = "#000000", "#6E6E6E"
CATEGORIES = BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK
MARKERS = "o", "s", "^", "D", "v", "P", "X"
LINES = "-", "--", ":", "-."
SMALL = 7.5  # Legends and notes inside the axes have this font size in points.
TICKS = 9  # An axis has room for at most this many ticks.
NOTEBOOK = 120  # Figures in notebooks have this many dots per inch.
SUFFIXES = ".png", ".pdf", ".svg"
STAR: dict[str, Any] = {"marker": "*", "ls": "", "ms": 11, "mec": BLACK, "mew": 0.6, "zorder": 3}  # The star marks B*.
BOX: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "alpha": 0.9, "pad": 1.5}  # Text on lines has a box.


class Drawing(Figure):
    """A figure that a notebook shows by itself: it knows those of pyplot alone, once that has been imported."""

    def _repr_png_(self) -> bytes:
        """The picture of a notebook."""
        picture = io.BytesIO()
        self.savefig(picture, format="png", dpi=NOTEBOOK, bbox_inches="tight")
        return picture.getvalue()


class Panel(Axes):
    """Axes whose title has the style's size whenever it is set: Matplotlib's own forgets it after construction."""

    name = "sgdtheory panel"

    def set_title(self, label: str, *args: Any, **settings: Any) -> Any:
        """Set the title as Matplotlib's Axes does, in the panel's font size."""
        return super().set_title(label, *args, **{"fontsize": 9.5, **settings})


def new_figure(
    rows: int = 1, columns: int = 1, *, width: float = 4.2, height: float = 3.3
) -> tuple[Figure, np.ndarray]:
    """A figure in the project's style with a (rows, columns) array of axes; nothing global is touched.

    >>> import sgdtheory as st
    >>> models = st.example_measurements()
    >>> laws = [st.fit_steps_law(model.batch_sizes, model.steps) for model in models]
    >>> figure, axes = st.plot.new_figure(1, 2)
    >>> _ = st.plot.steps_laws(models, laws, axes=axes[0, 0])
    >>> _ = st.plot.critical_batch_sizes([model.size for model in models], laws, axes=axes[0, 1])

    Args:
        rows, columns: of panels.
        width, height: of one panel, in inches.
    """
    with matplotlib.rc_context(STYLE):
        figure = Drawing(figsize=(width * columns, height * rows))
        FigureCanvasAgg(figure)
        axes = figure.subplots(rows, columns, squeeze=False, subplot_kw={"axes_class": Panel})
    return figure, axes


def panel(axes: Axes | None, *, width: float = 4.8, height: float = 3.9) -> Axes:
    """The panel to draw in: the one that is given, or that of a new figure."""
    return new_figure(width=width, height=height)[1][0, 0] if axes is None else axes


def figure_of(axes: Axes) -> Figure:
    """The figure that a panel lies in."""
    figure: Any = axes.figure
    return figure if isinstance(figure, Figure) else figure.figure


def save(figure: Figure, path: str | Path, *, formats: Sequence[str] = ("png", "pdf")) -> list[Path]:
    """Write the figure atomically, for the screen (PNG, SVG) and for print (PDF, its fonts embedded as text).

    >>> import tempfile
    >>> import sgdtheory as st
    >>> figure, axes = st.plot.new_figure()
    >>> [path.name for path in st.plot.save(figure, tempfile.mkdtemp() + "/steps")]
    ['steps.png', 'steps.pdf']

    Args:
        figure: what to write.
        path: the file, if it ends in .png, .pdf or .svg, in capitals or not; else a name to which each of `formats` is
            added as a suffix (a dot in the name stays: "alpha_1.3").
        formats: of a path without such a suffix.

    Returns:
        The files written.
    """
    path = Path(path)
    if path.suffix.lower() in SUFFIXES:
        files = {path: path.suffix[1:].lower()}
    else:
        files = {path.with_name(f"{path.name}.{suffix}"): suffix for suffix in formats}
    written = []
    with matplotlib.rc_context(STYLE):
        for file, suffix in files.items():
            buffer = io.BytesIO()
            figure.savefig(buffer, format=suffix)
            written.append(write_atomically(file, buffer.getvalue()))
    return written


# ------------------------------------------------------------------ colours and words


def colors(number: int) -> np.ndarray:
    """(number, 4) colours of one sequence, dark to light, for lines in an order: sizes, widths, data."""
    return matplotlib.colormaps["inferno"](np.linspace(0.1, 0.82, number))


def categories(number: int) -> list[dict[str, Any]]:
    """Colour, marker and line of each of `number` lines that have no order; all differ, whatever eyes see them."""
    kinds, markers, lines = len(CATEGORIES), len(MARKERS), len(LINES)
    return [
        {
            "color": CATEGORIES[k % kinds],
            "marker": MARKERS[(k + k // kinds) % markers],
            "ls": LINES[(k // kinds) % lines],
        }
        for k in range(number)
    ]


def plain_label(text: str, most: int = 28) -> str:
    """A name from a file as a label: no mathematics in it, at most `most` characters, never hidden from the legend."""
    text = text if len(text) <= most else f"{text[: most - 1]}…"
    text = text.replace("$", r"\$")
    return f"\u200b{text}" if text.startswith("_") else text


def few(number: int, most: int = 8) -> set[int]:
    """Places of at most `most` of `number` lines, the ends among them: those that a legend names."""
    return set(np.linspace(0, number - 1, min(number, most)).round().astype(int).tolist())


def range_text(ends: Sequence[float], value: float | None = None) -> str:
    """An interval for a legend, "0.02 (−0.04 … 0.08)", or "−0.04 … 0.08" without a value."""
    low, high = (f"{end:.2f}".replace("-", "−") for end in ends)
    return f"{low} … {high}" if value is None else f"{value:.2f} ({low} … {high})".replace("-", "−")


def power_of_ten(value: float) -> str:
    """A number for a label in mathematics: 10^k where it is a whole power of ten."""
    exponent = np.log10(value)
    return f"10^{{{exponent:.0f}}}" if abs(exponent - round(exponent)) < 1e-9 else f"{value:g}"


# ------------------------------------------------------------------ logarithmic axes


class PlainLogLocator(LogLocator):
    """Ticks of a logarithmic axis: powers of ten over many decades, 1-2-5 over a few, round numbers within one."""

    MANTISSAS = (1, 2, 3, 4, 5, 6, 7, 8, 9), (1, 1.5, 2, 3, 4, 6, 8), (1, 2, 3, 5), (1, 2, 5), (1, 3), (1,)

    def __call__(self) -> np.ndarray:
        """Ticks of the axis as it is seen."""
        assert self.axis is not None
        return self.tick_values(*self.axis.get_view_interval())

    def tick_values(self, vmin: float, vmax: float) -> np.ndarray:
        """The closest set of round numbers that the axis has room for."""
        low, high = sorted((vmin, vmax))
        if not (low > 0 and np.isfinite(high)) or low == high:
            return np.array([high] if high > 0 else [])
        assert self.axis is not None
        room = min(max(self.axis.get_tick_space(), 3), TICKS)
        for ticks in self._sets(low, high, room):
            inside = ticks[(ticks >= low * (1 - 1e-9)) & (ticks <= high * (1 + 1e-9))]
            if inside.size > 1 and np.diff(np.log(inside)).min() > np.log(high / low) / room:
                return inside
        return np.array([low, high])

    def _sets(self, low: float, high: float, room: int) -> Iterator[np.ndarray]:
        """Sets of round numbers around low … high, closest first."""
        first, last = int(np.floor(np.log10(low))), int(np.ceil(np.log10(high)))
        if high / low < 3:
            for bins in range(room, 1, -1):
                yield np.asarray(MaxNLocator(bins, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high))
        decades = 10.0 ** np.arange(first, last + 1)
        if last - first <= 2 * room:
            yield from (np.outer(decades, each).ravel() for each in self.MANTISSAS)
        for stride in (2, 3, 5, 10, 20, 50, 100):
            yield 10.0 ** np.arange(stride * (first // stride), last + 1, stride)


class PlainLogFormatter(Formatter):
    """All ticks of an axis as plain numbers, 40 and not 4 × 10¹, or all as powers of ten where some are very long."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        """The label of one tick."""
        return self.format_ticks([x])[0]

    def format_ticks(self, values: Any) -> list[str]:
        """The labels of all ticks, in one notation."""
        plain = all(1e-3 <= value < 1e5 for value in values if value > 0)
        return [(f"{value:.10g}" if plain else _in_powers(value)) if value > 0 else "" for value in values]


class PlainFormatter(PlainLogFormatter):
    """The same of a linear axis that begins with 0: no factor of all numbers in a corner, where it is overlooked."""

    def format_ticks(self, values: Any) -> list[str]:
        """The labels of all ticks, in one notation."""
        return ["0" if value == 0 else label for value, label in zip(values, super().format_ticks(values), strict=True)]


def _in_powers(value: float) -> str:
    exponent = int(np.floor(np.log10(value) + 1e-9))
    mantissa = f"{value / 10.0**exponent:.10g}"
    return f"$10^{{{exponent}}}$" if mantissa == "1" else rf"${mantissa}{{\times}}10^{{{exponent}}}$"


def log_axes(axes: Axes, which: Literal["x", "y", "xy"] = "xy") -> None:
    """Logarithmic scales whose ticks are labelled even where the axis spans less than a decade."""
    for name in which:
        axis: Axis = getattr(axes, f"{name}axis")
        getattr(axes, f"set_{name}scale")("log")
        if not np.isfinite(axis.get_minpos()):  # nothing positive is drawn
            getattr(axes, f"set_{name}lim")(0.1, 1.0)
        axis.set_major_locator(PlainLogLocator())
        axis.set_major_formatter(PlainLogFormatter())
        axis.set_minor_locator(LogLocator(subs=tuple(range(2, 10))))
        axis.set_minor_formatter(NullFormatter())


def tick_measured(axes: Axes, sizes: Any) -> None:
    """Ticks of a logarithmic x axis at the sizes measured, those that there is room for, if they are whole numbers."""
    sizes = np.unique(sizes)
    if not sizes.size or (sizes % 1).any() or sizes[-1] >= 1e5:
        return
    shown = [sizes[0]]
    for size in sizes[1:]:
        if np.log(size / shown[-1]) > np.log(sizes[-1] / sizes[0]) / TICKS:
            shown.append(size)
    axes.set_xticks(shown, [f"{size:.0f}" for size in shown])
    axes.set_xticks([], minor=True)


def show_at_least(axes: Axes, factor: float, which: Literal["x", "y"] = "y") -> None:
    """Widen a logarithmic axis about its centre to at least `factor`, so that rounding errors do not fill it."""
    low, high = getattr(axes, f"get_{which}lim")()
    if high / low < factor:
        center = np.sqrt(low * high)
        getattr(axes, f"set_{which}lim")(center / factor**0.5, center * factor**0.5)


# ------------------------------------------------------------------ legends

CORNERS: tuple[Any, ...] = "upper right", "upper left", "lower left", "lower right", "center right", "center left"
CLEARANCE = 5.0  # A legend keeps this distance in pixels from what is drawn.


def legend(
    axes: Axes, handles: Sequence[Any] | None = None, *, corners: Sequence[Any] = CORNERS, **settings: Any
) -> Legend:
    """A legend where it covers nothing that is drawn; where no corner is free, the y axis grows to make room.

    Call it when everything else of the figure is in place, titles too.

    Args:
        axes: the panel.
        handles: what it lists; None: everything that has a label.
        corners: where it may be, best first.
        settings: of Matplotlib's legend, for example title or ncols.
    """
    settings = {"frameon": False, "fontsize": SMALL, "title_fontsize": SMALL, **settings}
    listed = axes.get_legend_handles_labels()[0] if handles is None else handles
    box = axes.legend(handles=listed, loc=corners[0], **settings)
    _lay_out(figure_of(axes))
    for corner in corners:
        box.set_loc(corner)
        if not _covers(axes, box.get_window_extent()):
            return box
    box.set_loc(corners[0] if corners[0].startswith("upper") else "upper left")
    _grow(axes, (box.get_window_extent().height + 3 * CLEARANCE) / axes.get_window_extent().height)
    return box


def _lay_out(figure: Figure) -> None:
    """Bring limits and positions of all panels up to date, in two thirds of the time of drawing without rendering."""
    engine = figure.get_layout_engine()
    if isinstance(engine, ConstrainedLayoutEngine):
        engine.execute(figure)
    else:  # A caller's own figure may have another engine or none, and only drawing applies the aspects of its panels.
        figure.draw_without_rendering()


def _grow(axes: Axes, share: float) -> None:
    """Raise the upper end of the y axis so that the top `share` of the panel is free."""
    share = min(share, 0.7)
    transform = axes.yaxis.get_transform()
    low, high = transform.transform(np.asarray(axes.get_ylim()))
    ends = transform.inverted().transform(np.array([low, low + (high - low) / (1 - share)]))
    axes.set_ylim(*(float(end) for end in ends))


def _covers(axes: Axes, extent: Bbox) -> bool:
    """Return whether the box (display coordinates) overlaps a line, marker, bar, band or text of the panel."""
    box = extent.padded(CLEARANCE)
    for line in axes.lines:
        path = line.get_path().transformed(line.get_transform())
        radius = 0.0 if line.get_marker() in (None, "None", "", " ") else line.get_markersize()
        drawn = line.get_linestyle() not in ("None", "", " ")
        if _inside(path.vertices, box.padded(radius)) or (drawn and path.intersects_bbox(box, False)):
            return True
    for part in axes.collections:
        offsets = np.ma.filled(np.ma.asarray(part.get_offsets()), np.nan)
        if len(offsets) > 1:  # a scatter plot
            hit = _inside(part.get_offset_transform().transform(offsets), box)
        else:
            paths = [path.transformed(part.get_transform()) for path in part.get_paths()]
            hit = any(len(np.asarray(path.vertices)) and path.intersects_bbox(box, True) for path in paths)
        if hit:
            return True
    return any(text.get_window_extent().overlaps(box) for text in axes.texts if text.get_text())


def _inside(points: Any, box: Bbox) -> bool:
    """Return whether one of the points, (N, 2), lies in the box."""
    points = np.asarray(points)
    return len(points) > 0 and bool(box.count_contains(points))


def legend_below(figure: Figure, axes: Axes, columns: int = 4, **settings: Any) -> Legend:
    """One legend for all panels, beneath them, of what has a label in `axes`."""
    settings = {"frameon": False, "fontsize": SMALL, "title_fontsize": SMALL, "ncols": columns, **settings}
    return figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", **settings)
