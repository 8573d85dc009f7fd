"""What B* is made of: its remarks, its curve's batch sizes, and the definition where the risk is a formula."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.critical.curve_search import _curve_sizes
from sgdtheory.critical.definition import _falling, _solve
from sgdtheory.critical.optimal_batch import remark_on_optimum
from sgdtheory.critical.patterns import StepPatterns
from sgdtheory.critical.tuned_risk import TunedRisk
from tests.critical.known_risk import KnownBound, KnownRisk, swinging

BUDGET = 1 + 1e-12  # (1 + overhead) D is not lowered by rounding


def test_batch_sizes_that_grow_or_hardly_fall_are_not_remarked():
    found = st.critical_batch_size(st.PowerLaw(2, 3), num_samples=300, curve=False)
    tuned = SimpleNamespace(algorithm=SimpleNamespace(constant=False, steady=False), workers=1)

    def remark(*sizes):
        each = [dataclasses.replace(found, real_batch_size=b, num_samples=10.0**k) for k, b in enumerate(sizes)]
        return _falling(tuned, each)

    assert remark(10.0, 12.0, 14.0) == remark(10.0, 9.1) == ""
    assert "falls" in remark(10.0, 8.9)


@pytest.mark.parametrize(("shares", "told"), [((0.25, 0.5), True), ((0.5, 0.5), False), ((0.5, 0.25), False)])
def test_a_fall_is_told_from_the_largest_before_to_the_least(shares, told):
    """B* of 10, 50, 40, 20, 30 with ever more samples, in another order; γ of 1 and 4 samples in their edges."""
    problem = st.PowerLaw(2, 3)
    edges = st.max_stable_learning_rate(problem, batch_size=np.array([1.0, 4.0]))
    found = st.critical_batch_size(problem, num_samples=300, curve=False)
    each = [
        dataclasses.replace(found, real_batch_size=b + 0.5, batch_size=b, num_samples=10.0 ** (k + 2))
        for k, b in enumerate((10.0, 50.0, 40.0, 20.0, 30.0))
    ]
    each[1] = dataclasses.replace(each[1], optimal_batch_size=1.0, optimal_learning_rate=shares[0] * edges[0])
    each[3] = dataclasses.replace(each[3], optimal_batch_size=4.0, optimal_learning_rate=shares[1] * edges[1])
    edge = TunedRisk(problem, st.Algorithm()).edge
    tuned = SimpleNamespace(algorithm=st.Algorithm(), problem=problem, workers=1, edge=edge)
    text = _falling(tuned, [each[k] for k in (3, 0, 4, 2, 1)])
    assert text.startswith("B* falls from 50 at D = 1000 to 20 at D = 100000")
    assert ("rises from 0.25 to 0.50 of the stability edge" in text) == told
    assert told or text.endswith("100000")


@pytest.mark.parametrize(("first", "risk", "told"), [(1, 0.5, True), (1, 0.4, True), (1, 0.39, False), (2, 0.5, False)])
def test_one_step_with_all_samples_is_remarked_where_it_counts_and_does(first, risk, told):
    """It leaves 0.4 here, of 12 samples."""
    asked = []

    def least(batch, steps):
        asked.append((batch.tolist(), steps.tolist()))
        return SimpleNamespace(risk=np.array([0.4]))

    bound = KnownBound(lambda n: 0.39)
    patterns = StepPatterns(first_steps=first)
    tuned = SimpleNamespace(problem=st.PowerLaw(2, 3), patterns=patterns, least=least, out_of_reach=bound, workers=1)
    assert remark_on_optimum(tuned, 1.0, 12.0, risk).startswith("one step with 12 samples") == told
    assert told or remark_on_optimum(tuned, 1.0, 12.0, risk) == ""
    assert all(each == ([12.0], [1.0]) for each in asked)
    both = remark_on_optimum(tuned, 2.0, 12.0, risk)
    assert both.startswith("the optimal risk is attained at a batch size above 1")
    assert ("; one step" in both) == told
    asked.clear()
    tuned.out_of_reach = KnownBound(lambda n: 1.0)
    assert "one step" not in remark_on_optimum(tuned, 1.0, 12.0, risk)
    assert not asked, "it is out of reach"


def solved_as_known(known, samples, overhead, factor=2.0):
    """`_solve` where the risk is a formula."""
    known.problem = SimpleNamespace(noise_variance=1.0)
    return _solve(known, samples, overhead, factor, False)


def test_fewer_steps_than_the_samples_allow_count_for_the_risk_but_not_for_the_rate():
    """Of a risk that swings on with n every B and every n is tried; with all steps B* would be 1, with fewer 4 keep."""
    known, samples = swinging(1.5, 0.3, 2000.0), 60.0
    sizes = np.arange(1.0, samples + 1)
    attained = known.of(sizes, np.floor(samples / sizes))
    found = solved_as_known(known, samples, 0.5)
    assert found.optimal_risk == attained.min()
    each = {b: np.arange(2.0, np.floor(1.5 * samples / b) + 1) for b in sizes[:45]}
    enough = [b for b, steps in each.items() if (known.of(b, steps) <= attained.min() * BUDGET).any()]
    assert found.batch_size == max(enough) == 2
    fewest = each[2.0][known.of(2.0, each[2.0]) <= attained.min() * BUDGET][0]
    assert found.num_steps == max(fewest, 30)
    assert found.rate_batch_size == sizes[attained <= 2.0 * attained.min()].max() == 2


def test_one_step_with_all_samples_is_refused_where_some_are_left_over():
    """One step of 37 samples is best of 37.5; where it is worse by less than the overhead is more, it is remarked."""
    best = KnownRisk(lambda b, n: (1 + 0.5 * (n > 1)) / (n * b), lambda n: 1e-9, StepPatterns(first_steps=1.0))
    with pytest.raises(ValueError, match="one step with all of them is not the best, got 37.5"):
        solved_as_known(best, 37.5, 0.2)
    worse = KnownRisk(lambda b, n: (1 + 0.3 * (n == 1)) / (n * b), lambda n: 1e-9, StepPatterns(first_steps=1.0))
    assert "one step with 90 samples" in solved_as_known(worse, 60.0, 0.5).remark
    assert solved_as_known(worse, 60.0, 0.2).remark == ""


@pytest.mark.parametrize(
    ("samples", "included", "sizes"),
    [(2.0, (1.0,), [1]), (3.0, (1.0,), [1]), (4.0, (1.0,), [1, 2]), (1e4, (7.0, 3.0), [1, 3, 7, 70])],
)
def test_batch_sizes_of_the_curve(samples, included, sizes):
    """From 1 to ten times those included or half the samples, each the largest with as many steps."""
    found = _curve_sizes(samples, included)
    assert set(sizes) <= set(found)
    assert (found[0], found[-1]) == (sizes[0], sizes[-1])
    others = np.setdiff1d(found, included)
    np.testing.assert_array_equal(others, np.floor(samples / np.floor(samples / others)))
    assert len(found) <= 12
