"""The panels: Bokeh figures that show answers, each algorithm in a colour of its own."""

# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false, reportIndexIssue=false
# Bokeh's properties take more types than they declare.

from collections.abc import Sequence
from typing import Any

import numpy as np
from bokeh.core.properties import value as fixed
from bokeh.models import ColumnDataSource, HoverTool, Legend, LegendItem, NumeralTickFormatter, Range1d, Span, Whisker
from bokeh.plotting import figure

from sgdtheory.explore.appearance import FONT_SIZES, LINE_WIDTHS, Palette, about, number
from sgdtheory.explore.computations import Answer
from sgdtheory.explore.state import SLOTS
from sgdtheory.plotting.style import plain_label

HEIGHT, LOW_HEIGHT = 370, 110
NAME = 30  # characters of an algorithm's name in a legend
BELOW, ABOVE = 30.0, 2.0  # how far the y axis goes beyond the least and the largest total
STAR_SIZE = 16
EMPTY = "\u00a0"  # a title that keeps its room: one that comes later may not be painted
TIMES = [1, 1.5, 2, 3, 5, 10, 20]  # marked on the axis of samples over D
TICKS = 5  # that an axis should have, about


class Panel:
    """A figure on logarithmic axes, with one set of glyphs for each algorithm.

    Attributes:
        figure: Bokeh's.
        sources: by the name of what they draw and the algorithm's place.
        measured_by, titled_by: names of what the axes show all of, and of what the title tells of.
    """

    measured_by = titled_by = ""

    def __init__(self, x: str, y: str, height: int = HEIGHT, **axes: Any) -> None:
        self.labels = x or "samples D", y
        kinds = {"x_axis_type": "log", "y_axis_type": "log"} | axes
        self.figure: Any = figure(
            height=height,
            sizing_mode="stretch_width",
            x_axis_label=x,
            y_axis_label=y,
            title=EMPTY,
            tools="pan,box_zoom,wheel_zoom,reset",
            toolbar_location="right",
            toolbar_inner=True,
            background_fill_color=None,
            border_fill_color=None,
            outline_line_color=None,
            min_border_right=12,
            **kinds,
        )
        for axis in (*self.figure.xaxis, *self.figure.yaxis):
            axis.ticker.desired_num_ticks = TICKS
        self.figure.toolbar.update(logo=None, autohide=True)
        self.figure.toolbar.active_drag = self.figure.toolbar.active_scroll = None
        if "x_range" not in axes:
            self.figure.x_range = Range1d(1.0, 1e6)
        self.figure.y_range = Range1d(1e-4, 1.0)
        self.sources: dict[tuple[str, int], ColumnDataSource] = {}
        self.glyphs: list[tuple[Any, int, float]] = []  # glyph or span, slot (−1: ink), line width over the usual
        self.legend = Legend(items=[], ncols=2, background_fill_alpha=0.0, border_line_alpha=0.0, padding=0, spacing=6)
        self.legend.update(margin=2, label_height=0)
        self.named: list[LegendItem] = []
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
        self.glyphs.append((glyph.glyph, slot, 0.5))
        return glyph

    def span(self, slot: int, dimension: str, dash: str) -> Span:
        """A line across the panel, hidden until it has a place."""
        span = Span(location=1.0, dimension=dimension, line_dash=dash, visible=False)
        self.figure.add_layout(span)
        self.glyphs.append((span, slot, 0.7))
        return span

    def add_legend(self, items: Sequence[tuple[str, list[Any]]]) -> None:
        """Beneath the panel: one entry an algorithm, named later, then these."""
        self.named = [LegendItem(label=fixed(""), renderers=items[slot][1]) for slot in range(len(SLOTS))]
        others = [LegendItem(label=fixed(label), renderers=renderers) for label, renderers in items[len(SLOTS) :]]
        self.legend.items = [*self.named, *others]
        self.figure.add_layout(self.legend, "below")

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
            self.figure.title.text = EMPTY

    def name(self, names: Sequence[str]) -> None:
        """Name the algorithms in the legend."""
        for slot, item in enumerate(self.named):
            item.update(
                label=fixed(plain_label(names[slot], NAME) if slot < len(names) else ""), visible=slot < len(names)
            )

    def dress(self, palette: Palette, text: str) -> None:
        """Take colours and sizes."""
        for glyph, slot, width in self.glyphs:
            color = palette.ink if slot < 0 else palette.slots[slot]
            glyph.update(line_color=color, line_width=LINE_WIDTHS[text] * width)
            if hasattr(glyph, "fill_color"):
                glyph.update(fill_color=color)
        size = FONT_SIZES[text]
        self.figure.title.update(text_color=palette.ink, text_font_size=size)
        self.legend.update(label_text_color=palette.ink, label_text_font_size=size)
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


class RiskPanel(Panel):
    """R(D, B) with bias, variance and the least risk."""

    measured_by, titled_by = "risk", "least"

    def __init__(self) -> None:
        super().__init__("batch size B (samples)", "excess risk R(D, B) (units of y²)")
        lines = [self.line("risk", slot, hover=True) for slot in range(2)]
        bias, variance = self.line("bias", 0, "dashed", 0.6), self.line("variance", 0, "dotdash", 0.6)
        stars = [self.marks("least", slot) for slot in range(2)]
        self.missed = self.span(-1, "width", "dotted")
        items = [("", lines[:1]), ("", lines[1:]), ("its bias", [bias]), ("its variance", [variance])]
        self.add_legend([*items, ("R_opt(D), the least risk", stars[:1])])

    def show(self, slot: int, answer: Answer) -> None:
        """Lines of `risk`; the star of `samples`."""
        if answer.panel == "samples":
            marks = answer.marks
            self.put("least", slot, marks["optimal_batch_size"], marks["optimal_risk"])
            if slot == 0:
                least, best = marks["optimal_risk"], marks["optimal_batch_size"]
                rough = "approximate" in marks
                told = f"{about(least)}, at B {about(best)}" if rough else f"{number(least)}, at B = {number(best)}"
                self.figure.title.text = f"The least risk is {told}"
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

    def __init__(self) -> None:
        super().__init__("batch size B (samples)", "samples to reach R_opt(D), over D")
        lines = [self.line("needed", slot, hover=True) for slot in range(2)]
        stars = [self.marks("critical", slot) for slot in range(2)]
        self.figure.yaxis.ticker, self.figure.yaxis.formatter = TIMES, NumeralTickFormatter(format="0[.]0")
        self.set_range("y", 0.8, 30.0)
        self.linear, self.more = self.span(-1, "width", "dashed"), self.span(-1, "width", "dotted")
        self.add_legend([("", lines[:1]), ("", lines[1:]), ("B*, the largest within the dotted line", stars[:1])])

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
            self.figure.title.text = f"B* {told}: up to here {100 * extra:g}% more data are enough"


class GrowthPanel(Panel):
    """B* against D, with Corollary 8's slope."""

    def __init__(self) -> None:
        super().__init__("data D (samples)", "critical batch size B* (samples)")
        lines = [self.line("critical", slot, width=0.5, hover=True) for slot in range(2)]
        stars = [self.marks("points", slot) for slot in range(2)]
        theory = self.line("theory", -1, "dashed", 0.7)
        both = [[line, star] for line, star in zip(lines, stars, strict=True)]
        self.add_legend([("", both[0]), ("", both[1]), ("Corollary 8's slope, through the last", [theory])])

    def show(self, slot: int, answer: Answer) -> None:
        """Of `growth`: as many data sizes as are known."""
        samples, sizes = answer.columns["num_samples"], answer.columns["critical"]
        self.put("critical", slot, samples, sizes)
        self.put("points", slot, samples, sizes)
        self.fit(slot, samples, sizes, below=2.0)
        if slot == 0:
            ends, exponent = samples[[0, -1]], answer.marks["exponent"]
            self.put("theory", -1, ends, sizes[-1] * (ends / samples[-1]) ** exponent)
            title = f"Corollary 8: D^{exponent:.3f}"
            if samples.size > 1:
                slope = np.log(sizes[-1] / sizes[-2]) / np.log(samples[-1] / samples[-2])
                digits = 3 if answer.marks["share"] == 1 else 2
                title = f"B* ∝ D^{slope:.{digits}f} at large D; {title}".replace("D^-", "D^−")
            self.figure.title.text = title

    def clear(self, slot: int, names: Sequence[str] = ()) -> None:
        """With the first algorithm goes the slope."""
        super().clear(slot, names)
        if slot == 0:
            super().clear(-1)


class PathPanel(Panel):
    """Loss curves: what a run returns, thin its iterates, and simulated means with standard errors."""

    def __init__(self) -> None:
        super().__init__("", "excess risk (units of y²)", height=HEIGHT - 60)
        lines = [self.line("average", slot, hover=True) for slot in range(2)]
        thin = [self.line("iterate", slot, width=0.4) for slot in range(2)]
        points = [self.marks("simulated", slot, "circle", 6) for slot in range(2)]
        self.bars = [ColumnDataSource(data={"x": [], "low": [], "high": []}) for _ in range(2)]
        for slot, source in enumerate(self.bars):
            bar = Whisker(base="x", lower="low", upper="high", source=source)
            bar.upper_head.size = bar.lower_head.size = 5  # pyright: ignore[reportOptionalMemberAccess]
            self.figure.add_layout(bar)
            self.glyphs.append((bar, slot, 0.6))
        items = [("", lines[:1]), ("", lines[1:]), ("thin: the iterate", thin[:1])]
        self.add_legend([*items, ("points: simulated, with standard errors", points[:1])])

    def show(self, slot: int, answer: Answer) -> None:
        """Lines of `path`, points of `simulated`."""
        columns, marks = answer.columns, answer.marks
        if answer.panel == "simulated":
            if columns:
                self.put("simulated", slot, columns["num_samples"], columns["risk"])
                kept = columns["risk"] > 0
                ends = {"x": "num_samples", "low": "low", "high": "high"}
                self.bars[slot].data = {name: columns[key][kept] for name, key in ends.items()}
            return
        for name in ("average", "iterate"):
            self.put(name, slot, columns["num_samples"], columns[name])
        self.fit(slot, columns["num_samples"], np.concatenate([columns["average"], columns["iterate"]]), below=3.0)
        if slot == 0:
            steps = f"after {number(marks['num_steps'])} steps with γ = {marks['learning_rate']:.3g}"
            self.figure.title.text = f"Risk {number(marks['total'])} {steps}"

    @property
    def simulated(self) -> bool:
        """Whether there are simulated points."""
        return any(len(bars.data["x"]) for bars in self.bars)

    def forget_simulation(self) -> None:
        """Take the simulated points away."""
        for slot, bars in enumerate(self.bars):
            self.put("simulated", slot, [], [])
            bars.data = {"x": [], "low": [], "high": []}

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

    measured_by, titled_by = "risk", "here"

    def __init__(self) -> None:
        super().__init__("learning rate γ (1/λ), the peak of a schedule", "excess risk (units of y²)")
        lines = [self.line("risk", slot, hover=True) for slot in range(2)]
        bias, variance = self.line("bias", 0, "dashed", 0.6), self.line("variance", 0, "dotdash", 0.6)
        here = [self.marks("here", slot, "circle", 9) for slot in range(2)]
        self.edges = [self.span(slot, "height", "dotted") for slot in range(2)]
        items = [("", lines[:1]), ("", lines[1:]), ("its bias", [bias]), ("its variance", [variance])]
        self.add_legend([*items, ("the γ of the loss curve", here[:1])])

    def show(self, slot: int, answer: Answer) -> None:
        """Lines of `rate`, the point of `path`."""
        columns, marks = answer.columns, answer.marks
        self.edges[slot].update(location=marks["edge"], visible=True)
        if answer.panel == "path":
            self.put("here", slot, marks["learning_rate"], marks["total"])
            if slot == 0:
                self.figure.title.text = f"γ = {marks['learning_rate']:.4g}; the stability edge is {marks['edge']:.4g}"
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
