import subprocess
import sys

import matplotlib
import numpy as np
import pytest
from matplotlib.collections import FillBetweenPolyCollection, LineCollection
from matplotlib.colors import to_rgb

import sgdtheory as st
from sgdtheory import plotting

BATCHES = 2.0 ** np.arange(6, 15)
SIZES = [100.0, 200.0, 400.0]
WITHOUT_PYPLOT = """
import sys
import matplotlib
before = dict(dict.items(matplotlib.rcParams))
import sgdtheory as st
from sgdtheory import plotting
groups = st.example_measurements()
laws = [st.fit_steps_law(group.batch_sizes, group.steps) for group in groups]
figure, axes = plotting.new_figure()
plotting.plot_steps_laws(axes[0, 0], groups, laws)
plotting.save_figure(figure, sys.argv[1])
assert dict(dict.items(matplotlib.rcParams)) == before
assert "matplotlib.pyplot" not in sys.modules
"""


def groups_and_laws(plateaus=(1000, 1500, 2000), *, slope=2e6, noise=0.05, seed=0):
    rng = np.random.default_rng(seed)
    groups = [
        st.StepsMeasurement(
            f"{size:g}M",
            size,
            BATCHES,
            (a + slope * size / 100 / BATCHES) * np.exp(noise * rng.standard_normal(9)),
        )
        for size, a in zip(SIZES, plateaus, strict=True)
    ]
    return groups, [st.fit_steps_law(group.batch_sizes, group.steps) for group in groups]


@pytest.fixture(autouse=True)
def _untouched():
    """No test of this file may leave a trace in Matplotlib's global state."""
    before = dict(dict.items(matplotlib.rcParams))
    yield
    assert dict(dict.items(matplotlib.rcParams)) == before


@pytest.fixture
def axes():
    return plotting.new_figure()[1][0, 0]


def legend_of(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def points_of(axes, marker):
    """The data of the lines with this marker; the empty ones of the legend left out."""
    return [line.get_xydata() for line in axes.lines if line.get_marker() == marker and line.get_xydata().size]


def bars_of(axes):
    """Ends (low, high) of each error bar."""
    bars = [part for part in axes.collections if isinstance(part, LineCollection)]
    return [part.get_segments()[0][:, 1] for part in bars if part.get_segments()]


# ------------------------------------------------------------------ figures and files


def test_new_figure_has_its_axes():
    figure, axes = plotting.new_figure(2, 3, width=2.0, height=1.5)
    assert axes.shape == (2, 3)
    assert figure.axes == list(axes.flat)
    assert tuple(figure.get_size_inches()) == (6.0, 3.0)
    assert not axes[0, 0].spines["top"].get_visible()


def test_save_figure_writes_png_and_pdf(tmp_path):
    figure, axes = plotting.new_figure()
    axes[0, 0].plot([1, 2], [3, 4])
    png, pdf = plotting.save_figure(figure, tmp_path / "new" / "figure")
    assert (png.name, pdf.name) == ("figure.png", "figure.pdf")
    assert png.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert pdf.read_bytes().startswith(b"%PDF-")
    assert pdf.read_bytes().rstrip().endswith(b"%%EOF")
    assert sorted(path.name for path in png.parent.iterdir()) == ["figure.pdf", "figure.png"]


def test_save_figure_in_one_format(tmp_path):
    (written,) = plotting.save_figure(plotting.new_figure()[0], str(tmp_path / "figure.svg"), ["svg"])
    assert written == tmp_path / "figure.svg"
    assert "<svg" in written.read_text()


def test_unknown_format_writes_nothing(tmp_path):
    with pytest.raises(ValueError, match="Format 'xyz' is not supported"):
        plotting.save_figure(plotting.new_figure()[0], tmp_path / "figure", ["xyz"])
    assert list(tmp_path.iterdir()) == []


def test_settings_are_restored_after_a_failure(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        plotting.save_figure(plotting.new_figure()[0], tmp_path / "file" / "figure")


def test_neither_pyplot_nor_global_settings(tmp_path):
    command = [sys.executable, "-c", WITHOUT_PYPLOT, str(tmp_path / "figure")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "figure.png").exists()


@pytest.mark.parametrize("number", [1, 2, 9])
def test_colors_are_distinct_and_get_lighter(number):
    found = plotting.colors(number)
    assert found.shape == (number, 4)
    lightness = [np.dot(to_rgb(color), (0.2126, 0.7152, 0.0722)) for color in found]
    assert (np.diff(lightness) > 0).all()


# ------------------------------------------------------------------ steps against batch size


def test_steps_laws_are_labelled(axes):
    plotting.plot_steps_laws(axes, *groups_and_laws())
    assert axes.get_xlabel() == "batch size $B$"
    assert axes.get_ylabel() == "steps to target / steps at $B=256$"
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert legend_of(axes) == ["100M", "200M", "400M", "linear scaling", "$B^*$ (20% overhead)"]


def test_steps_laws_show_measurements_and_critical_batch_sizes(axes):
    groups, laws = groups_and_laws()
    plotting.plot_steps_laws(axes, groups, laws, reference=128, overhead=0.5)
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


def test_infinite_critical_batch_size_has_no_star(axes, tmp_path):
    groups, laws = groups_and_laws((0, 1500, 2000), noise=0.0)
    assert laws[0].critical_batch_size() == np.inf
    plotting.plot_steps_laws(axes, groups, laws)
    assert len(points_of(axes, "*")) == 2
    plotting.save_figure(axes.figure, tmp_path / "figure")


def test_a_law_for_each_measurement(axes):
    groups, laws = groups_and_laws()
    with pytest.raises(ValueError, match="zip"):
        plotting.plot_steps_laws(axes, groups[:2], laws)


# ------------------------------------------------------------------ B* against size


def test_critical_batch_sizes_are_labelled(axes, tmp_path):
    _, laws = groups_and_laws()
    fit = st.fit_power_law(SIZES, [law.critical_batch_size() for law in laws])
    plotting.plot_critical_batch_sizes(axes, SIZES, laws, fit)
    assert axes.get_xlabel() == "model size $N$"
    assert axes.get_ylabel() == "critical batch size $B^*$"
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    law, *bands, markers = legend_of(axes)
    assert markers == "$B^*$, 95%"
    assert law.startswith("$B^* = ")
    assert f"N^{{{fit.exponent:.3f}}}" in law
    assert f"{fit.coefficient:.4g}" in law
    assert bands == ["95%, new measurement", "95%, the law"]
    plotting.save_figure(axes.figure, tmp_path / "figure")


def test_critical_batch_sizes_with_their_intervals(axes):
    _, laws = groups_and_laws()
    fit = st.fit_power_law(SIZES, [1000.0, 1500.0, 2000.0])
    plotting.plot_critical_batch_sizes(
        axes, SIZES, laws, fit, reference=128, overhead=0.5, forecasts=[1e3, 1e4], size_label="data size $D$"
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


def test_two_points_have_no_bands(axes, tmp_path):
    _, laws = groups_and_laws()
    fit = st.fit_power_law(SIZES[:2], [1000.0, 1500.0])
    plotting.plot_critical_batch_sizes(axes, SIZES[:2], laws[:2], fit)
    assert not any(isinstance(part, FillBetweenPolyCollection) for part in axes.collections)
    assert len(legend_of(axes)) == 2
    plotting.save_figure(axes.figure, tmp_path / "figure")


def test_perfect_data_can_be_plotted(axes, tmp_path):
    _, laws = groups_and_laws(noise=0.0)
    plotting.plot_critical_batch_sizes(axes, SIZES, laws, st.fit_power_law(SIZES, [900.0, 1000.0, 1200.0]))
    written = plotting.save_figure(axes.figure, tmp_path / "figure")
    assert all(path.stat().st_size > 1000 for path in written)


def test_flat_steps_can_be_plotted(axes, tmp_path):
    """b = 0 is the end of its own interval."""
    _, laws = groups_and_laws(slope=0.0, noise=0.0)
    plotting.plot_critical_batch_sizes(axes, SIZES, laws, st.fit_power_law(SIZES, [300.0, 310.0, 320.0]))
    written = plotting.save_figure(axes.figure, tmp_path / "figure")
    assert all(path.stat().st_size > 1000 for path in written)


def test_unlimited_end_of_an_interval_still_has_a_bar(axes, tmp_path):
    """The bar has to rise from the lower end at least to B*, not to vanish with its upper end."""
    _, laws = groups_and_laws((30, 40, 50), noise=0.1, seed=1)
    critical, intervals = [law.critical_batch_size() for law in laws], [law.interval() for law in laws]
    unlimited = [k for k in range(3) if np.isfinite(critical[k]) and np.isinf(intervals[k][1])]
    assert unlimited
    plotting.plot_critical_batch_sizes(axes, SIZES, laws, st.fit_power_law(SIZES, [9e3, 1.2e4, 1.5e4]))
    plotting.save_figure(axes.figure, tmp_path / "figure")
    for k in unlimited:
        low, high = bars_of(axes)[k]
        assert low == pytest.approx(intervals[k][0])
        assert critical[k] <= high < np.inf


def test_names_from_files_are_plain_text():
    assert plotting.plain_label("$x_1$ a_b") == r"\$x_1\$ a_b"
    assert plotting.plain_label("_small").lstrip("\u200b") == "_small"
    assert not plotting.plain_label("_small").startswith("_")


def test_a_dot_in_a_figures_name_is_kept(tmp_path):
    figure, _ = plotting.new_figure()
    written = plotting.save_figure(figure, tmp_path / "alpha_1.3")
    assert [path.name for path in written] == ["alpha_1.3.png", "alpha_1.3.pdf"]


# ------------------------------------------------------------------ the exact critical batch size


@pytest.fixture(scope="module")
def critical():
    """Two data sizes of a power law of 20 directions."""
    return st.critical_batch_size(st.PowerLaw(2, 3, 20), num_samples=[100.0, 50.0], overhead=0.4)


def test_overhead_has_a_line_and_a_star_for_each_data_size(axes, critical, tmp_path):
    plotting.plot_overhead(axes, critical)
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert axes.get_xlabel() == "batch size $B$ (samples)"
    assert "over $D$" in axes.get_ylabel()
    star = "$B^*$: the largest within it"
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
    assert all(path.stat().st_size > 1000 for path in plotting.save_figure(axes.figure, tmp_path / "figure"))


def test_overhead_of_a_single_data_size(axes, tmp_path):
    found = st.critical_batch_size(st.LeastSquares([1.0, 0.2], [1.0, 0.5]), num_samples=12)
    plotting.plot_overhead(axes, found)
    assert legend_of(axes) == ["$D = 12$", "linear scaling", "20% more data", "$B^*$: the largest within it"]
    ((point,),) = points_of(axes, "*")
    np.testing.assert_allclose(point, [found.batch_size, found.batch_size * found.num_steps / 12])
    plotting.save_figure(axes.figure, tmp_path / "figure")


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1]])
def test_growth_has_the_predicted_power_through_the_last_point(axes, order):
    samples, sizes = np.array([1e3, 1e4, 1e6])[order], np.array([10.0, 20.0, 90.0])[order]
    plotting.plot_critical_growth(axes, samples, sizes, 1 / 3)
    np.testing.assert_array_equal(points_of(axes, "*")[0], np.stack([samples, sizes], axis=1))
    (line,) = (line for line in axes.lines if line.get_label().startswith("Corollary 8"))
    np.testing.assert_allclose(line.get_xydata(), [[1e3, 9.0], [1e6, 90.0]], rtol=1e-12)
    assert legend_of(axes) == ["$B^*$, exact risk", "Corollary 8: $\\propto D^{0.333}$, through the last"]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert axes.get_xlabel() == "data $D$ (samples)"


@pytest.mark.parametrize(
    ("value", "label"),
    [(10, "10^{1}"), (1e12, "10^{12}"), (1e-3, "10^{-3}"), (1, "10^{0}"), (500, "500"), (2.5e3, "2500"), (9.9, "9.9")],
)
def test_powers_of_ten_are_written_as_such(value, label):
    assert plotting.power_of_ten(value) == label
