"""The search over γ where the risk is a formula of the place on its line, against dense scans of that formula."""

import numpy as np
import pytest

from sgdtheory.critical.risk_against_rate import (
    FINE_SPACING,
    SPACING,
    SPACING_ABOVE,
    RiskAgainstRate,
    Swings,
    _contenders,
    _cut,
    _least_of_quartic,
    _lowest,
    _places,
    _vertices,
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


def test_places_and_shares_belong_together():
    """Far below the edge the place is log(γ/edge), next to it −log(1 − γ/edge); beyond it γ comes back."""
    curve = line(lambda place, k: 0 * place, [1, 1], [100, 10_000])
    share = np.array([0.3, 0.999])
    np.testing.assert_allclose(curve.share(curve.place(share), ALL), share, rtol=1e-12)
    np.testing.assert_allclose(curve.place(np.array([1e-9, 1e-7])), np.log([1e-9, 1e-7]), atol=0.02)
    assert curve.place(np.array([0.99]), np.array([1]))[0] == pytest.approx(np.log(100), abs=0.03)
    np.testing.assert_allclose(curve.share(curve.end, ALL), 1.0, rtol=1e-12)
    beyond = curve.end + np.array([0.7, 2.0])
    np.testing.assert_allclose(curve.share(beyond, ALL), curve.share(2 * curve.end - beyond, ALL), rtol=1e-12)
    assert curve.share(curve.end[[1]], np.array([1]))[0] == pytest.approx(1.0)


def test_features_are_as_fine_as_one_step_in_n():
    curve = line(lambda place, k: 0 * place, [1, 1, 1], [1, 2, 3])
    np.testing.assert_allclose(curve.end, np.log([2, 2, 3]))
    np.testing.assert_allclose(curve.share(np.zeros(3), ALL), np.array([1.5, 1.5, 4 / 3]) / 2)


def two_basins(place, k):
    """The lower one far left, far right or next to the edge; of different widths."""
    left, right = ((-6.0, 1.5), (-2.0, 3.0), (-7.3, 0.4), (-4.0, 4.55))[k]
    depth = (1.0, 0.97, 1.04, 0.99)[k]
    return -np.exp(-((place - left) ** 2) / 2) - depth * np.exp(-((place - right) ** 2) / 1.3) + 0.02 * place


@pytest.mark.parametrize("batch", [1e-3, 1e6], ids=["smooth", "resonant"])
def test_the_lower_of_two_basins(batch):
    steps = [50, 200, 1000, 99]
    curve = line(two_basins, [batch] * 4, steps)
    place, value = curve.minima(1e-5 * curve.edge)
    for k in range(4):
        dense = np.linspace(-12, np.log(steps[k]), 400_001)
        risks = two_basins(dense, k)
        assert value[k] == pytest.approx(risks.min(), abs=1e-8)
        assert place[k] == pytest.approx(dense[risks.argmin()], abs=1e-3)


def test_a_narrow_basin_between_the_places_of_a_scan():
    """Where steps resonate: as narrow as slopes of 2 allow."""
    middle = np.log(300) - 4.1 * FINE_SPACING

    def kinked(place, k):
        return 0.1 * (place - 1) ** 2 / 9 - 0.35 * np.exp(-((place - middle) ** 2) / (2 * 0.1**2))

    curve = line(kinked, [1e6], [300])
    place, value = curve.minima(1e-5 * curve.edge)
    dense = np.linspace(-3, np.log(300), 400_001)
    assert value[0] == pytest.approx(kinked(dense, 0).min(), abs=1e-7)
    assert place[0] == pytest.approx(dense[kinked(dense, 0).argmin()], abs=1e-3)


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
    first, _ = line(lambda place, k: 0 * place, [1.0], [200])._first_places(np.array([1e-4]))
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
    place, setting = line(lambda place, k: 0 * place, [1.0, 1.0], [100, 200])._first_places(1e-4 * np.arange(1.0, 3.0))
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


# ------------------------------------------------------------------ a bias that swings


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
    curve = RiskAgainstRate(risk, np.ones(4), batch, np.full(4, n), 0.0, Swings(parts, mean, lasting))
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

    def parts(batch, rate, steps, tolerance):
        return np.array([mean(rate, steps), variance(rate)])

    given = np.array([1.0]), np.array([1.0]), np.array([n])
    curve = RiskAgainstRate(lambda *a: parts(*a).sum(0), *given, 0.0, Swings(parts, mean, np.array([True])))
    place = np.linspace(-8, curve.end[0], 60)
    rate = curve.share(place)
    found = np.sort(curve.share(curve._swings_of(0, place, np.log(mean(rate, n) + variance(rate)))))
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
    curve = RiskAgainstRate(None, *given, 0.0, Swings(None, mean, np.array([True])))
    place = np.linspace(-8, curve.end[0], 60)
    assert curve._swings_of(0, place, np.log(mean(curve.share(place), 60.0) + 0.1)).size == 0


def test_where_the_bias_swings_no_risk_nearby_is_less_than_most_of_the_variance():
    """Four fifths of it, 1e-300 at least; elsewhere the risk itself is the floor."""

    def parts(batch, rate, steps, tolerance):
        return np.array([0.3 + 0 * rate, np.array([0.5, 0.5, 0.0])])

    given = np.ones(3), np.ones(3), np.full(3, 60.0)
    curve = RiskAgainstRate(None, *given, 0.0, Swings(parts, None, np.array([True, False, True])))
    value, floor = curve._scanned(np.full(3, -2.0), np.arange(3))
    np.testing.assert_allclose(value, np.log([0.8, 0.8, 0.3]), rtol=1e-12)
    np.testing.assert_allclose(floor, np.log([0.4, 0.8, 1e-300]), rtol=1e-12)


# ------------------------------------------------------------------ parts of it


def test_the_first_places():
    """From one before the least γ of interest to the edge, closer than `SPACING` below, fine where steps resonate."""
    for start, end, resonant in [(-9.0, np.log(1000), True), (-9.0, np.log(1000), False), (-20.0, 0.7, True)]:
        places = _places(start, end, resonant)
        assert (np.diff(places) > 0).all()
        inside = places[:-1]
        assert inside[-1] == pytest.approx(end)
        assert places[-1] - end == pytest.approx(end - inside[-2])  # the mirror image of the one before
        assert inside[1] <= start < inside[1] + SPACING
        split = min(end - 9 * FINE_SPACING if resonant else end, 0.0)
        below = np.diff(inside[inside <= split + 1e-9])
        np.testing.assert_allclose(below, SPACING)
        assert np.diff(inside).max() <= SPACING_ABOVE + 1e-9
        fine = np.diff(inside)[-9:]
        assert np.allclose(fine, FINE_SPACING) == resonant
    assert _places(5.0, 0.7, True)[0] == pytest.approx(0.7 - 9 * FINE_SPACING - SPACING)  # nothing of interest below


def test_the_least_of_each_setting():
    value, setting = np.array([3.0, 1.0, 2.0, 5.0, 4.0, 7.0]), np.array([0, 0, 0, 1, 1, 2])
    np.testing.assert_array_equal(_lowest(value, setting), [1, 1, 1, 4, 4, 7])


def test_minima_that_could_be_the_least():
    """Local ones of the scan, that are the least or could be if slopes were as steep as 4."""
    place = np.concatenate([np.arange(9.0), np.arange(9.0)]) * 0.1
    value = np.array([3, 2, 3, 3, 1, 3, 2, 1.9, 3, 3, 2.5, 2.7, 2.9, 2.4, 2.4, 3, 4, 5]).astype(float)
    setting = np.repeat([0, 1], 9)
    np.testing.assert_array_equal(_contenders(place, value, value, setting), [4, 13, 14])
    wide = _contenders(10 * place, value, value, setting)
    np.testing.assert_array_equal(wide, [1, 4, 7, 10, 13, 14])
    floor = np.where(np.arange(18) == 1, 0.5, value)  # the bias swings there
    np.testing.assert_array_equal(_contenders(place, value, floor, setting), [1, 4, 13, 14])


@pytest.mark.parametrize("mirrored", [False, True])
def test_a_wide_interval_on_either_side_makes_a_contender(mirrored):
    place = np.array([0.0, 0.1, 0.2, 0.3, 1.3, 1.4, 1.5])
    value = np.array([3.0, 1.0, 3.0, 2.0, 3.0, 4.0, 5.0])
    if mirrored:
        place, value = -place[::-1], value[::-1]
    found = _contenders(place, value, value, np.zeros(7, int))
    np.testing.assert_array_equal(found, [3, 5] if mirrored else [1, 3])


@pytest.mark.parametrize("level", [-7.0, 0.0, 7.0])
def test_where_more_may_hide(level):
    """Between two places the risk is above where slopes of 2 from both would meet; narrow intervals hide nothing."""
    place = np.array([-3.0, -2.0, -1.8, 0.0, 1.0, 3.0, 4.0, np.log(100), 5.5])
    value = level + np.array([0.0, 0.9, 0.95, 0.2, 1.9, 1.9, 3.2, 1.2, 3.2])
    setting = np.zeros(9, int)
    resonant = line(lambda place, k: 0 * place, [1e6], [100])
    meet = (value[:-1] + value[1:] - 2 * np.diff(place)) / 2
    expected = 1 + np.flatnonzero((meet < value.min()) & (np.diff(place) > 0.3))
    found = resonant._where_more_may_hide(place, value, setting)
    np.testing.assert_array_equal(found, expected[expected < 8])
    assert found.tolist() == [1, 3, 5]
    smooth = line(lambda place, k: 0 * place, [1e-3], [100])
    growth = np.diff(np.log(smooth.share(place, setting)))
    smoothly = np.maximum(meet, value[:-1] - 2 * growth)
    expected = 1 + np.flatnonzero((smoothly < value.min()) & (np.diff(place) > 0.3))
    np.testing.assert_array_equal(smooth._where_more_may_hide(place, value, setting), expected[expected < 8])
    two = np.repeat([0, 1], [4, 5])
    both = line(lambda place, k: 0 * place, [1e6, 1e6], [100, 101])
    lower = np.append(value[:4], value[4:] - 50)
    assert 4 not in both._where_more_may_hide(place, lower, two)


def test_what_hides_no_minimum():
    """Intervals of 0.3, as narrow as those of a scan where steps resonate; what lies beyond the edge."""
    curve = line(lambda place, k: 0 * place, [1e6], [100])
    place = curve.end[0] + np.array([-1.6, -1.31, -1.0, -0.71, -0.4, 0.0, 0.4])
    assert curve._where_more_may_hide(place, np.zeros(7), np.zeros(7, int)).tolist() == [2, 4, 5]


def test_intervals_are_cut_into_as_many_pieces_as_a_level_risk_would_take():
    """At least two, each as narrow as 0.3 where it begins at the lowest place, and at most four."""
    place = np.array([0.0, 0.5, 1.3, 2.7, 7.3, 11.9, 13.9, 15.9])
    value = np.array([1.0, 0.0, 0.0, 0.0, 1.2, 3.0, 1.0, 3.0])
    setting = np.zeros(8, int)
    # slopes of 2 lead below the lower end by (2 · width − difference)/2: 0.0, 0.8, 1.4, 4, 3.7, 1 and 1
    between, after = _cut(place, value, setting, np.array([1, 2, 3, 4, 5, 6, 7]))
    np.testing.assert_array_equal(after, [1, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5, 6, 7])
    for k in range(1, 8):
        cuts = np.concatenate([place[[k - 1]], between[after == k], place[[k]]])
        np.testing.assert_allclose(np.diff(cuts), (place[k] - place[k - 1]) / (cuts.size - 1))


def test_vertices_of_parabolas():
    rng = np.random.default_rng(0)
    middle, bend = rng.uniform(-0.4, 0.4, 20), rng.uniform(0.1, 3, 20)
    place = np.array([-1 - rng.random(20), 0 * middle, 0.7 + rng.random(20)])
    found = _vertices(place + 5, bend * (place - middle) ** 2 - 3)
    np.testing.assert_allclose(found, middle + 5, rtol=1e-10)
    flat = _vertices(np.array([[1.0], [2.0], [4.0]]), np.ones((3, 1)))
    assert flat == [2]
    outside = _vertices(np.array([[1.0], [2.0], [4.0]]), np.array([[1.0], [1.0], [50.0]]))
    assert 1 <= outside[0] <= 2


def test_the_least_of_quartics():
    """Of those with one minimum it is that; within four widths, and not beyond the last place; falling ones go on."""
    rng, five = np.random.default_rng(1), np.arange(-2.0, 3.0)[:, None]
    coefficients = np.array([rng.uniform(0.001, 0.01, 50), rng.uniform(-0.01, 0.01, 50), rng.uniform(0.5, 2, 50)])

    def quartic(x, middle):
        x = x - middle
        return 3 + x**2 * (coefficients[2] + x * (coefficients[1] + x * coefficients[0]))

    middle = rng.uniform(-3, 3, 50)
    step, value = _least_of_quartic(quartic(five, middle), np.full(50, 9.0))
    np.testing.assert_allclose(step, middle, atol=1e-6)
    np.testing.assert_allclose(value, 3, rtol=1e-10)
    step, value = _least_of_quartic(quartic(five, middle), np.full(50, 0.5))
    np.testing.assert_allclose(step, np.minimum(middle, 0.5), atol=1e-6)
    np.testing.assert_allclose(value, quartic(step, middle), rtol=1e-10)
    for slope in (-1.0, -0.3, 0.3, 1.0):
        step, value = _least_of_quartic(slope * five - 0.01 * five**2, np.array([9.0]))
        assert step[0] == -4 * np.sign(slope)
        assert value[0] == pytest.approx(-4 * abs(slope) - 0.16)
    step, _ = _least_of_quartic(-five - 0.01 * five**2, np.array([1.5]))
    assert step[0] == 1.5
    flat, level = _least_of_quartic(np.ones((5, 1)), np.array([1.5]))
    assert (flat[0], level[0]) == (1.5, 1)
    straight, level = _least_of_quartic(-1.0 * five, np.array([9.0]))
    assert (straight[0], level[0]) == (4, -4)
    steep, _ = _least_of_quartic((five - 0.5) ** 4 + 0.01 * five**2, np.array([9.0]))  # flat at its minimum
    assert steep[0] == pytest.approx(0.37, abs=0.1)


def test_first_places_are_those_of_rates_over_their_edges():
    """The same rate over its edge is the same place, whatever the edge."""
    sizes = np.full(2, 8.0), np.full(2, 100.0)
    curve = RiskAgainstRate(lambda *_: np.ones(1), np.array([4.0, 0.25]), *sizes, 0.0)
    place, setting = curve._first_places(np.array([0.04, 0.0025]))
    np.testing.assert_allclose(place[setting == 0], place[setting == 1])
    assert place.min() < np.log(0.01) < place.min() + 2 * SPACING
