"""Drawings: Bokeh figures in which panels show their answers, each algorithm in a colour of its own."""

# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false, reportIndexIssue=false
# Bokeh's properties take more types than they declare.

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from bokeh.models import (
    Column,
    ColumnDataSource,
    CustomJSTicker,
    CustomJSTickFormatter,
    Div,
    FixedTicker,
    HoverTool,
    NumeralTickFormatter,
    Range1d,
    Span,
    Whisker,
)
from bokeh.plotting import figure

from sgdtheory.explore.appearance import FONT_SIZES, HEIGHTS, LIGHT, LINE_WIDTHS, Palette
from sgdtheory.explore.controls import STYLE
from sgdtheory.explore.legends import Entry, legend, title
from sgdtheory.explore.spec import Answer, PanelSpec
from sgdtheory.explore.state import SLOTS

BELOW, ABOVE = 30.0, 2.0  # how far the y axis goes beyond the least and the largest total
STAR_SIZE = 16
PALE = 0.3  # opacity of a mark of the position of a slider before
# Ticks of a logarithmic axis: powers of ten, at most eight; within two decades multiples of them, that do not collide.
TICKS = """
    const ends = [cb_data.range.start, cb_data.range.end], low = Math.min(...ends), high = Math.max(...ends);
    const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high)), decades = Math.log10(high / low);
    const every = decades > 2 ? Math.ceil(decades / 7) : 1, ticks = [];
    const multiples = decades > 2 ? [1] : decades > 1 ? [1, 3] : [1, 2, 5];
    for (let power = Math.ceil(first / every) * every; power <= last; power += every)
        for (const multiple of multiples) ticks.push(Number(`${multiple}e${power}`));
    const inside = ticks.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
    if (inside.length > 1 || !(high > low)) return inside;
    const rough = (high - low) / 5, unit = 10 ** Math.floor(Math.log10(rough));
    const step = unit * [1, 2, 2.5, 5, 10].find((each) => each * unit >= rough), even = [];
    for (let count = Math.ceil(low / step); count * step <= high; count++) even.push(count * step);
    return even;
"""
WORDS = """
    const power = (value) => "10" + String(value).replace(/./g, (sign) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(sign)]);
    const whole = (value) => Math.abs(Math.log10(value) - Math.round(Math.log10(value))) < 1e-9;
    if (ticks.every(whole) && ticks.length > 2) return power(Math.round(Math.log10(tick)));
    if (tick >= 1e-3 && tick < 1e5) return String(Number(tick.toPrecision(4)));
    const [mantissa, exponent] = tick.toExponential().split("e");
    const front = Number(Number(mantissa).toPrecision(4));
    return (front === 1 ? "" : front + " × ") + power(Number(exponent));
"""


class Drawing:
    """A figure on logarithmic axes, with one set of glyphs for each algorithm.

    Attributes:
        spec: of the panel.
        figure: Bokeh's.
        layout: its title, the figure and its legend, one below the other.
        sources: by the name of what they draw and the algorithm's place.
        said: the words of the title.
    """

    def __init__(self, spec: PanelSpec, above: "Drawing | None" = None) -> None:
        self.spec = spec
        x, y = spec.labels
        self.labels = x or "samples D", y
        axes = dict(spec.axes) | ({"x_range": above.figure.x_range} if above else {})
        kinds = {"x_axis_type": "log", "y_axis_type": "log"} | axes
        self.figure: Any = figure(
            name=f"figure-{spec.name}",
            height=spec.height,
            sizing_mode="stretch_width",
            x_axis_label=x,
            y_axis_label=y,
            tools="pan,box_zoom,wheel_zoom,reset",
            toolbar_location="right",
            toolbar_inner=True,
            background_fill_color=None,
            border_fill_color=None,
            outline_line_color=None,
            min_border_right=20,
            **kinds,
        )
        for axis, kind in ((self.figure.xaxis, "x_axis_type"), (self.figure.yaxis, "y_axis_type")):
            if kinds[kind] == "log":
                axis[0].update(ticker=CustomJSTicker(major_code=TICKS), formatter=CustomJSTickFormatter(code=WORDS))
        for grid, axis in ((self.figure.xgrid, self.figure.xaxis), (self.figure.ygrid, self.figure.yaxis)):
            grid[0].ticker = axis[0].ticker
        self.figure.toolbar.update(logo=None, autohide=True)
        self.figure.toolbar.active_drag = self.figure.toolbar.active_scroll = None
        if "x_range" not in axes:
            self.figure.x_range = Range1d(1.0, 1e6)
        self.figure.y_range = Range1d(1e-4, 1.0)
        self.sources: dict[tuple[str, int], ColumnDataSource] = {}
        self.glyphs: list[tuple[Any, int, float]] = []  # glyph or span, slot (−1: ink), line width over the usual
        how: Any = {"stylesheets": [STYLE], "sizing_mode": "stretch_width", "margin": 0}
        self.caption = Div(text="", css_classes=["caption"], **how)
        self.key = Div(text="", css_classes=["key"], **how)
        self.layout = Column(self.caption, self.figure, self.key, sizing_mode="stretch_width")
        self.said, self.pale = "", False
        self.legend: list[Entry] = []
        self.spans: dict[tuple[str, int], Span] = {}
        self.names: Sequence[str] = ()
        self.palette = LIGHT
        self.faded: dict[int, list[Any]] = {}  # slot → glyphs of marks `titled_by`
        self.ends: dict[tuple[str, int], tuple[float, float]] = {}  # (axis, slot) → what is to be seen
        spec.draw(self)

    # ------------------------------------------------------------------ making

    def source(self, name: str, slot: int) -> ColumnDataSource:
        """What `name` draws for an algorithm."""
        return self.sources.setdefault((name, slot), ColumnDataSource(data={"x": [], "y": []}))

    def line(self, name: str, slot: int, dash: str = "solid", width: float = 1.0, hover: bool = False) -> Any:
        """A line; with `hover` it says its numbers."""
        glyph = self.figure.line("x", "y", source=self.source(name, slot), line_dash=dash)
        self.glyphs.append((glyph.glyph, slot, width))
        if hover:
            said = [(label, f"@{key}{{0.0000e}}") for label, key in zip(self.labels, "xy", strict=True)]
            self.figure.add_tools(HoverTool(renderers=[glyph], tooltips=said, mode="mouse"))
        return glyph

    def marks(self, name: str, slot: int, marker: str = "star", size: int = STAR_SIZE) -> Any:
        """Points."""
        glyph = self.figure.scatter("x", "y", source=self.source(name, slot), marker=marker, size=size)
        if name == self.spec.titled_by:
            self.faded[slot] = [glyph.glyph]
        self.glyphs.append((glyph.glyph, slot, 0.5))
        return glyph

    def span(self, name: str, slot: int, dimension: str, dash: str) -> None:
        """A line across the panel, hidden until it has a place; an algorithm's own goes with it."""
        span = Span(location=1.0, dimension=dimension, line_dash=dash, visible=False)
        self.figure.add_layout(span)
        self.spans[name, slot] = span
        self.glyphs.append((span, slot, 0.7))

    def bars(self, name: str, slot: int) -> None:
        """Error bars."""
        source = self.sources[name, slot] = ColumnDataSource(data={"x": [], "low": [], "high": []})
        bar = Whisker(base="x", lower="low", upper="high", source=source)
        bar.upper_head.size = bar.lower_head.size = 5  # pyright: ignore[reportOptionalMemberAccess]
        self.figure.add_layout(bar)
        self.glyphs.append((bar, slot, 0.6))

    def mark_y_axis(self, ticks: Sequence[float]) -> None:
        """Mark the y axis at these numbers alone."""
        self.figure.yaxis[0].update(ticker=FixedTicker(ticks=ticks), formatter=NumeralTickFormatter(format="0[.]0"))
        self.figure.ygrid[0].ticker = self.figure.yaxis[0].ticker

    def add_legend(self, *others: Entry, dash: str = "solid", mark: str = "") -> None:
        """Beneath the panel: an entry an algorithm, then these."""
        self.legend = [*(Entry("", slot, dash, mark) for slot in range(len(SLOTS))), *others]

    @property
    def entries(self) -> list[Entry]:
        """Those of the legend that have something to name."""
        return [entry for entry in self.legend if not entry.of or self.has(entry.of)]

    # ------------------------------------------------------------------ showing

    def put(self, name: str, slot: int, x: Any, y: Any) -> None:
        """Draw these points: those that a logarithmic axis has a place for."""
        x, y = np.atleast_1d(np.asarray(x, dtype=float)), np.atleast_1d(np.asarray(y, dtype=float))
        kept = np.isfinite(x) & np.isfinite(y) & (x > 0) & (y > 0)
        source = self.source(name, slot)
        if kept.any() or len(source.data["x"]):
            source.data = {"x": x[kept], "y": y[kept]}

    def put_bars(self, name: str, slot: int, x: Any, low: Any, high: Any) -> None:
        """Draw these error bars."""
        self.sources[name, slot].data = {"x": x, "low": low, "high": high}

    def place_span(self, name: str, slot: int, location: float) -> None:
        """Draw a line across the panel here; none at 0."""
        self.spans[name, slot].update(location=location or 1.0, visible=location > 0)

    def has(self, name: str) -> bool:
        """Whether anything of this name is drawn, of any algorithm."""
        return any(len(source.data["x"]) for (other, _), source in self.sources.items() if other == name)

    def fit(self, slot: int, x: Any, totals: Any = None, below: float = BELOW) -> None:
        """Have the axes show these of each algorithm, and little below: a bias of 1e-20 is nothing to look at."""
        for axis, values in (("x", x), ("y", totals)):
            if values is None:
                continue
            values = np.asarray(values, dtype=float)
            values = values[np.isfinite(values) & (values > 0)]
            if values.size:
                self.ends[axis, slot] = float(values.min()), float(values.max())
            low, high = zip(*(ends for (name, _), ends in self.ends.items() if name == axis), strict=True)
            if axis == "x":
                margin = (max(high) / min(low)) ** 0.04
                self.set_range("x", min(low) / margin, max(high) * margin)
            else:  # at quarters of decades: the axis stays where it is while a slider moves a little
                ends = np.log10([min(low) / below, max(high) * ABOVE])
                self.set_range("y", 10 ** (np.floor(4 * ends[0]) / 4), 10 ** (np.ceil(4 * ends[1]) / 4))

    def fit_from_0(self, slot: int, values: Any) -> None:
        """Have the y axis show these of each algorithm, from 0 on."""
        self.ends["y", slot] = 0.0, float(values.max())
        self.set_range("y", 0.0, 1.1 * max(high for _, high in self.ends.values()))

    def set_range(self, axis: str, start: float, end: float) -> None:
        """Show this range of an axis; the reset tool comes back to it."""
        getattr(self.figure, f"{axis}_range").update(start=start, end=end, reset_start=start, reset_end=end)

    def show(self, slot: int, answer: Answer) -> None:
        """Draw what was computed for an algorithm."""
        self.spec.show(self, slot, answer)

    def clear(self, slot: int, names: Sequence[str] = ()) -> None:
        """Draw nothing of an algorithm, or not what has these names; with the first goes what is in ink."""
        slots = (slot, -1) if slot == 0 else (slot,)
        for (name, other), source in self.sources.items():
            named = not names or name in names or other < 0
            if other in slots and len(source.data["x"]) and named:
                source.data = {column: [] for column in source.data}
        if not names or self.spec.measured_by in names:
            self.ends = {key: ends for key, ends in self.ends.items() if key[1] != slot}
        for (_, other), span in self.spans.items():
            if other == slot:
                span.visible = False
        if slot == 0 and (not names or self.spec.titled_by in names):
            self.tell("")

    def name(self, names: Sequence[str]) -> None:
        """Name the algorithms in the legend; none where nothing is shown."""
        self.names = names
        text = legend(self.entries, names, self.palette) if names else ""
        if self.key.text != text:
            self.key.text = text

    def tell(self, words: str) -> None:
        """Have this title."""
        self.said = words
        text = title(words, self.pale)
        if self.caption.text != text:
            self.caption.text = text

    def fade(self, slot: int, pale: bool) -> None:
        """Pale the marks of an algorithm, and the title of the first: they are of the position of a slider before."""
        for glyph in self.faded.get(slot, ()):
            glyph.update(line_alpha=PALE if pale else 1.0, fill_alpha=PALE if pale else 1.0)
        if slot == 0:
            self.pale = pale
            self.tell(self.said)

    def dress(self, palette: Palette, text: str) -> None:
        """Take colours and sizes."""
        for glyph, slot, width in self.glyphs:
            color = palette.ink if slot < 0 else palette.slots[slot]
            glyph.update(line_color=color, line_width=LINE_WIDTHS[text] * width)
            if hasattr(glyph, "fill_color"):
                glyph.update(fill_color=color)
        self.palette, size = palette, FONT_SIZES[text]
        self.name(self.names)
        self.figure.height = round(self.spec.height * HEIGHTS[text])
        for axis in (*self.figure.xaxis, *self.figure.yaxis):
            axis.update(
                axis_label_text_color=palette.ink,
                major_label_text_color=palette.ink,
                axis_line_color=palette.ink,
                major_tick_line_color=palette.ink,
                minor_tick_line_color=None,
                axis_label_text_font_size=size,
                major_label_text_font_size=size,
                axis_label_text_font_style="normal",
            )
        for grid in (*self.figure.xgrid, *self.figure.ygrid):
            grid.grid_line_color = palette.grid


def make_drawings(specs: Mapping[str, PanelSpec]) -> dict[str, Drawing]:
    """One a panel, those beneath others with the x axis of these."""
    made: dict[str, Drawing] = {}
    for name, spec in specs.items():
        made[name] = Drawing(spec, made[spec.beneath] if spec.beneath else None)
    return made
