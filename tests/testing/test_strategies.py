"""Draws of the strategies are valid, reach every kind, and shrink to settings that can be checked by hand."""

import hypothesis
import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.algorithms import KINDS, LinearMethod, parameters

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


def test_problems_stay_in_their_ranges():
    """Exponents in tenths; λ_1, the other eigenvalues, signal and noise as the docstring says; all signal alone too."""
    found = drawn(st.testing.problems(), 600)
    laws = [problem for problem in found if isinstance(problem, st.PowerLaw)]
    for exponents, largest in (([law.capacity for law in laws], 4.0), ([law.source for law in laws], 8.0)):
        np.testing.assert_allclose(exponents, np.round(exponents, 1))
        assert 1.1 <= min(exponents) < 1.5
        assert 0.9 * largest < max(exponents) <= largest
    finite = [problem for problem in found if problem.dim]
    assert {problem.dim for problem in finite} == {1, 2, 3, 4, 5, 6}
    assert 0.1 * len(found) < len(laws) < 0.7 * len(found)
    largest = np.array([problem.largest_eigenvalue for problem in finite])
    assert 1e-3 <= largest.min() < 0.01
    assert 1e3 < largest.max() < 1e4
    assert all(1e-6 * problem.largest_eigenvalue <= problem.eigenvalues.min() for problem in finite)
    assert all(problem.signal.max() < 10 for problem in finite)
    alone = [problem.signal for problem in finite if problem.dim > 1 and sum(problem.signal > 0) == 1]
    assert any(signal[0] > 0 for signal in alone)
    assert any(signal[-1] > 0 for signal in alone)
    assert {0.0} < {problem.noise_variance for problem in found}
    assert max(problem.noise_variance for problem in found) < 1e7


def test_batch_sizes_steps_and_rates_of_every_size():
    """One to a thousand, one to a billion, and next to nothing to just below the edge; all first ten of either."""
    found = drawn(st.testing.settings(st.testing.problems(power_laws=False)), 800)
    batch = np.array([setting.batch_size for setting in found])
    steps = np.array([setting.num_samples / setting.batch_size for setting in found])
    assert set(range(1, 11)) <= set(batch.tolist())
    assert set(range(1, 11)) <= set(steps.tolist())
    assert 500 < batch.max() <= 1000
    assert 5e8 < steps.max() <= 1e9
    assert set(range(9)) <= set(np.floor(np.log10(steps)).tolist())
    edges = [
        1 / (problem.largest_eigenvalue + (problem.trace + problem.largest_eigenvalue) / size)
        for problem, size, *_ in found
    ]
    share = np.array([setting.learning_rate for setting in found]) / edges
    assert 1e-12 * (1 - 1e-2) <= share.min() < 1e-9
    assert 0.999 < share.max() < 1


def test_numbers_of_algorithms_are_those_of_the_sliders():
    found = drawn(st.testing.algorithms(linear=False), 600)
    stages = [algorithm.schedule for algorithm in found if isinstance(algorithm.schedule, st.Stages)]
    assert {value for each in stages for value in each.values} == {k / 10 for k in range(1, 11)}
    assert {start for each in stages for start in each.fractions} == {k / 10 for k in range(10)}
    for algorithm in found:
        for part in KINDS:
            kind = getattr(algorithm, part)
            for name, parameter in parameters(type(kind)).items():
                slider = parameter.of_batch if part == "batch_schedule" and parameter.of_batch else parameter.slider
                if slider and not isinstance(kind, st.Stages):
                    stops = (getattr(kind, name) - slider.low) / slider.step
                    assert stops == pytest.approx(round(stops), abs=1e-6)
                    assert slider.low <= getattr(kind, name) <= slider.high


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
