"""Newton's method against functions whose minima are known."""

import numpy as np
import pytest

from sgdtheory.optimal.newton import LONGEST, Found, Searches


def boxed(function, low, high, calls=None):
    """Return a function in a box, at any number of points, from one that gives value and slope at one."""

    def values(points):
        if calls is not None:
            calls.append(points)
        inside = np.clip(points, low, high)
        value, slope = (np.array(each) for each in zip(*(function(point) for point in inside), strict=True))
        return Found(inside, value, slope, (inside <= low) & (slope >= 0) | (inside >= high) & (slope <= 0))

    return values


def minimum(function, begin, gain):
    return Searches(function, np.array([begin], float)).ended(gain)


def test_a_quadratic_over_ten_decades_in_a_box():
    rng = np.random.default_rng(0)
    way, _ = np.linalg.qr(rng.normal(size=(30, 30)))
    matrix = way @ np.diag(np.logspace(-9, 1, 30)) @ way.T
    centre = rng.normal(size=30)

    def function(x):
        return (x - centre) @ matrix @ (x - centre) / 2, matrix @ (x - centre)

    calls = []
    found = minimum(boxed(function, -9, 9, calls), np.zeros(30), 1e-15)
    assert found.value[0] < 1e-12
    assert sum(map(len, calls)) < 80
    held = minimum(boxed(function, -0.5, 0.5), np.zeros(30), 1e-15)
    assert held.steepest[0] < 1e-6
    assert held.held.any()
    slope = function(held.point[0])[1]
    assert np.all(slope[held.point[0] >= 0.5] <= 1e-6)
    assert np.all(slope[held.point[0] <= -0.5] >= -1e-6)


def valley(x):
    """Rosenbrock's: the Hessian has to be learnt again on the way, and is indefinite in places."""
    slope = np.array([-400 * x[0] * (x[1] - x[0] ** 2) - 2 * (1 - x[0]), 200 * (x[1] - x[0] ** 2)])
    return 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2, slope


def test_a_valley_that_bends():
    found = minimum(boxed(valley, -5, 5), [-1.2, 1.0], 1e-16)
    assert found.point[0] == pytest.approx([1, 1], abs=1e-5)


def test_searches_side_by_side_find_what_each_finds_alone():
    """The bounds of the box hold some of the variables, from inside and from a corner."""
    rng = np.random.default_rng(0)
    way, _ = np.linalg.qr(rng.normal(size=(8, 8)))
    matrix, centre = way @ np.diag(np.logspace(-4, 1, 8)) @ way.T, rng.normal(size=8)
    calls = []
    value = boxed(lambda x: ((x - centre) @ matrix @ (x - centre) / 2, matrix @ (x - centre)), -0.5, 0.5, calls)
    begin = np.array([np.zeros(8), np.full(8, 0.5), rng.uniform(-0.5, 0.5, 8)])
    found = Searches(value, begin).ended(1e-14)
    asked = sum(map(len, calls))
    alone = minimum(value, np.zeros(8), 1e-15)
    np.testing.assert_allclose(found.value, alone.value[0], rtol=1e-9)
    np.testing.assert_allclose(found.point, np.tile(alone.point, (3, 1)), atol=1e-3)
    assert 0 < alone.held.sum() < 8
    assert asked < 3 * 40  # Hessians of 8 each, and some steps
    assert found.steepest.max() < 1e-5


def test_searches_go_on_where_they_were_kept():
    """Rosenbrock's valley from several starts: compared roughly, the better ones to the end."""
    begin = np.array([[-1.2, 1.0], [2.0, -3.0], [0.5, 3.0], [-4.0, 4.0]])
    searches = Searches(boxed(valley, -5, 5), begin)
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
    found = Searches(value, np.array([[0.01, 1.0], [-0.01, 2.0]])).ended(1e-14)
    np.testing.assert_allclose(found.point, [[1, 0], [-1, 0]], atol=1e-5)
    np.testing.assert_allclose(found.value, -0.25, rtol=1e-9)


def test_what_is_not_possible_is_left():
    """A point whose value is inf is never taken; a search that begins at one ends there."""

    def function(x):
        return (np.inf, 0.0 * x) if x[0] > 1 else ((x[0] - 0.9) ** 2, 2 * (x - 0.9))

    found = Searches(boxed(function, -9, 9), np.array([[-1.0], [3.0]])).ended(1e-14)
    assert found.point[0, 0] == pytest.approx(0.9, abs=1e-6)
    assert (found.point[1, 0], found.value[1]) == (3.0, np.inf)


# ------------------------------------------------------------------ single steps


MATRIX = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.3], [0.0, 0.3, 0.7]])


def bowl(centre):
    """Return a quadratic, its minimum at the centre."""
    return boxed(lambda x: ((x - centre) @ MATRIX @ (x - centre) / 2, MATRIX @ (x - centre)), -100, 100)


@pytest.mark.parametrize("centre", [[0.3, -0.2, 0.1], [40.0, 1.0, -3.0]], ids=["near", "far"])
def test_the_model_expects_what_a_quadratic_gains(centre):
    """Also where its minimum lies farther away than a step may go, by no more than a factor of 4 in the damping."""
    value, begin = bowl(np.array(centre)), np.array([np.zeros(3), np.ones(3)])
    searches = Searches(value, begin)
    steps, gains = searches._steps(np.array([0, 1]))
    np.testing.assert_allclose(gains, value(begin).value - value(begin + steps).value, rtol=1e-6)
    longest = np.abs(steps).max(1)
    assert (longest <= LONGEST).all()
    if np.abs(centre).max() < LONGEST:
        np.testing.assert_allclose(steps[0], centre, rtol=1e-6)
    else:
        assert (longest > LONGEST / 5).all()


def test_the_differences_are_the_second_derivatives():
    """By way of points inside, at bounds that hold and at bounds that do not: from all of them inwards."""
    for corner in ([0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [-1.0, -1.0, -1.0], [1.0, -1.0, 0.0]):
        for centre in ([0.5, 0.6, 0.9], [-0.9, -0.6, -0.5], [3.0, -3.0, 0.2], [1.2, 0.9, -1.3]):
            value = boxed(lambda x, c=centre: ((x - c) @ MATRIX @ (x - c) / 2, MATRIX @ (x - c)), -1, 1)
            searches = Searches(value, np.array([corner]))
            np.testing.assert_allclose(searches.hessian[0], MATRIX, rtol=1e-6, atol=1e-8)


def learnt(before, after, slopes):
    """Return searches, the second of which has gone a step: its Hessian is corrected by the change of slopes."""
    free = np.zeros((1, 3), bool)
    searches = Searches(bowl(np.zeros(3)), np.array([np.ones(3), before]))
    searches.hessian[:] = MATRIX
    here, there = (
        Found(point[None], np.zeros(1), slope[None], free) for point, slope in zip((before, after), slopes, strict=True)
    )
    searches._learn(np.array([1]), here, there)
    return searches


@pytest.mark.parametrize("size", [1e-6, 1.0, 30.0])
def test_a_step_teaches_the_change_of_slopes(size):
    """Afterwards the Hessian takes the step to the change of slopes, whatever its length."""
    before, after = np.array([0.2, -1.0, 0.4]), np.array([0.2, -1.0, 0.4]) + size * np.array([1.0, -0.5, 0.25])
    slopes = MATRIX @ before, MATRIX @ after + 0.1 * size
    searches = learnt(before, after, slopes)
    np.testing.assert_allclose(searches.hessian[1] @ (after - before), slopes[1] - slopes[0], rtol=1e-6)
    np.testing.assert_allclose(searches.hessian[1], searches.hessian[1].T)
    np.testing.assert_array_equal(searches.hessian[0], MATRIX)  # another search
    np.testing.assert_array_equal(searches.here.point, [np.ones(3), after])
    assert searches.fresh.tolist() == [True, False]


def test_an_error_across_the_step_teaches_nothing():
    """The update of rank one would divide by next to 0; nor does a model without an error."""
    step = np.array([1.0, 0.0, 0.0])
    for error in (np.array([1e-10, 1.0, 0.0]), np.zeros(3)):
        searches = learnt(np.zeros(3), step, (np.zeros(3), MATRIX @ step + error))
        np.testing.assert_array_equal(searches.hessian[1], MATRIX)


@pytest.mark.parametrize(("share", "factor"), [(1.0, 2.0), (0.7, 2.0), (0.3, 1.0), (0.05, 0.25), (-0.2, 0.25)])
def test_the_length_of_steps_follows_what_they_gain(share, factor):
    """Longer where the gain is more than half of what the model says, shorter where it is less than a tenth."""
    searches = Searches(boxed(lambda x: (share * (x @ x) / 2, x), -9, 9), np.array([[0.1, -0.05]]))
    searches.longest[:] = 0.2
    live = np.array([0])
    step, expected = searches._steps(live)
    searches._moved(live, step, expected)
    assert searches.longest[0] == pytest.approx(factor * 0.2)
    np.testing.assert_allclose(searches.here.point, [[0.1, -0.05]] if share < 0 else 0.0, atol=1e-8)


def test_a_search_gives_up_where_slopes_mislead():
    """They say that x²/2 is least at 1: after one step that gains, none does, by a Hessian found anew neither."""
    calls = []
    found = minimum(boxed(lambda x: (x[0] ** 2 / 2, x - 1), -9, 9, calls), [-1.0], 1e-12)
    assert abs(found.point[0, 0]) < 1
    assert found.value[0] < 0.5
    assert 20 < len(calls) < 40
