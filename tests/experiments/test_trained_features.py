"""The regression on learnt features, the theory's steps on it, and verdicts of known ratios."""

from dataclasses import replace

import numpy as np
import pytest

import sgdtheory as st
from experiments import trained_features as experiment
from experiments.trained_features import Config, Row, answer, fewest_steps, predicted_ratio, regression

CONFIG = Config(batch_sizes=(4, 8, 16, 32), averages=(0.8,), num_samples=400, target=0.1)


@pytest.fixture(scope="module")
def sampled():
    random = np.random.default_rng(0)
    phi = random.standard_normal((4096, 5)) * np.array([1.0, 0.7, 0.5, 0.3, 0.0])  # the last unit is dead
    return phi, phi @ np.array([1.0, -1.0, 0.5, 0.5, 3.0]) + 0.1 * np.sign(phi[:, 0])


def test_the_regression_is_least_squares(sampled):
    """Signal and what is missed add up; coordinates give covariance and w_0 − w* of the weights."""
    phi, targets = sampled
    learnt = regression(phi, targets, 1.0)
    best, *_ = np.linalg.lstsq(phi, targets, rcond=None)
    missed = np.mean((targets - phi @ best) ** 2)
    assert learnt.missed == pytest.approx(missed, rel=1e-6)
    assert learnt.problem.noise_variance == pytest.approx(1 + missed, rel=1e-6)
    assert learnt.problem.signal.sum() == pytest.approx(np.mean(targets**2) - missed)
    turn = learnt.coordinates
    np.testing.assert_allclose(turn * learnt.problem.eigenvalues @ turn.T, phi.T @ phi / len(phi), atol=1e-12)
    alive = learnt.problem.eigenvalues > 1e-9
    start = turn[:, alive] @ np.sqrt(learnt.problem.signal[alive] / learnt.problem.eigenvalues[alive])
    np.testing.assert_allclose(start[:4], -best[:4], rtol=1e-6)


def test_steps_are_the_fewest_over_learning_rates(sampled):
    """A dense grid of γ has the same steps, to the accuracy of a grid of powers of two."""
    learnt = regression(*sampled, 1.0)
    rate, average, steps = fewest_steps(CONFIG, learnt, st.SGD(), 16)
    every = [experiment._steps(CONFIG, learnt, st.SGD(), 16, rate * factor)[0] for factor in np.geomspace(0.1, 10, 31)]
    assert min(every) <= steps <= 1.2 * min(every)
    assert average in (0.0, 0.8)
    unreachable = replace(CONFIG, target=learnt.missed)
    assert np.isnan(fewest_steps(unreachable, learnt, st.SGD(), 16)[2])


def test_ratios_of_known_laws():
    """Steps a + b/B need 1.2 times the data of B = 2 at B* = 2.4 + 0.2 b/a."""
    sizes = np.array([2.0, 8, 32, 128])

    def rows(arm, a, b):
        return [Row(0, arm, size, 0.1, 0.0, a + b / size, 0.0) for size in sizes]

    config = replace(CONFIG, reference=2.0)
    known = rows("adam", 10.0, 1000.0) + rows("sgd", 10.0, 500.0)
    assert predicted_ratio(config, known, ("adam", "sgd")) == pytest.approx(12.4 / 22.4)
    some = [row for row in known if row.arm == "adam" or row.batch_size > 2]
    assert np.isnan(predicted_ratio(config, some, ("adam", "sgd")))


@pytest.mark.parametrize(
    ("inner", "outer", "expected"),
    [
        ((0.8, 1.2), (0.7, 1.4), "holds"),
        ((0.7, 1.2), (0.6, 1.4), "inconclusive"),
        ((1.5, 2.0), (1.4, 2.1), "fails"),
        ((0.3, 0.5), (0.2, 0.7), "fails"),
        ((1.4, 2.0), (1.2, 2.1), "inconclusive"),
    ],
)
def test_answers(inner, outer, expected):
    assert answer(inner, outer, 1.3) == expected
