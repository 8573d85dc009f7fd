"""A user's schedule, as a function of the fraction of the run, against steps taken one by one."""

import jax
import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.algorithms import number_of_steps
from tests import dense_recursion
from tests.marks import slow

LAST = st.LastIterate()
PROBLEM = st.LeastSquares([1.0, 0.3, 0.02], [0.5, 0.4, 0.3], noise_variance=0.5)
SHAPES = {  # the fractions at which each begins to rise, to fall or to stay constant
    "power": (lambda u: (1 - u) ** 2, []),
    "increasing, with a jump": (lambda u: np.where(u < 0.37, 0.2 + 0.1 * u, 1.0), [0.37]),
    "one number at a time": (lambda u: 1.0 if u <= 0.5 else 0.3, [0.5]),
    "kink": (lambda u: np.abs(u - 0.618) + 0.1, [0.618]),
    "restarts": (lambda u: 1 - (3 * u) % 1, [1 / 3, 1 / 3, 2 / 3, 2 / 3]),
    "narrow": (lambda u: 1 - 0.9 * ((u > 0.4321) & (u < 0.4329)), [0.4321, 0.4329]),
    "the last thousandth": (lambda u: np.where(u >= 0.999, 0.1, 1.0), [0.999]),
    "period of a fifth": (lambda u: 1 + 0.5 * np.sin(10 * np.pi * u), np.arange(0.05, 1, 0.1)),
    "peak": (lambda u: 0.4 + np.exp(-(((u - 0.4) / 0.02) ** 2)), None),
    "infinite slope at the end": (lambda u: np.sqrt(1 - u), []),
    "JAX": (lambda u: jax.numpy.cos(np.pi / 2 * u), []),
}


@pytest.mark.parametrize("name", SHAPES)
def test_jumps_and_turning_points_are_located(name):
    function, expected = SHAPES[name]
    knots = np.array(st.Schedule(function).knots())
    if expected is None:
        assert np.abs(knots - 0.4).min() < 1e-6
    else:
        turns = np.unique(np.round(knots, 6))
        np.testing.assert_allclose(turns[turns < 1 - 1e-6], np.unique(np.round(expected, 6)), atol=2e-6)


@pytest.mark.parametrize("average", ["last", slow(("uniform", None))])
@pytest.mark.parametrize("name", SHAPES)
def test_the_risk_is_that_of_the_recursion(name, average):
    """400 steps of a k×k recursion that asks for γ_t at each of them."""
    algorithm = st.Algorithm(
        schedule=st.Schedule(SHAPES[name][0]), average=LAST if average == "last" else st.UniformAverage()
    )
    found = st.excess_risk(PROBLEM, batch_size=4, learning_rate=0.3, num_samples=1600, algorithm=algorithm)
    bias, variance = dense_recursion.risk(PROBLEM, algorithm, batch=4, rate=0.3, num_steps=400, average=average)
    assert found.bias == pytest.approx(bias, rel=1e-10 + found.relative_error)
    assert found.variance == pytest.approx(variance, rel=1e-10 + found.relative_error)


@pytest.mark.parametrize("steps", [30_000, slow(1_000_000)])
@pytest.mark.parametrize("name", [name for name in SHAPES if name not in ("one number at a time", "JAX")])
def test_long_runs_are_those_of_a_function_of_the_step(name, steps):
    function = SHAPES[name][0]
    setting = {"batch_size": 8, "learning_rate": 0.3, "num_samples": 8 * steps}
    own = st.excess_risk(PROBLEM, **setting, algorithm=st.Algorithm(schedule=st.Schedule(function), average=LAST))
    stepped = st.Algorithm(schedule=lambda step: function(step / steps), average=LAST)
    expected = st.excess_risk(PROBLEM, **setting, algorithm=stepped).total
    assert own.total == pytest.approx(expected, rel=1e-10 + own.relative_error)
    assert own.relative_error < 1e-6


@pytest.mark.parametrize("steps", [300, 70_000])
@pytest.mark.parametrize("name", [name for name in SHAPES if name not in ("one number at a time", "JAX")])
def test_batch_sizes_are_counted(name, steps):
    """D = Σ max(1, round(B f(t/n))), and one sample less allows a step less or, as stages may, the same number."""
    function = SHAPES[name][0]
    shape = st.Schedule(function)
    total = np.maximum(np.rint(50.0 * np.array(function(np.arange(steps) / steps))), 1.0).sum()
    assert number_of_steps(shape, 50.0, total) >= steps
    allowed = number_of_steps(shape, 50.0, total - 1)
    sizes = np.maximum(np.rint(50.0 * np.array(function(np.arange(allowed) / allowed))), 1.0)
    assert sizes.sum() <= total - 1


def test_a_built_in_schedule_written_as_a_function_has_the_same_critical_batch_size():
    """And the same as a function of the step is refused: on runs of other lengths it is another schedule."""
    named = st.Algorithm(schedule=st.PowerDecay(2), average=LAST)
    own = st.Algorithm(schedule=st.Schedule(lambda u: (1 - u) ** 2), average=LAST)
    asked = {"num_samples": 2e4, "curve": False}
    expected = st.critical_batch_size(PROBLEM, **asked, algorithm=named)
    found = st.critical_batch_size(PROBLEM, **asked, algorithm=own)
    assert (found.batch_size, found.num_steps) == (expected.batch_size, expected.num_steps)
    assert found.optimal_risk == pytest.approx(expected.optimal_risk, rel=1e-8)


@pytest.mark.parametrize("part", ["schedule", "batch_schedule"])
@pytest.mark.parametrize("search", [st.critical_batch_size, st.notions])
def test_searches_over_lengths_refuse_functions_of_the_step(search, part):
    algorithm = st.Algorithm(**{part: lambda step: np.clip(1 - step / 3125, 0, 1) ** 2}, average=LAST)
    message = rf"^{part} must stretch with the run .*; write st.Algorithm\({part}=st.Schedule\(lambda u"
    with pytest.raises(ValueError, match=message):
        search(PROBLEM, num_samples=1e4, algorithm=algorithm)


def test_searches_of_nonlinear_methods_refuse_them_too():
    algorithm = st.Algorithm(st.SignSGD(), schedule=lambda step: 1.0, average=LAST)
    with pytest.raises(ValueError, match="^schedule must stretch with the run"):
        st.critical_batch_size(PROBLEM, num_samples=1e4, algorithm=algorithm)


def test_at_a_given_length_functions_of_the_step_are_tuned():
    """`optimal_learning_rate` compares runs of one length only."""
    asked = {"batch_size": 4, "num_samples": 4 * 50}
    stepped = st.Algorithm(schedule=lambda step: 1 - step / 50, average=LAST)
    stretched = st.Algorithm(schedule=st.Schedule(lambda u: 1 - u), average=LAST)
    found = [st.optimal_learning_rate(PROBLEM, **asked, algorithm=each) for each in (stepped, stretched)]
    assert found[0].risk == pytest.approx(found[1].risk, rel=1e-6)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (0.5, "function must be a function of the fraction u = t/n of the run, got 0.5"),
        (lambda u: 0.5 - u, "schedule must be finite and not negative"),
        (lambda u: np.where(u > 0.5, np.nan, 1.0), "schedule must be finite and not negative, got nan"),
        (lambda u: u + 1j, "schedule must be real"),
    ],
)
def test_what_is_no_schedule_is_refused(function, message):
    with pytest.raises(ValueError, match=message):
        st.Schedule(function)


def test_simulated_steps_take_it():
    """|mean − exact| < 5 s.e. (false alarm 6e-7), and with twice the learning rate it fails."""
    algorithm = st.Algorithm(schedule=st.Schedule(lambda u: (1 - u) ** 2), average=LAST)
    setting = {"batch_size": 4, "num_samples": 400, "algorithm": algorithm}
    found = st.simulate(jax.random.key(0), PROBLEM, **setting, learning_rate=0.3, num_replicas=512)
    assert abs(found.z_score(st.excess_risk(PROBLEM, **setting, learning_rate=0.3).total)) < 5
    assert abs(found.z_score(st.excess_risk(PROBLEM, **setting, learning_rate=0.6).total)) > 5


def test_networks_refuse_it_in_one_sentence():
    """A run's config is a text that has to describe it whole."""
    with pytest.raises(ValueError, match="schedule must be"):
        st.training.TrainConfig(schedule=st.Schedule(lambda u: 1 - u))
