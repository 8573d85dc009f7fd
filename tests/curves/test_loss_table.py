"""The table of runs against risks in closed form, minimized and inverted without a table."""

import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar

import sgdtheory as st
from sgdtheory.curves import loss_table as module
from sgdtheory.curves.loss_model import LossModel, losses
from sgdtheory.curves.loss_table import LossTable, loss_tables
from sgdtheory.curves.panels import Optimizer, Panels

TOP = 0.5  # learning rate
POWER = 0.6
NOISE = 3.0


def bias(rate, steps):
    return (1 + rate * steps) ** -POWER


def variance(rate):
    return NOISE * rate / (1 + rate)


def risk(steps, batch):
    """min over γ ≤ TOP, by golden section in log γ and the end."""

    def at(log_rate):
        return bias(np.exp(log_rate), steps) + variance(np.exp(log_rate)) / batch

    inner = minimize_scalar(at, bounds=(np.log(TOP) - 9, np.log(TOP)), method="bounded", options={"xatol": 1e-9})
    return min(float(inner.fun), at(np.log(TOP)))


@pytest.fixture(scope="module")
def table():
    log_steps = np.arange(np.log(8), 14, 0.05)
    log_rate = np.log(TOP) - np.arange(0, 9, 0.1)[::-1]
    rate = np.exp(log_rate)[:, None]
    return LossTable(log_steps, log_rate, bias(rate, np.exp(log_steps)), variance(rate) * np.ones(log_steps.size))


def test_critical_batch_size(table):
    samples, overhead = 2e4, 0.2
    found, least = table.critical_batch_size(samples, overhead)
    target = least * (1 + 1e-9)

    def excess(log_batch):
        batch = np.exp(log_batch)
        return risk((1 + overhead) * samples / batch, batch) - target

    grid = np.linspace(np.log(samples / 8), 0, 300)
    low = next(k for k, each in enumerate(grid) if excess(each) <= 0)
    assert found == pytest.approx(np.exp(brentq(excess, grid[low], grid[low - 1])), rel=2e-2)


def test_where_the_fewest_steps_are_enough(table):
    """Noise throughout: B* is the largest batch size that is looked at, and the table says so."""
    noisy = LossTable(table.log_steps, table.log_rate, table.bias, 1e4 * table.variance)
    found, _ = noisy.critical_batch_size(100.0, 0.2)
    assert found == pytest.approx(noisy.largest_batch(100.0))
    assert noisy.largest_batch(100.0) == pytest.approx(100 / 8)


GRID = np.log([8.0, 10, 13, 20, 22, 30])  # of steps


def valley(size, place):
    """(size,) logs of a parabola over its places, with its least value 0 at one that need not be whole."""
    return 0.3 * (np.arange(size) - place) ** 2


@pytest.mark.parametrize("place", [0.6, 1.2, 2.0, 2.5, 2.7, 3.4])
def test_the_least_of_a_parabola_is_found_between_any_three_rates(place):
    """Two of five points are equally good, at 2.5: as bias, and as variance that halves with each batch size."""
    log_risk = valley(5, place)[:, None] + np.zeros(6)
    made = LossTable(GRID, np.arange(5.0), np.exp(log_risk), np.zeros((5, 6)))
    np.testing.assert_allclose(made.risk(np.array([1.0, 7.0])), 1.0)
    made = LossTable(GRID, np.arange(5.0), np.zeros((5, 6)), np.exp(log_risk))
    np.testing.assert_allclose(made.risk(np.array([2.0, 4.0])), [[0.5] * 6, [0.25] * 6])


@pytest.mark.parametrize(("place", "end"), [(-1.0, 0), (5.5, 4)])
def test_beyond_the_rates_the_last_one_is_best(place, end):
    log_risk = valley(5, place)[:, None] + np.zeros(6)
    made = LossTable(GRID, np.arange(5.0), np.exp(log_risk), np.zeros((5, 6)))
    np.testing.assert_allclose(made.risk(np.array([1.0])), np.exp(log_risk[end, 0]))


@pytest.mark.parametrize("diverged", [[4], [3, 4], [0, 4]])
def test_rates_that_diverge_are_left_out(diverged):
    """Beside them no parabola is drawn: the best rate itself counts."""
    risk = np.exp(valley(5, 2.3))[:, None] + np.zeros(6)
    risk[diverged] = np.inf
    found = LossTable(GRID, np.arange(5.0), risk, np.zeros((5, 6))).risk(np.array([1.0]))
    np.testing.assert_allclose(found, np.exp(valley(5, 2.3))[2] if 3 in diverged else 1.0)


def of_steps(log_risk):
    """A table whose bias depends on the number of steps alone."""
    return LossTable(GRID, np.arange(3.0), np.exp(log_risk) + np.zeros((3, 1)), np.zeros((3, 6)))


@pytest.mark.parametrize("place", [0.6, 1.2, 2.4, 3.7, 4.4])
def test_the_optimal_risk_is_the_least_of_a_parabola_over_batch_sizes(place):
    assert of_steps(valley(6, place)).optimal_risk(100.0) == pytest.approx(1)


@pytest.mark.parametrize("steps", [8.5, 10.0, 12.0, 19.0, 29.0])
def test_steps_between_rows_are_read_on_a_straight_line_of_logs(steps):
    """A risk that falls like a power of the steps, by another power after 13."""
    log_risk = -2.0 * np.minimum(GRID, GRID[2]) - 0.5 * np.maximum(GRID - GRID[2], 0)
    target = np.exp(-2.0 * min(np.log(steps), GRID[2]) - 0.5 * max(np.log(steps) - GRID[2], 0))
    assert of_steps(log_risk).steps_to(target, 3.0) == pytest.approx(steps)
    assert of_steps(log_risk).steps_to(np.exp(log_risk[-1] - 1e-3), 3.0) == np.inf
    assert of_steps(log_risk).steps_to(np.exp(log_risk[0]) * 1.5, 3.0) == pytest.approx(8)


def test_where_no_batch_size_is_enough_there_is_no_critical_one():
    """A least risk between rows, and no overhead to reach it."""
    found, least = of_steps(valley(6, 2.4)).critical_batch_size(100.0, 1e-12)
    assert np.isnan(found)
    assert least == pytest.approx(1)


def test_of_two_batch_sizes_that_need_the_same_the_larger_is_critical():
    """Bias `n^−½` alone: all runs of D samples are as good as their steps, and B* = (1 + ω) D/n at the most steps."""
    made = of_steps(-0.5 * GRID)
    assert made.optimal_risk(60.0) == pytest.approx(30**-0.5)
    for overhead in (0.2, 0.4, 2.5):
        assert made.critical_batch_size(60.0, overhead)[0] == pytest.approx(2 * (1 + overhead), rel=1e-5)


def test_where_steps_change_nothing_the_largest_batch_size_is_critical():
    assert of_steps(np.zeros(6)).critical_batch_size(60.0, 0.2) == pytest.approx((60 / 8, 1))


NUMBERS = {"capacity": 1.6, "source": 1.9, "signal": 2.0, "noise": 6.0, "step_size": 0.2, "floor": 5.0, "growth": 0.0}
MODEL = LossModel(**{name: np.array([value]) for name, value in NUMBERS.items()})


def test_the_rates_and_steps_of_a_table():
    """A fifth apart in logs, up to the largest rate; 80 steps at least."""
    found = loss_tables(MODEL, Optimizer(0.2, 0.0), st.Constant(), 32.0, 32.0, 0.1)[0]
    np.testing.assert_allclose(np.diff(found.log_steps), 0.2)
    np.testing.assert_allclose(np.diff(found.log_rate), 0.2)
    assert found.log_rate[-1] == pytest.approx(np.log(0.1), rel=1e-12)
    assert np.log(80) <= found.log_steps[-1] < np.log(80) + 0.2
    assert found.bias.shape == found.variance.shape == (found.log_rate.size, found.log_steps.size)


@pytest.mark.parametrize("shape", [st.Linear(), st.Stages((0.0, 0.4), (1.0, 0.3))])
def test_bias_and_variance_as_the_exact_engine(shape):
    """At n = 600 or so: bias of a problem without noise, variance what noise adds to it, with B large."""
    found = loss_tables(MODEL, Optimizer(0.2, 0.0), shape, 320.0, 32.0, 0.2)[0]
    assert found.log_steps[0] == pytest.approx(np.log(8))
    assert np.exp(found.log_steps[-1]) >= 640
    assert np.exp(found.log_rate[[0, -1]]) == pytest.approx([2e-4, 0.2], rel=0.2)
    place = int(np.argmin(np.abs(found.log_steps - np.log(600))))
    steps = int(np.round(np.exp(found.log_steps[place])))
    large = 1e6  # of batch size: what a step multiplies is nothing then
    algorithm = st.Algorithm(schedule=shape, average=st.LastIterate())
    setting = {"batch_size": large, "learning_rate": 0.2, "num_samples": large * steps}
    quiet, noisy = (
        2 * st.excess_risk(st.PowerLaw(1.6, 1.9, noise_variance=noise), **setting, algorithm=algorithm).total
        for noise in (0.0, 3.0 * large)
    )
    assert found.bias[-1, place] == pytest.approx(quiet, rel=5e-3)
    assert found.variance[-1, place] == pytest.approx(noisy - quiet, rel=1e-2)


@pytest.mark.parametrize(("fractions", "values"), [((0.0,), (1.0,)), ((0.0, 0.95), (1.0, 0.1))])
def test_learning_rates_that_are_constant_between_jumps_need_a_panel_each(fractions, values):
    """However finely a run is cut, a constant rate is in closed form: a jump next to the end leaves no trace."""
    found = loss_tables(MODEL, Optimizer(0.2, 0.0), st.Stages(fractions, values), 320.0, 32.0, 0.2)[0]
    steps = np.exp(found.log_steps)[:, None] * np.diff([*fractions, 1.0])
    for noise, made in ((0.0, found.bias), (6.0, found.variance)):
        model = MODEL._replace(floor=np.zeros(1), signal=np.array([0.0 if noise else 2.0]), noise=np.array([noise]))
        for place in (-20, -1):  # a rate of a fiftieth, and the largest
            rate = np.exp(found.log_rate[place]) * np.array(values) + np.zeros_like(steps)
            panels = Panels(steps, rate, np.zeros_like(steps), np.full(steps.shape, np.nan), ())
            expected = losses(model, panels, Optimizer(0.2, 0.0))[0, :, -1]
            np.testing.assert_allclose(made[place], expected, rtol=1e-9)


@pytest.mark.parametrize("begin", [0.0, 0.8])
def test_within_a_panel_the_rate_falls_by_its_share_of_the_decay(monkeypatch, begin):
    """Linearly to 0 from `begin` on: by γ/(1 − begin) times the panel's share of the run."""
    seen = []
    monkeypatch.setattr(
        module, "losses", lambda parts, panels, known: seen.append(panels) or losses(parts, panels, known)
    )
    shape = st.WSD(1 - begin) if begin else st.Linear()
    found = loss_tables(MODEL, Optimizer(0.2, 0.0), shape, 320.0, 32.0, 0.2)[0]
    for panels, rate in zip(seen, np.exp(found.log_rate), strict=True):
        share = panels.steps / np.exp(found.log_steps)[:, None]
        middle = np.cumsum(share, 1) - share / 2
        np.testing.assert_allclose(share.sum(1), 1)
        slope = np.where(middle > begin, rate / (1 - begin), 0.0)
        np.testing.assert_allclose(panels.rate, np.where(middle > begin, slope * (1 - middle), rate), rtol=1e-9)
        np.testing.assert_allclose(panels.rate * panels.change, -slope * share, rtol=1e-6, atol=1e-9 * rate)


def test_a_rate_that_bends_is_cut_finely_enough():
    """The bias at the largest rate against 200 panels, each at the rate of its middle."""
    shape = st.Cosine()
    found = loss_tables(MODEL, Optimizer(0.2, 0.0), shape, 320.0, 32.0, 0.2)[0]
    middle = (np.arange(200) + 0.5) / 200
    steps = np.exp(found.log_steps)[:, None] * np.full(200, 1 / 200)
    rate = 0.2 * np.asarray(shape.at(middle)) + np.zeros_like(steps)
    panels = Panels(steps, rate, np.zeros_like(steps), np.full(steps.shape, np.nan), ())
    quiet = MODEL._replace(floor=np.zeros(1), noise=np.zeros(1))
    np.testing.assert_allclose(found.bias[-1], losses(quiet, panels, Optimizer(0.2, 0.0))[0, :, -1], rtol=2e-4)


def test_candidates_that_differ_in_signal_and_noise_share_their_runs(monkeypatch):
    """Two of four candidates are computed, and each has the table that it has alone: `losses` of its parameters."""
    calls = []
    monkeypatch.setattr(
        module, "losses", lambda parts, panels, known: calls.append(parts) or losses(parts, panels, known)
    )
    changes = ({}, {"noise": 9.0}, {"signal": 0.5}, {"source": 2.3})
    several = LossModel(
        *np.transpose([[{**NUMBERS, **change}[name] for name in LossModel._fields] for change in changes])
    )
    tables = loss_tables(several, Optimizer(0.2, 0.0), st.Linear(), 320.0, 32.0, 0.2)
    assert len(calls) == 2 * tables[0].log_rate.size
    assert {parts.capacity.size for parts in calls} == {1}
    share = 1 / 200
    middle = (np.arange(200) + 0.5) * share
    steps = np.exp(tables[0].log_steps)[:, None] * np.full(200, share)
    rate = 0.2 * (1 - middle) + np.zeros_like(steps)
    change = -share / (1 - middle) + np.zeros_like(steps)
    panels = Panels(steps, rate, change, np.full(steps.shape, np.nan), ())
    for made, differing in zip(tables, changes, strict=True):
        own = {**NUMBERS, **differing, "floor": 0.0}
        for without, part in (("noise", made.bias), ("signal", made.variance)):
            alone = LossModel(**{name: np.array([value]) for name, value in {**own, without: 0.0}.items()})
            np.testing.assert_allclose(part[-1], losses(alone, panels, Optimizer(0.2, 0.0))[0, :, -1], rtol=2e-3)
