"""Simulated late gradients against the exact risk, and wrong theories that must fail. False alarms: 1e-5 each."""

import jax
import pytest

import sgdtheory as st

PROBLEM = st.LeastSquares([1.0, 0.5, 0.1], [0.5, 0.3, 0.4], noise_variance=0.2)
ALARM = 4.42  # standard errors
SETTING = {"batch_size": 64, "learning_rate": 0.3, "num_samples": 64 * 12}
SELDOM = (0.75, *[0.0] * 7, 0.25)  # its mean is 2 steps


@pytest.mark.parametrize(
    ("simulated", "wrong"),
    [(SELDOM, 2), pytest.param(3, 4, marks=pytest.mark.slow)],
)
def test_simulated_risk_is_the_exact_one_of_its_own_delay_alone(simulated, wrong):
    right, other = (st.Algorithm(st.DelayedSGD(delay), average=st.LastIterate()) for delay in (simulated, wrong))
    found = st.simulate(jax.random.key(5), PROBLEM, **SETTING, algorithm=right, num_replicas=8000)
    expected, mistaken = (st.excess_risk(PROBLEM, **SETTING, algorithm=each).total for each in (right, other))
    assert abs(found.mean - expected) < ALARM * found.standard_error
    assert abs(found.mean - mistaken) > 2 * ALARM * found.standard_error
