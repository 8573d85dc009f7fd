"""Lion: against optax, signSGD where it is that, sampled scatter of pure noise, and simulated means."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import sgdtheory as st

LAST = st.LastIterate()


def risk(method, problem, *, batch=4, rate=0.01, steps=300, schedule=None):
    algorithm = st.Algorithm(method, schedule or st.Linear(), average=LAST)
    setting = {"batch_size": batch, "learning_rate": rate, "num_samples": batch * steps}
    return st.excess_risk(problem, **setting, algorithm=algorithm)


def test_steps_are_those_of_optax():
    gradients = np.random.default_rng(1).standard_normal((30, 5))
    theirs = optax.lion(1.0, b1=0.8, b2=0.95, weight_decay=0.0)
    weights = jnp.zeros(5)
    state, kept = theirs.init(weights), (jnp.zeros(5),)
    for number, gradient in enumerate(jnp.asarray(gradients)):
        update, state = theirs.update(gradient, state, weights)
        direction, kept = st.Lion(0.8, 0.95).direction(gradient, kept, number)
        np.testing.assert_array_equal(direction, -update)


@pytest.mark.parametrize(("lion", "sign"), [((0.9, 0.9), 0.9), ((0.0, 0.9), 0.0)])
def test_limits_are_signs(lion, sign):
    """Equal memories give signSGD with momentum; without β₁ it is signSGD without, whatever is remembered."""
    problem = st.PowerLaw(1.5, 2.0, 30)
    found, expected = (risk(method, problem) for method in (st.Lion(*lion), st.SignSGD(sign)))
    assert (found.total, found.relative_error) == (expected.total, expected.relative_error)
    assert risk(st.Lion(0.9, 0.99), problem).total != pytest.approx(expected.total, rel=0.1)


@pytest.mark.parametrize("batch", [1, 4])
def test_noise_alone_scatters_as_sampled(batch):
    """Var Σ sign(c) of one direction without a signal, 40,000 replicas: false alarm 7e-6; the older part has no length.

    Gaussian gradients in their place are beyond the bound at B = 1.
    """
    beta1, beta2, steps, number = 0.9, 0.95, 60, 40_000
    random = np.random.default_rng(4)
    memory, total = np.zeros(number), np.zeros(number)
    for _ in range(steps):
        gradient = np.sqrt(random.chisquare(batch, number) / batch) * random.standard_normal(number)
        total += np.sign(beta1 * memory + (1 - beta1) * gradient)
        memory = beta2 * memory + (1 - beta2) * gradient
    setting = {"rate": 1e-12, "steps": steps, "schedule": st.Constant()}
    found, gaussian = (
        risk(st.Lion(beta1, beta2), st.LeastSquares([1.0], [0.0]), batch=size, **setting).total * 1e24
        for size in (batch, 10**8)
    )
    room = 4.5 * np.sqrt(2 / number) + 0.01  # sampling, and lengths of older gradients
    assert found == pytest.approx(total.var(), rel=room)
    assert batch > 1 or abs(gaussian / total.var() - 1) > room


def test_searches_take_it():
    algorithm = st.Algorithm(st.Lion(), st.Linear(), average=LAST)
    problem = st.PowerLaw(1.5, 2.0, 10)
    setting = {"num_samples": 256, "algorithm": algorithm}
    best = st.optimal_learning_rate(problem, batch_size=4, **setting)
    at_best = st.excess_risk(problem, batch_size=4, learning_rate=float(best.learning_rate), **setting)
    assert at_best.total == pytest.approx(float(best.risk), rel=1e-3)
    path = st.risk_path(problem, batch_size=4, learning_rate=float(best.learning_rate), points=3, **setting)
    assert path.iterate.total[-1] == pytest.approx(at_best.total, rel=1e-6)
