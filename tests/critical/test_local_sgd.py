"""B* and best learning rates of local SGD: against brute force, and of workers that always talk."""

import numpy as np
import pytest

import sgdtheory as st
from tests import brute_force

PROBLEM = st.LeastSquares([1.0, 0.1, 0.01], [0.6, 0.5, 0.4], 0.7)
POWER = st.PowerLaw(2.0, 3.0)
LAST = st.LastIterate()


def test_the_best_rate_of_workers_that_always_talk_is_that_of_a_larger_batch():
    algorithm = st.Algorithm(st.LocalSGD(4, 1))
    found = st.optimal_learning_rate(POWER, batch_size=2, num_samples=8000, algorithm=algorithm)
    expected = st.optimal_learning_rate(POWER, batch_size=8, num_samples=8000)
    assert found.risk == pytest.approx(expected.risk, rel=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 4])
def test_critical_batch_sizes_are_of_one_worker_and_samples_of_all(workers):
    algorithm = st.Algorithm(st.LocalSGD(workers, 1), average=LAST)
    found = st.critical_batch_size(POWER, num_samples=4000 * workers, algorithm=algorithm)
    plain = st.Algorithm(average=LAST)
    size = found.batch_size * workers
    tuned = st.optimal_learning_rate(POWER, batch_size=size, num_samples=size * found.num_steps, algorithm=plain)
    assert found.num_samples == 4000 * workers
    assert found.batch_size * found.num_steps <= 1.2 * 4000
    assert tuned.risk <= found.optimal_risk * (1 + 1e-8)
    np.testing.assert_allclose(found.curve.samples_needed, workers * found.curve.batch_size * found.curve.num_steps)


@pytest.mark.slow
def test_rarer_talk_costs_data_and_batch_size():
    algorithms = [st.Algorithm(st.LocalSGD(4, steps), average=LAST) for steps in (1, 8)]
    each = [st.critical_batch_size(POWER, num_samples=4000, algorithm=one, curve=False) for one in algorithms]
    assert each[1].optimal_risk > each[0].optimal_risk
    assert each[1].batch_size <= each[0].batch_size


def least_risks(method, batch, rates, most):
    """(most,) least risks of v̄ after 1, 2, … steps of two workers without momentum, over all γ: no code is shared."""
    eigenvalue, signal = np.array(PROBLEM.eigenvalues), np.array(PROBLEM.signal)
    moments = np.broadcast_to((signal / eigenvalue)[:, None, None], (rates.size, 3, 4, 4)).copy()
    moments[..., 1, :] = moments[..., :, 1] = 0.0  # (m, p, v_1, v_2), p = 0
    mu, eta = method.outer_momentum, method.outer_learning_rate
    push = np.array([1.0, mu, -0.5, -0.5])
    common = np.array([1.0, 0, 0, 0]) - eta * (np.array([1.0, 0, -0.5, -0.5]) + mu * push)
    outer = np.array([common, push, common, common])
    step = np.eye(4) - rates[:, None, None, None] * eigenvalue[:, None, None] * np.diag([0, 0, 1.0, 1.0])
    found = []
    for number in range(1, most + 1):
        own = moments[..., [2, 3], [2, 3]]
        risk = np.einsum("i,giw->gw", eigenvalue, own)[:, None] + PROBLEM.noise_variance
        noise = rates[:, None, None] ** 2 * (eigenvalue[:, None] ** 2 * own + eigenvalue[:, None] * risk) / batch
        moments = step @ moments @ step
        moments[..., [2, 3], [2, 3]] += noise
        if number % method.local_steps == 0:
            moments = outer @ moments @ outer.T
        risks = np.einsum("i,giab->g", eigenvalue, moments[..., 2:, 2:]) / 4
        found.append(np.log(np.minimum(np.nan_to_num(risks, nan=np.inf), 1e9)))
    return np.exp(brute_force.interpolated_minimum(np.array(found)))


@pytest.mark.slow
@pytest.mark.parametrize("method", [st.LocalSGD(2, 5, 0.7, 0.6), st.LocalSGD(2, 12, 1.1, 0.3)], ids=str)
def test_critical_batch_sizes_are_those_of_brute_force(method):
    samples = 240  # of one worker
    rates = np.geomspace(1e-3, 1.9, 2000)
    steps = {batch: int(1.2 * samples / batch + 1e-9) for batch in range(1, samples + 1)}
    with np.errstate(all="ignore"):
        risks = {batch: least_risks(method, batch, rates, most) for batch, most in steps.items()}
    optimal = min(risk[samples // batch - 1] for batch, risk in risks.items())
    enough = [batch for batch, risk in risks.items() if (risk[1:] <= optimal * (1 + 3e-9)).any()]
    algorithm = st.Algorithm(method, average=LAST)
    found = st.critical_batch_size(PROBLEM, num_samples=2 * samples, algorithm=algorithm)
    np.testing.assert_allclose(found.optimal_risk, optimal, rtol=1e-7)
    assert found.batch_size == max(enough)


def test_noise_scales_of_workers_that_always_talk_are_those_of_a_larger_batch():
    workers, plain = (st.Algorithm(method, average=LAST) for method in (st.LocalSGD(4, 1), st.SGD()))
    setting = {"learning_rate": 0.2, "num_samples": 1200}
    found, expected = (
        st.gradient_noise_scale(PROBLEM, batch_size=size, algorithm=algorithm, **setting)
        for size, algorithm in ((3, workers), (12, plain))
    )
    np.testing.assert_allclose(found.simple, expected.simple, rtol=1e-12)
    np.testing.assert_allclose(found.hessian_weighted, expected.hessian_weighted, rtol=1e-12)
