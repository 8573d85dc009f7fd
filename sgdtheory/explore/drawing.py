"""Drawings: Bokeh figures in which panels show their answers, each algorithm in its own colour."""

# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false, reportIndexIssue=false
# Bokeh's properties take more types than they declare.

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from bokeh.models import (
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

from sgdtheory.explore.appearance import LINE_WIDTHS, Palette
from sgdtheory.explore.controls import STYLE
from sgdtheory.explore.formulas import plain, typeset
from sgdtheory.explore.legends import caption, legend
from sgdtheory.explore.spec import INK, Answer, Glyph, PanelSpec

ABOVE = 2.0  # The y axis goes beyond the largest measured value by this factor.
# Both pages use the functions of `static/numbers.js`.
TICKS = "return ticksOf(cb_data.range.start, cb_data.range.end);"
WORDS = "return written(tick, 4);"


class Drawing:
    """A figure with the glyphs of a panel, for each algorithm its own.

    Attributes:
        spec: of the panel.
        figure: Bokeh's.
        caption: the title that states the result.
        key: the legend.
        parts: labels and figure, one below the other.
        sources: glyph's name and algorithm's place → its points.
    """

    def __init__(self, spec: PanelSpec, above: "Drawing | None" = None) -> None:
        self.spec = spec
        self.figure: Any = figure(
            name=f"figure-{spec.name}",
            height=spec.height,
            sizing_mode="stretch_width",
            x_axis_type="log",
            y_axis_type="linear" if spec.linear else "log",
            tools="" if spec.beneath else "pan,box_zoom,wheel_zoom,reset",
            toolbar_location=None if spec.beneath else "right",
            toolbar_inner=True,
            background_fill_color=None,
            border_fill_color=None,
            outline_line_color=None,
            min_border_right=20,
            min_border_bottom=8,  # half the height of a number at the end of the y axis
            x_range=above.figure.x_range if above else Range1d(1.0, 1e6),
            y_range=Range1d(*spec.y_range or (1e-4, 1.0)),
        )
        self._make_axes()
        how: Any = {"stylesheets": [STYLE], "sizing_mode": "stretch_width", "margin": 0}
        self.caption = Div(text="", css_classes=["caption"], **how)
        self.key = Div(text="", css_classes=["key"], **how)
        x, y = (
            [Div(text=typeset(label), css_classes=[f"label-{axis}"], **how)] if label else []
            for axis, label in zip("xy", spec.labels, strict=True)
        )
        self.parts = [*y, self.figure, *x]
        self.names: Sequence[str] = ()
        self.sources: dict[tuple[str, int], ColumnDataSource] = {}
        self.glyphs: dict[tuple[str, int], Any] = {}
        for glyph in spec.glyphs:
            for slot in glyph.slots:
                self.glyphs[glyph.name, slot] = self._make(glyph, slot)

    # ------------------------------------------------------------------ making

    def _make_axes(self) -> None:
        """Choose ticks, and grids at them."""
        x, y = self.figure.xaxis[0], self.figure.yaxis[0]
        x.update(ticker=CustomJSTicker(major_code=TICKS), formatter=CustomJSTickFormatter(code=WORDS))
        if self.spec.linear:
            y.ticker.desired_num_ticks = 2
        elif self.spec.y_ticks:
            y.update(ticker=FixedTicker(ticks=self.spec.y_ticks), formatter=NumeralTickFormatter(format="0[.]0"))
        else:
            y.update(ticker=CustomJSTicker(major_code=TICKS), formatter=CustomJSTickFormatter(code=WORDS))
        x.visible = bool(self.spec.labels[0])  # else a panel beneath has its numbers
        self.figure.xgrid[0].ticker, self.figure.ygrid[0].ticker = x.ticker, y.ticker
        self.figure.toolbar.update(logo=None, autohide=True, active_drag=None, active_scroll=None)

    def _make(self, glyph: Glyph, slot: int) -> Any:
        """Add one glyph to the figure, without points."""
        if glyph.across:
            dimension = "width" if glyph.kind == "level" else "height"
            span = Span(dimension=dimension, line_dash=glyph.dash, visible=False)
            self.figure.add_layout(span)
            return span
        columns = ("x", "y", "top") if glyph.kind == "bars" else ("x", "y")
        source = self.sources[glyph.name, slot] = ColumnDataSource(data={column: [] for column in columns})
        if glyph.kind == "bars":
            bars = Whisker(base="x", lower="y", upper="top", source=source)
            bars.upper_head.size = bars.lower_head.size = 5  # pyright: ignore[reportOptionalMemberAccess]
            self.figure.add_layout(bars)
            return bars
        if glyph.kind == "line":
            made = self.figure.line("x", "y", source=source, line_dash=glyph.dash)
        else:
            made = self.figure.scatter("x", "y", source=source, marker=glyph.kind, size=glyph.size)
        if glyph.hover:
            labels = (plain(label or "samples D") for label in self.spec.labels)
            said = [(label, f"@{key}{{0.0000e}}") for label, key in zip(labels, "xy", strict=True)]
            self.figure.add_tools(HoverTool(renderers=[made], tooltips=said, mode="mouse"))
        return made.glyph

    # ------------------------------------------------------------------ showing

    def source(self, name: str, slot: int) -> ColumnDataSource:
        """Return the points of a glyph of an algorithm."""
        return self.sources[name, slot]

    def has(self, name: str) -> bool:
        """Return whether a glyph has points, of any algorithm."""
        return any(len(source.data["x"]) for (other, _), source in self.sources.items() if other == name)

    @property
    def entries(self) -> list[Glyph]:
        """The glyphs that the legend names."""
        named = [glyph for glyph in self.spec.glyphs if glyph.words is not None]
        return [glyph for glyph in named if not glyph.optional or self.has(glyph.name)]

    def show(self, slot: int, answer: Answer) -> None:
        """Draw what was computed for an algorithm."""
        for glyph in self.spec.glyphs:
            place = glyph.place(slot)
            if glyph.answer == answer.panel and place is not None:
                self._put(glyph, place, answer)
        self._fit()
        if any(glyph.optional for glyph in self.spec.glyphs):
            self.name(self.names)
        if slot == 0 and answer.panel == self.spec.told_by:
            self.tell(caption(self.spec.captions, answer.marks))

    def _put(self, glyph: Glyph, place: int, answer: Answer) -> None:
        """Draw the points of a glyph that logarithmic axes can show."""
        known: Mapping[str, Any] = answer.marks if glyph.single or glyph.across else answer.columns

        def values(name: str | float) -> np.ndarray:
            return np.atleast_1d(np.asarray(known.get(name, np.nan) if isinstance(name, str) else name, dtype=float))

        if glyph.across:
            (location,) = values(glyph.y if glyph.kind == "level" else glyph.x)
            span = self.glyphs[glyph.name, place]
            span.visible = bool(location > 0)
            if span.visible:
                span.location = location
            return
        names = {"x": glyph.x, "y": glyph.y} | ({"top": glyph.top} if glyph.top else {})
        columns = dict(zip(names, np.broadcast_arrays(*map(values, names.values())), strict=True))
        kept = np.all([np.isfinite(each) & (each > 0) for each in columns.values()], axis=0)
        source = self.sources[glyph.name, place]
        if kept.any() or len(source.data["x"]):
            source.data = {name: column[kept] for name, column in columns.items()}

    def _fit(self) -> None:
        """Have the axes show all measured points of both algorithms."""
        measured = {glyph.name for glyph in self.spec.glyphs if glyph.measured}
        drawn = [source.data for (name, _), source in self.sources.items() if name in measured]
        drawn = [{axis: np.asarray(data[axis], dtype=float) for axis in "xy"} for data in drawn if len(data["x"])]
        if not drawn:
            return
        x = np.concatenate([data["x"] for data in drawn])
        y = np.concatenate([np.minimum(data["y"], data["y"][0] if self.spec.capped else np.inf) for data in drawn])
        if not self.spec.beneath:
            margin = (x.max() / x.min()) ** 0.04
            self._set_range("x", x.min() / margin, x.max() * margin)
        if self.spec.linear:
            self._set_range("y", 0.0, 1.1 * y.max())
        elif not self.spec.y_range:  # At quarters of decades, the axis does not move while a slider moves a little.
            low, high = np.log10([y.min() / self.spec.below, y.max() * ABOVE])
            self._set_range("y", 10 ** (np.floor(4 * low) / 4), 10 ** (np.ceil(4 * high) / 4))

    def _set_range(self, axis: str, start: float, end: float) -> None:
        """Show this range of an axis; the reset tool comes back to it."""
        getattr(self.figure, f"{axis}_range").update(start=start, end=end, reset_start=start, reset_end=end)

    def clear(self, slot: int, answer: str = "") -> None:
        """Take away what is drawn for an algorithm: the points of one answer, or all."""
        for glyph in self.spec.glyphs:
            place = glyph.place(slot)
            if place is None or answer not in ("", glyph.answer):
                continue
            if glyph.across:
                self.glyphs[glyph.name, place].visible = False
            elif len(self.sources[glyph.name, place].data["x"]):
                source = self.sources[glyph.name, place]
                source.data = {column: [] for column in source.data}
        if slot == 0 and answer in ("", self.spec.told_by):
            self.tell("")

    def name(self, names: Sequence[str]) -> None:
        """Name the algorithms in the legend, which is empty where nothing is shown."""
        self.names = names
        text = legend(self.entries, names) if names else ""
        if self.key.text != text:
            self.key.text = text

    def tell(self, words: str) -> None:
        """Set the caption."""
        if self.caption.text != words:
            self.caption.text = words

    def dress(self, palette: Palette, text: str) -> None:
        """Set colours and the width of lines; the browser sets the size of figures and letters."""
        for glyph in self.spec.glyphs:
            for slot in glyph.slots:
                drawn, color = self.glyphs[glyph.name, slot], palette.ink if slot == INK else palette.slots[slot]
                drawn.update(line_color=color, line_width=LINE_WIDTHS[text] * glyph.width)
                if hasattr(drawn, "fill_color"):
                    drawn.update(fill_color=color)
        for axis in (*self.figure.xaxis, *self.figure.yaxis):
            axis.update(
                major_label_text_color=palette.ink,
                axis_line_color=palette.ink,
                major_tick_line_color=palette.ink,
                minor_tick_line_color=None,
            )
        for grid in (*self.figure.xgrid, *self.figure.ygrid):
            grid.grid_line_color = palette.grid


def make_drawings(specs: Mapping[str, PanelSpec]) -> dict[str, Drawing]:
    """Make a drawing for each panel; one beneath another has the x axis of this one."""
    made: dict[str, Drawing] = {}
    for name, spec in specs.items():
        made[name] = Drawing(spec, made[spec.beneath] if spec.beneath else None)
    return made
