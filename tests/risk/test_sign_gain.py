"""Gain of signs with momentum, against closed forms and sampling."""

import numpy as np
import pytest
from scipy import special

from sgdtheory.risk.mean_field.lion import Mixture, correlated, sign_gain


@pytest.mark.parametrize("batch", [1, 3, 64, 1e6])
def test_the_first_step_is_a_plain_sign(batch):
    """c_B/√B over √(2/π) (T37); after many steps of a long memory m is Gaussian."""
    slope = np.exp(special.gammaln(batch) - 2 * special.gammaln(batch / 2) + (2 - batch) * np.log(2)) / np.sqrt(batch)
    first, late = sign_gain(Mixture(0.99, 0.99), np.array([0.0, 1e5]), np.full(2, float(batch)))
    assert first == pytest.approx(slope / np.sqrt(2 / np.pi), rel=1e-3 if batch > 1e3 else 1e-5)
    assert late == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize(("momentum", "seen", "batch"), [(0.5, 30, 1), (0.5, 2, 2), (0.8, 60, 1), (0.3, 12, 4)])
def test_slopes_are_sampled_means(momentum, seen, batch):
    """∂E sign(m)/∂u = E[sign(m) Σ χ_k z_k], the score of z: false alarm 7e-6 each, and a Gaussian m is found out."""
    random = np.random.default_rng(3)
    number = 400_000
    mean = score = 0.0
    for _ in range(seen):
        length = np.sqrt(random.chisquare(batch, number))
        noise = random.standard_normal(number)
        mean = momentum * mean + (1 - momentum) * length * noise / np.sqrt(batch)
        score = score + length * noise / np.sqrt(batch)
    found = np.sign(mean) * score
    weights = momentum ** np.arange(seen)
    gaussian = np.sqrt(2 / np.pi) * weights.sum() / np.sqrt((weights**2).sum())
    gain = sign_gain(Mixture(momentum, momentum), np.array([seen - 1.0]), np.array([float(batch)]))[0]
    error = 4.5 * found.std() / np.sqrt(number)
    assert gain * gaussian == pytest.approx(found.mean(), abs=error)
    if seen == 2:
        assert abs(gaussian - found.mean()) > error


@pytest.mark.parametrize("momentum", [0.8, 0.95])
def test_signs_of_many_steps_scatter_like_the_arcsine_law(momentum):
    """Variance of Σ sign(m), and of it what follows m: false alarm 7e-6 each."""
    random = np.random.default_rng(9)
    number, steps = 40_000, 1000
    mean = np.zeros(number)
    total = np.zeros(number)
    for step in range(200 + steps):
        mean = momentum * mean + (1 - momentum) * random.standard_normal(number)
        total += (step >= 200) * np.sign(mean)
    linear = 2 / np.pi * (1 + momentum) / (1 - momentum)
    expected = linear + (1 - 2 / np.pi) * correlated(Mixture(momentum, momentum), np.array([1e6]), np.ones(1))[0]
    ends = (1 + momentum) / (1 - momentum) / steps  # what they miss of the sum of correlations
    assert expected == pytest.approx(total.var() / steps, rel=4.5 * np.sqrt(2 / number) + ends)
    assert linear + 1 - 2 / np.pi < (1 - 4.5 * np.sqrt(2 / number)) * total.var() / steps
