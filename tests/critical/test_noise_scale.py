"""Gradient noise scales against definitions, a recursion and a simulation; the notions against their sources."""

import jax
import numpy as np
import pytest

import sgdtheory as st
from tests import dense_recursion, oracle
from tests.scaled import SCALES, Scaled
from tests.simulation.statistical import normal_limit, standard_score

CHECKED = ("simple", "hessian_weighted", "excess_risk")


@pytest.mark.parametrize("seed", range(3))
def test_definition_on_a_finite_problem(seed):
    """tr Σ_g and tr HΣ_g from the covariance of the gradient itself (T1), second moments from the recursion."""
    rng = np.random.default_rng(seed)
    d, batch, noise, steps = int(rng.integers(1, 6)), int(rng.integers(1, 50)), rng.uniform(0.01, 3), 200
    eigenvalues, signal = 10.0 ** -(2 * rng.random(d)), 10.0 ** -(2 * rng.random(d))
    problem = st.LeastSquares(eigenvalues, signal, noise)
    rate = 0.5 * st.max_stable_learning_rate(problem, batch_size=batch)
    found = st.gradient_noise_scale(problem, batch_size=batch, learning_rate=rate, num_samples=steps * batch + 0.5)
    last = st.Algorithm(average=st.LastIterate())
    parts = np.array([oracle.parts(problem, last, [(batch, rate, steps)], power) for power in range(3)], dtype=float)
    risk, gradient, curved = parts @ [1, noise]
    covariance = {1: gradient + (risk + noise) * eigenvalues.sum(), 2: curved + (risk + noise) * (eigenvalues**2).sum()}
    assert found.excess_risk == pytest.approx(risk, rel=1e-10)
    assert found.simple == pytest.approx(covariance[1] / gradient, rel=1e-10)
    assert found.hessian_weighted == pytest.approx(covariance[2] / curved, rel=1e-10)


@pytest.mark.parametrize("schedule", [st.Constant(), st.Cosine()], ids=str)
def test_the_scale_of_an_algorithm_is_that_of_the_moments(schedule):
    problem = st.LeastSquares([1.0, 0.3, 0.05], [0.5, 0.4, 0.3], noise_variance=0.5)
    algorithm = st.Algorithm(st.Nesterov(0.5), schedule)
    scale = st.gradient_noise_scale(problem, batch_size=4, learning_rate=0.1, num_samples=4000, algorithm=algorithm)
    eigenvalues, signal = problem.directions()
    rows = dense_recursion.table(algorithm.method, schedule, st.Constant(), 4, 0.1, 1000)
    *_, end = dense_recursion.moments(eigenvalues, signal, (1, 0), rows, noise=0.5)
    r = end[:, 0, 0]
    expected = 1 + (r.sum() + 0.5) * eigenvalues.sum() / (eigenvalues @ r)
    assert scale.simple == pytest.approx(expected, rel=1e-8)
    assert scale.excess_risk == pytest.approx(r.sum(), rel=1e-8)


def test_covariance_of_the_gradient_of_one_sample():
    """The formula of (T15) against gradients of a million samples at a fixed η; five standard errors."""
    rng = np.random.default_rng(0)
    eigenvalues, error, noise = np.array([1.0, 0.5, 0.1]), np.array([0.5, -1.0, 2.0]), 0.6
    x = rng.standard_normal((10**6, 3)) * np.sqrt(eigenvalues)
    gradients = (x @ error - np.sqrt(noise) * rng.standard_normal(10**6))[:, None] * x
    mean = eigenvalues * error
    risk = (eigenvalues * error**2).sum()
    for power in (0, 1):
        squares = ((gradients - mean) ** 2) @ eigenvalues**power
        expected = (eigenvalues**power * mean**2).sum() + (risk + noise) * (eigenvalues ** (1 + power)).sum()
        assert abs(standard_score(squares, expected)) < 5


def test_infinite_dimension_at_the_start():
    """a = 2, b = 3: zeta values. tr H = ζ(2), tr H² = ζ(4), Σ s = ζ(3), Σ λs = ζ(5), Σ λ²s = ζ(7)."""
    zeta = {2: 1.6449340668482264, 3: 1.2020569031595942, 4: 1.0823232337111382, 5: 1.0369277551433699}
    found = st.gradient_noise_scale(st.PowerLaw(2, 3), batch_size=9, learning_rate=1e-300, num_samples=900)
    assert found.simple == pytest.approx(1 + (zeta[3] + 1) * zeta[2] / zeta[5], rel=1e-11)
    assert found.hessian_weighted == pytest.approx(1 + (zeta[3] + 1) * zeta[4] / 1.008349277381923, rel=1e-11)


def test_risk_of_the_last_iterate_against_simulation():
    """False alarm 1e-4; as a negative control the risk of the average is told apart."""
    problem, settings = st.PowerLaw(1.5, 2.0, 8, 0.5), {"batch_size": 4, "learning_rate": 0.3, "num_samples": 200}
    simulated = st.simulate(jax.random.key(7), problem, num_replicas=4000, **settings).last_iterate_risk
    found = st.gradient_noise_scale(problem, **settings)
    assert abs(standard_score(simulated, found.excess_risk)) < normal_limit(1)
    assert abs(standard_score(simulated, st.excess_risk(problem, **settings).total)) > normal_limit(1)


def test_without_signal_and_noise_there_is_no_gradient():
    """0/0 is nan, and no warning."""
    silent = st.LeastSquares([1.0], [0.0], 0.0)
    found = st.gradient_noise_scale(silent, batch_size=1, learning_rate=0.1, num_samples=10)
    assert not np.isfinite(found.simple)
    assert found.excess_risk == 0
    learnt = st.gradient_noise_scale(
        st.LeastSquares([1.0], [1.0], 0.0), batch_size=4, learning_rate=0.5, num_samples=1e6
    )
    assert np.isnan(learnt.simple)
    assert np.isnan(learnt.hessian_weighted)


@pytest.mark.parametrize("samples", [100, 1e5])
def test_a_gradient_that_is_zero_from_the_start_has_an_infinite_scale(samples):
    """Signal where λ = 0 and no learning at all elsewhere, but label noise: γ tiny."""
    problem = st.LeastSquares([0.0, 0.0], [1.0, 1.0], 1.0)
    found = st.gradient_noise_scale(problem, batch_size=1, learning_rate=0.1, num_samples=samples)
    assert found.excess_risk == pytest.approx(2.0)
    assert not np.isfinite(found.simple)


def test_scalars_and_broadcasting():
    problem = st.PowerLaw(2, 3, 30)
    batch, rate, samples = np.array([1, 8])[:, None], 0.2, np.array([64, 5e3, 1e6])
    found = st.gradient_noise_scale(problem, batch_size=batch, learning_rate=rate, num_samples=samples)
    one = st.gradient_noise_scale(problem, batch_size=8, learning_rate=rate, num_samples=5e3)
    for name in CHECKED:
        assert getattr(found, name).shape == (2, 3)
        assert isinstance(getattr(one, name), float)
        assert getattr(found, name)[1, 1] == pytest.approx(getattr(one, name), rel=1e-10)


@pytest.mark.parametrize("scale", SCALES)
def test_units_of_the_eigenvalues_do_not_matter_in_infinite_dimension(scale):
    problem = st.PowerLaw(1.5, 2.5, noise_variance=0.4)
    settings = {"batch_size": np.array([1, 20])[:, None], "num_samples": np.array([40, 5e3, 1e8])}
    found = st.gradient_noise_scale(problem, learning_rate=0.3, **settings)
    scaled = st.gradient_noise_scale(Scaled(problem, scale), learning_rate=0.3 / scale, **settings)
    for name in CHECKED:
        np.testing.assert_allclose(getattr(scaled, name), getattr(found, name), rtol=1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 0.1, 10), "batch_size must be a whole number of at least 1, got 0"),
        ((1, 0.0, 10), "learning_rate must be positive and finite, got 0"),
        ((16, 0.1, 10), "num_samples must be at least batch_size"),
        ((np.ones(2), np.ones(3), 10), "must broadcast against each other"),
    ],
)
def test_bad_settings(arguments, message):
    batch, rate, samples = arguments
    with pytest.raises(ValueError, match=message):
        st.gradient_noise_scale(st.PowerLaw(2, 3), batch_size=batch, learning_rate=rate, num_samples=samples)
    with pytest.raises(ValueError, match="problem must be a PowerLaw"):
        st.gradient_noise_scale(None, batch_size=1, learning_rate=0.1, num_samples=10)


# ------------------------------------------------------------------ notions


def test_notions_are_those_of_their_sources():
    samples = np.array([[10.0, 30.0]])
    problem, convention = st.PowerLaw(1.5, 2.5, 20, 0.7), {"overhead": 0.4, "risk_factor": 1.5}
    found = st.notions(problem, num_samples=samples, **convention)
    critical = st.critical_batch_size(problem, num_samples=samples, **convention)
    np.testing.assert_array_equal(found.num_samples, samples)
    np.testing.assert_array_equal(found.critical_batch_size, critical.batch_size)
    np.testing.assert_array_equal(found.rate_batch_size, critical.rate_batch_size)
    assert (found.critical.overhead, found.critical.risk_factor) == (0.4, 1.5)
    noise = st.gradient_noise_scale(
        problem, batch_size=critical.batch_size, learning_rate=critical.learning_rate, num_samples=samples
    )
    np.testing.assert_allclose(found.simple_noise_scale, noise.simple, rtol=1e-3)  # γ* is known to some 1e-4
    np.testing.assert_allclose(found.hessian_noise_scale, noise.hessian_weighted, rtol=1e-3)
    default = st.notions(problem, num_samples=20.0).critical
    assert (default.overhead, default.risk_factor) == (0.2, 2.0)


def test_interpolation_batch_size():
    """m* = tr H/λ_1."""
    assert st.notions(st.PowerLaw(2, 3), num_samples=10).interpolation_batch_size == pytest.approx(
        1.6449340668482264, rel=1e-12
    )
    problem = st.LeastSquares([0.5, 2.0, 1.0], [1.0, 0.1, 0.1])
    assert st.notions(problem, num_samples=10).interpolation_batch_size == pytest.approx(3.5 / 2.0)


def test_a_peak_above_the_samples_needs_a_schedule_of_batches():
    setting = {"batch_size": 100, "learning_rate": 0.1, "num_samples": 60}
    ramp = st.Algorithm(batch_schedule=st.Stages([0, 0.5], [0.1, 1.0]))
    assert np.isfinite(st.gradient_noise_scale(st.PowerLaw(2, 3), **setting, algorithm=ramp).simple)
    with pytest.raises(ValueError, match="num_samples must be at least batch_size"):
        st.gradient_noise_scale(st.PowerLaw(2, 3), **setting)
