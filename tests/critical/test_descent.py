"""What a search over γ needs to find the minimum of a known function: to what is settled, in few values."""

import numpy as np
import pytest

from sgdtheory.critical.minima import least_of_several, minimum
from sgdtheory.critical.tuned_equivalent import SETTLED

STARTS = 0.0, 0.03, -0.4, 7.0  # where the minimum is, for searches that begin at 0
APART = 0.02, 0.2, 0.7
FUNCTIONS = {  # with their minimum 0 at 0, and the most values of all searches for it, to the end and roughly
    "parabola": (lambda x: x**2, 85, 79),
    "log cosh": (lambda x: np.log(np.cosh(3 * x)), 106, 80),
    "exponential": (lambda x: np.exp(x) - x - 1, 104, 79),
    "power": (lambda x: np.abs(x) ** 1.5, 139, 79),
    "a steep side": (lambda x: np.where(x < 0, 0.2, 30.0) * x**2, 201, 95),
    "a kink": (lambda x: np.where(x > 0, 0.05, -2.0) * x, 237, 86),
}
ROUNDING = 1.03  # numbers of values may be larger by this factor where another machine rounds otherwise


class Counted:
    """A function that counts its values."""

    def __init__(self, function, least=0.0):
        self.function = function
        self.least = least
        self.number = 0

    def __call__(self, x):
        self.number += x.size
        return self.function(x - self.least)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_minima_are_found_in_few_values(name):
    """Roughly, and in fewer, where they are far above what is needed."""
    function, *most = FUNCTIONS[name]
    for needed, close, number in zip((np.inf, -30.0), (2 * SETTLED, 0.1), most, strict=True):
        counted = [Counted(function, least) for least in STARTS for _ in APART]
        settings = list(zip(counted, APART * len(STARTS), strict=True))
        found = [minimum(each, 0.0, apart, SETTLED, needed) for each, apart in settings]
        assert sum(each.number for each in counted) <= ROUNDING * number
        assert max(function(place - each.least) for each, (place, _) in zip(counted, found, strict=True)) < close
        if name == "parabola":
            np.testing.assert_allclose([value for _, value in found], 0.0, atol=1e-12)


def valleys(*places):
    """Log of a product of squares, each a narrow valley; the last one goes down to 0."""

    def function(x):
        away = np.multiply.outer(x, np.ones(len(places))) - places
        return 0.5 * np.log(away**2 + np.append(0.02 * np.arange(1, len(places)), 0.0) ** 2 + 1e-14).sum(-1)

    return function


def waves(x):
    return np.cos(9 * x) + 0.1 * (x - 0.4) ** 2


SEVERAL = {  # functions, log risk that is needed, how close the least value is, and the most values of a search for it
    "two basins": (lambda x: np.minimum(x**2, 2 * (x - 1.5) ** 2 - 0.1), np.inf, 1e-5, 106),
    "beyond the first grid": (lambda x: 0.3 * (x - 3) ** 2 + 0.1 * np.sin(5 * x), np.inf, 1e-5, 145),
    "waves": (waves, np.inf, 1e-5, 107),
    "a zero": (valleys(-0.61, 0.4), np.inf, 0.01, 129),
    "far above what is needed": (waves, -9.0, 0.1, 32),
}


@pytest.mark.parametrize("name", SEVERAL)
def test_the_least_of_several_valleys(name):
    function, needed, close, most = SEVERAL[name]
    counted = Counted(function)
    place, least = least_of_several(counted, 0.0, np.log(6.0), np.log(1.05), needed, 1e-5)
    dense = np.linspace(-6, 6, 120_001)
    values = function(dense)
    assert least == pytest.approx(values.min(), abs=close)
    assert function(np.array([place]))[0] == pytest.approx(values.min(), abs=close)
    assert counted.number <= ROUNDING * most
