"""SGD on rows of data against the same runs in NumPy, and against means over all orders of few rows."""

import itertools

import jax
import numpy as np
import pytest

import sgdtheory as st
from tests.simulation.statistical import normal_limit

RATE = 0.06
KEY = jax.random.key(0)


def rows(size=12, dim=3, targets=2):
    """Skewed rows with a residual that depends on them."""
    rng = np.random.default_rng(0)
    x = (rng.standard_exponential((size, dim)) - 0.4) * [1.0, 0.6, 0.3][:dim]
    return x, x @ rng.standard_normal((dim, targets)) + x[:, :1] ** 2 * rng.standard_normal((size, targets))


def by_hand(x, y, replica, *, batch, rate, steps):
    """The same runs in NumPy, a step at a time, in the coordinates of the data."""
    words = np.asarray(jax.random.bits(KEY, (2,), "uint32"))
    drawn = np.random.default_rng([*words, replica]).integers(len(x), size=steps * batch).reshape(steps, batch)
    best, w = np.linalg.lstsq(x, y, rcond=None)[0], np.zeros((x.shape[1], y.shape[1]))
    total = np.zeros_like(w)
    for here in drawn:
        total += w
        w = w - rate / batch * x[here].T @ (x[here] @ w - y[here])
    return [(((x @ (end - best)) ** 2).sum() / len(x)) for end in (total / steps, w)]


def of_all_orders(x, y, *, batch, rate, steps, covariance, best):
    """Mean of `(w − w*)ᵀH(w − w*)`, of w̄ and w_n, over every order of the rows in two epochs."""
    length = len(x) // batch
    orders = list(itertools.permutations(range(len(x))))
    risks = []
    for first, second in itertools.product(orders, repeat=2):
        order = np.concatenate([first[: length * batch], second[: length * batch]])
        w, total = np.zeros_like(best), np.zeros_like(best)
        for here in order[: steps * batch].reshape(steps, batch):
            total += w
            w = w - rate / batch * x[here].T @ (x[here] @ w - y[here])
        risks.append([np.sum((end - best) * (covariance @ (end - best))) for end in (total / steps, w)])
    return np.mean(risks, axis=0)


@pytest.mark.parametrize("batch", [1, 3])
def test_passes_without_replacement_have_the_mean_over_all_orders(batch):
    """Four rows, a second epoch under way, a row left out where B = 3; drawn with replacement they are elsewhere."""
    x, y = rows(size=4)
    steps = 5 if batch == 1 else 2
    covariance, best = np.diag([1.0, 0.5, 0.2]), np.ones((3, 2))
    setting = {"batch_size": batch, "learning_rate": RATE, "num_samples": steps * batch, "num_replicas": 1500}
    measured = {"population": (covariance, best)}
    found = st.simulate_data(KEY, x, y, **setting, **measured, replacement=False, dtype="float64")
    expected = of_all_orders(x, y, batch=batch, rate=RATE, steps=steps, covariance=covariance, best=best)
    last = st.simulation.Simulation(found.last_iterate_risk, found.excess_risk, found.num_steps, found.dtype)
    limit = normal_limit(2)
    assert abs(found.normal_score(expected[0])) < limit
    assert abs(last.normal_score(expected[1])) < limit
    other = st.simulate_data(KEY, x, y, **setting, **measured, dtype="float64")
    assert other.last_iterate_risk.std() > 1.2 * found.last_iterate_risk.std()
    if batch == 1:  # an epoch's order leaves only what its end shows: scatter is small, the mean moves
        wrong = st.simulation.Simulation(other.last_iterate_risk, other.excess_risk, other.num_steps, other.dtype)
        assert abs(wrong.normal_score(expected[1])) > limit


@pytest.mark.parametrize("batch", [1, 7, 100])
def test_every_replica_is_the_textbook_run(batch):
    """Blocks of steps, single ones, and ends within a block."""
    x, y = rows(size=200)
    steps = [3, 150]
    setting = {"batch_size": batch, "learning_rate": [[0.05], [0.1]], "num_samples": np.array(steps) * batch}
    for dtype, tolerance in (("float32", 2e-5), ("float64", 1e-11)):
        found = st.simulate_data(KEY, x, y, **setting, num_replicas=2, dtype=dtype)
        for rate, read in np.ndindex(2, 2):
            for replica in range(2):
                expected = by_hand(x, y, replica, batch=batch, rate=[0.05, 0.1][rate], steps=steps[read])
                risks = found.excess_risk[rate, read, replica], found.last_iterate_risk[rate, read, replica]
                np.testing.assert_allclose(risks, expected, rtol=tolerance)


def test_long_runs_in_float32_keep_small_directions():
    """λ down to 1e-6 λ_1, increments of 1e-9 of the iterate: the compensation shows."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((300, 40)) * np.geomspace(1, 1e-3, 40)
    y = x @ np.geomspace(1, 1e3, 40) + rng.standard_normal(300)
    setting = {"batch_size": 4, "learning_rate": 0.02, "num_samples": 40_000, "num_replicas": 2}
    single, double = (st.simulate_data(KEY, x, y, **setting, dtype=dtype) for dtype in ("float32", "float64"))
    np.testing.assert_allclose(single.excess_risk, double.excess_risk, rtol=5e-6)


def test_units_and_unused_directions_do_not_matter():
    x, y = rows()
    setting = {"batch_size": 2, "num_samples": 40, "num_replicas": 3, "dtype": "float64"}
    one = st.simulate_data(KEY, x, y, learning_rate=RATE, **setting)
    wide = np.column_stack([x, x[:, 0] - x[:, 1], 0 * x[:, 0]])  # neither of full rank nor without constants
    direct = st.simulate_data(KEY, 1e9 * x, 1e30 * y, learning_rate=RATE * 1e-18, **setting)
    np.testing.assert_allclose(direct.excess_risk, 1e60 * one.excess_risk, rtol=1e-10)
    found = st.simulate_data(KEY, wide, y, learning_rate=RATE / 4, **setting)
    expected = [by_hand(wide, y, replica, batch=2, rate=RATE / 4, steps=20)[0] for replica in range(3)]
    np.testing.assert_allclose(found.excess_risk, expected, rtol=1e-9)
    few = st.simulate_data(KEY, x[:2], y[:2], learning_rate=RATE, **setting)  # fewer rows than columns
    expected = [by_hand(x[:2], y[:2], replica, batch=2, rate=RATE, steps=20)[0] for replica in range(3)]
    np.testing.assert_allclose(few.excess_risk, expected, rtol=1e-9)


def test_a_risk_under_another_law_has_its_units():
    """Rows of a population with H and w*: targets, w* and residuals a thousand times as large, risks by its square."""
    x, y = rows(targets=1)
    setting = {"batch_size": 2, "num_samples": 40, "num_replicas": 3, "dtype": "float64", "learning_rate": RATE}
    law = np.diag([1.0, 0.5, 0.2]), np.array([3.0, -1.0, 2.0])
    one = st.simulate_data(KEY, x, y, population=law, **setting)
    large = st.simulate_data(KEY, x, 1e3 * y, population=(law[0], 1e3 * law[1]), **setting)
    np.testing.assert_allclose(large.excess_risk, 1e6 * one.excess_risk, rtol=1e-9)
    own = st.simulate_data(KEY, x, y, **setting)
    best = np.linalg.lstsq(x, y, rcond=None)[0]
    same = st.simulate_data(KEY, x, y, population=(x.T @ x / len(x), best), **setting)
    np.testing.assert_allclose(same.excess_risk, own.excess_risk, rtol=1e-9)


def test_a_run_that_diverges_has_infinite_risk():
    found = st.simulate_data(KEY, *rows(), batch_size=2, learning_rate=[0.1, 300.0], num_samples=1000, num_replicas=2)
    assert np.isinf(found.excess_risk[1]).all()
    assert np.isfinite(found.excess_risk[0]).all()


def test_settings_broadcast_and_share_their_rows():
    x, y = rows()
    grid = {"batch_size": [[2], [3]], "learning_rate": 0.1, "num_samples": [6, 60]}
    found = st.simulate_data(KEY, x, y[:, 0], **grid, num_replicas=2)
    assert found.excess_risk.shape == (2, 2, 2)
    assert found.num_steps.tolist() == [[3, 30], [2, 20]]
    one = st.simulate_data(KEY, x, y[:, 0], batch_size=3, learning_rate=0.1, num_samples=60, num_replicas=3)
    np.testing.assert_allclose(one.excess_risk[:2], found.excess_risk[1, 1], rtol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": np.ones((4, 2))}, "targets must have one row for each of the 4 rows of features, got 3"),
        ({"features": np.zeros((3, 2))}, "features must not all be 0"),
        ({"num_replicas": 0}, "num_replicas must be a whole number of at least 1"),
        ({"batch_size": 20}, "num_samples must be at least batch_size"),
        ({"dtype": "float16"}, "dtype must be one of"),
        ({"key": 3.5}, "key must be a JAX key"),
        ({"batch_size": 4, "replacement": False}, "batch_size must be at most the 3 rows of features where replac"),
        ({"replacement": 0}, "replacement must be True or False, got 0"),
        ({"replacement": "False"}, "replacement must be True or False, got 'False'"),
        ({"population": (np.eye(3), np.ones(2))}, r"must be a covariance of shape \(2, 2\) and weights of shape"),
        ({"population": 3.0}, "population must be a pair, the covariance H and the weights"),
        ({"population": (np.eye(2), [np.nan] * 2)}, "population must be finite"),
        ({"population": (np.diag([1.0, -1.0]), np.ones(2))}, "symmetric covariance without negative eigenvalues"),
    ],
)
def test_bad_input_is_refused_with_a_sentence(change, message):
    """More of rows: tests/data/test_data_problem.py."""
    good = {"key": KEY, "features": np.ones((3, 2)), "targets": np.ones(3), "batch_size": 2, "learning_rate": 0.1}
    with pytest.raises(ValueError, match=message):
        st.simulate_data(**{**good, "num_samples": 10, **change})
