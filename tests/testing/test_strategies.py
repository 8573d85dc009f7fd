"""Draws of the strategies are valid, reach every kind, and shrink to settings that can be checked by hand."""

import hypothesis
import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.algorithms import KINDS, LinearMethod

QUICK = hypothesis.settings(max_examples=150, deadline=None, database=None, derandomize=True)


def drawn(strategy, count=150):
    """So many draws of a strategy, the same in every run."""
    found = []

    @hypothesis.settings(QUICK, max_examples=count, phases=[hypothesis.Phase.generate])
    @hypothesis.given(strategy)
    def collect(value):
        found.append(value)

    collect()
    return found


def simplest(strategy, wrong):
    """The counterexample to `not wrong` that Hypothesis ends with."""
    failed = []

    @hypothesis.settings(QUICK, max_examples=2000)
    @hypothesis.given(strategy)
    def search(value):
        if wrong(value):
            failed.append(value)
            raise AssertionError

    with pytest.raises(AssertionError):
        search()
    return failed[-1]


def test_settings_are_stable_and_have_whole_steps():
    for setting in drawn(st.testing.settings(least_steps=3, most_steps=1e6, largest_batch=64, edge=0.5)):
        problem, batch, rate, samples = setting
        assert 1 <= batch <= 64
        assert 3 <= samples / batch <= 1e6
        assert samples % batch == 0
        assert rate <= 0.5 / (problem.largest_eigenvalue + (problem.trace + problem.largest_eigenvalue) / batch)
        assert np.isfinite(st.excess_risk(problem, **setting.run).total)


def test_problems_reach_both_kinds_and_their_limits():
    found = drawn(st.testing.problems(largest_dim=3))
    finite = [problem for problem in found if problem.dim]
    assert {problem.dim for problem in finite} == {1, 2, 3}
    assert {problem.dim for problem in found} == {1, 2, 3, None}
    assert any(problem.noise_variance == 0 for problem in found)
    assert min(problem.largest_eigenvalue for problem in finite) < 0.1
    assert max(problem.largest_eigenvalue for problem in finite) > 10
    assert any(0.0 in problem.signal for problem in finite)
    assert not any(problem.noise_variance for problem in drawn(st.testing.problems(noise=False)))
    assert all(problem.dim for problem in drawn(st.testing.problems(power_laws=False)))


@pytest.mark.slow
def test_settings_shrink_to_one_direction_and_one_step():
    problem, batch, rate, samples = simplest(st.testing.settings(), lambda setting: True)
    np.testing.assert_array_equal(problem.directions(), [[1.0], [1.0]])
    assert (problem.noise_variance, batch, rate, samples) == (0.0, 1, 0.3, 1)  # γ = 0.9/R², R² = 3


def test_settings_shrink_to_what_is_needed():
    wrong = lambda setting: setting.problem.dim == 2 and setting.problem.noise_variance > 0.5 and setting.batch_size > 4  # noqa: E731
    problem, batch, _, samples = simplest(st.testing.settings(), wrong)
    np.testing.assert_array_equal(problem.directions(), [[1.0, 1.0], [1.0, 1.0]])
    assert (problem.noise_variance, batch, samples) == (1.0, 5, 5)


def test_algorithms_reach_every_registered_kind():
    """A kind that is added to the registry is drawn without a line here."""
    found = drawn(st.testing.algorithms(), 600)
    for part, kinds in KINDS.items():
        expected = {kind for kind in kinds.values() if part != "method" or issubclass(kind, LinearMethod)}
        assert {type(getattr(algorithm, part)) for algorithm in found} == expected
    assert all(algorithm.linear for algorithm in found)
    assert not all(algorithm.linear for algorithm in drawn(st.testing.algorithms(linear=False), 100))


@pytest.mark.slow
def test_algorithms_shrink_to_averaged_sgd():
    assert simplest(st.testing.algorithms(), lambda algorithm: True) == st.Algorithm()
