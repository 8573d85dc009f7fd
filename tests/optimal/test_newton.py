"""Newton's method against functions whose minima are known."""

import numpy as np
import pytest

from sgdtheory.optimal.newton import Found, minimum


def boxed(function, low, high):
    def value(point):
        point = np.clip(point, low, high)
        risk, slope = function(point)
        return Found(point, risk, slope, (point <= low) & (slope >= 0) | (point >= high) & (slope <= 0))

    return value


def test_a_quadratic_over_ten_decades_in_a_box():
    rng = np.random.default_rng(0)
    way, _ = np.linalg.qr(rng.normal(size=(30, 30)))
    matrix = way @ np.diag(np.logspace(-9, 1, 30)) @ way.T
    centre = rng.normal(size=30)

    def function(x):
        return (x - centre) @ matrix @ (x - centre) / 2, matrix @ (x - centre)

    calls = []
    found = minimum(lambda x: calls.append(1) or boxed(function, -9, 9)(x), np.zeros(30), 1e-15)
    assert found.value < 1e-12
    assert len(calls) < 80
    held = minimum(boxed(function, -0.5, 0.5), np.zeros(30), 1e-15)
    assert np.abs(held.slope[~held.held]).max() < 1e-6
    assert held.held.any()
    slope = function(held.point)[1]
    assert np.all(slope[held.point >= 0.5] <= 1e-6)
    assert np.all(slope[held.point <= -0.5] >= -1e-6)


def test_a_valley_that_bends():
    """Rosenbrock's: the Hessian has to be learnt again on the way, and is indefinite at the start."""

    def function(x):
        slope = np.array([-400 * x[0] * (x[1] - x[0] ** 2) - 2 * (1 - x[0]), 200 * (x[1] - x[0] ** 2)])
        return 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2, slope

    found = minimum(boxed(function, -5, 5), np.array([-1.2, 1.0]), 1e-16)
    assert found.point == pytest.approx([1, 1], abs=1e-5)
