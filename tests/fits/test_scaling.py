from typing import Any

import numpy as np
import pytest
from scipy import optimize, stats

import sgdtheory as st

BATCHES = 2.0 ** np.arange(6, 15)


def steps_of(a, b, alpha=1.0, noise=0.0, seed=0, batches=BATCHES):
    return (a + b / batches**alpha) * np.exp(noise * np.random.default_rng(seed).standard_normal(batches.size))


def law_of(a, b, alpha=1.0):
    return st.StepsLaw(a, b, alpha, False, BATCHES, steps_of(a, b, alpha))


def data_needed(law, batch):
    return law.a * batch + law.b * batch ** (1 - law.alpha)


# ------------------------------------------------------------------ the fit


@pytest.mark.parametrize("fitted", [False, True])
@pytest.mark.parametrize("alpha", [0.7, 1.0, 1.3])
def test_noiseless_law_is_recovered(alpha, fitted):
    law = st.fit_steps_law(BATCHES, steps_of(1600, 3e6, alpha), None if fitted else alpha)
    assert (law.a, law.b, law.alpha) == pytest.approx((1600, 3e6, alpha), rel=1e-9)
    assert law.alpha_fitted is fitted
    assert law.residual_std < 1e-12
    if not fitted:
        assert law.alpha == alpha


@pytest.mark.parametrize("ratio", [10, 1e9])
def test_a_term_counts_as_absent_only_where_no_batch_size_shows_it(ratio):
    """b/a between the batch sizes 1 and 1e10: one end sees b alone, the other a alone."""
    batches = np.geomspace(1, 1e10, 9)
    law = st.fit_steps_law(batches, 1 + ratio / batches)
    assert (law.a, law.b) == pytest.approx((1, ratio), rel=1e-6)


def test_alpha_is_1_unless_told_otherwise():
    law = st.fit_steps_law(BATCHES, steps_of(1600, 3e6, 1.3, noise=0.04))
    assert (law.alpha, law.alpha_fitted) == (1.0, False)


@pytest.mark.parametrize("alpha", [1.0, 1.3, None])
@pytest.mark.parametrize("seed", range(5))
def test_noisy_fit_agrees_with_curve_fit(seed, alpha):
    steps = steps_of(1600, 3e6, alpha or 1.1, noise=0.05, seed=seed)

    def log_law(batch, log_a, log_b, exponent=alpha):
        return np.log(np.exp(log_a) + np.exp(log_b) / batch**exponent)

    start = [np.log(1600), np.log(3e6)] + ([1.1] if alpha is None else [])
    best, _ = optimize.curve_fit(log_law, BATCHES, np.log(steps), start, ftol=1e-14, xtol=1e-14, gtol=1e-14)
    law = st.fit_steps_law(BATCHES, steps, alpha)
    found = [np.log(law.a), np.log(law.b)] + ([law.alpha] if alpha is None else [])
    assert found == pytest.approx(list(best), rel=1e-7)
    residuals = np.log(steps) - log_law(BATCHES, *best)
    assert law.residual_std == pytest.approx(np.sqrt((residuals**2).sum() / (9 - best.size)), rel=1e-9)
    np.testing.assert_allclose(law.residuals, residuals, atol=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_no_law_on_a_grid_fits_better(seed):
    """The landscape over (b/a, α) has more than one valley; noise large enough to open them."""
    rng = np.random.default_rng(seed)
    steps = steps_of(1600, 10 ** rng.uniform(4, 8), rng.uniform(0.6, 2), noise=0.2, seed=seed)
    law = st.fit_steps_law(BATCHES, steps, None)
    best = np.inf
    for alpha in np.geomspace(0.05, 20, 80):
        ratio = np.exp(np.linspace(alpha * np.log(64) - 20, alpha * np.log(16384) + 20, 600))
        gap = np.log(steps)[:, None] - np.log(1 + ratio / BATCHES[:, None] ** alpha)
        best = min(best, ((gap - gap.mean(0)) ** 2).sum(0).min())
    assert (law.residuals**2).sum() <= best * (1 + 1e-9)


@pytest.mark.parametrize("alpha", [0.7, 1.0, 1.4])
def test_without_plateau(alpha):
    law = st.fit_steps_law(BATCHES, steps_of(0, 3e6, alpha), alpha)
    assert law.a == 0
    assert law.b == pytest.approx(3e6, rel=1e-9)
    expected = 256 * 1.2 ** (1 / (1 - alpha)) if alpha < 1 else np.inf
    assert law.critical_batch_size() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("alpha", [1.0, 1.4])
def test_without_plateau_and_with_fitted_alpha(alpha):
    law = st.fit_steps_law(BATCHES, steps_of(0, 3e6, alpha), None)
    assert law.alpha == pytest.approx(alpha, rel=1e-8)
    assert law.a == 0
    assert law.critical_batch_size() == np.inf


def test_without_plateau_just_below_linear_scaling():
    """(1 + ω)^(1/(1 − α)) is beyond the largest float."""
    law = st.fit_steps_law(BATCHES, steps_of(0, 3e6, 0.9999), 0.9999)
    assert law.critical_batch_size() == np.inf


@pytest.mark.parametrize("alpha", [0.7, 1.0, 1.4, None])
def test_flat_steps(alpha):
    law = st.fit_steps_law(BATCHES, np.full(9, 1600.0), alpha)
    assert law.b == 0
    assert law.a == pytest.approx(1600, rel=1e-9)
    assert law.critical_batch_size(128, 0.5) == pytest.approx(192, rel=1e-12)


def test_noise_around_linear_scaling_may_leave_no_plateau():
    steps = 3e6 / BATCHES * np.where(BATCHES > 3000, 0.9, 1.0)  # superlinear: the best a ≥ 0 is 0
    law = st.fit_steps_law(BATCHES, steps)
    assert (law.a, law.critical_batch_size()) == (0.0, np.inf)
    assert np.log(law.b) == pytest.approx(np.log(steps * BATCHES).mean(), rel=1e-9)


def test_order_of_the_points_is_immaterial_and_replicates_are_allowed():
    steps, order = steps_of(1600, 3e6, noise=0.05), np.random.default_rng(1).permutation(9)
    law, shuffled = st.fit_steps_law(BATCHES, steps), st.fit_steps_law(BATCHES[order], steps[order])
    twice = st.fit_steps_law(np.tile(BATCHES, 2), np.tile(steps, 2))
    for other in (shuffled, twice):
        assert (other.a, other.b) == pytest.approx((law.a, law.b), rel=1e-8)
    assert twice.residual_std == pytest.approx(law.residual_std * np.sqrt(2 * 7 / 16), rel=1e-9)


def test_predict_takes_scalars_and_arrays():
    law = law_of(1600, 3e6, 1.3)
    assert law.predict(100) == pytest.approx(1600 + 3e6 / 100**1.3, rel=1e-14)
    assert law.predict([[1, 10]]).shape == (1, 2)


def test_residual_std_needs_more_points_than_parameters():
    assert np.isnan(st.StepsLaw(1.0, 1.0, 1.0, False, np.array([1.0, 2.0]), np.array([2.0, 1.5])).residual_std)


@pytest.mark.parametrize(
    ("batches", "steps", "alpha", "message"),
    [
        ([1, 2, 4], [5, 4], 1.0, r"one-dimensional and of one length, got shapes \(3,\) and \(2,\)"),
        ([[1, 2, 4]], [[5, 4, 3]], 1.0, "one-dimensional and of one length"),
        (3, 3, 1.0, "one-dimensional and of one length"),
        ([1, 2], [5, 4], 1.0, "batch_sizes must hold at least 3 different batch sizes, got 2"),
        ([1, 2, 2, 1], [5, 4, 3, 2], 1.0, "at least 3 different batch sizes, got 2"),
        ([], [], 1.0, "at least 3 different batch sizes, got 0"),
        ([1, 2, 4], [5, 4, 3], None, "at least 4 different batch sizes to fit alpha too, got 3"),
        ([1, 2, 0], [5, 4, 3], 1.0, "batch_sizes must be positive and finite, got 0.0"),
        ([1, 2, 4], [5, -4, 3], 1.0, "steps must be positive and finite, got -4.0"),
        ([1, 2, 4], [5, np.nan, 3], 1.0, "steps must be positive and finite, got nan"),
        ([1, 2, np.inf], [5, 4, 3], 1.0, "batch_sizes must be positive and finite, got inf"),
        ([1, 2, "x"], [5, 4, 3], 1.0, "batch_sizes must be a number or an array of numbers"),
        ([1, 2, 4], [5, 4, 3], 0.0, "alpha must be positive and finite, got 0.0"),
        ([1, 2, 4], [5, 4, 3], -1.0, "alpha must be positive and finite, got -1.0"),
    ],
)
def test_bad_measurements(batches, steps, alpha, message):
    with pytest.raises(ValueError, match=message):
        st.fit_steps_law(batches, steps, alpha)


# ------------------------------------------------------------------ the critical batch size


@pytest.mark.parametrize("seed", range(20))
def test_critical_batch_size_in_closed_form(seed):
    rng = np.random.default_rng(seed)
    a, b, reference, overhead = 10.0 ** rng.uniform([-3, -3, -1, -2], [6, 9, 4, 1])
    expected = overhead * b / a + (1 + overhead) * reference
    assert law_of(a, b).critical_batch_size(reference, overhead) == pytest.approx(expected, rel=1e-12)


def test_default_convention():
    law = law_of(1600.0, 3e6)
    assert law.critical_batch_size() == pytest.approx(0.2 * 3e6 / 1600 + 1.2 * 256, rel=1e-14)
    assert law.critical_batch_size(256, 0.2) == law.critical_batch_size(overhead=0.2, reference=256)


@pytest.mark.parametrize("alpha", [0.6, 0.8, 0.95, 1.0, 1.05, 1.3, 1.6, 2.0])
@pytest.mark.parametrize("seed", range(8))
def test_critical_batch_size_is_the_largest_root(seed, alpha):
    rng = np.random.default_rng(seed)
    a, reference, overhead = 10.0 ** rng.uniform([0, 0, -1.5], [4, 4, 0.5])
    law = law_of(a, a * (reference * 10 ** rng.uniform(-2, 3)) ** alpha, alpha)
    critical = law.critical_batch_size(reference, overhead)
    target = (law.a + law.b / reference**alpha) * (1 + overhead) * reference
    assert data_needed(law, critical) == pytest.approx(target, rel=1e-11)
    grid = np.geomspace(critical * 1e-9, critical * 1e9, 200_001)
    excess = data_needed(law, grid) - target
    last = np.flatnonzero(np.diff(np.sign(excess)))[-1]
    assert grid[last] <= critical * (1 + 1e-9)
    assert critical <= grid[last + 1] * (1 + 1e-9)
    assert (excess[grid > critical * (1 + 1e-9)] > 0).all()


def test_two_roots_when_scaling_is_superlinear():
    """α > 1 left of the least data: the smaller root is not the answer."""
    law = law_of(1.0, 1e4, 2.0)  # data B + 10⁴/B, least at B = 100
    target = 1.2 * (10 + 1e3)
    roots = np.sort(np.roots([1, -target, 1e4]))
    assert law.critical_batch_size(10, 0.2) == pytest.approx(roots[1], rel=1e-11)
    assert law.critical_batch_size(10, 0.2) != pytest.approx(roots[0], rel=1e-2)


@pytest.mark.parametrize("step", [1e-4, 1e-7, 1e-10])
def test_critical_batch_size_is_continuous_at_linear_scaling(step):
    critical = [law_of(1600, 3e6, alpha).critical_batch_size() for alpha in (1 - step, 1.0, 1 + step)]
    assert critical == pytest.approx([critical[1]] * 3, rel=20 * step + 1e-11)


@pytest.mark.parametrize("alpha", [0.7, 1.0, 1.4])
def test_units(alpha):
    """Batch sizes in another unit move B* with them, steps in another unit do not move it."""
    batches, steps, unit = BATCHES, steps_of(1600, 3e6, alpha, noise=0.05), 37.5
    critical = st.fit_steps_law(batches, steps, alpha).critical_batch_size(200, 0.3)
    rescaled = st.fit_steps_law(unit * batches, steps, alpha).critical_batch_size(unit * 200, 0.3)
    recounted = st.fit_steps_law(batches, unit * steps, alpha)
    assert rescaled == pytest.approx(unit * critical, rel=1e-7)
    assert recounted.critical_batch_size(200, 0.3) == pytest.approx(critical, rel=1e-7)
    assert recounted.a == pytest.approx(unit * st.fit_steps_law(batches, steps, alpha).a, rel=1e-7)


@pytest.mark.parametrize("alpha", [0.8, 1.0, 1.2])
def test_critical_batch_size_increases_with_both_conventions(alpha):
    law = law_of(1600, 3e6, alpha)
    by_overhead = [law.critical_batch_size(2000, overhead) for overhead in (0.01, 0.1, 0.5, 2)]
    by_reference = [law.critical_batch_size(reference, 0.2) for reference in (2000, 4000, 8000)]
    assert by_overhead == sorted(by_overhead)
    assert by_reference == sorted(by_reference)
    assert by_overhead[0] > 2000


@pytest.mark.parametrize(
    ("convention", "message"),
    [
        ({"reference": 0}, "reference must be positive and finite, got 0.0"),
        ({"reference": -256}, "reference must be positive and finite, got -256.0"),
        ({"reference": np.nan}, "reference must be positive and finite, got nan"),
        ({"reference": "big"}, "reference must be a number"),
        ({"overhead": 0}, "overhead must be positive and finite, got 0.0"),
        ({"overhead": -0.2}, "overhead must be positive and finite, got -0.2"),
        ({"overhead": np.inf}, "overhead must be positive and finite, got inf"),
    ],
)
def test_bad_convention(convention, message):
    law = law_of(1600, 3e6)
    with pytest.raises(ValueError, match=message):
        law.critical_batch_size(**convention)
    with pytest.raises(ValueError, match=message):
        law.interval(**convention)


# ------------------------------------------------------------------ powers of size

SIZES = np.array([85.0, 151, 302, 604, 1200])


def powers(seed, number=5, noise=0.1):
    rng = np.random.default_rng(seed)
    size = np.sort(10 ** rng.uniform(1, 4, number))
    return size, 93 * size**0.47 * np.exp(noise * rng.standard_normal(number))


@pytest.mark.parametrize("number", [3, 5, 12])
@pytest.mark.parametrize("seed", range(3))
def test_power_law_is_linear_regression_of_logs(seed, number):
    size, value = powers(seed, number)
    law = st.fit_power_law(size, value)
    line: Any = stats.linregress(np.log(size), np.log(value))
    slope, intercept = np.polyfit(np.log(size), np.log(value), 1)
    assert (law.exponent, np.log(law.coefficient)) == pytest.approx((slope, intercept), rel=1e-9)
    residuals = np.log(value) - intercept - slope * np.log(size)
    assert law.residual_std == pytest.approx(np.sqrt((residuals**2).sum() / (number - 2)), rel=1e-9)
    for level in (0.5, 0.95, 0.999):
        half = stats.t.ppf(0.5 + level / 2, number - 2) * line.stderr
        assert law.interval(level) == pytest.approx((slope - half, slope + half), rel=1e-9)
    assert law.interval() == law.interval(0.95)
    np.testing.assert_allclose(law.predict(size), np.exp(intercept) * size**slope, rtol=1e-9)


@pytest.mark.parametrize("new", [True, False])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_prediction_interval_of_the_textbook(level, new):
    """From the normal equations: se² = s² (1 + x₀ᵀ(XᵀX)⁻¹x₀) for a measurement, without the 1 for the mean."""
    size, value = powers(7, 6)
    design = np.stack([np.ones(6), np.log(size)], axis=1)
    beta, (rss,), *_ = np.linalg.lstsq(design, np.log(value))
    at = np.array([[1.0, 300.0], [5e3, 1e6]])
    rows = np.stack([np.ones_like(at), np.log(at)], axis=-1)
    leverage = np.einsum("...i,ij,...j", rows, np.linalg.inv(design.T @ design), rows)
    half = stats.t.ppf(0.5 + level / 2, 4) * np.sqrt(rss / 4 * (new + leverage))
    low, high = st.fit_power_law(size, value).prediction_interval(at, level, new_measurement=new)
    np.testing.assert_allclose(np.log(low), rows @ beta - half, rtol=1e-9)
    np.testing.assert_allclose(np.log(high), rows @ beta + half, rtol=1e-9)


def test_noiseless_power_law():
    law = st.fit_power_law(SIZES, 93 * SIZES**0.47)
    assert (law.coefficient, law.exponent) == pytest.approx((93, 0.47), rel=1e-12)
    assert law.interval() == pytest.approx((0.47, 0.47), rel=1e-10)
    assert law.prediction_interval(1e4) == pytest.approx((93 * 1e4**0.47,) * 2, rel=1e-10)


def test_two_points_leave_the_exponent_unlimited():
    law = st.fit_power_law([10, 1000], [2, 20])
    assert law.exponent == pytest.approx(0.5, rel=1e-14)
    assert np.isnan(law.residual_std)
    assert law.interval() == (-np.inf, np.inf)
    low, high = law.prediction_interval(np.array([1.0, 10.0, 1e4]))
    np.testing.assert_array_equal(low, np.zeros(3))
    np.testing.assert_array_equal(high, np.full(3, np.inf))


def test_units_of_size_only_move_the_coefficient():
    size, value = powers(3)
    law, other = st.fit_power_law(size, value), st.fit_power_law(1e6 * size, value)
    assert other.exponent == pytest.approx(law.exponent, rel=1e-10)
    assert other.interval() == pytest.approx(law.interval(), rel=1e-9)
    assert other.coefficient == pytest.approx(law.coefficient * 1e6**-law.exponent, rel=1e-9)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([1, 2], [1, 2, 3], r"one-dimensional and of one length, got shapes \(2,\) and \(3,\)"),
        ([[1, 2]], [[1, 2]], "one-dimensional and of one length"),
        ([2, 2, 2], [1, 2, 3], "x must hold at least 2 different values, got 1"),
        ([], [], "x must hold at least 2 different values, got 0"),
        ([1, 0], [1, 2], "x must be positive and finite, got 0.0"),
        ([1, 2], [1, -2], "y must be positive and finite, got -2.0"),
        ([1, 2], [1, np.inf], "y must be positive and finite, got inf"),
        (["a", 2], [1, 2], "x must be a number or an array of numbers"),
    ],
)
def test_bad_power_law_data(x, y, message):
    with pytest.raises(ValueError, match=message):
        st.fit_power_law(x, y)


@pytest.mark.parametrize("level", [0, 1, -0.5, 95, np.nan])
def test_bad_level_of_a_power_law(level):
    law = st.fit_power_law(*powers(0))
    with pytest.raises(ValueError, match="level must lie between 0 and 1, got"):
        law.interval(level)
    with pytest.raises(ValueError, match="level must lie between 0 and 1, got"):
        law.prediction_interval(10.0, level)


# ------------------------------------------------------------------ sensitivity


def test_sensitivity_equals_fitting_by_hand():
    scales = np.array([(1300, 2.8e6), (1750, 5.7e6), (2100, 1.1e7), (2500, 1.9e7), (3900, 4.3e7)])
    laws = [st.fit_steps_law(BATCHES, steps_of(a, b, noise=0.05, seed=k)) for k, (a, b) in enumerate(scales)]
    references, overheads = (100, 300), (0.1, 0.4, 2.0)
    rows = st.sensitivity(laws, SIZES, references, overheads)
    assert [(row.overhead, row.reference) for row in rows] == [(o, r) for o in overheads for r in references]
    for row in rows:
        critical = [row.overhead * law.b / law.a + (1 + row.overhead) * row.reference for law in laws]
        line: Any = stats.linregress(np.log(SIZES), np.log(critical))
        half = stats.t.ppf(0.975, 3) * line.stderr
        assert row.critical_batch_sizes == pytest.approx(critical, rel=1e-12)
        assert row.exponent == pytest.approx(line.slope, rel=1e-9)
        assert row.interval == pytest.approx((line.slope - half, line.slope + half), rel=1e-9)


def test_exponent_depends_on_the_convention_through_one_number_only():
    """For α = 1, B* ∝ b/a + (1 + 1/ω) B_ref: conventions with one (1 + 1/ω) B_ref share their exponent."""
    laws = [law_of(a, b) for a, b in ((1300.0, 2.8e6), (1750.0, 5.7e6), (2100.0, 1.1e7))]
    rows = st.sensitivity(laws, SIZES[:3], references=(64, 128, 512), overheads=(0.2, 0.5, 1.0))
    exponent = {(row.reference, row.overhead): row.exponent for row in rows}
    assert exponent[128, 0.5] == pytest.approx(exponent[64, 0.2], rel=1e-12)
    assert exponent[512, 0.5] != pytest.approx(exponent[64, 0.2], rel=1e-2)


def test_default_conventions_of_sensitivity():
    laws = [law_of(a, b) for a, b in ((1300.0, 2.8e6), (1750.0, 5.7e6))]
    rows = st.sensitivity(laws, SIZES[:2])
    assert len(rows) == 20
    conventions = [(row.overhead, row.reference) for row in rows]
    assert conventions == [(o, r) for o in (0.1, 0.2, 0.5, 1.0) for r in (64, 128, 256, 512, 1024)]
    assert rows[0].interval == (-np.inf, np.inf)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: st.fit_steps_law([1, 2, 4], [4, 3, 2], alpha=[1, 2]), "alpha must be a single number"),
        (
            lambda: st.fit_steps_law([1, 2, 4], [4, 3, 2]).critical_batch_size([64, 128]),
            "reference must be a single number",
        ),
        (lambda: st.fit_steps_law([1, 2, 4, 8], [4, 3, 2, 2]).interval(level="x"), "level must be a number"),
        (
            lambda: st.fit_steps_law([1, 2, 4], [4, 3, 2]).predict([1, 0]),
            "batch_size must be positive and finite, got 0",
        ),
        (lambda: st.fit_power_law([1, 2], [1, 2]).predict(-1), "x must be positive and finite, got -1"),
    ],
)
def test_more_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
