"""The recorded figures are drawn from the recorded tables, and nothing in them overlaps."""

import matplotlib.image
import numpy as np
import pytest

from experiments._lib import redraw
from tests.figure_checks import check_figure


@pytest.fixture(scope="module")
def figures():
    return redraw.figures()


@pytest.mark.slow
def test_recorded_figures_have_no_defects(figures):
    for figure in figures.values():
        check_figure(figure)


@pytest.mark.slow
def test_every_recorded_figure_is_drawn(figures):
    assert set(redraw.SHOWN.values()) <= set(figures)
    assert all((redraw.FOLDER / name).exists() for name in redraw.SHOWN)


@pytest.mark.slow
def test_b_star_can_be_read(figures):
    """The axis of B* = 52 … 66 had no tick with a number."""
    axis = figures["width_invariance_teacher_0.1"].axes[1].yaxis
    low, high = axis.get_view_interval()
    ticks = axis.get_majorticklocs()
    assert len(ticks[(ticks >= low) & (ticks <= high)]) >= 4


@pytest.mark.slow
def test_equal_steps_look_equal(monkeypatch):
    """Steps with micro-batches differ by 1e-8, which filled the axis."""
    monkeypatch.setattr(redraw, "TABLES", ("accumulation",))
    panel = redraw.figures()["accumulation_teacher"].axes[1]
    low, high = panel.get_ylim()
    assert high / low > 1.1
    np.testing.assert_allclose(panel.lines[0].get_ydata(), 1.0, rtol=1e-2)


def test_figures_for_dark_pages_are_those_that_are_recorded(tmp_path):
    """Black on white becomes light on dark, and a colour keeps its hue."""
    source, target = tmp_path / "light.png", tmp_path / "dark.png"
    matplotlib.image.imsave(source, np.array([[[1.0, 1, 1], [0, 0, 0], [0, 0.45, 0.7]]]))
    white, black, blue = matplotlib.image.imread(redraw.write_dark(source, target))[0, :, :3]
    np.testing.assert_allclose([white, black], [[0.1] * 3, [0.9] * 3], atol=0.01)
    assert blue[2] > blue[1] > blue[0]
    for name, dark in redraw.DARK.items():
        made = matplotlib.image.imread(redraw.write_dark(redraw.FOLDER / name, target))
        np.testing.assert_array_equal(made, matplotlib.image.imread(dark))
