"""signSGD in any coordinates: signs against integrals and samples, runs against their limits and simulation."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import integrate, stats

import sgdtheory as st
from sgdtheory.algorithms import Basis, Course
from sgdtheory.algorithms.coordinates import Coordinates, random_rotation
from sgdtheory.risk.mean_field import coupled
from sgdtheory.risk.mean_field import registry as fields
from sgdtheory.risk.mean_field.coupled import CoupledReaction, coupled_run
from sgdtheory.risk.mean_field.coupled_methods import CoupledSigns
from sgdtheory.risk.mean_field.sign_covariance import GradientLaw, Reaction, sign_covariance, signs
from sgdtheory.risk.systems.moments import Keeping
from tests.marks import half, slow

LAST = st.LastIterate()
PROBLEM = st.PowerLaw(1.6, 2.0, 12, 0.7)
ROTATION = random_rotation(12, (3, 4))
SHAPES = {
    "constant": (st.Constant(), st.Constant()),
    "warm": (st.Cosine(final=0.1, warmup=0.1), st.Stages([0, 0.4], [1, 3])),
    "ramp": (st.Linear(), st.Linear(final=4.0)),
    "1 − √": (st.WSD(0.3, power=0.5), st.Constant()),
}
AVERAGES = [LAST, st.UniformAverage(), st.TailAverage(0.3), st.ExponentialAverage(window=0.1)]


@pytest.mark.parametrize("correlation", [-0.8, -0.2, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("place", [(0.0, 0.0), (0.02, -0.01), (0.5, 0.2), (1.5, -0.7), (2.0, 2.0)])
def test_covariances_of_signs_are_orthant_probabilities(place, correlation):
    """E sign sign = 4 P(X > 0, Y > 0) − …: by the density's integral over one of them."""

    def inner(x):
        return stats.norm.pdf(x - place[0]) * np.sign(x) * (2 * stats.norm.cdf(_seen_from(x)) - 1)

    def _seen_from(x):
        return (place[1] + correlation * (x - place[0])) / np.sqrt(1 - correlation**2)

    product = sum(integrate.quad(inner, *ends, epsabs=1e-12)[0] for ends in ((-12, 0), (0, 12)))
    apart = [2 * stats.norm.cdf(each) - 1 for each in place]
    matrix = np.array([[1.0, correlation], [correlation, 1.0]])
    found = sign_covariance(np.array(place), matrix)
    assert found[0, 1] == pytest.approx(product - apart[0] * apart[1], abs=2e-3)
    assert found[0, 1] == found[1, 0]


@pytest.mark.parametrize("batch", [1, 3, 64])
def test_signs_of_sampled_batches(batch):
    """Means and covariances of signs at a fixed δ, from explicit batches; false alarm 1e-4 over all entries."""
    rng = np.random.default_rng(batch)
    rows = random_rotation(3, (5,))
    hessian = rows * np.array([1.0, 0.5, 0.2]) @ rows.T
    delta = np.array([0.5, -0.8, 0.3]) / np.sqrt(batch)
    noise = 0.4
    replicas = 60_000
    x = rng.multivariate_normal(np.zeros(3), hessian, size=(replicas, batch))
    residual = x @ delta + np.sqrt(noise) * rng.standard_normal((replicas, batch))
    drawn = np.sign(np.einsum("rb,rbi->ri", residual, x))
    size = np.sqrt(np.diag(hessian))
    u = hessian @ delta / size
    loss = delta @ hessian @ delta + noise
    nothing = np.zeros((3, 3))
    found = signs(GradientLaw(u, nothing, loss * hessian / np.outer(size, size) - np.outer(u, u), size), float(batch))
    limit = stats.norm.isf(1e-4 / 9 / 2) / np.sqrt(replicas)
    np.testing.assert_allclose(drawn.mean(0), found.mean, atol=limit + 5e-4)
    np.testing.assert_allclose(np.cov(drawn.T), found.covariance, atol=limit + 2e-3)
    wrong = signs(GradientLaw(u, nothing, loss * np.eye(3) - np.outer(u, u), size), float(batch))  # no correlations
    assert np.abs(np.cov(drawn.T) - wrong.covariance).max() > 10 * limit


def algorithm(basis, shape="constant", average=LAST):
    return st.Algorithm(st.SignSGD(basis=basis), *SHAPES[shape], average=average)


def risk(chosen, problem=PROBLEM, batch=4, rate=0.01, steps=300, **rest):
    setting = {"batch_size": batch, "learning_rate": rate, "num_samples": batch * steps} | rest
    return st.excess_risk(problem, **setting, algorithm=chosen)


@pytest.mark.parametrize(("shape", "average"), half(SHAPES, AVERAGES))
def test_eigenvectors_as_coordinates_are_the_diagonal_engine(shape, average):
    """To the error of long steps and of covariances' rules."""
    found = risk(algorithm(np.eye(12), shape, average), num_samples=2400)
    exact = risk(algorithm("eigenvectors", shape, average), num_samples=2400)
    assert found.total == pytest.approx(exact.total, rel=1e-3)
    assert found.bias == pytest.approx(exact.bias, rel=2e-3)


@dataclass(frozen=True)
class Plain(CoupledReaction):
    """SGD (THEORY.md T2, T7): the identity in the place of the sign."""

    basis: Basis

    def error(self, steps, batch):
        return 0.02

    def react(self, seen: GradientLaw, batch: float) -> Reaction:
        known = seen.covariance + np.outer(seen.mean, seen.mean)
        covariance = seen.covariance + (seen.noise + 2 * known) / batch
        return Reaction(seen.size * seen.mean, seen.size, np.outer(seen.size, seen.size) * covariance)


@pytest.mark.parametrize(("shape", "average"), half(SHAPES, AVERAGES))
def test_with_the_identity_it_is_the_exact_engine(monkeypatch, shape, average):
    """Any coordinates agree: single and long steps against closed forms and panels of second moments."""
    monkeypatch.setattr(fields, "CoupledSigns", Plain)
    setting = {"batch_size": 4, "learning_rate": 0.2, "num_samples": 2400}
    mine = algorithm(ROTATION, shape, average)
    plain = replace(mine, method=st.SGD())
    exact = st.excess_risk(PROBLEM, **setting, algorithm=plain)
    assert st.excess_risk(PROBLEM, **setting, algorithm=mine).total == pytest.approx(exact.total, rel=1e-3)
    paths = [
        st.risk_path(PROBLEM, **setting, algorithm=each, points=5) for each in (mine, replace(mine, method=st.SGD()))
    ]
    for name in ("iterate", "average"):
        np.testing.assert_allclose(*(getattr(path, name).total for path in paths), rtol=1e-3)


@pytest.mark.parametrize(("batch", "rate"), [(1, 0.003), slow(64, 0.01), (4096, 0.002)])
def test_long_steps_are_single_steps(batch, rate):
    course = Course(st.Algorithm(st.SignSGD(basis=ROTATION), st.Cosine(final=0.1)), float(batch), rate, 800.0)
    run = coupled_run(PROBLEM, course, True, CoupledSigns(Coordinates(ROTATION)))
    keeping = Keeping(0.0, 1.0)
    every = run.stepped(run.start(), keeping, 0.0, 800.0)
    found = run.propagated(run.start(), keeping, 0.0, 800.0, (0.0, 800.0))
    for shares in ((1.0, 0.0), (0.0, 1 / 800)):
        one, other = (np.sum(run.contributions(state, *shares)) for state in (every, found))
        assert other == pytest.approx(one, rel=1e-3)


def test_a_random_basis_is_one_rotation():
    """The rotation is that of the fixed seed here, and that of the key in simulation."""
    one = risk(algorithm("random"), steps=40).total
    assert one == risk(algorithm(random_rotation(12, coupled.SEED)), steps=40).total
    assert one != risk(algorithm(ROTATION), steps=40).total


def test_a_direction_without_a_gradient_keeps_its_risk():
    problem = st.LeastSquares([1.0, 0.5, 0.0], [1.0, 0.5, 2.0], 0.5)
    basis = np.eye(3)[[1, 0, 2]]
    found, exact = (risk(algorithm(each), problem, steps=40).total for each in (basis, "eigenvectors"))
    assert found == pytest.approx(exact, rel=1e-3)
    assert found > 2


def test_where_many_coordinates_lead_to_and_fro_a_larger_error_is_stated():
    large, small = (risk(algorithm(ROTATION), batch=1024, rate=rate, steps=60).relative_error for rate in (0.1, 0.004))
    assert large > 0.3
    assert small < 0.025


def test_no_noise_is_the_path_of_the_mean():
    """B → ∞: every weight moves by γ towards its optimum."""
    problem = st.LeastSquares([1.0, 0.25], [1.0, 4.0], 0.5)
    basis = np.array([[0.6, 0.8], [-0.8, 0.6]])
    hessian = basis * np.array([1.0, 0.25]) @ basis.T
    away = basis @ np.array([1.0, 4.0])
    for _ in range(9):
        away = away - 0.05 * np.sign(hessian @ away)
    found = risk(algorithm(basis), problem, batch=1e20, rate=0.05, steps=9)
    assert found.total == pytest.approx(away @ hessian @ away, rel=1e-6)


@pytest.mark.parametrize(
    ("problem", "method", "sentence"),
    [
        (st.PowerLaw(2, 3), st.SignSGD(basis="random"), "problem must have at most 512 directions .* infinitely many"),
        (st.PowerLaw(2, 3, 513), st.SignSGD(basis="random"), "at most 512 directions .* got 513; truncate it"),
        (
            PROBLEM,
            st.SignSGD(basis=np.eye(4)),
            "one row for each of the problem's 12 directions, got 4",
        ),
        (PROBLEM, st.Adam(0.99, 0.9, basis=np.eye(12)), "where risks are exact, got Adam"),
    ],
)
def test_what_is_refused(problem, method, sentence):
    with pytest.raises(ValueError, match=sentence):
        risk(st.Algorithm(method), problem)
