"""From where to where lines, bands and axes go, and what stands where, in figures of which others test the contents."""

from types import SimpleNamespace

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory import plotting as plot
from sgdtheory.plotting.style import PlainFormatter
from tests.plotting.panels import bars_of, legend_of, points_of, replace_legends
from tests.plotting.test_fits import BATCHES, SIZES, groups_and_laws
from tests.plotting.test_library_figures import TRAINED, checked
from tests.plotting.test_looks import CRITICAL, losses, pareto, path, planned, published, scaled, schedule
from tests.runs import changed


@pytest.fixture(autouse=True)
def legends(monkeypatch):
    """Arguments of the legends that are not drawn."""
    found = []
    replace_legends(monkeypatch, *2 * [lambda *arguments, **options: found.append((*arguments[1:], options))])
    return found


def solid(axes):
    return [line.get_xydata() for line in axes.lines if line.get_linestyle() == "-" and len(line.get_xdata()) > 2]


def test_a_law_of_steps_is_drawn_to_its_critical_batch_size_or_the_last_measured(axes):
    groups, laws = groups_and_laws((1000, 30, 0), noise=0.0)
    plot.steps_laws(groups, laws, axes=axes)
    ends = [(line[0, 0], line[-1, 0]) for line in solid(axes)]
    last = laws[1].critical_batch_size(64)
    assert last > BATCHES[-1]
    np.testing.assert_allclose(ends, [(64, BATCHES[-1]), (64, last), (64, BATCHES[-1])])
    for line, law in zip(solid(axes), laws, strict=True):
        np.testing.assert_allclose(line[:, 1], law.predict(line[:, 0]) / law.predict(64))


def test_the_power_is_solid_exactly_over_the_sizes_measured(axes):
    _, laws = groups_and_laws()
    fit = st.fit_power_law(SIZES, [1000.0, 1500.0, 2000.0])
    plot.critical_batch_sizes(SIZES, laws, fit=fit, forecasts=[50.0, 100.0], axes=axes)
    measured = solid(axes)[0]
    assert measured[-1, 0] == 400
    assert 100 <= measured[0, 0] < 100 * 8 ** (1 / 199)
    low, high = fit.prediction_interval([50.0, 100.0], new_measurement=True)
    np.testing.assert_allclose([each.get_segments()[1][:, 1] for each in axes.collections[-1:]], [[low[1], high[1]]])
    (whole,) = solid(plot.critical_batch_sizes(SIZES, laws, fit=fit).axes[0])
    assert (whole.shape, whole[0, 0], whole[-1, 0]) == ((200, 2), 100, 400)


def test_an_interval_without_an_end_has_an_arrow_at_ten_times_its_critical_batch_size(axes):
    _, laws = groups_and_laws((30, 40, 50), noise=0.1, seed=1)
    plot.critical_batch_sizes(SIZES, laws, fit=st.fit_power_law(SIZES, [9e3, 1.2e4, 1.5e4]), axes=axes)
    expected = [(size, 10 * law.critical_batch_size()) for size, law in zip(SIZES, laws) if np.isinf(law.interval()[1])]
    np.testing.assert_allclose(np.concatenate(points_of(axes, "^")), expected)
    assert [bar[1] for bar in bars_of(axes)][:3].count(expected[0][1]) == 1


def test_the_useful_range_is_shown_up_to_six_overheads(axes, legends):
    """Data are relative to those at the optimum or the reference, whichever is the larger batch."""
    steps = 2 + 300 / BATCHES + 80000 / BATCHES**2
    group = st.fits.StepsMeasurement("one", 1.0, BATCHES, steps)
    law = st.fit_steps_law(BATCHES, steps, optimal_batch_size=True)
    plot.useful_range([group], [law], convention=st.Convention(1024, 0.1), axes=axes)
    unit = 1024 * law.predict(1024)
    np.testing.assert_allclose(points_of(axes, "o")[0], np.stack([BATCHES, BATCHES * steps / unit], axis=1))
    assert axes.get_ylim() == pytest.approx((0.9, 1.6))
    (level,) = (line for line in axes.lines if line.get_label() == "10% more data")
    assert level.get_ydata()[0] == 1.1
    assert solid(axes)[0][[0, -1], 0].tolist() == pytest.approx(
        [64, max(BATCHES[-1], law.critical_batch_size(1024, 0.1))]
    )
    assert legends == [({"corners": ("upper left", "upper center", "upper right")},)]


def test_a_legend_of_more_than_twelve_rows_lies_beneath(axes, legends):
    for number, expected in ((10, {}), (11, {"columns": 5})):
        groups = [st.fits.StepsMeasurement(f"{k}", np.nan, BATCHES, 9 + 3e4 / BATCHES) for k in range(number)]
        plot.steps_laws(groups, [st.fit_steps_law(BATCHES, each.steps) for each in groups])
        assert legends[-1][-1] == expected


def test_scaled_steps_have_bars_of_their_standard_errors():
    top, _ = scaled().axes
    for low, high in (segment[:, 1] for part in top.collections for segment in part.get_segments()):
        assert (high - low) / (high + low) == pytest.approx(0.02)


def test_settings_of_a_run_begin_with_zero_and_have_the_samples_of_the_risk(legends):
    risk, rate, batch = path().axes
    assert risk.get_xlim() == rate.get_xlim() == batch.get_xlim()
    assert (rate.get_ylim()[0], batch.get_ylim()[0]) == (0, 0)
    assert [each.xaxis.get_tick_params()["labelbottom"] for each in (risk, rate, batch)] == [False, False, True]
    heights = risk.get_gridspec().get_height_ratios()
    assert (heights, risk.figure.get_size_inches().tolist()) == ([3.4, 1.3, 1.3], pytest.approx([5.2, 6.0]))
    assert legends[-1][-1] == {"columns": 2}


@pytest.mark.parametrize(("size", "plain"), [(5e-4, True), (0.01, False), (9e4, False), (2e5, True)])
def test_settings_of_a_run_that_are_tiny_or_large_are_written_in_powers(size, plain):
    steps = np.arange(3.0)
    line = SimpleNamespace(total=1 + steps)
    run = SimpleNamespace(
        num_samples=steps, iterate=line, average=line, batch_size=1 + 0 * steps, learning_rate=size * steps / 2
    )
    _, rate = plot.risk_paths({"a" * 37: run}).axes
    assert isinstance(rate.yaxis.get_major_formatter(), PlainFormatter) == plain


def test_colours_and_bars_of_a_loss_grid():
    grid = losses()
    shown, curves, scale = plot.loss_grid(grid).axes
    worst = 100 * (max(each.ratios.max() for each in grid.degradations) - 1)
    assert shown.collections[0].get_clim() == pytest.approx((0, min(worst, 100)))
    assert scale.get_ylabel() == "loss above the best batch size's (%)"
    for each, bars in zip(grid.degradations, curves.collections, strict=True):
        ends = np.array([segment[:, 1] for segment in bars.get_segments()])
        np.testing.assert_allclose(ends, 100 * (each.intervals - 1), atol=1e-9)
    share, above = grid.degradations[0].share, np.concatenate([each.ratios for each in grid.degradations]) - 1
    top = min(above.max(), max(15 * share, np.quantile(above, 0.75)))
    assert curves.get_ylim() == pytest.approx((-10 * share, 110 * top))
    stars = np.concatenate(points_of(shown, "*"))
    data = [each.critical_batch_size * each.law.predict(each.critical_batch_size) for each in grid.targets]
    np.testing.assert_allclose(stars[:, 0], data)


def test_growth_and_overhead_have_room(legends):
    assert plot.data_overhead(CRITICAL).axes[0].get_ylim() == (0.8, 30)
    many = SimpleNamespace(**vars(CRITICAL) | {"overhead": 19.0})
    assert plot.data_overhead(many).axes[0].get_ylim() == (0.8, 40)
    low, high = plot.critical_growth(CRITICAL).axes[0].get_ylim()
    assert high / low >= 2


def test_bounds_are_shown_with_a_factor_of_three_around_them():
    figure = published()
    (axes,) = figure.axes
    rows = len(axes.get_yticks())
    assert figure.get_size_inches().tolist() == pytest.approx([7.2, 0.9 + 0.28 * rows])
    places = [line.get_xdata()[0] for line in axes.lines if len(line.get_xdata()) == 1]
    assert axes.get_xlim() == pytest.approx((min(0.1, min(places) / 3), max(10, 3 * max(places))))
    assert axes.get_ylim() == (rows - 0.5, -0.5)
    assert {text.get_position()[0] for text in axes.texts} == {0.01}


def test_schedules_are_drawn_over_the_whole_run():
    rates, batches, risks = schedule().axes
    best, cosine = (line.get_xydata() for line in rates.lines)
    np.testing.assert_allclose(best[[0, 500, -1]], [[0, 0.5], [0.5, 0.25], [1, 0]])
    np.testing.assert_allclose(cosine[[0, 500, -1]], [[0, 0.4], [0.5, 0.2], [1, 0]], atol=1e-12)
    assert rates.get_ylim() == (0, pytest.approx(0.65))
    assert [line.get_ydata()[-1] for line in batches.lines] == [12, 8]
    assert (risks.patches[0].get_width(), risks.patches[0].get_height()) == (1.25, 0.6)
    assert risks.get_xlim() == (0, pytest.approx(1.5))
    assert (risks.lines[0].get_xdata()[0], risks.texts[0].get_text()) == (1, "  1.25")


def test_the_law_of_steps_and_samples_ends_with_the_frontier():
    (axes,) = pareto().axes
    assert axes.get_title() == "To an excess risk of 0.05"
    (law, *_) = [line.get_xydata() for line in axes.lines if line.get_linestyle() == "--" and len(line.get_xdata())]
    np.testing.assert_allclose((law[:, 0] / 8 - 1) * (law[:, 1] / 100 - 1), 1)
    assert (law[:, 1] <= 900).all()
    assert (law[:, 0] <= 90).all()
    np.testing.assert_allclose([law[0, 1], law[-1, 0]], [900, 90], rtol=0.02)


def test_a_plan_has_bands_between_the_ends_of_its_intervals():
    found = planned()
    interval = np.array(found.choice.hours_interval) / found.choice.hours
    for axes in plot.run_plan(found).axes:
        star = next(line for line in axes.lines if line.get_label() == "choice").get_xydata()[0]
        corners = axes.collections[0].get_paths()[0].vertices
        nearest = corners[:, 0][np.abs(np.log(corners[:, 0] / star[0])).argmin()]
        band = corners[corners[:, 0] == nearest][:, 1] / star[1]
        assert (band.min(), band.max()) == pytest.approx(tuple(interval), rel=0.006)


def test_a_training_curve_begins_after_the_first_step_and_says_how_it_ended():
    (axes,) = plot.loss_curves(TRAINED["usual"]).axes
    assert axes.lines[0].get_xdata().tolist() == [1, 10, 100]
    assert ": 0.1 at step 100 (iterate)" in axes.get_title()


def test_slopes_that_are_allowed_are_shaded():
    """Within 0.3 of 0, but for the size of the output: up to −0.2, as it goes like w^−½."""
    check = checked(2, slope=1.0)
    figure = plot.coordinates(check)
    size, change, _ = figure.axes[3:]
    ends = [
        [part.get_paths()[0].get_extents() for part in axes.collections if part.get_alpha()] for axes in (size, change)
    ]
    assert [(each.y0, each.y1) for each in ends[1]] == [(-0.5, 0.5), (0.5, 1.5)]
    assert [(each.x0, each.x1) for each in ends[1]] == [(-0.3, 0.3)] * 2
    assert (ends[0][0].x1, ends[0][1].x1, ends[0][1].x0) == pytest.approx((0.3, -0.2, size.get_xlim()[0]))
    assert size.get_xlim()[0] <= -0.75
    assert size.get_xlim()[1] >= 0.75
    assert change.get_ylim() == (1.6, -0.6)
    assert np.diff(change.get_xticks()).tolist() == pytest.approx([0.5] * (len(change.get_xticks()) - 1))
    means = np.exp(np.log(check.values("change")[0]).mean(-1))
    (first, second) = (line.get_xydata() for line in figure.axes[1].lines)
    np.testing.assert_allclose(first[:, 1], means)
    np.testing.assert_allclose(second[:, 0] / first[:, 0], 4**0.02)
    np.testing.assert_allclose(first[:, 0], check.widths * 4**-0.01)


def test_powers_go_through_the_weighted_mean_and_curves_lie_side_by_side(axes):
    found = changed(st.size_dependence(groups_and_laws()[0]), standard_errors=np.array([0.1, 0.2, 0.4]))
    plot.size_dependence({"a": found, "b": found}, axes=axes)
    weights = np.array([16.0, 4.0, 1.0]) / 21
    mean = weights @ np.log(found.sizes), weights @ np.log(found.critical)
    for line in solid(axes):
        np.testing.assert_allclose(
            np.log(line[:, 1]) - mean[1], found.slope * (np.log(line[:, 0]) - mean[0]), atol=1e-9
        )
    for points, shift in zip(points_of(axes, "o") + points_of(axes, "s"), (-0.5, 0.5), strict=True):
        np.testing.assert_allclose(points[:, 0], np.array(SIZES) * 4 ** (0.015 * shift))


def grid_of(targets=(), best=np.nan):
    """A grid of two data sizes and three batch sizes, of which the worst is five times as bad as the best."""
    ratios = np.array([1.0, 1.5, 5.0])
    each = {"group": "", "batch_sizes": np.array([4.0, 8.0, 32.0]), "ratios": ratios, "share": 0.01}
    each |= {"intervals": ratios[:, None] * [0.9, 1.2], "batch_size": 6.0, "best_batch_size": best}
    tuned = SimpleNamespace(
        group="", samples=np.array([1e3, 4e3]), batch_sizes=each["batch_sizes"], state=np.full((3, 2), "inside", object)
    )
    tuned.state[2, 1] = "lowest rate"
    worse = tuple(SimpleNamespace(**each, samples=samples) for samples in tuned.samples)
    convention = st.Convention(4, 0.2)
    return SimpleNamespace(groups=(tuned,), degradations=worse, targets=targets, convention=convention, level=0.9)


def target_at(critical, smallest):
    law = SimpleNamespace(predict=lambda batch: 500 / batch)
    ends = {"critical_batch_size": critical, "smallest_batch_size": smallest, "optimal_batch_size": 8.0}
    return SimpleNamespace(group="", law=law, **ends)


def test_cells_of_a_map_meet_halfway_and_colours_end_at_a_hundred_per_cent(axes):
    plot.loss_map(grid_of([target_at(64.0, 5.0), target_at(np.inf, 0.0), target_at(10.0, 0.0)], best=5.0), axes=axes)
    (mesh,) = (each for each in axes.collections if hasattr(each, "get_coordinates"))
    corners = mesh.get_coordinates()
    np.testing.assert_allclose(corners[0, :, 0], [500, 2000, 8000])
    np.testing.assert_allclose(corners[:, 0, 1], [8**0.5, 32**0.5, 16, 64])
    assert mesh.get_clim() == (0, 100)
    labels = {line.get_label(): line for line in axes.lines}
    np.testing.assert_array_equal(labels["1% above the best"].get_xydata(), [[1e3, 6], [4e3, 6]])
    np.testing.assert_array_equal(labels["least loss"].get_xydata(), [[1e3, 5], [4e3, 5]])
    assert (labels["least loss"].get_linestyle(), labels["least loss"].get_linewidth()) == ("--", 1.6)
    np.testing.assert_array_equal(labels["best γ at an end of the grid"].get_xydata(), [[4e3, 32]])
    assert [each[0].tolist() for each in points_of(axes, "*")] == [[500, 64], [500, 10]]
    assert [each[0].tolist() for each in points_of(axes, "D")] == [[500, 8]]
    ranges = [line.get_xydata() for line in axes.lines if line.get_xdata().size == 2 and np.ptp(line.get_xdata()) == 0]
    np.testing.assert_allclose(ranges, [[[500, 5], [500, 64]]])
    assert {"$B^*$ (20% more data)", r"$B_{opt}$ and useful batch sizes"} <= set(labels)
    curves = plot.degradation(grid_of()).axes[0]
    assert curves.get_ylim() == pytest.approx((-0.1, 110 * np.quantile([0, 0, 0.5, 0.5, 4, 4], 0.75)))
    assert legend_of(curves)[-2:] == [r"$D = 1 \times 10^{3}$", r"$D = 4 \times 10^{3}$"]
    assert curves.get_title().endswith("bars: 90%")


def test_eight_pairs_of_a_joint_law_have_lines_and_stars_within_the_batch_sizes(axes):
    samples = np.repeat(np.arange(1.0, 16), 2)
    law = SimpleNamespace(
        sizes=np.ones(30), samples=samples, batch_sizes=np.tile([2.0, 8.0], 15), losses=samples,
        loss=lambda size, samples, batch: samples + 1 / np.asarray(batch),
        critical_batch_size=lambda size, samples: SimpleNamespace(batch_size=samples),
    )  # fmt: skip
    plot.joint_law(law, axes=axes)
    lines = solid(axes)
    assert [line[0, 1] - 0.5 for line in lines] == [1, 3, 5, 7, 9, 11, 13, 15]
    assert {(line.shape, line[0, 0], round(line[-1, 0], 9)) for line in lines} == {((61, 2), 2.0, 8.0)}
    assert [star[0].tolist() for star in points_of(axes, "*")] == [[3, 3 + 1 / 3], [5, 5.2], [7, 7 + 1 / 7]]


def test_marks_of_a_plan_end_with_its_batch_sizes():
    whole = planned()
    ends = whole.smallest_batch_size, whole.critical_batch_size
    low, high = np.array([1.05 * ends[0], 0.9 * ends[1]]).round()
    for found in (whole, st.plan(whole.law, 12, price=2, batch_sizes=(low, high))):
        axes = plot.run_plan(found).axes[1]
        spans = [part.get_window_extent().transformed(axes.transData.inverted()) for part in axes.patches]
        lines = {line.get_label(): line.get_xdata()[0] for line in axes.lines}
        useful = [(span.x0, span.x1) for span, part in zip(spans, axes.patches) if "useful" in part.get_label()]
        first, last = found.range
        inside = first < ends[0]
        assert ("smallest useful batch size" in lines) == inside == bool(useful)
        assert ("$B^*$, 20% more data" in lines) == (ends[1] <= last)
        assert (np.array([(span.x0, span.x1) for span in spans]) >= first * 0.999).all()
        assert (np.array([(span.x0, span.x1) for span in spans]) <= last * 1.001).all()
        if inside:
            assert lines["smallest useful batch size"] == ends[0]
            assert useful[0] == pytest.approx((ends[0], min(ends[1], last)))
