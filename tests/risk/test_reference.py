"""The slow computations against each other and against SGD itself, averaged over every sample that can occur."""

from itertools import product

import numpy as np
import pytest

from sgdtheory.risk.reference import risk_by_covariance, risk_by_recursion

EIGENVALUES, ERROR, NOISE = np.array([1.3, 0.4]), np.array([0.7, -1.1]), 0.6


def outcomes(values, weights, number):
    """Every tuple of `number` independent draws with its probability."""
    draws = np.array(list(product(values, repeat=number)))
    return draws, np.array([np.prod(weight) for weight in product(weights, repeat=number)])


def sgd(values, weights, batch, rate, steps):
    """(bias, variance) of SGD with z of independent coordinates from a law of few values, and labels noise of ±σ."""
    draws, weight = outcomes(values, weights, 2 * batch * (steps - 1))
    signs, sign_weight = outcomes([-1.0, 1.0], [0.5, 0.5], batch * (steps - 1))
    parts = []
    for start, noise in ((ERROR, 0.0), (np.zeros(2), np.sqrt(NOISE))):
        eta = np.broadcast_to(start, (len(draws), len(signs), 2))
        total = eta
        for t in range(steps - 1):
            x = draws[:, 2 * batch * t :][:, : 2 * batch].reshape(-1, 1, batch, 2) * np.sqrt(EIGENVALUES)
            residual = (x @ eta[..., None])[..., 0] - noise * signs[:, batch * t :][:, :batch]
            eta = eta - rate / batch * (residual[..., None] * x).sum(2)
            total = total + eta
        risk = ((total / steps) ** 2) @ EIGENVALUES
        parts.append(weight @ risk @ sign_weight)
    return tuple(parts)


THREE = (-np.sqrt(3), 0.0, np.sqrt(3)), (1 / 6, 2 / 3, 1 / 6)  # fourth moment 3: as good as Gaussian here
TWO = (-1.0, 1.0), (0.5, 0.5)  # fourth moment 1
LAWS = {"gaussian": (THREE, (1.0, 2.0)), "rademacher": (TWO, (1.0, 0.0))}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("batch", "steps"), [(1, 1), (1, 2), (1, 3), (2, 2)])
def test_against_sgd_itself(law, batch, steps):
    values, fourth_moment = LAWS[law]
    setting = {"batch_size": batch, "learning_rate": 0.4, "num_steps": steps}
    expected = sgd(*values, batch, 0.4, steps)
    signal = EIGENVALUES * ERROR**2
    found = risk_by_recursion(EIGENVALUES, signal, NOISE, fourth_moment=fourth_moment, **setting)
    assert found == pytest.approx(expected, rel=1e-12)
    if law == "gaussian":
        assert risk_by_recursion(EIGENVALUES, signal, NOISE, **setting) == pytest.approx(expected, rel=1e-12)
        assert risk_by_covariance(np.diag(EIGENVALUES), ERROR, NOISE, **setting) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("chi", [0.5, 1.7])
def test_data_whose_directions_share_a_scale(chi):
    """Elliptical data x = √u · Gaussian, E u = 1, E u² = χ: by (S2) χ and δ are that and twice that."""
    setting = {"batch_size": 3, "learning_rate": 0.3, "num_steps": 2}
    signal = EIGENVALUES * ERROR**2
    found = risk_by_recursion(EIGENVALUES, signal, NOISE, fourth_moment=(chi, 2 * chi), **setting)
    x = 0.3 * EIGENVALUES
    moved = (1 - x) ** 2 + (2 * chi - 1) * x**2 / 3  # of E η_i², the part of direction i itself
    after = moved * signal + x**2 / 3 * chi * signal.sum()
    assert found[0] == pytest.approx((signal + 2 * (1 - x) * signal + after).sum() / 4, rel=1e-13)
    assert found[1] == pytest.approx((x**2 / 3 * NOISE).sum() / 4, rel=1e-13)


def test_any_basis():
    """A rotation of H and of the initial error changes nothing; the paper's bracket is right in one dimension alone."""
    rng = np.random.default_rng(0)
    basis, _ = np.linalg.qr(rng.standard_normal((4, 4)))
    eigenvalues, error = np.array([1.0, 0.5, 0.3, 0.0]), rng.standard_normal(4)
    setting = {"batch_size": 2, "learning_rate": 0.5, "num_steps": 20}
    diagonal = risk_by_recursion(eigenvalues, eigenvalues * (basis.T @ error) ** 2, NOISE, **setting)
    covariance = (basis * eigenvalues) @ basis.T
    assert risk_by_covariance(covariance, error, NOISE, **setting) == pytest.approx(diagonal, rel=1e-12)
    papers = risk_by_covariance(covariance, error, NOISE, paper=True, **setting)
    assert papers[0] > 1.01 * diagonal[0]
    line = risk_by_recursion([0.7], [2.0], NOISE, **setting)
    start = np.sqrt([2.0 / 0.7])
    assert risk_by_covariance([[0.7]], start, NOISE, paper=True, **setting) == pytest.approx(line, rel=1e-12)
