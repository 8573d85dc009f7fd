"""The estimated standard deviation, digit by digit: responses of textbook runs to the noise of each step, added up."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.algorithms import Course
from sgdtheory.simulation import deviation
from sgdtheory.simulation.deviation import standard_deviation
from tests.simulation import textbook
from tests.simulation.test_deviation import ACCELERATED, DECAY, FREE, MOMENTUM, QUANTITIES, arrays
from tests.simulation.test_methods import AVERAGES
from tests.simulation.test_methods_replica_by_replica import delayed

BATCH, RATE, NUMBER = 4, 0.3, 14


def path_of(method, eigenvalue, rates, kicked=None):
    """Errors w_t − w* of one direction, from 1 at w_0 = 0, and those at which gradients are taken.

    In the step that is kicked 1 is added to the gradient.
    """
    seen = []

    def gradient(step):
        def at(weights):
            seen.append(weights.item() + 1)
            return eigenvalue * (weights + 1) + (step == kicked)

        return at

    start = np.zeros((1, 1))
    if isinstance(method, st.DelayedSGD):
        return np.ravel(delayed(gradient, rates, start, 3)) + 1, seen
    update, settings, begins, place = textbook.method_of(method)
    vectors = (start,) * len(begins)
    path = [vectors[place]]
    for step, rate in enumerate(rates):
        vectors = update(vectors, gradient(step), rate, step, **settings)
        path.append(vectors[place])
    return np.ravel(path) + 1, seen


def by_hand(problem, algorithm, average, quantity):
    """√(2 Σ V² + 4 Σ s μ² V), V the sum over steps of (λ²/B) (σ² + Σ_j s_j m_j²) times squared responses."""
    course, steps = Course(algorithm, float(BATCH), RATE, float(NUMBER)), np.arange(NUMBER)
    rates, batches = course.rates(steps), np.asarray(course.batches(steps), dtype=float)
    signal = problem.signal * (quantity != "variance")
    paths = [path_of(algorithm.method, each, rates) for each in problem.eigenvalues]
    points = np.array([seen for _, seen in paths])
    drive = (problem.noise_variance * (quantity != "bias") + signal @ points**2) / batches
    result = 0.0
    for eigenvalue, part, (path, _) in zip(problem.eigenvalues, signal, paths, strict=True):
        mean = average(path)
        kicked = [average(path_of(algorithm.method, eigenvalue, rates, step)[0]) for step in steps]
        variance = eigenvalue**2 * drive @ (np.array(kicked) - mean) ** 2
        result += 2 * variance**2 + 4 * part * mean**2 * variance
    return np.sqrt(result)


PROBLEM = st.LeastSquares([1.0, 0.5, 0.1, 0.0], [1.0, 0.5, 2.0, 0.3], 0.5)
CASES = {
    "averaged": (st.Algorithm(), AVERAGES["uniform"][1]),
    "momentum": (MOMENTUM, AVERAGES["last"][1]),
    "schedule-free": (FREE, AVERAGES["last"][1]),
    "accelerated": (ACCELERATED, AVERAGES["window"][1]),
    "weight decay": (DECAY, AVERAGES["tail"][1]),
    "halfway": (st.Algorithm(st.HeavyBall(0.5), st.Cosine(), average=AVERAGES["halfway"][0]), AVERAGES["halfway"][1]),
    "delayed": (st.Algorithm(st.DelayedSGD(3), st.Cosine(), average=AVERAGES["halfway"][0]), AVERAGES["halfway"][1]),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("quantity", QUANTITIES)
def test_the_deviation_is_that_of_the_responses_to_the_noise_of_each_step(monkeypatch, name, quantity):
    """Tables of five steps, and sums over two modes at once."""
    monkeypatch.setattr(deviation, "STEPS_AT_ONCE", 5)
    monkeypatch.setattr(deviation, "MODES_AT_ONCE", 3)
    algorithm, average = CASES[name]
    samples = Course(algorithm, float(BATCH), RATE, float(NUMBER)).batches(np.arange(NUMBER)).sum()
    settings = arrays(BATCH, RATE, NUMBER) | {"num_samples": np.asarray(samples)}
    found = standard_deviation(PROBLEM, settings, algorithm, quantity)
    assert float(found) == pytest.approx(by_hand(PROBLEM, algorithm, average, quantity), rel=1e-9)


def test_directions_of_an_infinite_problem_that_are_learnt_all_count():
    """As in a list of 3000 of them; sums over steps may be off by 2%."""
    setting, index = arrays(8, 0.05, 100), np.arange(1.0, 3001)
    listed = standard_deviation(st.LeastSquares(index**-2.0, index**-1.5), setting)
    assert float(standard_deviation(st.PowerLaw(2.0, 1.5), setting)) == pytest.approx(float(listed), rel=0.02)
