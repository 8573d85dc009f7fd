"""Contents of the figure of loss curves: drawn numbers, and words."""

import numpy as np
import pytest
from matplotlib.colors import to_rgba

import sgdtheory as st
from sgdtheory.curves.figure import curves_figure


@pytest.fixture(scope="module")
def curves():
    step = np.arange(10, 3010, 10)
    losses = 3 + step**-0.5, 3 + 2 * step**-0.5
    return [st.LossCurve(step, 0.1, loss, name=name) for loss, name in zip(losses, ("one", ""), strict=True)]


@pytest.fixture(scope="module")
def figure(curves):
    return curves_figure(curves, [1.01 * curves[0].loss, 0.98 * curves[1].loss], 1, "runs")


def test_there_are_two_panels_with_words(figure):
    above, below = figure.axes
    assert figure.get_suptitle() == "runs"
    assert above.get_xlabel() == below.get_xlabel() == "step $t$"
    assert above.get_ylabel() == "loss (points: measured; lines: theory)"
    assert below.get_ylabel() == "theory over measured − 1 (%)"
    assert (above.get_xscale(), above.get_yscale(), below.get_xscale(), below.get_yscale()) == (*["log"] * 3, "linear")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["one (fitted)", "run (predicted)"]


def test_measured_points_and_expected_lines(figure, curves):
    """Points from the first row to the last; open where nothing was fitted."""
    lines = figure.axes[0].lines
    for points, line, curve, share in zip(lines[::2], lines[1::2], curves, (1.01, 0.98), strict=True):
        x, y = points.get_data()
        assert (x[0], x[-1]) == (10, 3000)
        assert 20 < x.size <= 60
        np.testing.assert_allclose(y, curve.loss[np.isin(curve.step, x)])
        np.testing.assert_allclose(line.get_data(), [curve.step, share * curve.loss])
        assert to_rgba(points.get_color()) == to_rgba(line.get_color())
    assert to_rgba(lines[0].get_markerfacecolor()) == to_rgba(lines[0].get_color())
    assert lines[2].get_markerfacecolor() == "none"


def test_what_is_left_in_percent(figure, curves):
    *residuals, zero = figure.axes[1].lines
    for points, percent, curve in zip(residuals, (1, -2), curves, strict=True):
        x, y = points.get_data()
        assert np.isin(x, curve.step).all()
        np.testing.assert_allclose(y, percent, rtol=1e-9)
    np.testing.assert_array_equal(zero.get_ydata(), [0, 0])
