"""Runs of equivalents side by side: risks against the engine's, slopes against differences of risks."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.risk import EquivalentRuns
from sgdtheory.risk.mean_field import equivalent_runs

PROBLEM = st.PowerLaw(1.5, 2.0, 40, 0.3)
METHODS = [st.SignSGD(), st.SignSGD(0.9), st.Adam(0.9, 0.95), st.Adam(0.0, 0.8), st.Adam(0.5, 0.9, weight_decay=2.0)]
STEPS, BATCH = 30, 4


def two_rates():
    """(2, n) log γ_t."""
    rng = np.random.default_rng(0)
    return np.log(0.03 * (1 - np.arange(STEPS) / (STEPS + 3))) + 0.3 * rng.normal(size=(2, STEPS))


def risk_of(method, log_rate):
    algorithm = st.Algorithm(method, np.exp(log_rate), average=st.LastIterate())
    setting = {"batch_size": BATCH, "num_samples": BATCH * STEPS, "learning_rate": 1.0, "algorithm": algorithm}
    return st.excess_risk(PROBLEM, **setting).total


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_risks_and_slopes(method):
    """Risks of two runs; slopes along a direction of all steps, and by the first, second and last step alone."""
    runs = EquivalentRuns(PROBLEM, method, BATCH, STEPS, 10.0)
    log_rate = two_rates()
    found = runs.risks(log_rate)
    np.testing.assert_allclose(found.risk, [risk_of(method, each) for each in log_rate], rtol=1e-12)
    every = np.sin(np.arange(STEPS))
    for way in (every, *np.eye(STEPS)[[0, 1, -1]]):
        ahead, behind = (risk_of(method, log_rate[1] + sign * 1e-4 * way) for sign in (1, -1))
        assert found.by_rate[1] @ way == pytest.approx((ahead - behind) / 2e-4, rel=1e-5, abs=1e-8 * found.risk[1])


def test_few_at_once_are_many(monkeypatch):
    """Whatever number of steps and of runs is computed together."""
    runs = EquivalentRuns(PROBLEM, METHODS[2], BATCH, STEPS, 10.0)
    log_rate = np.concatenate([two_rates(), two_rates() + 0.2])
    found = runs.risks(log_rate)
    monkeypatch.setattr(equivalent_runs, "AT_ONCE", 3 * 7 * 41)
    monkeypatch.setattr(equivalent_runs, "KEPT", 3 * STEPS * 6 * 41)
    again = runs.risks(log_rate)
    np.testing.assert_allclose(again.risk, found.risk, rtol=1e-13)
    np.testing.assert_allclose(again.by_rate, found.by_rate, rtol=1e-7, atol=1e-10)


def test_a_run_that_diverges_is_data():
    runs = EquivalentRuns(PROBLEM, METHODS[0], BATCH, 3, 10.0)
    found = runs.risks(np.array([[500.0, 0.0, 0.0], [-3.0, -3.0, -4.0]]))
    assert not found.risk[0] < 1e300
    assert np.isfinite(found.by_rate[1]).all()
