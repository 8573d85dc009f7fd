"""Newton's method against functions whose minima are known."""

import numpy as np
import pytest

from sgdtheory.optimal.newton import Found, Many, Searches, minimum


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


def side_by_side(value, calls=None):
    def values(points):
        if calls is not None:
            calls.append(len(points))
        return Many(*(np.array(each) for each in zip(*(value(point) for point in points), strict=True)))

    return values


def test_searches_side_by_side_find_what_each_finds_alone():
    """In a box whose bounds hold some of the variables, from inside and from a corner."""
    rng = np.random.default_rng(0)
    way, _ = np.linalg.qr(rng.normal(size=(8, 8)))
    matrix, centre = way @ np.diag(np.logspace(-4, 1, 8)) @ way.T, rng.normal(size=8)
    value = boxed(lambda x: ((x - centre) @ matrix @ (x - centre) / 2, matrix @ (x - centre)), -0.5, 0.5)
    begin = np.array([np.zeros(8), np.full(8, 0.5), rng.uniform(-0.5, 0.5, 8)])
    calls = []
    found = Searches(side_by_side(value, calls), begin).ended(1e-14)
    alone = minimum(value, np.zeros(8), 1e-15)
    np.testing.assert_allclose(found.value, alone.value, rtol=1e-9)
    np.testing.assert_allclose(found.point, np.tile(alone.point, (3, 1)), atol=1e-3)
    assert 0 < alone.held.sum() < 8
    assert sum(calls) < 3 * 40  # Hessians of 8 each, and some steps
    free = ~found.held
    assert np.abs(found.slope[free]).max() < 1e-5


def test_searches_go_on_where_they_were_kept():
    """Rosenbrock's valley from several starts: compared roughly, the better ones to the end."""

    def function(x):
        slope = np.array([-400 * x[0] * (x[1] - x[0] ** 2) - 2 * (1 - x[0]), 200 * (x[1] - x[0] ** 2)])
        return 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2, slope

    begin = np.array([[-1.2, 1.0], [2.0, -3.0], [0.5, 3.0], [-4.0, 4.0]])
    searches = Searches(side_by_side(boxed(function, -5, 5)), begin)
    rough = searches.ended(1.0).value.copy()
    kept = np.argsort(rough)[:3]
    searches.keep(kept)
    found = searches.ended(1e-14)
    assert found.point.shape == (3, 2)
    assert (found.value <= rough[kept]).all()
    np.testing.assert_allclose(found.point, 1.0, atol=1e-5)


def test_a_search_that_begins_at_a_maximum_leaves_it():
    """Curvatures are taken for their sizes: a saddle is left downhill."""
    value = boxed(lambda x: (x[0] ** 4 / 4 - x[0] ** 2 / 2 + x[1] ** 2, np.array([x[0] ** 3 - x[0], 2 * x[1]])), -3, 3)
    found = Searches(side_by_side(value), np.array([[0.01, 1.0], [-0.01, 2.0]])).ended(1e-14)
    np.testing.assert_allclose(found.point, [[1, 0], [-1, 0]], atol=1e-5)
    np.testing.assert_allclose(found.value, -0.25, rtol=1e-9)
