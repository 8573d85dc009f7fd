"""T7 as a law: against NumPy's dense batches in a rotated basis. Runs are seen in test_means.py."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgdtheory.simulation.dynamics import STEPS, Draw, Spectrum
from sgdtheory.simulation.sufficient import Sufficient
from tests.marks import slow
from tests.simulation import numpy_sgd
from tests.simulation.statistical import FALSE_ALARM, two_sample_p
from tests.simulation.wrong import FewerDegrees, Isotropic, Noisier

EIGENVALUES = np.array([1.0, 0.4, 0.4, 0.05])
RATE, SIZE, PLACE = 0.6, 20_000, 37
SOMEWHERE = np.array([0.5, -0.9, 0.1, 0.6])
BATCHES = [1, slow(2), 7, slow(64)]
STARTS = [(0.0, SOMEWHERE), (0.5, SOMEWHERE), (0.5, np.zeros(4)), (3.0, 0.1 * SOMEWHERE)]
STARTS_NAMED = pytest.mark.parametrize(
    ("sigma", "u"), STARTS, ids=["noiseless", "noisy", "at the optimum", "mostly noise"]
)


@partial(jax.jit, static_argnums=0)
def gradients(sampler, spectrum, keys, batch, u):
    ahead = sampler.ahead(keys, batch, np.uint32(5 * STEPS))[PLACE]
    draws = Draw(keys, np.uint32(5 * STEPS + PLACE), batch, ahead)
    one = jax.vmap(sampler.gradient, in_axes=(None, None, Draw(0, None, 0, 0)))
    return one(spectrum, u, draws)


def stepped(sampler, batch, sigma, u, size=SIZE, seed=0):
    """(size, d) values of u one step later, step 5 · 64 + 37."""
    words = np.random.default_rng([seed, batch]).integers(0, 2**32, (size, 2), dtype=np.uint32)
    batches = np.full(size, batch, np.float32)
    spectrum = Spectrum(*(np.asarray(a, np.float32) for a in (EIGENVALUES, u, sigma)))
    return u - RATE * np.asarray(gradients(sampler, spectrum, words, batches, jnp.asarray(u, jnp.float32)), dtype=float)


def dense(batch, sigma, u, seed=0):
    rng = np.random.default_rng([seed, batch])
    return numpy_sgd.one_step(rng, EIGENVALUES, u, sigma**2, batch_size=batch, learning_rate=RATE, size=SIZE)


def summaries(u, new):
    """Coordinates, random projections, norms, and products that see how the coordinates hang together."""
    change = (new - u) / EIGENVALUES
    directions = np.random.default_rng(9).standard_normal((4, 3))
    along = change @ u if u.any() else change.sum(1)
    products = change[:, 0] * change[:, 1], change[:, 1] * change[:, 2]
    return np.column_stack([new, change @ directions, (new**2).sum(1), (change**2).sum(1), along, *products])


def p_value(u, first, second):
    return two_sample_p(summaries(u, first), summaries(u, second))


@STARTS_NAMED
@pytest.mark.parametrize("batch", BATCHES)
def test_a_step_has_the_law_of_numpy_batches(batch, sigma, u):
    assert p_value(u, stepped(Sufficient(), batch, sigma, u), dense(batch, sigma, u)) > FALSE_ALARM


@pytest.mark.parametrize(
    ("sampler", "batch", "sigma", "u"),
    [
        slow(FewerDegrees(), 2, 0.0, SOMEWHERE),
        (FewerDegrees(), 7, 0.0, SOMEWHERE),
        slow(FewerDegrees(), 7, 0.5, SOMEWHERE),
        slow(FewerDegrees(), 64, 0.0, SOMEWHERE),
        slow(Isotropic(), 1, 0.0, SOMEWHERE),
        (Isotropic(), 7, 0.0, SOMEWHERE),
        slow(Isotropic(), 64, 0.5, SOMEWHERE),
        slow(Noisier(), 1, 0.5, np.zeros(4)),
        slow(Noisier(), 1, 3.0, 0.1 * SOMEWHERE),
        (Noisier(), 7, 0.5, SOMEWHERE),
        slow(Noisier(), 64, 1.0, SOMEWHERE),
    ],
)
def test_wrong_steps_are_found(sampler, batch, sigma, u):
    assert p_value(u, stepped(sampler, batch, sigma, u), dense(batch, sigma, u)) < 1e-6


def test_at_the_optimum_without_noise_nothing_moves():
    for batch in (1, 2, 1000):
        np.testing.assert_array_equal(stepped(Sufficient(), batch, 0.0, np.zeros(4), size=50), 0)


@pytest.mark.parametrize("size", [1e-15, 1e-18])
def test_next_to_the_optimum_nothing_is_divided_by_nothing(size):
    """‖u‖² is subnormal or 0 in float32, with and without noise."""
    for sigma in (0.0, size, 1.0):
        assert np.isfinite(stepped(Sufficient(), 2, sigma, size * SOMEWHERE, size=50)).all()
