"""Momentum and Adam in any coordinates: against aligned ones, heavy ball in closed form, and simulation."""

from dataclasses import replace

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.algorithms.coordinates import random_rotation
from sgdtheory.risk.mean_field.coupled_methods import _noise_covariance
from tests.marks import half

LAST = st.LastIterate()
AVERAGES = LAST, st.UniformAverage(), st.TailAverage(0.3), st.ExponentialAverage(window=0.1)
METHODS = st.Adam(0.9, 0.95), st.Adam(0.8, 0.99, 0.2), st.SignSGD(0.9), st.Lion(), st.Adam(weight_decay=0.5)
PROBLEM = st.PowerLaw(1.6, 2.0, 12, 0.7)
ROTATION = random_rotation(12, (3, 4))


def risk(method, *, batch=4, rate=0.01, steps=300, schedule=None, average=LAST, problem=PROBLEM):
    algorithm = st.Algorithm(method, schedule or st.Linear(), average=average)
    setting = {"batch_size": batch, "learning_rate": rate, "num_samples": batch * steps}
    return st.excess_risk(problem, **setting, algorithm=algorithm)


@pytest.mark.parametrize(("method", "average"), half(METHODS, AVERAGES), ids=str)
def test_eigenvectors_given_as_coordinates_are_eigenvectors(method, average):
    """The eigenvectors are in another order, and one of them is turned round."""
    basis = np.eye(12)[::-1] * np.where(np.arange(12) == 3, -1.0, 1.0)
    given = risk(replace(method, basis=basis), average=average).total
    assert given == pytest.approx(risk(method, average=average).total, rel=1e-5)


@pytest.mark.parametrize(("batch", "average"), half([1, 8], [LAST, st.TailAverage(0.3)]), ids=str)
def test_a_large_epsilon_is_heavy_ball_in_every_basis(batch, average):
    """`γ m/ε`, whose risk is exact: it takes all covariances of gradients, and no basis is special."""
    epsilon = 1e6
    method = st.Adam(0.5, 0.9, epsilon)
    setting = {"batch": batch, "average": average, "schedule": st.Constant()}
    turned = risk(replace(method, basis=ROTATION), rate=0.1 * epsilon, **setting).total
    assert turned == pytest.approx(risk(method, rate=0.1 * epsilon, **setting).total, rel=1e-5)
    exact = risk(st.HeavyBall(0.5), rate=0.05, **setting).total
    assert turned == pytest.approx(exact, rel=0.01)  # the first steps of m̂ are longer than those of m
    small = {"rate": 0.01, **setting}
    assert risk(st.Adam(basis=ROTATION), **small).total != pytest.approx(risk(st.Adam(), **small).total, rel=0.03)


@pytest.mark.parametrize("rho", [0.02, -0.05, 0.9999, -0.9999])
def test_noise_of_signs_is_the_arcsine_law_where_correlations_are_small_or_whole(rho):
    """Signs of Gaussian gradients of variance 4: gain² S_jj = 2/π, Var ν = 1, Cov ν = (2/π) arcsin ρ."""
    scatter = 4 * np.array([[1, rho], [rho, 1]])
    found = _noise_covariance(np.full(2, np.sqrt(2 / np.pi) / 2), np.ones(2), scatter, np.zeros((2, 2)))
    assert np.diag(found).tolist() == [1, 1]
    assert found[0, 1] == pytest.approx(2 / np.pi * np.arcsin(rho), rel=0.01)


def test_signs_in_other_coordinates_state_a_larger_error():
    setting = {"batch": 64, "steps": 300}
    aligned, turned = (
        risk(method, **setting).relative_error for method in (st.SignSGD(0.9), st.SignSGD(0.9, ROTATION))
    )
    assert aligned < 0.1 <= turned


def test_many_steps_are_refused():
    with pytest.raises(ValueError, match=r"at most 1.39e\+07 steps of 12 directions with momentum .* or simulate"):
        risk(st.Adam(basis=ROTATION), batch=1, steps=2e7)
