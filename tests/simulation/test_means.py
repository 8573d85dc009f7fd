"""Means against the exact theory, and laws of what is returned: many replicas run for longer than they compile."""

import jax
import numpy as np
import pytest
from scipy import stats

import sgdtheory as st
from sgdtheory.risk.reference import risk_by_covariance
from sgdtheory.simulation import task
from tests.marks import slow
from tests.simulation.small import PROBLEM, simulated
from tests.simulation.statistical import largest_correlation, normal_limit
from tests.simulation.wrong import FewerDegrees, Noisier

CASES = 24


def light_case(seed):
    """Five directions, repeated and frozen ones among them, B ≤ 300, n ≤ 100; light tails, so that z is normal."""
    rng = np.random.default_rng(seed)
    eigenvalues, signal = 10.0 ** -(3 * rng.random((2, 5)))
    eigenvalues[0] = 1.0
    if seed % 4 == 1:
        eigenvalues[1:3] = eigenvalues[0]
    if seed % 4 == 2:
        eigenvalues[4] = 0.0
    problem = st.LeastSquares(eigenvalues * 10.0 ** rng.uniform(-2, 2), signal, rng.uniform(0, 2))
    batch, steps = int(10.0 ** rng.uniform(0, 2.5)), int(10.0 ** rng.uniform(0, 2))
    reach = 0.3 if batch < 30 else 0.85  # of the edge: beyond 1/λ_1
    rate = float(reach * rng.uniform(0.3, 1) * st.max_stable_learning_rate(problem, batch_size=batch))
    return problem, {"batch_size": batch, "learning_rate": rate, "num_samples": batch * steps}


@pytest.mark.parametrize("seed", [*range(0, CASES, 2), *map(slow, range(1, CASES, 2))])
def test_mean_is_the_exact_risk(seed):
    problem, settings = light_case(seed)
    quantity = ("total", "bias", "variance")[seed // 4 % 3]
    exact = getattr(st.excess_risk(problem, **settings), quantity)
    found = simulated(problem, jax.random.key(seed), **settings, num_replicas=4096, quantity=quantity)
    assert abs(found.z_score(exact)) < normal_limit(CASES)


def control(problem, settings, quantity="total"):
    exact = getattr(st.excess_risk(problem, **settings), quantity)
    found = simulated(problem, **settings, num_replicas=20_000, quantity=quantity)
    return found, exact


SHORT = {"batch_size": 2, "learning_rate": 0.4, "num_samples": 24}
NOISELESS = st.LeastSquares([1.0, 0.5, 0.1], [1.0, 0.5, 2.0], 0.0)


@pytest.mark.parametrize(
    ("wrong", "quantity"),
    [slow(FewerDegrees, "total"), (FewerDegrees, "bias"), slow(Noisier, "total"), slow(Noisier, "variance")],
)
def test_the_mean_of_a_wrong_sampler_is_off(monkeypatch, wrong, quantity):
    found, exact = control(PROBLEM, SHORT, quantity)
    assert abs(found.z_score(exact)) < normal_limit(1)
    monkeypatch.setattr(task, "Sufficient", wrong)
    found, _ = control(PROBLEM, SHORT, quantity)
    assert abs(found.z_score(exact)) > 6


@pytest.mark.slow
def test_the_papers_fourth_moment_is_something_else():
    found, exact = control(NOISELESS, SHORT)
    error = np.sqrt(NOISELESS.signal / NOISELESS.eigenvalues)
    settings = {"batch_size": 2, "learning_rate": 0.4, "num_steps": 12}
    assert risk_by_covariance(np.diag(NOISELESS.eigenvalues), error, 0.0, **settings)[0] == pytest.approx(exact)
    paper = risk_by_covariance(np.diag(NOISELESS.eigenvalues), error, 0.0, **settings, paper=True)[0]
    assert abs(found.z_score(exact)) < normal_limit(1)
    assert abs(found.z_score(paper)) > 6


def equal_parts(eigenvalues, rate, num_steps):
    """Signal of which every direction leaves the same risk behind, after as many steps of gradient descent."""
    x = rate * np.asarray(eigenvalues)
    return (num_steps * x / -np.expm1(num_steps * np.log1p(-x))) ** 2


@pytest.mark.parametrize("steps", [100_000, slow(1_000_000), slow(10_000_000)])
def test_many_steps_in_float32(steps):
    """Four directions over nine decades, each a quarter of the risk; the batch leaves next to no noise."""
    eigenvalues, batch = [1.0, 1e-3, 1e-6, 1e-9], 2.0**66
    problem = st.LeastSquares(eigenvalues, equal_parts(eigenvalues, 0.5, steps), 0.0)
    settings = {"batch_size": batch, "learning_rate": 0.5, "num_samples": batch * steps}
    found = simulated(problem, **settings, num_replicas=1)
    np.testing.assert_array_equal(found.num_steps, steps)
    np.testing.assert_allclose(found.excess_risk, st.excess_risk(problem, **settings).total, rtol=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize("quantity", [slow("total"), "variance"])
def test_settings_of_a_call_are_uncorrelated(quantity):
    """Correlations of 0.1 would be seen; after ten steps as well as after a hundred."""
    options = {"learning_rate": [0.5, 0.4, 0.3], "num_samples": 40, "num_replicas": 2000, "quantity": quantity}
    found, again = (simulated(batch_size=[[a], [b]], **options).excess_risk.reshape(6, -1) for a, b in ((4, 5), (5, 4)))
    largest, pairs = largest_correlation(stats.rankdata(found, axis=1).T)
    assert largest < normal_limit(pairs)
    assert largest_correlation(np.column_stack([found[0], again[0]]))[0] > 10  # negative control: one key, two calls
