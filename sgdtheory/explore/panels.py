"""The panels: Bokeh figures that show answers, each algorithm in a colour of its own."""

# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false, reportIndexIssue=false
# Bokeh's properties take more types than they declare.

from collections.abc import Sequence
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

from sgdtheory.explore.appearance import FONT_SIZES, HEIGHTS, LIGHT, LINE_WIDTHS, Palette, about, number
from sgdtheory.explore.computations import Answer
from sgdtheory.explore.controls import STYLE
from sgdtheory.explore.legends import Entry, legend, title
from sgdtheory.explore.state import SLOTS

HEIGHT, LOW_HEIGHT = 310, 110
BELOW, ABOVE = 30.0, 2.0  # how far the y axis goes beyond the least and the largest total
STAR_SIZE = 16
TIMES = [1, 1.5, 2, 3, 5, 10, 20]  # marked on the axis of samples over D
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


class Panel:
    """A figure on logarithmic axes, with one set of glyphs for each algorithm.

    Attributes:
        figure: Bokeh's.
        layout: its title, the figure and its legend, one below the other.
        sources: by the name of what they draw and the algorithm's place.
        said: the words of the title.
        measured_by, titled_by: names of what the axes show all of, and of what the title tells of.
        told_by: the answer that the title and the marks `titled_by` come from.
    """

    measured_by = titled_by = told_by = ""

    def __init__(self, x: str, y: str, height: int = HEIGHT, **axes: Any) -> None:
        self.labels = x or "samples D", y
        kinds = {"x_axis_type": "log", "y_axis_type": "log"} | axes
        self.figure: Any = figure(
            height=height,
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
        self.entries: list[Entry] = []
        self.names: Sequence[str] = ()
        self.height, self.palette = height, LIGHT
        self.faded: dict[int, list[Any]] = {}  # slot → glyphs of marks `titled_by`
        self.ends: dict[tuple[str, int], tuple[float, float]] = {}  # (axis, slot) → what is to be seen

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
        if name == self.titled_by:
            self.faded[slot] = [glyph.glyph]
        self.glyphs.append((glyph.glyph, slot, 0.5))
        return glyph

    def span(self, slot: int, dimension: str, dash: str) -> Span:
        """A line across the panel, hidden until it has a place."""
        span = Span(location=1.0, dimension=dimension, line_dash=dash, visible=False)
        self.figure.add_layout(span)
        self.glyphs.append((span, slot, 0.7))
        return span

    def add_legend(self, *others: Entry, dash: str = "solid", mark: str = "") -> None:
        """Beneath the panel: an entry an algorithm, then these."""
        self.entries = [*(Entry("", slot, dash, mark) for slot in range(len(SLOTS))), *others]

    # ------------------------------------------------------------------ showing

    def put(self, name: str, slot: int, x: Any, y: Any) -> None:
        """Draw these points: those that a logarithmic axis has a place for."""
        x, y = np.atleast_1d(np.asarray(x, dtype=float)), np.atleast_1d(np.asarray(y, dtype=float))
        kept = np.isfinite(x) & np.isfinite(y) & (x > 0) & (y > 0)
        source = self.source(name, slot)
        if kept.any() or len(source.data["x"]):
            source.data = {"x": x[kept], "y": y[kept]}

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

    def set_range(self, axis: str, start: float, end: float) -> None:
        """Show this range of an axis; the reset tool comes back to it."""
        getattr(self.figure, f"{axis}_range").update(start=start, end=end, reset_start=start, reset_end=end)

    def show(self, slot: int, answer: Answer) -> None:
        """Draw what was computed for an algorithm."""
        raise NotImplementedError

    def clear(self, slot: int, names: Sequence[str] = ()) -> None:
        """Draw nothing of an algorithm, or not what has these names."""
        for (name, other), source in self.sources.items():
            if other == slot and len(source.data["x"]) and (not names or name in names):
                source.data = {name: [] for name in source.data}
        if not names or self.measured_by in names:
            self.ends = {key: ends for key, ends in self.ends.items() if key[1] != slot}
        if slot == 0 and (not names or self.titled_by in names):
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
        self.figure.height = round(self.height * HEIGHTS[text])
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


PARTS = Entry("its bias", 0, "dashed", width=0.6), Entry("its variance", 0, "dotdash", width=0.6)


class RiskPanel(Panel):
    """R(D, B) with bias, variance and the least risk."""

    measured_by, titled_by, told_by = "risk", "least", "samples"

    def __init__(self) -> None:
        super().__init__("batch size B (samples)", "excess risk R(D, B) (units of y²)")
        for slot in range(2):
            self.line("risk", slot, hover=True)
        self.line("bias", 0, "dashed", 0.6)
        self.line("variance", 0, "dotdash", 0.6)
        for slot in range(2):
            self.marks("least", slot)
        self.missed = self.span(-1, "width", "dotted")
        self.add_legend(*PARTS, Entry("R_opt(D), the least risk", 0, "", "star"))

    def show(self, slot: int, answer: Answer) -> None:
        """Lines of `risk`; the star of `samples`."""
        if answer.panel == "samples":
            marks = answer.marks
            self.put("least", slot, marks["optimal_batch_size"], marks["optimal_risk"])
            if slot == 0:
                least, best = marks["optimal_risk"], marks["optimal_batch_size"]
                rough = "approximate" in marks
                told = f"{about(least)}, at B {about(best)}" if rough else f"{number(least)}, at B = {number(best)}"
                self.tell(f"The least risk is {told}")
            return
        columns = answer.columns
        self.put("risk", slot, columns["batch_size"], columns["risk"])
        self.fit(slot, columns["batch_size"], columns["risk"])
        if slot == 0:
            for part in ("bias", "variance"):
                if part in columns:
                    self.put(part, 0, columns["batch_size"], columns[part])
                else:
                    super().clear(0, (part,))
            self.missed.update(location=answer.marks["missed"] or 1.0, visible=answer.marks["missed"] > 0)


class SamplesPanel(Panel):
    """Samples that a batch size needs for the least risk, over D, with B*."""

    titled_by, told_by = "critical", "samples"

    def __init__(self) -> None:
        super().__init__("batch size B (samples)", "samples to reach R_opt(D), over D")
        for slot in range(2):
            self.line("needed", slot, hover=True)
        for slot in range(2):
            self.marks("critical", slot)
        self.figure.yaxis[0].update(ticker=FixedTicker(ticks=TIMES), formatter=NumeralTickFormatter(format="0[.]0"))
        self.figure.ygrid[0].ticker = self.figure.yaxis[0].ticker
        self.set_range("y", 0.8, 30.0)
        self.linear, self.more = self.span(-1, "width", "dashed"), self.span(-1, "width", "dotted")
        self.add_legend(Entry("B*, the largest within the dotted line", 0, "", "star"))

    def show(self, slot: int, answer: Answer) -> None:
        """Of `samples`: B* first, the line when it is known."""
        marks, columns = answer.marks, answer.columns
        samples, extra = marks["num_samples"], marks["overhead"]
        if columns:
            self.put("needed", slot, columns["batch_size"], columns["samples_needed"] / samples)
            self.fit(slot, columns["batch_size"])
        else:
            super().clear(slot, ("needed",))  # of another state
        self.put("critical", slot, marks["batch_size"], marks["batch_size"] * marks["num_steps"] / samples)
        self.linear.update(location=1.0, visible=True)
        self.more.update(location=1 + extra, visible=True)
        self.set_range("y", 0.8, max(30.0, 2 * (1 + extra)))
        if slot == 0:
            critical = marks["batch_size"]
            told = about(critical) if "approximate" in marks else f"= {number(critical)}"
            self.tell(f"B* {told}: up to here {100 * extra:g}% more data are enough")


class GrowthPanel(Panel):
    """B* against D, with Corollary 8's slope."""

    titled_by, told_by = "points", "growth"

    def __init__(self) -> None:
        super().__init__("data D (samples)", "critical batch size B* (samples)")
        for slot in range(2):
            self.line("critical", slot, width=0.5, hover=True)
        for slot in range(2):
            self.marks("points", slot)
        self.line("theory", -1, "dashed", 0.7)
        self.add_legend(Entry("Corollary 8's slope, through the last", -1, "dashed", width=0.7), mark="star")

    def show(self, slot: int, answer: Answer) -> None:
        """Of `growth`: as many data sizes as are known."""
        samples, sizes = answer.columns["num_samples"], answer.columns["critical"]
        self.put("critical", slot, samples, sizes)
        self.put("points", slot, samples, sizes)
        self.fit(slot, samples, sizes, below=2.0)
        if slot == 0:
            ends, exponent = samples[[0, -1]], answer.marks["exponent"]
            self.put("theory", -1, ends, sizes[-1] * (ends / samples[-1]) ** exponent)
            words = f"Corollary 8: D^{exponent:.3f}"
            if samples.size > 1:
                slope = np.log(sizes[-1] / sizes[-2]) / np.log(samples[-1] / samples[-2])
                digits = 3 if answer.marks["share"] == 1 else 2
                words = f"B* ∝ D^{slope:.{digits}f} at large D; {words}".replace("D^-", "D^−")
            self.tell(words)

    def clear(self, slot: int, names: Sequence[str] = ()) -> None:
        """With the first algorithm goes the slope."""
        super().clear(slot, names)
        if slot == 0:
            super().clear(-1)


class PathPanel(Panel):
    """Loss curves: what a run returns, thin its iterates, and simulated means with standard errors."""

    told_by = "path"

    def __init__(self) -> None:
        super().__init__("", "excess risk (units of y²)", height=HEIGHT - 60)
        for slot in range(2):
            self.line("average", slot, hover=True)
        for slot in range(2):
            self.line("iterate", slot, width=0.4)
        for slot in range(2):
            self.marks("simulated", slot, "circle", 6)
        self.bars = [ColumnDataSource(data={"x": [], "low": [], "high": []}) for _ in range(2)]
        for slot, source in enumerate(self.bars):
            bar = Whisker(base="x", lower="low", upper="high", source=source)
            bar.upper_head.size = bar.lower_head.size = 5  # pyright: ignore[reportOptionalMemberAccess]
            self.figure.add_layout(bar)
            self.glyphs.append((bar, slot, 0.6))
        self.add_legend(Entry("thin: the iterate", 0, width=0.4))
        self.always = self.entries

    def name(self, names: Sequence[str]) -> None:
        """Points are named while there are any."""
        points = Entry("simulated, with standard errors", 0, "", "circle")
        self.entries = [*self.always, points] if self.simulated else self.always
        super().name(names)

    def show(self, slot: int, answer: Answer) -> None:
        """Lines of `path`, points of `simulated`."""
        columns, marks = answer.columns, answer.marks
        if answer.panel == "simulated":
            if columns:
                self.put("simulated", slot, columns["num_samples"], columns["risk"])
                kept = columns["risk"] > 0
                ends = {"x": "num_samples", "low": "low", "high": "high"}
                self.bars[slot].data = {name: columns[key][kept] for name, key in ends.items()}
                self.name(self.names)
            return
        for name in ("average", "iterate"):
            self.put(name, slot, columns["num_samples"], columns[name])
        self.fit(slot, columns["num_samples"], np.concatenate([columns["average"], columns["iterate"]]), below=3.0)
        if slot == 0:
            steps = f"after {number(marks['num_steps'])} steps with γ = {marks['learning_rate']:.3g}"
            self.tell(f"Risk {number(marks['total'])} {steps}")

    @property
    def simulated(self) -> bool:
        """Whether there are simulated points."""
        return any(len(bars.data["x"]) for bars in self.bars)

    def forget_simulation(self) -> None:
        """Take the simulated points away."""
        for slot, bars in enumerate(self.bars):
            self.put("simulated", slot, [], [])
            bars.data = {"x": [], "low": [], "high": []}
        self.name(self.names)

    def clear(self, slot: int, names: Sequence[str] = ()) -> None:
        """Error bars too."""
        super().clear(slot, names)
        self.bars[slot].data = {"x": [], "low": [], "high": []}


class InputPanel(Panel):
    """Learning rates or batch sizes along the runs, beneath the loss curves."""

    def __init__(self, column: str, above: Panel, x: str, y: str) -> None:
        super().__init__(x, y, height=LOW_HEIGHT + (40 if x else 0), y_axis_type="linear", x_range=above.figure.x_range)
        self.column = column
        for slot in range(2):
            self.line(column, slot)
        self.figure.toolbar_location = None
        self.figure.yaxis[0].ticker.desired_num_ticks = 3

    def show(self, slot: int, answer: Answer) -> None:
        """Of `path`."""
        values = answer.columns[self.column]
        self.put(self.column, slot, answer.columns["num_samples"], values)
        self.ends["y", slot] = 0.0, float(values.max())
        self.set_range("y", 0.0, 1.1 * max(high for _, high in self.ends.values()))


class RatePanel(Panel):
    """Risk of D samples against learning rate, with the stability edge."""

    measured_by, titled_by, told_by = "risk", "here", "path"

    def __init__(self) -> None:
        super().__init__("learning rate γ (1/λ), at the peak", "excess risk (units of y²)")
        for slot in range(2):
            self.line("risk", slot, hover=True)
        self.line("bias", 0, "dashed", 0.6)
        self.line("variance", 0, "dotdash", 0.6)
        for slot in range(2):
            self.marks("here", slot, "circle", 9)
        self.edges = [self.span(slot, "height", "dotted") for slot in range(2)]
        self.add_legend(*PARTS, Entry("the γ of the loss curve", 0, "", "circle"))

    def show(self, slot: int, answer: Answer) -> None:
        """Lines of `rate`, the point of `path`."""
        columns, marks = answer.columns, answer.marks
        self.edges[slot].update(location=marks["edge"], visible=True)
        if answer.panel == "path":
            self.put("here", slot, marks["learning_rate"], marks["total"])
            if slot == 0:
                self.tell(f"γ = {marks['learning_rate']:.4g}; the stability edge is {marks['edge']:.4g}")
            return
        rates, risks = columns["learning_rate"], columns["risk"]
        self.put("risk", slot, rates, risks)
        self.fit(slot, rates, np.minimum(risks, risks[0]))  # what explodes beyond the edge is not all to be seen
        if slot == 0:
            for part in ("bias", "variance"):
                self.put(part, 0, rates, columns[part])

    def clear(self, slot: int, names: Sequence[str] = ()) -> None:
        """The edge too."""
        super().clear(slot, names)
        self.edges[slot].visible = False


def make_panels() -> dict[str, Any]:
    """All of them, by name: those of `sources.PANELS`, and what the runs were told, beneath the loss curves."""
    path = PathPanel()
    return {
        "risk": RiskPanel(),
        "samples": SamplesPanel(),
        "growth": GrowthPanel(),
        "path": path,
        "path_rates": InputPanel("learning_rate", path, "", "γ (1/λ)"),
        "path_batches": InputPanel("batch_size", path, "samples D", "B (samples)"),
        "rate": RatePanel(),
    }


SHOWN_IN = {  # what was computed → the panels that show it
    "path": ("path", "path_rates", "path_batches", "rate"),
    "rate": ("rate",),
    "risk": ("risk",),
    "samples": ("samples", "risk"),
    "growth": ("growth",),
    "simulated": ("path",),
}
LINES = "risk", "bias", "variance"
FILLED_BY: dict[str, dict[str, tuple[str, ...]]] = {  # computation → panels, and names of what it draws; (): all
    "ahead": {},
    "run": {"path": (), "path_rates": (), "path_batches": (), "rate": ("here",)},
    "rates": {"rate": LINES},
    "tuned": {"risk": LINES},
    "critical": {"samples": (), "risk": ("least",)},
    "growth": {"growth": ()},
    "simulated": {},
}
