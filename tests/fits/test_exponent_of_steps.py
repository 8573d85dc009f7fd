"""The test of the exponent of `steps = a + b/B^α`, against scipy's least squares, and what intervals make of it."""

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import least_squares

import sgdtheory as st

B = np.array([16.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 4096.0])


def measured(alpha, seed=0, scatter=0.02):
    noise = np.random.default_rng(seed).normal(0.0, scatter, B.size)
    return (1000 + 1000 * (300 / B) ** alpha) * np.exp(noise)


def least_squares_of(steps, alpha=None):
    def residuals(x):
        return np.log(steps) - np.log(np.exp(x[0]) + np.exp(x[1]) * B ** -(x[2] if alpha is None else alpha))

    found = least_squares(residuals, [np.log(steps.min()), np.log(steps[0] * B[0]), *([1.0] if alpha is None else [])])
    return 2 * found.cost


@pytest.mark.parametrize("alpha", [1.0, 1.3])
def test_it_is_the_f_test_of_nested_laws(alpha):
    steps = measured(alpha)
    law = st.fit_steps_law(B, steps)
    narrow, wide = least_squares_of(steps, 1.0), least_squares_of(steps)
    freedom = B.size - 3
    expected = stats.f.sf((narrow - wide) / (wide / freedom), 1, freedom)
    assert law.shape_test.p_value == pytest.approx(expected, rel=1e-3)
    assert (law.shape_test.p_value < 0.05) == (alpha != 1)


def test_an_exponent_outside_of_the_range_widens_what_has_the_same_unit_alone():
    law = st.fit_steps_law(B, measured(1.5))
    other = law.shape_test.law
    assert law.shape_test.p_value_of_range < 0.05
    inside = {
        name: law.interval(name)[0] <= value <= law.interval(name)[1]
        for name, value in (("critical_batch_size", other.critical_batch_size()), ("a", other.a), ("b", other.b))
    }
    assert inside == {"critical_batch_size": True, "a": True, "b": False}


@pytest.mark.parametrize("alpha", [0.9, 1.0, 1.2])
def test_intervals_admit_the_fitted_exponent(alpha):
    """Negative control: with α = 1 known, and not rejected, the interval is short and excludes the fitted exponent."""
    law = st.fit_steps_law(B, measured(alpha))
    known = st.fit_steps_law(B, measured(alpha), alpha_range=(1, 1))
    other = law.shape_test.law.critical_batch_size()
    low, high = law.interval()
    assert low < other < high
    first, last = known.interval()
    if alpha == 1:
        assert low < first < last < high
        assert law.shape_test.p_value > 0.2
        assert last / first < 1.3
        assert not first < other < last


def test_three_batch_sizes_and_exact_steps_have_no_test_of_the_exponent():
    law = st.fit_steps_law(B[:3], measured(1.0)[:3])
    assert law.exponents == (1, 1)
    assert law.shape_test is None
    assert st.fit_steps_law(B, measured(1.0), standard_errors=np.full(B.size, 1e-9)).shape_test is None


def test_a_range_of_exponents_must_hold_the_one_given():
    for alpha in (1.5, None):
        with pytest.raises(ValueError, match="alpha_range must go from a least to a largest exponent"):
            st.fit_steps_law(B, measured(1.0), alpha=alpha, alpha_range=(0.8, 1.25))
