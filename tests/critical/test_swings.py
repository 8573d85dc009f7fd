"""Minima over γ that the mean path makes: where they are looked for, and that the least one is found."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.critical.risk_against_rate import RiskAgainstRate
from sgdtheory.critical.swings import Swings, _halved
from sgdtheory.critical.tuned_risk import TunedRisk


def test_the_least_of_many_swings():
    """Bias cos²(nω(γ)) as of an oscillator, on variance that grows with γ: the minimum is one of very many."""
    n = 60.0

    def mean(rate, steps):
        return np.exp(-3 * rate) * np.cos(steps * 0.8 * np.sqrt(rate)) ** 2

    def parts(batch, rate, steps, tolerance):
        return np.array([mean(rate, steps), 0.02 + 0.1 * rate / batch + 0.05 * np.exp(-20 * rate)])

    def risk(batch, rate, steps, tolerance):
        return parts(batch, rate, steps, tolerance).sum(0)

    batch, lasting = np.array([1.0, 3.0, 1.0, 30.0]), np.array([True, True, False, True])
    curve = RiskAgainstRate(
        risk, np.ones(4), batch, np.full(4, n), 0.0, Swings(parts, mean, lambda least: lasting, lasting)
    )
    place, value = curve.minima(np.full(4, 1e-4))
    rates = np.linspace(1e-4, 1, 1_000_001)
    for k in range(4):
        risks = risk(batch[k], rates, n, 0.0)
        if lasting[k]:
            assert np.exp(value[k]) == pytest.approx(risks.min(), rel=1e-6)
            assert curve.share(place)[k] == pytest.approx(rates[risks.argmin()], rel=1e-3)
        else:
            assert np.exp(value[k]) < 1.5 * risks.min()


@pytest.mark.parametrize(("n", "best"), [(60.0, 0.0), (600.0, 0.0), (600.0, 1.0)])
def test_where_swings_are_looked_into(n, best):
    """Three places about each of a few minima, those within twice the least: the middle one is below its neighbours."""
    noise = 0.05

    def mean(rate, steps):
        return np.cos(steps * 0.8 * np.sqrt(rate)) ** 2

    def variance(rate):
        return noise * (1 + 10 * np.abs(rate - best))

    given = np.array([1.0]), np.array([1.0]), np.array([n])
    curve = RiskAgainstRate(None, *given, 0.0, Swings(None, mean, None, np.array([True])))
    search = curve._search_of_swings(0, curve.share(np.array([-7.0]))[0])
    place = np.linspace(-8, curve.end[0], 60)
    rate = curve.share(place)
    found = np.sort(curve.share(search.places(place, np.log(mean(rate, n) + variance(rate)))))
    left, middle, right = (mean(each, n) + variance(each) for each in found.reshape(-1, 3).T)
    assert (middle <= np.minimum(left, right)).all()
    assert middle.max() < 2 * middle.min()
    every = (np.pi * (np.arange(400) + 0.5) / (0.8 * n)) ** 2  # where the cosine is 0
    every = every[(every > rate[0]) & (every < 1)]
    every = every[np.argsort(variance(every))]
    within = every[variance(every) < 2 * variance(every[0])]
    assert 2 < middle.size == min(within.size, 6)
    np.testing.assert_allclose(found.reshape(-1, 3)[:, 1], np.sort(within[: middle.size]), rtol=0.02)


def test_swings_beyond_the_edge_are_not_looked_into():
    """The mean path is least at γ = 1.3 edges: on the way to the edge it falls, without a minimum."""

    def mean(rate, steps):
        assert (rate <= 1).all()
        return (rate - 1.3) ** 2

    given = np.array([1.0]), np.array([1.0]), np.array([60.0])
    curve = RiskAgainstRate(None, *given, 0.0, Swings(None, mean, None, np.array([True])))
    place = np.linspace(-8, curve.end[0], 60)
    search = curve._search_of_swings(0, 1e-3)
    assert search.places(place, np.log(mean(curve.share(place), 60.0) + 0.1)).size == 0


def test_where_the_bias_swings_no_risk_nearby_is_less_than_most_of_the_variance():
    """Four fifths of it, 1e-300 at least."""

    def parts(batch, rate, steps, tolerance):
        return np.array([0.3 + 0 * rate, np.array([0.5, 0.5, 0.0])])

    given = np.ones(3), np.ones(3), np.full(3, 60.0)
    curve = RiskAgainstRate(None, *given, 0.0, Swings(parts, None, None, np.ones(3, dtype=bool)))
    value, floor = curve._scanned(np.full(3, -2.0), np.arange(3))
    np.testing.assert_allclose(value, np.log([0.8, 0.8, 0.3]), rtol=1e-12)
    np.testing.assert_allclose(floor, np.log([0.4, 0.4, 1e-300]), rtol=1e-12)


def oscillator(n=60.0, first=0.02):
    """A search where the bias is cos² of 0.8 n √γ, 60 places up to the edge, γ there and the risk with some noise."""
    given = np.array([1.0]), np.array([1.0]), np.array([n])
    mean = lambda rate, steps: np.cos(steps * 0.8 * np.sqrt(rate)) ** 2  # noqa: E731
    curve = RiskAgainstRate(None, *given, 0.0, Swings(None, mean, None, np.array([True])))
    place = np.linspace(-4, curve.end[0], 60)
    return curve, curve._search_of_swings(0, first), place, lambda rate: mean(rate, n) + 0.05 + 0.1 * rate


def test_the_places_of_a_minimum_are_those_of_the_zero_of_the_bias():
    """Three of them, a sixteenth of two of the first spacings apart."""
    curve, search, place, risk = oscillator()
    three = np.sort(curve.share(search.places(place, np.log(risk(curve.share(place)))))).reshape(-1, 3)
    zeros = (np.pi * (np.arange(20) + 0.5) / (0.8 * 60)) ** 2
    np.testing.assert_allclose(three[:, 1], zeros[1:][: len(three)], rtol=3e-4)
    apart = np.diff(three)
    np.testing.assert_allclose(apart[:, 0], apart[:, 1], rtol=1e-6)
    spacing = 2 * np.sqrt(three[:, 1]) / (8 * 60)
    assert (apart[:, 0] < spacing / 7).all()
    assert (apart[:, 0] > spacing / 200).all()


def test_minima_that_are_known_are_not_looked_into_again():
    curve, search, place, risk = oscillator()
    first = search.places(place, np.log(risk(curve.share(place))))
    search._promised = 0.0
    both = np.union1d(place, first)
    again = search.places(both, np.log(risk(curve.share(both))))
    known = np.sort(curve.share(first)).reshape(-1, 3)[:, 1]
    for new in curve.share(again):
        assert (np.abs(new / known - 1) > 0.02).all()


@pytest.mark.parametrize(("least", "on"), [(1.0, False), (1.009, False), (0.991, False), (1.011, True), (0.989, True)])
def test_it_goes_on_until_the_least_is_what_was_expected(least, on):
    curve, search, place, risk = oscillator()
    value = np.log(risk(curve.share(place)))
    search.places(place, value)
    search._promised = np.exp(value.min()) / least
    search._within = 3.0
    assert (search.places(place, value).size > 0) == on


def test_wide_intervals_beside_the_least_place_are_halved():
    place = np.array([0.0, 2.0, 2.4, 4.0, 4.5, 9.0])
    wanted = {0: [1.0], 1: [1.0], 2: [3.2], 3: [3.2], 4: [6.75], 5: [6.75]}
    for k, middles in wanted.items():
        np.testing.assert_allclose(_halved(place, k), middles)
    np.testing.assert_allclose(_halved(np.array([0.0, 1.0, 3.0]), 1), [0.5, 2.0])


def test_every_round_knows_more_of_what_is_smooth():
    """Much noise, between two places of the scan, makes the first minima that were expected high ones."""
    n = 60.0

    def mean(rate, steps):
        return np.cos(steps * 0.8 * np.sqrt(rate)) ** 2

    def risk(rate):
        return mean(rate, n) + 0.05 + 0.1 * rate + 10.0 * ((rate > 0.022) & (rate < 0.29))

    given = np.array([1.0]), np.array([1.0]), np.array([n])
    curve = RiskAgainstRate(None, *given, 0.0, Swings(None, mean, None, np.array([True])))
    search = curve._search_of_swings(0, 0.03)
    place = curve.place(np.array([0.02, 0.3, 1.0]))
    least = []
    for _ in range(4):
        least.append(risk(curve.share(place)).min())
        place = np.union1d(place, search.places(place, np.log(risk(curve.share(place)))))
    best = 0.05 + 0.1 * (np.pi * 8.5 / (0.8 * n)) ** 2  # the first zero of the cosine above 0.29
    assert least[0] == least[1] > 2 * best
    assert least[-1] == pytest.approx(best, rel=1e-2)


# ------------------------------------------------------------------ of real problems, against dense scans

LAST = st.LastIterate()
UNEVEN = st.LeastSquares([1.0, 0.31, 0.04], [0.2, 0.5, 1.0], 1e-5)
THREE = st.LeastSquares([1.0, 0.2, 0.01], [1.0, 0.1, 0.3], 0.1)
FOUR = st.LeastSquares([1.0, 0.0616, 0.0143, 0.0097], [0.0724, 0.095, 0.8973, 0.3559], 7.13e-5)
FIVE = st.LeastSquares([1.0, 0.8134, 0.1459, 0.0921, 0.0093], [0.2468, 0.0453, 0.0224, 0.2237, 0.0532], 9.54e-5)
TWO = st.LeastSquares([1.0, 0.0246], [0.3137, 0.0149], 3.59e-4)


def least_of_a_scan(problem, algorithm, batch, steps):
    """Of 20,000 rates up to the edge, evenly in √γ, and 400 about each of the four least."""
    setting = {"batch_size": batch, "num_samples": batch * steps}
    edge = float(st.max_stable_learning_rate(problem, batch_size=batch, algorithm=algorithm))
    rates = edge * (np.arange(1, 20_001) / 20_001) ** 2

    def risks(some):
        return st.excess_risk(problem, **setting, learning_rate=some, algorithm=algorithm).total

    found = risks(rates)
    j = 1 + np.flatnonzero((found[1:-1] <= found[:-2]) & (found[1:-1] <= found[2:]))
    j = j[np.argsort(found[j])[:4]]
    return min(risks(np.linspace(rates[k - 1], rates[k + 1], 400)).min() for k in j)


@pytest.mark.parametrize(
    ("problem", "momentum", "batch", "steps"),
    [
        (THREE, 0.9, 7_407_407, 135),  # β^n is 7e-7, and the least risk 3e-8 of the initial one
        (THREE, 0.9, 6_250_000, 160),
        (THREE, 0.9, 5_000_000, 200),
        (FOUR, 0.9, 12_200, 54),  # far above the places of a first scan
        (FIVE, 0.99, 506_000, 45),
        (TWO, 0.99, 46_500_000, 426),  # one of 270 turns
    ],
)
def test_the_least_risk_of_momentum_that_swings(problem, momentum, batch, steps):
    algorithm = st.Algorithm(st.HeavyBall(momentum), average=LAST)
    found = st.optimal_learning_rate(problem, batch_size=batch, num_samples=batch * steps, algorithm=algorithm)
    assert found.risk == pytest.approx(least_of_a_scan(problem, algorithm, batch, steps), rel=2e-4)


@pytest.mark.parametrize("steps", [2, 3, 4, 5, 9])
@pytest.mark.parametrize("schedule", [st.Constant(), st.Cosine(), st.Stages([0, 0.5], [1.0, 0.2])], ids=str)
def test_the_least_risk_of_a_few_steps(steps, schedule):
    """Three steps have no place above half the edge that would support what is smooth."""
    algorithm = st.Algorithm(schedule=schedule, average=LAST)
    setting = {"batch_size": 3e4, "num_samples": 3e4 * steps, "algorithm": algorithm}
    found = st.optimal_learning_rate(UNEVEN, **setting)
    edge = TunedRisk(UNEVEN, algorithm).edge(np.array([3e4]), np.array([float(steps)]))[0]
    risks = st.excess_risk(UNEVEN, **setting, learning_rate=edge * np.arange(1, 8001) / 8000).total
    assert found.risk <= np.nanmin(risks) * (1 + 1e-6)
