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


@pytest.mark.parametrize(("alpha", "number"), [(0.8, 4), (0.9, 5), (1.0, 7), (0.8, 7), (1.3, 7)])
@pytest.mark.parametrize("quantity", ["critical_batch_size", "knee"])
def test_who_admits_more_exponents_never_gets_a_shorter_interval(quantity, alpha, number):
    for seed in range(2):
        steps = measured(alpha, seed)[:number]
        law = st.fit_steps_law(B[:number], steps)
        low, high = law.interval(quantity)
        first, last = st.fit_steps_law(B[:number], steps, alpha_range=(1, 1)).interval(quantity)
        estimate = law.knee if quantity == "knee" else law.critical_batch_size()
        assert low <= first < estimate < last <= high


def test_the_estimate_lies_inside_where_the_residuals_reject_its_exponent():
    """Negative control: the confidence set of all exponents of the range alone excludes the law itself."""
    model = st.example_measurements()[1]
    law = st.fit_steps_law(model.batch_sizes, model.steps)
    low, high = law.interval("a")
    assert low < 0.99 * law.a < 1.01 * law.a < high
    alone = law._profile(0.95, law.exponents)
    assert not alone.extreme(lambda log_a, *_: log_a, -1) < law.a < alone.extreme(lambda log_a, *_: log_a, 1)


def test_steps_and_extra_data_admit_the_laws_of_a_dense_grid_that_fit_as_well():
    """The least and the largest over (α, b/a, a) of a grid in the confidence set with α, and in the one at α = 1."""
    steps = measured(0.9, seed=3)
    law = st.fit_steps_law(B, steps)
    alphas, log_ratios = np.append(np.linspace(0.8, 1.25, 181), 1.0), np.linspace(3, 9, 4001)
    alpha, log_ratio = alphas[:, None], log_ratios[None]
    gaps = np.log(steps) - np.logaddexp(0, log_ratio[..., None] - alpha[..., None] * np.log(B))
    log_a, squares = gaps.mean(-1), gaps.var(-1) * B.size
    limit = np.full((alphas.size, 1), squares.min() * (1 + stats.f.ppf(0.95, 1, B.size - 3) / (B.size - 3)))
    limit[-1] = squares[-1].min() * (1 + stats.f.ppf(0.95, 1, B.size - 2) / (B.size - 2))
    inside = squares <= limit
    reach = np.sqrt(np.maximum(limit - squares, 0) / B.size)
    for size in (100.0, 20_000.0):
        log_steps = log_a + np.logaddexp(0, log_ratio - alpha * np.log(size))
        ends = np.exp([(log_steps - reach)[inside].min(), (log_steps + reach)[inside].max()])
        assert np.ravel(law.steps_interval(size)) == pytest.approx(ends, rel=1e-3)
    samples = [size * (1 + np.exp(log_ratio) * size**-alpha) for size in (64.0, 1024.0)]
    share = (samples[1] / samples[0] - 1)[inside]
    assert law.extra_data_interval(64, 1024) == pytest.approx((share.min(), share.max()), rel=2e-3)
    assert law.extra_data_interval(64, 64) == pytest.approx((0, 0), abs=1e-12)


def test_a_known_exponent_that_the_steps_reject_admits_the_range_and_then_all():
    law = st.fit_steps_law(B, measured(0.9, scatter=0.01), alpha_range=(1, 1))
    assert law.wider_law.exponents == law.admitted_exponents == (0.8, 1.25)
    law = st.fit_steps_law(B, measured(1.5), alpha_range=(1, 1))
    assert law.wider_law.wider_law.alpha_fitted
    assert law.admitted_exponents == (0, np.inf)
    assert st.fit_steps_law(B, measured(1.0), alpha_range=(1, 1)).admitted_exponents == (1, 1)


def test_three_batch_sizes_and_exact_steps_have_no_test_of_the_exponent():
    law = st.fit_steps_law(B[:3], measured(1.0)[:3])
    assert law.exponents == (1, 1)
    assert law.shape_test is None
    repeated = np.repeat(B[:3], 2)
    assert st.fit_steps_law(repeated, np.repeat(measured(1.0)[:3], 2) * np.tile([1, 1.01], 3)).shape_test is None
    assert st.fit_steps_law(B[:4], measured(1.0)[:4]).shape_test is not None
    assert st.fit_steps_law(B, measured(1.0), standard_errors=np.full(B.size, 1e-9)).shape_test is None


def test_a_range_of_exponents_must_hold_the_one_given():
    for alpha in (1.5, None):
        with pytest.raises(ValueError, match="alpha_range must go from a least to a largest exponent"):
            st.fit_steps_law(B, measured(1.0), alpha=alpha, alpha_range=(0.8, 1.25))
