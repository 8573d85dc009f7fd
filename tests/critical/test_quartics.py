"""Quartics through five points are those that the points were taken from."""

import numpy as np
import pytest
from numpy.polynomial import Polynomial

from sgdtheory.critical.quartics import quartics

FALLING = Polynomial([0.3, -1.0, 0.05, 0.02, -0.01])  # up to 2 and beyond
VALLEY = Polynomial([1.0, 0.2, 0.9, 0.3, 0.2])
FOURTH = Polynomial([2.0, 0.0, 0.3, 0.0, 1.0])
CASES = [  # a quartic, five points, and the indices of a bracket and the lowest point in it
    (VALLEY, [-2.0, -1.0, -0.2, 0.9, 2.5], (1, 2, 3)),
    (VALLEY, [-0.6, -0.25, 0.5, 0.9, 2.5], (0, 1, 2)),
    (FOURTH, [-3.0, -1.0, 0.4, 1.5, 7.0], (1, 2, 3)),
    (FALLING, [-1.0, 0.0, 0.5, 1.2, 2.0], (3, 4, 4)),  # the last position, where it still falls
    (-FALLING, [0.0, 0.5, 0.6, 0.9, 2.0], (0, 0, 1)),
]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_where_a_quartic_is_lowest_in_its_bracket(case):
    """Beside another one, which changes nothing."""
    curve, points, ends = CASES[case]
    position = np.array([[0.0, 1.0, 2.0, 3.0, 4.0], points]).T
    value = np.array([(position[:, 0] - 1.9) ** 2, curve(position[:, 1])]).T
    triple = np.array([[1.0, 2.0, 3.0], [points[k] for k in ends]]).T
    found = quartics(position, value, triple)
    low, here, high = triple[:, 1]
    assert found.unit[1] == max(here - low, high - here)
    dense = np.linspace(low, high, 200_001)
    values = curve(dense)
    lowest = dense[values.argmin()]
    place = here + found.lowest[1] * found.unit[1]
    assert place == pytest.approx(lowest, abs=2e-4 * (high - low))
    assert found.gain[1] == pytest.approx(curve(here) - values.min(), abs=1e-6)
    assert found.bend[1] == pytest.approx(curve.deriv(2)(lowest), rel=0.05, abs=1e-3)
    if ends[1] == ends[2]:
        assert found.outwards[1] == pytest.approx(-curve.deriv()(high), rel=0.02)
    else:
        assert found.outwards[1] == -np.inf
    u = np.linspace(-1, 1, 7)
    both = found.at(np.array([u, u]).T)
    np.testing.assert_allclose(both[:, 1], curve(here + u * found.unit[1]) - curve(here), atol=1e-9)
    np.testing.assert_allclose(found.select(np.array([1])).at(u[:, None])[:, 0], both[:, 1])
    assert 2.0 + found.lowest[0] * found.unit[0] == pytest.approx(1.9, abs=1e-9)
