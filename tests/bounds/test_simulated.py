"""Simulated means beside exact and bound: agreement on Gaussian data, and each disagreement by name."""

import pytest

import sgdtheory as st

PROBLEM = st.LeastSquares([1.0, 0.5], [1.0, 1.0], noise_variance=1.0)
SETTINGS = [st.Setting(PROBLEM, 2, 0.3, [20, 40])]  # false alarms: 1e-4 a call, all points together


def test_gaussian_data_agree():
    found = st.compare(st.bounds.bach_moulines_2013, SETTINGS, simulate=1000)
    assert found.disagreements == ()
    assert found.simulated.mean == pytest.approx(found.exact, rel=0.3)
    assert (found.simulated.replicas, found.simulated.law) == (1000, "gaussian")


def test_other_data_disagree_with_the_exact_risk():
    """Negative control: features with heavier tails have other fourth moments."""
    found = st.compare(st.bounds.bach_moulines_2013, SETTINGS, simulate=8000, law="student_t")
    assert len(found.disagreements) == 1
    assert found.disagreements[0].startswith("the simulated mean and the exact risk differ at")
    assert "most at B = " in found.disagreements[0]


def test_a_violated_bound_is_told_by_both():
    half = lambda problem, **run: st.excess_risk(problem, **run).total / 2  # noqa: E731
    found = st.compare(half, SETTINGS, simulate=1000)
    assert [words.split(" at ")[0] for words in found.disagreements] == [
        "the exact risk violates the bound",
        "the simulated mean violates the bound",
    ]


def test_of_an_algorithm_and_a_part():
    tail = st.bounds.jain_2017.algorithm
    found = st.compare(lambda problem, **run: 1.0, SETTINGS, quantity="variance", algorithm=tail, simulate=1000)
    expected = st.excess_risk(PROBLEM, batch_size=2, learning_rate=0.3, num_samples=20, algorithm=tail)
    assert found.exact[0] == pytest.approx(expected.variance)
    assert found.disagreements == ()


@pytest.mark.slow
def test_an_order_is_not_violated():
    assert st.compare(st.bounds.zhang_2024, SETTINGS, simulate=200).disagreements == ()


def test_without_simulation_nothing_is_said():
    found = st.compare(st.bounds.bach_moulines_2013, SETTINGS)
    assert found.simulated is None
    assert found.disagreements == ()
