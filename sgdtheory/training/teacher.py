"""Power-law regression on a nonlinear teacher: the theory's problem, made for networks."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sgdtheory._common import counter_random
from sgdtheory.training.data import Teacher
from sgdtheory.training.rows import rows_of_epochs

TEACHER_UNITS = 256  # The teacher has this number J of hidden units.
STREAM = 0x7EAC4E  # The key of the training data and the seed of the teacher contain this word.
CALIBRATION = 1 << 14  # The teacher's mean and variance are measured on this many inputs: the variance to about 1%.
SCALE = 1.5  # The pre-activations of the teacher's tanh have this standard deviation, so that it is far from linear.


class TeacherStream:
    """The stream of power-law regression on a nonlinear teacher.

        y = f*(x) + σ ε,   x_i ~ N(0, λ_i),   λ_i ∝ i^−a,   Σ λ_i = d,   f*(x) = Σ_j v_j tanh(⟨u_j, x⟩ + c_j)

    Direction i contributes ∝ i^−b to the variance of ⟨u_j, x⟩, like the theory's signal s_i = i^−b; f* has mean 0 and
    variance 1 over x. Sample s of the stream is a function of (data_seed, s) alone: the same for every width, batch
    size and split into micro-batches. The hold-out has no label noise: its loss is the excess risk.

    With N samples, sample s of the stream is sample π_k(s − kN) of fresh data, in epoch k = ⌊s/N⌋. π_0 is the identity,
    so that the first epoch is fresh data; the other π_k are random permutations.
    """

    def __init__(self, data: Teacher, batch_size: int, holdout_size: int):
        self.data, self._batch_size = data, batch_size
        index = np.arange(1, data.input_dim + 1, dtype=float)
        spectrum = index**-data.capacity
        self.spectrum = (spectrum * (data.input_dim / spectrum.sum())).astype(np.float32)
        signal = index**-data.source
        per_direction = np.sqrt(signal / signal.sum() / self.spectrum)
        rng = np.random.default_rng((STREAM, data.task_seed))
        units = SCALE * per_direction[:, None] * rng.standard_normal((data.input_dim, TEACHER_UNITS))
        self._units = units.astype(np.float32)
        self._shifts = rng.standard_normal(TEACHER_UNITS).astype(np.float32)
        self._outputs = (rng.standard_normal(TEACHER_UNITS) * TEACHER_UNITS**-0.5).astype(np.float32)
        inputs = rng.standard_normal((CALIBRATION, data.input_dim)) * np.sqrt(self.spectrum)
        sample = np.tanh(inputs @ units + self._shifts) @ self._outputs
        self._mean, self._deviation = float(sample.mean()), float(sample.std())
        held_out = rng.standard_normal((holdout_size, data.input_dim)) * np.sqrt(self.spectrum)
        self._holdout = held_out.astype(np.float32)

    def __call__(self, inputs: Array) -> Array:
        """Return the teacher's outputs f*(x) for inputs (B, d)."""
        return (jnp.tanh(inputs @ self._units + self._shifts) @ self._outputs - self._mean) / self._deviation

    def chunk(self, data_seed: int, first: int, number: int) -> np.ndarray:
        """Return the numbers of steps first … first + number − 1; with N samples those of their samples (…, B)."""
        if self.data.num_samples is None:
            return np.arange(first, first + number, dtype=np.uint32)
        size = self._batch_size
        samples = np.arange(first * size, (first + number) * size).reshape(number, size)
        return rows_of_epochs(data_seed, samples, self.data.num_samples, first_in_order=True)

    def batch(self, data_seed: Array, piece: Array) -> tuple[Array, Array]:
        """Draw the inputs (B, d) and labels (B,) of a step on the device."""
        samples = piece
        if self.data.num_samples is None:
            size = self._batch_size
            samples = piece * np.uint32(size) + jnp.arange(size, dtype=jnp.uint32)
        key = data_seed, jnp.uint32(STREAM)
        normals = jax.vmap(lambda sample: counter_random.normals(key, sample, self.data.input_dim + 1, np.float32))(
            samples
        )
        inputs = normals[:, :-1] * np.sqrt(self.spectrum)
        return inputs, self(inputs) + self.data.noise_variance**0.5 * normals[:, -1]

    def holdout(self) -> tuple[np.ndarray, np.ndarray]:
        """Return inputs and labels without noise, the same for every data_seed."""
        return self._holdout, np.asarray(self(self._holdout))
