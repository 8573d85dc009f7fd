"""The gradient noise scale's estimates."""

import numpy as np

from sgdtheory.training import train
from sgdtheory.training.noise import noise_scale, unbiased
from sgdtheory.training.streams import stream
from tests.runs import run_of
from tests.training.test_optimization import gradient, initial


def test_two_micro_batches_by_hand():
    first, second = np.array([1.0, 2.0]), np.array([3.0, -1.0])
    small, large = (first @ first + second @ second) / 2, (first + second) @ (first + second) / 4
    squared, trace = unbiased(small, large, 4, 8)
    assert squared == first @ second  # independent halves: the product of their means
    assert trace == 4 * ((first - second) @ (first - second)) / 2


def test_estimates_are_unbiased():
    rng = np.random.default_rng(0)
    mean, deviation = np.array([0.5, -1.0, 0.2]), np.array([1.0, 2.0, 0.5])
    gradients = mean + deviation * rng.standard_normal((20_000, 4, 3, 3))  # 4 micro-batches of 3 samples
    parts = gradients.mean(2)
    small = (parts**2).sum(-1).mean(1)
    large = (parts.mean(1) ** 2).sum(-1)
    for found, expected in zip(unbiased(small, large, 3, 12), (mean @ mean, deviation @ deviation), strict=True):
        score = (found.mean() - expected) / (found.std() / np.sqrt(len(found)))
        assert abs(score) < 4.5  # false alarms: 7e-6


def test_noise_scale_is_a_ratio_and_nan_where_the_gradient_is_not_positive():
    found = noise_scale(np.array([2.0, 1e-6, 0.0, -1.0, np.nan]), np.array([3.0, 3.0, 1.0, 1.0, 1.0]))
    np.testing.assert_allclose(found, [1.5, 3e6, np.nan, np.nan, np.nan])


def test_first_step_of_a_run_by_numpy():
    config = run_of(
        width=8, base_width=8, depth=1, input_dim=4, batch_size=6, micro_batch=3, holdout_size=8, max_steps=1,
        activation="tanh", averages=(),
    )  # fmt: skip
    data = stream(config)
    inputs, targets = (np.asarray(part, float) for part in data.batch(np.uint32(0), data.chunk(0, 0, 1)[0]))
    weights = initial(config)
    one, two = (
        np.concatenate([part.ravel() for part in gradient(weights, inputs[half], targets[half])[1].values()])
        for half in (slice(3), slice(3, 6))
    )
    result = train(config)
    np.testing.assert_allclose(result.squared_gradient[1], one @ two, rtol=1e-4)
    np.testing.assert_allclose(result.gradient_variance[1], 3 * ((one - two) ** 2).sum() / 2, rtol=1e-4)
