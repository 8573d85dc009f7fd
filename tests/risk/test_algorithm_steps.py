"""Every way of computing against T20 step by step, on random problems, methods, schedules and averages."""

import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

import sgdtheory as st
from sgdtheory.algorithms import Course
from sgdtheory.risk import course_risk, run_risks
from tests import dense_recursion
from tests.marks import half, slow

AVERAGES = {
    "last": st.LastIterate(),
    ("uniform", None): st.UniformAverage(),
    ("tail", 0.3): st.TailAverage(0.3),
    ("exponential", 0.98): st.ExponentialAverage(0.98),
}
SCHEDULES = (
    st.Constant(warmup=0.3),
    st.Cosine(),
    st.Cosine(final=0.1, warmup=0.1),
    st.Linear(),
    st.WSD(decay=0.3, warmup=0.05),
    st.WSD(decay=0.3, power=0.5),
    st.PowerDecay(0.5),
    st.PowerDecay(0.4, decay=0.3),
    st.PowerDecay(3.0),
    st.Stages([0, 0.2, 0.2002, 0.7], [1, 0.0, 1.1, 0.3]),
)


class Own(st.LinearMethod):
    """A user's method: three vectors, coefficients that depend on the step in no smooth way."""

    start, output, step_dependence = (1, 0, 1), (0.5, 0, 0.5), "any"

    def coefficients(self, rate, step):
        sign = 0.1 * np.cos(np.asarray(step) * 2.0)
        return st.Coefficients(
            A=[[1, -0.2 * rate, 0], [sign, 0.3, 0], [0.1, 0, 0.9]], b=[rate, -0.5, 0], c=[0.7, 0, 0.3]
        )


METHODS = (
    st.SGD(),
    st.SGD(weight_decay=0.05),
    st.HeavyBall(0.8),
    st.Nesterov(0.6),
    st.ScheduleFree(0.9),
    st.ScheduleFree(0.0),
    st.AcceleratedSGD(0.8, 0.2, 3.0),
    Own(),
)


def errors(problem, algorithm, batch, rate, steps, average):
    """Relative errors of bias and variance, those below 1e-15 of the initial risk aside; of their sum, over 10 times
    the estimate of it.
    """
    slow = dense_recursion.risk(problem, algorithm, batch=batch, rate=rate, num_steps=steps, average=average)
    found = course_risk(problem, Course(algorithm, float(batch), rate, float(steps)))
    counts = slow > 1e-15 * problem.initial_risk
    error = np.abs(found.parts / np.where(counts, slow, 1.0) - counts)
    return error, abs(found.parts.sum() / slow.sum() - 1) / (10 * found.error + 1e-10)


@pytest.mark.parametrize(
    ("method", "ramp"),
    half(METHODS[:3:2], [st.Linear(final=4.0), st.Stages([0, 0.5, 0.75], [0.25, 0.5, 1.0]), st.Cosine()]),
    ids=str,
)
def test_batch_schedules(method, ramp):
    problem = st.LeastSquares([1.0, 0.3, 0.01], [0.3, 0.5, 0.2])
    algorithm = st.Algorithm(method, batch_schedule=ramp, average=st.LastIterate())
    error, _ = errors(problem, algorithm, 9, 0.1, 1200, "last")
    assert error.max() < 1e-10


@pytest.mark.parametrize("shape", ["optax", "array", "function"])
def test_functions_and_arrays_as_schedules(shape):
    problem, steps = st.LeastSquares([1.0, 0.1], [0.5, 0.5]), 400
    schedule = {
        "optax": optax.warmup_cosine_decay_schedule(0.0, 1.0, 40, steps),
        "array": np.linspace(1, 0, steps),
        "function": lambda step: 1 / (1 + float(step)),  # of one number
    }[shape]
    algorithm = st.Algorithm(schedule=schedule, average=st.LastIterate())
    error, estimate = errors(problem, algorithm, 3, 0.4, steps, "last")
    assert error.max() < 1e-12
    assert estimate < 1


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    seed=some.integers(0, 2**32 - 1),
    steps=some.sampled_from([1, 2, 3, 31, 32, 33, 64, 257, 700]),
    batch=some.sampled_from([1, 2, 17, 4096]),
    method=some.sampled_from(METHODS),
    schedule=some.sampled_from(SCHEDULES),
    average=some.sampled_from(list(AVERAGES)),
)
def test_any_combination(seed, steps, batch, method, schedule, average):
    """And the estimate of the error is never too low by more than a factor of 10 where it matters."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 7))
    eigenvalues = np.append(1.0, 10.0 ** -(4 * rng.random(size - 1)))
    problem = st.LeastSquares(eigenvalues, rng.random(size), noise_variance=float(rng.random()))
    rate = 0.3 * min(1.0, batch / 3) * rng.random() / problem.largest_eigenvalue
    error, estimate = errors(
        problem, st.Algorithm(method, schedule, average=AVERAGES[average]), batch, rate, steps, average
    )
    assert error.max() < 1e-8
    assert estimate < 1


@pytest.mark.slow  # ten seconds
def test_infinite_dimension_is_the_limit_of_many():
    """Modes and every direction, at a step number where both have learnt the same."""
    listed = st.LeastSquares(*st.PowerLaw(2.0, 2.5, 700).directions())
    for algorithm in (
        st.Algorithm(st.HeavyBall(0.9), average=st.LastIterate()),
        st.Algorithm(schedule=st.Cosine(), average=st.LastIterate()),
        st.Algorithm(st.ScheduleFree(0.9), average=st.LastIterate()),
    ):
        setting = {"batch_size": 8, "learning_rate": 0.05, "num_samples": 8e6, "algorithm": algorithm}
        merged, all_ = (st.excess_risk(problem, **setting) for problem in (st.PowerLaw(2.0, 2.5, 700), listed))
        np.testing.assert_allclose([merged.bias, merged.variance], [all_.bias, all_.variance], rtol=2e-10)


def test_smooth_shapes_at_a_trillion_steps():
    """Close to the limit of ever more steps: the risk falls as a power of n, without jumps."""
    algorithm = st.Algorithm(schedule=st.Cosine(), average=st.LastIterate())
    steps = np.array([1e10, 1e11, 1e12])
    risk = st.excess_risk(
        st.PowerLaw(2.0, 3.0), batch_size=16, learning_rate=0.5, num_samples=16 * steps, algorithm=algorithm
    )
    slopes = np.diff(np.log10(risk.bias)), np.diff(np.log10(risk.variance))
    np.testing.assert_allclose(slopes[0], -1.0, atol=1e-4)  # (nγ)^{−(b−1)/a}
    np.testing.assert_allclose(slopes[1], -0.5, atol=1e-2)  # noise of the end alone would give −(1 − 1/a)
    assert (np.asarray(risk.relative_error) < 1e-8).all()


@pytest.mark.parametrize("average", [slow(st.LastIterate()), slow(st.UniformAverage()), st.TailAverage(0.3)], ids=str)
@pytest.mark.parametrize("method", [st.SGD(), st.Nesterov(0.8)], ids=lambda method: type(method).__name__)
def test_panels_side_by_side(method, average):
    """Runs on panels at once, stable and not, those with other lengths beside them, are those runs one by one."""
    problem = st.PowerLaw(1.5, 2.2, dim=300, noise_variance=0.3)
    algorithm = st.Algorithm(method, schedule=st.Cosine(warmup=0.1), average=average)
    settings = [(rate, steps) for steps in (3000.0, 900.0, 3001.0) for rate in (0.01, 0.3, 300.0)]
    courses = [Course(algorithm, 7.5, *setting, rounded=False) for setting in settings]
    rates, steps = np.array(settings).T
    found, error, _ = run_risks(problem, algorithm, np.full(9, 7.5), rates, steps, rounded=False)
    single = [course_risk(problem, course) for course in courses]
    stable = np.array([rate < 1 for rate, _ in settings])
    np.testing.assert_allclose(found[:, stable], np.array([one.parts for one in single]).T[:, stable], rtol=1e-9)
    np.testing.assert_allclose(error[stable], np.array([one.error for one in single])[stable], rtol=1e-2, atol=1e-12)
    assert (np.isinf(found.sum(0)) == [np.isinf(one.parts.sum()) for one in single]).all()
    assert np.isinf(found[:, -1].sum()), "control: the largest learning rate diverges"
