"""B* of workers that talk seldom, by brute force over every batch size, number of steps and learning rate."""

import numpy as np
import pytest

import sgdtheory as st
from tests.marks import slow

PROBLEM = st.PowerLaw(2.0, 3.0, noise_variance=1.0)


def least_risk(algorithm, batch, num_samples, points):
    """Over γ up to 30 times the edge, and every number of steps that the samples allow."""
    a_step = algorithm.method.num_workers * batch
    edge = float(st.max_stable_learning_rate(PROBLEM, batch_size=batch, algorithm=algorithm))
    rates = edge * np.concatenate([np.geomspace(1e-3, 1, points), np.geomspace(1.001, 30, points)])
    samples = a_step * np.arange(1.0, num_samples / a_step + 1e-9)
    if not samples.size:
        return np.inf
    setting = {"batch_size": batch, "learning_rate": rates[:, None], "num_samples": samples, "algorithm": algorithm}
    return np.nanmin(st.excess_risk(PROBLEM, **setting).total)


@pytest.mark.parametrize(
    ("workers", "steps", "average", "num_samples", "points"),
    [
        (2, 3, st.UniformAverage(), 12.0, 100),
        slow(2, 5, st.UniformAverage(), 60.0, 400),
        slow(3, 4, st.LastIterate(), 60.0, 400),
    ],
)
def test_b_star_is_that_of_brute_force(workers, steps, average, num_samples, points):
    algorithm = st.Algorithm(st.LocalSGD(workers, steps), average=average)
    sizes = range(1, int(1.2 * num_samples / workers) + 1)
    best = min(least_risk(algorithm, batch, num_samples, points) for batch in sizes)
    enough = [batch for batch in sizes if least_risk(algorithm, batch, 1.2 * num_samples, points) <= best]
    found = st.critical_batch_size(PROBLEM, num_samples=num_samples, algorithm=algorithm, curve=False)
    assert found.batch_size == max(enough)
    assert found.optimal_risk == pytest.approx(best, rel=2e-3 if points < 400 else 1e-4)


@pytest.mark.slow
def test_a_rate_at_the_edge_itself_is_no_error():
    """The search asks there; with eight workers a load of 1 to the last digit had no root below it."""
    setting = {"num_samples": 1e4, "algorithm": st.Algorithm(st.LocalSGD(8, 10)), "curve": False}
    assert st.critical_batch_size(st.PowerLaw(2.0, 3.0, dim=1), **setting).batch_size == 7
