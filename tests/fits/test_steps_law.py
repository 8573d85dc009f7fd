import numpy as np
import pytest
from scipy import optimize, stats

import sgdtheory as st

BATCHES = 2.0 ** np.arange(6, 15)


def steps_of(a, b, alpha=1.0, noise=0.0, seed=0, batches=BATCHES):
    return (a + b / batches**alpha) * np.exp(noise * np.random.default_rng(seed).standard_normal(batches.size))


def law_of(a, b, alpha=1.0):
    return st.fits.StepsLaw(a, b, alpha, False, BATCHES, steps_of(a, b, alpha))


def data_needed(law, batch):
    return law.a * batch + law.b * batch ** (1 - law.alpha)


# ------------------------------------------------------------------ the fit


@pytest.mark.parametrize("fitted", [False, True])
@pytest.mark.parametrize("alpha", [0.7, 1.0, 1.3])
def test_noiseless_law_is_recovered(alpha, fitted):
    law = st.fit_steps_law(BATCHES, steps_of(1600, 3e6, alpha), alpha=None if fitted else alpha)
    assert (law.a, law.b, law.alpha) == pytest.approx((1600, 3e6, alpha), rel=1e-9)
    assert law.alpha_fitted is fitted
    assert law.residual_std < 1e-12
    if not fitted:
        assert law.alpha == alpha


@pytest.mark.parametrize("alpha", [0.8, 1.0, 1.2])
@pytest.mark.parametrize("share", [0.1, 0.9])
def test_a_term_counts_as_absent_only_where_no_batch_size_shows_it(share, alpha):
    """(b/a)^(1/α) between the batch sizes 2 and 1e10: one end sees b alone, the other a alone."""
    batches = np.geomspace(2, 1e10, 9)
    ratio = 1e10 ** (share * alpha)
    law = st.fit_steps_law(batches, 1 + ratio / batches**alpha, alpha=alpha)
    assert (law.a, law.b) == pytest.approx((1, ratio), rel=1e-6)


@pytest.mark.parametrize("alpha", [1.0, 1.3, None])
@pytest.mark.parametrize("seed", range(2))
def test_noisy_fit_agrees_with_curve_fit(seed, alpha):
    steps = steps_of(1600, 3e6, alpha or 1.1, noise=0.05, seed=seed)

    def log_law(batch, log_a, log_b, exponent=alpha):
        return np.log(np.exp(log_a) + np.exp(log_b) / batch**exponent)

    start = [np.log(1600), np.log(3e6)] + ([1.1] if alpha is None else [])
    best, _ = optimize.curve_fit(log_law, BATCHES, np.log(steps), start, ftol=1e-14, xtol=1e-14, gtol=1e-14)
    law = st.fit_steps_law(BATCHES, steps, alpha=alpha)
    found = [np.log(law.a), np.log(law.b)] + ([law.alpha] if alpha is None else [])
    assert found == pytest.approx(list(best), rel=1e-7)
    residuals = np.log(steps) - log_law(BATCHES, *best)
    assert law.residual_std == pytest.approx(np.sqrt((residuals**2).sum() / (9 - best.size)), rel=1e-9)
    np.testing.assert_allclose(law.residuals, residuals, atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_no_law_on_a_grid_fits_better(seed):
    """The landscape over (b/a, α) has more than one valley; noise large enough to open them."""
    rng = np.random.default_rng(seed)
    steps = steps_of(1600, 10 ** rng.uniform(4, 8), rng.uniform(0.6, 2), noise=0.2, seed=seed)
    law = st.fit_steps_law(BATCHES, steps, alpha=None)
    best = np.inf
    for alpha in np.geomspace(0.05, 20, 80):
        ratio = np.exp(np.linspace(alpha * np.log(64) - 20, alpha * np.log(16384) + 20, 600))
        gap = np.log(steps)[:, None] - np.log(1 + ratio / BATCHES[:, None] ** alpha)
        best = min(best, ((gap - gap.mean(0)) ** 2).sum(0).min())
    assert (law.residuals**2).sum() <= best * (1 + 1e-9)


@pytest.mark.parametrize(("alpha", "fitted"), [(0.7, False), (1.0, False), (1.4, False), (1.0, True), (1.4, True)])
def test_without_plateau(alpha, fitted):
    law = st.fit_steps_law(BATCHES, steps_of(0, 3e6, alpha), alpha=None if fitted else alpha)
    assert law.a == 0
    assert law.alpha == pytest.approx(alpha, rel=1e-8)
    assert law.b == pytest.approx(3e6, rel=1e-6 if fitted else 1e-9)
    expected = BATCHES[0] * 1.2 ** (1 / (1 - alpha)) if alpha < 1 else np.inf
    assert law.critical_batch_size() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("alpha", [0.7, 1.0, 1.4, None])
def test_flat_steps(alpha):
    law = st.fit_steps_law(BATCHES, np.full(9, 1600.0), alpha=alpha)
    assert law.b == 0
    assert law.a == pytest.approx(1600, rel=1e-9)
    assert law.critical_batch_size(128, 0.5) == pytest.approx(192, rel=1e-12)


def test_order_of_the_points_is_immaterial_and_replicates_are_allowed():
    steps, order = steps_of(1600, 3e6, noise=0.05), np.random.default_rng(1).permutation(9)
    law, shuffled = st.fit_steps_law(BATCHES, steps), st.fit_steps_law(BATCHES[order], steps[order])
    twice = st.fit_steps_law(np.tile(BATCHES, 2), np.tile(steps, 2))
    for other in (shuffled, twice):
        assert (other.a, other.b) == pytest.approx((law.a, law.b), rel=1e-8)
    assert twice.residual_std == pytest.approx(law.residual_std * np.sqrt(2 * 7 / 16), rel=1e-9)


def test_residual_std_needs_more_points_than_parameters():
    assert np.isnan(st.fits.StepsLaw(1.0, 1.0, 1.0, False, np.array([1.0, 2.0]), np.array([2.0, 1.5])).residual_std)


@pytest.mark.parametrize(
    ("batches", "steps", "alpha", "message"),
    [
        ([1, 2, 4], [5, 4], 1.0, r"one-dimensional and of one length, got shapes \(3,\) and \(2,\)"),
        ([[1, 2, 4]], [[5, 4, 3]], 1.0, "one-dimensional and of one length"),
        ([1, 2, 2, 1], [5, 4, 3, 2], 1.0, "batch_sizes must hold at least 3 different batch sizes, got 2"),
        ([1, 2, 4], [5, 4, 3], None, "at least 4 different batch sizes to fit alpha too, got 3"),
        ([1, 2, 0], [5, 4, 3], 1.0, "batch_sizes must be positive and finite, got 0.0"),
        ([1, 2, 4], [5, -4, 3], 1.0, "steps must be positive and finite, got -4.0"),
        ([1, 2, "x"], [5, 4, 3], 1.0, "batch_sizes must be a number or an array of numbers"),
        ([1, 2, 4], [5, 4, 3], 0.0, "alpha must be positive and finite, got 0.0"),
        ([1, 2, 4], [5, 4, 3], [1, 2], "alpha must be a single number"),
    ],
)
def test_bad_measurements(batches, steps, alpha, message):
    with pytest.raises(ValueError, match=message):
        st.fit_steps_law(batches, steps, alpha=alpha)


# ------------------------------------------------------------------ standard errors and intervals


def squares_about(ratio, weights, steps, alpha):
    """Least Σ w r² of laws with a given b/a: log a is the weighted mean."""
    gap = np.log(steps) - np.log1p(ratio / BATCHES**alpha)
    return (weights * (gap - weights @ gap / weights.sum()) ** 2).sum()


@pytest.mark.parametrize(("alpha", "size"), [(1.0, None), (1.3, 0.01), (1.0, 0.2), (1.3, None), (None, 0.2)])
def test_weights_are_of_standard_errors_and_the_scatter_beyond_them(size, alpha):
    """Both minima by another search."""
    steps = steps_of(1600, 3e6, alpha or 1.1, noise=0.05, seed=2)
    errors = None if size is None else size * np.linspace(0.6, 1.4, 9)
    law = st.fit_steps_law(BATCHES, steps, alpha=alpha, standard_errors=errors)
    freedom = 9 - (2 if alpha else 3)
    weights = np.ones(9) if errors is None else 1 / (errors**2 + law.misfit**2)

    def least(weights):
        start = [np.log(law.b / law.a), np.log(law.alpha)][: 1 if alpha else 2]
        options = {"xatol": 1e-10, "fatol": 1e-12, "maxiter": 2000}

        def squares(x):
            return squares_about(np.exp(x[0]), weights, steps, alpha or np.exp(x[1]))

        return optimize.minimize(squares, start, method="Nelder-Mead", options=options).fun

    best = squares_about(law.b / law.a, weights, steps, law.alpha)
    assert best == pytest.approx(least(weights), rel=1e-6)
    if errors is not None:
        chi_square = least(errors**-2.0)
        assert law.lack_of_fit == pytest.approx((chi_square, freedom, stats.chi2.sf(chi_square, freedom)), rel=1e-6)
        assert law.misfit == 0 if size > 0.1 else best == pytest.approx(freedom, rel=1e-6)


# ------------------------------------------------------------------ McCandlish et al.'s S_min and E_min


@pytest.mark.parametrize(("alpha", "a", "b"), [(1.0, 1600.0, 3e6), (1.4, 1600.0, 3e6), (2.0, 3.0, 12.0)])
def test_fewest_steps_and_samples(alpha, a, b):
    law, batches = law_of(a, b, alpha), np.geomspace(1e-7, 1e9, 200_001)
    assert law.S_min == a
    assert law.E_min == pytest.approx(data_needed(law, batches).min(), rel=1e-5)
    assert law.S_min == pytest.approx(float(law.predict(1e15)), rel=1e-5)


@pytest.mark.parametrize(("alpha", "a", "b"), [(0.7, 1.0, 3.0), (1.4, 0.0, 3.0), (1.4, 1.0, 0.0), (1.0, 1.0, 0.0)])
def test_no_fewest_samples(alpha, a, b):
    """Below α = 1, without a plateau or without a slope, ever smaller or larger batches need ever fewer samples."""
    assert law_of(a, b, alpha).E_min == 0


# ------------------------------------------------------------------ the critical batch size


@pytest.mark.parametrize(
    ("alpha", "shown"), [(1.0, ["a", "b", "B*"]), (1.3, ["a", "b", "B*"]), (None, ["a", "b", "alpha", "B*"])]
)
def test_a_law_shows_its_numbers_whatever_its_exponent_is(alpha, shown):
    """Above α = 1 it has an optimal batch size, which has no interval and from which no overhead counts."""
    sheet = st.fit_steps_law(BATCHES, steps_of(1600, 3e6, alpha or 1.3, noise=0.02), alpha=alpha).sheet()
    assert [each.label for each in sheet.tables[0].quantities] == shown
    assert sheet.tables[0].legend == "B*: 20% more data than batch size 64, the smallest measured"


def test_default_convention():
    law = law_of(1600.0, 3e6)
    assert law.critical_batch_size() == pytest.approx(0.2 * 3e6 / 1600 + 1.2 * BATCHES[0], rel=1e-14)
    paper = law.critical_batch_size(convention=st.fits.PAPER)
    assert paper == pytest.approx(0.2 * 3e6 / 1600 + 1.2 * 256, rel=1e-14)
    noisy = st.fit_steps_law(BATCHES, steps_of(1600.0, 3e6, noise=0.05))
    assert noisy.interval() == noisy.interval("critical_batch_size", 0.95, reference=BATCHES[0], overhead=0.2)
    assert noisy.steps_interval(300) == noisy.steps_interval(300, 0.95)
    assert noisy.misfit == law.misfit == 0  # without standard errors
    assert (noisy.alpha, noisy.alpha_fitted) == (1.0, False)


def test_the_unit_of_the_batch_sizes_does_not_matter():
    """The same runs in sequences and in tokens have one B*, its interval with it, in a law, a grid and a plan."""
    steps = steps_of(1600.0, 3e6, noise=0.05)
    found = []
    for length in (1, 1024):
        law = st.fit_steps_law(length * BATCHES, steps)
        bent = st.fit_steps_law(length * BATCHES, steps, optimal_batch_size=True)
        plan = st.plan(law, 4.0)
        numbers = [law.critical_batch_size(), *law.interval(), bent.critical_batch_size(), plan.critical_batch_size]
        found.append(np.array([*numbers, *plan.critical_interval]) / length)
        assert plan.critical_batch_size == law.critical_batch_size()
        assert plan.critical_interval == law.interval()
    np.testing.assert_allclose(found[0], found[1], rtol=1e-8)


def test_a_convention_in_place_of_its_two_numbers():
    law = st.fit_steps_law(BATCHES, steps_of(1600.0, 3e6, noise=0.05))
    convention = st.Convention(100, 0.3)
    assert law.critical_batch_size(convention=convention) == law.critical_batch_size(100, 0.3)
    assert law.interval(convention=convention) == law.interval(reference=100, overhead=0.3)
    assert law.critical_batch_size(convention=st.Convention(None)) == law.critical_batch_size(BATCHES[0])
    assert law.critical_batch_size(None, 0.3) == law.critical_batch_size(BATCHES[0], 0.3)
    assert law.interval(convention=st.Convention(None, 0.3)) == law.interval(reference=BATCHES[0], overhead=0.3)
    for use in (law.critical_batch_size, law.interval):
        with pytest.raises(ValueError, match="convention has the reference and the overhead already"):
            use(reference=64, convention=convention)
        with pytest.raises(ValueError, match="overhead must be positive and finite, got 0.0"):
            use(overhead=0)


@pytest.mark.parametrize("alpha", [0.6, 0.8, 0.95, 1.0, 1.05, 1.3, 1.6, 2.0])
@pytest.mark.parametrize("seed", range(4))
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


@pytest.mark.parametrize("step", [1e-4, 1e-7, 1e-10])
def test_critical_batch_size_is_continuous_at_linear_scaling(step):
    critical = [law_of(1600, 3e6, alpha).critical_batch_size() for alpha in (1 - step, 1.0, 1 + step)]
    assert critical == pytest.approx([critical[1]] * 3, rel=20 * step + 1e-11)


@pytest.mark.parametrize("alpha", [0.7, 1.0, 1.4])
def test_units(alpha):
    """Batch sizes in another unit move B* with them, steps in another unit do not move it."""
    batches, steps, unit = BATCHES, steps_of(1600, 3e6, alpha, noise=0.05), 37.5
    critical = st.fit_steps_law(batches, steps, alpha=alpha).critical_batch_size(200, 0.3)
    rescaled = st.fit_steps_law(unit * batches, steps, alpha=alpha).critical_batch_size(unit * 200, 0.3)
    recounted = st.fit_steps_law(batches, unit * steps, alpha=alpha)
    assert rescaled == pytest.approx(unit * critical, rel=1e-7)
    assert recounted.critical_batch_size(200, 0.3) == pytest.approx(critical, rel=1e-7)
    assert recounted.a == pytest.approx(unit * st.fit_steps_law(batches, steps, alpha=alpha).a, rel=1e-7)
