"""Mean paths and the minima that they add: how close these are, and how many learning rates they take.

As in `test_minima`, a change that worsens one of the two fails here, also where it improves the other.
"""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.critical import oscillations
from sgdtheory.critical.oscillations import MeanPath, add_minima_of_mean
from sgdtheory.critical.rate_search import RateSearch
from sgdtheory.critical.tuned_risk import FINEST, STEEPEST
from tests.costs import MORE_ERROR, MORE_VALUES

LAST = st.LastIterate()
FLOOR = 1e-6  # Risks far below it are equal: of one direction the mean path is 0 at some learning rates.


def random_problem(rng, directions):
    eigenvalues = np.append(1.0, np.sort(10.0 ** rng.uniform(-3, 0, directions - 1))[::-1])
    return st.LeastSquares(eigenvalues, 10.0 ** rng.uniform(-2, 0, directions), 0.3)


def paths(method, steps, monkeypatch):
    """Number of learning rates of mean paths, and mean and largest log of the least risk over that of a dense path."""
    number = 0
    computed = oscillations.mean_risk

    def counted(algorithm, eigenvalue, signal, rate, n):
        nonlocal number
        number += rate.size
        return computed(algorithm, eigenvalue, signal, rate, n)

    monkeypatch.setattr(oscillations, "mean_risk", counted)
    rng = np.random.default_rng(0)
    excess = []
    for directions in (1, 2, 3, 12) * 2:
        problem = random_problem(rng, directions)
        algorithm = st.Algorithm(method, average=LAST)
        modes = problem.modes(1e-12)
        edge = rng.uniform(1.0, 2.0)
        _, risk = MeanPath(algorithm, modes, 1e3)(edge, steps)
        dense = edge * np.linspace(0, 1, 20_001)[1:] ** 2
        leading = np.argsort(modes.signal)[::-1][:8]
        values = computed(algorithm, modes.eigenvalue[leading], modes.signal[leading], dense, steps)
        excess.append(max(np.log((risk.min() + FLOOR) / (values.min() + FLOOR)), 0.0))
    return number, np.mean(excess), np.max(excess)


PATHS = {  # momentum and steps: learning rates, and mean and largest excess of the least risk
    (0.0, 3.0): (1129, 2.50e-09, 1.88e-08),
    (0.0, 10.0): (1248, 2.70e-10, 2.16e-09),
    (0.0, 40.0): (3154, 0.0, 0.0),
    (0.8, 3.0): (1201, 8.67e-07, 6.93e-06),
    (0.8, 10.0): (1530, 1.02e-07, 8.13e-07),
    (0.8, 40.0): (4554, 1.32e-08, 1.05e-07),
}


@pytest.mark.parametrize(("momentum", "steps"), PATHS)
def test_mean_paths_take_no_more_learning_rates_and_are_as_low(momentum, steps, monkeypatch):
    number, *excess = paths(st.HeavyBall(momentum) if momentum else st.SGD(), steps, monkeypatch)
    most, *known = PATHS[momentum, steps]
    assert number <= MORE_VALUES * most
    assert (np.array(excess) <= MORE_ERROR * np.array(known) + 1e-9).all()


def added(steps):
    """Number of risks that are computed for minima of mean paths, and mean and largest error of the least risk.

    The mean path is an oscillator's; noise grows with γ and falls with B, or the bias of directions without it falls.
    """
    rng = np.random.default_rng(0)
    number = 30
    turns, noise, other = (
        rng.uniform(0.5, 2.0, number),
        10.0 ** rng.uniform(-5, -0.5, number),
        rng.uniform(0, 1, number),
    )
    floor = 10.0 ** rng.uniform(-6, -1, number)

    def mean(share, k):
        return np.exp(-2 * other[k] * share) * np.cos(turns[k] * steps * np.sqrt(share)) ** 2

    def of(share, k):
        return mean(share, k) + noise[k] * share + floor[k] * (1 + np.exp(-9 * share))

    count = 0

    def risk(rate, pair, error):
        nonlocal count
        count += rate.size
        return of(rate, pair)

    share = np.union1d(np.linspace(0, 1, int(200 * steps) + 64)[1:] ** 2, np.geomspace(1e-5, 1, 64))
    search = RateSearch(risk, np.ones(number), np.full(number, steps), np.ones(number, bool), STEEPEST, FINEST)
    search.begin(np.full(number, 1e-3), np.ones(number), np.zeros(number, bool))
    search.cut(np.inf)
    before = count
    add_minima_of_mean(search, {k: (share, mean(share, k)) for k in range(number)}, np.inf)
    during = count - before
    search.refine(np.inf, 1e-9)
    found = search.answers(np.inf)
    dense = np.linspace(0, 1, 100_001)[1:] ** 2
    errors = np.array([np.log(found.risk[k] / of(dense, k).min()) for k in range(number)]).clip(0)
    return during, count - before - during, errors.mean(), errors.max()


ADDED = {  # steps: risks for minima of mean paths, and for their refinement; mean and largest error
    4.0: (75, 247, 0.0, 0.0),
    12.0: (173, 324, 1.14e-02, 3.15e-01),
    60.0: (242, 411, 1.50e-02, 3.15e-01),
}


@pytest.mark.parametrize("steps", ADDED)
def test_minima_of_mean_paths_cost_no_more_and_are_as_low(steps):
    *numbers, mean, largest = added(steps)
    most = np.array(ADDED[steps])
    assert (np.array(numbers) <= MORE_VALUES * most[:2]).all()
    assert (np.array([mean, largest]) <= MORE_ERROR * most[2:] + 1e-8).all()
