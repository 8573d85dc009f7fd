"""Searches over γ for families of random functions of its position: how far off they are, and how many risks they need.

As in `test_minima`, a change that worsens one of the two fails here, also where it improves the other.
"""

import numpy as np
import pytest

from sgdtheory.critical.rate_search import SETTLED, RateSearch
from sgdtheory.critical.tuned_risk import FINEST, STEEPEST
from tests.costs import MORE_ERROR, MORE_VALUES

NUMBER = 40  # functions of a family, searched side by side
NONE = 1e-10  # An error that is rounding.


def basins(rng, end):
    """Two basins of different widths; between them nothing is learnt."""
    place, width = rng.uniform(-6, end, (2, NUMBER)), 10.0 ** rng.uniform(-0.1, 0.5, (2, NUMBER))
    depth = rng.uniform(0.3, 1.0, (2, NUMBER))

    def of(x, pair):
        return 0.02 * x - (depth[:, pair] * np.exp(-((x - place[:, pair]) ** 2) / width[:, pair])).sum(0)

    return of


def waves(rng, end):
    """Slopes of 2 at most, and many basins."""
    often = rng.uniform(0.3, 3.0, (5, NUMBER))
    high = rng.dirichlet(np.ones(5), NUMBER).T * STEEPEST / often
    phase = rng.uniform(0, 2 * np.pi, (5, NUMBER))
    return lambda x, pair: (high[:, pair] * np.cos(often[:, pair] * x + phase[:, pair])).sum(0) + 0.1 * np.abs(x + 2)


def two_powers(rng, end):
    """Bias and variance are powers of γ."""
    fall, rise, place = *rng.uniform(0.3, 1.8, (2, NUMBER)), rng.uniform(-5, end + 1, NUMBER)
    return lambda x, pair: np.logaddexp(-fall[pair] * (x - place[pair]), rise[pair] * (x - place[pair]))


def dips(rng, end):
    """An amplitude that passes 0 next to the edge."""
    place, depth = end - 10.0 ** rng.uniform(-3, 0.5, NUMBER), 10.0 ** rng.uniform(-4, -1, NUMBER)
    return lambda x, pair: 0.5 * np.log((x - place[pair]) ** 2 + depth[pair] ** 2) - 0.1 * x


def walls(rng, end):
    """The risk falls up to a place from which on it rises like a wall."""
    place, fall = end - rng.uniform(0.1, 2.5, NUMBER), rng.uniform(0.1, 1.5, NUMBER)
    return lambda x, pair: -fall[pair] * x + 8.0 * np.maximum(x - place[pair], 0.0) ** 1.5


def searched(family, resonant, rough_rounds=0, goal=np.inf, window=False):
    """Numbers of rough and exact risks, and mean and largest error of the log of the least risk."""
    rng = np.random.default_rng(0)
    steps = np.full(NUMBER, 300.0)
    edge = np.arange(1.0, NUMBER + 1)
    end = np.log(300.0) if resonant else np.log(20.0)
    of = family(rng, end)
    numbers = np.zeros(2, dtype=int)

    def risk(rate, pair, error):
        numbers[int(error == 0)] += rate.size
        at = search.at(rate, pair)
        return np.exp(of(at, pair)) * (1 + 0.5 * error * np.sin(1e4 * at))

    search = RateSearch(risk, edge, steps, np.full(NUMBER, resonant), STEEPEST, FINEST, rough_rounds)
    dense = np.linspace(-7, end, 40_001)
    exact = np.array([of(dense, np.full(dense.size, k)) for k in range(NUMBER)])
    first, last = 1e-3 * edge, edge
    if window:
        pair = np.arange(NUMBER)
        first, last = (search.rate(dense[exact.argmin(1)] + side, pair) for side in (-1.0, 0.7))
    search.begin(first, last, np.full(NUMBER, window))
    least = exact.min(1)
    log_goal = float(np.median(least)) if goal < np.inf else np.inf
    search.cut(log_goal)
    search.refine(log_goal, SETTLED)
    found = search.answers(log_goal)
    at = search.at(found.rate, np.arange(NUMBER))
    near = least <= log_goal + 1.0
    value = of(at, np.arange(NUMBER))
    assert np.abs(np.log(found.risk) - value)[near].max() < 1e-8
    error = np.maximum(value - least, 0.0)[near]
    low, high = search.at(found.low, np.arange(NUMBER)), search.at(found.high, np.arange(NUMBER))
    assert (low <= at).all()
    assert (at <= high).all()
    return *numbers.tolist(), error.mean(), error.max(), (high - low).mean()


KINDS = {  # whether steps resonate, and what else is asked
    "resonant": (True, {}),
    "smooth": (False, {}),
    "rough first": (True, {"rough_rounds": 3}),
    "to a goal": (False, {"goal": 1.0}),
    "in a window": (True, {"window": True}),
}
COSTS = {  # numbers of rough and exact risks, mean and largest error, and the mean width of the window of low risks
    (basins, "resonant"): (1087, 284, 0.0, 1.69e-10, 11.03),
    (basins, "smooth"): (874, 302, 0.0, 0.0, 8.609),
    (basins, "rough first"): (1373, 1353, 1.44e-07, 3.85e-06, 11.03),
    (basins, "to a goal"): (874, 78, 1.85e-05, 3.06e-04, 10.96),
    (basins, "in a window"): (333, 210, 0.0, 5.60e-10, 3.135),
    (waves, "resonant"): (1029, 573, 0.0, 2.75e-10, 10.46),
    (waves, "smooth"): (823, 548, 0.0, 4.02e-10, 8.766),
    (waves, "rough first"): (1557, 1000, 1.44e-08, 1.99e-07, 10.46),
    (waves, "to a goal"): (788, 232, 5.02e-05, 6.22e-04, 9.227),
    (waves, "in a window"): (232, 237, 0.0, 0.0, 2.198),
    (two_powers, "resonant"): (836, 201, 1.16e-10, 4.11e-09, 2.871),
    (two_powers, "smooth"): (665, 199, 4.14e-10, 9.96e-09, 2.657),
    (two_powers, "rough first"): (1009, 1024, 2.30e-08, 4.17e-07, 2.871),
    (two_powers, "to a goal"): (662, 77, 3.15e-06, 5.31e-05, 2.729),
    (two_powers, "in a window"): (473, 182, 2.52e-10, 4.11e-09, 2.137),
    (dips, "resonant"): (761, 490, 8.76e-02, 3.11e00, 0.03952),
    (dips, "smooth"): (576, 503, 0.0, 0.0, 0.04177),
    (dips, "rough first"): (894, 351, 8.76e-02, 3.11e00, 0.03952),
    (dips, "to a goal"): (560, 347, 0.0, 0.0, 0.04101),
    (dips, "in a window"): (690, 470, 8.76e-02, 3.11e00, 0.04288),
    (walls, "resonant"): (793, 471, 0.0, 0.0, 1.922),
    (walls, "smooth"): (647, 563, 0.0, 0.0, 1.91),
    (walls, "rough first"): (957, 335, 0.0, 4.11e-10, 1.922),
    (walls, "to a goal"): (601, 294, 2.33e-03, 6.33e-02, 2.207),
    (walls, "in a window"): (698, 470, 0.0, 0.0, 1.957),
}


@pytest.mark.parametrize(("family", "kind"), COSTS, ids=lambda value: getattr(value, "__name__", value))
def test_searches_cost_no_more_and_are_as_close(family, kind):
    resonant, options = KINDS[kind]
    rough, exact, *errors, width = searched(family, resonant, **options)
    most_rough, most_exact, *known, window = COSTS[family, kind]
    assert rough <= MORE_VALUES * most_rough
    assert exact <= MORE_VALUES * most_exact
    assert (np.array(errors) <= MORE_ERROR * np.array(known) + NONE).all()
    assert width == pytest.approx(window, rel=0.01)
