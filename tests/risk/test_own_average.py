"""A stranger's average, the mean of w_1 … w_n (as other libraries count), against T20 as it stands."""

import jax
import numpy as np
import pytest

import sgdtheory as st
from tests import dense_recursion

PROBLEM = st.LeastSquares([1.0, 0.6, 0.1, 0.01], [0.3, 0.5, 0.2, 0.2], noise_variance=0.7)
ALGORITHMS = {
    "closed form": (st.SGD(), st.Constant()),
    "panels": (st.SGD(), st.Cosine()),
    "momentum": (st.HeavyBall(0.7), st.Constant()),
}


class AfterSteps(st.AbstractAverage):
    """Average of the iterates before each step from the second on, and the last iterate beside them."""

    def first(self, num_steps):
        return min(1.0, num_steps)

    def forgetting(self, num_steps):
        return 0.0

    def weight(self, num_steps):
        return 1.0

    def returned(self, step, num_steps):
        return st.Returned(1 / step, 1 / step) if step else st.Returned(np.nan, np.nan)

    @property
    def any_length(self):
        return True


def own(name):
    method, schedule = ALGORITHMS[name]
    return st.Algorithm(method, schedule, average=AfterSteps())


def slow_risks(algorithm, *, batch, rate, num_steps):
    """[bias + variance of the mean of w_1 … w_t], t = 1 … n."""
    rows = dense_recursion.table(algorithm.method, algorithm.schedule, algorithm.batch_schedule, batch, rate, num_steps)
    walk = dense_recursion.moments(
        *PROBLEM.directions(),
        algorithm.method.start,
        rows,
        lambda t: (1.0, float(t > 0)),
        algorithm.method.output,
        PROBLEM.noise_variance,
    )
    weights = np.append(algorithm.method.output, 1.0)
    found = [np.einsum("kij,i,j->", M, weights, weights) for M in walk]
    return np.array(found[1:]) / np.arange(1, num_steps + 1) ** 2


@pytest.mark.parametrize("name", ALGORITHMS)
def test_its_path(name):
    setting = {"batch_size": 4, "learning_rate": 0.1, "num_samples": 6000}
    path = st.risk_path(PROBLEM, **setting, algorithm=own(name), points=30)
    expected = slow_risks(own(name), batch=4, rate=0.1, num_steps=1500)
    assert np.isnan(path.average.total[0])
    np.testing.assert_allclose(path.average.total[1:], expected[path.num_steps[1:].astype(int) - 1], rtol=1e-8)


def test_it_is_simulated():
    """A false alarm in 1e4; the uniform average, which counts w_0 and not w_n, is told from it."""
    setting = {"batch_size": 4, "learning_rate": 0.1, "num_samples": 100}
    found = st.simulate(jax.random.key(3), PROBLEM, **setting, algorithm=own("momentum"), num_replicas=20_000)
    exact = slow_risks(own("momentum"), batch=4, rate=0.1, num_steps=25)[-1]
    assert abs(found.z_score(exact)) < 3.9
    uniform = st.excess_risk(PROBLEM, **setting, algorithm=st.Algorithm(st.HeavyBall(0.7))).total
    assert abs(found.z_score(uniform)) > 20


def test_it_is_tuned():
    """The best γ is that of a fine grid of the slow risks, and every D has a critical batch size."""
    best = st.optimal_learning_rate(PROBLEM, batch_size=10, num_samples=300, algorithm=own("closed form"))
    rates = best.learning_rate * np.linspace(0.8, 1.2, 41)
    risks = [slow_risks(own("closed form"), batch=10, rate=rate, num_steps=30)[-1] for rate in rates]
    np.testing.assert_allclose(best.risk, min(risks), rtol=1e-6)
    assert int(np.argmin(risks)) == 20
    assert st.critical_batch_size(PROBLEM, num_samples=300, curve=False, algorithm=own("closed form")).batch_size > 1


def test_schedules_are_optimized_for_it():
    """The optimum is better than the best constant learning rate, and its risk is the slow one."""
    found = st.optimal_schedule(PROBLEM, num_steps=12, num_samples=120, average=AfterSteps())
    constant = st.optimal_learning_rate(PROBLEM, batch_size=10, num_samples=120, algorithm=own("closed form"))
    assert found.risk < constant.risk
