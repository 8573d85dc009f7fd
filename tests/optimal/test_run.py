"""The risk of a run by its knots, and its gradient, against every step, differences and automatic differentiation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.algorithms import Course
from sgdtheory.optimal.knots import place, spread_knots
from sgdtheory.optimal.run import Run
from sgdtheory.risk import course_risk
from tests import brute_force

NOISE = 0.7
PROBLEM = st.LeastSquares([1.0, 0.4, 0.05, 1e-3, 1e-5], [0.3, 0.4, 0.2, 0.2, 0.1], noise_variance=NOISE)


def values(knots, num_steps, rate):
    """A rise and a fall of γ, and a wavy B."""
    log_rate = np.log(rate * np.cos(np.pi / 2 * knots / num_steps) ** 2 * (1 - 0.9 / (knots + 1)) + 1e-9)
    return log_rate, np.log(8.0) + 0.5 * np.sin(np.arange(knots.size))


def of_every_step(run, at_knots):
    return np.exp(np.interp(place(np.arange(run.num_steps), run.num_steps), place(run.knots, run.num_steps), at_knots))


@pytest.mark.parametrize(("num_steps", "spacing"), [(2, 0.7), (30, 1.0), (400, 2.0), (3000, 0.7), (3000, 0.1)])
def test_the_risk_is_that_of_every_step(num_steps, spacing):
    run = Run(PROBLEM.modes(1e-9), NOISE, num_steps, spread_knots(num_steps, spacing))
    log_rate, log_batch = values(run.knots, num_steps, 0.5)
    rates, batches = of_every_step(run, log_rate), of_every_step(run, log_batch)
    exact = brute_force.last_risk(PROBLEM, rates, batches)
    assert run.risk_and_gradient(log_rate, log_batch).risk == pytest.approx(exact, rel=1e-5)
    assert run.num_samples(log_batch)[0] == pytest.approx(batches.sum(), rel=1e-6)
    assert run.weight.size <= num_steps, "no segment has more equations than steps"
    assert run.weight.sum() == pytest.approx(num_steps)


class Mixed(st.UniformAverage):
    """Three tenths of the last iterate, the rest of the uniform average: no average of the library returns both."""

    def returned(self, step, num_steps):
        return super().returned(step, num_steps)._replace(iterate=0.3, total=0.7 / step)


AVERAGES = st.LastIterate(), st.UniformAverage(), st.TailAverage(0.4), st.ExponentialAverage(window=0.1), Mixed()


@pytest.mark.parametrize("average", AVERAGES[1:], ids=lambda average: type(average).__name__)
@pytest.mark.parametrize("num_steps", [2, 30, 3000])
def test_averages_are_those_of_the_exact_risk(num_steps, average):
    run = Run(PROBLEM.modes(1e-9), NOISE, num_steps, spread_knots(num_steps, 0.7), average)
    log_rate, _ = values(run.knots, num_steps, 0.5)
    table = st.Algorithm(schedule=of_every_step(run, log_rate), average=average)
    exact = st.excess_risk(PROBLEM, batch_size=8, learning_rate=1.0, num_samples=8 * num_steps, algorithm=table)
    found = run.risk_and_gradient(log_rate, np.full(run.knots.size, np.log(8.0))).risk
    assert found == pytest.approx(exact.total, rel=1e-5)


@pytest.mark.parametrize("average", AVERAGES, ids=lambda average: type(average).__name__)
@pytest.mark.parametrize("num_steps", [30, 500, 20_000, 1e7])
def test_the_gradient_is_that_of_differences(num_steps, average):
    problem = st.PowerLaw(1.5, 2.5, noise_variance=NOISE)
    run = Run(problem.modes(0.5 / num_steps), NOISE, num_steps, spread_knots(num_steps, 1.4), average)
    here = np.concatenate(values(run.knots, num_steps, 0.4))
    found = run.risk_and_gradient(*np.split(here, 2))
    rng, h = np.random.default_rng(0), 5e-5  # smaller, and rounding shows in the differences
    for _ in range(3):
        way = rng.normal(size=here.size)
        up, down = (run.risk_and_gradient(*np.split(here + sign * h * way, 2)).risk for sign in (1, -1))
        slope = np.concatenate([found.rate, found.batch]) @ way
        assert slope == pytest.approx((up - down) / (2 * h), rel=1e-6, abs=1e-9 * found.risk)
        more, less = (run.num_samples(here[run.knots.size :] + s * h * way[run.knots.size :])[0] for s in (1, -1))
        samples = run.num_samples(here[run.knots.size :])[1] @ way[run.knots.size :]
        assert samples == pytest.approx((more - less) / (2 * h), rel=1e-6)


def test_the_gradient_of_every_step_is_that_of_automatic_differentiation():
    """T26 with a knot at every step, against JAX through the recursion."""
    n = 40
    run = Run(PROBLEM.modes(1e-9), NOISE, n, np.arange(n, dtype=float))
    assert run.weight.size == n
    log_rate, log_batch = values(run.knots, n, 0.5)
    with jax.enable_x64(True):
        eigenvalue, signal = jnp.asarray(PROBLEM.eigenvalues), jnp.asarray(PROBLEM.signal)

        def final(log_rate, log_batch):
            def step(risk, now):
                x = jnp.exp(now[0]) * eigenvalue
                return (1 - x) ** 2 * risk + x**2 / jnp.exp(now[1]) * (risk + risk.sum() + NOISE), None

            return jax.lax.scan(step, signal, (log_rate, log_batch))[0].sum()

        by_rate, by_batch = jax.grad(final, (0, 1))(jnp.asarray(log_rate), jnp.asarray(log_batch))
        by_rate, by_batch = np.asarray(by_rate), np.asarray(by_batch)
    found = run.risk_and_gradient(log_rate, log_batch)
    np.testing.assert_allclose(found.rate, by_rate, rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(found.batch, by_batch, rtol=1e-9, atol=1e-14)
    with pytest.raises(AssertionError):  # control: the step before
        np.testing.assert_allclose(found.rate, np.roll(by_rate, 1), rtol=1e-2)


@pytest.mark.parametrize("num_steps", [6, 3000])
@pytest.mark.parametrize("average", AVERAGES, ids=lambda average: type(average).__name__)
def test_schedules_side_by_side_are_each_alone(num_steps, average):
    """Also where there are more than are computed at once, and directions that count together."""
    rng, modes = np.random.default_rng(0), st.PowerLaw(2.0, 3.0).modes(0.1)
    assert not np.allclose(modes.multiplicity, 1)
    run = Run(modes, NOISE, num_steps, spread_knots(num_steps, 2.0), average)
    log_rate = rng.uniform(-3, 0.3, (5, run.knots.size))
    log_batch = rng.uniform(1, 6, (5, run.knots.size))
    run.together = 2
    found = run.risk_and_gradient(log_rate, log_batch)
    for k in range(5):
        one = run.risk_and_gradient(log_rate[k], log_batch[k])
        assert found.risk[k] == pytest.approx(one.risk, rel=1e-12)
        np.testing.assert_allclose(found.rate[k], one.rate, rtol=1e-9, atol=1e-13)
        np.testing.assert_allclose(found.batch[k], one.batch, rtol=1e-9, atol=1e-13)
        samples = run.num_samples(log_batch)
        np.testing.assert_allclose(samples[1][k], run.num_samples(log_batch[k])[1], rtol=1e-12)


def test_long_runs_agree_with_the_exact_risk():
    """A million steps, by the exact engine through the shape of the knots."""
    problem, n = st.PowerLaw(2.0, 3.0, noise_variance=NOISE), 1e6
    run = Run(problem.modes(0.5 / n), NOISE, n, spread_knots(n, 0.7))
    log_rate, _ = values(run.knots, n, 0.4)
    shape = st.optimal.KnotShape(n, tuple(run.knots), tuple(np.exp(log_rate)))
    algorithm = st.Algorithm(schedule=shape, average=st.LastIterate())
    exact = course_risk(problem, Course(algorithm, 8.0, 1.0, n), estimate=False).parts.sum()
    found = run.risk_and_gradient(log_rate, np.full(run.knots.size, np.log(8.0))).risk
    assert found == pytest.approx(exact, rel=1e-5)
