"""Searches over γ of risks that are known functions: how far off they are, and how many values they need."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.critical.arrival_minima import ArrivalMinima
from sgdtheory.critical.tuned_equivalent import TunedEquivalent

LAST = st.LastIterate()


class KnownRisk(TunedEquivalent):
    """The best γ is a power of n and nB, on which it depends a little otherwise, and the risk is a sum of two terms."""

    def __init__(self, algorithm, powers, wavy):
        super().__init__(st.PowerLaw(2.0, 3.0, 20), algorithm)
        self.powers = powers
        self.wavy = wavy
        self.arrivals = None
        self.number = 0

    def best(self, batch, steps):
        place = np.log([steps, batch * steps])
        return self.powers @ place + self.wavy * np.sin(place).sum()

    def _log_risks(self, batch, steps, places):
        self.number += places.size
        away = places - self.best(batch, steps)
        return np.stack([-0.8 * away, 0.5 * away + 0.1 * np.sin(2 * away)]) - 0.3 * np.log(steps)


def known_searches(powers, wavy):
    """Number of values for a walk over settings; mean and largest excess of the log risk, and that of the guesses."""
    rng = np.random.default_rng(0)
    number, excess, guessed = 0, [], []
    for algorithm in (st.Algorithm(st.Adam(), average=LAST), st.Algorithm(st.Lion(), average=LAST)):
        known = KnownRisk(algorithm, np.array(powers), wavy)
        batch, steps = 30.0, 2000.0
        for k in range(40):
            change = rng.uniform(-1, 1, 2) * (0.05, 0.3, 1.5)[k % 3]
            batch = float(np.ceil(np.clip(batch * np.exp(change[0]), 2, 1e4)))
            steps = float(np.ceil(np.clip(steps * np.exp(change[1]), 60, 1e5)))
            guess, apart = known._guess(batch, steps)
            guessed.append((abs(guess - known.best(batch, steps)), apart))
            found = known.least(batch, steps)
            dense = known.best(batch, steps) + np.linspace(-2, 2, 4001)
            least = np.logaddexp.reduce(known._log_risks(batch, steps, dense)).min()
            known.number -= dense.size
            excess.append(abs(np.log(found.risk) - least))
        number += known.number
    return number, np.mean(excess), np.max(excess), *np.mean(guessed, axis=0)


WALKS = {  # powers of n and nB, other changes: values, mean and largest excess; mean distance of guesses, and stated
    ((-0.5, 0.0), 0.0): (529, 4.759e-08, 2.195e-07, 0.1848, 0.1255),
    ((-0.9, 0.3), 0.0): (567, 5.588e-07, 1.691e-05, 0.2091, 0.1255),
    ((-0.3, -0.4), 0.1): (555, 4.594e-07, 2.882e-06, 0.1489, 0.1255),
    ((0.5, 0.5), 0.3): (625, 7.764e-07, 9.339e-06, 0.6224, 0.1255),
}


@pytest.mark.parametrize(("powers", "wavy"), WALKS)
def test_searches_beside_known_settings_cost_no_more_and_are_as_close(powers, wavy):
    """Guesses are as near; first points are as far apart as the nearest setting asks for."""
    number, *excess, distance, apart = known_searches(powers, wavy)
    most, *known, known_distance, known_apart = WALKS[powers, wavy]
    assert number <= 1.01 * most
    assert (np.array(excess) <= 1.1 * np.array(known) + 1e-9).all()
    assert distance <= 1.005 * known_distance
    assert apart == pytest.approx(known_apart, rel=2e-3)


@pytest.mark.parametrize("steps", [900.0, 2500.0])
def test_of_several_minima_down_to_a_least_rate_the_least_is_found(steps):
    """Those of Lion lie 120/n apart in log γ; the least one, 35/n wide, is the last one above a cliff."""
    rng = np.random.default_rng(0)

    class Arrivals(ArrivalMinima):
        """Places of the minima."""

        def arrival(self, steps):
            return 120 * last / steps - np.log(steps)

        def least_rate(self, steps, log_risk):
            return (120 * last - 60) / steps - np.log(steps)

    class ManyMinima(KnownRisk):
        """Minima of different depths."""

        def _log_risks(self, batch, steps, places):
            self.number += places.size
            away = (places + np.log(steps)) * steps
            nearest = np.round(away / 120)
            depth = np.where(nearest == last, -0.5, heights[nearest.astype(int) % 50])
            valley = depth * np.exp(-(((away - 120 * nearest) / np.where(nearest == last, 18, 40)) ** 2))
            rise = 0.002 * np.abs(nearest) + 300.0 * np.maximum(last - 0.3 - away / 120, 0.0)
            return (valley + rise)[None]

    for _ in range(5):
        last, heights = -float(rng.integers(2, 5)), rng.uniform(-0.3, -0.1, 50)
        known = ManyMinima(st.Algorithm(st.Lion(), average=LAST), np.zeros(2), 0.0)
        known.arrivals = Arrivals(known.problem, known.algorithm, 100.0)
        found = known.least(8.0, steps)
        assert (np.log(found.rate) + np.log(steps)) * steps == pytest.approx(120 * last, abs=5)
        assert np.log(found.risk) == pytest.approx(-0.5 + 0.002 * abs(last), abs=0.02)
        assert known.number < 130
