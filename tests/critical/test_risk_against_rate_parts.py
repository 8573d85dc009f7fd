"""What the search over γ is made of: places of a scan, contenders, intervals that hide something, parabolas."""

import numpy as np
import pytest

from sgdtheory.critical.risk_against_rate import (
    FINE_SPACING,
    SPACING,
    SPACING_ABOVE,
    RiskAgainstRate,
    _contenders,
    _cut,
    _least_of_quartic,
    _lowest,
    _places,
    _vertices,
)
from tests.critical.test_risk_against_rate import flat_line


def test_the_first_places():
    """From one before the least γ of interest to the edge, closer than `SPACING` below, fine where steps resonate."""
    for start, end, resonant in [(-9.0, np.log(1000), True), (-9.0, np.log(1000), False), (-20.0, 0.7, True)]:
        places = _places(start, end, resonant)
        assert (np.diff(places) > 0).all()
        inside = places[:-1]
        assert inside[-1] == pytest.approx(end)
        assert places[-1] - end == pytest.approx(end - inside[-2])  # the mirror image of the one before
        assert inside[1] <= start < inside[1] + SPACING
        split = min(end - 9 * FINE_SPACING if resonant else end, 0.0)
        below = np.diff(inside[inside <= split + 1e-9])
        np.testing.assert_allclose(below, SPACING)
        assert np.diff(inside).max() <= SPACING_ABOVE + 1e-9
        fine = np.diff(inside)[-9:]
        assert np.allclose(fine, FINE_SPACING) == resonant
    assert _places(5.0, 0.7, True)[0] == pytest.approx(0.7 - 9 * FINE_SPACING - SPACING)  # nothing of interest below


def test_the_least_of_each_setting():
    value, setting = np.array([3.0, 1.0, 2.0, 5.0, 4.0, 7.0]), np.array([0, 0, 0, 1, 1, 2])
    np.testing.assert_array_equal(_lowest(value, setting), [1, 1, 1, 4, 4, 7])


def test_minima_that_could_be_the_least():
    """Local ones of the scan, that are the least or could be if slopes were as steep as 4."""
    place = np.concatenate([np.arange(9.0), np.arange(9.0)]) * 0.1
    value = np.array([3, 2, 3, 3, 1, 3, 2, 1.9, 3, 3, 2.5, 2.7, 2.9, 2.4, 2.4, 3, 4, 5]).astype(float)
    setting = np.repeat([0, 1], 9)
    np.testing.assert_array_equal(_contenders(place, value, value, setting), [4, 13, 14])
    wide = _contenders(10 * place, value, value, setting)
    np.testing.assert_array_equal(wide, [1, 4, 7, 10, 13, 14])
    floor = np.where(np.arange(18) == 1, 0.5, value)  # the bias swings there
    np.testing.assert_array_equal(_contenders(place, value, floor, setting), [1, 4, 13, 14])


def test_a_wide_interval_on_either_side_makes_a_contender():
    place = np.array([0.0, 0.1, 0.2, 0.3, 1.3, 1.4, 1.5])
    value = np.array([3.0, 1.0, 3.0, 2.0, 3.0, 4.0, 5.0])
    setting = np.zeros(7, int)
    np.testing.assert_array_equal(_contenders(place, value, value, setting), [1, 3])
    np.testing.assert_array_equal(_contenders(-place[::-1], value[::-1], value[::-1], setting), [3, 5])


@pytest.mark.parametrize("level", [-7.0, 0.0, 7.0])
def test_where_more_may_hide(level):
    """Between two places the risk is above where slopes of 2 from both would meet; narrow intervals hide nothing."""
    place = np.array([-3.0, -2.0, -1.8, 0.0, 1.0, 3.0, 4.0, np.log(100), 5.5])
    value = level + np.array([0.0, 0.9, 0.95, 0.2, 1.9, 1.9, 3.2, 1.2, 3.2])
    setting = np.zeros(9, int)
    resonant = flat_line([1e6], [100])
    assert resonant._where_more_may_hide(place, value, setting).tolist() == [1, 3, 5]
    smooth = flat_line([1e-3], [100])
    meet = (value[:-1] + value[1:] - 2 * np.diff(place)) / 2
    growth = np.diff(np.log(smooth.share(place, setting)))
    smoothly = np.maximum(meet, value[:-1] - 2 * growth)
    expected = 1 + np.flatnonzero((smoothly < value.min()) & (np.diff(place) > 0.3))
    np.testing.assert_array_equal(smooth._where_more_may_hide(place, value, setting), expected[expected < 8])
    two = np.repeat([0, 1], [4, 5])
    both = flat_line([1e6, 1e6], [100, 101])
    lower = np.append(value[:4], value[4:] - 50)
    assert 4 not in both._where_more_may_hide(place, lower, two)


def test_what_hides_no_minimum():
    """Intervals of 0.3, as narrow as those of a scan where steps resonate; what lies beyond the edge."""
    curve = flat_line([1e6], [100])
    place = curve.end[0] + np.array([-1.6, -1.31, -1.0, -0.71, -0.4, 0.0, 0.4])
    assert curve._where_more_may_hide(place, np.zeros(7), np.zeros(7, int)).tolist() == [2, 4, 5]


def test_intervals_are_cut_into_as_many_pieces_as_a_level_risk_would_take():
    """At least two, each as narrow as 0.3 where it begins at the lowest place, and at most four."""
    place = np.array([0.0, 0.5, 1.3, 2.7, 7.3, 11.9, 13.9, 15.9])
    value = np.array([1.0, 0.0, 0.0, 0.0, 1.2, 3.0, 1.0, 3.0])
    setting = np.zeros(8, int)
    # slopes of 2 lead below the lower end by (2 · width − difference)/2: 0.0, 0.8, 1.4, 4, 3.7, 1 and 1
    between, after = _cut(place, value, setting, np.array([1, 2, 3, 4, 5, 6, 7]))
    np.testing.assert_array_equal(after, [1, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5, 6, 7])
    for k in range(1, 8):
        cuts = np.concatenate([place[[k - 1]], between[after == k], place[[k]]])
        np.testing.assert_allclose(np.diff(cuts), (place[k] - place[k - 1]) / (cuts.size - 1))


def test_vertices_of_parabolas():
    rng = np.random.default_rng(0)
    middle, bend = rng.uniform(-0.4, 0.4, 20), rng.uniform(0.1, 3, 20)
    place = np.array([-1 - rng.random(20), 0 * middle, 0.7 + rng.random(20)])
    found = _vertices(place + 5, bend * (place - middle) ** 2 - 3)
    np.testing.assert_allclose(found, middle + 5, rtol=1e-10)
    flat = _vertices(np.array([[1.0], [2.0], [4.0]]), np.ones((3, 1)))
    assert flat == [2]
    outside = _vertices(np.array([[1.0], [2.0], [4.0]]), np.array([[1.0], [1.0], [50.0]]))
    assert 1 <= outside[0] <= 2


def test_the_least_of_quartics():
    """Of those with one minimum it is that; within four widths, and not beyond the last place; falling ones go on."""
    rng, five = np.random.default_rng(1), np.arange(-2.0, 3.0)[:, None]
    coefficients = np.array([rng.uniform(0.001, 0.01, 50), rng.uniform(-0.01, 0.01, 50), rng.uniform(0.5, 2, 50)])

    def quartic(x, middle):
        x = x - middle
        return 3 + x**2 * (coefficients[2] + x * (coefficients[1] + x * coefficients[0]))

    middle = rng.uniform(-3, 3, 50)
    step, value = _least_of_quartic(quartic(five, middle), np.full(50, 9.0))
    np.testing.assert_allclose(step, middle, atol=1e-6)
    np.testing.assert_allclose(value, 3, rtol=1e-10)
    step, value = _least_of_quartic(quartic(five, middle), np.full(50, 0.5))
    np.testing.assert_allclose(step, np.minimum(middle, 0.5), atol=1e-6)
    np.testing.assert_allclose(value, quartic(step, middle), rtol=1e-10)
    for slope in (-1.0, -0.3, 0.3, 1.0):
        step, value = _least_of_quartic(slope * five - 0.01 * five**2, np.array([9.0]))
        assert step[0] == -4 * np.sign(slope)
        assert value[0] == pytest.approx(-4 * abs(slope) - 0.16)
    step, _ = _least_of_quartic(-five - 0.01 * five**2, np.array([1.5]))
    assert step[0] == 1.5
    flat = _least_of_quartic(np.ones((5, 1)), np.array([1.5]))
    assert np.ravel(flat).tolist() == [1.5, 1]
    straight = _least_of_quartic(-1.0 * five, np.array([9.0]))
    assert np.ravel(straight).tolist() == [4, -4]
    steep, _ = _least_of_quartic((five - 0.5) ** 4 + 0.01 * five**2, np.array([9.0]))  # flat at its minimum
    assert steep[0] == pytest.approx(0.37, abs=0.1)


def test_first_places_are_those_of_rates_over_their_edges():
    """The same rate over its edge is the same place, whatever the edge."""
    sizes = np.full(2, 8.0), np.full(2, 100.0)
    curve = RiskAgainstRate(lambda *_: np.ones(1), np.array([4.0, 0.25]), *sizes, 0.0)
    place, setting = curve._first_places(np.array([0.04, 0.0025]))
    np.testing.assert_allclose(place[setting == 0], place[setting == 1])
    assert place.min() < np.log(0.01) < place.min() + 2 * SPACING
