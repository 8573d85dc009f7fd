"""Polynomials over determinants against LAPACK's solutions at every point."""

import numpy as np
import pytest

from sgdtheory.risk.solvers.fractions import at_steps, fractions, parts, powers, product, summed, times

SETTINGS, MODES, POINTS, SIDES = 2, 5, 7, 3


def systems(q, size=1.0, far=1.0):
    rng = np.random.default_rng(q)
    matrix = size * rng.normal(size=(q, q, SETTINGS, MODES))
    matrix[0, 1:] = 0.0
    right = rng.normal(size=(q, SIDES, SETTINGS, MODES))
    t = rng.normal(size=(SETTINGS, POINTS)) + 1j * rng.uniform(1, 3, (SETTINGS, POINTS))
    return matrix, right, far * t


def solutions(matrix, right, t):
    """(q, r, S, K, C), one system at a time."""
    q, sides = right.shape[:2]
    found = np.empty((q, sides, *matrix.shape[2:], t.shape[1]), dtype=complex)
    for s, k, c in np.ndindex(found.shape[2:]):
        found[:, :, s, k, c] = np.linalg.solve(t[s, c] * np.eye(q) + matrix[:, :, s, k], right[:, :, s, k])
    return found


def evaluated(found, t):
    value = 0
    for numerator in found.numerators:
        value = value * t[:, None] + numerator[..., None]
    return value * (found.inverse[0] + 1j * found.inverse[1])


@pytest.mark.parametrize("q", [1, 2, 3])
def test_sums_over_modes_and_over_points(q):
    matrix, right, t = systems(q)
    found = fractions(matrix, right, t, np.ones(SETTINGS))
    expected = solutions(matrix, right, t)
    row = np.arange(1.0, q + 1)
    numerators = np.einsum("q,mqrsk->mrsk", row, found.numerators)
    np.testing.assert_allclose(
        summed(numerators, found.inverse, t), np.einsum("q,qrskc->rsc", row, expected), rtol=1e-11
    )
    weight = np.random.default_rng(0).normal(size=(SIDES, SETTINGS, POINTS)) * (1 + 2j)
    integrals = at_steps(found.numerators, found.inverse, weight, t)
    np.testing.assert_allclose(integrals, np.einsum("rsc,qrskc->qrsk", weight, expected).real, rtol=1e-10, atol=1e-12)
    once_more = at_steps(product(found.numerators, found.numerators[:, :1]), found.inverse, weight, t)
    squares = evaluated(found, t) * evaluated(found, t)[:1] / (found.inverse[0] + 1j * found.inverse[1])
    np.testing.assert_allclose(once_more, np.einsum("rsc,qrskc->qrsk", weight, squares).real, rtol=1e-9, atol=1e-11)


def test_products():
    rng = np.random.default_rng(1)
    left, right = rng.normal(size=(2, 3)) + 1j * rng.normal(size=(2, 3))
    np.testing.assert_allclose(times(parts(left), parts(right)), parts(left * right), rtol=1e-14)
    first, second = rng.normal(size=(4, 2, 3)), rng.normal(size=(3, 2, 3))
    found = product(first, second)
    assert found.shape == (6, 2, 3)
    np.testing.assert_allclose(found[:, 1, 2], np.polymul(first[:, 1, 2], second[:, 1, 2]), rtol=1e-13)
    np.testing.assert_allclose(powers(left[None], 2)[:, 0], [left**2, left, left**0], rtol=1e-14)
