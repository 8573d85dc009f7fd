"""Crossings of random lines with a level: how far off they are, and how many values they need."""

import numpy as np
import pytest

from sgdtheory.critical.step_lines import STEPS_SETTLED, Interpolant, Line, crossing, whole
from sgdtheory.critical.tuned_equivalent import Tuned
from tests.costs import MORE_VALUES

NUMBER = 60  # lines of a family
MORE_ERROR = 1.05


class KnownRisk:
    """A tuned risk that is a formula of B and n, and counts what is asked for."""

    def __init__(self, of):
        self.of = of
        self.asked = []

    def least(self, batch, steps, needed=np.inf):
        assert steps == np.round(steps) >= 1
        self.asked.append((batch, steps))
        return Tuned(1 / steps, float(np.exp(self.of(steps))))


def powers(rng, middle):
    rise = rng.uniform(0.2, 3.0)
    return lambda x: rise * (x - middle)


def bent(rng, middle):
    rise, turns = rng.uniform(0.3, 3.0), rng.uniform(0.5, 2.0)
    return lambda x: rise * (x - middle) + 0.4 * rise / turns * (np.sin(turns * x) - np.sin(turns * middle))


def steep(rng, middle):
    """Flat up to next to the crossing, and steep from there on."""
    kink, rise = middle - 10.0 ** rng.uniform(-3, -0.5), rng.uniform(5, 30)
    return lambda x: np.where(x < kink, 0.05, rise) * (x - kink) - rise * (middle - kink)


def flattening(rng, middle):
    """It rises steeply up to next to the crossing, and hardly from there on."""
    kink, rise = middle + 10.0 ** rng.uniform(-3, -0.5), rng.uniform(1, 10)
    return lambda x: np.where(x < kink, rise, 0.02) * (x - kink) + rise * (kink - middle)


def jump(rng, middle):
    height = rng.uniform(0.01, 1.0)
    return lambda x: np.where(x < middle, -0.3, height)


def flat(rng, middle):
    """At the level itself up to the crossing."""
    rise = rng.uniform(0.3, 3.0)
    return lambda x: rise * np.maximum(x - middle, 0.0)


def searched(family):
    """Numbers of values, and mean and largest error in log n, beyond one step."""
    rng = np.random.default_rng(0)
    errors = []
    number = 0
    for k in range(NUMBER):
        middle, begin = rng.uniform(0.0, np.log(1e5), 2)
        end = (0.0, np.log(1e5))[int(middle > begin)]
        side = np.sign(end - begin)
        shape = family(rng, side * middle)
        tuned = KnownRisk(lambda n, f=shape, s=side: f(s * np.log(n)) - 1.0)
        line = Line(tuned, samples=1e6) if k % 2 else Line(tuned, batch=7.0)
        found = crossing(line, -1.0, float(np.log(whole(begin))), end)
        assert found == whole(np.log(found))
        assert tuned.of(found) <= -1.0 or found == whole(begin)
        steps = np.arange(1.0, 1e5 + 1)
        inside = steps[(side * (np.log(steps) - np.log(whole(begin))) >= -1e-12) & (tuned.of(steps) <= -1.0)]
        exact = (inside.max() if side > 0 else inside.min()) if inside.size else whole(begin)
        errors.append(0.0 if abs(found - exact) <= 1 else abs(np.log(found / exact)))
        number += len(tuned.asked)
        assert all(b == (1e6 / n if k % 2 else 7.0) for b, n in tuned.asked)
    return number, np.mean(errors), np.max(errors)


LINES = {  # families: numbers of values, mean and largest error
    powers: (403, 0.000156, 0.000888),
    bent: (483, 0.000103, 0.000879),
    steep: (657, 0.000161, 0.000863),
    flattening: (658, 6.5e-05, 0.000846),
    jump: (784, 9.15e-05, 0.000601),
    flat: (1390, 0.00015, 0.00077),
}


@pytest.mark.parametrize("family", LINES, ids=lambda family: family.__name__)
def test_crossings_cost_no_more_and_are_as_close(family):
    number, mean, largest = searched(family)
    most, *known = LINES[family]
    assert number <= MORE_VALUES * most
    assert mean <= MORE_ERROR * known[0]
    assert largest <= min(MORE_ERROR * known[1], STEPS_SETTLED)


def test_an_interpolant_has_straight_ends():
    line = Line(KnownRisk(lambda n: np.log(n) ** 2), batch=1.0)
    assert line(0.0) == 0.0
    np.testing.assert_array_equal(Interpolant(line)(np.array([-1.0, 2.0])), 0.0)  # from one value
    for place in np.log([2.0, 4.0, 8.0]):
        line(float(place))
    curve = Interpolant(line)
    inside = np.log([1.0, 2.0, 4.0, 8.0])
    np.testing.assert_allclose(curve(inside), inside**2, atol=1e-12)
    for end, side in ((inside[0], -1), (inside[-1], 1)):
        step = 1e-6
        slope = (curve(np.array([end])) - curve(np.array([end - side * step]))) / (side * step)
        far = end + side * np.array([0.5, 2.0])
        np.testing.assert_allclose(curve(far), curve(np.array([end])) + slope * (far - end), rtol=1e-4, atol=1e-4)
