import jax
import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.problems.modes import TAIL_NODES


def test_power_law_and_least_squares_agree():
    index = np.arange(1.0, 501)
    power, explicit = st.PowerLaw(1.7, 2.6, dim=500), st.LeastSquares(index**-1.7, index**-2.6)
    for name in ("trace", "initial_risk", "largest_eigenvalue"):
        assert getattr(power, name) == pytest.approx(getattr(explicit, name), rel=1e-13)
    thresholds = np.array([2.0, 1.0, 0.3, 1e-3, 1e-9, index[99] ** -1.7])
    count, same = power.count_above(thresholds), explicit.count_above(thresholds)
    np.testing.assert_array_equal(count, same)
    np.testing.assert_array_equal(count, [(index**-1.7 >= threshold).sum() for threshold in thresholds])
    for power_of in (1, 2):
        heads = power.head_signal(count, power_of), explicit.head_signal(same, power_of)
        np.testing.assert_allclose(*heads, rtol=1e-13)
    np.testing.assert_allclose(power.tail_signal(count), explicit.tail_signal(same), rtol=1e-12)
    np.testing.assert_allclose(power.tail_squares(count), explicit.tail_squares(same), rtol=1e-12)


@pytest.mark.parametrize("capacity", [1.01, 2.0, 3.0])
def test_count_above_at_its_own_eigenvalues(capacity):
    k = np.unique(np.floor(np.geomspace(1, 1e12, 200)))
    np.testing.assert_array_equal(st.PowerLaw(capacity, 2.0).count_above(k**-capacity), k)


def test_the_first_directions_alone():
    index = np.arange(1.0, 8)
    for problem in (st.PowerLaw(1.5, 2.5, noise_variance=0.3), st.PowerLaw(1.5, 2.5, 7, 0.3)):
        for dim in (1, 4, 7, 9):
            short = problem.truncated(dim)
            assert short.dim == (dim if problem.dim is None else min(dim, 7))
            assert (short.capacity, short.source, short.noise_variance) == (1.5, 2.5, 0.3)
    eigenvalues, signal = st.PowerLaw(1.5, 2.5, 7).directions()
    np.testing.assert_allclose(eigenvalues, index**-1.5, rtol=1e-15)
    np.testing.assert_allclose(signal, index**-2.5, rtol=1e-15)
    explicit = st.LeastSquares(eigenvalues[::-1], signal[::-1], 0.3).truncated(3)
    np.testing.assert_array_equal(explicit.directions(), [eigenvalues[:3], signal[:3]])
    assert (explicit.dim, explicit.noise_variance) == (3, 0.3)
    with pytest.raises(ValueError, match="dim=None has no list of directions"):
        st.PowerLaw(1.5, 2.5).directions()


def test_one_direction_and_unit_noise_are_the_least_and_the_default():
    assert st.PowerLaw(2, 3, dim=1).directions() == (1.0, 1.0)
    assert st.PowerLaw(2, 3).noise_variance == st.LeastSquares([1.0], [1.0]).noise_variance == 1.0
    assert st.PowerLaw(2, 3, noise_variance=0).noise_variance == 0.0
    assert st.PowerLaw(1.0001, 1.0001).capacity == 1.0001


def test_a_zero_eigenvalue_has_no_part_in_the_head():
    problem = st.LeastSquares([2.0, 0.0, 0.5], [1.0, 5.0, 3.0])
    for power in (1, 2):
        head = 1 / 2.0**power, 1 / 2.0**power + 3 / 0.5**power
        np.testing.assert_allclose(problem.head_signal([0, 1, 2, 3], power), [0.0, head[0], head[1], head[1]])
    np.testing.assert_array_equal(problem.tail_signal([0, 1, 2, 3]), [9.0, 8.0, 5.0, 0.0])
    np.testing.assert_array_equal(problem.tail_squares([0, 1, 2, 3]), [4.25, 0.25, 0.0, 0.0])
    np.testing.assert_array_equal(problem.count_above([3.0, 2.0, 0.5, 1e-300]), [0, 1, 2, 2])


@pytest.mark.parametrize("smallest", [0.9e-6, 1.1e-6, 3e-9, 2.0**-30])
def test_only_eigenvalues_below_what_was_asked_for_share_a_tail(smallest):
    tail = st.PowerLaw(1.4, 2.3).modes(smallest).eigenvalue[-TAIL_NODES:]
    assert smallest / 2.1 < tail.max() <= smallest


def test_unsorted_spectrum_is_sorted_with_its_signal():
    problem = st.LeastSquares([0.1, 1.0, 0.0], [1.0, 2.0, 0.0])
    np.testing.assert_array_equal(problem.eigenvalues, [1.0, 0.1, 0.0])
    np.testing.assert_array_equal(problem.signal, [2.0, 1.0, 0.0])
    with pytest.raises(ValueError, match="read-only"):
        problem.eigenvalues[0] = 3.0


def test_repr_of_least_squares_is_code_with_all_digits():
    eigenvalues = np.random.default_rng(0).uniform(size=7)
    problem = st.LeastSquares(eigenvalues, np.full(7, 0.1), noise_variance=1 / 3)
    assert "signal=[0.1] * 7" in repr(problem)
    again = eval(repr(problem), {"LeastSquares": st.LeastSquares})
    np.testing.assert_array_equal(again.eigenvalues, problem.eigenvalues)
    np.testing.assert_array_equal(again.signal, problem.signal)
    assert again.noise_variance == problem.noise_variance
    assert len(repr(st.LeastSquares(np.arange(1e6), np.ones(10**6)))) < 200
    for size in (1000, 1001):  # NumPy, too, abbreviates arrays of more than 1,000 entries.
        assert ("..." in repr(st.LeastSquares(np.arange(float(size)), np.ones(size)))) is (size > 1000)


def test_input_arrays_stay_the_callers():
    eigenvalues = np.array([1.0, 2.0])
    problem = st.LeastSquares(eigenvalues, [1.0, 1.0])
    eigenvalues[0] = 5.0
    np.testing.assert_array_equal(problem.eigenvalues, [2.0, 1.0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"capacity": 1, "source": 2}, r"capacity must be finite and greater than 1 \(trace-class covariance\), got 1"),
        ({"capacity": np.nan, "source": 2}, "capacity .* got nan"),
        ({"capacity": np.inf, "source": 2}, "capacity .* got inf"),
        ({"capacity": "two", "source": 2}, "capacity must be a number or an array of numbers, got 'two'"),
        ({"capacity": [2, 3], "source": 2}, "capacity must be a single number"),
        ({"capacity": 2, "source": 1}, "source must be finite and greater than 1 .* got 1.0"),
        ({"capacity": 2, "source": 2, "dim": 0}, "dim must be a whole number of at least 1, or None"),
        ({"capacity": 2, "source": 2, "dim": np.inf}, "dim must be .*, or None for infinity, got inf"),
        ({"capacity": 2, "source": 2, "dim": 2.5}, "dim must be a whole number"),
        ({"capacity": 2, "source": 2, "noise_variance": -1}, "noise_variance must be finite and not negative, got -1"),
        ({"capacity": 2, "source": 2, "noise_variance": np.nan}, "noise_variance"),
    ],
)
def test_bad_power_law(arguments, message):
    with pytest.raises(ValueError, match=message):
        st.PowerLaw(**arguments)


@pytest.mark.parametrize(
    ("eigenvalues", "signal", "noise", "message"),
    [
        ([1.0, -0.1], [1, 1], 1, "eigenvalues must be finite and not negative, got -0.1"),
        ([1.0, np.nan], [1, 1], 1, "eigenvalues must be finite and not negative, got nan"),
        ([1.0, 0.1], [1, -1], 1, "signal must be finite and not negative, got -1"),
        ([1.0, 0.1], [1, np.inf], 1, "signal must be finite and not negative, got inf"),
        ([1.0, 0.1], [1], 1, "signal must have one entry for each eigenvalue, got 1 for 2"),
        ([], [], 1, "eigenvalues must be a one-dimensional array with at least one entry"),
        ([[1.0]], [[1.0]], 1, "eigenvalues must be a one-dimensional array"),
        (["x"], [1.0], 1, "eigenvalues must be a number or an array of numbers"),
        ([1.0], [1.0], -2, "noise_variance must be finite and not negative, got -2"),
    ],
)
def test_bad_least_squares(eigenvalues, signal, noise, message):
    with pytest.raises(ValueError, match=message):
        st.LeastSquares(eigenvalues, signal, noise)


class Exponential(st.AbstractProblem):
    """A stranger's spectrum: `λ_i = e^(1−i)`, `s_i = 2^−i`, of 30 directions."""

    noise_variance = 0.5

    def directions(self):
        index = np.arange(1.0, 31.0)
        return np.exp(1 - index), 2**-index


def test_directions_are_all_that_a_new_spectrum_needs():
    """Everything that takes a problem takes it, and says what it says of the same list of numbers."""
    own = Exponential()
    same = st.LeastSquares(*own.directions(), noise_variance=0.5)
    setting = {"batch_size": 4, "learning_rate": 0.2, "num_samples": 4000}
    cosine = st.Algorithm(schedule=st.Cosine(), average=st.LastIterate())
    for call in (
        lambda problem: st.excess_risk(problem, **setting).total,
        lambda problem: st.excess_risk(problem, **setting, algorithm=cosine).total,
        lambda problem: st.theorem7(problem, **setting).total,
        lambda problem: st.max_stable_learning_rate(problem, batch_size=4),
        lambda problem: st.gradient_noise_scale(problem, **setting).simple,
        lambda problem: st.critical_batch_size(problem, num_samples=1e4, curve=False).batch_size,
        lambda problem: st.simulate(jax.random.key(0), problem, **setting, num_replicas=4).excess_risk,
        lambda problem: (problem.truncated(3).trace, problem.initial_risk, problem.dim, problem.tail_signal(2)),
    ):
        np.testing.assert_array_equal(call(own), call(same))


def test_what_is_left_out_of_a_problem_s_changes():
    """A preconditioner is H^−½, a sample is drawn with replacement and is the mean of all, unless something is said."""
    own = Exponential()
    for problem in (
        own,
        st.LeastSquares(*own.directions()),
        st.PowerLaw(3, 2, 9),
        st.PowerLaw(3, 2, 9).with_samples(7),
    ):
        plain, half = (
            (each.problem if hasattr(each, "problem") else each) for each in (problem, problem.preconditioned())
        )
        np.testing.assert_allclose(half.directions()[0], plain.directions()[0] ** 0.5, rtol=1e-14)
        np.testing.assert_array_equal(half.directions()[1], plain.directions()[1])
    finite = own.with_samples(7)
    assert (finite.seed, finite.replacement, finite.num_samples) == (None, True, 7)


@pytest.mark.parametrize("options", [{}, {"kind": "gaussian"}])
def test_fewer_directions_of_a_model_have_the_risk_that_its_features_miss(options):
    """It is part of their label noise, which stays."""
    own = Exponential()
    for problem in (st.PowerLaw(2, 3, 40), st.LeastSquares(*own.directions())):
        model = problem.with_features(6, **options)
        assert model.approximation_risk > 0
        assert model.truncated(3).approximation_risk == model.approximation_risk
        assert model.truncated(3).noise_variance == model.noise_variance
    own.approximation_risk = 0.25
    assert own.truncated(3).approximation_risk == 0.25
