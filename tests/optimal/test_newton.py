"""Newton's method against functions whose minima are known."""

import numpy as np
import pytest

from sgdtheory.optimal.newton import DAMPING, LONGEST, Found, Many, Searches, _Hessian, minimum


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


# ------------------------------------------------------------------ single steps


MATRIX = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.3], [0.0, 0.3, 0.7]])


def bowl(centre):
    """A quadratic, its minimum at the centre."""
    return boxed(lambda x: ((x - centre) @ MATRIX @ (x - centre) / 2, MATRIX @ (x - centre)), -100, 100)


@pytest.mark.parametrize("centre", [[0.3, -0.2, 0.1], [40.0, 1.0, -3.0]], ids=["near", "far"])
def test_the_model_expects_what_a_quadratic_gains(centre):
    """Also where its minimum lies farther away than a step may go: the largest change of a variable is `LONGEST`."""
    value, begin = bowl(np.array(centre)), np.zeros(3)
    here = value(begin)
    step, expected = _Hessian(value, 3).step(here, DAMPING)
    assert expected == pytest.approx(here.value - value(step).value, rel=1e-6)
    newton = np.array(centre)
    np.testing.assert_allclose(step, newton * min(1.0, LONGEST / np.abs(newton).max()), rtol=1e-6)
    searches = Searches(side_by_side(value), np.array([begin, begin + 1.0]))
    steps, gains = searches._steps(np.array([0, 1]))
    np.testing.assert_allclose(steps[0], step, rtol=1e-6)
    assert gains[0] == pytest.approx(expected, rel=1e-6)
    assert gains[1] == pytest.approx(value(begin + 1.0).value - value(begin + 1.0 + steps[1]).value, rel=1e-6)


def test_the_differences_are_the_second_derivatives():
    """By way of points inside, at bounds that hold and at bounds that do not: from all of them inwards."""
    for corner in ([0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [-1.0, -1.0, -1.0], [1.0, -1.0, 0.0]):
        for centre in ([0.5, 0.6, 0.9], [-0.9, -0.6, -0.5], [3.0, -3.0, 0.2], [1.2, 0.9, -1.3]):
            value = boxed(lambda x, c=centre: ((x - c) @ MATRIX @ (x - c) / 2, MATRIX @ (x - c)), -1, 1)
            here = value(np.array(corner))
            hessian = _Hessian(value, 3)
            hessian.step(here, DAMPING)
            free = np.ix_(~here.held, ~here.held)
            np.testing.assert_allclose(hessian.matrix[free], MATRIX[free], rtol=1e-6, atol=1e-8)
            searches = Searches(side_by_side(value), np.array([corner]))
            np.testing.assert_allclose(searches.hessian[0], MATRIX, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("size", [1e-6, 1.0, 30.0])
def test_a_step_teaches_the_change_of_slopes(size):
    """Afterwards the Hessian takes the step to the change of slopes, whatever its length."""
    before, after = np.array([0.2, -1.0, 0.4]), np.array([0.2, -1.0, 0.4]) + size * np.array([1.0, -0.5, 0.25])
    slopes = MATRIX @ before, MATRIX @ after + 0.1 * size
    free = np.zeros(3, bool)
    hessian = _Hessian(bowl(np.zeros(3)), 3)
    hessian.matrix, hessian.known = MATRIX.copy(), np.ones(3, bool)
    hessian.learn(Found(before, 0.0, slopes[0], free), Found(after, 0.0, slopes[1], free))
    np.testing.assert_allclose(hessian.matrix @ (after - before), slopes[1] - slopes[0], rtol=1e-6)
    np.testing.assert_allclose(hessian.matrix, hessian.matrix.T)
    assert not hessian.fresh
    hessian.known[2] = False  # a variable that has been held all the time
    hessian.matrix[2] = hessian.matrix[:, 2] = 0
    hessian.learn(Found(before, 0.0, 2 * slopes[0], free), Found(after, 0.0, 2 * slopes[1], free))
    np.testing.assert_array_equal([hessian.matrix[2], hessian.matrix[:, 2]], 0)
    searches = Searches(side_by_side(bowl(np.zeros(3))), np.array([np.ones(3), before]))
    here, there = (
        Many(point[None], np.zeros(1), slope[None], free[None])
        for point, slope in zip((before, after), slopes, strict=True)
    )
    searches._learn(np.array([1]), here, there)
    np.testing.assert_allclose(searches.hessian[1] @ (after - before), slopes[1] - slopes[0], rtol=1e-6)
    np.testing.assert_allclose(searches.hessian[0], MATRIX, rtol=1e-6, atol=1e-8)  # another search
    np.testing.assert_array_equal(searches.here.point, [np.ones(3), after])
    assert searches.fresh.tolist() == [True, False]


def test_an_error_across_the_step_teaches_nothing():
    """The update of rank one would divide by next to 0; nor does a model without an error."""
    step, free = np.array([1.0, 0.0, 0.0]), np.zeros(3, bool)
    for error in (np.array([1e-10, 1.0, 0.0]), np.zeros(3)):
        here, there = Found(np.zeros(3), 0.0, np.zeros(3), free), Found(step, 0.0, MATRIX @ step + error, free)
        hessian = _Hessian(bowl(np.zeros(3)), 3)
        hessian.matrix, hessian.known = MATRIX.copy(), np.ones(3, bool)
        hessian.learn(here, there)
        np.testing.assert_array_equal(hessian.matrix, MATRIX)
        searches = Searches(side_by_side(bowl(np.zeros(3))), np.zeros((1, 3)))
        searches.hessian = MATRIX[None].copy()
        searches._learn(np.array([0]), *(Many(*(np.array([each]) for each in found)) for found in (here, there)))
        np.testing.assert_array_equal(searches.hessian[0], MATRIX)


@pytest.mark.parametrize(("share", "factor"), [(1.0, 0.1), (0.7, 0.1), (0.3, 1.0), (0.05, 10.0), (-0.2, 10.0)])
def test_damping_follows_what_a_step_gains(share, factor):
    """Less where the gain is more than half of what the model says, more where it is less than a tenth."""
    value = boxed(lambda x: (share * (x @ x) / 2, x), -9, 9)
    searches = Searches(side_by_side(value), np.array([[1.0, -0.5]]))
    live = np.array([0])
    step, expected = searches._steps(live)
    searches._moved(live, step, expected)
    assert searches.damping[0] == pytest.approx(factor * DAMPING)
    np.testing.assert_allclose(searches.here.point, [[1.0, -0.5]] if share < 0 else 0.0, atol=1e-8)


def test_a_search_gives_up_where_slopes_mislead():
    """They say that x²/2 is least at 1: after one step that gains, none does, by a Hessian found anew neither."""
    calls = []

    def function(x):
        calls.append(float(x[0]))
        return x[0] ** 2 / 2, x - 1

    alone = minimum(boxed(function, -9, 9), np.array([-1.0]), 1e-12)
    assert alone.point[0] == pytest.approx(0.5)
    assert 20 < len(calls) < 40
    several = calls.copy()
    calls.clear()
    together = Searches(side_by_side(boxed(function, -9, 9)), np.array([[-1.0]])).ended(1e-12)
    assert together.point[0, 0] == pytest.approx(0.5)
    np.testing.assert_allclose(calls, several, rtol=1e-6)
