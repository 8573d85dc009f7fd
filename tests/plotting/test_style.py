"""Ticks, colours, legends and files of all figures."""

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from sgdtheory.plotting.style import (
    CATEGORIES,
    categories,
    colors,
    legend,
    legend_below,
    log_axes,
    new_figure,
    plain_label,
    save,
    show_at_least,
    tick_measured,
)
from tests.figure_checks import check_figure

# Machado, Oliveira & Fernandes 2009, severity 1, on linear RGB.
VISIONS = {
    "full": np.eye(3),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
}
XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)


def lab(colors, vision):
    """CIELAB of colours as an eye sees them."""
    rgb = np.array([to_rgb(color) for color in colors])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(linear @ np.asarray(VISIONS[vision]).T, 0, 1)
    xyz = seen @ XYZ.T / (XYZ @ np.ones(3))
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], axis=1)


def closest(colors, vision):
    places = lab(colors, vision)
    gaps = np.linalg.norm(places[:, None] - places, axis=-1)
    return gaps[np.triu_indices(len(places), 1)].min()


@pytest.mark.parametrize("vision", VISIONS)
def test_colours_are_told_apart_by_all_eyes(vision):
    """ΔE of about 2 is just seen; lines ask for more."""
    assert closest(CATEGORIES, vision) > 15
    assert closest(colors(6), vision) > 15
    assert closest(["#2ca02c", "#4caf50"], "full") < 15  # negative control: two greens


def test_categories_never_repeat():
    found = categories(29)
    assert len({tuple(each.values()) for each in found[:28]}) == 28
    assert [each["ls"] for each in found[::7]] == ["-", "--", ":", "-.", "-"]
    assert [each["color"] for each in found[:14]] == [*CATEGORIES, *CATEGORIES]
    assert [each["marker"] for each in found[6:9]] == ["X", "s", "^"]


@pytest.mark.parametrize("span", [(52, 66), (0.97, 1.04), (1e-6, 1e6), (3, 2000), (1.1, 8.9), (1e-12, 1e-3), (20, 95)])
@pytest.mark.parametrize("name", ["x", "y"])
def test_a_logarithmic_axis_can_be_read(span, name):
    figure, axes = new_figure()
    axes = axes[0, 0]
    axes.plot(*(span, span), "o")
    log_axes(axes)
    check_figure(figure)
    axis = getattr(axes, f"{name}axis")
    low, high = axis.get_view_interval()
    inside = [tick for tick in axis.get_majorticklocs() if low <= tick <= high]
    assert 3 <= len(inside) <= 9
    labels = axis.get_major_formatter().format_ticks(axis.get_majorticklocs())
    assert len(set(labels)) == len(labels)


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (2, 7, [2, 3, 4, 5, 6, 7]),
        (1, 9.9, [1, 1.5, 2, 3, 4, 6, 8]),
        (1, 35, [1, 2, 3, 5, 10, 20, 30]),
        (1, 100, [1, 2, 5, 10, 20, 50, 100]),
        (0.5, 3000, [1, 3, 10, 30, 100, 300, 1000, 3000]),
        (1, 1e6, 10.0 ** np.arange(7)),
        (1e-3, 1e12, 10.0 ** np.arange(-2, 13, 2)),
        (52, 66, [52, 54, 56, 58, 60, 62, 64, 66]),
        (5, 5, [5]),
        (-1, 0, []),
    ],
)
def test_ticks_are_the_closest_round_numbers_that_there_is_room_for(low, high, ticks):
    axis = new_figure(width=9.0)[1][0, 0].xaxis
    log_axes(axis.axes, "x")
    np.testing.assert_allclose(axis.get_major_locator().tick_values(low, high), ticks)


def test_ticks_at_sizes_that_were_measured():
    """Those within a ninth of the axis, in logs, of the last one shown have no room."""
    axes = new_figure()[1][0, 0]
    log_axes(axes)
    tick_measured(axes, [1, 500, 400, 512, 2, 2])  # the ends are a factor of 512 apart: 2 to the ninth
    assert axes.get_xticks().tolist() == [1, 400]
    tick_measured(axes, [32, 64, 128])
    assert axes.get_xticks().tolist() == [32, 64, 128]
    before = axes.get_xticks().tolist()
    for sizes in ([0.5, 1], [1, 1e5], []):  # not whole, or too long for labels
        tick_measured(axes, sizes)
        assert axes.get_xticks().tolist() == before


def test_labels_are_plain_numbers_or_powers_throughout():
    axis = new_figure()[1][0, 0].xaxis
    log_axes(axis.axes, "x")
    labels = axis.get_major_formatter().format_ticks
    assert labels([50, 60, 70]) == ["50", "60", "70"]
    assert labels([0.99, 1, 1.01]) == ["0.99", "1", "1.01"]
    assert labels([1, 1e3, 1e6]) == ["$10^{0}$", "$10^{3}$", "$10^{6}$"]
    assert labels([2e7, 5e7]) == [r"$2{\times}10^{7}$", r"$5{\times}10^{7}$"]


def test_rounding_errors_do_not_fill_an_axis():
    figure, axes = new_figure()
    axes[0, 0].plot([1, 2, 3], [1, 1 + 1e-9, 1 - 1e-9], "o")
    log_axes(axes[0, 0], "y")
    show_at_least(axes[0, 0], 1.1)
    low, high = axes[0, 0].get_ylim()
    assert high / low == pytest.approx(1.1)
    assert low * high == pytest.approx(1, abs=1e-6)
    show_at_least(axes[0, 0], 1.05)
    assert axes[0, 0].get_ylim() == (low, high)
    check_figure(figure)


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_a_legend_makes_room_for_itself(scale):
    """A cloud that fills the panel: no corner is free."""
    rng = np.random.default_rng(0)
    figure, axes = new_figure()
    x, y = rng.uniform(1, 10, (2, 400))
    axes[0, 0].plot(x, y, "o", label="a cloud that fills the whole panel")
    axes[0, 0].plot(x, 2 * y, "s", label="another one")
    axes[0, 0].set(yscale=scale)
    legend(axes[0, 0])
    check_figure(figure)


@pytest.mark.parametrize(("y", "corner"), [([1, 2], (0, 1)), ([2, 1], (1, 1))])
def test_a_legend_finds_the_free_corner(y, corner):
    figure, axes = new_figure()
    axes[0, 0].plot([1, 2], y, label="a line")
    axes[0, 0].set_ylim(0.95, 2.05)
    box = legend(axes[0, 0])
    assert axes[0, 0].get_ylim() == (0.95, 2.05)
    place = box.get_window_extent().transformed(axes[0, 0].transAxes.inverted())
    assert abs((place.x0 + place.x1) / 2 - corner[0]) < 0.5
    assert abs((place.y0 + place.y1) / 2 - corner[1]) < 0.5
    check_figure(figure)


def test_a_legend_for_all_panels():
    figure, axes = new_figure(1, 2)
    for panel in axes[0]:
        panel.plot([1, 2], [1, 2], label="one")
        panel.plot([1, 2], [2, 1], label="other")
        panel.set(xlabel="$x$")
    legend_below(figure, axes[0, 0])
    check_figure(figure)


@pytest.mark.parametrize("name", ["x.PNG", "x.png", "a.b.Pdf", "x.SVG"])
def test_the_suffix_is_taken_in_any_case(tmp_path, name):
    """`x.PNG` is written as such, and not as `x.PNG.png`."""
    assert save(new_figure()[0], tmp_path / name) == [tmp_path / name]
    assert [path.name for path in tmp_path.iterdir()] == [name]
    start = (tmp_path / name).read_bytes()[:8].lstrip()
    assert start.startswith({".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml"}[name[-4:].lower()])


def test_long_names_are_cut():
    assert plain_label("m" * 100) == "m" * 27 + "…"
    assert plain_label("m" * 28) == "m" * 28


DRAWN = {  # what lies in the upper right corner of a panel from 0 to 1, and whether a legend may lie there too
    "nothing": (lambda axes: None, True),
    "a line": (lambda axes: axes.plot([0.5, 1], [0.55, 1.0]), False),
    "a line through it": (lambda axes: axes.plot([0.4, 1.6], [0.95, 0.95]), False),
    "markers on both sides": (lambda axes: axes.plot([0.4, 1.6], [0.95, 0.95], "o"), True),
    "a marker": (lambda axes: axes.plot([0.9], [0.9], "o"), False),
    "a marker whose edge reaches it": (lambda axes: axes.plot([0.6], [0.93], "o", ms=99), False),
    "the same without a marker": (lambda axes: axes.plot([0.6], [0.93], ms=99), True),
    "points": (lambda axes: axes.scatter([0.2, 0.9], [0.2, 0.95]), False),
    "points elsewhere": (lambda axes: axes.scatter([0.2, 0.4], [0.2, 0.9]), True),
    "a band": (lambda axes: axes.fill_between([0.5, 1], [0.5, 0.5], [1, 1]), False),
    "a band elsewhere": (lambda axes: axes.fill_between([0.1, 0.4], [0.1, 0.1], [1, 1]), True),
    "a word": (lambda axes: axes.text(0.9, 0.93, "word"), False),
    "an empty word": (lambda axes: axes.text(0.9, 0.93, ""), True),
}


@pytest.mark.parametrize("name", DRAWN)
def test_a_legend_lies_on_nothing_that_is_drawn(name):
    draw, free = DRAWN[name]
    axes = new_figure()[1][0, 0]
    axes.set(xlim=(0, 1), ylim=(0, 1))
    draw(axes)
    axes.plot([], [], label="a name")
    axes.set(xlim=(0, 1), ylim=(0, 1))
    box = legend(axes, corners=("upper right", "lower left"))
    place = box.get_window_extent().transformed(axes.transAxes.inverted())
    assert (place.x0 > 0.5, place.y0 > 0.5) == (free, free)
    assert axes.get_ylim() == (0, 1)
    assert not box.get_frame_on()
    assert {text.get_fontsize() for text in box.get_texts()} == {7.5}


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_room_for_a_legend_is_its_height_and_three_times_its_distance(scale):
    axes = new_figure()[1][0, 0]
    axes.plot([0, 1], [1, 10], label="a name")
    axes.plot([0, 1], [10, 1])
    axes.set(xlim=(0, 1), ylim=(1, 10), yscale=scale)
    axes.margins(0)
    box = legend(axes, corners=("upper right",))
    share = (box.get_window_extent().height + 15) / axes.get_window_extent().height
    ends = np.array([*axes.get_ylim(), 10.0])
    low, high, top = np.log(ends) if scale == "log" else ends
    assert (high - top) / (high - low) == pytest.approx(share, rel=0.02)
