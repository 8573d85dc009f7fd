"""B* and best learning rates of local SGD: against brute force over B, n and γ, and of workers that always talk."""

import numpy as np
import pytest

import sgdtheory as st
from tests.marks import sampled, slow

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


def test_noise_scales_of_workers_that_always_talk_are_those_of_a_larger_batch():
    workers, plain = (st.Algorithm(method, average=LAST) for method in (st.LocalSGD(4, 1), st.SGD()))
    setting = {"learning_rate": 0.2, "num_samples": 1200}
    found, expected = (
        st.gradient_noise_scale(PROBLEM, batch_size=size, algorithm=algorithm, **setting)
        for size, algorithm in ((3, workers), (12, plain))
    )
    np.testing.assert_allclose(found.simple, expected.simple, rtol=1e-12)
    np.testing.assert_allclose(found.hessian_weighted, expected.hessian_weighted, rtol=1e-12)


def least_risks(algorithm, batch, num_samples, points):
    """Over γ up to 30 times the edge, after 1 step, and more as far as the samples allow; and the samples of each."""
    a_step = algorithm.method.num_workers * batch
    edge = float(st.max_stable_learning_rate(POWER, batch_size=batch, algorithm=algorithm))
    rates = edge * np.concatenate([np.geomspace(1e-3, 1, points), np.geomspace(1.001, 30, points)])
    samples = a_step * np.arange(1.0, num_samples / a_step + 1e-9)
    setting = {"batch_size": batch, "learning_rate": rates[:, None], "num_samples": samples, "algorithm": algorithm}
    return np.nanmin(st.excess_risk(POWER, **setting).total, axis=0), samples


@pytest.mark.parametrize(
    ("workers", "steps", "average", "num_samples", "points"),
    [
        (2, 3, st.UniformAverage(), 12.0, 100),
        *(slow(*case, 60.0, 400) for case in sampled([(3, 4, st.LastIterate()), (2, 5, st.UniformAverage())], 1)),
    ],
)
def test_b_star_is_that_of_brute_force(workers, steps, average, num_samples, points):
    algorithm = st.Algorithm(st.LocalSGD(workers, steps), average=average)
    sizes = range(1, int(1.2 * num_samples / workers) + 1)
    found = {batch: least_risks(algorithm, batch, 1.2 * num_samples, points) for batch in sizes}
    best = min(risk[samples <= num_samples].min(initial=np.inf) for risk, samples in found.values())
    enough = [batch for batch, (risk, _) in found.items() if risk.min() <= best]
    found = st.critical_batch_size(POWER, num_samples=num_samples, algorithm=algorithm, curve=False)
    assert found.batch_size == max(enough)
    assert found.optimal_risk == pytest.approx(best, rel=2e-3 if points < 400 else 1e-4)


@pytest.mark.slow
def test_a_rate_at_the_edge_itself_is_no_error():
    """The search asks there; with eight workers a load of 1 to the last digit had no root below it."""
    setting = {"num_samples": 1e4, "algorithm": st.Algorithm(st.LocalSGD(8, 10)), "curve": False}
    assert st.critical_batch_size(st.PowerLaw(2.0, 3.0, dim=1), **setting).batch_size == 7
