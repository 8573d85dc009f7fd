"""Tuning any algorithm, against scans that know nothing but the exact risk."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.critical.tuned_risk import TunedRisk
from tests import dense_recursion
from tests.marks import slow

PROBLEM = st.LeastSquares([1.0, 0.3, 0.05], [0.5, 0.4, 0.3], noise_variance=0.5)
LAST = st.LastIterate()
ALGORITHMS = {
    "last iterate": st.Algorithm(average=LAST),
    "cosine": st.Algorithm(schedule=st.Cosine(), average=LAST),
    "tail": st.Algorithm(average=st.TailAverage(0.5)),
    "momentum": st.Algorithm(st.HeavyBall(0.6), average=LAST),
    "weight decay": st.Algorithm(st.SGD(0.01)),
}


def scanned(algorithm, batch, samples, number=400, end=None):
    """min over a grid of γ up to the end of the range, and where it is."""
    steps = np.floor(samples / batch)
    end = float(TunedRisk(PROBLEM, algorithm).edge(np.array([float(batch)]), np.array([steps]))[0])
    rates = end * np.append(np.geomspace(1e-3, 0.9, number), np.linspace(0.9, 1.0, number // 4))
    risks = st.excess_risk(
        PROBLEM, batch_size=batch, learning_rate=rates, num_samples=batch * steps, algorithm=algorithm
    ).total
    return float(np.min(risks)), float(rates[np.argmin(risks)])


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize(("batch", "samples"), [(1, 300), slow(8, 300), (40, 4000)])
def test_the_best_learning_rate_is_that_of_a_scan(name, batch, samples):
    best = st.optimal_learning_rate(PROBLEM, batch_size=batch, num_samples=samples, algorithm=ALGORITHMS[name])
    least, rate = scanned(ALGORITHMS[name], batch, samples)
    assert least * (1 - 2e-3) <= best.risk <= least * (1 + 1e-9)
    assert best.learning_rate == pytest.approx(rate, rel=0.05)


@pytest.mark.parametrize("name", ["last iterate", slow("cosine"), slow("momentum")])
def test_the_critical_batch_size_by_its_definition(name):
    """Every B, and every number of steps, at a small D."""
    algorithm, samples, overhead = ALGORITHMS[name], 30, 0.5
    optimal = min(scanned(algorithm, batch, samples, 60)[0] for batch in range(1, 16))
    fits = [
        batch
        for batch in range(1, 16)
        if any(
            scanned(algorithm, batch, batch * steps, 60)[0] <= optimal * (1 + 2e-3)
            for steps in range(1, int((1 + overhead) * samples / batch) + 1)
        )
    ]
    found = st.critical_batch_size(PROBLEM, num_samples=samples, overhead=overhead, curve=False, algorithm=algorithm)
    assert found.optimal_risk == pytest.approx(optimal, rel=2e-3)
    assert abs(found.batch_size - max(fits)) <= 1
    assert found.batch_size * found.num_steps <= (1 + overhead) * samples


def test_a_flat_ramp_is_none():
    """Mean batch sizes: a batch schedule of one half everywhere is the same algorithm."""
    problem = st.PowerLaw(2.0, 3.0, 20)
    flat = st.Algorithm(batch_schedule=st.Stages([0, 0.5], [0.5, 0.5]), average=LAST)
    both = [
        TunedRisk(problem, algorithm).risk(np.array([12.5]), np.array([0.1]), np.array([700.0]))[0]
        for algorithm in (flat, st.Algorithm(average=LAST))
    ]
    assert both[0] == pytest.approx(both[1], rel=1e-10)


@pytest.mark.parametrize("schedule", [st.Constant(), st.Cosine()], ids=str)
def test_the_gradient_noise_scale_is_that_of_the_moments(schedule):
    algorithm = st.Algorithm(st.Nesterov(0.5), schedule)
    scale = st.gradient_noise_scale(PROBLEM, batch_size=4, learning_rate=0.1, num_samples=4000, algorithm=algorithm)
    eigenvalues, signal = PROBLEM.directions()
    rows = dense_recursion.table(algorithm.method, schedule, st.Constant(), 4, 0.1, 1000)
    *_, end = dense_recursion.moments(eigenvalues, signal, (1, 0), rows, noise=0.5)
    r = end[:, 0, 0]
    expected = 1 + (r.sum() + 0.5) * eigenvalues.sum() / (eigenvalues @ r)
    assert scale.simple == pytest.approx(expected, rel=1e-8)
    assert scale.excess_risk == pytest.approx(r.sum(), rel=1e-8)


def test_a_minimum_that_its_mirror_image_beyond_the_edge_undercuts_by_a_rounding():
    problem, setting = st.PowerLaw(1.98393, 8.28328), {"batch_size": 2171, "num_samples": 1e4}
    algorithm = st.Algorithm(method=st.Nesterov(0.5))
    best = st.optimal_learning_rate(problem, **setting, algorithm=algorithm)
    rates = np.linspace(0.02, 1.49, 500)
    dense = st.excess_risk(problem, **setting, learning_rate=rates, algorithm=algorithm).total
    assert best.risk <= dense.min()
    assert best.risk == pytest.approx(dense.min(), rel=1e-3)
