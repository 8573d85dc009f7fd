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


def test_a_rejected_exponent_widens_what_has_the_same_unit_alone():
    law = st.fit_steps_law(B, measured(1.3))
    other = law.shape_test.law
    inside = {
        name: law.interval(name)[0] <= value <= law.interval(name)[1]
        for name, value in (("critical_batch_size", other.critical_batch_size()), ("a", other.a), ("b", other.b))
    }
    assert inside == {"critical_batch_size": True, "a": True, "b": False}


def test_an_exponent_that_fits_leaves_intervals_as_they_are():
    """Negative control: at 20% the test rejects nothing here, and B* has the interval of α = 1."""
    law = st.fit_steps_law(B, measured(1.0))
    known = st.fit_steps_law(B, measured(1.0), standard_errors=np.full(B.size, 1e-9))
    assert law.shape_test.p_value > 0.2
    assert known.shape_test is None
    low, high = law.interval()
    assert high / low < 1.3
