"""Parts of B*: its remarks, and the batch sizes of its curve."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.critical.curve_search import _curve_sizes
from sgdtheory.critical.definition import _falling
from sgdtheory.critical.tuned_risk import TunedRisk


def test_batch_sizes_that_grow_or_hardly_fall_are_not_remarked():
    found = st.critical_batch_size(st.PowerLaw(2, 3), num_samples=300, curve=False)
    assert "curves=" not in repr(found)  # long lists of numbers
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
    assert ("rises from 0.25 to 0.50 of the stability limit" in text) == told
    assert told or text.endswith("100000")


@pytest.mark.parametrize(
    ("samples", "included", "sizes"),
    [(2.0, (1.0,), [1]), (3.0, (1.0,), [1]), (4.0, (1.0,), [1, 2]), (1e4, (7.0, 3.0), [1, 3, 7, 70])],
)
def test_batch_sizes_of_the_curve(samples, included, sizes):
    """The batch sizes go from 1 to ten times those included or half the samples, each the largest for its steps."""
    found = _curve_sizes(samples, included)
    assert set(sizes) <= set(found)
    assert (found[0], found[-1]) == (sizes[0], sizes[-1])
    others = np.setdiff1d(found, included)
    np.testing.assert_array_equal(others, np.floor(samples / np.floor(samples / others)))
    assert len(found) <= 12


def test_as_many_samples_as_a_search_looks_at_make_one_pass():
    """8 samples and a fifth more are within 10, as without a sample; 9 are not, and some passes have no theory."""
    problem = st.LeastSquares([1.0, 0.3], [0.5, 0.4], 0.3)
    given = {"algorithm": st.Algorithm(schedule=st.Linear(), average=st.LastIterate()), "curve": False}
    sample = problem.with_samples(10, replacement=False)
    once, plain = (st.critical_batch_size(each, num_samples=8, **given) for each in (sample, problem))
    assert (once.batch_size, once.optimal_risk) == (plain.batch_size, plain.optimal_risk)
    with pytest.raises(ValueError, match="for reshuffled passes"):
        st.critical_batch_size(sample, num_samples=9, **given)
