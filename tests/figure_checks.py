"""Defects of a figure: texts on texts, texts off the canvas, legends or labels on the data, axes without numbers.

`check_figure(figure)` lays it out and raises with every defect; `defects(figure)` lists them.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Annotation, Text
from matplotlib.transforms import Bbox

TOUCH = 0.75  # pixels by which boxes of text may overlap: they end a little outside of the ink


def check_figure(figure: Figure, *, data: bool = True) -> None:
    """Assert that nothing is wrong with the figure.

    Args:
        figure: laid out here as Agg would draw it, at its own resolution.
        data: look too whether legends and labels cover markers and lines.
    """
    found = defects(figure, data=data)
    assert not found, "\n".join(["the figure has defects:", *found])


def defects(figure: Figure, *, data: bool = True) -> list[str]:
    """Every defect, a sentence each."""
    FigureCanvasAgg(figure)
    with _drawn_texts() as texts:
        figure.draw_without_rendering()  # which lays out once, as saving does
    boxes = [(text, _ink(text)) for text in texts]
    found = [*_off_canvas(figure, boxes), *_on_each_other(boxes), *_on_other_panels(figure, boxes), *_offsets(figure)]
    for panel in figure.axes:
        found += _unlabelled(panel, texts)
        if data:
            found += _on_data(panel)
    return found


@contextmanager
def _drawn_texts() -> Iterator[list[Text]]:
    """The texts that are really drawn meanwhile: tick labels outside of the view, for example, are not."""
    found: dict[int, Text] = {}
    draw = Text.draw

    def spy(self, renderer, *args, **settings):
        if self.get_visible() and self.get_text().strip("\u200b \n"):
            found[id(self)] = self
        return draw(self, renderer, *args, **settings)

    texts: list[Text] = []
    Text.draw = spy
    try:
        yield texts
    finally:
        Text.draw = draw
        texts += found.values()


def _ink(text: Text) -> Bbox:
    """The box of the text alone: an annotation's own box has its arrow too."""
    return Text.get_window_extent(text) if isinstance(text, Annotation) else text.get_window_extent()


def _name(text: Text) -> str:
    return repr(text.get_text())


def _off_canvas(figure: Figure, boxes: list[tuple[Text, Bbox]]) -> list[str]:
    width, height = figure.bbox.width, figure.bbox.height
    return [
        f"{_name(text)} leaves the canvas"
        for text, box in boxes
        if box.x0 < -TOUCH or box.y0 < -TOUCH or box.x1 > width + TOUCH or box.y1 > height + TOUCH
    ]


def _overlap(first: Bbox, second: Bbox) -> bool:
    both = Bbox.intersection(first, second)
    return both is not None and both.width > TOUCH and both.height > TOUCH


def _on_each_other(boxes: list[tuple[Text, Bbox]]) -> list[str]:
    return [
        f"{_name(text)} and {_name(other)} overlap"
        for place, (text, box) in enumerate(boxes)
        for other, another in boxes[:place]
        if _overlap(box, another)
    ]


def _on_other_panels(figure: Figure, boxes: list[tuple[Text, Bbox]]) -> list[str]:
    """Titles of the figure on a panel, labels of one panel on another."""
    return [
        f"{_name(text)} lies on a panel that is not its own"
        for text, box in boxes
        for panel in figure.axes
        if text.axes is not panel and panel.get_visible() and not _within(panel, text.axes)
        if _overlap(box, panel.get_window_extent())
    ]


def _within(panel: Axes, inset: Axes | None) -> bool:
    return inset in panel.child_axes


def _offsets(figure: Figure) -> list[str]:
    axes = [axis for panel in figure.axes for axis in (panel.xaxis, panel.yaxis)]
    return [
        f"offset {axis.get_offset_text().get_text()!r} on an axis" for axis in axes if axis.get_offset_text().get_text()
    ]


def _unlabelled(panel: Axes, texts: list[Text]) -> list[str]:
    """An axis with a single number cannot be read; one with none may share another's or be off."""
    drawn = set(map(id, texts))
    found = []
    for name, axis in (("x", panel.xaxis), ("y", panel.yaxis)):
        if panel.axison and axis.get_visible() and _numbers(axis, drawn) == 1 and not _is_single(axis):
            found.append(f"the {name} axis of panel {panel.get_title()!r} has one number alone")
    return found


def _numbers(axis: Axis, drawn: set[int]) -> int:
    return sum(id(label) in drawn for which in ("major", "minor") for label in axis.get_ticklabels(which=which))


def _is_single(axis: Axis) -> bool:
    """One place on the axis is all that there is: its ticks were put where was measured."""
    return type(axis.get_major_locator()).__name__ == "FixedLocator" and len(axis.get_majorticklocs()) == 1


# ------------------------------------------------------------------ legends and labels on the data


def _on_data(panel: Axes) -> list[str]:
    """Legends on lines or markers; texts inside of the panel on markers, or, unless they have a box, on lines."""
    found = []
    legend = panel.get_legend()
    if legend is not None:
        box = legend.get_window_extent()
        found += [f"the legend of panel {panel.get_title()!r} lies on {what}" for what in _hit(panel, box, lines=True)]
    for text in panel.texts:
        if text.get_visible() and text.get_text().strip():
            hits = _hit(panel, _ink(text), lines=text.get_bbox_patch() is None)
            found += [f"{_name(text)} lies on {what}" for what in hits]
    return found


def _hit(panel: Axes, box: Bbox, *, lines: bool) -> Iterator[str]:
    """Return the data that the box lies on."""
    box = box.padded(-TOUCH)
    view = panel.get_window_extent()
    for line in panel.lines:
        if not line.get_visible() or not len(line.get_xydata()):
            continue
        path = line.get_path().transformed(line.get_transform())
        name = f"line {line.get_label()!r}"
        if line.get_marker() not in (None, "None", "", " "):
            radius = line.get_markersize() / 2 * panel.figure.dpi / 72
            if _any_inside(path.vertices, box.padded(radius), view):
                yield f"a marker of {name}"
                continue
        if lines and line.get_linestyle() not in ("None", "none", "", " "):
            seen = Bbox.intersection(box, view)
            if seen is not None and path.intersects_bbox(seen, False):
                yield name
    for part in panel.collections:
        if type(part).__name__ == "PathCollection":
            points = part.get_offset_transform().transform(np.ma.filled(part.get_offsets(), np.nan))
            radius = np.sqrt(np.max(part.get_sizes(), initial=0)) / 2 * panel.figure.dpi / 72
            if _any_inside(points, box.padded(radius), view):
                yield "a marker of a scatter plot"
        elif type(part).__name__ == "LineCollection" and lines:
            seen = Bbox.intersection(box, view)
            paths = [path.transformed(part.get_transform()) for path in part.get_paths()]
            if seen is not None and any(len(path.vertices) and path.intersects_bbox(seen, False) for path in paths):
                yield "an error bar"


def _any_inside(points: np.ndarray, box: Bbox, view: Bbox) -> bool:
    """Return whether a visible point lies in the box."""
    points = points[np.isfinite(points).all(axis=1)]
    seen = points[[view.padded(1).contains(*point) for point in points]] if len(points) else points
    return bool(len(seen)) and bool(box.count_contains(seen))
