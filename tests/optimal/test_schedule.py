"""The best schedule against what is known: scalar recursions, bounds, named schedules, other starts and knots."""

from dataclasses import replace

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.optimal.knots import KnotShape
from sgdtheory.optimal.schedule import _steps
from sgdtheory.optimal.schedules import Edge
from sgdtheory.optimal.search import STARTS, Knots, Search
from sgdtheory.risk import stability_edge
from tests import brute_force
from tests.marks import slow

PROBLEM = st.PowerLaw(2.0, 3.0)
NAMED = (st.Constant(), st.Linear(), st.Cosine(), st.WSD(), st.PowerDecay(3.0))


@pytest.fixture(scope="module")
def fixed():
    """B = 16, n = 500."""
    return st.optimal_schedule(PROBLEM, num_samples=8000, batch_size=16)


@pytest.fixture(scope="module")
def ramped():
    """Return the best schedule of fixed samples and steps, with free B_t."""
    return st.optimal_schedule(PROBLEM, num_samples=8000, num_steps=500)


def test_a_shape_by_its_knots():
    """Their values at their steps, log-linear in log((t + 1)/(n − t)) between them, stretched for other n."""
    shape = KnotShape(10.0, (0.0, 1.0, 5.0, 8.0, 9.0), (1.0, 0.8, 0.5, 0.2, 0.1))
    np.testing.assert_allclose(shape.at(np.array(shape.steps) / 10), shape.values, rtol=1e-12)
    assert shape.at(1.0) == pytest.approx(0.1)
    low, here, high = (np.log((t + 1) / (10 - t)) for t in (1, 3, 5))
    share = (here - low) / (high - low)
    assert shape.at(0.3) == pytest.approx(0.8 ** (1 - share) * 0.5**share)
    assert shape.knots() == (0.1, 0.5, 0.8)


def test_numbers_of_steps():
    """⌊D/B⌋, or as given; batch sizes are looked for only where there are more samples than steps."""
    assert _steps(100.0, None, None) == (100, False)
    assert _steps(100.0, 1, None) == (100, False)
    assert _steps(100.0, 16, None) == (6, False)
    assert _steps(100.0, 50, None) == (2, False)
    assert _steps(100.0, None, 10) == (10, True)
    assert _steps(100.0, None, 2) == (2, True)
    assert _steps(100.0, None, 100) == (100, False)
    assert _steps(100.7, None, None) == (100, False)
    for refused in ({"batch_size": 51}, {"num_steps": 101}, {"num_steps": 10, "batch_size": 10}, {"num_steps": 1}):
        with pytest.raises(ValueError, match="num_s"):
            _steps(100.0, **{"batch_size": None, "num_steps": None} | refused)


def test_starts_that_agree_are_counted(monkeypatch):
    """Starts within 1e-6 of the least risk are counted, and the search continues with the best one."""
    steps, risks = np.array([0.0, 40.0, 99.0]), [0.65, 0.5, 0.5 + 2.5e-7]
    carried = []

    def begun(self):
        rates, batches = np.log([0.2, 0.4, 0.1]), np.full(3, np.log(8.0))
        found = [Knots(steps, rates, batches, risk, 0.0) for risk in risks]
        return dict(zip(self.starts, found, strict=True))

    def finished(self, found):
        carried.append(found.risk)
        return found, found

    monkeypatch.setattr(Search, "begun_each", begun)
    monkeypatch.setattr(Search, "finished", finished)
    best = st.optimal_schedule(st.LeastSquares([1.0], [2.0]), num_samples=805, batch_size=8)
    assert carried == [0.5]
    assert (best.searches, best.agreeing) == (3, 2)
    assert list(best.from_starts.values()) == [0.65, 0.5, 0.5 + 2.5e-7]
    assert (best.num_steps, best.num_samples, best.with_half_the_knots) == (100, 800, 0.5)
    assert (best.peak_learning_rate, best.peak_batch_size) == pytest.approx((0.4, 8.0))
    assert best.learning_rate(0.99) == pytest.approx(0.1)
    assert best.lower_bound_gap == best.risk / best.lower_bound
    single = st.optimal_schedule(st.LeastSquares([1.0], [2.0]), num_samples=100)
    assert (single.num_steps, single.num_samples, single.peak_batch_size) == (100, 100, 1)
    assert np.isinf(replace(best, lower_bound=0.0).lower_bound_gap)
    assert replace(best, lower_bound=0.5, risk=2.0).lower_bound_gap == 4


def test_the_risk_of_a_ramp_is_that_of_batches_that_are_not_whole():
    """By the recursion at the γ_t and B_t that are told."""
    problem, n = st.LeastSquares([1.0, 0.2], [0.5, 1.0], 0.3), 4
    best = st.optimal_schedule(problem, num_samples=26, num_steps=n)
    rates, sizes = best.learning_rate(np.arange(n) / n), best.batch_size(np.arange(n) / n)
    assert sizes.sum() == pytest.approx(26, rel=1e-9)
    assert (np.abs(sizes - np.round(sizes)) > 1e-3).any()
    assert best.risk == pytest.approx(brute_force.last_risk(problem, rates, sizes), rel=1e-9)
    assert (best.peak_learning_rate, best.peak_batch_size) == pytest.approx((rates.max(), sizes.max()), rel=1e-12)


def test_the_table_shows_both_ends_of_the_run(fixed, ramped):
    """Fractions of the steps increase, as dense at the end as at the beginning, with γ and B there."""
    for best in (fixed, ramped):
        fractions, rates, sizes = (quantity.value for quantity in best.sheet().tables[0].quantities)
        assert fractions[0] == 0
        assert (np.diff(fractions) > 0).all()
        np.testing.assert_allclose(1 - fractions[1:], fractions[:0:-1], atol=1e-12)
        np.testing.assert_array_equal(rates, best.learning_rate(fractions))
        np.testing.assert_array_equal(sizes, best.batch_size(fractions))


def test_its_algorithm_attains_its_risk(fixed):
    setting = {"batch_size": 16, "learning_rate": fixed.peak_learning_rate, "num_samples": 8000}
    risk = st.excess_risk(PROBLEM, **setting, algorithm=fixed.algorithm).total
    assert risk == pytest.approx(fixed.risk, rel=1e-9)
    table = fixed.learning_rate(np.arange(500) / 500)
    every = st.Algorithm(schedule=table, average=st.LastIterate())
    setting["learning_rate"] = 1.0
    assert st.excess_risk(PROBLEM, **setting, algorithm=every).total == pytest.approx(fixed.risk, rel=1e-9)


def test_no_named_schedule_is_better(fixed):
    named = [
        st.optimal_learning_rate(
            PROBLEM,
            batch_size=16,
            num_samples=8000,
            algorithm=st.Algorithm(schedule=shape, average=st.LastIterate()),
        ).risk
        for shape in NAMED
    ]
    assert fixed.risk < min(named)
    assert fixed.risk < 0.5 * max(named)  # control


def test_it_is_an_optimum(fixed):
    """The slope is 0, starts agree, and twice the knots gain little; any other γ next to it is worse."""
    assert 1.2 < fixed.lower_bound_gap < 20
    assert fixed.slope < 1e-5
    risks = list(fixed.from_starts.values())
    assert max(risks) < (1 + 1e-6) * min(risks)
    assert fixed.risk < fixed.with_half_the_knots < 1.001 * fixed.risk
    table, rng = fixed.learning_rate(np.arange(500) / 500), np.random.default_rng(0)
    for _ in range(5):
        wave = np.exp(0.05 * np.interp(np.arange(500), np.linspace(0, 500, 9), rng.normal(size=9)))
        other = st.Algorithm(schedule=table * wave, average=st.LastIterate())
        setting = {"batch_size": 16, "learning_rate": 1.0, "num_samples": 8000}
        assert st.excess_risk(PROBLEM, **setting, algorithm=other).total > fixed.risk


def test_a_ramp_keeps_to_the_samples_and_is_better(fixed, ramped):
    sizes = ramped.batch_size(np.arange(500) / 500)
    assert sizes.sum() == pytest.approx(8000, rel=1e-4)
    assert sizes.min() >= 1 - 1e-9
    assert sizes[450] > 2 * sizes[50]
    assert ramped.risk < fixed.risk
    assert ramped.peak_batch_size == pytest.approx(sizes.max(), rel=1e-2)


@pytest.mark.slow
def test_an_average_has_a_schedule_of_its_own(fixed):
    """Hardly better than a constant γ, well above what is best for the last iterate, and next to the bound."""
    average = st.UniformAverage()
    best = st.optimal_schedule(PROBLEM, num_samples=8000, batch_size=16, average=average)
    setting = {"batch_size": 16, "num_samples": 8000}
    constant = st.optimal_learning_rate(PROBLEM, **setting, algorithm=st.Algorithm(average=average)).risk
    assert best.risk < constant < 1.1 * best.risk
    assert best.risk < 0.9 * fixed.risk
    assert 1 < best.lower_bound_gap < 1.2 < fixed.lower_bound_gap
    risk = st.excess_risk(PROBLEM, **setting, learning_rate=best.peak_learning_rate, algorithm=best.algorithm).total
    assert risk == pytest.approx(best.risk, rel=1e-9)


@pytest.mark.parametrize(("noise", "batch"), [(0.3, 2), (5.0, 1), (0.01, 50)])
def test_one_direction_is_known_in_closed_form(noise, batch):
    n = 16
    risk, rates = brute_force.one_direction(2.0, noise, batch, n)
    best = st.optimal_schedule(st.LeastSquares([1.0], [2.0], noise), num_samples=n * batch, batch_size=batch)
    assert risk * (1 - 1e-12) < best.risk < (1 + 1e-5) * risk
    found = best.learning_rate(np.arange(n) / n)
    np.testing.assert_allclose(found[n // 2 :], rates[n // 2 :], rtol=0.02)


def test_without_noise_rates_stay_below_the_edge():
    problem = st.LeastSquares([1.0, 0.1, 0.01], [0.5, 0.3, 0.2], noise_variance=0.0)
    best = st.optimal_schedule(problem, num_samples=160, batch_size=4)
    edge = float(st.max_stable_learning_rate(problem, batch_size=4))
    rates = best.learning_rate(np.arange(40) / 40)
    assert rates.max() <= edge * (1 + 1e-9)
    assert rates.max() > 0.3 * edge
    assert best.lower_bound == 0
    assert np.isinf(best.lower_bound_gap)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"num_samples": 100, "batch_size": 60}, "num_samples must be enough for two steps"),
        ({"num_samples": 100, "num_steps": 101}, "at least one sample a step"),
        ({"num_samples": 100, "num_steps": 10, "batch_size": 10}, "num_steps must be left out"),
        ({"num_samples": 100, "batch_size": 2.5}, "batch_size must be"),
        ({"num_samples": np.nan}, "num_samples"),
    ],
)
def test_what_is_refused(setting, message):
    with pytest.raises(ValueError, match=message):
        st.optimal_schedule(PROBLEM, **setting)


def test_the_figure_has_every_schedule_and_its_loss(fixed, ramped):
    for best, panels in ((fixed, 2), (ramped, 3)):
        named = st.optimal.named_schedules(PROBLEM, best)
        figure = st.plot.optimal_schedule(best, named=named, title="title")
        assert len(figure.axes) == panels
        rates, losses = figure.axes[0], figure.axes[-1]
        assert [line.get_label() for line in rates.lines] == ["best last iterate", *named]
        assert rates.lines[0].get_ydata()[0] == pytest.approx(float(best.learning_rate(0.0)))
        assert [bar.get_width() for bar in losses.patches] == [1 + each.loss for each in named.values()][::-1]
        assert all(axis.get_xlabel() for axis in figure.axes)


@pytest.mark.parametrize("num_steps", [2, 10])
def test_within_few_steps_too(num_steps):
    """Peaks beyond the edge would be better here: nobody may pass it."""
    best = st.optimal_schedule(PROBLEM, num_samples=num_steps * 10_000, batch_size=10_000)
    named = st.optimal.named_schedules(PROBLEM, best)
    edge = float(st.max_stable_learning_rate(PROBLEM, batch_size=10_000))
    assert best.peak_learning_rate <= edge
    assert all(each.learning_rate <= edge for each in named.values())
    assert min(each.loss for each in named.values() if each.algorithm.average == st.LastIterate()) > -1e-5


@pytest.mark.parametrize("problem", [slow(PROBLEM), st.PowerLaw(2.0, 1.5)], ids=["b > a", "b < a"])
def test_batches_alone(problem):
    """At a constant γ: worse than with γ_t too, better than a constant batch size, and stable at every step."""
    setting = {"num_samples": 1280, "num_steps": 16}
    alone = st.optimal_schedule(problem, **setting, constant_learning_rate=True)
    both = st.optimal_schedule(problem, **setting)
    last = st.Algorithm(average=st.LastIterate())
    none = st.optimal_learning_rate(problem, num_samples=1280, batch_size=80, algorithm=last).risk
    assert both.risk < alone.risk < none
    rates, sizes = (each(np.arange(16) / 16) for each in (alone.learning_rate, alone.batch_size))
    assert np.ptp(rates) == 0
    assert sizes.sum() == pytest.approx(1280, rel=1e-4)
    assert (rates <= stability_edge(problem, sizes) * (1 + 1e-9)).all()
    assert sizes[-1] > 3 * sizes[8]
    assert alone.slope < 1e-5


def test_no_search_ends_where_panels_are_too_wide():
    """Here a search fell for a γ_t that drops so fast that the risk on wide panels was 10⁻⁸ of the true one."""
    search = Search(st.PowerLaw(2.0, 1.5), 1e4, 1e6, False, st.LastIterate())
    risks = [search.begun(STARTS[name]).risk for name in ("constant", "linear decay")]
    assert max(risks) < (1 + 1e-4) * min(risks)
    assert min(risks) > search.lower_bound


@pytest.mark.parametrize(
    "problem", [PROBLEM, st.PowerLaw(1.13, 2.05), st.LeastSquares([1.0, 0.3], [1.0, 1.0])], ids=str
)
def test_the_edge_between_tabulated_batch_sizes(problem):
    """Never above the exact one, and next to it; its inverse too."""
    edge, sizes = Edge(problem, 1e7), np.exp(np.random.default_rng(0).uniform(0, np.log(1e7), 50))
    ratio = np.exp(edge.at(np.log(sizes))[0]) / stability_edge(problem, sizes)
    assert ratio.max() <= 1
    assert ratio.min() > 1 - 1e-5
    np.testing.assert_allclose(edge.least_batch(edge.at(np.log(sizes))[0])[0], sizes, rtol=1e-2)
