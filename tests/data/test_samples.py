import jax
import numpy as np
import pytest

import sgdtheory as st
from tests.risk.passes import enumerated

SETTING = {"batch_size": 2, "learning_rate": 0.05, "num_samples": 400}
RARE = 3.9  # standard errors that one in 1e4 samples exceeds


def rows(number=200, dim=5):
    random = np.random.default_rng(0)
    x = random.standard_t(5, (number, dim)) * np.arange(1.0, dim + 1) ** -0.75
    return x, x @ np.ones(dim) + random.standard_normal(number)


def test_all_rows_are_what_is_simulated():
    x, y = rows()
    finite = st.problem_from_data(x, y).with_samples()
    found = st.simulate_data(jax.random.key(0), x, y, **SETTING, num_replicas=400)
    assert abs(found.z_score(st.excess_risk(finite, **SETTING).total)) < RARE
    ours = st.simulate(jax.random.key(1), finite, **SETTING, num_replicas=400)
    assert abs(ours.z_score(st.excess_risk(finite, **SETTING).total)) < RARE
    gaussian = st.problem_from_data(x, y, cross_fit=False).problem
    edges = [st.max_stable_learning_rate(each, batch_size=1) for each in (finite, gaussian)]
    assert edges[0] < 0.9 * edges[1]  # heavy tails


def test_some_rows_over_all_sequences():
    """The population is all rows, in the coordinates of the weights themselves."""
    x, y = rows(20, 3)
    finite = st.problem_from_data(x, y).with_samples(3, seed=4)
    best = np.linalg.lstsq(x, y, rcond=None)[0]
    root = np.linalg.cholesky(x.T @ x / 20)
    chosen = np.random.default_rng(4).permutation(20)[:3]
    turned = x[chosen] @ np.linalg.eigh(x.T @ x).eigenvectors
    scale = np.sqrt(np.linalg.eigvalsh(x.T @ x / 20))
    start = -np.linalg.eigh(x.T @ x).eigenvectors.T @ best
    expected = enumerated(turned, y[chosen] - x[chosen] @ best, start, scale, 1, 0.2, 4)
    assert np.sum((root.T @ best) ** 2) == pytest.approx(finite.initial_risk)
    last = st.Algorithm(average=st.LastIterate())
    for algorithm, each in zip((last, st.Algorithm()), expected, strict=True):
        found = st.excess_risk(finite, batch_size=1, learning_rate=0.2, num_samples=4, algorithm=algorithm)
        assert found.total == pytest.approx(each, rel=1e-11)


def test_what_is_refused():
    x, y = rows()
    found = st.problem_from_data(x, y)
    with pytest.raises(ValueError, match="num_samples must be at most the number of rows, 200"):
        found.with_samples(201)
    with pytest.raises(ValueError, match="targets must be a single one"):
        st.problem_from_data(x, np.stack([y, y], axis=1)).with_samples()
    with pytest.raises(ValueError, match="algorithm must be SGD, with replacement, for given rows"):
        st.excess_risk(found.with_samples(), **SETTING, algorithm=st.Algorithm(st.HeavyBall(0.5)))
    with pytest.raises(ValueError, match="problem must not be made of given rows"):
        found.with_samples().truncated(2)
