"""Moments of the last iterate against the recursion of second moments (THEORY.md T2), in floats and in many digits."""

import mpmath
import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.algorithms import Course
from sgdtheory.risk import THRESHOLDS, iterate_moments
from tests import oracle
from tests.marks import slow
from tests.random_problems import random_case
from tests.scaled import SCALES, Scaled


def moments(problem, batch, rate, steps):
    settings = np.broadcast(*(np.asarray(v, dtype=float) for v in (batch, rate, steps)))
    found = iterate_moments(problem, [Course(st.Algorithm(), *(float(v) for v in each)) for each in settings])
    return found.reshape(3, *settings.shape)


def by_recursion(eigenvalues, signal, noise, batch, rate, steps):
    """(3, len(steps)) Σ λ^k r(n) for k = 0, 1, 2 by iterating (T2), at increasing n."""
    eigenvalues = np.asarray(eigenvalues, dtype=float)
    x, r = rate * eigenvalues, np.array(signal, dtype=float)
    alpha, v, found = (1 - x) ** 2 + x**2 / batch, x**2 / batch, []
    for n in range(1, max(steps) + 1):
        r = alpha * r + v * (r.sum() + noise)
        if n in steps:
            found.append([r.sum(), eigenvalues @ r, eigenvalues**2 @ r])
    return np.array(found).T


def in_many_digits(eigenvalues, signal, noise, batch, rate, steps, digits=60):
    """Σ λ^k r(n) for k = 0, 1, 2 by powers of the one-step map of (r, 1)."""
    with mpmath.workdps(digits):
        d = len(eigenvalues)
        values = [mpmath.mpf(float(value)) for value in eigenvalues]
        x = [mpmath.mpf(float(rate)) * value for value in values]
        step, state = mpmath.zeros(d + 1, d + 1), mpmath.zeros(d + 1, 1)
        step[d, d] = state[d] = 1
        for i in range(d):
            gain = x[i] ** 2 / mpmath.mpf(float(batch))
            for j in range(d):
                step[i, j] = gain
            step[i, i] += (1 - x[i]) ** 2 + gain
            step[i, d] = gain * mpmath.mpf(float(noise))
            state[i] = mpmath.mpf(float(signal[i]))
        remaining = int(steps)
        while remaining:
            if remaining & 1:
                state = step * state
            remaining >>= 1
            step = step * step if remaining else step
        return [mpmath.fsum(value**k * state[i] for i, value in enumerate(values)) for k in range(3)]


@pytest.mark.parametrize("seed", range(12))
def test_finite_problems_against_the_recursion(seed):
    rng = np.random.default_rng(seed)
    d, batch = int(rng.integers(1, 20)), int(10 ** rng.uniform(0, 4))
    problem = st.LeastSquares(
        10.0 ** -(4 * rng.random(d)), 10.0 ** -(6 * rng.random(d)), noise_variance=10.0 ** rng.uniform(-6, 2)
    )
    rate = rng.uniform(0.02, 0.999) * st.max_stable_learning_rate(problem, batch_size=batch)
    steps = [1, 2, 3, 7, THRESHOLDS.few_steps, THRESHOLDS.few_steps + 1, 100, 1001, 5000]
    expected = by_recursion(*problem.directions(), problem.noise_variance, batch, rate, steps)
    np.testing.assert_allclose(moments(problem, batch, rate, steps), expected, rtol=1e-10)


@pytest.mark.parametrize("seed", [*range(15), *map(slow, range(15, 40))])
def test_random_cases_in_many_digits(seed):
    """Spectra over 12 decades, B to 1e6, n to 1e12, γ from 1e-8 to 0.999 of the edge; label noise of variance 1."""
    case = random_case(np.random.default_rng(3000 + seed))
    found = moments(case.problem, case.batch_size, case.learning_rate, case.num_steps)
    exact = in_many_digits(
        *case.problem.directions(), 1.0, case.batch_size, case.learning_rate, case.num_steps, digits=80
    )
    for value, reference in zip(found, exact, strict=True):
        assert oracle.relative_error(value, reference) < 1e-10


@pytest.mark.parametrize("seed", [*range(6), *map(slow, range(6, 15))])
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_few_steps_in_many_digits(seed, noise):
    """Up to 40 steps on both sides of the switch of methods, stable or not."""
    rng = np.random.default_rng(4000 + seed)
    case = random_case(rng, unstable=bool(seed % 3 == 0))
    problem = st.LeastSquares(*case.problem.directions(), noise)
    for steps in (1, 2, THRESHOLDS.few_steps, THRESHOLDS.few_steps + 1, 40):
        found = moments(problem, case.batch_size, case.learning_rate, steps)
        exact = in_many_digits(*problem.directions(), noise, case.batch_size, case.learning_rate, steps)
        for value, reference in zip(found, exact, strict=True):
            assert oracle.relative_error(value, reference) < 1e-9


@pytest.mark.parametrize("dim", [100, 300, 1000])
@pytest.mark.parametrize(("batch", "steps"), [(1, 20), (1, 3000), (64, 10**7)])
def test_a_power_law_equals_its_explicit_spectrum(dim, batch, steps):
    index = np.arange(1.0, dim + 1)
    explicit = st.LeastSquares(index**-1.4, index**-2.2, 0.5)
    rate = 0.7 * st.max_stable_learning_rate(explicit, batch_size=batch)
    found = moments(st.PowerLaw(1.4, 2.2, dim, 0.5), batch, rate, steps)
    np.testing.assert_allclose(found, moments(explicit, batch, rate, steps), rtol=1e-10)


def zeta_moments(capacity, source, noise, batch, rate, steps, digits=120):
    """Infinitely many directions exactly: r_i(n) is a polynomial in x = γλ_i, times s_i or 1, and Σ x^k a ζ."""
    with mpmath.workdps(digits):
        a, b, rate, batch = (mpmath.mpf(float(value)) for value in (capacity, source, rate, batch))
        longest = 2 * steps + 5
        with_signal = [rate**k * mpmath.zeta(k * a + b) for k in range(longest)]
        without = [mpmath.mpf(0)] + [rate**k * mpmath.zeta(k * a) for k in range(1, longest)]
        alpha, signal, counting = [1, -2, 1 + 1 / batch], [mpmath.mpf(1)], [mpmath.mpf(0)] * 3
        for _ in range(steps):
            drive = (dot(signal, with_signal) + dot(counting, without) + noise) / batch
            signal, counting = times(signal, alpha), times(counting, alpha)
            counting[2] += drive
        return [(dot([0] * k + signal, with_signal) + dot([0] * k + counting, without)) / rate**k for k in range(3)]


def times(p, q):
    product = [mpmath.mpf(0)] * (len(p) + len(q) - 1)
    for i, left in enumerate(p):
        for j, right in enumerate(q):
            product[i + j] += left * right
    return product


def dot(p, q):
    return mpmath.fsum(left * right for left, right in zip(p, q, strict=False))


@pytest.mark.parametrize(("capacity", "source"), [(1 + 1e-6, 1 + 1e-6), (1.3, 4.0), (2.0, 3.0), (4.0, 8.0)])
@pytest.mark.parametrize(("steps", "rate"), [(1, 1.3), (7, 0.3), (36, 0.9), (36, 1e-4)])
def test_infinite_dimension_against_the_zeta_function(capacity, source, steps, rate):
    found = moments(st.PowerLaw(capacity, source, noise_variance=0.4), 16, rate, steps)
    for value, exact in zip(found, zeta_moments(capacity, source, 0.4, 16, rate, steps), strict=True):
        assert oracle.relative_error(value, exact) < 1e-10


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("steps", [33, 400])
def test_beyond_the_stability_edge(seed, steps):
    case = random_case(np.random.default_rng(5000 + seed), unstable=True)
    found = moments(case.problem, case.batch_size, case.learning_rate, steps)
    exact = in_many_digits(*case.problem.directions(), 1.0, case.batch_size, case.learning_rate, steps)
    for value, reference in zip(found, exact, strict=True):
        if np.isfinite(value):
            assert oracle.relative_error(value, reference) < 1e-9
        else:
            assert reference > 1e300


def test_divergence_is_not_finite_and_others_are_unaffected():
    problem = st.PowerLaw(2, 3)
    found, alone = moments(problem, 1, [0.1, 50.0], 1e6), moments(problem, 1, 0.1, 1e6)
    assert not np.isfinite(found[:, 1]).any()
    np.testing.assert_allclose(found[:, 0], alone, rtol=1e-10)


@pytest.mark.parametrize("eigenvalues", [[1.0], [1.0, 0.3], [1.0, 0.5, 0.01]])
def test_without_noise_what_has_decayed_keeps_its_digits(eigenvalues):
    """Exponential decay, exact in 400 digits."""
    problem = st.LeastSquares(eigenvalues, np.ones(len(eigenvalues)), 0.0)
    for steps in (20, 33, 60, 75, 90, 150, 1000, 2209, 2385, 10**5, 10**8):
        found = moments(problem, 4, 0.5, steps)
        exact = in_many_digits(*problem.directions(), 0.0, 4, 0.5, steps, digits=400)
        for value, reference in zip(found, exact, strict=True):
            assert oracle.relative_error(value, reference) < 1e-8 or reference < 1e-300


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("problem", [st.PowerLaw(1.5, 2.5), st.LeastSquares([2.0, 0.3], [1.0, 0.5], 0.7)])
def test_units_of_the_eigenvalues_do_not_matter(problem, scale):
    """λ → cλ, γ → γ/c multiplies `Σ λ^k r` by c^k, by both evaluations."""
    steps = np.array([1, 9, 33, 700, 10**8])
    for batch in (1, 40):
        for share in (1e-6, 0.3, 0.95):
            rate = share * st.max_stable_learning_rate(problem, batch_size=batch)
            found, scaled = (
                moments(problem, batch, rate, steps),
                moments(Scaled(problem, scale), batch, rate / scale, steps),
            )
            np.testing.assert_allclose(scaled / scale ** np.arange(3.0)[:, None], found, rtol=1e-9)


@pytest.mark.parametrize("steps", [5, 1000])
def test_without_signal_and_noise_the_moments_are_zero(steps):
    np.testing.assert_array_equal(moments(st.LeastSquares([1.0, 0.5], [0.0, 0.0], 0.0), 2, 0.3, steps), np.zeros(3))


def test_no_settings_no_moments():
    assert moments(st.PowerLaw(2, 3), 1, np.empty((0, 4)), 5).shape == (3, 0, 4)


def test_broadcasting_equals_one_by_one():
    problem = st.PowerLaw(1.6, 2.5)
    batch, rate, steps = np.array([1, 8])[:, None, None], np.array([0.01, 0.4])[:, None], np.array([3, 5e3, 1e8])
    found = moments(problem, batch, rate, steps)
    assert found.shape == (3, 2, 2, 3)
    for i, j, k in np.ndindex(2, 2, 3):
        one = moments(problem, batch[i, 0, 0], rate[j, 0], steps[k])
        assert one.shape == (3,)
        np.testing.assert_allclose(found[:, i, j, k], one, rtol=1e-10)
