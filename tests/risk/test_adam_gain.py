"""Adam's universal functions against closed forms and sampling."""

import numpy as np
import pytest
from scipy import integrate, special

from sgdtheory.risk.mean_field import adam_gain
from sgdtheory.risk.mean_field.adam_gain import adam_gains, gain_at, noise_at
from tests.marks import slow


def found(beta1, beta2, seen, batch, signal=0.0, epsilon=0.0):
    softened = epsilon > 0
    gains, noises = adam_gains(beta1, beta2, softened).looked_up(np.array([float(seen)]), np.array([float(batch)]))
    share = np.array([[1 / (1 + epsilon)]]) if softened else None
    return gain_at(gains, np.array([[float(signal)]]), share)[0, 0], noise_at(noises, share)[0, 0]


@pytest.mark.parametrize("batch", [1, 2, 5, 64, 3000])
def test_the_first_step_is_a_sign(batch):
    """E|G| in units of its root mean square, `√(2/π) E χ_B/√B` at u = 0; all of it at B → ∞ without noise."""
    expected = 2 / np.sqrt(np.pi * batch) * np.exp(special.gammaln((batch + 1) / 2) - special.gammaln(batch / 2))
    assert found(0.9, 0.99, 1, batch)[0] == pytest.approx(expected, rel=2e-4)
    assert found(0.0, 0.99, 1, 1e9, 1.0)[0] == pytest.approx(1, rel=1e-5)


def sampled(beta1, beta2, seen, batch, signal, epsilon=0.0, number=100_000):
    """Means of (1 + ε) m̂/(√v̂ + ε) over u, and their standard error."""
    random = np.random.default_rng(8)
    own = signal / ((1 + 2 / batch) * signal + 1 - signal)
    others = batch * (1 - (1 + 2 / batch) * own)
    mean = square = 0.0
    for _ in range(seen):
        squares = random.chisquare(batch, number)
        gradient = squares * np.sqrt(own) / batch + np.sqrt(squares * others) * random.standard_normal(number) / batch
        mean = beta1 * mean + (1 - beta1) * gradient
        square = beta2 * square + (1 - beta2) * gradient**2
    size = (np.sqrt(square / (1 - beta2**seen)) + epsilon) / (1 + epsilon)
    steps = mean / (1 - beta1**seen) / size / np.sqrt(own)
    return steps.mean(), steps.std() / np.sqrt(number)


@pytest.mark.parametrize(
    ("beta1", "beta2", "seen", "batch", "signal", "epsilon"),
    [
        slow(0.9, 0.95, 120, 1, 0.3, 0.0),
        slow(0.0, 0.5, 40, 1, 0.7, 0.0),
        (0.9, 0.999, 7, 2, 0.5, 0.0),
        slow(0.5, 0.8, 60, 16, 0.6, 0.0),
        (0.95, 0.99, 30, 3, 1.0, 0.0),
        slow(0.8, 0.7, 50, 1, 0.5, 0.0),
        (0.9, 0.95, 60, 1, 0.3, 0.02),
        slow(0.9, 0.95, 60, 1, 0.3, 0.4),
        slow(0.9, 0.95, 60, 1, 0.3, 3.0),
        slow(0.0, 0.5, 40, 2, 0.7, 0.02),
        (0.0, 0.5, 40, 2, 0.7, 0.4),
        slow(0.0, 0.5, 40, 2, 0.7, 3.0),
    ],
)
def test_gains_are_sampled_means(beta1, beta2, seen, batch, signal, epsilon):
    """False alarm 7e-6 each; a gain of 1, that of u = 0, and one without ε are found out."""
    mean, error = sampled(beta1, beta2, seen, batch, signal, epsilon)
    room = 4.5 * error + (5e-4 if epsilon else 3e-4)
    assert found(beta1, beta2, seen, batch, signal, epsilon)[0] == pytest.approx(mean, abs=room)
    wrong = found(beta1, beta2, seen, batch, signal if epsilon else 0.0)[0]
    assert 0 < epsilon < 0.4 or abs(wrong - mean) > room


@pytest.mark.parametrize("share", [0.02, 0.2, 0.7, 0.99])
def test_the_first_step_beside_epsilon(share):
    """E[G²/(|G| + ε)] of a Gaussian G, B → ∞ with noise alone."""
    epsilon = 1 / share - 1
    density = lambda x: x**2 / (x + epsilon) * np.sqrt(2 / np.pi) * np.exp(-(x**2) / 2)  # noqa: E731 (a formula)
    expected = (1 + epsilon) * integrate.quad(density, 0, 40)[0]
    assert found(0.9, 0.99, 1, 1e9, 0.0, epsilon)[0] == pytest.approx(expected, rel=6e-4)


@pytest.mark.parametrize("epsilon", [0.0, 0.3])
@pytest.mark.parametrize(("beta1", "beta2", "batch"), [(0.9, 0.95, 1), (0.0, 0.6, 1), (0.8, 0.9, 4)])
def test_the_scatter_of_many_steps(beta1, beta2, batch, epsilon):
    """Variance of Σ (1 + ε) m/(√v + ε) over 1,000 steps: false alarm 7e-6 each."""
    random = np.random.default_rng(5)
    number, steps = 6000, 1000
    mean = np.zeros(number)
    square = np.ones(number)
    total = np.zeros(number)
    for step in range(100 + steps):
        gradient = np.sqrt(random.chisquare(batch, number) / batch) * random.standard_normal(number)
        mean = beta1 * mean + (1 - beta1) * gradient
        square = beta2 * square + (1 - beta2) * gradient**2
        total += (step >= 100) * mean / (np.sqrt(square) + epsilon) * (1 + epsilon)
    measured = total.var() / steps
    edges = 1 / (1 - beta1) / steps  # what the ends of the sum miss
    assert found(beta1, beta2, 1e9, batch, 0.0, epsilon)[1] == pytest.approx(
        measured, rel=4.5 * np.sqrt(2 / number) + edges
    )


@pytest.mark.parametrize(
    ("beta1", "beta2"),
    [  # the nearest to β₁² = β₂ and the longest memory: those between them are easier
        (0.9, 0.85),
        (0.0, 0.9999),
        slow(0.0, 0.85),
        slow(0.0, 0.99),
        slow(0.9, 0.99),
        slow(0.9, 0.9999),
    ],
)
def test_resolution(beta1, beta2, monkeypatch):
    """Finer grids and higher orders change nothing that counts: less at all later steps than at the first."""
    seen, batch = (each.ravel() for each in np.meshgrid([1, 6, 56, 1e6], [1, 2.7, 30, 1e5]))
    signal = np.linspace(0, 1, 23) * np.ones((seen.size, 1))

    def gain_and_noise():
        polynomials, noise = adam_gains(beta1, beta2).looked_up(seen, batch)
        return gain_at(polynomials, signal), noise

    gain, noise = gain_and_noise()
    finer = {"BATCH_ORDER": 11, "SIGNAL_ORDER": 15, "LOG_S_SPACING": 0.08, "CHI_NODES": 24, "LAGS": 40}
    finer |= {"LOG_S_RANGE_OF_PAIRS": (-26.0, 14.0)}
    for name, value in finer.items():
        monkeypatch.setattr(adam_gain, name, value)
    adam_gains.cache_clear()
    exact_gain, exact_noise = gain_and_noise()
    adam_gains.cache_clear()
    first = np.broadcast_to(seen[:, None] == 1, gain.shape)
    np.testing.assert_allclose(gain[~first], exact_gain[~first], rtol=3e-4)
    np.testing.assert_allclose(gain[first], exact_gain[first], rtol=6e-3)
    np.testing.assert_allclose(noise, exact_noise, rtol=3e-4)
