"""Averaged SGD in many directions and at the limits of floats, and the interface."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.algorithms import Course
from sgdtheory.risk import iterate_moments, risk_by_covariance, risk_by_recursion, risk_parts, stability_edge
from tests import oracle
from tests.marks import slow

TOLERANCE = 1e-10  # the promise; measured is below 1e-12


def risk_after(problem, batch, rate, steps):
    return st.excess_risk(problem, batch_size=batch, learning_rate=rate, num_samples=float(steps) * batch)


@pytest.mark.parametrize("tolerance", [1e-8, 1e-5])
def test_what_searches_allow_is_kept(tolerance):
    """On the whole stable range, up to 1e-9 from its edge; and the fewer points of the contour are taken."""
    rng, worst = np.random.default_rng(7), []
    for _ in range(40):
        problem, size = (
            st.PowerLaw(rng.uniform(1.1, 4), rng.uniform(1.1, 8), noise_variance=10 ** rng.uniform(-3, 2)),
            25,
        )
        batch, steps = 10 ** rng.uniform(0, 8, size), np.floor(10 ** rng.uniform(1.6, 10, size))
        near = rng.random(size) < 0.5
        share = np.where(near, 1 - 10 ** rng.uniform(-9, 0, size), 10 ** rng.uniform(-6, 0, size))
        settings = batch, share * stability_edge(problem, batch), steps
        exact, found = (risk_parts(problem, *settings, tolerance=each, stable=True).sum(0) for each in (0.0, tolerance))
        worst.append(np.abs(found / exact - 1).max())
    assert 1e-6 * tolerance < max(worst) < tolerance


def assert_exact(found, problem, batch, rate, steps, allowed):
    exact = oracle.parts(problem, st.Algorithm(), [(batch, rate, int(steps))])
    assert max(map(oracle.relative_error, (found.bias, found.variance), exact)) < allowed


@pytest.mark.parametrize("factor", [1.0, 1 + 1e-12, 1 + 1e-6, 1.01])
@pytest.mark.parametrize(
    "eigenvalues", [[1.0, 0.0], [0.3, 0.2, 0.1, 0.0], [1.0] * 5 + [0.0], [1.0, 0.5, 0.25, 1e-200], [1.0, 1e-12]]
)
def test_at_and_just_beyond_the_edge(eigenvalues, factor):
    """The sum of (T5), not one direction, makes SGD unstable; with directions that do not move."""
    problem = st.LeastSquares(eigenvalues, np.ones(len(eigenvalues)))
    rate = factor * st.max_stable_learning_rate(problem, batch_size=3)
    for steps in (33, 40, 1000):
        assert_exact(risk_after(problem, 3, rate, steps), problem, 3, rate, steps, 1e-11)


@pytest.mark.parametrize("dim", [100, 127, 128, 150, 3000])
@pytest.mark.parametrize("capacity", [1.4, 2.5, 6.0])
def test_a_finite_power_law_equals_its_explicit_spectrum(capacity, dim):
    """Tails of few directions have modes of negative multiplicity; moments of the last iterate, and beyond the edge."""
    index = np.arange(1.0, dim + 1)
    law, explicit = st.PowerLaw(capacity, 2.2, dim=dim), st.LeastSquares(index**-capacity, index**-2.2)
    edge = float(st.max_stable_learning_rate(law, batch_size=1))
    for factor, steps in ((0.5, 10), (0.5, 1e3), (0.5, 1e6), (0.9, 1e9), (1.0, 33), (1.001, 1000), (1.1, 1000)):
        found, expected = (risk_after(each, 1, factor * edge, steps) for each in (law, explicit))
        allowed = 1e-11 if factor < 1 else 1e-9
        assert (found.bias, found.variance) == pytest.approx((expected.bias, expected.variance), rel=allowed)
        if factor < 1:
            course = Course(st.Algorithm(), 1.0, factor * edge, steps)
            np.testing.assert_allclose(*(iterate_moments(each, [course]) for each in (law, explicit)), rtol=1e-10)


def test_values_next_to_overflow_are_not_lost():
    problem = st.LeastSquares([0.67, 0.23, 0.1], [6.3e-12, 0.0, 7.8e-9])
    for steps, rate in ((33, 119657.6), (32, 150000.0)):
        found = risk_after(problem, 6079, rate, steps)
        assert 1e295 < found.bias < 1e308
        assert_exact(found, problem, 6079, rate, steps, 1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_against_full_covariance_in_a_rotated_basis(seed):
    """A dense covariance and a non-diagonal initial error: off-diagonal moments never enter the risk (T2)."""
    rng = np.random.default_rng(seed)
    d, batch, steps = 6, int(rng.integers(1, 9)), int(rng.integers(2, 400))
    basis, _ = np.linalg.qr(rng.standard_normal((d, d)))
    eigenvalues = 10.0 ** rng.uniform(-2, 0, d)
    covariance, error = (basis * eigenvalues) @ basis.T, rng.standard_normal(d)
    problem = st.LeastSquares(eigenvalues, eigenvalues * (basis.T @ error) ** 2, noise_variance=0.7)
    rate = 0.8 * st.max_stable_learning_rate(problem, batch_size=batch)
    found = risk_after(problem, batch, rate, steps)
    setting = {"batch_size": batch, "learning_rate": rate, "num_steps": steps}
    dense = risk_by_covariance(covariance, error, 0.7, **setting)
    assert (found.bias, found.variance) == pytest.approx(dense, rel=1e-10)
    assert risk_by_recursion(*problem.directions(), 0.7, **setting) == pytest.approx(dense, rel=1e-9)
    wrong = risk_by_covariance(covariance, error, 0.7, **setting, paper=True)
    assert found.bias != pytest.approx(wrong[0], rel=1e-3)  # negative control: the paper's 2 tr(HS) H


@pytest.mark.parametrize(
    ("capacity", "source"), [(1 + 1e-6, 1 + 1e-6), slow(1.02, 1.02), slow(1.3, 4.0), (2.0, 3.0), (4.0, 8.0)]
)
@pytest.mark.parametrize(("num_steps", "rate"), [(1, 1.3), (2, 1.1), (7, 0.3), (36, 0.9), slow(36, 1e-4)])
def test_infinite_dimension_against_the_zeta_function(capacity, source, num_steps, rate):
    problem, batch = st.PowerLaw(capacity, source), 16
    found = risk_after(problem, batch, rate, num_steps)
    exact = oracle.infinite_power_law_risk(capacity, source, batch, rate, num_steps)
    assert oracle.relative_error(found.bias, exact[0]) < TOLERANCE
    assert oracle.relative_error(found.variance, exact[1]) < TOLERANCE


@pytest.mark.parametrize(("capacity", "source"), [(1.5, 1.2), slow(2.0, 3.0), (3.5, 6.0)])
@pytest.mark.parametrize("num_steps", [slow(1e3), 1e5])
def test_infinite_dimension_after_many_steps(capacity, source, num_steps):
    """Against 10⁶ explicit directions. Those beyond do not move (nγλ ≪ 1): they hold their signal, which is label
    noise to the others, and have no variance worth counting.
    """
    dim, batch, rate = 10**6, 8, 0.3
    index = np.arange(1.0, dim + 1)
    explicit = risk_after(st.LeastSquares(index**-capacity, index**-source), batch, rate, num_steps)
    beyond = st.PowerLaw(capacity, source).tail_signal(dim)
    found = risk_after(st.PowerLaw(capacity, source), batch, rate, num_steps)
    horizon = num_steps * rate * dim**-capacity
    expected = explicit.bias + beyond * (1 + explicit.variance)
    assert found.bias == pytest.approx(expected, rel=1e-11 + horizon * beyond / found.bias)
    missing = num_steps * rate**2 * st.PowerLaw(capacity, source).tail_squares(dim) / batch
    assert found.variance == pytest.approx(explicit.variance, rel=1e-11 + missing / found.variance)


def test_broadcasting_equals_one_by_one():
    problem = st.PowerLaw(1.6, 2.5)
    batch, rate, samples = np.array([1, 8, 64])[:, None, None], np.array([0.01, 0.4])[:, None], np.array([64, 5e3, 1e8])
    risk = st.excess_risk(problem, batch_size=batch, learning_rate=rate, num_samples=samples)
    assert risk.bias.shape == risk.variance.shape == risk.total.shape == (3, 2, 3)
    for i, j, k in np.ndindex(3, 2, 3):
        one = st.excess_risk(problem, batch_size=batch[i, 0, 0], learning_rate=rate[j, 0], num_samples=samples[k])
        assert np.ndim(one.bias) == 0
        assert risk.bias[i, j, k] == pytest.approx(one.bias, rel=1e-11)
        assert risk.variance[i, j, k] == pytest.approx(one.variance, rel=1e-11)


def test_empty_arrays_give_empty_arrays_and_incomplete_batches_are_dropped():
    setting = {"problem": st.PowerLaw(2, 3), "batch_size": 10, "learning_rate": 0.5}
    assert st.excess_risk(**setting | {"learning_rate": np.array([])}, num_samples=50).total.shape == (0,)
    assert st.excess_risk(**setting, num_samples=1009) == st.excess_risk(**setting, num_samples=1000)


def test_a_setting_does_not_change_with_its_neighbours():
    """A setting of few steps that would overflow later shares an array with one that goes on."""
    problem = st.LeastSquares([1.0], [1.0])
    risk = st.excess_risk(problem, batch_size=1, learning_rate=[[1e10], [1e300], [0.5]], num_samples=[1, 2, 32])
    for i, j in np.ndindex(3, 3):
        alone = st.excess_risk(problem, batch_size=1, learning_rate=(1e10, 1e300, 0.5)[i], num_samples=(1, 2, 32)[j])
        assert (risk.bias[i, j], risk.variance[i, j]) == (alone.bias, alone.variance)
    assert risk.bias[0, 1] == pytest.approx(7.5e19)
    risk = st.excess_risk(st.PowerLaw(2, 3), batch_size=1, learning_rate=[0.1, 50.0], num_samples=1e6)
    assert np.isinf([risk.bias[1], risk.variance[1]]).all()
    assert risk.total[0] == pytest.approx(risk_after(st.PowerLaw(2, 3), 1, 0.1, 1e6).total, rel=1e-11)


def test_without_signal_or_noise_nothing_is_infinite():
    silent = st.LeastSquares([1.0, 0.5], [0.0, 0.0], 0.0)
    risk = st.excess_risk(silent, batch_size=1, learning_rate=[0.1, 50.0, 1e300], num_samples=1e9)
    np.testing.assert_array_equal(risk.total, np.zeros(3))


def test_a_zero_eigenvalue_holds_its_signal_and_is_noise_to_the_others():
    settings_ = {"batch_size": 4, "learning_rate": 0.5, "num_samples": [4, 40, 4e6]}
    frozen = st.excess_risk(st.LeastSquares([1.0, 0.0], [0.0, 2.0], 0.0), **settings_)
    noisy = st.excess_risk(st.LeastSquares([1.0], [0.0], 2.0), **settings_)
    np.testing.assert_allclose(frozen.bias, 2.0 + noisy.variance, rtol=1e-12)
    nearly = st.excess_risk(st.LeastSquares([1.0, 1e-30], [0.0, 2.0], 0.0), **settings_)
    np.testing.assert_allclose(frozen.bias, nearly.bias, rtol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 0.1, 10), "batch_size must be a whole number of at least 1, got 0"),
        ((2.5, 0.1, 10), "batch_size must be a whole number of at least 1, got 2.5"),
        (([1, -3], 0.1, 10), "batch_size must be a whole number of at least 1, got -3"),
        ((1, 0.0, 10), "learning_rate must be positive and finite, got 0"),
        ((1, -0.1, 10), "learning_rate must be positive and finite, got -0.1"),
        ((1, np.inf, 10), "learning_rate must be positive and finite, got inf"),
        ((1, np.nan, 10), "learning_rate must be positive and finite, got nan"),
        ((1, "fast", 10), "learning_rate must be a number or an array of numbers, got 'fast'"),
        (
            (16, 0.1, 10),
            r"num_samples must be at least batch_size \(one step\), got num_samples 10.0 with batch_size 16",
        ),
        ((1, 0.1, np.nan), "num_samples must be positive and finite, got nan"),
        ((np.ones(2), np.ones(3), 10), r"must broadcast against each other, got shapes \(2,\), \(3,\) and \(\)"),
    ],
)
def test_bad_input(arguments, message):
    batch, rate, samples = arguments
    for function in (st.excess_risk, st.theorem7):
        with pytest.raises(ValueError, match=message):
            function(st.PowerLaw(2, 3), batch_size=batch, learning_rate=rate, num_samples=samples)
