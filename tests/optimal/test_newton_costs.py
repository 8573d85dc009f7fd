"""Newton's searches on random functions: how far off they are, and how many values they need."""

import numpy as np
import pytest

from sgdtheory.optimal.newton import Searches
from tests.costs import MORE_ERROR, MORE_VALUES
from tests.optimal.counted import Counted

NONE = 1e-12  # An error that is rounding.


def quadratics(rng, size):
    """Curvatures over many decades."""
    way, _ = np.linalg.qr(rng.normal(size=(size, size)))
    matrix = way @ np.diag(10.0 ** rng.uniform(-6, 1, size)) @ way.T
    centre = rng.normal(size=size)
    return lambda x: (np.einsum("si,ij,sj->s", x - centre, matrix, x - centre) / 2, (x - centre) @ matrix)


def quartics(rng, size):
    """Curvatures fall towards the minimum, which several variables share."""
    matrix, centre = rng.normal(size=(size, size)), rng.normal(size=size)

    def function(x):
        along = (x - centre) @ matrix
        return (along**2).sum(1) / 20 + (along**4).sum(1) / 20, (along / 10 + along**3 / 5) @ matrix.T

    return function


def bent_valleys(rng, size):
    """Rosenbrock's, of several variables: Hessians change on the way, and are indefinite in places."""
    steep = 10.0 ** rng.uniform(0, 1.5)

    def function(x):
        off = x[:, 1:] - x[:, :-1] ** 2
        slope = np.zeros_like(x)
        slope[:, 1:] += 2 * steep * off
        slope[:, :-1] += -4 * steep * off * x[:, :-1] - 2 * (1 - x[:, :-1])
        return steep * (off**2).sum(1) + ((1 - x[:, :-1]) ** 2).sum(1), slope

    return function


def saddles(rng, size):
    """Two minima in each variable, between which the curvature is negative."""
    scale = 10.0 ** rng.uniform(-1, 1, size)
    return lambda x: ((scale * (x**2 - 1) ** 2).sum(1) / 4, scale * (x**3 - x))


def newton(family, low, high):
    """Number of rows, and mean and largest of what searches from three starts leave, over what ten times more would."""
    rng = np.random.default_rng(0)
    number, left = 0, []
    for size in (2, 3, 5, 8) * 6:
        function = family(rng, size)
        counted = Counted(function, low, high)
        begin = rng.uniform(max(low, -2), min(high, 2), (3, size))
        searches = Searches(counted, begin)
        found = searches.ended(1e-6).value.copy()
        number += counted.number
        left += (found - searches.ended(1e-15).value).tolist()
    return number, np.mean(left), np.max(left)


NEWTON = {  # families within bounds: rows, mean and largest of what is left
    (quadratics, -9.0, 9.0): (549, 8.42e-09, 5.14e-07),
    (quadratics, -0.5, 0.3): (691, 1.23e-09, 2.49e-08),
    (quartics, -9.0, 9.0): (1405, 3.75e-06, 4.28e-05),
    (quartics, -0.5, 0.3): (861, 1.71e-07, 2.69e-06),
    (bent_valleys, -9.0, 9.0): (2817, 2.12e-07, 1.33e-06),
    (bent_valleys, -0.5, 0.7): (1518, 1.56e-07, 9.99e-07),
    (saddles, -9.0, 9.0): (1311, 4.00e-07, 9.47e-06),
}


@pytest.mark.parametrize(("family", "low", "high"), NEWTON, ids=lambda value: getattr(value, "__name__", None))
def test_newtons_method_costs_no_more_and_is_as_close(family, low, high):
    number, *left = newton(family, low, high)
    most, *known = NEWTON[family, low, high]
    assert number <= MORE_VALUES * most
    assert (np.array(left) <= MORE_ERROR * np.array(known) + NONE).all()
