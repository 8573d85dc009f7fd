"""Searches: what they know, where they begin and end, against what is known in closed form."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.optimal.knots import spread_knots
from sgdtheory.optimal.schedules import Schedules
from sgdtheory.optimal.search import STARTS, Knots, Search, lower_bound
from tests import brute_force
from tests.scaled import SCALES, Scaled

PROBLEM = st.LeastSquares([1.0, 0.3, 0.05], [0.5, 0.4, 0.3], noise_variance=0.5)
STEPS, SAMPLES = 200, 2600.0


@pytest.fixture
def begins(monkeypatch):
    """Record the starts of searches, which end there."""
    seen = []

    class Stays:
        def __init__(self, function, begin):
            seen.append(begin)
            self.here = function(begin)

        def ended(self, gain):
            return self.here

    monkeypatch.setattr("sgdtheory.optimal.search.Searches", Stays)
    return seen


def test_the_lower_bound_in_closed_form():
    expected = (PROBLEM.signal * 0.5 / (0.5 + 70 * PROBLEM.signal)).sum()
    assert lower_bound(PROBLEM, 70.0) == pytest.approx(expected, rel=1e-12)
    signal = np.arange(1.0, 2e6) ** -3.0
    assert lower_bound(st.PowerLaw(2.0, 3.0), 70.0) == pytest.approx((signal / (1 + 70 * signal)).sum(), rel=1e-6)
    many = (signal / (1 + 7e6 * signal)).sum()  # of which each of the directions that are merged has learnt some
    assert lower_bound(st.PowerLaw(2.0, 3.0), 7e6) == pytest.approx(many, rel=1e-4)
    assert lower_bound(st.LeastSquares([1.0], [1.0], 0.0), 70.0) == 0


def test_more_knots_from_search_to_search():
    """One direction, whose least risk is known."""
    problem, n, batch = st.LeastSquares([1.0], [2.0], 0.3), 100, 4
    risk, _ = brute_force.one_direction(2.0, 0.3, batch, n)
    search = Search(problem, n, n * batch, False, st.LastIterate())
    edge = float(st.max_stable_learning_rate(problem, batch_size=batch))
    assert search.edge == pytest.approx(edge, rel=1e-5)
    assert search.freedom.highest == 0
    assert not search.few
    begun = search.begun()
    half, best = search.finished(begun)
    for found, spacing, close in ((begun, 1.4, 1e-2), (half, 0.7, 1e-3), (best, 0.35, 1e-4)):
        np.testing.assert_array_equal(found.steps, spread_knots(n, spacing))
        assert risk * (1 - 1e-9) < found.risk < risk * (1 + close)
        assert found.slope < 1e-3
    assert begun.risk > half.risk > best.risk
    near = search.near(lambda u: np.exp(np.interp(u, best.steps / n, best.log_rate)) / edge)
    np.testing.assert_array_equal(near.steps, half.steps)
    assert near.risk == pytest.approx(half.risk, rel=1e-4)
    few = Search(problem, 64, 256, False, st.LastIterate())
    assert few.few
    assert not Search(problem, 65, 260, False, st.LastIterate()).few
    np.testing.assert_array_equal(few._knots(0.35), np.arange(64))
    np.testing.assert_array_equal(few._knots(0.7), spread_knots(64, 0.7))


def test_a_constant_rate_up_to_a_share_of_the_edge():
    search = Search(PROBLEM, STEPS, SAMPLES, True, st.LastIterate(), True, 0.25)
    assert search.freedom.highest == np.log(0.25)
    rates = np.exp(search.finished(search.begun())[1].log_rate)
    np.testing.assert_allclose(rates, 0.25 * search.edge, rtol=1e-9)  # more would be better


def test_what_a_search_knows():
    """The edge of large batches too, and directions fine enough for n steps."""
    assert Search(PROBLEM, 100, 40_000, False, st.LastIterate()).edge == pytest.approx(
        float(st.max_stable_learning_rate(PROBLEM, batch_size=400)), rel=1e-5
    )
    problem = st.PowerLaw(2.0, 3.0)
    modes = Search(problem, 1000, 4000, False, st.LastIterate()).modes
    index = np.arange(1.0, 100_001)
    for time, close in ((2000, 1e-4), (100_000, 1e-3)):
        expected = (index**-3 * np.exp(-time * index**-2)).sum()
        assert modes.signal @ np.exp(-time * modes.eigenvalue) == pytest.approx(expected, rel=close)
    for scale in SCALES:
        scaled = Search(Scaled(problem, scale), 1000, 4000, False, st.LastIterate()).modes
        np.testing.assert_allclose(scaled.eigenvalue, scale * modes.eigenvalue, rtol=1e-12)


def test_the_largest_slope_is_told_where_no_bound_holds(begins, monkeypatch):
    """One of four knots is held, and its slope, 5, does not count."""
    search = Search(PROBLEM, STEPS, SAMPLES, False, st.LastIterate())
    slope, held = np.array([[0.1, -0.7, 0.2, 5.0]]), np.array([[False, False, False, True]])
    found = Schedules.__call__
    monkeypatch.setattr(Schedules, "__call__", lambda self, point: found(self, point)._replace(slope=slope, held=held))
    steps = np.array([0.0, 20.0, 180.0, STEPS - 1])
    assert search._minima(steps, np.full((1, 4), np.log(0.3)), np.full((1, 4), np.log(13.0)), 1e-7)[0].slope == 0.7


def test_slopes_at_the_edge_are_no_slopes():
    """A slow direction without noise: some rates are as large as they may be."""
    search = Search(st.LeastSquares([1.0, 0.01], [0.01, 1.0], 0.0), 80, 80_000, False, st.LastIterate())
    found = search.half(search.begun())
    assert (found.log_rate >= np.log(search.edge) - 1e-9).any()
    assert found.slope < 1e-2


def test_noise_that_nothing_can_be_learnt_through():
    """The least risk is within 10⁻⁹ of the lower bound: it is no error."""
    search = Search(st.LeastSquares([1.0], [1e-9], 1.0), 80, 80, False, st.LastIterate())
    found = search.half(search.begun())
    assert search.lower_bound * (1 - 1e-9) < found.risk < 1e-9 * (1 + 1e-6)


# ------------------------------------------------------------------ where they begin


def test_starts_are_what_their_names_say_and_stable():
    u = np.linspace(0.01, 0.99, 9)
    decay, constant, small = (STARTS[name](u) for name in ("linear decay", "constant", "small"))
    np.testing.assert_allclose(decay / decay[0], (1 - u) / (1 - u[0]))
    assert np.ptp(constant) == np.ptp(small) == 0
    assert 0 < small[0] < 0.1 * constant[0]
    assert max(decay.max(), constant[0]) < 1


def test_searches_begin_where_they_are_told_to(begins):
    """γ/edge as a function of t/n, B = D/n; on more knots, at what was found on fewer ones."""
    search = Search(PROBLEM, STEPS, SAMPLES, False, st.LastIterate())
    begun = search.begun(lambda u: 0.1 + 0.8 * u)
    few, more = (np.exp(each[0]) for each in begins)
    assert 4 < few.size < more.size
    np.testing.assert_allclose([few[0], few[-1]], [0.1, 0.9], atol=0.005)
    np.testing.assert_allclose(np.interp(0.5, (spread_knots(STEPS, 2.8) + 0.5) / STEPS, few), 0.5, rtol=1e-6)
    np.testing.assert_allclose(more, np.exp(begun.log_rate) / search.edge)
    begins.clear()
    near = search.near(lambda u: 0.1 + 0.8 * u)
    np.testing.assert_allclose(np.exp(begins[0][0]), 0.1 + 0.8 * near.steps / STEPS, rtol=1e-9)
    search.near(lambda u: 0.0 * u)
    assert (begins[1] > -20).all()  # far above the lowest rate that there is: no bound holds it
    begins.clear()
    together = search.begun_each()
    assert list(together) == list(STARTS)
    assert len(begins[0]) == len(begins[1]) == 3
    for row, start in enumerate(STARTS.values()):
        alone = search.begun(start)
        np.testing.assert_array_equal(begins[0][row], begins[-2][0])
        np.testing.assert_array_equal(begins[1][row], begins[-1][0])
        assert list(together.values())[row].risk == alone.risk


def test_more_knots_begin_where_fewer_have_ended(begins):
    search = Search(PROBLEM, STEPS, SAMPLES, True, st.LastIterate())
    knots = spread_knots(STEPS, 1.4)
    schedules = Schedules(search.freedom, search.run(knots))
    point = np.append(np.linspace(-1, -3, knots.size), np.sin(np.arange(knots.size)))
    log_rate, log_batch = (each[0] for each in schedules.steps(point[None]))
    again = search.refined(Knots(knots, log_rate, log_batch, 1.0, 0.0), 1.4)
    np.testing.assert_allclose(again.log_rate, log_rate, atol=1e-9)
    np.testing.assert_allclose(again.log_batch, log_batch, atol=1e-9)


def test_the_best_constant_rate():
    """Batch sizes given: the best learning rate of the last iterate."""
    search = Search(PROBLEM, STEPS, SAMPLES, False, st.LastIterate(), True)
    last = st.Algorithm(average=st.LastIterate())
    best = st.optimal_learning_rate(PROBLEM, num_samples=SAMPLES, batch_size=13, algorithm=last)
    found = search.half(search.begun())
    assert found.risk == pytest.approx(best.risk, rel=1e-6)
    np.testing.assert_allclose(np.exp(found.log_rate), best.learning_rate, rtol=1e-3)
