"""Deterministic equivalents at huge learning rates, in processors that flush small numbers to 0, and on batch ramps."""

import warnings

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.risk.mean_field import chi
from sgdtheory.risk.mean_field.adam import AdamField
from sgdtheory.risk.mean_field.ensemble import Ensemble
from sgdtheory.risk.mean_field.field import Added, Known

LAST = st.LastIterate()


@pytest.mark.parametrize("method", [st.SignSGD(), st.SignSGD(0.9), st.Lion(), st.Adam(0.9, 0.99), st.NormalizedSGD()])
def test_huge_learning_rates_do_not_warn(method):
    problem = st.LeastSquares([1, 0.1, 0.0], [1, 1, 0.0], 0.0)
    setting = {"batch_size": 4, "num_samples": 4000, "algorithm": st.Algorithm(method, average=LAST)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for rate in (1e30, 1e160, 1e250):
            risk = st.excess_risk(problem, **setting, learning_rate=rate)
            assert risk.total > 1e50
            assert risk.relative_error >= 0.02
    assert risk.relative_error == np.inf  # the value is beyond the range of a float


def test_adam_divides_by_no_number_below_the_normal_range():
    """A direction without noise: where such numbers are flushed to 0 its step would be 0/0."""
    one = np.ones((1, 1))
    still = Ensemble(np.zeros(1), np.zeros(1), np.ones(1), np.zeros(1), 0.0, 1.0)
    known = Known(0 * one, one, one, ())
    with np.errstate(all="raise"):
        added = Added(0 * one, 0 * one, one[None])
        move = AdamField(0.9, 0.99).move(still, np.zeros((6, 1, 1)), one, added, known)
    assert move.older == move.newest == move.drift == 0


def test_rules_of_a_batch_ramp_are_those_of_its_batch_sizes(monkeypatch):
    """All of them take one fine rule: made anew for each it took seconds."""
    asked = []
    fine = chi.legendre.leggauss
    monkeypatch.setattr(chi.legendre, "leggauss", lambda points: asked.append(points) or fine(points))
    batches = np.append(np.arange(3000.0, 3200.5, 0.5), [3000.0, 1e9])
    node, weight = chi.chi_rules(batches)
    assert len(asked) <= 1
    for place in (0, 77, 401, 402):
        one = chi.chi_rule(float(batches[place]), node.shape[1])
        np.testing.assert_allclose(node[place], one.node, rtol=1e-12)
        np.testing.assert_allclose(weight[place], one.weight, rtol=1e-9)


@pytest.mark.parametrize("beta2", [0.0, 1e-8, 1e-6])
def test_adam_without_memory_is_sign(beta2):
    """E g²/v is 1/(1 + √β₂) then. The mean of v in its place had up to 53% less."""
    problem = st.PowerLaw(1.5, 2.0, 100)
    found = [
        st.excess_risk(
            problem,
            batch_size=16,
            learning_rate=0.01,
            num_samples=16_000,
            algorithm=st.Algorithm(method, st.Linear(), average=st.LastIterate()),
        )
        for method in (st.Adam(0.0, beta2), st.SignSGD())
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize("beta1", [0.0, 0.9])
def test_adams_first_step_is_a_sign_that_may_be_certain(beta1):
    """Gains were interpolated to 3e-4: the step led farther than a sign does, with a variance below 0."""
    index = np.arange(1.0, 7)
    problem = st.LeastSquares(index**-2, index**-1, 0.1)
    algorithm = st.Algorithm(st.Adam(beta1, 0.95), average=st.LastIterate())
    found = st.excess_risk(problem, batch_size=1e5, learning_rate=2.0, num_samples=1e5, algorithm=algorithm)
    expected = ((np.sqrt(problem.signal) - 2 * np.sqrt(problem.eigenvalues)) ** 2).sum()
    assert found.bias == pytest.approx(expected, rel=1e-10)
    assert 0 <= found.variance < 1e-10
