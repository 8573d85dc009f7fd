"""Which basins are followed, and that the risks are those of a search of all learning rates, or of brute force."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.critical.basins import FollowedRisk
from sgdtheory.critical.least_risk import Tuned
from sgdtheory.critical.patterns import StepPatterns
from sgdtheory.critical.tuned_risk import TunedRisk
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
NOT_IN_ADVANCE = StepPatterns(resonant=4.0, averaged=1e6)


class Asked:
    """In the place of `TunedRisk`: notes which settings are looked for anew, and which from where."""

    problem = out_of_reach = None
    workers = 1
    initial_risk = largest_eigenvalue = 1.0

    def __init__(self, variance=0.0, patterns=None):
        self.variance = variance
        self.patterns = patterns or StepPatterns(resonant=4.0)
        self.anew = []
        self.near = []
        self.rates = []  # of which parts were asked
        self.lowest = []

    def edge(self, batch, steps):
        return 1 + 0 * steps

    def parts(self, batch, rate, steps, tolerance):
        self.rates += rate.tolist()
        return np.array([0 * steps, np.full(steps.size, self.variance)])

    def patterns_at(self, risk):
        self.lowest.append(risk)
        return self.patterns

    def risk(self):
        raise NotImplementedError

    def least(self, batch, steps):
        self.anew += steps.tolist()
        return Tuned(10 / steps, 1 + 0 * steps, 10 / steps)

    def least_near(self, batch, steps, share):
        self.near += zip(steps.tolist(), share.tolist(), strict=True)
        return Tuned(share, 1 + 0 * steps, share)


def look(followed, samples, *steps):
    """Ask for these numbers of steps, with B = D/n: which are looked for anew, and which are not."""
    followed.tuned.anew.clear()
    followed.tuned.near.clear()
    steps = np.array(steps)
    followed.least(samples / steps, steps)
    return followed.tuned.anew, [n for n, _ in followed.tuned.near]


def test_a_basin_is_followed_by_as_much_as_steps_allow():
    """Within a factor of 4, but where steps resonate within 1.5% and to as even a number, few steps nowhere."""
    samples = 4e5  # steps resonate up to 1264
    followed = FollowedRisk(Asked(patterns=NOT_IN_ADVANCE), samples)
    assert look(followed, samples, 6000.0) == ([6000], [])
    anew, near = look(followed, samples, 6000.0 * 3.99, 6000 / 3.99, 6000 * 4.01)
    assert (anew, near) == ([6000 * 4.01], [6000 * 3.99, 6000 / 3.99])
    assert [share for _, share in followed.tuned.near] == pytest.approx([10 / 6000 / 3.99, 10 / 6000 * 3.99]), (
        "nγ stays"
    )
    assert look(followed, samples, 1000.0) == ([1000], [])
    for steps, anew in ((1014.0, False), (1015.0, True), (986.0, False), (984.0, True), (30.0, True), (32.0, True)):
        assert look(followed, samples, steps) == (([steps], []) if anew else ([], [steps])), steps
    assert look(followed, samples, 30.0) == ([], []), "asked before"
    assert look(followed, 1.014 * samples, 1000.0) == ([], [1000])
    assert look(followed, 1.04 * samples, 1000.0) == ([1000], []), "of as many samples"


def test_basins_are_followed_from_where_all_rates_were_looked_at_alone():
    """By two steps of a factor of 3: from 1000 to 3000, but not on to 9000, nor with 5 times the samples."""
    followed = FollowedRisk(Asked(patterns=NOT_IN_ADVANCE), 1e4)
    assert look(followed, 1e4, 1000.0) == ([1000], [])
    assert look(followed, 1e4, 3000.0) == ([], [3000])
    assert look(followed, 1e4, 9000.0) == ([9000], [])
    assert look(followed, 3.9e4, 2500.0) == ([], [2500])
    assert look(followed, 4.1e4, 2500.0) == ([2500], [])


def test_of_settings_that_are_asked_together_those_next_to_one_another_wait_for_the_first():
    followed = FollowedRisk(Asked(patterns=NOT_IN_ADVANCE), 4e5)
    anew, near = look(followed, 4e5, 6000.0, 6080.0, 6100.0, 1000.0, 1001.0, 1002.0, 5.0, 7.0)
    assert anew == [6000, 6100, 1000, 1001, 5, 7]
    assert near == [6080, 1002]


def test_it_is_followed_from_the_nearest_that_is_known():
    """nγ of 10 at 1000 steps; at 1500 the answer was γ = 0.4, though it had been followed."""
    followed = FollowedRisk(Asked(), 4000.0)
    look(followed, 4000.0, 1000.0)
    followed.tuned.least_near = lambda batch, steps, share: Tuned(0 * share + 0.4, 1 + 0 * steps, 0 * share + 0.4)
    look(followed, 4000.0, 1500.0)
    del followed.tuned.least_near
    look(followed, 4000.0, 1400.0, 1100.0, 450.0)
    wanted = [(1400, 0.4 * 1500 / 1400), (1100, 10 / 1100), (450, 10 / 450)]
    np.testing.assert_allclose(followed.tuned.near, wanted)


def test_the_nearest_counts_samples_as_well_as_steps():
    """nγ of 10 with 4,000 samples, of 40 with 6,000, and as many steps as asked for; 5,900 are asked for."""
    followed = FollowedRisk(Asked(patterns=NOT_IN_ADVANCE), 4000.0)
    look(followed, 4000.0, 900.0)
    followed.tuned.least_near = lambda batch, steps, share: Tuned(40 / steps, 1 + 0 * steps, 40 / steps)
    look(followed, 6000.0, 950.0)
    del followed.tuned.least_near
    look(followed, 5900.0, 900.0)
    np.testing.assert_allclose(followed.tuned.near, [(900, 40 / 900)])


def test_the_share_is_that_of_the_edge_there():
    followed = FollowedRisk(Asked(patterns=NOT_IN_ADVANCE), 4000.0)
    look(followed, 4000.0, 1000.0)
    followed.tuned.edge = lambda batch, steps: 4 + 0 * steps
    look(followed, 4000.0, 2000.0)
    np.testing.assert_allclose(followed.tuned.near, [(2000, 0.01 * 1000 / 2000 / 4)])


def test_what_is_known_is_told_beside_what_is_new():
    followed = FollowedRisk(Asked(patterns=NOT_IN_ADVANCE), 4000.0)
    look(followed, 4000.0, 1000.0)
    steps = np.array([30.0, 1000.0, 1100.0])
    found = followed.least(4000 / steps, steps)
    np.testing.assert_allclose(found.rate, 10 / np.array([30, 1000, 1000 * 1.1**2]) * [1, 1, 1.1])
    assert followed.tuned.anew == [1000, 30]


def test_patterns_are_those_of_the_least_risk_so_far():
    followed = FollowedRisk(Asked(patterns=NOT_IN_ADVANCE), 4000.0)
    for risks in ([0.5, 0.3], [0.4, 0.6], [0.2, 0.7]):
        followed.tuned.least = lambda batch, steps, risks=risks: Tuned(10 / steps, np.array(risks), 10 / steps)
        first = 30.0 * risks[0]
        look(followed, 4000.0, first, first + 0.5)
    assert followed.tuned.lowest == [0.3, 0.3, 0.2]


@pytest.mark.parametrize("share", [0.4, 0.5, 0.9])
def test_near_the_edge_the_share_of_it_stays(share):
    """Elsewhere nγ does, up to the edge."""
    followed = FollowedRisk(Asked(patterns=NOT_IN_ADVANCE), 4e5)
    followed.tuned.least = lambda batch, steps: Tuned(0 * steps + share, 1 + 0 * steps, 0 * steps + share)
    look(followed, 4e5, 1000.0, 6000.0)
    look(followed, 4e5, 1002.0, 8000.0, 2000.0)
    moved = [0.4 * 1000 / 1002, 0.4 * 6000 / 8000, 1.0]
    np.testing.assert_allclose([near for _, near in followed.tuned.near], moved if share < 0.5 else share)


@pytest.mark.parametrize(("variance", "quiet"), [(1.3, True), (1.2, False)])
def test_where_noise_forbids_larger_rates_every_larger_number_of_steps_follows(variance, quiet):
    """Four fifths of the variance at half the edge against the least risk, 1."""
    samples = 1e6
    followed = FollowedRisk(Asked(variance), samples)
    assert followed.tuned.anew == [32_000], "16 times √(4D)"
    assert followed.tuned.rates == [0.5]
    assert followed.quiet == (32_000 if quiet else np.inf)
    assert look(followed, samples, 1e6) == (([], [1e6]) if quiet else ([1e6], []))
    assert look(followed, samples, 5000.0) == ([5000], []), "fewer do not"


@pytest.mark.parametrize(
    ("patterns", "samples", "steps"),
    [
        (StepPatterns(resonant=4.0), 4095.0, []),
        (StepPatterns(resonant=4.0), 4096.0, [2048]),
        (StepPatterns(rippling=900.0), 28_800.0, [14_400]),
        (StepPatterns(averaged=900.0), 28_800.0, [14_400]),
    ],
)
def test_with_little_data_nothing_is_looked_for_in_advance(patterns, samples, steps):
    """16 times the steps that resonate, ripple or are averaged are more than half of those of D samples."""
    assert FollowedRisk(Asked(patterns=patterns), samples).tuned.anew == steps


@pytest.mark.parametrize(("algorithm", "problem"), half(ALGORITHMS, PROBLEMS), ids=str)
def test_the_risks_are_those_of_all_learning_rates(problem, algorithm):
    """Also with two scales, whose minima change places as the largest γ/B grows."""
    samples = 1e5
    tuned = TunedRisk(problem, algorithm)
    steps = np.array([1e5, 5e4, 2e4, 4000.0, 1700.0, 300.0, 302.0])
    found = FollowedRisk(tuned, samples).least(samples / steps, steps)
    np.testing.assert_allclose(found.risk, tuned.least(samples / steps, steps).risk, rtol=5e-9)


@pytest.mark.parametrize("signal", [1e-3, 0.3])
def test_two_scales_by_brute_force(signal):
    """The direction that is learnt slowly may be worth larger γ than the noise of the other allows, or not."""
    eigenvalue, strength, noise = np.array([1.0, 0.01]), np.array([signal, 1.0]), 1e-3
    followed = FollowedRisk(TunedRisk(st.LeastSquares(eigenvalue, strength, noise)), 6000.0)
    for batch in (1.0, 2.0, 3.0):
        steps = np.array([np.floor(6000 / batch)])
        least = brute_force.best_risks(eigenvalue, strength, noise, batch, int(steps[0]))[-1]
        assert followed.least(np.array([batch]), steps).risk[0] == pytest.approx(least, rel=2e-8)
