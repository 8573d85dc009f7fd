from contextlib import nullcontext

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.simulation.laws import FourthMoment
from sgdtheory.simulation.user_law import UserLaw, _check_moments, _check_unseen
from tests.simulation.explicit_runs import EIGENVALUES, expected, simulated, uniform
from tests.simulation.statistical import normal_limit

UNIFORM_MOMENTS = FourthMoment(1.0, 0.8)


def test_a_users_law_in_other_units_and_with_a_direction_that_never_moves():
    """λ_1 = 1000: the simulated spectrum has λ_1 = 1, the user's data do not."""
    scale = 1000.0
    problem = st.LeastSquares([*(scale * EIGENVALUES), 0.0], [1.0, 0.5, 2.0, 0.7], 0.5)

    def with_zero(key, batch_size):
        return jnp.pad(uniform(key, batch_size) * np.sqrt(scale), ((0, 0), (0, 1)))

    found = simulated(with_zero, problem, rate=0.3 / scale, num_replicas=4000)
    assert abs(found.z_score(expected(UNIFORM_MOMENTS, problem, rate=0.3 / scale))) < normal_limit(1)


@pytest.mark.slow
def test_a_users_law_with_a_frozen_tail_in_float64():
    """The unsimulated directions act as label noise."""
    problem = st.LeastSquares([*EIGENVALUES, 1e-7, 1e-7], [1.0, 0.5, 2.0, 0.4, 0.3], 0.5)
    found = simulated(uniform, problem, num_replicas=8000, dim=3, dtype="float64")
    assert found.truncation.dim == 3
    assert abs(found.z_score(expected(UNIFORM_MOMENTS, problem))) < normal_limit(1)
    assert abs(found.z_score(0.7 + expected(UNIFORM_MOMENTS, problem.truncated(3)))) > 6  # negative control
    assert jnp.ones(1).dtype == np.float32


def standardised(change):
    return lambda key, size: change(jax.random.normal(key, (size, 3)) * np.sqrt(EIGENVALUES), key)


ROTATED = np.array([[0.0, 1.0, 0.0], [0.6, 0.0, 0.8], [0.8, 0.0, -0.6]])


@pytest.mark.parametrize(
    ("law", "message"),
    [
        (
            standardised(lambda x, key: x[:, :2]),
            r"law must return an array of shape \(batch_size, 3\), got \(256, 2\) for batch_size 256",
        ),
        (standardised(lambda x, key: x.T), r"got \(3, 256\) for batch_size 256"),
        (standardised(lambda x, key: x[0]), r"got \(3,\) for batch_size 256"),
        (
            standardised(lambda x, key: x * np.array([1.0, 1.2, 1.0])),
            r"E x_i² = λ_i in .*: for direction 2 E x_i²/λ_i is 1\.\d+ ± 0\.0\d+ over 16384 samples, not 1; rescale",
        ),
        (standardised(lambda x, key: x / np.sqrt(EIGENVALUES)), "for direction 2 E x_i²/λ_i is "),
        (standardised(lambda x, key: x[:, :1] * np.sqrt(EIGENVALUES)), "law must have uncorrelated coordinates"),
        (standardised(lambda x, key: x @ ROTATED), "E x_i² = λ_i in the eigenbasis"),
        (standardised(lambda x, key: x.at[3, 1].set(jnp.nan)), "law must return finite numbers, got nan or inf"),
        (standardised(lambda x, key: x.at[0, 0].set(jnp.inf)), "law must return finite numbers, got nan or inf"),
        (lambda key, size: "numbers", "law must"),
        (lambda key, size: None, "law must"),
    ],
)
def test_bad_laws(law, message):
    with pytest.raises(ValueError, match=message):
        simulated(law, num_replicas=2)


def constant(key, size):
    """Data of NumPy's generator, drawn once, when the step is compiled, and the same in every step."""
    return np.random.default_rng(0).standard_normal((size, 3)) * np.sqrt(EIGENVALUES)


def correlated(dim, share):
    """Two of the leading directions hang together, with the right variances."""

    def draw(key, size):
        z = jax.random.normal(key, (size, dim))
        return z.at[:, 1].set(share * z[:, 0] + np.sqrt(1 - share**2) * z[:, 1])

    return draw


@pytest.mark.parametrize(
    ("law", "eigenvalues", "message"),
    [
        (constant, EIGENVALUES, "law must"),
        (correlated(3, 0.8), np.ones(3), "must have uncorrelated coordinates .* rotate x into the eigenbasis"),
        (correlated(200, 0.5), np.ones(200), "second moment of directions 1 and 2 is 0.[45]"),
        (uniform, [1.0, 0.5, 0.0], "law must have E x_i² = λ_i in the eigenbasis: direction 3"),
    ],
)
def test_laws_of_other_problems(law, eigenvalues, message):
    with pytest.raises(ValueError, match=message):
        simulated(law, st.LeastSquares(eigenvalues, np.ones(len(eigenvalues))), num_replicas=2)


@pytest.mark.parametrize(("samples", "refused"), [(50, False), (200, True)])
def test_a_moment_counts_from_a_hundred_samples_on(samples, refused):
    """Direction 150 of 200 has 0.3 in the place of 1, made up by few or many of the 16384 samples.

    Both are 8 standard errors off, so that they differ in what counts alone.
    """
    eigenvalues, directions = np.ones(200), np.random.default_rng(0).standard_normal((200, 16))
    mean = np.concatenate([np.ones(200), np.zeros(120), (directions**2).sum(0)])
    square = np.concatenate([np.full(200, 3.0), np.ones(120), 3 * mean[320:] ** 2])
    mean[149], square[149] = 0.3, 16384 * 0.3**2 / samples
    with pytest.raises(ValueError, match="for direction 150 .* is 0.3 ±") if refused else nullcontext():
        _check_moments(mean, square, eigenvalues, directions)


def moments_of(eigenvalues, projections=3):
    """Means of second moments and of their squares, of samples of the problem's law that tell them to 1%."""
    directions = np.random.default_rng(0).standard_normal((eigenvalues.size, projections))
    pairs = min(eigenvalues.size, 16)
    size = (directions[eigenvalues > 0] ** 2).sum(0)
    mean = np.concatenate([eigenvalues > 0, np.zeros(pairs * (pairs - 1) // 2), size])
    error = 0.01 * np.concatenate([np.ones(mean.size - projections), size])
    return mean, error, directions


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (1, "for direction 2 E x_i²/λ_i is"),
        (3 + 2, "second moment of directions 2 and 3 is"),
        (3 + 3 + 1, "second moment of a random projection is"),
    ],
)
@pytest.mark.parametrize(("error", "limit"), [(0.01, 0.1), (0.05, 0.4)])
def test_moments_are_refused_beyond_a_tenth_and_eight_standard_errors(place, message, error, limit):
    """Relative to the moment's size; a pair counts where both of its directions do."""
    eigenvalues = np.array([1.0, 0.5, 0.25])
    mean, errors, directions = moments_of(eigenvalues)
    size = errors[place] / 0.01
    errors[place] = error * size
    exact = mean.copy()
    for off, refused in ((0.97 * limit, False), (1.03 * limit, True), (-0.97 * limit, False), (-1.03 * limit, True)):
        mean[place] = exact[place] + off * size
        square = mean**2 + 16384 * errors**2
        with pytest.raises(ValueError, match=message) if refused else nullcontext():
            _check_moments(mean, square, eigenvalues, directions)


@pytest.mark.parametrize(("share", "refused"), [(0.009, False), (0.011, True)])
def test_a_direction_with_a_hundredth_of_the_trace_counts_however_rare_its_samples(share, refused):
    eigenvalues = np.array([1 - share, share])
    mean, errors, directions = moments_of(eigenvalues)
    square = mean**2 + 16384 * errors**2
    mean[1], square[1] = 0.3, 16384 * 0.3**2 / 50
    with pytest.raises(ValueError, match="for direction 2 .* is 0.3 ± 0.04") if refused else nullcontext():
        _check_moments(mean, square, eigenvalues, directions)


@pytest.mark.parametrize(("size", "refused"), [(0.9e-6, False), (1.1e-6, True)])
def test_a_direction_without_an_eigenvalue_has_at_most_rounding(size, refused):
    found = "direction 3 has 4.4e-06, but λ_3 = 0"
    with pytest.raises(ValueError, match=found) if refused else nullcontext():
        _check_unseen(np.array([0.0, 0.0, 4 * size]), np.array([4.0, 1.0, 0.0]))


def test_laws_of_one_function_and_problem_are_one():
    one = UserLaw(uniform, 3, 1.0)
    assert one == UserLaw(uniform, 3, 1.0)
    assert hash(one) == hash(UserLaw(uniform, 3, 1.0))
    assert all(
        one != other for other in (UserLaw(constant, 3, 1.0), UserLaw(uniform, 2, 1.0), UserLaw(uniform, 3, 2.0))
    )
    assert one != uniform


@pytest.mark.slow
def test_rare_directions_are_no_false_alarm():
    """One-hot data: a direction of probability 1e-4 may well be missing from all samples."""
    share = np.arange(1.0, 401) ** -1.5
    share /= share.sum()

    def one_hot(key, size):
        return jax.nn.one_hot(jax.random.choice(key, 400, (size,), p=share), 400)

    found = simulated(one_hot, st.LeastSquares(share, share), num_replicas=2)
    assert np.isfinite(found.excess_risk).all()


@pytest.mark.slow
def test_functions_that_cannot_be_hashed_are_laws():
    class Uniform:
        __hash__ = None

        def __call__(self, key, size):
            return uniform(key, size)

    found, plain = (simulated(law, num_replicas=20).excess_risk for law in (Uniform(), uniform))
    np.testing.assert_array_equal(found, plain)
