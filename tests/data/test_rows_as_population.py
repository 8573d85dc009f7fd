"""`problem_from_data(cross_fit=False)` against the eigen-decomposition of the rows, and against SGD on them."""

import jax
import numpy as np
import pytest

import sgdtheory as st
from tests.marks import slow

RARE = 4.1  # standard errors that one in 2e4 simulations exceeds; the seeds are fixed


def tall(random):
    x = random.standard_normal((400, 7)) * random.gamma(1.0, size=7) ** 0.5
    return x, x @ random.standard_normal(7) + 2 * random.standard_normal(400)


def weak(random):
    """Most directions have less signal than the noise of sampling, and some have none."""
    x = random.standard_normal((300, 12)) * np.arange(1.0, 13) ** -0.5
    return x, 0.05 * x[:, 5] + random.standard_normal(300)


def wide(random):
    x = random.standard_normal((40, 90)) * np.arange(1.0, 91) ** -0.7
    return x, x @ np.ones(90) + random.standard_normal(40)


def rank_deficient(random):
    x = random.standard_normal((200, 4)) @ random.standard_normal((4, 10))
    return x, x @ random.standard_normal(10) + random.standard_normal(200)


def duplicated(random):
    x = random.standard_normal((150, 5))
    return np.concatenate([x, x[:, :3]], axis=1), x[:, 0] + random.standard_normal(150)


def uncentred(random):
    """A mean far from 0, a constant column, and heavy tails."""
    x = np.concatenate([3 + random.standard_t(4, (500, 6)), np.ones((500, 1))], axis=1)
    return x, 5 + x @ random.standard_normal(7) + random.standard_normal(500)


def orthogonal(random):
    """A first direction without any signal: it must not take a share of its neighbour's."""
    x = np.linalg.qr(random.standard_normal((60, 3)))[0] * np.array([9.0, 4.0, 2.0])
    return x, x[:, 1] / 4 + 1e-3 * random.standard_normal(60)


def own(x, y):
    """The problem of the rows by singular values, without second moments; columns of length 1 give the residual."""
    left, singular, _ = np.linalg.svd(x, full_matrices=False)
    kept = singular > 1e-10 * singular[0]
    along = left[:, kept].T @ y
    residual = y - left[:, kept] @ along
    return singular[kept] ** 2 / len(y), along**2 / len(y), float(residual @ residual) / len(y)


@pytest.mark.parametrize("seed", [0, slow(1), slow(2)])
@pytest.mark.parametrize("rows", [tall, weak, wide, rank_deficient, duplicated, uncentred, orthogonal])
def test_the_problem_is_that_of_the_rows(rows, seed):
    x, y = rows(np.random.default_rng([31, seed]))
    found = st.problem_from_data(x, y, cross_fit=False)
    eigenvalues, signal, noise = own(x, y)
    rank = eigenvalues.size
    np.testing.assert_allclose(found.problem.eigenvalues[:rank], eigenvalues, rtol=1e-9)
    np.testing.assert_array_equal(found.problem.eigenvalues[rank:], 0.0)
    scale = (y**2).mean()
    np.testing.assert_allclose(found.problem.signal[:rank], signal, rtol=1e-8, atol=1e-13 * scale)
    np.testing.assert_array_equal(found.problem.signal[rank:], 0.0)
    assert found.problem.noise_variance == pytest.approx(noise, rel=1e-9, abs=1e-12 * scale)
    assert found.noise_variance == found.problem.noise_variance
    assert "counts as noise" not in found.remark
    setting = {"batch_size": 4, "learning_rate": 0.1 / eigenvalues.sum(), "num_samples": 2000}
    expected = st.excess_risk(st.LeastSquares(eigenvalues, signal, noise), **setting).total
    assert st.excess_risk(found.problem, **setting).total == pytest.approx(expected, rel=1e-8)


def test_several_targets_add_up():
    random = np.random.default_rng(5)
    x, first = tall(random)
    second = random.standard_normal(400)
    found = st.problem_from_data(x, np.stack([first, second], axis=1), cross_fit=False).problem
    parts = [st.problem_from_data(x, y, cross_fit=False).problem for y in (first, second)]
    np.testing.assert_allclose(found.signal, parts[0].signal + parts[1].signal, rtol=1e-8)
    assert found.noise_variance == pytest.approx(parts[0].noise_variance + parts[1].noise_variance, rel=1e-9)


@pytest.mark.parametrize(("rows", "seed"), [(tall, 0), *(slow(rows, seed) for rows in (tall, weak) for seed in (1, 2))])
def test_the_risk_is_that_of_sgd_on_the_rows(rows, seed):
    """Large batches, in which the rows' fourth moments do not show beside the standard error."""
    x, y = rows(np.random.default_rng([31, seed]))
    problem = st.problem_from_data(x, y, cross_fit=False).problem
    setting = {"batch_size": 100, "learning_rate": 0.4 / problem.trace, "num_samples": 5000}
    found = st.simulate_data(jax.random.key(seed), x, y, **setting, num_replicas=1000)
    exact = st.excess_risk(problem, **setting).total
    assert abs(found.z_score(exact)) < RARE
    wrong = st.LeastSquares(problem.eigenvalues, np.full(problem.dim, problem.signal.mean()), problem.noise_variance)
    assert abs(found.z_score(st.excess_risk(wrong, **setting).total)) > 2 * RARE


def test_neighbours_keep_their_own_signal():
    """The critical batch size of 400 rows: pooled signal made it 57 for 51."""
    x, y = tall(np.random.default_rng([31, 1]))
    found = st.problem_from_data(x, y, cross_fit=False)
    expected = st.critical_batch_size(st.LeastSquares(*own(x, y)), num_samples=1e4, curve=False)
    assert found.critical_batch_size(1e4).batch_size[0] == expected.batch_size
