import itertools
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgdtheory.simulation.dynamics import (
    STEPS,
    Dynamics,
    Replica,
    Spectrum,
    State,
    Table,
    advance,
    begin,
    carry,
    risks,
    step,
)
from sgdtheory.simulation.sufficient import Sufficient

SPECTRUM = Spectrum(*(np.asarray(a, np.float32) for a in ([1.0, 0.3, 0.0], [0.6, 0.5, 0.2], 0.4)))
SGD = Dynamics()
OUTPUT = np.ones(1, np.float32)
KEYS = np.array([[1, 2], [3, 4]], np.uint32)


def table_of(rates, batches=(1.0, 30.0)):
    """Return the table of SGD, the same in every step, with a learning rate and a batch size for each run."""
    zeros, ones = np.zeros((1, len(rates), 1, 1)), np.ones((1, len(rates), 1))
    parts = zeros, np.reshape(rates, ones.shape), ones, np.reshape(batches[: len(rates)], (1, len(rates)))
    return Table(*(np.float32(each) for each in parts))


TABLE = table_of([0.5, 0.2])


def replicas(keys=KEYS):
    """Replicas of a run each, whose iterates are all summed."""
    one = np.ones(len(keys), np.float32)
    runs, zeros = np.arange(len(keys), dtype=np.uint32), np.zeros(len(keys), np.uint32)
    return Replica(keys, runs, zeros, 0 * one, one, 0 * one, zeros)


def replica(number):
    return Replica(*(each[number] for each in replicas()))


class Decay:
    """The gradient is u: u ← u − γu, increments as small as one likes."""

    def ahead(self, key, batch, first):
        return ()

    def gradient(self, spectrum, error, draw):
        return error


class Numbered:
    """The gradient is the number of the step and what was drawn for it."""

    def ahead(self, key, batch, first):
        number = (first + jnp.arange(STEPS, dtype=np.uint32)).astype(np.float32)
        return jnp.broadcast_to(1000 * number[:, None], (STEPS, key.shape[0]))

    def gradient(self, spectrum, error, draw):
        return jnp.full_like(error, draw.number + draw.ahead)


compiled_advance = jax.jit(advance, static_argnums=(0, 1))


def started(spectrum, keys=KEYS):
    return jax.vmap(lambda one: begin(SGD, spectrum, one))(replicas(keys))


def advanced(sampler, spectrum, table, state, first, count, keys=KEYS):
    when = np.uint32(0), np.uint32(first), np.int32(count)
    return compiled_advance(SGD, sampler, spectrum, OUTPUT, table, replicas(keys), state, *when)


def risks_of(spectrum, state, steps):
    """Return the risks of all lanes: of the mean of n iterates, and of the last."""
    return jax.vmap(lambda one: risks(SGD, spectrum, OUTPUT, one, np.float32(0), np.float32(steps)))(state)


def test_it_begins_at_the_start_with_an_empty_sum():
    state = begin(SGD, SPECTRUM, replica(0))
    np.testing.assert_array_equal(state.vectors[0], SPECTRUM.start)
    for part in (state.vectors_low[0], state.total, state.total_low):
        np.testing.assert_array_equal(part, np.zeros(3))


def one_step(sampler, state, number, draw=(), lane=0, rate=None):
    table = TABLE if rate is None else table_of([rate, rate])
    row = jax.tree.map(lambda each: each[0], table)
    return step(SGD, sampler, SPECTRUM, OUTPUT, replica(lane), state, jnp.asarray(number, np.uint32), row, draw)


def test_a_step_adds_the_iterate_before_it_to_the_sum():
    state = one_step(Decay(), begin(SGD, SPECTRUM, replica(0)), 0, rate=0.25)
    np.testing.assert_allclose(state.total + state.total_low, SPECTRUM.start)
    np.testing.assert_allclose(state.vectors[0] + state.vectors_low[0], 0.75 * SPECTRUM.start)
    after = one_step(Decay(), state, 1, rate=0.25)
    average, last = risks(SGD, SPECTRUM, OUTPUT, after, np.float32(0), np.float32(2))
    np.testing.assert_allclose(average, ((0.875 * SPECTRUM.start) ** 2).sum(), rtol=1e-6)
    np.testing.assert_allclose(last, ((0.5625 * SPECTRUM.start) ** 2).sum(), rtol=1e-6)


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
    spectrum = Spectrum(np.ones(1, np.float32), np.full(1, 1 / 3, np.float32), np.float32(0))
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


def test_every_step_sees_its_number_and_its_draw():
    spectrum = Spectrum(np.ones(1, np.float32), np.zeros(1, np.float32), np.float32(0))
    table = table_of([-1.0, -1.0])  # the gradient is added
    for first, count in itertools.product((0, 1000), (0, STEPS, 3 * STEPS + 5)):
        state = advanced(Numbered(), spectrum, table, started(spectrum), first, count)
        found = np.asarray(state.vectors[0], float) + np.asarray(state.vectors_low[0], float)
        np.testing.assert_allclose(found, 1001.0 * sum(range(first, first + count)), rtol=1e-6)


def test_advance_is_single_steps():
    """Draws ahead and one step after the other, over the end of a block."""
    count = STEPS + 30
    compiled = advanced(Sufficient(), SPECTRUM, TABLE, started(SPECTRUM), 3, count)
    numbers = np.arange(3, 3 + count, dtype=np.uint32)
    draws = np.concatenate(
        [Sufficient().ahead(KEYS, TABLE.batch[0], np.uint32(first)) for first in range(3, 3 + count, STEPS)]
    )
    for lane in range(2):
        one = jax.jit(lambda state, number, draw, lane=lane: carry(one_step(Sufficient(), state, number, draw, lane)))
        state = begin(SGD, SPECTRUM, replica(lane))
        for number, draw in zip(numbers, draws[:count, lane], strict=True):
            state = one(state, number, draw)
        exact = risks(SGD, SPECTRUM, OUTPUT, state, np.float32(0), np.float32(count))
        for found, expected in zip(risks_of(SPECTRUM, compiled, count), exact, strict=True):
            np.testing.assert_allclose(found[lane], expected, rtol=2e-5)


def test_advance_in_two_calls_is_advance_in_one():
    once = advanced(Sufficient(), SPECTRUM, TABLE, started(SPECTRUM), 0, 200)
    half = advanced(Sufficient(), SPECTRUM, TABLE, started(SPECTRUM), 0, 77)
    twice = advanced(Sufficient(), SPECTRUM, TABLE, half, 77, 123)
    np.testing.assert_array_equal(risks_of(SPECTRUM, twice, 200), risks_of(SPECTRUM, once, 200))  # bit for bit
    wrong = advanced(Sufficient(), SPECTRUM, TABLE, half, 76, 123)  # negative control: another step number
    assert not np.allclose(risks_of(SPECTRUM, wrong, 200), risks_of(SPECTRUM, once, 200), rtol=1e-3)
