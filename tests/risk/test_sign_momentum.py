"""Signs with momentum: against the arcsine law step by step, signs without momentum, and another program."""

import numpy as np
import pytest
from scipy import special

import sgdtheory as st
from sgdtheory.risk.mean_field.lion import Mixture, correlated, sign_gain
from tests.marks import slow

MANY = 10**8  # samples in a batch: m is Gaussian
LAST = st.LastIterate()
FIVE = np.arange(1.0, 6) ** -1.5, np.full(5, 0.2)
TEN = np.arange(1.0, 11) ** -2, np.arange(1.0, 11) ** -2
FLAT = np.ones(4), np.full(4, 0.25)
CASES = [  # spectrum, σ², B, n, β, schedule, γ, mean of the program in C, and how far the equivalent may be off
    (FIVE, 1.0, 60, 6, 0.99, st.Linear(), 0.3, 0.15660, 0.15),
    (TEN, 0.2, 200, 20, 0.99, st.Constant(), 0.1, 1.41481, 0.05),
    (FLAT, 0.05, 3, 5, 0.95, st.Constant(), 0.25, 1.10907, 0.02),
]


def exact_variance(beta, steps):
    """Var Σ sign(m_t) of pure noise, by `Cov = (2/π) arcsin ρ` for every pair of steps."""
    weights = np.tril(beta ** np.maximum(np.arange(steps)[:, None] - np.arange(steps), 0.0))
    covariance = weights @ weights.T
    root = np.sqrt(np.diag(covariance))
    return (2 / np.pi * np.arcsin(np.clip(covariance / root[:, None] / root, -1, 1))).sum()


@pytest.mark.parametrize("beta", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("steps", [1, 2, 6, 40])
def test_first_steps_of_pure_noise_scatter_by_the_arcsine_law(beta, steps):
    """The long-run factor among the first steps was 3.3 times too large at β = 0.9, and 31 times at β = 0.99."""
    algorithm = st.Algorithm(st.SignSGD(beta), average=LAST)
    setting = {"batch_size": MANY, "num_samples": MANY * steps}
    found = st.excess_risk(st.LeastSquares([1.0], [0.0]), learning_rate=1e-12, **setting, algorithm=algorithm)
    assert found.total * 1e24 == pytest.approx(exact_variance(beta, steps), rel=2e-3)


@pytest.mark.parametrize(("batch", "error"), [(1, 0.08), (5, 0.01), (64, 1e-3)])
@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_the_first_step_is_that_without_momentum(batch, error, noise):
    """m is one gradient then. With Gaussian gradients the risk at B = 5 was 58% too large."""
    problem = st.LeastSquares(np.arange(1.0, 9) ** -1.5, np.arange(1.0, 9) ** -2, noise)
    setting = {"batch_size": batch, "learning_rate": 0.2, "num_samples": batch}
    with_momentum, without = (
        st.excess_risk(problem, **setting, algorithm=st.Algorithm(method, average=LAST)).total
        for method in (st.SignSGD(0.9), st.SignSGD())
    )
    assert with_momentum == pytest.approx(without, rel=error)


@pytest.mark.parametrize("beta", [0.3, 0.97])
def test_how_far_signs_are_correlated(beta):
    """The table in the number of steps against its sum."""
    for step in (0, 1, 2, 7, 33, 200):
        lag = np.arange(1, step + 1)
        along = beta**lag * np.sqrt((1 - beta ** (2 * (step - lag + 1))) / (1 - beta ** (2 * (step + 1))))
        expected = 1 + 2 * (np.arcsin(along) - along).sum() / (np.pi / 2 - 1)
        assert correlated(Mixture(beta, beta), np.array([float(step)]), np.ones(1))[0] == pytest.approx(
            expected, rel=1e-3
        )


@pytest.mark.parametrize("case", range(3))
def test_few_steps_with_a_long_memory_against_another_program(case):
    """Means of a program in C, ± 0.2%. With long-run factors and Gaussian gradients: 620%, 12%, 103% more."""
    spectrum, noise, batch, steps, beta, schedule, rate, mean, error = CASES[case]
    algorithm = st.Algorithm(st.SignSGD(beta), schedule, average=LAST)
    setting = {"batch_size": batch, "learning_rate": rate, "num_samples": batch * steps}
    found = st.excess_risk(st.LeastSquares(*spectrum, noise), **setting, algorithm=algorithm)
    assert found.total == pytest.approx(mean, rel=error)


@pytest.mark.parametrize("batch", [1, 3, 64, 1e6])
def test_the_first_step_is_a_plain_sign(batch):
    """c_B/√B over √(2/π) (T37); after many steps of a long memory m is Gaussian."""
    slope = np.exp(special.gammaln(batch) - 2 * special.gammaln(batch / 2) + (2 - batch) * np.log(2)) / np.sqrt(batch)
    first, late = sign_gain(Mixture(0.99, 0.99), np.array([0.0, 1e5]), np.full(2, float(batch)))
    assert first == pytest.approx(slope / np.sqrt(2 / np.pi), rel=1e-3 if batch > 1e3 else 1e-5)
    assert late == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize(("momentum", "seen", "batch"), [(0.5, 30, 1), (0.5, 2, 2), slow(0.8, 60, 1), slow(0.3, 12, 4)])
def test_slopes_are_sampled_means(momentum, seen, batch):
    """∂E sign(m)/∂u = E[sign(m) Σ χ_k z_k], the score of z: false alarm 7e-6 each, and a Gaussian m is found out."""
    random = np.random.default_rng(3)
    number = 400_000
    mean = score = 0.0
    for _ in range(seen):
        length = np.sqrt(random.chisquare(batch, number))
        noise = random.standard_normal(number)
        mean = momentum * mean + (1 - momentum) * length * noise / np.sqrt(batch)
        score = score + length * noise / np.sqrt(batch)
    found = np.sign(mean) * score
    weights = momentum ** np.arange(seen)
    gaussian = np.sqrt(2 / np.pi) * weights.sum() / np.sqrt((weights**2).sum())
    gain = sign_gain(Mixture(momentum, momentum), np.array([seen - 1.0]), np.array([float(batch)]))[0]
    error = 4.5 * found.std() / np.sqrt(number)
    assert gain * gaussian == pytest.approx(found.mean(), abs=error)
    if seen == 2:
        assert abs(gaussian - found.mean()) > error
