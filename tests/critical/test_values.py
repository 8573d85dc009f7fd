"""How many risks and pairs of B and n the searches of linear methods need where the risk is a known formula."""

import numpy as np
import pytest

from sgdtheory.critical.batch_search import largest_batch, optimal_batch_size
from tests.critical.test_rate_search import searched
from tests.critical.test_searches import OPTIMA

ROUNDING = 1.03  # numbers may be larger by this factor where another machine rounds otherwise


def two_basins(position, pair):
    """The lower one far left, far right or next to the edge; of different widths."""
    left, right = np.array([(-6.0, 1.5), (-2.0, 3.0), (-7.3, 0.4), (-4.0, 4.55)])[pair].T
    depth = np.array([1.0, 0.97, 1.04, 0.99])[pair]
    return -np.exp(-((position - left) ** 2) / 2) - depth * np.exp(-((position - right) ** 2) / 1.3) + 0.02 * position


def kink(position, pair):
    return np.where(position < -3.1, 0.3, -1.7) * (-3.1 - position)


def wall(position, pair):
    """A slope up to a wall, beyond which the risk rises by orders of magnitude."""
    return -0.4 * position + np.logaddexp(0.0, 25 * (position - 1.3))


FUNCTIONS = {  # log risks, numbers of steps, whether they resonate, and the most points of the grid
    "two basins": (two_basins, [50, 200, 1000, 99], True, 159),
    "two smooth basins": (two_basins, [50, 200, 1000, 99], False, 142),
    "falling": (lambda position, pair: -0.5 * position, [40, 500], True, 43),
    "a kink": (kink, [200], True, 51),
    "a wall": (wall, [200], False, 32),
    "a parabola": (lambda position, pair: 0.1 * (position + 2) ** 2, [7], True, 23),
    "a flat risk": (lambda position, pair: 0.0 * position, [30], True, 34),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_search_over_learning_rates_needs_few_risks(name):
    function, steps, resonant, most = FUNCTIONS[name]
    search, position, value = searched(function, steps, resonant)
    pair = np.arange(len(steps))
    np.testing.assert_allclose(value, function(position, pair), atol=1e-9)
    assert search.pair.size <= ROUNDING * most


PAIRS = {  # most pairs for R_opt of 5,003 and 20,011.5 samples, and for B*
    "one by one": (50, 52, 99),
    "few steps": (66, 68, 76),
    "a hundred steps": (91, 108, 156),
    "even": (75, 79, 104),
    "even, many": (81, 130, 196),
    "many steps": (52, 61, 114),
    "alternating": (56, 61, 149),
    "oscillating": (51, 53, 129),
    "longer tails": (82, 101, 141),
}


@pytest.mark.parametrize("name", PAIRS)
def test_a_search_for_batch_sizes_needs_few_pairs(name):
    numbers = []
    for samples in (5003.0, 20_011.5):
        known = OPTIMA[name].remembered()
        best = optimal_batch_size(known, samples)
        numbers.append(known.goals.size)
    largest_batch(known, 1.2 * samples * (1 + 1e-12), best.risk, best, all_data=False, first=2.0)
    numbers.append(known.goals.size)
    assert (np.array(numbers) <= ROUNDING * np.array(PAIRS[name])).all()
