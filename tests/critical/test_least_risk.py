"""The least risk as searches ask for it: what is remembered, and where a new pair is looked at first."""

from types import SimpleNamespace

import numpy as np
import pytest

from sgdtheory.critical.least_risk import NEARBY, WIDER, LeastRisk
from sgdtheory.critical.rate_search import HOPELESS, Tuned


class Asked(SimpleNamespace):
    """A risk 100/(n B), lowest between γ = 0.2/n and 5/n; `calls` has what was tuned, `resonant` as in `TunedRisk`."""

    def least(self, batch, steps, goal, window):
        self.calls.append((batch.tolist(), steps.tolist(), goal, [each.tolist() for each in window]))
        return Tuned(1 / steps, 100 / (steps * batch), 0.2 / steps, 5 / steps)


def asked(resonant=0.0):
    tuned = Asked(calls=[], resonant=resonant)
    counts = []
    return tuned, LeastRisk(tuned, counts.append), counts


def one(least_risk, batch, steps, goal=np.inf):
    return float(least_risk(np.array([batch]), np.array([steps]), goal).risk[0])


def test_pairs_are_tuned_once():
    tuned, least_risk, counts = asked()
    found = least_risk(np.array([2.0, 5.0]), np.array([10.0, 4.0]))
    assert found.risk.tolist() == [5, 5]
    assert found.rate.tolist() == [0.1, 0.25]
    again = least_risk(np.array([5.0, 3.0, 2.0]), np.array([4.0, 10.0, 10.0]), 7.0)
    assert again.risk.tolist() == [5, 100 / 30, 5]
    assert [call[:3] for call in tuned.calls] == [([2.0, 5.0], [10.0, 4.0], np.inf), ([3.0], [10.0], 7.0)]
    assert counts == [2, 3]
    batch, steps, risk = least_risk.known()
    np.testing.assert_allclose([batch, steps], [[2, 5, 3], [10, 4, 10]])
    np.testing.assert_allclose(risk, [5, 5, 100 / 30])


def test_a_larger_batch_that_is_beyond_the_goal_stands_for_a_smaller_one():
    """With as many steps the risk falls with B: of 10, 1.5 times a goal of 6.6 is less, and of 6.7 is more."""
    tuned, least_risk, _ = asked()
    one(least_risk, 1.0, 10.0)
    assert one(least_risk, 0.5, 10.0, 6.6) == 10
    assert one(least_risk, 0.5, 10.0, 6.7) == 20
    assert one(least_risk, 2.0, 10.0, 1.0) == 5
    assert len(tuned.calls) == 3


def test_what_is_known_roughly_is_tuned_again_for_a_goal_that_is_nearer():
    """A risk of 10: beside a goal of 12 it counts for one of 7 but not of 9; beyond hope for what is hopeless too."""
    for goals, number in (
        ((np.inf, 3.0), 1),
        ((12.0, 12.0), 1),
        ((12.0, 7.0), 1),
        ((12.0, 9.0), 2),
        ((40.0, 6.0), 2),
        ((12.0, np.inf), 2),
        ((10 / HOPELESS * 0.99, 10 / HOPELESS * 0.9), 1),
        ((10 / HOPELESS * 0.99, 10.0), 2),
    ):
        tuned, least_risk, _ = asked()
        for goal in goals:
            assert one(least_risk, 1.0, 10.0, goal) == 10
        assert len(tuned.calls) == number, goals


def test_where_a_pair_nearby_was_low_is_looked_at_first():
    """More than 64 steps, n and B within a factor of 1.5; even and odd numbers of steps apart where they resonate."""

    def window(batch, steps, resonant=0.0, first=(10.0, 100.0)):
        tuned, least_risk, _ = asked(resonant)
        one(least_risk, *first)
        one(least_risk, batch, steps)
        ((low,), (high,)) = tuned.calls[-1][3]
        return low, high

    everywhere = (0.0, np.inf)
    for batch, steps in ((10.0, 120.0), (12.0, 100.0), (8.0, 90.0), (10.0, 121.0)):
        away = max(abs(np.log(batch / 10)), abs(np.log(steps / 100)))
        assert window(batch, steps) == pytest.approx((0.002 * np.exp(-WIDER * away), 0.05 * np.exp(WIDER * away)))
    for batch, steps in ((10.0, 100 * NEARBY * 1.01), (10 * NEARBY * 1.01, 100.0)):
        assert window(batch, steps) == everywhere
    assert window(10.0, 64.0, first=(10.0, 63.0)) == everywhere
    assert window(10.0, 65.0, first=(10.0, 63.0)) != everywhere
    assert window(10.0, 121.0, resonant=12.0) != everywhere
    assert window(10.0, 121.0, resonant=12.1) == everywhere
    assert window(10.0, 120.0, resonant=99.0) != everywhere
