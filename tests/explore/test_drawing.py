"""What panels draw of an answer: its points and straight lines, the range of the axes, titles, legends and colours."""

import re

import numpy as np
import pytest

from sgdtheory.explore.appearance import DARK, LIGHT
from sgdtheory.explore.drawing import make_drawings
from sgdtheory.explore.registry import SHOWN_IN, SPECS
from sgdtheory.explore.spec import INK, Answer
from sgdtheory.plotting.style import BLUE, ORANGE, SKY, VERMILLION

QUARTER = 10**0.25  # of a decade
SAMPLES = {"num_samples": [10.0, 100.0, 1000.0]}
PATH = Answer(
    "path",
    {
        **SAMPLES,
        "average": [7.0, 2.0, 1.0],
        "iterate": [4.0, 0.5, 0.25],
        "relative_rate": [1.0, 0.5, 0.125],
        "batch_size": [2.0, 4.0, 8.0],
    },
    {"learning_rate": 0.1, "total": 1.0, "num_steps": 300.0, "edge": 0.4},
)
SIMULATED = Answer("simulated", {"num_samples": [5.0], "risk": [8.0], "low": [1e-6], "high": [1e6]}, {"share": 1.0})
RISK = Answer(
    "risk",
    {"batch_size": [1.0, 8.0], "risk": [0.03, 0.9], "bias": [1e-9, 1e-9], "variance": [0.02, 5.0]},
    {"missed": 0.3},
)
RATE = Answer(
    "rate",
    {
        "learning_rate": [0.01, 0.1, 0.4],
        "risk": [0.5, 0.1, 7.0],
        "bias": [0.4, 0.01, 1e-9],
        "variance": [0.1, 0.09, 7.0],
    },
    {"edge": 0.4},
)
NEEDED = Answer(
    "samples",
    {"batch_size": [1.0, 100.0], "data_ratio": [1.0, 50.0]},
    {"batch_size": 200.0, "data_ratio": 1.1, "data_allowed": 1.2, "overhead": 0.2}
    | {"optimal_batch_size": 3.0, "optimal_risk": 0.01},
)
GROWTH = Answer(
    "growth",
    {"num_samples": [1e3, 1e4], "critical": [3.0, 10.0], "theory": [1e-3, 10.0]},
    {"exponent": 0.4, "slope": 0.523},
)


@pytest.fixture(scope="module")
def of_all_tests():
    return make_drawings(SPECS)


@pytest.fixture
def drawings(of_all_tests):
    """Return the drawings of a page, with nothing on them."""
    for drawing in of_all_tests.values():
        drawing.name(())
        for slot in range(2):
            drawing.clear(slot)
    return of_all_tests


def show(drawings, answer, slot=0):
    for name in SHOWN_IN[answer.panel]:
        drawings[name].show(slot, answer)


def points(drawing, name, slot=0):
    data = drawing.source(name, slot).data
    return {axis: np.asarray(values).tolist() for axis, values in data.items()}


def text_of(markup):
    return " ".join(re.sub("<[^>]*>", "", markup.text).split())


def test_a_logarithmic_axis_shows_finite_numbers_above_0(drawings):
    columns = {"batch_size": [0.0, 0.5, 2.0, 3.0, 4.0], "risk": [1.0, 0.25, np.nan, np.inf, 0.0]}
    none = {"bias": np.full(5, -1.0), "variance": np.zeros(5)}
    show(drawings, Answer("risk", columns | none, {}))
    assert points(drawings["risk"], "risk") == {"x": [0.5], "y": [0.25]}
    assert not drawings["risk"].has("bias")
    show(drawings, Answer("risk", columns | none | {"risk": np.full(5, np.nan)}, {}))
    assert points(drawings["risk"], "risk") == {"x": [], "y": []}, "nothing of the answer before"


def test_points_and_error_bars_are_drawn_where_they_are(drawings):
    for answer in (PATH, SIMULATED, NEEDED):
        show(drawings, answer, slot=1)
    path = drawings["path"]
    assert points(path, "iterate", 1) == {"x": SAMPLES["num_samples"], "y": PATH.columns["iterate"]}
    assert points(path, "errors", 1) == {"x": [5.0], "y": [1e-6], "top": [1e6]}
    assert points(drawings["rate"], "here", 1) == {"x": [0.1], "y": [1.0]}
    assert points(drawings["samples"], "critical", 1) == {"x": [200.0], "y": [1.1]}
    assert points(drawings["risk"], "least", 1) == {"x": [3.0], "y": [0.01]}
    assert points(path, "iterate", 0) == {"x": [], "y": []}


def test_straight_lines():
    """Each is at its number, across the panel or upright, and not there where its number is 0 or not known."""
    drawings = make_drawings(SPECS)  # new ones: nothing is there before the first answer
    spans = {
        (panel, name, slot): span
        for panel, drawing in drawings.items()
        for (name, slot), span in drawing.glyphs.items()
        if (name, slot) not in drawing.sources
    }
    assert set(spans) == {
        ("risk", "missed", INK),
        ("samples", "linear", INK),
        ("samples", "allowed", INK),
        ("rate", "edge", 0),
        ("rate", "edge", 1),
    }

    def shown():
        return {key: (each.dimension, each.location) for key, each in spans.items() if each.visible}

    assert shown() == {}
    for answer in (RISK, NEEDED, PATH):
        show(drawings, answer)
    across = {
        ("risk", "missed", INK): ("width", 0.3),
        ("samples", "linear", INK): ("width", 1.0),
        ("samples", "allowed", INK): ("width", 1.2),
    }
    assert shown() == across | {("rate", "edge", 0): ("height", 0.4)}
    show(drawings, Answer("risk", RISK.columns, {"missed": 0.7}), slot=1)  # M is the same for both algorithms
    show(drawings, Answer("path", PATH.columns, PATH.marks | {"edge": 2.5}), slot=1)
    assert shown() == across | {("rate", "edge", 0): ("height", 0.4), ("rate", "edge", 1): ("height", 2.5)}
    show(drawings, Answer("risk", RISK.columns, {"missed": 0.0}))
    show(drawings, Answer("path", PATH.columns, {**PATH.marks, "edge": np.nan}), slot=1)
    assert set(shown()) == set(across) - {("risk", "missed", INK)} | {("rate", "edge", 0)}
    for drawing in drawings.values():
        drawing.clear(0)
    assert shown() == {}


@pytest.mark.parametrize(
    ("panel", "answers", "x", "y"),
    [
        ("risk", [RISK], (1.0, 8.0), (0.03, 0.9)),  # neither bias nor variance
        ("growth", [GROWTH], (1e3, 1e4), (3.0, 10.0)),  # nor Corollary 8's line
        ("path", [PATH], (10.0, 1000.0), (0.25, 7.0)),
        ("path", [PATH, SIMULATED], (5.0, 1000.0), (0.25, 8.0)),  # nor error bars
        ("rate", [RATE], (0.01, 0.4), (0.1, 0.5)),  # up to the first risk: beyond the best γ it grows without bound
        ("samples", [NEEDED], (1.0, 100.0), None),
    ],
)
def test_axes_show_all_measured_points(panel, answers, x, y, drawings):
    """The x axis goes 4% beyond them. The y axis ends at quarters of decades, at least a factor of 2 above them."""
    for answer in answers:
        show(drawings, answer, slot=1)
    figure, spec = drawings[panel].figure, SPECS[panel]
    length = np.log(x[1] / x[0])
    assert np.log(x[0] / figure.x_range.start) == pytest.approx(0.04 * length)
    assert np.log(figure.x_range.end / x[1]) == pytest.approx(0.04 * length)
    start, end = figure.y_range.start, figure.y_range.end
    if y is None:
        assert (start, end) == (0.8, 30.0)
        return
    for quarters in 4 * np.log10([start, end]):
        assert quarters == pytest.approx(round(quarters))
    assert y[0] / spec.below / QUARTER < start <= y[0] / spec.below < y[0] / 1.9
    assert 2 * y[1] <= end < 2 * y[1] * QUARTER
    ranges = [(each.start, each.end) for each in (figure.x_range, figure.y_range)]
    assert [(each.reset_start, each.reset_end) for each in (figure.x_range, figure.y_range)] == ranges


def test_axes_show_the_points_of_both_algorithms(drawings):
    show(drawings, RISK)
    other = {"batch_size": [2.0, 64.0], "risk": [0.001, 0.4]}
    show(drawings, Answer("risk", other, {}), slot=1)
    figure = drawings["risk"].figure
    assert figure.x_range.start < 1.0 < 64.0 < figure.x_range.end
    assert figure.y_range.start < 0.001 < 0.9 < figure.y_range.end


def test_the_inputs_of_a_run_are_drawn_beneath_its_curves_from_0_on(drawings):
    show(drawings, PATH)
    path = drawings["path"].figure
    for name, largest in (("path_rates", 1.0), ("path_batches", 8.0)):
        figure = drawings[name].figure
        assert figure.x_range is path.x_range
        assert figure.y_range.start == 0.0
        assert figure.y_range.end == pytest.approx(1.1 * largest)
        assert figure.toolbar_location is None
        assert figure.height < path.height < drawings["risk"].figure.height, "there is room for them"
    assert drawings["path_batches"].figure.height > drawings["path_rates"].figure.height, (
        "for the numbers of its x axis"
    )
    assert [drawings[name].figure.xaxis[0].visible for name in SPECS if name.startswith("path")] == [False, False, True]
    assert all(drawings[name].figure.xaxis[0].visible for name in ("risk", "samples", "growth", "rate"))


def test_titles_are_of_the_first_algorithm(drawings):
    titles = {
        "risk": "The least risk is 0.01, at B = 3",
        "samples": "B* = 200: the largest B with at most 20% more data",
        "growth": "B*∝D0.523 at the largest D; Corollary 8 predicts D0.4",
        "path": "Risk 1 after 300 steps with γ = 0.1",
        "rate": "γ = 0.1; the stability limit is 0.4",
    }
    answers = RISK, NEEDED, GROWTH, PATH, RATE, SIMULATED
    for answer in answers:
        show(drawings, answer, slot=1)
    assert {text_of(drawing.caption) for drawing in drawings.values()} == {""}
    for answer in answers:
        show(drawings, answer)
    assert {name: text_of(drawings[name].caption) for name in titles} == titles
    show(drawings, Answer("growth", GROWTH.columns, {"exponent": 0.4}))
    assert text_of(drawings["growth"].caption) == "Corollary 8 predicts B*∝D0.4"
    marks = {name: value for name, value in PATH.marks.items() if name != "edge"}
    show(drawings, Answer("path", PATH.columns, marks))
    assert text_of(drawings["rate"].caption) == "γ = 0.1; this method has no stability limit"


def test_what_is_cleared_is_of_one_algorithm_and_one_answer(drawings):
    for slot in range(2):
        for answer in (PATH, RATE):
            show(drawings, answer, slot)
    rate = drawings["rate"]
    rate.clear(1, "rate")
    assert (points(rate, "risk", 1)["x"], points(rate, "here", 1)["x"]) == ([], [0.1])
    assert points(rate, "risk", 0)["x"] == [0.01, 0.1, 0.4]
    rate.clear(1)
    assert points(rate, "here", 1)["x"] == []
    assert rate.glyphs["edge", 0].visible
    assert not rate.glyphs["edge", 1].visible
    rate.clear(0, "rate")
    assert "stability limit" in rate.caption.text, "the title belongs to the loss curve's answer"
    rate.clear(0, "path")
    assert rate.caption.text == ""
    assert not rate.glyphs["edge", 0].visible


def test_simulated_points_are_in_the_legend_while_there_are_any(drawings):
    path = drawings["path"]
    path.name(["sgd", "last"])
    assert text_of(path.key) == "sgd last thin line: last iterate"
    show(drawings, SIMULATED, slot=1)
    assert text_of(path.key).endswith("mean of simulated runs, with its standard error")
    path.clear(1, "simulated")
    path.name(path.names)
    assert text_of(path.key) == "sgd last thin line: last iterate"
    path.name(())
    assert path.key.text == ""


def test_colours_and_widths(drawings):
    """Each algorithm has one colour in all panels; lines of a projector are wider, each by the same factor."""
    widths = {}
    for palette, text, (first, second, ink) in (
        (LIGHT, "normal", (BLUE, VERMILLION, "#222222")),
        (DARK, "large", (SKY, ORANGE, "#e8e8e8")),
    ):
        for drawing in drawings.values():
            drawing.dress(palette, text)
            for (name, slot), glyph in drawing.glyphs.items():
                assert glyph.line_color == {0: first, 1: second, INK: ink}[slot]
                widths.setdefault(text, {})[drawing.spec.name, name, slot] = glyph.line_width
            assert {axis.major_label_text_color for axis in drawing.figure.axis} == {ink}
        assert drawings["risk"].glyphs["least", 1].fill_color == second
    factors = [widths["large"][key] / width for key, width in widths["normal"].items()]
    assert factors == pytest.approx([factors[0]] * len(factors))
    assert factors[0] > 1
    for panel, thick, thin in (("path", "average", "iterate"), ("risk", "risk", "bias"), ("rate", "risk", "variance")):
        assert widths["normal"][panel, thin, 0] < widths["normal"][panel, thick, 0]


def test_numbers_under_the_pointer(drawings):
    """A line of each panel shows them; error bars, stars and thin lines do not."""
    found = {}
    for name, drawing in drawings.items():
        tools = [tool for tool in drawing.figure.tools if hasattr(tool, "tooltips")]
        found[name] = [text for tool in tools for text, _ in tool.tooltips]
        lines = [drawing.source(glyph.name, slot) for glyph in SPECS[name].glyphs[:1] for slot in glyph.slots]
        assert [tool.renderers[0].data_source for tool in tools] == (lines if tools else [])
    assert found == {
        "risk": ["batch size B (samples)", "excess risk R(D, B) (units of y²)"] * 2,
        "samples": ["batch size B (samples)", "data needed to reach Rₒₚₜ(D), relative to D"] * 2,
        "growth": ["data D (samples)", "critical batch size B* (samples)"] * 2,
        "path": ["samples D", "excess risk (units of y²)"] * 2,
        "path_rates": [],
        "path_batches": [],
        "rate": ["peak learning rate γ (1/λ, or units of the weights)", "excess risk (units of y²)"] * 2,
    }


def test_ticks_of_the_data_that_batch_sizes_need_are_round_numbers(drawings):
    (axis,) = drawings["samples"].figure.yaxis
    ticks = np.array(axis.ticker.ticks)
    assert {tick / 10 ** np.floor(np.log10(tick)) for tick in ticks} <= {1.0, 1.5, 2.0, 3.0, 5.0}
    assert ticks[0] == 1.0
    ratios = np.array([*ticks[1:], 30.0]) / ticks
    assert 1.0 < ratios.min() <= ratios.max() <= 2.0
