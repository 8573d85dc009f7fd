from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgdtheory.simulation.dynamics import (
    Dynamics,
    Replica,
    Spectrum,
    State,
    Table,
    advance,
    begin,
    carry,
)

SGD = Dynamics()
OUTPUT = np.ones(1, np.float32)
KEYS = np.array([[1, 2], [3, 4]], np.uint32)


def table_of(rates, batches=(1.0, 30.0)):
    """Return the table of SGD, the same in every step, with a learning rate and a batch size for each run."""
    zeros, ones = np.zeros((1, len(rates), 1, 1)), np.ones((1, len(rates), 1))
    parts = zeros, np.reshape(rates, ones.shape), ones, np.reshape(batches[: len(rates)], (1, len(rates)))
    return Table(*(np.float32(each) for each in parts))


def replicas(keys=KEYS):
    """Replicas of a run each, whose iterates are all summed."""
    one = np.ones(len(keys), np.float32)
    runs, zeros = np.arange(len(keys), dtype=np.uint32), np.zeros(len(keys), np.uint32)
    return Replica(keys, runs, zeros, 0 * one, one, 0 * one, zeros)


class Decay:
    """The gradient is u: u ← u − γu, increments as small as one likes."""

    def ahead(self, key, batch, first):
        return ()

    def gradient(self, spectrum, error, draw):
        return error


compiled_advance = jax.jit(advance, static_argnums=(0, 1))


def started(spectrum, keys=KEYS):
    return jax.vmap(lambda one: begin(SGD, spectrum, one))(replicas(keys))


def advanced(sampler, spectrum, table, state, first, count, keys=KEYS):
    when = np.uint32(0), np.uint32(first), np.int32(count)
    return compiled_advance(SGD, sampler, spectrum, table, replicas(keys), state, *when)


def state_of(error, error_low, total, total_low):
    return State((error,), (error_low,), (), total, total_low)


def arrays_of(state):
    return [*state.vectors, *state.vectors_low, state.total, state.total_low]


def test_carry_loses_nothing():
    rng = np.random.default_rng(0)
    numbers = (rng.standard_normal((4, 500)) * 10.0 ** rng.uniform(-15, 15, (4, 500))).astype(np.float32)
    carried = np.asarray(arrays_of(carry(state_of(*map(jnp.asarray, numbers)))))
    for high, low in ((0, 1), (2, 3)):
        np.testing.assert_array_equal(carried[high], numbers[high] + numbers[low])
        before, after = (
            [Fraction(float(h)) + Fraction(float(v)) for h, v in a[[high, low]].T] for a in (numbers, carried)
        )
        assert before == after


def test_carry_of_infinite_numbers_is_infinite():
    state = carry(state_of(*(jnp.full(1, v, np.float32) for v in (np.inf, 1.0, 3e38, 3e38))))
    assert [float(part[0]) for part in arrays_of(state)] == [np.inf, 0.0, np.inf, 0.0]


def naive_decay(rate, num_steps):
    """The same with a float32 iterate and a float32 sum."""

    def one(_, carried):
        error, total = carried
        return error - np.float32(rate) * error, total + error

    return jax.lax.fori_loop(0, num_steps, one, (np.float32(1 / 3), np.float32(0)))


@pytest.mark.parametrize("rate", [1e-9, 3e-8])
def test_increments_of_1e_9_are_kept(rate):
    """Exactly: u_t = u_0 (1 − γ)^t, Σ u_t = u_0 (1 − (1 − γ)^n)/γ."""
    num_steps, start = 3_000_000, float(np.float32(1 / 3))
    spectrum = Spectrum(np.ones(1, np.float32), np.full(1, 1 / 3, np.float32), np.float32(0), output=OUTPUT)
    keys, table = np.zeros((1, 2), np.uint32), table_of([rate])
    state = advanced(Decay(), spectrum, table, started(spectrum, keys), 0, num_steps, keys)
    change = start * np.expm1(num_steps * np.log1p(-rate))
    moved = float(state.vectors[0][0, 0]) - start + float(state.vectors_low[0][0, 0])
    total = float(state.total[0, 0]) + float(state.total_low[0, 0])
    assert moved == pytest.approx(change, rel=1e-5)
    assert total == pytest.approx(-change / rate, rel=1e-6)
    naive_error, naive_total = map(float, naive_decay(rate, num_steps))  # negative control
    assert naive_error - start != pytest.approx(change, rel=0.1)
    assert naive_total != pytest.approx(-change / rate, rel=1e-4)
