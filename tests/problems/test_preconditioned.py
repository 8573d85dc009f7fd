"""Preconditioned problems against the steps w ← w − γ H^−θ g that they stand for, in the weights themselves."""

import numpy as np
import pytest

import sgdtheory as st

THETAS = (0.0, 0.3, 0.5, 1.0)


def risk_of_steps(eigenvalues, weights, noise, theta, batch, rate, steps, skip=False):
    """E ‖w_n − w*‖²_H by the dense recursion of E δδᵀ, Gaussian data in a rotated basis, P = H^−θ.

    E ĝĝᵀ = HCH + (2HCH + tr(HC) H − HCH … )/B: of a batch of B rows, (1 + 1/B) HCH + (tr HC + σ²) H/B.
    """
    size = len(eigenvalues)
    basis = np.linalg.qr(np.random.default_rng(5).standard_normal((size, size)))[0]
    covariance = basis @ np.diag(eigenvalues) @ basis.T
    rates = rate * basis @ np.diag(np.asarray(eigenvalues) ** -(0.0 if skip else theta)) @ basis.T
    moment = np.outer(basis @ weights, basis @ weights)
    for _ in range(steps):
        drift = moment @ covariance
        square = (1 + 1 / batch) * covariance @ drift
        square += (np.trace(drift) + noise) / batch * covariance
        moment = moment - rates @ drift.T - drift @ rates + rates @ square @ rates
    return np.trace(moment @ covariance)


@pytest.mark.parametrize("theta", THETAS)
@pytest.mark.parametrize("batch", [1, 7])
def test_steps_with_a_preconditioner(theta, batch):
    eigenvalues = np.array([1.0, 0.3, 0.07, 0.011])
    weights = np.array([0.4, -1.3, 2.0, 5.0])
    problem = st.LeastSquares(eigenvalues, eigenvalues * weights**2, noise_variance=0.3)
    setting = {"batch_size": batch, "learning_rate": 0.11, "num_samples": 60 * batch}
    last = st.Algorithm(average=st.LastIterate())
    found = st.excess_risk(problem.preconditioned(theta), **setting, algorithm=last).total
    arguments = eigenvalues, weights, 0.3, theta, batch, 0.11, 60
    assert found == pytest.approx(risk_of_steps(*arguments), rel=1e-11)
    if theta:  # the control: without P it is another risk
        assert abs(found / risk_of_steps(*arguments, skip=True) - 1) > 0.01


class Listed(st.AbstractProblem):
    """A stranger's problem: directions alone."""

    noise_variance = 0.7
    approximation_risk = 0.2

    def directions(self):
        return np.array([2.0, 0.5, 0.0]), np.array([1.0, 0.5, 0.1])


@pytest.mark.parametrize("theta", THETAS)
def test_every_kind_of_problem(theta):
    mine = Listed().preconditioned(theta)
    finite = st.LeastSquares(*Listed().directions(), 0.7, approximation_risk=0.2).preconditioned(theta)
    for problem in (mine, finite):
        eigenvalues, signal = problem.directions()
        np.testing.assert_allclose(eigenvalues, [2.0 ** (1 - theta), 0.5 ** (1 - theta), 0.0], rtol=1e-15)
        np.testing.assert_array_equal(signal, [1.0, 0.5, 0.1])
        assert (problem.noise_variance, problem.approximation_risk) == (0.7, 0.2)
    setting = {"batch_size": 3, "learning_rate": 0.2, "num_samples": 3e4}
    assert st.excess_risk(mine, **setting).total == pytest.approx(st.excess_risk(finite, **setting).total, rel=1e-12)


@pytest.mark.parametrize("theta", [0.0, 0.4, 0.7, 0.9, 1.0])
def test_a_power_law_and_its_directions(theta):
    """λ^{1−θ} may fall more slowly than 1/i where there is a last one."""
    law = st.PowerLaw(2.5, 1.7, dim=3000, noise_variance=0.4)
    eigenvalues, signal = law.directions()
    listed = st.LeastSquares(eigenvalues ** (1 - theta), signal, 0.4)
    found = law.preconditioned(theta)
    assert found.trace == pytest.approx(listed.trace, rel=1e-12)
    edge = st.max_stable_learning_rate(listed, batch_size=[1, 64])
    np.testing.assert_allclose(st.max_stable_learning_rate(found, batch_size=[1, 64]), edge, rtol=1e-9)
    for share, batch in zip((0.1, 0.8), (1, 64), strict=True):
        setting = {"batch_size": batch, "learning_rate": share * edge[batch > 1], "num_samples": 5e4}
        exact = st.excess_risk(listed, **setting).total
        assert st.excess_risk(found, **setting).total == pytest.approx(exact, rel=1e-10)
    for threshold in (0.9, 0.3, 0.02):
        assert found.count_above(threshold) == (listed.eigenvalues >= threshold).sum()
    assert found.tail_squares(100) == pytest.approx((listed.eigenvalues[100:] ** 2).sum(), rel=1e-11)


def test_features_of_a_law_that_falls_slowly():
    law = st.PowerLaw(0.7, 2.0, dim=2000)
    setting = {"batch_size": 8, "learning_rate": 0.02, "num_samples": 8e4}
    models = [each.with_features(64, "gaussian") for each in (law, st.LeastSquares(*law.directions()))]
    found, expected = (st.excess_risk(model, **setting).total for model in models)
    assert found == pytest.approx(expected, rel=1e-6)
    assert models[0].approximation_risk == pytest.approx(models[1].approximation_risk, rel=1e-12)


def test_corollary_8_with_the_exponent_that_is_left():
    """B* ∝ D^{1 − a'/min{b, 2a'+1}}, a' = a(1 − θ), where SGD without a preconditioner has one of 1 at all D."""
    plain = st.PowerLaw(3.0, 2.0)
    found = [
        st.critical_batch_size(each, num_samples=[1e4, 1e6, 1e8, 1e12], curve=False).batch_size
        for each in (plain, plain.preconditioned(0.5))
    ]
    assert (found[0] == 1).all()
    np.testing.assert_array_equal(found[1][:3], [21, 74, 252])
    assert np.log(found[1][3] / found[1][2]) / np.log(1e4) == pytest.approx(1 - 1.5 / 2, abs=0.01)


@pytest.mark.parametrize(
    ("problem", "power", "sentence"),
    [
        (st.PowerLaw(3, 2), 0.7, "power must be below 1 − 1/a = 0.666667 for infinitely many directions"),
        (st.PowerLaw(3, 2), 1.2, r"power must be between 0 \(no preconditioner\) and 1"),
        (st.LeastSquares([1.0], [1.0]), -0.1, r"power must be between 0 \(no preconditioner\) and 1"),
        (Listed(), "half", "power must be a number"),
        (Listed(), np.nan, "power must be between"),
    ],
)
def test_powers_that_are_none(problem, power, sentence):
    with pytest.raises(ValueError, match=sentence):
        problem.preconditioned(power)
