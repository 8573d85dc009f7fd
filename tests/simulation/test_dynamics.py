import itertools
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sgdtheory.simulation.dynamics import STEPS, Lane, Spectrum, State, advance, carry, init, risks, step
from sgdtheory.simulation.sufficient import Sufficient

SPECTRUM = Spectrum(*(np.asarray(a, np.float32) for a in ([1.0, 0.3, 0.0], [0.6, 0.5, 0.2], 0.4)))
LANES = Lane(np.array([[1, 2], [3, 4]], np.uint32), np.array([0.5, 0.2], np.float32), np.array([1.0, 30.0], np.float32))


class Decay:
    """u ← u − γu: increments as small as one likes."""

    def draws(self, lanes, first):
        return ()

    def increment(self, spectrum, lane, error, number, draw):
        return -lane.learning_rate * error


class Numbered:
    """u ← u + number of the step + what was drawn for it."""

    def draws(self, lanes, first):
        number = (first + jnp.arange(STEPS, dtype=np.uint32)).astype(np.float32)
        return jnp.broadcast_to(1000 * number[:, None], (STEPS, lanes.key.shape[0]))

    def increment(self, spectrum, lane, error, number, draw):
        return jnp.full_like(error, number + draw)


def two_lanes(spectrum):
    return jax.tree.map(lambda a: jnp.stack([a, a]), init(spectrum))


def advanced(sampler, spectrum, lanes, state, first, count):
    return jax.jit(advance, static_argnums=0)(sampler, spectrum, lanes, state, np.uint32(first), np.int32(count))


of_lanes = jax.vmap(risks, (0, None))


def test_init_is_the_start_and_an_empty_sum():
    state = init(SPECTRUM)
    np.testing.assert_array_equal(state.error, SPECTRUM.start)
    for part in (state.error_low, state.total, state.total_low):
        np.testing.assert_array_equal(part, np.zeros(3))


def test_a_step_adds_the_iterate_before_it_to_the_sum():
    lane = Lane(LANES.key[0], np.float32(0.25), np.float32(1))
    state = step(Decay(), SPECTRUM, lane, init(SPECTRUM), np.uint32(0), ())
    np.testing.assert_allclose(state.total + state.total_low, SPECTRUM.start)
    np.testing.assert_allclose(state.error + state.error_low, 0.75 * SPECTRUM.start)
    average, last = risks(step(Decay(), SPECTRUM, lane, state, np.uint32(1), ()), 2.0)
    np.testing.assert_allclose(average, ((0.875 * SPECTRUM.start) ** 2).sum(), rtol=1e-6)
    np.testing.assert_allclose(last, ((0.5625 * SPECTRUM.start) ** 2).sum(), rtol=1e-6)


def test_carry_loses_nothing():
    rng = np.random.default_rng(0)
    numbers = (rng.standard_normal((4, 500)) * 10.0 ** rng.uniform(-15, 15, (4, 500))).astype(np.float32)
    carried = np.asarray(carry(State(*map(jnp.asarray, numbers))))
    for high, low in ((0, 1), (2, 3)):
        np.testing.assert_array_equal(carried[high], numbers[high] + numbers[low])
        before, after = (
            [Fraction(float(h)) + Fraction(float(v)) for h, v in a[[high, low]].T] for a in (numbers, carried)
        )
        assert before == after


def test_carry_of_infinite_numbers_is_infinite():
    state = carry(State(*(jnp.full(1, v, np.float32) for v in (np.inf, 1.0, 3e38, 3e38))))
    assert [float(part[0]) for part in state] == [np.inf, 0.0, np.inf, 0.0]


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
    lanes = Lane(np.zeros((1, 2), np.uint32), np.full(1, rate, np.float32), np.ones(1, np.float32))
    state = advanced(Decay(), spectrum, lanes, jax.tree.map(lambda a: a[None], init(spectrum)), 0, num_steps)
    change = start * np.expm1(num_steps * np.log1p(-rate))
    moved = float(state.error[0, 0]) - start + float(state.error_low[0, 0])
    total = float(state.total[0, 0]) + float(state.total_low[0, 0])
    assert moved == pytest.approx(change, rel=1e-5)
    assert total == pytest.approx(-change / rate, rel=1e-6)
    naive_error, naive_total = map(float, naive_decay(rate, num_steps))  # negative control
    assert naive_error - start != pytest.approx(change, rel=0.1)
    assert naive_total != pytest.approx(-change / rate, rel=1e-4)


def test_every_step_sees_its_number_and_its_draw():
    spectrum = Spectrum(np.ones(1, np.float32), np.zeros(1, np.float32), np.float32(0))
    compiled = jax.jit(advance, static_argnums=0)
    for first, count in itertools.product((0, 1000), (0, STEPS, 3 * STEPS + 5)):
        state = compiled(Numbered(), spectrum, LANES, two_lanes(spectrum), np.uint32(first), np.int32(count))
        found = np.asarray(state.error, float) + np.asarray(state.error_low, float)
        np.testing.assert_allclose(found, 1001.0 * sum(range(first, first + count)), rtol=1e-6)


def test_advance_is_single_steps():
    """Draws ahead and one step after the other, over the end of a block."""
    count = STEPS + 30
    compiled = advanced(Sufficient(), SPECTRUM, LANES, two_lanes(SPECTRUM), 3, count)
    numbers = np.arange(3, 3 + count, dtype=np.uint32)
    draws = np.concatenate([Sufficient().draws(LANES, np.uint32(first)) for first in range(3, 3 + count, STEPS)])
    one = jax.jit(lambda *given: carry(step(Sufficient(), SPECTRUM, *given)))
    for lane in range(2):
        state = init(SPECTRUM)
        for number, draw in zip(numbers, draws[:count, lane], strict=True):
            state = one(Lane(*(a[lane] for a in LANES)), state, number, draw)
        for found, exact in zip(of_lanes(compiled, count), risks(state, count), strict=True):
            np.testing.assert_allclose(found[lane], exact, rtol=2e-5)


def test_advance_in_two_calls_is_advance_in_one():
    once = advanced(Sufficient(), SPECTRUM, LANES, two_lanes(SPECTRUM), 0, 200)
    half = advanced(Sufficient(), SPECTRUM, LANES, two_lanes(SPECTRUM), 0, 77)
    twice = advanced(Sufficient(), SPECTRUM, LANES, half, 77, 123)
    np.testing.assert_array_equal(of_lanes(twice, 200.0), of_lanes(once, 200.0))  # bit for bit
    wrong = advanced(Sufficient(), SPECTRUM, LANES, half, 76, 123)  # negative control: another step number
    assert not np.allclose(of_lanes(wrong, 200.0), of_lanes(once, 200.0), rtol=1e-3)
