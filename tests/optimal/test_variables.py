"""What a search varies: bounds, samples and slopes, by differences of what it lays out."""

from types import SimpleNamespace

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.optimal.run import Run, spread_knots
from sgdtheory.optimal.search import Search
from sgdtheory.optimal.variables import BELOW_EDGE, REFUSED, Edge, Varied
from sgdtheory.risk import stability_edge

PROBLEM = st.LeastSquares([1.0, 0.3, 0.05], [0.5, 0.4, 0.3], noise_variance=0.5)
STEPS, SAMPLES = 200, 2600.0
KINDS = [(True, False), (True, True), (False, False), (False, True)]  # batch sizes vary, γ does not


def setting(ramp, constant):
    search = Search(PROBLEM, STEPS, SAMPLES, ramp, st.LastIterate(), constant)
    run = Run(PROBLEM.modes(1e-9), 0.5, STEPS, spread_knots(STEPS, 2.0))
    rng, knots = np.random.default_rng(0), run.knots.size
    point = search.freedom.highest - rng.uniform(1.0, 2.0, 1 if constant else knots)
    return search.freedom, run, np.append(point, rng.normal(scale=0.3, size=knots)) if ramp else point


def test_slopes_of_the_edge_and_of_its_inverse():
    """By differences; below the edge of B = 1 every batch will do."""
    edge = Edge(PROBLEM, 1e5)
    sizes = np.log([1.7, 12.0, 300.0, 7e4])
    log_rate, slope = edge.at(sizes)
    h = 1e-5
    np.testing.assert_allclose(slope, (edge.at(sizes + h)[0] - edge.at(sizes - h)[0]) / (2 * h), rtol=1e-5)
    for size, rate in zip(sizes, log_rate, strict=True):
        least, by_rate = edge.least_batch(rate)
        assert least == pytest.approx(size, abs=2e-2)
        around = [edge.least_batch(rate + sign * 1e-7)[0] for sign in (1, -1)]
        assert by_rate == pytest.approx((around[0] - around[1]) / 2e-7, rel=1e-2)
    assert edge.least_batch(edge.at(np.zeros(1))[0][0] - 1e-3) == (0, 0)
    assert edge.least_batch(-20.0) == (0, 0)


@pytest.mark.parametrize(("ramp", "constant"), KINDS)
def test_what_is_laid_out_keeps_its_bounds_and_its_slopes(ramp, constant):
    freedom, run, point = setting(ramp, constant)
    varied = Varied(freedom, run, point)
    assert run.num_samples(varied.log_batch)[0] == pytest.approx(SAMPLES, rel=1e-10)
    edges = stability_edge(PROBLEM, np.exp(varied.log_batch))
    assert (np.exp(varied.log_rate) <= edges).all()
    assert np.ptp(varied.log_rate) == 0 or not constant
    again = Varied(freedom, run, freedom.point(varied.log_rate, varied.log_batch))
    np.testing.assert_allclose(again.log_rate, varied.log_rate, rtol=1e-9)
    np.testing.assert_allclose(again.log_batch, varied.log_batch, atol=1e-9)
    if not ramp:
        assert (varied.log_batch == np.log(13.0)).all()
    found = varied.found()
    gradient = run.risk_and_gradient(varied.log_rate, varied.log_batch)
    assert found.value == pytest.approx(np.log(gradient.risk), rel=1e-12)
    assert not found.held.any()
    for k in range(point.size):
        way = 1e-4 * np.eye(point.size)[k]
        up, down = (Varied(freedom, run, found.point + sign * way).found().value for sign in (1, -1))
        assert found.slope[k] == pytest.approx((up - down) / 2e-4, rel=1e-4, abs=1e-7)


def test_rates_at_their_bounds_are_held_where_less_risk_lies_beyond():
    quiet, n, held, inwards = st.LeastSquares([1.0, 0.05], [0.01, 1.0], 0.0), 50, [], []
    for problem, batch in ((quiet, 1000.0), (PROBLEM, 13.0)):
        freedom = Search(problem, n, batch * n, False, st.LastIterate()).freedom
        run = Run(problem.modes(1e-9), problem.noise_variance, n, spread_knots(n, 2.0))
        knots = np.arange(run.knots.size)
        for value, bound in ((5.0, freedom.highest), (-99.0, freedom.highest - BELOW_EDGE)):
            for which in [knots >= 0, *(knots == k for k in knots)]:
                found = Varied(freedom, run, np.where(which, value, -0.3)).found()
                np.testing.assert_array_equal(found.point[which], bound)
                outwards = found.slope <= 0 if value > 0 else found.slope >= 0
                np.testing.assert_array_equal(found.held, which & outwards)
                held += found.held[which].tolist()
                inwards += found.slope[which & ~outwards].tolist()
    assert any(held)
    assert not all(held)
    assert any(0 < slope < 1 for slope in inwards)


def test_at_the_highest_constant_rate_all_batches_are_the_mean():
    freedom, run, point = setting(True, True)
    varied = Varied(freedom, run, np.append(freedom.highest, np.full(run.knots.size, -5.0)))
    np.testing.assert_allclose(np.exp(varied.log_batch), 13.0, rtol=1e-2)
    assert varied.raised[1:].all()


def test_batches_at_their_bound_keep_to_it():
    """B ≥ 1, or what a constant γ takes to be stable; the others share the samples."""
    for constant in (False, True):
        freedom, run, point = setting(True, constant)
        rates = point[: point.size - run.knots.size] + (0.9 if constant else 0.0)
        raised = np.append(rates, np.where(np.arange(run.knots.size) < 3, -30.0, 0.5))
        varied = Varied(freedom, run, raised)
        least = freedom.edge.least_batch(rates[0])[0] if constant else 0.0
        np.testing.assert_allclose(varied.log_batch[:3], least, atol=1e-12)
        assert (varied.log_batch[3:] > least).all()
        assert run.num_samples(varied.log_batch)[0] == pytest.approx(SAMPLES, rel=1e-10)
        number = rates.size
        np.testing.assert_array_equal(varied.raised, [False] * number + [True] * 3 + [False] * (run.knots.size - 3))
        found = varied.found()
        np.testing.assert_array_equal(found.held[number:], varied.raised[number:] & (found.slope[number:] >= 0))
        free = [k for k in range(found.point.size) if not varied.raised[k]]
        for k in free:  # to the side where those at their bound stay there
            ahead = Varied(freedom, run, found.point + 1e-6 * np.eye(found.point.size)[k]).found().value
            assert found.slope[k] == pytest.approx((ahead - found.value) / 1e-6, rel=1e-3, abs=1e-5)


def test_what_diverges_is_refused():
    freedom, run, point = setting(True, False)

    def told(risk):
        given = run.risk_and_gradient
        other = SimpleNamespace(knots=run.knots, num_samples=run.num_samples)
        other.risk_and_gradient = lambda *values: given(*values)._replace(risk=risk)
        return Varied(freedom, other, point).found()

    for risk in (np.nan, np.inf, -1.0, 0.99 * freedom.lower_bound):
        found = told(risk)
        assert (found.value, found.held.all(), np.abs(found.slope).max()) == (REFUSED, True, 0)
    assert told(1.0).value == 0
