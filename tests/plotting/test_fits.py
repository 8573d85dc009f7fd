import numpy as np
import pytest
from matplotlib.collections import FillBetweenPolyCollection

import sgdtheory as st
from sgdtheory import plotting as plot
from tests.plotting.panels import bars_of, legend_of, points_of

BATCHES = 2.0 ** np.arange(6, 15)
SIZES = [100.0, 200.0, 400.0]


def groups_and_laws(plateaus=(1000, 1500, 2000), *, slope=2e6, noise=0.05, seed=0):
    rng = np.random.default_rng(seed)
    groups = [
        st.fits.StepsMeasurement(
            f"{size:g}M", size, BATCHES, (a + slope * size / 100 / BATCHES) * np.exp(noise * rng.standard_normal(9))
        )
        for size, a in zip(SIZES, plateaus, strict=True)
    ]
    return groups, [st.fit_steps_law(group.batch_sizes, group.steps) for group in groups]


# ------------------------------------------------------------------ steps against batch size


def test_steps_laws_are_labelled(axes):
    plot.steps_laws(*groups_and_laws(), axes=axes)
    assert axes.get_xlabel() == "batch size $B$"
    assert axes.get_ylabel() == "steps to target / steps at $B=64$"
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert legend_of(axes) == ["100M", "200M", "400M", "linear scaling", "$B^*$ (20% overhead)"]


def test_steps_laws_show_measurements_and_critical_batch_sizes(axes):
    groups, laws = groups_and_laws()
    plot.steps_laws(groups, laws, convention=st.Convention(128, 0.5), axes=axes)
    assert "$B^*$ (50% overhead)" in legend_of(axes)
    assert "B=128" in axes.get_ylabel()
    units = [law.a + law.b / 128 for law in laws]
    for points, group, unit in zip(points_of(axes, "o"), groups, units, strict=True):
        np.testing.assert_allclose(points, np.stack([BATCHES, group.steps / unit], axis=1), rtol=1e-12)
    for points, law, unit in zip(points_of(axes, "*"), laws, units, strict=True):
        critical = 0.5 * law.b / law.a + 1.5 * 128
        np.testing.assert_allclose(points, [[critical, (law.a + law.b / critical) / unit]], rtol=1e-12)
    (linear,) = (line for line in axes.lines if line.get_label() == "linear scaling")
    np.testing.assert_allclose(linear.get_xydata(), [[64, 2], [16384, 128 / 16384]], rtol=1e-12)


def test_scaled_steps_lie_on_one_curve():
    groups, laws = groups_and_laws(noise=0.0)
    figure = plot.scaled_steps(groups, laws, names={"100M": "small"})
    top, bottom = figure.axes
    for marker in "os^":
        (points,), (off,) = points_of(top, marker), points_of(bottom, marker)
        np.testing.assert_allclose(points[:, 1], 1 + 1 / points[:, 0], rtol=1e-9)
        np.testing.assert_allclose(off[:, 1], 0, atol=1e-9)
    (below,) = figure.legends
    assert [text.get_text() for text in below.get_texts()] == ["$1 + 1/x$", "small", "200M", "400M"]


def test_scaled_steps_need_both_terms():
    groups, laws = groups_and_laws((0, 1500, 2000), noise=0.0)
    with pytest.raises(ValueError, match="laws must have α = 1 and both terms"):
        plot.scaled_steps(groups, laws)


def test_infinite_critical_batch_size_has_no_star(axes):
    groups, laws = groups_and_laws((0, 1500, 2000), noise=0.0)
    assert laws[0].critical_batch_size() == np.inf
    plot.steps_laws(groups, laws, axes=axes)
    assert len(points_of(axes, "*")) == 2
    axes.figure.draw_without_rendering()


def test_a_law_for_each_measurement(axes):
    groups, laws = groups_and_laws()
    with pytest.raises(ValueError, match="zip"):
        plot.steps_laws(groups[:2], laws, axes=axes)


def test_without_a_reference_it_is_the_smallest_batch_size(axes):
    groups, laws = groups_and_laws()
    plot.steps_laws(groups, laws, convention=st.Convention(None), axes=axes)
    assert "B=64" in axes.get_ylabel()
    for points, law in zip(points_of(axes, "*"), laws, strict=True):
        np.testing.assert_allclose(points[0][0], 0.2 * law.b / law.a + 1.2 * 64, rtol=1e-12)


# ------------------------------------------------------------------ B* against size


def test_critical_batch_sizes_are_labelled(axes):
    _, laws = groups_and_laws()
    fit = st.fit_power_law(SIZES, [law.critical_batch_size() for law in laws])
    plot.critical_batch_sizes(SIZES, laws, fit=fit, axes=axes)
    assert axes.get_xlabel() == "model size $N$"
    assert axes.get_ylabel() == "critical batch size $B^*$"
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    law, *bands, markers = legend_of(axes)
    assert markers == "$B^*$, 95%"
    assert law.startswith("$B^* = ")
    assert f"N^{{{fit.exponent:.3f}}}" in law
    assert f"{fit.coefficient:.4g}" in law
    assert bands == ["95%, new measurement", "95%, the law"]
    (solid,) = (line.get_xdata() for line in axes.lines if line.get_label().startswith("$B^* = "))
    assert (min(SIZES), max(SIZES)) == pytest.approx((solid.min(), solid.max()), rel=0.05)
    axes.figure.draw_without_rendering()


def test_critical_batch_sizes_with_their_intervals(axes):
    _, laws = groups_and_laws()
    fit = st.fit_power_law(SIZES, [1000.0, 1500.0, 2000.0])
    plot.critical_batch_sizes(
        SIZES,
        laws,
        fit=fit,
        axes=axes,
        convention=st.Convention(128, 0.5),
        forecasts=[1e3, 1e4],
        size_label="data size $D$",
    )
    assert axes.get_xlabel() == "data size $D$"
    for points, bar, law, size in zip(points_of(axes, "*"), bars_of(axes)[:3], laws, SIZES, strict=True):
        np.testing.assert_allclose(points, [[size, 0.5 * law.b / law.a + 1.5 * 128]], rtol=1e-12)
        np.testing.assert_allclose(bar, law.interval(reference=128, overhead=0.5), rtol=1e-12)
    whole, measured = (line for line in axes.lines if len(line.get_xdata()) > 2)
    assert (whole.get_linestyle(), measured.get_linestyle()) == ("--", "-")
    assert (measured.get_xdata()[0], measured.get_xdata()[-1]) == pytest.approx((100, 400), rel=0.03)
    grid, values = np.asarray(whole.get_xydata()).T
    assert (grid[0], grid[-1]) == pytest.approx((100, 1e4))
    np.testing.assert_allclose(values, fit.coefficient * grid**fit.exponent, rtol=1e-12)
    np.testing.assert_allclose(points_of(axes, "D")[0], np.stack([[1e3, 1e4], fit.predict([1e3, 1e4])], axis=1))
    assert "forecast, 95%" in legend_of(axes)
    outer, inner = (part for part in axes.collections if isinstance(part, FillBetweenPolyCollection))
    for band, new in ((outer, True), (inner, False)):
        low, high = fit.prediction_interval(1e4, new_measurement=new)
        corners = np.asarray(band.get_paths()[0].vertices)
        assert np.ptp(np.log(corners[np.isclose(corners[:, 0], 1e4)][:, 1])) == pytest.approx(np.log(high / low))


@pytest.mark.slow
def test_two_points_have_no_bands(axes):
    _, laws = groups_and_laws()
    fit = st.fit_power_law(SIZES[:2], [1000.0, 1500.0])
    plot.critical_batch_sizes(SIZES[:2], laws[:2], fit=fit, axes=axes)
    assert not any(isinstance(part, FillBetweenPolyCollection) for part in axes.collections)
    assert len(legend_of(axes)) == 2
    axes.figure.draw_without_rendering()


@pytest.mark.parametrize(("slope", "critical"), [(2e6, [900.0, 1000.0, 1200.0]), (0.0, [300.0, 310.0, 320.0])])
def test_perfect_data_can_be_plotted(axes, slope, critical):
    """Flat steps can be plotted too: b = 0 is the end of its own interval."""
    _, laws = groups_and_laws(slope=slope, noise=0.0)
    plot.critical_batch_sizes(SIZES, laws, fit=st.fit_power_law(SIZES, critical), axes=axes)
    axes.figure.draw_without_rendering()
    assert len(points_of(axes, "*")) == 3


def test_unlimited_end_of_an_interval_still_has_a_bar(axes):
    """The bar has to rise from the lower end at least to B*, not to vanish with its upper end."""
    _, laws = groups_and_laws((30, 40, 50), noise=0.1, seed=1)
    critical, intervals = [law.critical_batch_size() for law in laws], [law.interval() for law in laws]
    unlimited = [k for k in range(3) if np.isfinite(critical[k]) and np.isinf(intervals[k][1])]
    assert unlimited
    plot.critical_batch_sizes(SIZES, laws, fit=st.fit_power_law(SIZES, [9e3, 1.2e4, 1.5e4]), axes=axes)
    axes.figure.draw_without_rendering()
    for k in unlimited:
        low, high = bars_of(axes)[k]
        assert low == pytest.approx(intervals[k][0])
        assert critical[k] <= high < np.inf


@pytest.mark.slow
def test_without_a_fit_it_is_that_of_the_laws():
    _, laws = groups_and_laws()
    fit = st.fit_power_law(SIZES, [law.critical_batch_size(128, 0.5) for law in laws])
    given = plot.critical_batch_sizes(SIZES, laws, fit=fit, convention=st.Convention(128, 0.5))
    found = plot.critical_batch_sizes(SIZES, laws, convention=st.Convention(128, 0.5))
    assert legend_of(found.axes[0]) == legend_of(given.axes[0])


# ------------------------------------------------------------------ a figure of each result


def test_every_result_draws_into_a_panel_or_a_figure_of_its_own():
    groups, laws = groups_and_laws()
    found = st.size_dependence(groups)
    figure, axes = st.plot.new_figure(1, 3)
    draw = [
        lambda axes: st.plot.steps_laws(groups, laws, axes=axes),
        lambda axes: st.plot.critical_batch_sizes(SIZES, laws, axes=axes),
        lambda axes: st.plot.size_dependence(found, size_label="width", axes=axes),
    ]
    for each, panel in zip(draw, axes[0], strict=True):
        assert each(panel) is figure
        own = each(None)
        assert own is not figure
        assert legend_of(own.axes[0]) == legend_of(panel)


@pytest.mark.slow
def test_a_single_size_dependence_has_no_label():
    groups, _ = groups_and_laws()
    found = st.size_dependence(groups)
    (single,) = legend_of(st.plot.size_dependence(found).axes[0])
    (named,) = legend_of(st.plot.size_dependence({"loss 1": found}).axes[0])
    assert named == f"loss 1: {single}"
    assert single.startswith("slope ")


def test_plot_is_the_plotting_wing():
    assert st.plot is plot
    assert "plot" in dir(st)


# ------------------------------------------------------------------ the useful range


def test_the_useful_range_is_thick_between_its_ends(axes):
    steps = 2 + 300 / BATCHES + 80000 / BATCHES**2
    group = st.fits.StepsMeasurement("one", 1.0, BATCHES, steps)
    law = st.fit_steps_law(BATCHES, steps, optimal_batch_size=True)
    plot.useful_range([group], [law], axes=axes)
    ((best, least),) = points_of(axes, "D")[0]
    assert best == pytest.approx(200, rel=1e-6)
    assert least == pytest.approx(1, rel=1e-9)
    ((end, level),) = points_of(axes, "*")[0]
    assert (end, level) == pytest.approx((law.critical_batch_size(), 1.2), rel=1e-9)
    thick = max(axes.lines, key=lambda line: line.get_linewidth()).get_xydata()
    assert thick[:, 0].min() == pytest.approx(law.smallest_batch_size(), rel=0.03)
    assert thick[:, 0].max() == pytest.approx(law.critical_batch_size(), rel=0.03)
    assert thick[:, 1].max() == pytest.approx(1.2, rel=0.01)
    assert axes.get_xlabel() == "batch size $B$"
    assert legend_of(axes) == ["one", "20% more data", r"$B_{opt}=\sqrt{c/a}$", "$B^*$"]


def test_a_useful_range_without_ends_is_drawn(axes):
    """Neither an optimum inside nor a plateau."""
    groups = [st.fits.StepsMeasurement("falls", 1.0, BATCHES, 3e5 / BATCHES + 2e6 / BATCHES**2)]
    groups.append(st.fits.StepsMeasurement("no c", 1.0, BATCHES, 2 + 300 / BATCHES))
    laws = [st.fit_steps_law(BATCHES, each.steps, optimal_batch_size=True) for each in groups]
    plot.useful_range(groups, laws, axes=axes)
    assert not [each for each in points_of(axes, "D") if len(each)]
    assert len(legend_of(axes)) == 5


def test_groups_without_sizes_are_all_named(axes):
    """Thirteen benchmarks: eight were named, in colours of an order that they do not have."""
    groups = st.example_measurements("mlperf")
    laws = [st.fit_steps_law(each.batch_sizes, each.steps, optimal_batch_size=True) for each in groups]
    figure = plot.useful_range(groups, laws, axes=axes)
    (below,) = figure.legends
    assert [text.get_text() for text in below.get_texts()][: len(groups)] == [each.group for each in groups]
    points = [line for line in axes.lines if line.get_label() in {each.group for each in groups}]
    assert len({(line.get_color(), line.get_marker()) for line in points}) == len(groups)
