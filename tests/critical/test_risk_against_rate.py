"""The search over γ where the risk is a formula of the place on its line, against dense scans of that formula."""

import numpy as np
import pytest

from sgdtheory.critical.risk_against_rate import (
    FINE_SPACING,
    SPACING,
    RiskAgainstRate,
)

ALL = slice(None)


def place_of(share, steps):
    return np.log(share / (1 - share + 1 / steps))


def line(log_risk, batch, steps, resonant=4.0):
    """log Δ is `log_risk(place, k)` for setting k, which its n tells; the edges are 1, 2 and so on."""
    edge, batch, steps = np.arange(1.0, len(steps) + 1), np.array(batch, float), np.array(steps, float)

    def risk(b, rate, n, tolerance):
        found = np.empty(rate.shape)
        for index in np.ndindex(rate.shape):
            k = int(np.flatnonzero(steps == n[index])[0])
            assert b[index] == batch[k]
            found[index] = np.exp(log_risk(place_of(rate[index] / edge[k], n[index]), k))
        return found

    return RiskAgainstRate(risk, edge, batch, steps, resonant)


def flat_line(batch, steps):
    """The same risk everywhere."""
    return line(lambda place, k: 0 * place, batch, steps)


def assert_least(found, function, k, low, high, close=1e-3):
    """Place and log Δ of setting k are those of a dense scan."""
    dense = np.linspace(low, high, 400_001)
    values = function(dense, k)
    assert found[1][k] == pytest.approx(values.min(), abs=1e-8)
    assert found[0][k] == pytest.approx(dense[values.argmin()], abs=close)


def test_places_and_shares_belong_together():
    """Far below the edge the place is log(γ/edge), next to it −log(1 − γ/edge); beyond it γ comes back."""
    curve = flat_line([1, 1], [100, 10_000])
    share = np.array([0.3, 0.999])
    np.testing.assert_allclose(curve.share(curve.place(share), ALL), share, rtol=1e-12)
    np.testing.assert_allclose(curve.place(np.array([1e-9, 1e-7])), np.log([1e-9, 1e-7]), atol=0.02)
    assert curve.place(np.array([0.99]), np.array([1]))[0] == pytest.approx(np.log(100), abs=0.03)
    np.testing.assert_allclose(curve.share(curve.end, ALL), 1.0, rtol=1e-12)
    beyond = curve.end + np.array([0.7, 2.0])
    np.testing.assert_allclose(curve.share(beyond, ALL), curve.share(2 * curve.end - beyond, ALL), rtol=1e-12)
    few = flat_line([1, 1, 1], [1, 2, 3])
    np.testing.assert_allclose(few.end, np.log([2, 2, 3]))
    np.testing.assert_allclose(few.share(np.zeros(3), ALL), np.array([1.5, 1.5, 4 / 3]) / 2)


def two_basins(place, k):
    """The lower one far left, far right or next to the edge; of different widths."""
    left, right = ((-6.0, 1.5), (-2.0, 3.0), (-7.3, 0.4), (-4.0, 4.55))[k]
    depth = (1.0, 0.97, 1.04, 0.99)[k]
    return -np.exp(-((place - left) ** 2) / 2) - depth * np.exp(-((place - right) ** 2) / 1.3) + 0.02 * place


@pytest.mark.parametrize("batch", [1e-3, 1e6], ids=["smooth", "resonant"])
def test_the_lower_of_two_basins(batch):
    steps = [50, 200, 1000, 99]
    curve = line(two_basins, [batch] * 4, steps)
    found = curve.minima(1e-5 * curve.edge)
    for k in range(4):
        assert_least(found, two_basins, k, -12, np.log(steps[k]))


def test_a_narrow_basin_between_the_places_of_a_scan():
    """Where steps resonate: as narrow as slopes of 2 allow."""
    middle = np.log(300) - 4.1 * FINE_SPACING

    def kinked(place, k):
        return 0.1 * (place - 1) ** 2 / 9 - 0.35 * np.exp(-((place - middle) ** 2) / (2 * 0.1**2))

    curve = line(kinked, [1e6], [300])
    assert_least(curve.minima(1e-5 * curve.edge), kinked, 0, -3, np.log(300))


def test_a_risk_that_falls_up_to_the_edge_is_least_there():
    curve = line(lambda place, k: -0.5 * place, [1e6, 1e-3], [40, 500])
    place, value = curve.minima(1e-4 * curve.edge)
    np.testing.assert_allclose(place, np.log([40, 500]), atol=1e-6)
    np.testing.assert_allclose(value, -0.5 * np.log([40, 500]), atol=1e-7)


@pytest.mark.parametrize("level", [2.0, -5.0])
def test_a_kink_is_found_by_golden_sections(level):
    """No quartic fits it."""
    curve = line(lambda place, k: level + np.where(place < -3.1, 0.3, -1.7) * (-3.1 - place), [1.0], [200])
    place, value = curve.minima(1e-5 * curve.edge)
    assert value[0] == pytest.approx(level, abs=1e-7)
    assert place[0] == pytest.approx(-3.1, abs=1e-6)


def test_no_quartic_is_taken_whose_minimum_is_higher_than_what_was_seen():
    """A dip at a place of the scan, too narrow for the quartics: they find the basin beside it."""
    first, _ = flat_line([1.0], [200])._first_places(np.array([1e-4]))
    seen = first[3]

    def basin_and_dip(place, k):
        return 0.3 * (place - seen - 0.35) ** 2 - 0.5 * np.exp(-(((place - seen) / 0.01) ** 2))

    curve = line(basin_and_dip, [1.0], [200])
    place, value = curve.minima(np.array([1e-4]))
    assert place[0] == pytest.approx(seen, abs=1e-3)
    assert value[0] <= basin_and_dip(seen, 0) + 1e-9


def test_a_kink_next_to_the_least_rate_of_interest():
    """Its bracket begins with the first place of its setting: those of the setting before stand before that."""
    least = np.array([1e-4, 1e-4])
    place, setting = flat_line([1.0, 1.0], [100, 200])._first_places(1e-4 * np.arange(1.0, 3.0))
    kink = place[setting == 1][1] + 0.1
    curve = line(lambda place, k: np.where(place < kink, 0.3, 1.7) * np.abs(place - kink), [1.0, 1.0], [100, 200])
    found, value = curve.minima(least * curve.edge)
    assert value[1] == pytest.approx(0, abs=1e-7)
    assert found[1] == pytest.approx(kink, abs=1e-6)


def test_nothing_is_lower_than_what_is_found_where_slopes_are_as_steep_as_told():
    """Sums of waves with slopes of 2 at most, and many basins, against dense lists of their values."""
    number, steps, rng = 100, 1000.0, np.random.default_rng(0)
    often = rng.uniform(0.3, 4.0, (number, 5))
    high = rng.dirichlet(np.ones(5), number) * 2 / often
    phase = rng.uniform(0, 2 * np.pi, (number, 5))

    def log_risk(place, k):
        return (high[k] * np.cos(often[k] * place[..., None] + phase[k])).sum(-1)

    def risk(batch, rate, n, tolerance):
        k = batch.astype(int) - 1
        return np.exp(log_risk(place_of(np.minimum(rate / edge[k], 1.0), n), k))

    edge = np.arange(1.0, number + 1)
    curve = RiskAgainstRate(risk, edge, np.arange(1.0, number + 1), np.full(number, steps), resonant=1e9)
    place, value = curve.minima(1e-4 * edge)
    np.testing.assert_allclose(value, log_risk(np.minimum(place, 2 * curve.end - place), np.arange(number)), atol=1e-9)
    dense = np.linspace(np.log(1e-4), curve.end[0], 20_001)
    for k in range(number):
        assert value[k] <= log_risk(dense, np.full(dense.size, k)).min() + 1e-8


def test_the_edge_is_computed_exactly_where_it_seems_the_least():
    """With an error allowed a risk may be far off there."""

    def risk(batch, rate, steps, tolerance):
        place = place_of(rate, steps)
        found = np.exp(-np.exp(-((place + 3) ** 2)) - 0.8 * np.exp(-((place - np.log(500)) ** 2)))
        return np.where((rate > 1 - 1e-9) & (tolerance > 1e-6), 1e-3, 1.0) * found

    curve = RiskAgainstRate(risk, np.ones(1), np.ones(1), np.array([500.0]))
    place, value = curve.minima(np.array([1e-4]))
    assert place[0] == pytest.approx(-3, abs=1e-3)
    assert value[0] == pytest.approx(-1, abs=1e-7)


@pytest.mark.parametrize("start", [-6.0, -3.3, -3.0, -2.1, 0.5])
def test_a_minimum_near_a_place(start):
    """A basin that a quartic does not fit at once; from far off it is walked to."""

    def basin(place, k):
        return 0.3 * np.sqrt(1 + (place + 3) ** 2) + 0.02 * (place + 3) ** 3 / (1 + (place + 3) ** 2)

    curve = line(basin, [1.0, 1.0], [100, 7])
    dense = np.linspace(-4, -2, 400_001)
    least, there = basin(dense, 0).min(), dense[basin(dense, 0).argmin()]
    place, value, settled = curve.settle(np.array([start]), np.array([1]))
    if abs(start + 3) < 1:
        assert settled.all()
    if settled.all():
        assert place[0] == pytest.approx(there, abs=5e-4)
        assert value[0] == pytest.approx(least, abs=1e-8)
    place, value = curve.near(np.full(2, start))
    np.testing.assert_allclose(place, there, atol=0.05)
    np.testing.assert_allclose(value, least, atol=1e-3)


def test_a_quartic_that_is_least_at_one_of_its_own_points_is_put_to_the_test():
    """It is right there, whatever lies between its points: here the least of all, in a narrow dip."""

    def dip(place, k):
        return (place + 3) ** 2 - 0.01 * np.exp(-(((place + 2.95) / 0.015) ** 2))

    curve = line(dip, [1.0], [100])
    dense = np.linspace(-3.1, -2.9, 400_001)
    place, value, settled = curve.settle(np.array([-3.0]), np.array([0]))
    assert not settled[0] or value[0] == pytest.approx(dip(dense, 0).min(), abs=1e-7)
    smooth = line(lambda place, k: (place + 3) ** 2, [1.0], [100])
    place, value, settled = smooth.settle(np.array([-3.0]), np.array([0]))
    assert settled[0]
    assert place[0] == pytest.approx(-3, abs=1e-6)


@pytest.mark.parametrize(("error", "calls"), [(0.0, 2), (4e-7, 3), (3e-6, None)])
def test_the_error_of_the_risks_of_a_quartic_is_not_its_own(error, calls):
    """Where they are off by more than a quartic may be, it is held to such a risk; by far more, to none."""
    curve = line(lambda place, k: (place + 3) ** 2, [1.0], [100])
    exact = curve.risk
    asked = []

    def risk(batch, rate, steps, tolerance):
        asked.append(tolerance)
        return exact(batch, rate, steps, tolerance) * (1 + (error if tolerance else 0.0))

    curve.risk = risk
    place, value, settled = curve.settle(np.array([-3.01]), np.array([0]))
    assert settled[0] == (calls is not None)
    assert place[0] == pytest.approx(-3, abs=1e-5)
    assert value[0] == pytest.approx(0, abs=1e-9)  # exact in any case
    assert calls is None or len(asked) == calls


def test_the_lowest_of_the_first_places():
    curve = line(lambda place, k: (place + (3.0, 5.0)[k]) ** 2, [1.0, 1.0], [100, 1e4])
    place = curve.lowest(1e-6 * curve.edge)
    np.testing.assert_allclose(place, [-3, -5], atol=SPACING / 2 + 1e-9)
