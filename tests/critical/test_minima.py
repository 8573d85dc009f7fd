"""Searches for minima over families of random functions: how far off they are, and how many values they need."""

import numpy as np
import pytest

from sgdtheory.critical.minima import least_of_several, minima, minima_in_range, minimum
from tests.costs import MORE_ERROR, MORE_VALUES

NUMBER = 60  # functions of a family
SETTLED = 3e-4
APART = 200.0  # of functions side by side
NONE = 1e-12  # An error that is rounding.


class Counted:
    """A function that keeps the places where its values are asked for."""

    def __init__(self, function):
        self.function = function
        self.places = []
        self.calls = 0

    def __call__(self, x):
        self.places += x.tolist()
        self.calls += 1
        return self.function(x)


def two_powers(rng, side):
    """Bias and variance are powers of γ: two terms, of which a parabola each is exact."""
    fall, rise = rng.uniform(0.3, 3.0, 2)
    return lambda x: np.stack([-fall * x, rise * x])


def bent_powers(rng, side):
    """Bias and variance bend."""
    fall, rise = rng.uniform(0.3, 3.0, 2)
    bend = rng.uniform(0.02, 0.1, 2)
    return lambda x: np.stack([-fall * x + bend[0] * np.sin(x), rise * x - bend[1] * np.cos(2 * x)])


def in_one(rng, side):
    """The same as one term."""
    function = bent_powers(rng, side)
    return lambda x: np.logaddexp.reduce(function(x))


def power(rng, side):
    exponent, size = rng.uniform(1.3, 4.0), rng.uniform(0.3, 3.0)
    return lambda x: size * np.abs(x) ** exponent


def skewed(rng, side):
    steepness = rng.choice([-1, 1]) * rng.uniform(0.5, 6.0)
    return lambda x: np.expm1(steepness * x) - steepness * x


def kink(rng, side):
    slopes = 10.0 ** rng.uniform(-1.5, 1.0, 2)
    return lambda x: np.where(x > 0, slopes[0], -slopes[1]) * x


def wall(rng, side):
    """One term rises like a wall beyond a place next to the minimum."""
    fall, place = rng.uniform(0.3, 2.0), rng.uniform(-0.3, 0.3)
    return lambda x: np.stack([-fall * side * x, 0.5 * side * x + 200 * np.maximum(side * x - place, 0.0) ** 2])


def cliff(rng, side):
    """Values on the other side are infinite."""
    end, curvature = rng.uniform(0.05, 1.0), rng.uniform(0.3, 3.0)
    return lambda x: np.where(side * x > end, np.inf, curvature * x**2)


def zero(rng, side):
    """The risk is the square of an amplitude that passes 0."""
    size, tilt = rng.uniform(0.3, 3.0), rng.uniform(-0.5, 0.5)
    return lambda x: np.log((size * x) ** 2 * (1 + tilt * np.tanh(x)) + 1e-9)


def jagged(rng, side):
    """A search cannot resolve that values are off by half of what is settled."""
    phase = rng.uniform(0, 6)
    return lambda x: x**2 + 0.5 * SETTLED * np.sin(1e4 * x + phase)


def total(function, x):
    return np.logaddexp.reduce(np.atleast_2d(function(np.asarray(x, dtype=float))))


def settings(family):
    """Functions with their minimum at random places next to 0, the least value, and the distance of first points."""
    rng = np.random.default_rng(0)
    for k in range(NUMBER):
        shift = 10.0 ** rng.uniform(-2, 0.8) * rng.choice([-1, 1])
        function = family(rng, np.sign(shift))
        least = 0.0
        for far in (3.0, 2e-3, 2e-6):
            dense = least + np.linspace(-far, far, 2001)
            least = dense[total(function, dense).argmin()]
        apart = (0.005, 0.05, 0.2, np.log(2.0))[k % 4]
        yield (lambda x, f=function, s=shift: f(x - s)), float(total(function, [least])[0]), apart


def searched(family, needed):
    """Numbers of values; and errors, of the places and of the values at them: a mean and the largest."""
    errors = []
    number = 0
    for function, least, apart in settings(family):
        counted = Counted(function)
        place, value = minimum(counted, 0.0, apart, SETTLED, needed + least)
        at = float(total(function, [place])[0])
        errors.append((at - least, abs(value - at)))
        number += len(counted.places)
    return number, *np.mean(errors, axis=0), *np.max(errors, axis=0)


def several(rng):
    """Valleys that meet in kinks, of different widths and depths."""
    centre, width, depth = rng.uniform(-1.8, 1.8, 4), 10.0 ** rng.uniform(-1.3, 0.0, 4), rng.exponential(0.3, 4)

    def function(x):
        away = (x[:, None] - centre) / width
        return (np.minimum(away**2, 4.0) + depth).min(1) + 0.05 * x**2

    return function


def waves(rng):
    """They reach beyond the first grid."""
    turns, phase, slope = rng.uniform(3, 15), rng.uniform(0, 6), rng.uniform(-0.5, 0.5)
    return lambda x: np.stack([0.3 * np.cos(turns * x + phase) + slope * x, 0.1 * (x - slope) ** 2])


def zeros(rng):
    """Amplitudes that pass 0 several times: the first term has valleys without a bottom."""
    turns, phase, floor = rng.uniform(2, 6), rng.uniform(0, 6), 10.0 ** rng.uniform(-12, -2)
    return lambda x: np.stack([2 * np.log(np.abs(np.sin(turns * x + phase)) + 1e-4), np.log(floor) + np.abs(x)])


def before_a_cliff(rng):
    """Minima lie 1 apart above a cliff, those next to it more often lower than not."""
    heights, place, rise = rng.normal(0, 0.3, 40), rng.uniform(-12.0, -0.5), rng.uniform(0, 0.1)

    def function(x):
        nearest = np.round(x)
        valley = 8.0 * (x - nearest) ** 2 + heights[nearest.astype(int) % 40] + rise * x
        return np.stack([valley, 400.0 * np.maximum(place - x, 0.0) - 3.0])

    function.lowest = place - 0.05  # There the cliff exceeds every minimum.
    return function


def least_of(family, needed):
    """The same for the least of several minima, against a dense grid."""
    rng = np.random.default_rng(1)
    errors = []
    number = 0
    dense = np.linspace(-6, 6, 60_001) if family is not before_a_cliff else np.linspace(-14, 0.4, 36_001)
    for _ in range(NUMBER // 2):
        function = family(rng)
        least = float(total(function, dense).min())
        counted = Counted(function)
        if family is before_a_cliff:
            found = minima_in_range(counted, function.lowest, 0.0, 0.22, SETTLED)
            place, value = min(found, key=lambda each: each[1])
        else:
            place, value = least_of_several(counted, 0.0, 1.8, 0.15, 0.01, least + needed, SETTLED)
        at = float(total(function, [place])[0])
        errors.append((max(at - least, 0.0), abs(value - at)))
        number += len(counted.places)
    return number, *np.mean(errors, axis=0), *np.max(errors, axis=0)


# Where −1.0 is needed no risk is near it, so that a search may end early: its errors are no defect. Zeros of the risk
# have no bottom, and a search stops on its way down.
ONE = {  # family, log risk that is needed: numbers of values, mean errors of the place and its value, largest errors
    (two_powers, np.inf): (466, 0.0, 0.0, 0.0, 0.0),
    (bent_powers, np.inf): (542, 1.27e-07, 5.43e-07, 2.61e-06, 4.69e-06),
    (in_one, np.inf): (650, 2.12e-07, 1.84e-06, 2.85e-06, 1.92e-05),
    (power, np.inf): (552, 1.32e-05, 1.89e-05, 4.18e-04, 1.09e-04),
    (skewed, np.inf): (664, 7.73e-07, 4.40e-06, 8.13e-06, 4.25e-05),
    (kink, np.inf): (1025, 1.27e-03, 3.86e-05, 1.37e-02, 6.08e-04),
    (wall, np.inf): (916, 1.18e-04, 3.90e-05, 3.00e-03, 7.53e-04),
    (cliff, np.inf): (498, 0.0, 0.0, 0.0, 0.0),
    (zero, np.inf): (1935, 2.19e-03, 0.0, 1.09e-02, 0.0),
    (jagged, np.inf): (444, 1.21e-04, 1.18e-04, 3.20e-04, 2.91e-04),
    (in_one, -1.0): (532, 9.66e-05, 3.25e-04, 1.03e-03, 2.57e-03),
    (power, -1.0): (457, 2.89e-04, 7.94e-04, 7.84e-03, 1.05e-02),
    (kink, -1.0): (612, 1.58e-02, 4.28e-03, 7.05e-02, 1.71e-02),
    (wall, -1.0): (741, 2.49e-03, 2.86e-03, 1.91e-02, 2.48e-02),
    (zero, -1.0): (1791, 1.30e00, 8.52e-02, 1.63e01, 3.56e00),
}
SEVERAL = {
    (several, np.inf): (10855, 1.3e-05, 0.0, 2.2e-04, 0.0),
    (waves, np.inf): (13099, 0.0, 6e-08, 0.0, 6e-07),
    (zeros, np.inf): (5238, 1.89e-01, 0.0, 2.37e00, 0.0),
    (before_a_cliff, np.inf): (1121, 0.0, 0.0, 0.0, 0.0),
    (several, -2.0): (911, 4.34e-02, 0.0, 3.07e-01, 0.0),
    (waves, -2.0): (835, 8.82e-03, 0.0, 4.48e-02, 0.0),
}


def named(value):
    return value.__name__ if callable(value) else None


def check(found, known):
    number, *errors = found
    most, *known_errors = known
    assert number <= MORE_VALUES * most
    assert (np.array(errors) <= MORE_ERROR * np.array(known_errors) + NONE).all(), errors


@pytest.mark.parametrize(("family", "needed"), ONE, ids=named)
def test_one_minimum_costs_no_more_and_is_as_close(family, needed):
    check(searched(family, needed), ONE[family, needed])


@pytest.mark.parametrize(("family", "needed"), SEVERAL, ids=named)
def test_the_least_of_several_costs_no_more_and_is_as_close(family, needed):
    check(least_of(family, needed), SEVERAL[family, needed])


def test_searches_side_by_side_are_each_alone():
    """They ask for one value each at a time, so that there are as many calls as the longest has values."""
    each = [(function, least) for function, least, _ in settings(skewed)][:8]
    begins = [np.array([-0.3, 0.0, 0.3]) + APART * k for k in range(8)]
    counts = np.zeros(8, dtype=int)

    def function(x):
        which = np.rint(x / APART).astype(int)
        np.add.at(counts, which, 1)
        return np.array([each[k][0](x[[j]] - APART * k)[0] for j, k in enumerate(which)])

    def known(place):
        return dict(zip(place.tolist(), np.atleast_2d(function(place)).T, strict=True))

    counted = Counted(function)
    together = minima(counted, [known(place) for place in begins], SETTLED)
    longest = counts.max() - 3
    assert counted.calls == longest
    for k, (alone, least) in enumerate(each):
        place, value = minimum(alone, 0.0, 0.3, SETTLED)
        assert together[k] == pytest.approx((place + APART * k, value), abs=1e-9)
        assert value == pytest.approx(least, abs=SETTLED)


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_what_falls_for_ever_ends_a_search(side):
    """The last point is the answer: of 80, or of a grid that is extended to eight times its reach."""
    counted = Counted(lambda x: np.stack([side * x, side * x]))
    place, value = minimum(counted, 0.0, 0.1, SETTLED)
    assert len(counted.places) == 80
    assert place == -side * max(np.abs(counted.places))
    assert value == pytest.approx(side * place + np.log(2))
    counted = Counted(lambda x: side * x)
    place, value = least_of_several(counted, 0.5, 1.8, 0.15, np.inf, np.inf, SETTLED)
    assert (place, value) == (min(counted.places, key=lambda x: side * x), side * place)
    assert side * (0.5 - place) == pytest.approx(8 * 1.8)
