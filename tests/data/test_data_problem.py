"""Problem → data → problem, what is said of rows that teach little, and bad input."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import sgdtheory as st
from sgdtheory._common.rows import checked_rows
from sgdtheory.data.cross_fit import cross_fitted_spectrum, noise_probability, pooled_signal
from sgdtheory.data.data_problem import _rows
from sgdtheory.data.moments import GROUPS, grouped_moments
from tests.data.synthetic import power_law_rows

Z = 4.5  # standard errors: false alarms below 1e-5 a number


def test_problem_to_data_to_problem():
    """Eigenvalues, signal, noise and B* come back from 40,000 rows of 50 features."""
    random = np.random.default_rng(0)
    x, y = power_law_rows(random, 40_000, 50, 1.5, 2.0, noise=0.7)
    problem = st.LeastSquares(np.arange(1.0, 51) ** -1.5, np.arange(1.0, 51) ** -2.0, 0.49)
    found = st.problem_from_data(x, y)
    errors = np.sqrt(2 / 40_000) * problem.eigenvalues
    assert (np.abs(found.spectrum.eigenvalues - problem.eigenvalues) < Z * errors + 0.01 * problem.eigenvalues).all()
    noise = problem.noise_variance + problem.initial_risk
    errors = np.sqrt(2 * problem.signal * noise / 20_000) + noise / 20_000
    assert (np.abs(found.spectrum.signal - problem.signal) < Z * errors + 0.03 * problem.signal).all()
    assert found.noise_variance == pytest.approx(0.49, abs=Z * 0.49 * np.sqrt(2 / 40_000))
    assert found.problem.initial_risk + found.noise_variance == pytest.approx((y**2).mean(), rel=1e-12)
    critical = found.critical_batch_size([1e3])
    exact = st.critical_batch_size(problem, num_samples=[1e3], curve=False).real_batch_size
    assert (critical.interval[:, 0] < exact).all()
    assert (exact < critical.interval[:, 1]).all()
    assert (critical.interval[:, 1] / critical.interval[:, 0] < 2).all()
    assert found.remark == ""


def test_the_rows_themselves_as_population():
    """Against NumPy's least squares: signal of the fit, mean squared residual, and eigenvalues by SVD."""
    random = np.random.default_rng(1)
    x, y = power_law_rows(random, 300, 12, 1.2, 1.6)
    y = np.stack([y, random.standard_normal(300)], axis=1)
    found = st.problem_from_data(x, y, cross_fit=False)
    best, *_ = np.linalg.lstsq(x, y, rcond=None)
    assert found.noise_variance == pytest.approx(((y - x @ best) ** 2).sum(1).mean(), rel=1e-10)
    np.testing.assert_allclose(found.problem.eigenvalues, np.linalg.svd(x)[1] ** 2 / 300, rtol=1e-10)
    assert found.spectrum.signal.sum() == pytest.approx(((x @ best) ** 2).sum(1).mean(), rel=1e-10)
    assert found.num_targets == 2


def test_signal_has_no_bias():
    """Σ s_i has the mean w*ᵀHw*, also of signal in directions that samples see too small.

    Control: divided by λ_i of the other half in the place of Λ_i it has not. 300 replicas.
    """
    random, ours, divided = np.random.default_rng(2), [], []
    index = np.arange(1.0, 21)
    for _ in range(300):
        x = random.standard_normal((160, 20)) * index**-0.25
        y = x[:, -1] + 0.5 * random.standard_normal(160)
        moments = grouped_moments(checked_rows(x, y), seed=0)
        ours.append(cross_fitted_spectrum(moments, np.ones(GROUPS, dtype=bool)).signal.sum())
        first, second = (slice(None, None, 2), slice(1, None, 2))
        vectors = np.linalg.eigh(x[first].T @ x[first])[1]
        products = (vectors.T @ x[first].T @ y[first] / 80) * (vectors.T @ x[second].T @ y[second] / 80)
        divided.append((products / np.einsum("ri,ri->i", x[second] @ vectors, x[second] @ vectors) * 80).sum())
    ours, divided = (np.array(each) - 20**-0.5 for each in (ours, divided))
    assert abs(ours.mean()) < 4 * ours.std() / np.sqrt(300)
    assert abs(divided.mean()) > 6 * divided.std() / np.sqrt(300)


def test_targets_add_up():
    random = np.random.default_rng(3)
    x, y = power_law_rows(random, 4000, 10, 1.5, 2.0)
    pair = np.stack([y, random.standard_normal(4000)], axis=1)
    one, two, both = (st.problem_from_data(x, part) for part in (pair[:, 0], pair[:, 1], pair))
    np.testing.assert_allclose(both.spectrum.signal, one.spectrum.signal + two.spectrum.signal, atol=1e-12)
    np.testing.assert_array_equal(both.spectrum.eigenvalues, one.spectrum.eigenvalues)


@pytest.mark.parametrize(("tails", "spread", "own"), [(None, 1.0, 2.0), (12, 1.25, 2.5)])
def test_kurtosis_of_elliptical_data(tails, spread, own):
    """Student's t with ν degrees of freedom: χ = (ν − 2)/(ν − 4), δ = 2χ."""
    x, y = power_law_rows(np.random.default_rng(4), 60_000, 8, 1.0, 1.0, tails=tails)
    found = st.problem_from_data(x, y).kurtosis
    assert found.spread == pytest.approx(spread, rel=0.1)
    assert found.own == pytest.approx(own, rel=0.15)


def test_kurtosis_of_independent_signs():
    """Rademacher coordinates: χ = 1, δ = 0; with one direction κ = 1 is shared as of elliptical data."""
    x = np.random.default_rng(5).choice([-1.0, 1.0], (20_000, 6)) * [1, 0.7, 0.5, 0.4, 0.3, 0.2]
    assert st.problem_from_data(x, x[:, 0]).kurtosis == pytest.approx((1.0, 0.0), abs=0.05)
    assert st.problem_from_data(x[:, :1], x[:, 0]).kurtosis == pytest.approx((1 / 3, 2 / 3), abs=1e-9)


def test_the_stable_learning_rate_of_gaussian_data_and_of_heavy_tails():
    """T5's for χ = 1, δ = 2; of other data the recursion S2 grows beyond it and not below."""
    x, y = power_law_rows(np.random.default_rng(6), 20_000, 8, 1.0, 1.0)
    found = st.problem_from_data(x, y)
    object.__setattr__(found, "kurtosis", type(found.kurtosis)(1.0, 2.0))
    for batch in (1, 7, 100):
        expected = st.max_stable_learning_rate(found.problem, batch_size=batch)
        assert found.max_stable_learning_rate(batch) == pytest.approx(expected, rel=1e-9)
    for spread, own, batch in ((3.0, 6.0, 4), (0.9, 1.5, 16), (1.0, 0.0, 2), (2.0, 0.5, 300)):
        object.__setattr__(found, "kurtosis", type(found.kurtosis)(spread, own))
        edge = found.max_stable_learning_rate(batch)
        assert [grows(found.problem.eigenvalues, spread, own, batch, share * edge) for share in (0.99, 1.01)] == [0, 1]
    np.testing.assert_array_equal(found.max_stable_learning_rate([[3, 4]]).shape, (1, 2))


def grows(eigenvalues, spread, own, batch, rate):
    x = rate * eigenvalues
    step = np.diag((1 - x) ** 2 + (own - 1) * x**2 / batch) + spread * np.outer(x**2 / batch, np.ones_like(x))
    return int(np.abs(np.linalg.eigvals(step)).max() > 1)


def test_files_are_read_a_piece_at_a_time(tmp_path, monkeypatch):
    x, y = power_law_rows(np.random.default_rng(7), 500, 6, 1.5, 2.0)
    np.save(tmp_path / "X.npy", x.astype(np.float32))
    np.save(tmp_path / "y.npy", y)
    expected = st.problem_from_data(x.astype(np.float32), y)
    monkeypatch.setattr("sgdtheory._common.rows.PIECE", 70)  # ten rows
    found = st.problem_from_data(tmp_path / "X.npy", str(tmp_path / "y.npy"))
    np.testing.assert_allclose(found.problem.eigenvalues, expected.problem.eigenvalues, rtol=1e-12)
    np.testing.assert_allclose(found.kurtosis, expected.kurtosis, rtol=1e-12)


def test_fewer_rows_than_directions_are_said():
    x, y = power_law_rows(np.random.default_rng(8), 40, 100, 1.5, 2.0)
    found = st.problem_from_data(x, y)
    assert "20 rows determine as many of 100 directions" in found.remark
    assert "too few rows for exponents" in found.remark
    assert np.isnan(found.capacity.value)
    assert found.capacity.interval == (-np.inf, np.inf)
    assert np.isnan(found.predicted_exponent.value)
    assert found.problem.trace == pytest.approx((x**2).sum(1).mean(), rel=0.05)


def test_targets_that_are_noise():
    """No signal: no source exponent, and any B* may be, by false alarms of 1/1000 a set: two or fewer of 24.

    Control: that signal is left in all sets with one group less, as was asked before, holds in three or more.
    """
    shapes = [(64, 2)] * 8 + [(100, 10)] * 8 + [(60, 60)] * 8
    found = []
    for seed, (rows, dim) in enumerate(shapes):
        random = np.random.default_rng([seed, rows, dim])
        found.append(st.problem_from_data(random.standard_normal((rows, dim)), random.standard_normal(rows)))
    drowned = [each for each in found if each.noise_probability > 1e-3]
    assert len(drowned) >= 22
    assert all(np.isnan(each.source.value) for each in drowned)
    assert all("does not differ significantly from noise" in each.remark for each in drowned)
    before = [each for each in drowned if all(left.sum() > 0 for left in map(pooled_signal, each.left_out))]
    assert len(before) >= 3
    assert all(each.critical_batch_size(50).interval.tolist() == [[1, np.inf]] for each in before[:3])
    nothing = next(each for each in found if each.problem.initial_risk == 0)
    with pytest.raises(ValueError, match="targets must have a part that .* rows distinguish from noise"):
        nothing.critical_batch_size(50)


def test_a_signal_that_is_resolved_has_an_interval_on_the_scale_of_b():
    """At few steps B* is (1 + ω) D/n, which is not whole; its whole number lies in the interval, too."""
    x, y = power_law_rows(np.random.default_rng(14), 20_000, 3, 1.5, 2.0)
    found = st.problem_from_data(x, y)
    assert found.noise_probability < 1e-3
    critical = replace(found, left_out=found.left_out[:4]).critical_batch_size(50)  # not all of them: quick
    assert critical.batch_size < critical.real_batch_size
    for value in (critical.batch_size, critical.real_batch_size):
        assert 1 <= critical.interval[0, 0] <= value <= critical.interval[0, 1] < np.inf


def test_the_probability_of_noise_is_uniform_for_noise(monkeypatch):
    """Also of targets with heavy tails; false alarms of 1e-4. Control: signal is not."""
    monkeypatch.setattr("sgdtheory.data.cross_fit.TURNS", 199)
    random = np.random.default_rng(16)
    found = {"noise": [], "tails": [], "signal": []}
    for _ in range(150):
        x = random.standard_normal((64, 3)) * [1.0, 0.7, 0.4]
        noise = random.standard_normal(64)
        targets = {"noise": noise, "tails": random.standard_t(1.5, 64), "signal": 0.5 * x[:, 0] + noise}
        for name, y in targets.items():
            found[name].append(noise_probability(grouped_moments(checked_rows(x, y), seed=0), 0))
    uniform = {name: stats.kstest(values, "uniform").pvalue for name, values in found.items()}
    assert uniform["noise"] > 1e-4
    assert uniform["tails"] > 1e-4
    assert uniform["signal"] < 1e-20


@pytest.mark.parametrize("elliptical", [False, True])
def test_squares_that_rest_on_few_rows_are_said(elliptical):
    """Student's t with 1 degree of freedom has no second moments, whatever the number of rows; with 8 it has."""
    random = np.random.default_rng(17)

    def tails(freedom):
        return random.standard_t(freedom, (2000, 1 if elliptical else 6))

    x = random.standard_normal((2000, 6)) * tails(1)
    found = st.problem_from_data(x, x[:, 0] + random.standard_normal(2000))
    assert "a few rows dominate the mean square of the features" in found.remark
    assert found.capacity.interval == found.source.interval == (-np.inf, np.inf)
    if found.problem.initial_risk > 0:
        assert found.critical_batch_size(100).interval.tolist() == [[1, np.inf]]
    x = random.standard_normal((2000, 6)) * tails(8) * np.arange(1.0, 7) ** -0.75
    found = st.problem_from_data(x, x[:, 0] + random.standard_normal(2000))
    assert found.remark == "" or "only one direction has signal" in found.remark
    assert found.capacity.interval[0] > 0
    found = st.problem_from_data(x, random.standard_t(1, 2000))
    assert "a few rows dominate the mean square of the targets" in found.remark
    assert np.isfinite(found.capacity.value)
    assert np.isnan(found.source.value)


def test_constant_columns_are_named():
    x, y = power_law_rows(np.random.default_rng(9), 2000, 6, 1.0, 1.5)
    x[:, 2], x[:, 4] = 1.0, 0.0
    found = st.problem_from_data(x, y)
    assert found.constant_columns == (2, 4)
    assert "2 columns are constant (2, 4)" in found.remark
    assert found.problem.eigenvalues[-1] == 0


def test_a_chosen_range_and_level():
    x, y = power_law_rows(np.random.default_rng(10), 4000, 40, 1.5, 2.0)
    found = [st.problem_from_data(x, y, fit_range=(2, 20), level=level) for level in (0.5, 0.99)]
    assert found[0].capacity.range == (2, 20)
    widths = [np.ptp(each.capacity.interval) for each in found]
    assert widths[0] < 0.4 * widths[1]


def test_the_figure_says_the_exponents(small):
    """More of it: test_figure.py."""
    titles = [axes.get_title() for axes in small[2].plot(title="rows").axes]
    assert [f"{letter} = " in title for letter, title in zip("ab", titles, strict=True)] == [True, True]


@pytest.fixture(scope="module")
def small():
    """480 rows of five features in a small unit, so that the risk is far below 1."""
    x, y = power_law_rows(np.random.default_rng(18), 480, 5, 1.5, 2.0)
    return x, 0.01 * y, st.problem_from_data(x, 0.01 * y)


def test_what_is_taken_where_nothing_is_said(small):
    x, y, found = small
    explicit = st.problem_from_data(x, y, cross_fit=True, fit_range=None, level=0.95, seed=0)
    other = st.problem_from_data(x, y, seed=1)
    assert found.capacity == explicit.capacity != other.capacity
    assert found.level == 0.95
    assert found.noise_variance == pytest.approx(2.5e-5, rel=0.3)
    assert [each.rows for each in found.left_out] == [450 / 2] * GROUPS
    assert st.problem_from_data(x, y, cross_fit=False).noise_probability == 0


def closed(problem, num_samples, curve):
    """A B* in closed form."""
    assert not curve
    real = np.sqrt(num_samples * problem.eigenvalues.sum()) * problem.eigenvalues[0] ** 3
    return SimpleNamespace(real_batch_size=real, batch_size=np.where(num_samples > 1e3, real - 6e3, real))


def test_the_interval_of_b_star_is_that_of_the_jackknife(small, monkeypatch):
    """At two data sizes; not below 1, and it holds the whole number."""
    monkeypatch.setattr("sgdtheory.data.data_problem.critical_batch_size", closed)
    samples, found = np.array([1.0, 1e8]), replace(small[2], level=0.8)
    logs = np.log([closed(each, samples, False).real_batch_size for each in (found.problem, *found._problems)])
    bias = 15 * (logs[1:].mean(0) - logs[0])
    assert (np.abs(bias) > 1e-3).all()
    error = np.sqrt(15 * logs[1:].var(0) + (bias / 3) ** 2)
    low, high = (np.exp(logs[0] + side * stats.t.ppf(0.9, 14) * error) for side in (-1, 1))
    critical = found.critical_batch_size(samples)
    assert low[0] < 1
    np.testing.assert_allclose(critical.interval[0], [1, high[0]])
    assert critical.batch_size[1] < low[1]
    np.testing.assert_allclose(critical.interval[1], [critical.batch_size[1], high[1]])
    np.testing.assert_allclose(critical.num_samples, samples)


def test_where_signal_is_not_resolved_b_star_may_be_anything(small, monkeypatch):
    """Nor where it vanishes with one of the groups."""
    monkeypatch.setattr("sgdtheory.data.data_problem.critical_batch_size", closed)
    found = small[2]
    nothing = found.left_out[0]._replace(signal=np.zeros(5))
    for unsure in (replace(found, resolved=False), replace(found, left_out=(*found.left_out[:2], nothing))):
        assert unsure.critical_batch_size([100, 200]).interval.tolist() == [[1, np.inf], [1, np.inf]]
    with pytest.raises(ValueError, match="targets must have a part that 480 rows distinguish from noise"):
        replace(found, problem=st.LeastSquares([1.0, 0.5], [0.0, 0.0], 1.0)).critical_batch_size(100)


@pytest.mark.parametrize(("probability", "resolved"), [(1.5e-3, False), (1e-3, True)])
def test_signal_is_told_from_noise_up_to_one_in_a_thousand(small, monkeypatch, probability, resolved):
    monkeypatch.setattr("sgdtheory.data.data_problem.noise_probability", lambda moments, seed: probability)
    found = st.problem_from_data(*small[:2])
    assert found.resolved == np.isfinite(found.source.value) == resolved
    assert ("does not differ significantly from noise" in found.remark) != resolved
    x = np.random.default_rng(19).standard_normal((480, 5)) * np.arange(1.0, 6) ** -0.75
    alone = st.problem_from_data(x, x[:, 0] + 0.1 * np.sign(x[:, 4]))
    assert np.isnan(alone.source.value)
    sentence = "too few rows for the source exponent: only one direction has signal above the noise"
    assert alone.remark == sentence if resolved else alone.remark.startswith("the signal does not differ significantly")
    assert (sentence in alone.remark) == resolved


@pytest.mark.parametrize("which", ["features", "targets"])
@pytest.mark.parametrize(("mean", "percent"), [(6, None), (8, 30)])
def test_squares_must_be_known_to_a_quarter(which, mean, percent):
    """One of 16 groups has a mean square m and the others 1: the standard error is (m − 1)/(m + 15)."""
    group = np.random.default_rng(0).permutation(480) % GROUPS
    large = np.where(group == 3, np.sqrt(mean), 1.0)
    signs = np.random.default_rng(20).choice([-1.0, 1.0], (480, 5)) * np.arange(1.0, 6) ** -0.75
    x = signs * (large[:, None] if which == "features" else 1)
    y = signs[:, 0] * (large if which == "targets" else 1)
    found = st.problem_from_data(x, y)
    assert found.resolved == (percent is None)
    if percent is None:
        assert "a few rows dominate" not in found.remark
        assert np.isfinite(found.capacity.value)
    else:
        assert f"a few rows dominate the mean square of the {which} (known to ±{percent}%)" in found.remark
        assert found.remark.count("a few rows dominate") == 1
        assert np.isfinite(found.capacity.value) == (which == "targets")
        assert np.isnan(found.source.value)
        assert found.source.scatter == 0
        assert found.capacity.range == (1, 4 if which == "features" else 5)  # kurtosis takes rows


def test_as_few_rows_and_as_many_columns_as_may_be():
    """Sixteen rows, of which one alone has a target; 4096 columns."""
    x = np.random.default_rng(21).standard_normal((16, 2))
    assert st.problem_from_data(x, np.eye(16)[0]).num_rows == 16
    assert len(_rows(np.zeros((16, 4096)), np.zeros(16))) == 16
    with pytest.raises(ValueError, match="at most 4096 columns, got 4097"):
        _rows(np.zeros((16, 4097)), np.zeros(16))


def test_as_many_rows_in_a_half_as_directions_are_enough():
    x, y = power_law_rows(np.random.default_rng(22), 32, 16, 1.5, 2.0)
    assert "find directions among" not in st.problem_from_data(x, y).remark
    assert "15 rows determine as many of 16 directions" in st.problem_from_data(x[:30], y[:30]).remark


def test_five_columns_of_one_value_are_named_and_no_more(small):
    x, y = (each[:64] for each in small[:2])
    for count, named in ((5, "5 columns are constant (0, 1, 2, 3, 4):"), (6, "(0, 1, 2, 3, 4, …):")):
        assert named in st.problem_from_data(np.column_stack([np.ones((64, count)), x]), y).remark


ROWS = np.random.default_rng(12).standard_normal((40, 3))
WITH_NAN = np.where(np.arange(120).reshape(40, 3) == 7 * 3 + 1, np.nan, ROWS)
TARGET = ROWS[:, 0]


@pytest.mark.parametrize(
    ("features", "targets", "options", "message"),
    [
        (ROWS, TARGET[:39], {}, "targets must have one row for each of the 40 rows of features, got 39"),
        (WITH_NAN, TARGET, {}, "features must be finite, got nan in row 7, column 1"),
        (ROWS, WITH_NAN[:, :2], {}, "targets must be finite, got nan in row 7, column 1"),
        (ROWS[:10], TARGET[:10], {}, "features must have at least 16 rows to be split, got 10"),
        (TARGET, TARGET, {}, r"features must be an array of rows, \(N, d\), got shape \(40,\)"),
        (ROWS, ROWS[:, :, None], {}, r"targets must have the shape \(N,\) or \(N, k\), got"),
        (0 * ROWS, TARGET, {}, "features must not all be 0"),
        (ROWS, 0 * TARGET, {}, "targets must not all be 0"),
        (ROWS + 0j, TARGET, {}, "features must be real, got complex numbers"),
        (ROWS, 1j * TARGET, {}, "targets must be real, got complex numbers"),
        (np.full((40, 2), "a"), TARGET, {}, "features must be numbers"),
        ("rows.txt", TARGET, {}, "features must be an array or a .npy file, got rows.txt"),
        (Path("missing.npy"), TARGET, {}, "features must be a file that exists, got missing.npy"),
        (Path("words.npy"), TARGET, {}, "features must be a .npy file of numbers"),
        (ROWS, TARGET, {"level": 1.0}, "level must lie between 0 and 1"),
        (ROWS, TARGET, {"fit_range": (1, 3)}, "fit_range must span at least 4 of the 3 directions"),
        (ROWS, TARGET, {"seed": -1}, "seed must be a whole number"),
    ],
)
def test_bad_input(features, targets, options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("words.npy").write_text("1, 2")
    with pytest.raises(ValueError, match=message):
        st.problem_from_data(features, targets, **options)


@pytest.mark.parametrize(
    "reader",
    [
        lambda values: st.LeastSquares(values, [1.0, 1.0]),
        lambda values: st.LeastSquares([1.0, 1.0], values),
        lambda values: st.simulate_data(None, ROWS, ROWS + 0j, batch_size=4, learning_rate=0.1, num_samples=40),
        lambda values: st.fit_loss_grid([(1.0, 8.0, 0.1, value) for value in values]),
        lambda values: st.algorithms.StepFunction(lambda step: 1 + 0j * step).factors(np.arange(3), 3),
        lambda values: st.fits.interpolated_critical_batch_size([1, 2, 4], [10 + 0j, 6, 4]),
    ],
)
def test_readers_of_arrays_refuse_complex_numbers(reader):
    with pytest.raises(ValueError, match="must be real, got complex numbers"):
        reader(np.array([1.0 + 0j, 2.0 + 1j]))
