"""The batch size with the least risk against a list of all, where the risk is a formula of B and n."""

from types import SimpleNamespace

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.critical.basins import FollowedRisk
from sgdtheory.critical.optimal_batch import _batches, _estimate, _promising, _try_promising, optimal_batch_size
from sgdtheory.critical.patterns import StepPatterns
from sgdtheory.critical.relaxed_risk import RelaxedRisk
from sgdtheory.critical.tuned_risk import TunedRisk
from tests.critical.known_risk import KnownRisk, alternating, smooth, swinging


def best_near(number, parity=0.0, depth=1.0):
    """n samples at a time are worth most for n near a number; odd n may be worse where n ≤ 4B."""

    def of(batch, steps):
        away = (np.log(steps / number) / 2) ** 2
        odd = np.where((steps % 2 == 1) & (steps <= 4 * batch), parity, 0.0)
        return (1 + depth * away / (1 + away) + odd) / (steps * batch)

    return KnownRisk(of, lambda n: 1e-9 / n, StepPatterns(resonant=4.0 if parity else 0.0))


def best_with_longer_tails(number):
    """Averages of half of the iterates: an odd n, whose tail is half an iterate longer, is worth more."""
    plain = best_near(number, depth=0.5)
    return KnownRisk(
        lambda b, n: plain.of(b, n) * np.where(n % 2 == 1, 1.0, 1.2),
        plain.bound,
        StepPatterns(plain=False, fraction=0.5),
    )


CASES = {
    "one by one": smooth(1.2, 0.5),
    "few steps": best_near(7.0),
    "a hundred steps": best_near(120.0),
    "even": best_near(25.0, parity=0.5),
    "even, many": best_near(177.0, parity=0.1),
    "many steps": best_near(2500.0, depth=0.3),
    "alternating": alternating(1.3, 1.0),
    "swinging": swinging(1.5, 0.3, 300.0),
    "longer tails": best_with_longer_tails(177.0),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("samples", [37.0, 400.0, 401.0, 5003.0, 20_011.5])
def test_no_batch_size_of_a_list_is_better(name, samples):
    known = CASES[name]
    sizes = np.arange(1.0, np.floor(samples) + 1)
    listed = known.of(sizes, np.floor(samples / sizes))[sizes <= samples / known.patterns.first_steps]
    found = optimal_batch_size(known, samples)
    assert found.risk == pytest.approx(listed.min(), rel=1e-12)
    assert found.risk == known.of(found.batch, np.floor(samples / found.batch))
    assert found.rate == pytest.approx(1 / np.floor(samples / found.batch))
    assert (found.relaxed is None) == (samples <= 400)


def test_no_batch_size_is_preferred_to_one_for_a_rounding():
    for gain, expected in ((5e-9, 1.0), (3e-8, 10.0)):
        known = KnownRisk(lambda b, n, gain=gain: np.where((b >= 10) & (n > 9), 1 - gain, 1.0) + 0 * n, lambda n: 1e-9)
        assert optimal_batch_size(known, 100.0).batch == expected
        many = KnownRisk(lambda b, n, gain=gain: np.where(b == 4, 1 - gain, 1.0) + 0 * n, lambda n: 1e-9)
        assert optimal_batch_size(many, 1000.0).batch == min(expected, 4.0)


def test_one_step_with_everything_may_be_best():
    for samples in (37.5, 399.0, 1000.0, 1000.5):
        known = KnownRisk(lambda b, n: (1 + 0.5 * (n > 1)) / (n * b), lambda n: 1e-9, StepPatterns(first_steps=1.0))
        assert optimal_batch_size(known, samples).batch == np.floor(samples)


@pytest.mark.parametrize("beside", [70.0, 76.0, 91.0, 98.0])
def test_beside_a_number_of_steps_that_ripples_all_are_tried(beside):
    """Of n ≤ 200 one alone is better than all, a little nearer to the best of the others, 83, than a fifth of it."""

    def of(batch, steps):
        return (1 + 0.1 * np.log(steps / 83) ** 2 - 0.2 * (steps == beside)) / (steps * batch)

    known = KnownRisk(of, lambda n: 1e-9 / n, StepPatterns(memory=200.0, rippling=200.0, restless=200.0))
    found = optimal_batch_size(known, 20_011.0)
    assert np.floor(20_011 / found.batch) == beside


def test_of_momentum_that_swings_the_least_risk_is_that_of_a_list():
    """R(n) goes up and down by 5% from one n to the next; 90 steps are best, and 41 … 200 are all tuned here."""
    problem = st.LeastSquares([1.0, 0.2, 0.01], [1.0, 0.1, 0.3], 0.1)
    algorithm = st.Algorithm(st.HeavyBall(0.9), average=st.LastIterate())
    tuned = TunedRisk(problem, algorithm)
    found = optimal_batch_size(FollowedRisk(tuned, 1e6), 1e6)
    batch = np.floor(1e6 / np.arange(41.0, 201))
    assert found.risk == pytest.approx(tuned.least(batch, np.floor(1e6 / batch)).risk.min(), rel=1e-8)


@pytest.mark.parametrize(("low", "high"), [(41, 60), (100, 130), (120, 200), (500, 900), (41, 41)])
@pytest.mark.parametrize("resonant", [0.0, 1e4])
def test_batch_sizes_between_two_numbers_of_steps(low, high, resonant):
    """The largest with each number of steps, with even numbers alone where steps resonate; or every B if fewer."""
    samples = 20_001.0
    relaxed = SimpleNamespace(samples=samples, resonant=resonant, patterns=SimpleNamespace(plain=True))
    found = _batches(relaxed, low, high)
    if high - low <= samples / low - samples / high:
        wanted = np.floor(
            samples / (2 * np.round(np.arange(low, high + 1) / 2) if resonant else np.arange(low, high + 1))
        )
    else:
        wanted = np.arange(np.floor(samples / high), np.floor(samples / low) + 1)
    assert set(found.tolist()) == set(wanted.tolist())


def test_odd_numbers_of_steps_count_but_for_averaged_sgd():
    others = SimpleNamespace(samples=20_001.0, resonant=1e4, patterns=SimpleNamespace(plain=False))
    assert set(_batches(others, 41, 60)) == set(np.floor(20_001 / np.arange(41, 61)))


@pytest.mark.parametrize(("low", "high", "samples"), [(1e6, 2e6, 1e14), (1e7, 2e13, 1e15)])
def test_of_very_many_batch_sizes_some_are_listed(low, high, samples):
    found = _batches(SimpleNamespace(samples=samples, resonant=0.0, patterns=SimpleNamespace(plain=True)), low, high)
    assert 90_000 < found.size <= 100_000
    assert (found.min(), found.max()) == (np.floor(samples / high), np.floor(samples / low))


def test_the_most_promising_are_looked_at_and_none_without_a_chance():
    relaxed = RelaxedRisk(best_near(177.0), 50_021.0, 2.0)
    least = relaxed.risk.min()
    assert _promising([relaxed], 0.6 * least)[0].size == 0
    found, _ = _promising([relaxed], 1.001 * least)
    assert 1 < found.size <= 64
    estimate = relaxed.estimate(found)
    assert (np.diff(estimate) >= 0).all()
    assert 150 < np.floor(50_021 / found[0]) < 200
    best = relaxed.steps[relaxed.risk.argmin()]
    steps = np.floor(
        50_021 / _promising([relaxed], relaxed.risk.min() * (1 + 1e-7))[0]
    )  # of one alone: both sides of it
    assert steps.min() < best < steps.max()
    alone = RelaxedRisk(best_near(177.0), 41.5, 2.0)
    assert alone.steps.size == 1
    np.testing.assert_array_equal(_promising([alone], 1.0)[0], [1])
    two = RelaxedRisk(best_near(660.0), 2001.0, 500.0)
    assert two.steps.tolist() == [500, 2001]
    assert set(_promising([two], 1.0)[0]) == {1, 2, 3, 4}


def test_batch_sizes_are_tried_as_long_as_their_estimates_leave_them_a_chance():
    """Where estimates are right those of the first eight; where one is off by a hundredth, those within a tenth too."""
    for off, number in ((0.0, 8), (0.01, 24)):
        estimate = np.repeat([0.0, 0.05, 0.09, 0.2, 0.3], 8)
        true = estimate + off * (np.arange(40) == 3)
        asked: list[float] = []

        class Tried(SimpleNamespace):
            risk = np.array([np.exp(0.001)])

            def add(self, batch):
                asked.extend(batch.tolist())  # noqa: B023
                self.risk = np.append(self.risk, self.risks(batch))

            def risks(self, batch):
                return np.exp(true[batch.astype(int)])  # noqa: B023

        _try_promising(Tried(), np.arange(40.0), estimate)
        assert asked == list(range(number))


def test_estimates_between_the_tails_that_are_least_and_most_longer():
    """A quarter of n, rounded up, is longer by ¼ for n = 3 + 4k and by ¾ for 1 + 4k: 2 and 8, in logarithms."""

    def curve(steps, level):
        estimate = (lambda batch: np.full(batch.size, level)) if len(steps) > 1 else None
        return SimpleNamespace(
            samples=100.0, steps=np.array(steps), patterns=SimpleNamespace(fraction=0.25), estimate=estimate
        )

    least, most = curve([7.0, 11.0, 103.0], 2.0), curve([9.0, 21.0], 8.0)
    batch = np.array([4.0, 2.0, 9.0, 3.0, 6.0, 14.0])  # 25, 50, 11, 33, 16 and 7 steps
    np.testing.assert_allclose(_estimate([least, most], batch), [8, 4, 2, 8, 1, 2], rtol=1e-12)
    two = curve([7.0, 11.0], 2.0)
    np.testing.assert_array_equal(_estimate([two], batch), np.full(6, 2.0))
    np.testing.assert_array_equal(_estimate([two, curve([9.0], 8.0)], batch), np.full(6, 2.0))
    np.testing.assert_array_equal(_estimate([curve([7.0], 2.0), curve([9.0], 8.0)], batch), np.ones(6))
