"""One step of both samplers as a law (T7): against NumPy's dense batches in a rotated basis."""

from dataclasses import dataclass, field
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgdtheory.simulation.dynamics import STEPS, Draw, Spectrum
from sgdtheory.simulation.explicit import ROWS, Explicit
from sgdtheory.simulation.laws import Gaussian
from sgdtheory.simulation.sufficient import Sufficient
from tests.marks import slow
from tests.simulation.statistical import FALSE_ALARM, normal_limit, standard_score, two_sample_p
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


def numpy_step(rng, eigenvalues, u, noise_variance, *, batch_size, learning_rate, size):
    """(size, d) values of H^{1/2} η, in the eigenbasis, one step after it was u: dense batches in a rotated basis."""
    basis = np.linalg.qr(rng.standard_normal((u.size, u.size)))[0]
    error = np.tile(basis @ (u / np.sqrt(eigenvalues)), (size, 1))
    x = rng.standard_normal((size, batch_size, u.size)) * np.sqrt(eigenvalues) @ basis.T
    residual = np.einsum("rbd,rd->rb", x, error) - np.sqrt(noise_variance) * rng.standard_normal(x.shape[:2])
    error = error - learning_rate * np.einsum("rb,rbd->rd", residual, x) / batch_size
    return error @ basis * np.sqrt(eigenvalues)


def dense(batch, sigma, u, seed=0):
    rng = np.random.default_rng([seed, batch])
    return numpy_step(rng, EIGENVALUES, u, sigma**2, batch_size=batch, learning_rate=RATE, size=SIZE)


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


U = np.array([0.5, -0.9, 0.6])
THREE = np.array([1.0, 0.4, 0.1])
HALF = 0.5


def explicit_step(batch, sigma, size, law=None, seed=0):
    words = np.random.default_rng([seed, batch]).integers(0, 2**32, (size, 2), dtype=np.uint32)
    spectrum = Spectrum(*(np.asarray(a, np.float32) for a in (THREE, U, sigma)))
    one = jax.vmap(Explicit(law or Gaussian(), batch).gradient, in_axes=(None, None, Draw(0, None, None, None)))
    found = jax.jit(one)(spectrum, jnp.asarray(U, jnp.float32), Draw(words, np.uint32(1234), np.float32(batch), ()))
    return U - HALF * np.asarray(found, dtype=float)


@pytest.mark.parametrize("batch", [1, ROWS + 1])
def test_an_explicit_step_has_the_law_of_numpy_batches(batch):
    size = 20_000 if batch < 10 else 1500
    dense = numpy_step(np.random.default_rng(batch), THREE, U, 0.25, batch_size=batch, learning_rate=HALF, size=size)
    found = explicit_step(batch, 0.5, size)
    columns = [np.column_stack([new, (new**2).sum(1), new[:, 0] * new[:, 1]]) for new in (found, dense)]
    assert two_sample_p(*columns) > FALSE_ALARM


@pytest.mark.parametrize("batch", [3, 2 * ROWS + 44])
def test_mean_and_variance_of_a_step(batch):
    """E = u − γΛu and, of coordinate i, (γλ_i)² (u_i² + ‖u‖² + σ²)/B: false-alarm rate 1e-4 over six scores."""
    new = explicit_step(batch, 0.5, 2000)
    deviation = new - U * (1 - HALF * THREE)
    variance = (HALF * THREE) ** 2 * (U**2 + U @ U + 0.25) / batch
    assert np.abs(standard_score(deviation, 0.0)).max() < normal_limit(6)
    assert np.abs(standard_score(deviation**2, variance)).max() < normal_limit(6)
    fewer = variance * batch / (batch + 1 + batch // 3)  # negative control: the padding of a slice counted as data
    assert np.abs(standard_score(deviation**2, fewer)).max() > 6


@dataclass(frozen=True)
class Ones:
    """Rows of ones, as many as are asked for."""

    asked: list = field(default_factory=list, hash=False)

    def sample(self, key, rows, spectrum):
        self.asked.append(rows)
        return jnp.ones((rows, spectrum.eigenvalue.size), spectrum.start.dtype)


@pytest.mark.parametrize(("batch", "bound", "rows"), [(3, None, 3), (600, None, 256), (5, 8, 8), (600, 256, 256)])
def test_a_batch_is_drawn_in_slices_of_which_the_last_is_not_full(batch, bound, rows):
    """Of rows of ones the mean gradient is λ Σ u, whatever the batch, and no row is missing or read twice."""
    law = Ones()
    sampler = Explicit(law, batch) if bound is None else Explicit(law, bound, varying=True)
    spectrum = Spectrum(*(np.asarray(a, np.float32) for a in (THREE, U, 0.0)))
    draw = Draw(np.array([1, 2], np.uint32), np.uint32(3), jnp.float32(batch), ())
    found = sampler.gradient(spectrum, jnp.asarray(U, jnp.float32), draw)
    np.testing.assert_allclose(found, THREE * U.sum(), rtol=1e-5)
    assert set(law.asked) == {rows}
    assert sampler.numbers_a_lane(spectrum) == rows * Explicit(law, 1).numbers_a_lane(spectrum)
