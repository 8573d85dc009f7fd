"""The search over γ where the risk is a formula of the position of γ, and of momentum, against dense scans."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.critical.oscillations import add_minima_of_mean
from sgdtheory.critical.rate_search import FINE_GRID, MOST_MINIMA, RateSearch
from sgdtheory.critical.tuned_risk import FINEST, STEEPEST, TunedRisk
from tests.marks import slow

LAST = st.LastIterate()


def searched(log_risk, steps, resonant=True, means=None):
    """Return position and log Δ of the least risks; log Δ of pair k is `log_risk(position, k)`, its edge is k + 1."""
    steps = np.array(steps, dtype=float)
    edge = np.arange(1.0, steps.size + 1)

    def risk(rate, pair, error):
        return np.exp(log_risk(search.at(rate, pair), pair))

    search = RateSearch(risk, edge, steps, np.full(steps.size, resonant), STEEPEST, FINEST)
    search.begin(1e-4 * edge, edge, np.zeros(steps.size, dtype=bool))
    search.cut(np.inf)
    add_minima_of_mean(search, means or {}, np.inf)
    search.refine(np.inf, 1e-9)
    found = search.answers(np.inf)
    return search, search.at(found.rate, np.arange(steps.size)), np.log(found.risk)


def test_positions_and_learning_rates_belong_together():
    """Far below the edge the position is log(γ/edge), next to it −log(1 − γ/edge)."""
    search, *_ = searched(lambda position, pair: 0 * position, [100, 10_000])
    pair = np.arange(2)
    rate = np.array([0.3, 2 * 0.999])
    np.testing.assert_allclose(search.rate(search.at(rate, pair), pair), rate, rtol=1e-12)
    np.testing.assert_allclose(search.at(np.array([1e-9, 2e-7]), pair), np.log([1e-9, 1e-7]), atol=0.02)
    assert search.at(np.array([2 * 0.99]), np.array([1]))[0] == pytest.approx(np.log(100), abs=0.03)
    np.testing.assert_allclose(search.rate(search.end, pair), [1.0, 2.0], rtol=1e-12)


def test_a_narrow_basin_between_the_points_of_the_first_grid():
    """The basin is as narrow as slopes of 2 allow."""
    middle = np.log(300) + FINE_GRID[-5] - 0.03

    def basin(position, pair):
        return 0.1 * (position - 1) ** 2 / 9 - 0.35 * np.exp(-((position - middle) ** 2) / (2 * 0.1**2))

    _, _, value = searched(basin, [300])
    dense = np.linspace(-3, np.log(300), 400_001)
    assert value[0] == pytest.approx(basin(dense, 0).min(), abs=1e-8)


@pytest.mark.parametrize("resonant", [True, False])
def test_a_risk_that_falls_up_to_the_edge_is_least_there(resonant):
    search, position, value = searched(lambda position, pair: -0.5 * position, [40, 500], resonant)
    np.testing.assert_allclose(position, search.end, atol=1e-6)
    np.testing.assert_allclose(value, -0.5 * search.end, atol=1e-7)


def test_a_dip_next_to_the_edge():
    """log(x² + ε²) with ε = 0.002 of a position, its least value a millionth of a position from the edge."""

    def dip(position, pair):
        return np.log((position - np.log(40) + 1e-5) ** 2 + 4e-6)

    _, _, value = searched(dip, [40])
    assert value[0] == pytest.approx(np.log(4e-6), abs=1e-8)


@pytest.mark.parametrize("level", [2.0, -5.0])
def test_a_kink(level):
    """No quartic fits it."""
    _, position, value = searched(
        lambda position, pair: level + np.where(position < -3.1, 0.3, -1.7) * (-3.1 - position), [200]
    )
    assert value[0] == pytest.approx(level, abs=1e-5)
    assert position[0] == pytest.approx(-3.1, abs=1e-4)


def test_minima_of_a_grid_that_may_be_the_least():
    """By pair: local minima beside which slopes of 2, or 4 at most, may lead below the least value of their pair."""
    rng = np.random.default_rng(0)
    search = RateSearch(None, np.ones(40), np.full(40, 100.0), np.ones(40, bool), STEEPEST, FINEST)
    sizes = rng.integers(3, 30, 40)
    search.pair = np.repeat(np.arange(40), sizes)
    search.position = np.concatenate([np.cumsum(rng.uniform(0.05, 0.8, size)) for size in sizes])
    search.value = np.round(rng.normal(size=sizes.sum()) * np.repeat(rng.uniform(0.2, 3.0, 40), sizes), 1)
    found = set(search.minima().tolist())
    counts = np.zeros(3, dtype=int)
    for pair in range(40):
        mine = np.flatnonzero(search.pair == pair)
        value, position = search.value[mine], search.position[mine]
        least, narrow, wide = value.min(), [], []
        for k in range(1, mine.size):
            beside = [j for j in (k - 1, k + 1) if j < mine.size]
            if all(value[k] <= value[j] for j in beside):
                falls = np.outer([abs(position[k] - position[j]) for j in beside], [1.0, 2.0])
                between = np.array([(value[k] + value[j]) / 2 for j in beside])[:, None] - falls
                may, might = between.min(0) < least
                narrow += [mine[k]] if may or value[k] == least else []
                wide += [mine[k]] if might or value[k] == least else []
        chosen = found & set(mine.tolist())
        assert chosen <= set(wide)
        assert len(chosen) <= MOST_MINIMA
        assert set(narrow) <= chosen or len(chosen) == MOST_MINIMA
        counts += [len(narrow), len(chosen), mine.size]
    assert 40 < counts[0] <= counts[1] < counts[2] / 3


def test_the_least_of_many_oscillations():
    """A bias of cos²(nω(γ)), as of an oscillator, on variance that grows with γ: the minimum is one of very many."""
    n, batch = 60.0, np.array([1.0, 3.0, 30.0])

    def mean(rate):
        return np.exp(-3 * rate) * np.cos(n * 0.8 * np.sqrt(rate)) ** 2

    def risk(rate, pair):
        return mean(rate) + 0.02 + 0.1 * rate / batch[pair] + 0.05 * np.exp(-20 * rate)

    def log_risk(position, pair):
        share = (1 + 1 / n) / (1 + np.exp(-position))
        return np.log(risk(share, pair))

    rates = np.append(np.linspace(0, 1, 4000)[1:] ** 2, np.geomspace(1e-5, 1, 64))
    rates.sort()
    # A mean path of its own for each pair, whose edge is 1, 2 and 3.
    means = {k: ((k + 1) * rates, mean(rates)) for k in range(3)}
    _, _, value = searched(log_risk, np.full(3, n), means=means)
    dense = np.linspace(1e-4, 1, 1_000_001)
    for k in range(3):
        assert np.exp(value[k]) == pytest.approx(risk(dense, k).min(), rel=1e-6)


# ------------------------------------------------------------------ of real problems

UNEVEN = st.LeastSquares([1.0, 0.31, 0.04], [0.2, 0.5, 1.0], 1e-5)
THREE = st.LeastSquares([1.0, 0.2, 0.01], [1.0, 0.1, 0.3], 0.1)
FOUR = st.LeastSquares([1.0, 0.0616, 0.0143, 0.0097], [0.0724, 0.095, 0.8973, 0.3559], 7.13e-5)
FIVE = st.LeastSquares([1.0, 0.8134, 0.1459, 0.0921, 0.0093], [0.2468, 0.0453, 0.0224, 0.2237, 0.0532], 9.54e-5)
TWO = st.LeastSquares([1.0, 0.0246], [0.3137, 0.0149], 3.59e-4)


def least_of_a_scan(problem, algorithm, batch, steps):
    """The least risk of 20,000 rates up to the edge, evenly in √γ, and 400 about each of the four least."""
    setting = {"batch_size": batch, "num_samples": batch * steps}
    edge = float(st.max_stable_learning_rate(problem, batch_size=batch, algorithm=algorithm))
    rates = edge * (np.arange(1, 20_001) / 20_001) ** 2

    def risks(rates):
        return st.excess_risk(problem, **setting, learning_rate=rates, algorithm=algorithm).total

    found = risks(rates)
    j = 1 + np.flatnonzero((found[1:-1] <= found[:-2]) & (found[1:-1] <= found[2:]))
    j = j[np.argsort(found[j])[:4]]
    return min(risks(np.linspace(rates[k - 1], rates[k + 1], 400)).min() for k in j)


@pytest.mark.parametrize(
    ("problem", "momentum", "batch", "steps"),
    [
        (THREE, 0.9, 7_407_407, 135),  # β^n is 7e-7, and the least risk 3e-8 of the initial one
        slow(THREE, 0.9, 6_250_000, 160),
        slow(THREE, 0.9, 5_000_000, 200),
        slow(FOUR, 0.9, 12_200, 54),  # far above the points of a first grid
        slow(FIVE, 0.99, 506_000, 45),
        slow(TWO, 0.99, 46_500_000, 426),  # one of 270 turns
    ],
)
def test_the_least_risk_of_momentum_that_oscillates(problem, momentum, batch, steps):
    algorithm = st.Algorithm(st.HeavyBall(momentum), average=LAST)
    found = st.optimal_learning_rate(problem, batch_size=batch, num_samples=batch * steps, algorithm=algorithm)
    assert found.risk == pytest.approx(least_of_a_scan(problem, algorithm, batch, steps), rel=2e-4)


@pytest.mark.parametrize(
    ("steps", "schedule"),
    [
        slow(steps, schedule) if steps != 3 else (steps, schedule)
        for steps in (2, 3, 4, 5, 9)
        for schedule in (st.Constant(), st.Cosine(), st.Stages([0, 0.5], [1.0, 0.2]))
    ],
    ids=str,
)
def test_the_least_risk_of_a_few_steps(steps, schedule):
    """Three steps have no grid point above half the edge that would support what is smooth."""
    algorithm = st.Algorithm(schedule=schedule, average=LAST)
    setting = {"batch_size": 3e4, "num_samples": 3e4 * steps, "algorithm": algorithm}
    found = st.optimal_learning_rate(UNEVEN, **setting)
    edge = TunedRisk(UNEVEN, algorithm).edge(np.array([3e4]), np.array([float(steps)]))[0]
    risks = st.excess_risk(UNEVEN, **setting, learning_rate=edge * np.arange(1, 8001) / 8000).total
    assert found.risk <= np.nanmin(risks) * (1 + 1e-6)
