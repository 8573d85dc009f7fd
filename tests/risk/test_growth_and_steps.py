"""Growth beyond the edge from risks themselves, stability on both sides of it, and one step from its formula."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.problems.modes import Modes
from sgdtheory.risk import growths_beyond, method_edge
from sgdtheory.risk.stability import is_stable
from sgdtheory.risk.systems.moments import Moments, Steps
from sgdtheory.risk.systems.one_step import nested, stacked, step, step_maps

PROBLEM = st.LeastSquares([1.0, 0.4, 0.05], [0.5, 0.3, 0.2], 0.3)
METHODS = [st.SGD(), st.HeavyBall(0.7), st.AcceleratedSGD(0.9, 0.1, 5.0), st.DelayedSGD(3), st.LocalSGD(2, 4)]


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("batch", [1.0, 5.0])
def test_moments_grow_beyond_the_edge_as_risks_do(method, batch):
    """Per step of a worker: log of the ratio of two late risks over the steps between them."""
    edge = method_edge(PROBLEM, method, np.array([batch, batch]))
    rates = edge * np.array([0.9, 1.1])
    found = growths_beyond(PROBLEM, method, np.array([batch, batch]), rates)
    steps = np.array([1000.0, 1200.0])
    setting = {"batch_size": batch, "num_samples": steps * batch * method.workers}
    algorithm = st.Algorithm(method, average=st.LastIterate())
    risk = st.excess_risk(PROBLEM, **setting, learning_rate=rates[1], algorithm=algorithm).total
    assert found[0] == 0
    assert found[1] == pytest.approx(np.log(risk[1] / risk[0]) / 200, rel=1e-4)
    assert found[1] > 1e-3


@pytest.mark.parametrize("method", METHODS[:4], ids=str)
def test_stability_changes_at_the_edge(method):
    batch = np.array([1.0, 2.5, 300.0])
    edge = method_edge(PROBLEM, method, batch)
    for share, stable in ((0.5, True), (1 - 1e-6, True), (1 + 1e-6, False), (3.0, False)):
        np.testing.assert_array_equal(is_stable(PROBLEM, method, batch, share * edge), stable)


class Growing(st.LinearMethod):
    """Weights grow by a tenth in every step, whatever γ."""

    def coefficients(self, rate, step):
        return st.Coefficients([[1.1]], [rate], [1])


def test_edges_of_stages_below_one_and_of_what_is_never_stable():
    """A schedule of one stage is another peak; the batches are the schedule's, rounded."""
    staged = st.Algorithm(schedule=st.Stages([0.0], [0.5]), batch_schedule=st.Stages([0.0], [2.3]))
    found = st.max_stable_learning_rate(PROBLEM, batch_size=[1, 3], algorithm=staged)
    np.testing.assert_allclose(found, 2 * st.max_stable_learning_rate(PROBLEM, batch_size=[2, 7]), rtol=1e-14)
    never = st.max_stable_learning_rate(PROBLEM, batch_size=[1, 3], algorithm=st.Algorithm(Growing()))
    assert never.tolist() == [0, 0]


@pytest.mark.parametrize("compiled", [False, True])
def test_one_step_is_its_formula(compiled):
    """Two vectors, modes of several directions, two settings: `A M Aᵀ + λ²/B b bᵀ (cᵀMc + P + σ²)`, x and Σ S²."""
    rng = np.random.default_rng(2)
    k, runs, size = 2, 2, 3
    decay, b, c = rng.normal(size=(runs, k, k)), rng.normal(size=(runs, k)), rng.normal(size=(runs, k))
    batch, forgetting, weight = np.array([1.0, 4.0]), np.array([0.3, 0.0]), np.array([0.2, 1.0])
    output = (1.0, -0.5)
    modes = Modes(np.array([1.0, 0.4, 0.1]), np.array([1.0, 2.0, 5.0]), np.ones(3))
    root = rng.normal(size=(2, runs, k, k, size))
    moments = Moments(
        np.einsum("dsijk,dsljk->dsilk", root, root), rng.normal(size=(2, runs, k, size)), rng.random((2, runs))
    )
    maps = step_maps(Steps(decay, b, c, batch, forgetting, weight), modes.eigenvalue, compiled)
    found = stacked(step(nested(moments), maps, modes, output, averaged=True))
    kept = stacked(step(nested(moments), maps, modes, output, averaged=False))
    np.testing.assert_array_equal(kept.own, found.own)
    np.testing.assert_array_equal(kept.cross, moments.cross)
    for copy, s in np.ndindex(2, runs):
        own, cross, square = (each[copy, s] for each in moments)
        seen = np.einsum("ijk,i,j->k", own, c[s], c[s])
        total = 0.0
        for i, (eigenvalue, share) in enumerate(zip(modes.eigenvalue, modes.multiplicity)):
            A = np.eye(k) - decay[s] - eigenvalue * np.outer(b[s], c[s])
            noise = eigenvalue**2 / batch[s] * (seen[i] + share * (seen.sum() + copy))
            expected = A @ own[..., i] @ A.T + noise * np.outer(b[s], b[s])
            np.testing.assert_allclose(found.own[copy, s, ..., i], expected, rtol=1e-12)
            rho, omega, shown = 1 - forgetting[s], weight[s], own[..., i] @ output
            np.testing.assert_allclose(found.cross[copy, s, :, i], A @ (rho * cross[:, i] + omega * shown), rtol=1e-12)
            total += 2 * rho * omega * np.dot(output, cross[:, i]) + omega**2 * np.dot(output, shown)
        assert found.square[copy, s] == pytest.approx((1 - forgetting[s]) ** 2 * square + total, rel=1e-12)


def test_a_path_of_one_pass_is_that_of_the_plain_problem():
    setting = {"batch_size": 2, "learning_rate": 0.3, "num_samples": 40, "points": 6}
    plain = st.risk_path(PROBLEM, **setting)
    once = st.risk_path(PROBLEM.with_samples(40, replacement=False), **setting)
    np.testing.assert_array_equal(once.iterate.total, plain.iterate.total)
    np.testing.assert_array_equal(once.average.total, plain.average.total)
    again = st.risk_path(PROBLEM.with_samples(39, replacement=False), **setting)
    assert again.average.total[-1] != plain.average.total[-1]


def test_tables_of_a_path_and_of_a_risk():
    """Ten of the points, from first to last; a stated error is shown where there is one."""
    setting = {"batch_size": 2, "learning_rate": 0.3, "num_samples": 4000}
    path = st.risk_path(PROBLEM, **setting, points=30, algorithm=st.Algorithm(average=st.TailAverage(0.5)))
    found = path.sheet()
    columns = {each.name: each.value for each in found.tables[0].quantities}
    places = np.searchsorted(path.num_steps, columns["num_steps"])
    assert places.size == 10
    assert (places[0], places[-1]) == (0, path.num_steps.size - 1)
    assert found.title.endswith(f"; 10 of {path.num_steps.size} points")
    assert np.ptp(np.diff(places)) <= 1
    np.testing.assert_array_equal(columns["num_samples"], 2 * columns["num_steps"])
    np.testing.assert_array_equal(columns["iterate_risk"], path.iterate.total[places])
    np.testing.assert_array_equal(columns["risk"], path.average.total[places])
    assert set(columns["learning_rate"]) == {0.3}
    assert set(columns["batch_size"]) == {2.0}
    risk = st.excess_risk(PROBLEM, **setting)
    assert f"{risk.total:.6g}" in str(risk)
    assert "within" not in str(risk)
    kind = type(risk)
    assert "2e-09" in str(kind(1.0, 0.5, 2e-9))
    assert "simulate it" not in str(kind(1.0, 0.5, 2e-9))
    assert "simulate it" in str(kind(1.0, 0.5, np.inf))
    assert "simulate it" not in str(kind(np.inf, 0.5, np.inf))
