from dataclasses import replace

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory import plotting as plot
from tests.plotting.panels import legend_of, points_of


@pytest.fixture(scope="module")
def critical():
    """Two data sizes of a power law of 20 directions."""
    return st.critical_batch_size(st.PowerLaw(2, 3, 20), num_samples=[100.0, 50.0], overhead=0.4)


def test_overhead_has_a_line_and_a_star_for_each_data_size(axes, critical):
    plot.data_overhead(critical, axes=axes)
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert axes.get_xlabel() == "batch size $B$ (samples)"
    assert "relative to $D$" in axes.get_ylabel()
    star = "$B^*$, the largest $B$ that needs no more"
    assert legend_of(axes) == ["$D = 10^{2}$", "$D = 50$", "linear scaling", "40% more data", star]
    for curve, samples, label in zip(critical.curves, (100, 50), legend_of(axes)[:2], strict=True):
        (line,) = (line for line in axes.lines if line.get_label() == label)
        expected = np.stack([curve.batch_size, 1 + curve.overhead], axis=1)
        np.testing.assert_allclose(line.get_xydata(), expected, rtol=1e-12)
        assert curve.samples_needed[0] / samples == pytest.approx(1 + curve.overhead[0])
    for points, batch, steps, samples in zip(
        points_of(axes, "*"), critical.batch_size, critical.num_steps, (100, 50), strict=True
    ):
        np.testing.assert_allclose(points, [[batch, batch * steps / samples]], rtol=1e-12)
    levels = [line.get_ydata()[0] for line in axes.lines if len(line.get_xdata()) == 2 and line.get_xdata()[0] == 0]
    assert levels == [1.0, 1.4]
    axes.figure.draw_without_rendering()


@pytest.mark.slow
def test_overhead_of_a_single_data_size(axes):
    found = st.critical_batch_size(st.LeastSquares([1.0, 0.2], [1.0, 0.5]), num_samples=12)
    plot.data_overhead(found, axes=axes)
    star = "$B^*$, the largest $B$ that needs no more"
    assert legend_of(axes) == ["$D = 12$", "linear scaling", "20% more data", star]
    ((point,),) = points_of(axes, "*")
    np.testing.assert_allclose(point, [found.batch_size, found.batch_size * found.num_steps / 12])
    axes.figure.draw_without_rendering()


def test_a_critical_batch_size_beyond_its_curve_is_marked(axes):
    """Curves of methods that are not linear go through batch sizes of their own, B* not among them."""
    found = st.critical_batch_size(st.LeastSquares([1.0, 0.2], [1.0, 0.5]), num_samples=12)
    kept = found.curve.batch_size < found.batch_size
    shorter = replace(found.curve, **{name: values[kept] for name, values in vars(found.curve).items()})
    plot.data_overhead(replace(found, curves=(shorter,)), axes=axes)
    ((point,),) = points_of(axes, "*")
    np.testing.assert_allclose(point, [found.batch_size, found.batch_size * found.num_steps / 12])


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1]])
def test_growth_has_the_predicted_power_through_the_last_point(axes, order, critical):
    samples, sizes = np.array([1e3, 1e4, 1e6])[order], np.array([10.0, 20.0, 90.0])[order]
    found = replace(critical, num_samples=samples, real_batch_size=sizes)
    plot.critical_growth(found, exponent=1 / 3, axes=axes)
    np.testing.assert_array_equal(points_of(axes, "*")[0], np.stack([samples, sizes], axis=1))
    several = [
        replace(found, num_samples=each, real_batch_size=size) for each, size in zip(samples, sizes, strict=True)
    ]
    other = plot.critical_growth(several).axes[0]
    np.testing.assert_array_equal(points_of(other, "*")[0], np.stack([samples, sizes], axis=1))
    (line,) = (line for line in axes.lines if "Corollary 8" in str(line.get_label()))
    np.testing.assert_allclose(line.get_xydata(), [[1e3, 9.0], [1e6, 90.0]], rtol=1e-12)
    assert legend_of(axes) == ["$B^*$", "slope $D^{0.333}$ (Corollary 8), anchored at the last point"]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert axes.get_xlabel() == "data $D$ (samples)"


def test_a_figure_has_a_panel_for_each_that_there_is_to_see(critical):
    both = plot.critical_batch_size(critical, exponent=1 / 3, title="a power law")
    assert [panel.get_xlabel() for panel in both.axes] == ["batch size $B$ (samples)", "data $D$ (samples)"]
    assert both.get_suptitle() == "a power law"
    assert "(Corollary 8)" in legend_of(both.axes[1])[1]
    (growth,) = plot.critical_batch_size(replace(critical, curves=())).axes
    assert legend_of(growth) == ["$B^*$"]
    single = st.critical_batch_size(st.LeastSquares([1.0, 0.2], [1.0, 0.5]), num_samples=12)
    (overhead,) = plot.critical_batch_size(single).axes
    assert "relative to $D$" in overhead.get_ylabel()


def test_curves_that_were_not_computed(critical):
    with pytest.raises(ValueError, match="curves were not computed, got curve=False"):
        plot.data_overhead(replace(critical, curves=()))
    single = replace(critical, curves=(), num_samples=12.0)
    with pytest.raises(ValueError, match="call critical_batch_size with curve=True"):
        plot.critical_batch_size(single)
