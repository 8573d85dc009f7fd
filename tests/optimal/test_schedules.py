"""Variables of a search: bounds, samples and slopes, by differences of its layouts."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.optimal.knots import spread_knots
from sgdtheory.optimal.run import Run
from sgdtheory.optimal.schedules import LEAST, Edge, Schedules
from sgdtheory.optimal.search import Search
from sgdtheory.risk import stability_edge

PROBLEM = st.LeastSquares([1.0, 0.3, 0.05], [0.5, 0.4, 0.3], noise_variance=0.5)
KINDS = [(True, False), (True, True), (False, False), (False, True)]  # batch sizes vary, γ does not
AVERAGES = st.LastIterate(), st.UniformAverage()
STEPS = pytest.mark.parametrize("steps", [5, 200])
EVERY = pytest.mark.parametrize(("ramp", "constant"), KINDS)


def schedules_of(steps, ramp, constant, average=AVERAGES[0], batch=13.0):
    """Return schedules with a knot at every step of few, and at some of many."""
    search = Search(PROBLEM, steps, batch * steps, ramp, average, constant)
    return search.schedules() if steps < 10 else Schedules(search.freedom, search.run(spread_knots(steps, 2.0)))


def points(schedules, seed=0, number=4):
    rng, knots = np.random.default_rng(seed), schedules.run.knots.size
    rates = schedules.freedom.highest - rng.uniform(1.0, 2.0, (number, schedules.rates))
    shares = rng.normal(scale=0.5, size=(number, knots))
    return np.append(rates, shares, 1) if schedules.freedom.ramp else rates


def test_slopes_of_the_edge_and_of_its_inverse():
    """By differences; below the edge of B = 1 every batch will do."""
    edge = Edge(PROBLEM, 1e5)
    sizes = np.log([1.7, 12.0, 300.0, 7e4])
    log_rate, slope = edge.at(sizes)
    h = 1e-5
    np.testing.assert_allclose(slope, (edge.at(sizes + h)[0] - edge.at(sizes - h)[0]) / (2 * h), rtol=1e-5)
    least, by_rate = edge.least_batch(log_rate)
    np.testing.assert_allclose(np.log(least), sizes, atol=2e-2)
    around = [edge.least_batch(log_rate + sign * 1e-7)[0] for sign in (1, -1)]
    np.testing.assert_allclose(by_rate, (around[0] - around[1]) / 2e-7, rtol=1e-2)
    low = np.array([edge.at(np.zeros(1))[0][0] - 1e-3, -20.0])
    np.testing.assert_array_equal(edge.least_batch(low), [[1, 1], [0, 0]])


@STEPS
@EVERY
def test_what_is_laid_out_keeps_its_bounds(steps, ramp, constant):
    schedules = schedules_of(steps, ramp, constant)
    log_rate, log_batch = schedules.steps(points(schedules))
    np.testing.assert_allclose(schedules.run.num_samples(log_batch)[0], 13.0 * steps, rtol=1e-10)
    edges = stability_edge(PROBLEM, np.exp(log_batch).ravel()).reshape(log_batch.shape)
    assert (np.exp(log_rate) <= edges).all()
    assert np.ptp(log_rate, axis=1).max() == 0 or not constant
    again = schedules.steps(schedules.point(log_rate, log_batch))
    np.testing.assert_allclose(again, [log_rate, log_batch], atol=1e-9)
    if not ramp:
        assert (log_batch == np.log(13.0)).all()


@STEPS
@EVERY
@pytest.mark.parametrize("average", AVERAGES, ids=lambda average: type(average).__name__)
def test_slopes_by_what_is_varied_are_those_of_differences(steps, ramp, constant, average):
    schedules = schedules_of(steps, ramp, constant, average)
    found = schedules(points(schedules))
    gradient = schedules.run.risk_and_gradient(*schedules.steps(found.point))
    np.testing.assert_allclose(found.value, np.log(gradient.risk), rtol=1e-12)
    assert found.held.sum() == (len(found.value) if ramp else 0)  # the largest share
    for k in range(found.point.shape[1]):
        way = 1e-4 * np.eye(found.point.shape[1])[k]
        slope = (schedules(found.point + way).value - schedules(found.point - way).value) / 2e-4
        np.testing.assert_allclose(found.slope[:, k], slope, rtol=1e-4, atol=1e-7)


@STEPS
def test_rates_at_their_bounds_are_held_where_less_risk_lies_beyond(steps):
    quiet, held, inwards = st.LeastSquares([1.0, 0.05], [0.01, 1.0], 0.0), [], []
    for problem, batch in ((quiet, 1000.0), (PROBLEM, 13.0)):
        search = Search(problem, steps, batch * steps, False, st.LastIterate())
        knots = np.arange(steps) if steps < 10 else spread_knots(steps, 2.0)
        schedules, number = Schedules(search.freedom, search.run(knots)), np.arange(knots.size)
        for value, bound in ((5.0, 0.0), (-99.0, LEAST)):
            which = np.array([number >= 0, *(number == k for k in number)])
            found = schedules(np.where(which, value, -0.3))
            np.testing.assert_array_equal(found.point[which], bound)
            outwards = found.slope <= 0 if value > 0 else found.slope >= 0
            np.testing.assert_array_equal(found.held, which & outwards)
            held += found.held[which].tolist()
            inwards += found.slope[which & ~outwards].tolist()
    assert any(held)
    assert not all(held)
    assert any(0 < slope < 1 for slope in inwards)


@STEPS
def test_at_the_highest_constant_rate_all_batches_are_the_mean(steps):
    """There is nothing to share out there: slopes by the shares are 0."""
    schedules = schedules_of(steps, True, True)
    found = schedules(np.append(np.zeros((1, 1)), np.linspace(-5, 0, schedules.run.knots.size)[None], 1))
    np.testing.assert_allclose(np.exp(schedules.steps(found.point)[1]), 13.0, rtol=1e-2)
    np.testing.assert_allclose(found.slope[0, 1:], 0, atol=1e-3)


@STEPS
def test_batches_at_their_floor_keep_to_it(steps):
    """B ≥ 1, or what a constant γ takes to be stable, up to e⁻⁴⁰ of the largest share; the others share the samples."""
    for constant in (False, True):
        schedules = schedules_of(steps, True, constant)
        point = points(schedules, number=1)
        point[:, : schedules.rates] = -0.2
        knots = schedules.run.knots.size
        point[:, schedules.rates :] = np.where(np.arange(knots) < 3, -100.0, 0.5)
        log_rate, log_batch = schedules.steps(point)
        least = schedules.freedom.edge.least_batch(log_rate[0, 0])[0] if constant else 1.0
        assert (least > 1) == constant
        np.testing.assert_allclose(np.exp(log_batch[0, :3]), least, atol=1e-9)
        assert (np.exp(log_batch[0, 3:]) > 1.01 * least).all()
        assert schedules.run.num_samples(log_batch)[0] == pytest.approx(13.0 * steps, rel=1e-10)
        found = schedules(point)
        np.testing.assert_allclose(found.point[0, schedules.rates :][:3], LEAST)
        np.testing.assert_allclose(found.slope[0, schedules.rates :][:3], 0, atol=1e-12)


def test_what_is_impossible_is_refused():
    """A risk below the bound, nan or inf has the value inf, a slope of 0, and nothing free."""
    schedules = schedules_of(200, True, False)
    here = schedules(points(schedules))
    given = Run.risk_and_gradient
    for risk in (np.nan, np.inf, -1.0, 0.99 * schedules.freedom.lower_bound):
        told = [1.0, risk, 1.0, risk]
        schedules.run.risk_and_gradient = lambda *values, t=told: given(schedules.run, *values)._replace(
            risk=np.array(t)
        )
        found = schedules(here.point)
        np.testing.assert_array_equal(found.value, [0, np.inf, 0, np.inf])
        assert found.held[[1, 3]].all()
        assert (found.slope[[1, 3]] == 0).all()
        assert not found.held[0].all()
