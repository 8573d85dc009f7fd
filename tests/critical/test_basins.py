"""Which basins are followed, and that the risks are those of a search of all learning rates, or of brute force."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.critical.basins import Basins, Looked, Remembered
from sgdtheory.critical.tuned_risk import Tuned, TunedRisk
from tests import brute_force
from tests.marks import half

LAST = st.LastIterate()
ALGORITHMS = [
    st.Algorithm(),
    st.Algorithm(average=LAST),
    st.Algorithm(average=st.TailAverage(0.5)),
    st.Algorithm(schedule=st.Cosine(), average=LAST),
    st.Algorithm(st.HeavyBall(0.9)),
]
PROBLEMS = [st.LeastSquares([1.0, 1e-4], [1e-3, 1.0], 1e-3), st.PowerLaw(2.0, 3.0)]


class Asked:
    """In the place of `TunedRisk`: notes which settings are looked for anew, and which from where."""

    resonant = 4.0
    rippling = 0.0
    averaged = 0.0

    def __init__(self, variance=0.0):
        self.variance = variance
        self.anew = []
        self.near = []

    def kind(self, batch, steps):
        return np.where(steps <= 40, np.nan, np.where(steps <= 4 * batch, 1 + steps % 2, 0.0))

    def edge(self, batch, steps):
        return 1 + 0 * steps

    def parts(self, batch, rate, steps, tolerance):
        return np.array([0 * steps, np.full(steps.size, self.variance)])

    def least(self, batch, steps):
        self.anew += steps.tolist()
        return Tuned(10 / steps, 1 + 0 * steps, 10 / steps)

    def least_near(self, batch, steps, share, before):
        assert (before == steps).all()
        self.near += zip(steps.tolist(), share.tolist(), strict=True)
        return Tuned(share, 1 + 0 * steps, share)


def look(basins, samples, *steps):
    basins.tuned.anew.clear()
    basins.tuned.near.clear()
    steps = np.array(steps)
    return basins.least(samples / steps, steps)


def test_a_basin_is_followed_by_as_much_as_steps_allow():
    samples = 4000.0  # steps resonate up to 126
    basins = Basins(Asked(), samples)
    asked = basins.tuned
    look(basins, samples, 1000.0)
    assert asked.anew == [1000]
    look(basins, samples, 1000.0 * 3.99, 1000 / 3.99, 1000 * 4.01)
    assert [steps for steps, _ in asked.near] == pytest.approx([3990, 1000 / 3.99])
    assert [share for _, share in asked.near] == pytest.approx([10 / 3990, 10 / (1000 / 3.99)]), "nγ stays"
    assert asked.anew == [4010]
    look(basins, samples, 100.0)
    for steps, anew in ((102.0, False), (101.0, True), (98.0, False), (96.0, True), (1000.0, None), (30.0, True)):
        look(basins, samples, steps)
        assert (asked.anew == [steps], len(asked.near)) == (anew is True, anew is False), steps
    look(basins, samples, 30.0)
    assert not asked.anew, "asked before"
    look(basins, samples, 31.0)
    assert asked.anew == [31]


@pytest.mark.parametrize(("variance", "quiet"), [(1.3, True), (1.2, False)])
def test_where_noise_forbids_larger_rates_every_larger_number_of_steps_follows(variance, quiet):
    """Four fifths of the variance at half the edge against the least risk, 1."""
    samples = 1e6
    basins = Basins(Asked(variance), samples)
    asked = basins.tuned
    assert asked.anew == [32_000], "16 times √(4D)"
    assert basins.quiet == (32_000 if quiet else np.inf)
    look(basins, samples, 1e6)
    assert (asked.anew == []) == quiet
    look(basins, samples, 5000.0)
    assert asked.anew == [5000], "fewer do not"


def test_with_little_data_nothing_is_looked_for_in_advance():
    for samples, steps in ((4095.0, []), (4096.0, [2048.0])):
        assert Basins(Asked(), samples).tuned.anew == steps


@pytest.mark.parametrize(("algorithm", "problem"), half(ALGORITHMS, PROBLEMS), ids=str)
def test_the_risks_are_those_of_all_learning_rates(problem, algorithm):
    """Also with two scales, whose minima change places as the largest γ/B grows."""
    samples = 1e5
    tuned = TunedRisk(problem, algorithm)
    basins = Basins(tuned, samples)
    steps = np.array([1e5, 5e4, 2e4, 4000.0, 1700.0, 300.0, 302.0])
    found = basins.least(samples / steps, steps)
    np.testing.assert_allclose(found.risk, tuned.least(samples / steps, steps).risk, rtol=5e-9)


@pytest.mark.parametrize("signal", [1e-3, 0.3])
def test_two_scales_by_brute_force(signal):
    """The direction that is learnt slowly may be worth larger γ than the noise of the other allows, or not."""
    eigenvalue, strength, noise = np.array([1.0, 0.01]), np.array([signal, 1.0]), 1e-3
    basins = Basins(TunedRisk(st.LeastSquares(eigenvalue, strength, noise)), 6000.0)
    for batch in (1.0, 2.0, 3.0):
        steps = np.array([np.floor(6000 / batch)])
        least = brute_force.best_risks(eigenvalue, strength, noise, batch, int(steps[0]))[-1]
        assert basins.least(np.array([batch]), steps).risk[0] == pytest.approx(least, rel=2e-8)


def test_what_is_asked_again_is_remembered():
    asked = []

    def answers(new):
        asked.append(new.tolist())
        return np.arange(3.0)[:, None] + 10 * np.flatnonzero(new)

    remembered = Remembered()
    first = remembered.best([(1.0, 2.0), (1.0, 3.0)], answers)
    np.testing.assert_array_equal(np.array(first), [[0, 10], [1, 11], [2, 12]])
    again = remembered.best([(1.0, 3.0), (1.0, 2.0)], answers)
    np.testing.assert_array_equal(np.array(again), [[10, 0], [11, 1], [12, 2]])
    assert asked == [[True, True]]
    assert remembered.best([], answers).risk.size == 0


def test_the_nearest_number_of_steps_of_the_same_kind():
    """n ≤ 4B: even and odd; no more than 3% from where it is asked, or than the farthest that is asked about."""
    looked = Looked(Asked())
    steps = np.array([900.0, 970.0, 1000.0, 1001.0, 30.0])
    looked.add(0 * steps + 500, steps, steps / 1e4)
    asked = np.array([985.0, 986.0, 998.0, 999.0])
    assert looked.nearest(1000.0, asked, asked % 2 + 1).tolist() == [3, 2, 2, 3]
    assert looked.nearest(975.0, asked, asked % 2 + 1).tolist() == [3, 2, 2, 3]
    assert looked.nearest(940.0, asked[:2], np.array([2.0, 1.0])).tolist() == [-1, 1]
    assert looked.nearest(1000.0, np.array([891.0, 897.0]), np.array([1.0, np.nan])).tolist() == [0, -1]
