"""Runs and their variables: how close they are, and how many equations and layouts they take."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.optimal.knots import spread_knots
from sgdtheory.optimal.run import Run
from sgdtheory.optimal.schedules import Edge, Schedules
from sgdtheory.optimal.search import Search

THREE = st.LeastSquares([1.0, 0.3, 0.02], [1.0, 0.5, 0.3], noise_variance=0.5)


@pytest.mark.parametrize(
    ("steps", "spacing", "last", "tail"),
    [
        (20, 0.7, 20, 20),
        (100, 0.35, 100, 100),
        (400, 0.7, 137, 153),
        (400, 2.8, 155, 177),
        (1e4, 0.7, 178, 185),
        (1e4, 1.4, 179, 186),
        (1e8, 0.35, 703, 710),
    ],
)
def test_a_run_has_no_more_equations_than_it_needs(steps, spacing, last, tail):
    """To 1e-5 of the risk on panels a third as wide; and as many schedules at a time as the cache has room for."""
    modes = st.PowerLaw(2.0, 3.0).modes(0.25 / steps, 1e-3)
    knots = spread_knots(steps, spacing)
    log_rate, log_batch = np.log(0.3 * (1 - knots / steps) + 1e-9), np.log(5 + 20 * knots / steps)
    for average, equations in ((st.LastIterate(), last), (st.TailAverage(0.3), tail)):
        run, fine = (Run(modes, 0.5, steps, knots, average, widest) for widest in (0.7, 0.2))
        found, exact = (each.risk_and_gradient(log_rate, log_batch) for each in (run, fine))
        assert found.risk == pytest.approx(exact.risk, rel=1e-5)
        assert run.weight.size <= equations
        size = run.weight.size * modes.eigenvalue.size
        assert run.together * size <= max(3e5, size) < (run.together + 1) * size


def test_the_edge_between_batch_sizes_is_known_closely(schedules):
    rng = np.random.default_rng(0)
    largest = 1e6
    edge = Edge(st.PowerLaw(1.5, 2.0), largest)
    batch = np.append([1.0, largest], 10.0 ** rng.uniform(0, 6, 500))
    exact = st.risk.stability_edge(st.PowerLaw(1.5, 2.0), batch)
    found = np.exp(edge.at(np.log(batch))[0])
    assert (found <= exact).all()
    assert (found >= exact * (1 - 4e-7)).all()
    assert edge.log_excess.x.size < 1540
    small = batch[batch < 1e3]
    size, slope = edge.least_batch(edge.at(np.log(small))[0])
    np.testing.assert_allclose(size, small, rtol=1e-5)
    assert (slope > 0).all()


@pytest.mark.parametrize(("constant", "most"), [(False, 192), (True, 195)])
def test_samples_are_shared_out_in_few_rounds(constant, most, schedules):
    rng = np.random.default_rng(0)
    search = Search(THREE, 300, 13.0 * 300, True, st.LastIterate(), constant)
    found = Schedules(search.freedom, search.run(spread_knots(300, 1.0)))
    points = rng.normal(scale=3.0, size=(40, found.rates + found.run.knots.size))
    points[:, : found.rates] = -rng.exponential(0.5, (40, found.rates))
    total = 0
    for point in points:
        schedules["samples"] = 0
        log_batch = found.steps(point[None])[1]
        total += schedules["samples"]
        assert found.run.num_samples(log_batch)[0] == pytest.approx(13.0 * 300, rel=1e-11)
        assert np.exp(log_batch).min() >= 1 - 1e-9
    assert total <= 1.01 * most
