"""Each defect is found in a figure that has it (negative controls), and a good figure has none."""

import numpy as np
import pytest

from sgdtheory.plotting.style import BOX, legend, log_axes, new_figure
from tests.figure_checks import check_figure, defects


@pytest.fixture
def panel():
    axes = new_figure()[1][0, 0]
    axes.set(xlabel="steps $t$", ylabel="loss", title="a title")
    return axes


def test_a_good_figure_passes(panel):
    panel.plot([1, 2, 3], [3, 1, 2], "o-", label="measured")
    legend(panel)
    panel.figure.suptitle("what the figure shows")
    check_figure(panel.figure)


def only_defect(panel, words):
    found = defects(panel.figure)
    assert found, f"not found: {words}"
    assert all(words in each for each in found), found
    with pytest.raises(AssertionError, match="the figure has defects"):
        check_figure(panel.figure)


def test_texts_on_each_other(panel):
    panel.text(0.5, 0.5, "first text")
    panel.text(0.52, 0.5, "second text")
    only_defect(panel, "overlap")


def test_tick_labels_on_each_other(panel):
    panel.set_xticks(np.linspace(0, 1, 40), [f"{x:.3f}" for x in np.linspace(0, 1, 40)])
    only_defect(panel, "overlap")


def test_a_title_that_leaves_the_canvas(panel):
    panel.figure.suptitle("a title that is far too long for a figure of this width " * 3)
    only_defect(panel, "leaves the canvas")


def test_a_legend_on_the_data(panel):
    panel.plot([0, 1], [0.9, 0.9], "o-", label="a line under its own legend")
    panel.set_ylim(0, 1)
    panel.legend(loc="upper center")
    only_defect(panel, "the legend of panel 'a title' lies on")


def test_a_legend_on_a_target_line(panel):
    panel.plot([1, 2], [1, 2], label="loss")
    panel.axhline(1.95, ls="--", label="target")
    panel.legend(loc="upper left")
    only_defect(panel, "lies on line")


def test_a_label_on_a_marker(panel):
    panel.plot([0, 1, 2], [0, 1, 0], "o")
    panel.text(1, 1, "the highest", ha="center", va="center", bbox=BOX)
    only_defect(panel, "lies on a marker")


def test_a_label_struck_through(panel):
    panel.plot([0, 2], [1, 1])
    panel.text(1, 1, "struck through", ha="center", va="center")
    only_defect(panel, "lies on line")


def test_a_label_with_a_box_may_lie_on_a_line(panel):
    panel.plot([0, 2], [1, 1])
    panel.text(1, 1, "in a box", ha="center", va="center", bbox=BOX)
    check_figure(panel.figure)


def test_a_label_on_a_scattered_marker(panel):
    panel.scatter([0, 1, 2], [0, 1, 0])
    panel.text(1, 1, "the highest", ha="center", va="center")
    only_defect(panel, "scatter")


def test_an_axis_with_one_number(panel):
    panel.plot([1, 2], [12, 66], "o")
    panel.set(yscale="log", ylim=(11, 101))
    panel.yaxis.set_minor_formatter("")
    only_defect(panel, "one number alone")
    log_axes(panel, "y")
    check_figure(panel.figure)


def test_an_offset(panel):
    panel.plot([1, 2], [1, 1 + 1e-8])
    panel.yaxis.get_major_formatter().set_useOffset(True)
    only_defect(panel, "offset")


def test_a_label_of_one_panel_on_another():
    figure, axes = new_figure(1, 2)
    figure.set_layout_engine("none")
    axes[0, 1].set_yticks([0, 1], ["a label longer than the gap"] * 2)
    assert any("not its own" in each for each in defects(figure))


def test_tick_labels_out_of_view_do_not_count(panel):
    panel.plot([0, 1], [0, 1])
    panel.set_xticks([0, 0.5, 1, 5, 5.0001])
    panel.set_xlim(-0.1, 1.1)
    check_figure(panel.figure)
