"""The posterior against closed forms, for a law whose log losses are linear in its coordinates."""

from types import SimpleNamespace

import numpy as np
import pytest

from sgdtheory.curves.correlated_residuals import correlation
from sgdtheory.curves.experience import Prior
from sgdtheory.curves.posterior import ALONE, DEVIATIONS, LENGTHS, _scatter, posterior

SIZES = 30, 20
NUMBERS = 3


class Linear:
    """Log losses `design @ z`, of cells and of four rows ahead."""

    def __init__(self, scatter=0.01, spikes=(), seed=0):
        random = np.random.default_rng(seed)
        self.log_steps = [np.linspace(5, 9, size) for size in SIZES]
        times = np.concatenate([*self.log_steps, np.linspace(9, 10, 4)]) - 7
        self.design = np.column_stack([np.ones(times.size), times, times**2])
        self.truth = np.array([1.0, -0.2, 0.02])
        self.count = np.ones(sum(SIZES))
        rows = sum(SIZES)
        shape = correlation(self.log_steps, 0.36, 0.25)
        self.log_loss = self.design[:rows] @ self.truth
        self.log_loss = self.log_loss + scatter * np.linalg.cholesky(shape) @ random.standard_normal(rows)
        self.log_loss[list(spikes)] += 1.0
        self.law = SimpleNamespace(bounds=(np.full(NUMBERS, -50.0), np.full(NUMBERS, 50.0)))

    def predicted(self, points):
        return points @ self.design[: self.log_loss.size].T

    def foretold(self, points):
        return points @ self.design[self.log_loss.size :].T


def prior(width):
    return Prior(np.diag(1 / np.array([width, width, width])), np.array([0.5, 0.0, 0.0]) / width)


def process(rows, length, alone, deviation):
    """(N, N), with what a cell has by itself falling with its rows."""
    shape = correlation(rows.log_steps, length, alone)
    return deviation**2 * (shape + np.diag(alone * (np.median(rows.count) / rows.count - 1)))


def marginal(rows, before, length, alone, deviation):
    """Log density of the rows, the numbers integrated out."""
    spread = np.linalg.inv(before.matrix)
    design = rows.design[: rows.log_loss.size]
    covariance = process(rows, length, alone, deviation) + design @ spread @ spread.T @ design.T
    left = rows.log_loss - design @ before.coordinates
    return -(np.linalg.slogdet(covariance)[1] + left @ np.linalg.solve(covariance, left)) / 2


@pytest.mark.parametrize("width", [0.3, 1.0])
def test_linear_laws_have_the_posterior_of_a_normal_model(width):
    rows = Linear()
    before = prior(width)
    found = posterior(rows, before)  # pyright: ignore[reportArgumentType]
    candidates = [(marginal(rows, before, *each), each) for each in grid()]
    best = max(candidates)[1]
    assert found.scatter == pytest.approx(best[-1])
    design = rows.design[: rows.log_loss.size]
    inverse = np.linalg.inv(process(rows, *best))
    information = design.T @ inverse @ design + before.matrix.T @ before.matrix
    np.testing.assert_allclose(found.covariance, np.linalg.inv(information), rtol=1e-6, atol=1e-12)
    pull = design.T @ inverse @ rows.log_loss + before.matrix.T @ before.centre
    np.testing.assert_allclose(found.coordinates, np.linalg.solve(information, pull), rtol=1e-6)
    np.testing.assert_allclose(found.ahead, rows.design[-4:] @ found.coordinates, rtol=1e-9)
    np.testing.assert_allclose(found.slopes, rows.design[-4:], rtol=1e-7)
    assert found.now == pytest.approx(float(design[-1] @ found.coordinates))
    assert found.used.all()


def grid():
    return [(length, alone, deviation) for length in LENGTHS for alone in ALONE for deviation in DEVIATIONS]


def test_scatter_has_the_largest_marginal_likelihood_with_cells_of_any_size():
    """By densities of dense covariances; what is left and slopes are those at the posterior's mode."""
    rows = Linear(seed=2)
    rows.count = np.random.default_rng(5).integers(1, 40, rows.log_loss.size).astype(float)
    before = prior(0.3)
    best = max((marginal(rows, before, *each), each) for each in grid())[1]
    design = rows.design[: rows.log_loss.size]
    point = np.array([0.5, 0.0, 0.0])
    for _ in range(5):  # the scatter at the mode, the mode at that scatter
        left = rows.log_loss - design @ point
        found = _scatter(rows, before, left, design, np.ones(left.size, bool))  # pyright: ignore[reportArgumentType]
        inverse = np.linalg.inv(found.covariance)
        information = design.T @ inverse @ design + before.matrix.T @ before.matrix
        pull = design.T @ inverse @ rows.log_loss + before.matrix.T @ before.centre
        point = np.linalg.solve(information, pull)
    np.testing.assert_allclose(found.covariance, process(rows, *best), rtol=1e-9)


def test_spikes_are_left_out():
    spikes = 7, 33
    found = posterior(Linear(spikes=spikes), prior(1.0))  # pyright: ignore[reportArgumentType]
    assert list(np.flatnonzero(~found.used)) == list(spikes)
    np.testing.assert_allclose(found.coordinates, [1.0, -0.2, 0.02], atol=0.02)
