import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgdtheory.simulation.dynamics import Draw, Spectrum
from sgdtheory.simulation.explicit import ROWS, Explicit
from sgdtheory.simulation.laws import Gaussian
from tests.simulation import numpy_sgd
from tests.simulation.statistical import FALSE_ALARM, normal_limit, standard_score, two_sample_p

U = np.array([0.5, -0.9, 0.6])
EIGENVALUES = np.array([1.0, 0.4, 0.1])
RATE = 0.5


def stepped(batch, sigma, size, law=None, seed=0):
    words = np.random.default_rng([seed, batch]).integers(0, 2**32, (size, 2), dtype=np.uint32)
    spectrum = Spectrum(*(np.asarray(a, np.float32) for a in (EIGENVALUES, U, sigma)))
    one = jax.vmap(Explicit(law or Gaussian(), batch).gradient, in_axes=(None, None, Draw(0, None, None, None)))
    found = jax.jit(one)(spectrum, jnp.asarray(U, jnp.float32), Draw(words, np.uint32(1234), np.float32(batch), ()))
    return U - RATE * np.asarray(found, dtype=float)


@pytest.mark.parametrize("batch", [1, ROWS + 1])
def test_a_step_has_the_law_of_numpy_batches(batch):
    size = 20_000 if batch < 10 else 1500
    dense = numpy_sgd.one_step(
        np.random.default_rng(batch), EIGENVALUES, U, 0.25, batch_size=batch, learning_rate=RATE, size=size
    )
    found = stepped(batch, 0.5, size)
    columns = [np.column_stack([new, (new**2).sum(1), new[:, 0] * new[:, 1]]) for new in (found, dense)]
    assert two_sample_p(*columns) > FALSE_ALARM


@pytest.mark.parametrize("batch", [3, 2 * ROWS + 44])
def test_mean_and_variance_of_a_step(batch):
    """E = u − γΛu and, of coordinate i, (γλ_i)² (u_i² + ‖u‖² + σ²)/B: false-alarm rate 1e-4 over six scores."""
    new = stepped(batch, 0.5, 2000)
    deviation = new - U * (1 - RATE * EIGENVALUES)
    variance = (RATE * EIGENVALUES) ** 2 * (U**2 + U @ U + 0.25) / batch
    assert np.abs(standard_score(deviation, 0.0)).max() < normal_limit(6)
    assert np.abs(standard_score(deviation**2, variance)).max() < normal_limit(6)
    fewer = variance * batch / (batch + 1 + batch // 3)  # negative control: the padding of a slice counted as data
    assert np.abs(standard_score(deviation**2, fewer)).max() > 6
