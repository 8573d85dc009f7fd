"""Which panel shows what, and to which ends: without the legends, whose places take longer than all else to find."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory import plotting as plot
from sgdtheory.fits.rate_law import BestRates, RateLaw
from sgdtheory.risk import Risk
from sgdtheory.sweep import SweepFits
from tests.plotting.panels import bars_of, points_of, replace_legends
from tests.plotting.test_fits import groups_and_laws
from tests.sweep.test_power import pilot


@pytest.fixture(autouse=True)
def legends(monkeypatch):
    """The panels that would have a legend."""
    found = []
    replace_legends(
        monkeypatch,
        lambda axes, *arguments, **options: found.append(axes),
        lambda figure, axes, *arguments, **options: found.append(axes),
    )
    return found


def line_of(axes, label):
    (found,) = (line for line in axes.lines if line.get_label() == label)
    return found.get_xydata()


def test_risks_are_shown_from_a_thirtieth_of_the_least_on(axes):
    risk = Risk(np.array([1e-9, 1e-3, 1.0]), np.array([0.5, 0.02, np.inf]), np.zeros(3))
    plot.risk_against_learning_rate({"one": ([0.1, 0.2, 0.3], risk)}, edges={"one": 0.25}, axes=axes)
    np.testing.assert_allclose(axes.get_ylim(), (0.021 / 30, 2 * 0.5))
    np.testing.assert_array_equal(line_of(axes, "one")[:, 1], risk.total)
    np.testing.assert_array_equal(line_of(axes, "its bias")[:, 1], risk.bias)
    assert [line.get_xdata()[0] for line in axes.lines if line.get_label().startswith("_")] == [0.25]


def test_risks_of_a_run_are_drawn_into_panels_of_yours(axes, legends):
    path = st.risk_path(st.PowerLaw(2, 3), batch_size=4, learning_rate=0.5, num_samples=400, points=9)
    assert plot.risk_paths({"sgd": path}, axes=axes).axes == legends == [axes]
    assert axes.get_xlabel() == "samples $D$"
    np.testing.assert_array_equal(line_of(axes, "sgd")[:, 1], path.average.total[1:])


class Curve:
    def predict(self, batch_size):
        return 2000 + 3e6 / np.asarray(batch_size)


def test_a_plan_has_its_time_and_its_cost():
    plan = st.plan(Curve(), 12, batch_sizes=(64, 4096), price=2.5, deadline=4)
    time, cost = plot.run_plan(plan, currency="USD").axes
    choice = plan.choice
    np.testing.assert_allclose(line_of(time, "choice"), [[choice.batch_size, choice.hours]])
    np.testing.assert_allclose(line_of(cost, "choice"), [[choice.batch_size, choice.device_hours * 2.5]])
    for panel, expected in ((time, choice.hours), (cost, choice.device_hours * 2.5)):
        curve = line_of(panel, "by the law of steps")
        assert np.interp(choice.batch_size, *curve.T) == pytest.approx(expected, rel=0.01)
    assert line_of(time, "deadline")[0, 1] == 4
    assert cost.get_ylabel() == "cost (USD)"


def test_best_rates_and_bounds_are_drawn_by_duration(axes):
    """One point known, one bound from above and one from below at each of two durations."""
    log_samples = np.log(np.repeat([1e4, 1e5], 3))
    log_batch, side = np.log(np.tile([8.0, 32.0, 128.0], 2)), np.tile([0, -1, 1], 2)
    log_rate = np.arange(6.0)
    zeros = np.zeros(6)
    rates = BestRates(zeros.astype(int), log_batch, log_samples, zeros, log_rate, side, zeros)
    law = RateLaw(np.array([-2.0]), 0.3, 0.5, np.log(40.0), 0.4, 0.0, -3.0, 3.0, np.log(1e4))
    plot.best_rates(SimpleNamespace(rates=rates, law=law, has_kink=True), axes=axes)
    for marker, code in (("o", 0), ("v", -1), ("^", 1)):
        expected = np.exp(np.stack([log_batch, log_rate], axis=1)[side == code])
        np.testing.assert_allclose(np.concatenate(points_of(axes, marker)), expected)
    stars = np.concatenate(points_of(axes, "*"))
    np.testing.assert_allclose(stars[np.isfinite(stars).all(1), 0], 40 * np.array([1, 10**0.4]))


@pytest.mark.parametrize("fixed", [True, False])
def test_a_schedule_alone_has_a_panel_for_what_varies(fixed):
    problem = st.LeastSquares([1.0, 0.3], [1.0, 0.5], 0.5)
    best = st.optimal_schedule(problem, num_samples=96, **({"batch_size": 16} if fixed else {"num_steps": 6}))
    axes = plot.optimal_schedule(best).axes
    assert [panel.get_ylabel().split(" $")[0] for panel in axes] == ["learning rate", "batch size"][: 1 + (not fixed)]
    assert line_of(axes[0], "best last iterate")[0, 1] == best.learning_rate(0.0)


def test_a_sweep_shows_laws_at_its_last_target_and_every_dependence():
    fit = pilot(np.random.default_rng(0), 0.02, 0.0, 0.0)
    fits = [replace(fit, tuned=replace(fit.tuned, target_loss=loss)) for loss in (0.3, 0.2, 0.1)]
    found = SweepFits(tuple(fits))
    laws, by_size, *rest = plot.sweep_fits(found, title="a sweep").axes
    assert laws.get_title() == "Steps to loss 0.1 leave linear scaling at $B^*$"
    assert by_size.get_xlabel() == "width"
    assert len(rest) == bool(found.by_data)


def test_laws_of_groups_have_their_critical_batch_sizes_beside_them():
    groups, laws = groups_and_laws()
    found = st.fits.LawsOfGroups(tuple(groups), tuple(laws), st.Convention(64))
    assert [panel.get_xlabel() for panel in found.plot().axes] == [
        "batch size $B$",
        "model size $N$ (10⁶ parameters)",
    ]


def test_scaled_steps_have_errors_in_per_cent_and_a_curve_over_all_points():
    groups, _ = groups_and_laws(noise=0.01)
    errors = np.full(9, 0.02)
    laws = [st.fit_steps_law(each.batch_sizes, each.steps, standard_errors=errors) for each in groups]
    top, bottom = plot.scaled_steps(groups, laws).axes
    assert [np.ptp(ends) for ends in bars_of(bottom)] == [pytest.approx(4)] * 3
    every = np.concatenate([each.batch_sizes * law.a / law.b for each, law in zip(groups, laws, strict=True)])
    curve = line_of(top, "$1 + 1/x$")
    np.testing.assert_allclose(curve[[0, -1], 0], [every.min(), every.max()])
    np.testing.assert_allclose(curve[:, 1], 1 + 1 / curve[:, 0])
