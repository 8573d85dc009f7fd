"""Ends of the range of γ where runs have no stability threshold, against risks that cross the end at a known γ."""

import numpy as np
import pytest

from sgdtheory.critical.edges import DIVERGED, REFINED, DivergingRates, Edges

INITIAL, UNIT = 2.5, 0.3


class KnownThreshold:
    """A risk that exceeds what counts as diverged beyond a known γ, which falls with n and rises with B.

    It is infinite or nan from a hundred times that γ on, as that of runs that overflow.
    """

    def __init__(self, share, power=0.5):
        self.share = share
        self.power = power
        self.calls = 0

    def threshold(self, batch, steps):
        return UNIT * self.share * batch / (batch + 3) * steps**-self.power

    def __call__(self, batch, rate, steps):
        self.calls += rate.size
        excess = rate / self.threshold(batch, steps)
        found = INITIAL * DIVERGED * (0.3 * excess + 0.7 * excess**4)
        return np.where(excess > 100, np.where(batch > 10, np.inf, np.nan), found)


def is_power_of_two(share):
    return np.log2(share) == np.round(np.log2(share))


@pytest.mark.parametrize("share", [1e-6, 0.01, 1.03, 41.0, 3e5])
def test_coarse_ends_are_the_first_powers_of_two_beyond(share):
    """The run of B up to a power of two, and of n down or up to one, diverges there, and not at half of it."""
    batch, steps = (each.ravel() for each in np.meshgrid([1.0, 2.0, 7.0, 300.0], [3.0, 4.0, 29.0, 1000.0]))
    known = KnownThreshold(share)
    ends = DivergingRates(known, INITIAL, UNIT, 1.0, 0.0)
    found = ends(batch, steps)
    larger = 2 ** np.ceil(np.log2(batch))
    longest = known.threshold(larger, 2 ** np.floor(np.log2(steps)))
    np.testing.assert_allclose(found, UNIT * 2 ** np.ceil(np.log2(longest / UNIT)), rtol=1e-12)
    counted = known.calls
    np.testing.assert_array_equal(ends(batch[::-1], steps[::-1]), found[::-1])
    assert known.calls == counted
    assert counted <= 24 * 4 + 2 * abs(np.log2(share)) * 24


def test_a_search_goes_up_or_down_from_a_setting_nearby():
    """Where the ends of known settings are close, each new one takes three risks or so."""
    known = KnownThreshold(1e5)
    ends = DivergingRates(known, INITIAL, UNIT, 1.0, 0.0)
    ends(np.array([64.0]), np.array([64.0]))
    for batch, steps in [(64.0, 256.0), (64.0, 1024.0), (8.0, 1024.0), (8.0, 16.0)]:
        before = known.calls
        (found,) = ends(np.array([batch]), np.array([steps]))
        assert found / 2 <= known.threshold(batch, steps) < found
        assert known.calls - before <= 4


@pytest.mark.parametrize(("share", "exponent"), [(1e12, 30), (1e-12, -29)])
def test_no_end_is_beyond_2_to_the_30(share, exponent):
    """Runs that never diverge, or always."""
    ends = DivergingRates(KnownThreshold(share, 0.0), INITIAL, UNIT, 1.0, 0.0)
    assert ends(np.array([8.0]), np.array([4.0]))[0] == UNIT * 2.0**exponent


def test_numbers_of_steps_are_their_own_where_runs_do_not_stretch():
    """A function of the step is asked for no other number of steps; few steps count as the fewest."""
    known = KnownThreshold(50.0)
    asked = []

    def risk(batch, rate, steps):
        asked.extend(steps.tolist())
        return known(batch, rate, steps)

    ends = DivergingRates(risk, INITIAL, UNIT, 2.0, 0.0, stretching=False)
    found = ends(np.array([4.0, 4.0, 4.0]), np.array([1.0, 2.0, 11.0]))
    assert set(asked) == {2.0, 11.0}
    assert found[0] == found[1]
    expected = known.threshold(4.0, np.array([2.0, 11.0])) / UNIT
    np.testing.assert_array_equal(found[1:], UNIT * 2 ** np.ceil(np.log2(expected)))


@pytest.mark.parametrize("share", [0.01, 1.03, 40.0])
def test_ends_are_refined_where_steps_resonate(share):
    """To a quarter of 1/n of themselves, and not below where runs diverge; coarse where n exceeds 4 B."""
    batch, steps = np.array([1.0, 10.0, 30.0, 1000.0]), np.array([5.0, 40.0, 41.0, 300.0])
    known = KnownThreshold(share)
    ends = DivergingRates(known, INITIAL, UNIT, 1.0, 4.0)
    found = ends(batch, steps)
    assert is_power_of_two(found[0] / UNIT)
    exact = known.threshold(batch, steps)[1:]
    assert (found[1:] >= exact).all()
    assert (found[1:] <= exact * np.exp(REFINED / steps.max())).all()
    counted = known.calls
    np.testing.assert_array_equal(ends(batch, steps), found)
    assert known.calls == counted
    assert counted < 300


# ------------------------------------------------------------------ stability thresholds, interpolated


class KnownEdge:
    """A threshold that rises with B, and counts what is looked for; it has a kink at B = 400."""

    def __init__(self):
        self.asked = []
        self.stable = []

    def of(self, batch):
        smooth = 2 * batch / (batch + 7)
        return np.where(batch > 400, np.maximum(smooth, smooth * (batch / 400) ** 0.01), smooth)

    def __call__(self, batch, stable):
        assert (np.diff(batch) > 0).all()
        assert (self.of(batch) > stable).all()
        self.asked += batch.tolist()
        self.stable.append(stable)
        return self.of(batch)


def test_smooth_edges_of_a_decade_are_interpolated():
    """To 1e-9, from 24 of its batch sizes; where there is a kink or beyond eight decades each is looked for once."""
    known = KnownEdge()
    edges = Edges(known, between=True)
    rng = np.random.default_rng(0)
    for decade, looked in ((0, 24), (1, 24), (2, 24 + 40), (5, 24), (8, 24), (9, 40)):
        batch = 10 ** (decade + np.append(0.0, rng.uniform(0, 1, 39)))
        before = len(known.asked)
        np.testing.assert_allclose(edges(batch), known.of(batch), rtol=1e-9)
        assert len(known.asked) - before == looked
        np.testing.assert_array_equal(edges(batch[::-1]), edges(batch)[::-1])
        assert len(known.asked) - before == looked
    alone = Edges(known, between=False)
    before = len(known.asked)
    np.testing.assert_array_equal(alone(np.array([9.0, 3.0, 9.0])), known.of(np.array([9.0, 3.0, 9.0])))
    assert known.asked[before:] == [3.0, 9.0]


def test_a_search_for_an_edge_begins_next_below_that_of_a_smaller_batch_size():
    known = KnownEdge()
    edges = Edges(known, between=False)
    for batch in (5.0, 50.0, 20.0, 1.0, 20.0):
        edges(np.array([batch]))
    np.testing.assert_allclose(known.stable, [0.0, known.of(5.0), known.of(5.0), 0.0], rtol=1.1e-6)
    assert all(stable < known.of(5.0) for stable in known.stable)
