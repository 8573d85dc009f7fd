import mpmath
import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.problems.modes import Modes
from sgdtheory.risk import growth_rate, method_edge, stability_edge
from tests.scaled import SCALES, Scaled

SLOWLY = list(np.arange(1.0, 40) ** -1.1)


def one_step_map(eigenvalues, batch, rate):
    """The d×d map of second moments in units of risk (T2)."""
    x = rate * np.asarray(eigenvalues)
    return np.diag((1 - x) ** 2 + x**2 / batch) + np.outer(x**2 / batch, np.ones_like(x))


@pytest.mark.parametrize("batch", [1, 2, 10, 1000])
@pytest.mark.parametrize("eigenvalues", [[1.0], [1.0, 1.0], [3.0, 1.0, 0.2], SLOWLY])
def test_edge_is_where_the_spectral_radius_is_one(eigenvalues, batch):
    edge = st.max_stable_learning_rate(st.LeastSquares(eigenvalues, np.ones_like(eigenvalues)), batch_size=batch)
    radius = [
        np.abs(np.linalg.eigvals(one_step_map(eigenvalues, batch, f * edge))).max() for f in (1 - 1e-9, 1, 1 + 1e-9)
    ]
    assert radius[1] == pytest.approx(1.0, abs=1e-12)
    assert radius[0] < 1 < radius[2]


@pytest.mark.parametrize("capacity", [1.001, 1.5, 3.0])
@pytest.mark.parametrize("batch", [1, 100, 10**6])
def test_infinite_dimension_solves_its_equation(capacity, batch):
    """Σ γλ/(2B − (B+1)γλ) by expansion in powers of γλ: Σ_k c_k ζ(ka), after the leading terms."""
    edge = st.max_stable_learning_rate(st.PowerLaw(capacity, 2.0), batch_size=batch)
    with mpmath.workdps(40):
        rate, size = mpmath.mpf(float(edge)), mpmath.mpf(batch)

        def term(x):
            return x / (2 * size - (size + 1) * x)

        total = mpmath.fsum(term(rate * mpmath.mpf(i) ** -capacity) for i in range(1, 100))
        ratio = (size + 1) / (2 * size)
        for k in range(1, 60):
            total += ratio ** (k - 1) * rate**k / (2 * size) * mpmath.zeta(k * mpmath.mpf(capacity), 100)
        slope = mpmath.mpf(1) if batch < 1000 else size  # the sum changes by about B per relative change of γ
    assert abs(float((total - 1) / slope)) < 1e-11


def test_no_data_no_edge_and_no_settings_no_rates():
    nothing = st.LeastSquares([0.0], [0.0])
    assert st.max_stable_learning_rate(nothing, batch_size=3) == np.inf
    assert growth_rate(nothing.modes(1.0), np.empty((0, 1)), np.empty((0, 1))).shape == (0,)
    assert method_edge(st.PowerLaw(2.0, 3.0), st.HeavyBall(0.9), np.empty(0)).shape == (0,)
    with pytest.raises(ValueError, match="batch_size must be a whole number of at least 1, got 0.5"):
        st.max_stable_learning_rate(st.PowerLaw(2, 3), batch_size=0.5)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("problem", [st.PowerLaw(1.2, 2.0), st.PowerLaw(3.0, 2.0), st.LeastSquares([3.0, 0.2], [1, 1])])
def test_the_edge_is_in_units_of_one_over_the_eigenvalues(problem, scale):
    batch = np.array([1, 50, 10**6])
    edge = st.max_stable_learning_rate(problem, batch_size=batch)
    np.testing.assert_allclose(
        st.max_stable_learning_rate(Scaled(problem, scale), batch_size=batch) * scale, edge, rtol=1e-12
    )


@pytest.mark.parametrize("batch", [0.01, 0.3, 1.0, 2.5, 1e9])
@pytest.mark.parametrize("eigenvalues", [[7.0], [2.0, 1.9, 1.8], list(np.arange(1.0, 60) ** -0.5)])
def test_the_edge_at_any_real_batch_size(eigenvalues, batch):
    """It solves (T5) by its definition, without the substitution in t."""
    eigenvalues = np.array(eigenvalues)
    edge = float(stability_edge(st.LeastSquares(eigenvalues, eigenvalues), np.array([batch]))[0])
    x = edge * eigenvalues
    assert x.max() < 2 * batch / (batch + 1)
    slope = (2 * batch * x / (2 * batch - (batch + 1) * x) ** 2).sum()  # of the sum, per relative change of γ
    assert (x / (2 * batch - (batch + 1) * x)).sum() == pytest.approx(1.0, abs=1e-13 + 4e-15 * slope)


@pytest.mark.parametrize("batch", [1, 3, 200])
@pytest.mark.parametrize("eigenvalues", [[2.0], [1.0, 0.0], [5.0, 1.0, 0.2], [1.0] * 30, SLOWLY])
def test_growth_rate_on_both_sides_of_the_edge(eigenvalues, batch):
    """Stable, unstable by the sum of (T5) alone and by one direction; one that does not move; a mode of weight 3."""
    problem = st.LeastSquares(eigenvalues, np.ones(len(eigenvalues)))
    rates = st.max_stable_learning_rate(problem, batch_size=batch) * np.array([0.2, 0.999, 1.001, 1.05, 1.3, 2, 5, 40])
    x = rates[:, None] * problem.eigenvalues
    exact = [np.log(np.linalg.eigvals(one_step_map(eigenvalues, batch, rate)).real.max()) for rate in rates]
    found = growth_rate(problem.modes(1.0), x, np.full((rates.size, 1), batch))
    np.testing.assert_array_equal(found[:2], 0.0)
    np.testing.assert_allclose(found[2:], exact[2:], rtol=1e-9)
    thrice = Modes(np.array(eigenvalues[:1]), np.array([3.0]), np.ones(1))
    triple = [np.log(np.linalg.eigvals(one_step_map(eigenvalues[:1] * 3, batch, rate)).real.max()) for rate in rates]
    found = growth_rate(thrice, x[:, :1], np.full((rates.size, 1), batch))
    np.testing.assert_allclose(found, np.maximum(triple, 0.0), rtol=1e-9, atol=1e-14)


def test_growth_where_a_direction_amplifies_exactly_its_own_noise():
    """B = 3, γλ = 3/2: 2 − γλ(B+1)/B is 0, and μ = α + v = 1 + 3/4."""
    found = growth_rate(st.LeastSquares([1.0], [1.0]).modes(1.0), np.array([[1.5]]), np.array([[3.0]]))
    assert found[0] == pytest.approx(np.log(1.75), rel=1e-14)


@pytest.mark.parametrize("eigenvalues", [[1.0], [3.0, 1.0, 0.2]])
def test_at_the_edge_itself_nothing_grows(eigenvalues):
    """To rounding, on whichever side of it γ lies: some of these have a root that is too small to be found."""
    problem, batch = st.LeastSquares(eigenvalues, np.ones(len(eigenvalues))), np.arange(1.0, 1001)
    x = st.max_stable_learning_rate(problem, batch_size=batch)[:, None] * problem.eigenvalues
    rates = growth_rate(problem.modes(1.0), x, batch[:, None])
    assert (rates >= 0).all()
    assert (rates < 1e-12).all()


def test_theorem_condition_below_two_thirds_is_always_stable():
    """γ = c min{B/tr H, 1/‖H‖} with c < 2/3: B equal eigenvalues are the worst spectrum (bounds.theorem_7)."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        eigenvalues = 10.0 ** -rng.uniform(0, rng.choice([0.01, 1, 6]), rng.integers(1, 40))
        problem, batch = st.LeastSquares(eigenvalues, np.ones_like(eigenvalues)), int(10 ** rng.uniform(0, 3))
        limit = min(batch / problem.trace, 1 / problem.largest_eigenvalue)
        assert st.max_stable_learning_rate(problem, batch_size=batch) >= 2 / 3 * limit * (1 - 1e-12)
    worst = st.LeastSquares(np.ones(1), np.ones(1))
    assert st.max_stable_learning_rate(worst, batch_size=1) == pytest.approx(2 / 3)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("decay", [1e-6, 0.05, 1.0, 30.0])
def test_weight_decay_at_enormous_batches(decay):
    """Without noise of the gradient, |1 − γ(κ + λ_1)| < 1; and learning rates far beyond are tried without a word."""
    problem = st.PowerLaw(2.0, 3.0)
    algorithm = st.Algorithm(st.SGD(weight_decay=decay))
    edge = st.max_stable_learning_rate(problem, batch_size=10**15, algorithm=algorithm)
    assert edge == pytest.approx(2 / (decay + 1), rel=1e-9)


@pytest.mark.parametrize("batch", [1, 7, 1000])
def test_directions_too_slow_for_rounding_end_no_stability(batch):
    """For a power law's farthest directions the maps of this method are singular to rounding."""
    method = st.AcceleratedSGD(0.8084162133679574, 0.6113020734424449, 2.227761336215888)
    how = {"batch_size": batch, "algorithm": st.Algorithm(method)}
    edge = st.max_stable_learning_rate(st.PowerLaw(2.789, 1.2447), **how)
    assert edge == pytest.approx(st.max_stable_learning_rate(st.PowerLaw(2.789, 1.2447, dim=300), **how), rel=1e-5)


def radius_of_moments(method, eigenvalues, batch, rate):
    """Largest |eigenvalue| of a step of the d k² second moments of d directions (T20)."""
    decay, b, c = (each[0] for each in method.matrices(np.array([rate]), np.zeros(1)))
    k = b.size
    whole = np.zeros((len(eigenvalues), k * k, len(eigenvalues), k * k))
    for i, eigenvalue in enumerate(eigenvalues):
        one = np.eye(k) - decay - eigenvalue * np.outer(b, c)
        whole[i, :, i] += np.kron(one, one)
        for j in range(len(eigenvalues)):
            whole[i, :, j] += (1 + (i == j)) * eigenvalue**2 / batch * np.outer(np.kron(b, b), np.kron(c, c))
    return np.abs(np.linalg.eigvals(whole.reshape([len(eigenvalues) * k * k] * 2))).max()


@pytest.mark.parametrize("method", [st.HeavyBall(0.9), st.Nesterov(0.5), st.AcceleratedSGD(0.9, 0.1, 5.0)], ids=str)
@pytest.mark.parametrize("eigenvalues", [[1.0], [3.0, 1.0, 0.2], list(np.arange(1.0, 8) ** -1.1)], ids=len)
def test_edges_of_many_batch_sizes_at_once(method, eigenvalues):
    """Each where the dense map of second moments has radius 1; repeated and unordered batch sizes too."""
    problem = st.LeastSquares(eigenvalues, np.ones(len(eigenvalues)))
    batch = np.array([[7.0, 1.0, 1e5], [1.5, 200.0, 7.0]])
    edges = method_edge(problem, method, batch)
    assert edges.shape == batch.shape
    assert edges[0, 0] == edges[1, 2]
    for size, edge in zip(batch.flat, edges.flat, strict=True):
        radius = [radius_of_moments(method, eigenvalues, size, edge * share) for share in (1 - 1e-6, 1 + 1e-6)]
        assert radius[0] < 1 < radius[1]
        assert method_edge(problem, method, np.array([size]))[0] == pytest.approx(edge, rel=3e-12)


def test_a_sample_whose_slow_directions_hardly_move():
    """Margins of its training problem are infinite on the way to the threshold, where a line between them is none."""
    eigenvalues = [0.01] * 8 + [3.187e-08] * 9
    problem = st.LeastSquares(eigenvalues, [0.3] * 17, 0.0003796).with_samples(607)
    algorithm = st.Algorithm(st.SGD(weight_decay=0.004094), average=st.LastIterate())
    edge = float(st.max_stable_learning_rate(problem, batch_size=303, algorithm=algorithm))
    setting = {"batch_size": 303, "num_samples": 303 * np.array([1e4, 4e4]), "algorithm": algorithm}
    below, above = (st.excess_risk(problem, **setting, learning_rate=f * edge).total for f in (0.999, 1.001))
    assert below[1] == pytest.approx(below[0], rel=1e-6)
    assert above[1] > 1e6 * above[0]
