"""The gradient noise scale from norms, against gradients of regression drawn sample by sample at weights held fixed."""

import numpy as np
import pytest
from scipy import stats

import sgdtheory as st
from sgdtheory.fits.noise_scale import BLOCKS, NoiseScaleFit

MICRO, PARTS = 4, 8  # b samples in each of B/b micro batches
RUNS, ROWS = 600, 100
Z = 3.9  # a false alarm in 10⁴


class Regression:
    """y = ⟨x, w*⟩ + σξ at w = w* + η in eigencoordinates; a sample's gradient is x(⟨x, η⟩ − σξ)."""

    def __init__(self, eigenvalues, error, noise=1.0):
        self.eigenvalues, self.error, self.noise = np.array(eigenvalues), np.array(error), noise
        self.squared = float(((self.eigenvalues * self.error) ** 2).sum())
        # T1: Σ = Hη ηᵀH + (‖η‖²_H + σ²) H
        self.trace = self.squared + float(((self.eigenvalues * self.error**2).sum() + noise**2) * sum(eigenvalues))

    def micro_gradients(self, draw, rows):
        """(rows, PARTS, d)."""
        x = draw.standard_normal((rows, PARTS, MICRO, self.error.size)) * np.sqrt(self.eigenvalues)
        residual = x @ self.error - self.noise * draw.standard_normal(x.shape[:-1])
        return np.einsum("npbd,npb->npd", x, residual) / MICRO


INDEX = np.arange(1.0, 13)
ONE = Regression([1.0], [0.5])  # one direction: norms are squares of single numbers, heavy in both tails
POWER = Regression(INDEX**-2, INDEX**-0.5)
FAR = Regression(INDEX**-1.2, 0.2 * INDEX**-0.5)  # noise scale 66, twice the batch
PROBLEMS = {"one direction": ONE, "power law": POWER, "noise scale above the batch": FAR}


def norms(problem, draw, rows=ROWS, one=False):
    """(small, large): squared norms of the first micro batch or the mean over all, and of the batch."""
    micro = problem.micro_gradients(draw, rows)
    small = (micro**2).sum(2)
    return (small[:, 0] if one else small.mean(1)), (micro.mean(1) ** 2).sum(1)


def fit(small, large, **settings):
    return st.fit_noise_scale(small, large, small_batch=MICRO, large_batch=MICRO * PARTS, **settings)


def covered(interval, truth):
    return interval[0] <= truth <= interval[1]


def off_level(hits, level=0.95):
    """Return the distance of a share of hits from the level, in standard deviations."""
    return abs(np.mean(hits) - level) / np.sqrt(level * (1 - level) / len(hits))


def unpaired_interval(found, small, large):
    """Return the interval for independent norms of a row: the delta method without their covariance."""
    batch, parts = MICRO * PARTS, PARTS
    to_squared = np.array([-1, parts]) / (parts - 1)
    to_trace = np.array([1, -1]) / (1 / MICRO - 1 / batch)
    variances = np.array([small.var(), large.var()]) / small.size
    error = np.sqrt((to_trace - found.noise_scale * to_squared) ** 2 @ variances) / found.squared_gradient
    return found.noise_scale - 1.96 * error, found.noise_scale + 1.96 * error


@pytest.mark.parametrize("one", [False, True], ids=["mean of all", "one micro batch"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_interval_holds_its_level_and_that_of_unpaired_norms_does_not(name, one):
    """600 runs of 100 rows agree within chance of one in 10⁴; the small batch is part of the large one."""
    problem, draw = PROBLEMS[name], np.random.default_rng(7)
    truth = problem.trace / problem.squared
    hits, unpaired = [], []
    for _ in range(RUNS):
        small, large = norms(problem, draw, one=one)
        found = fit(small, large)
        hits.append(covered(found.interval(), truth))
        if not one:  # one of eight parts shares little with the whole
            unpaired.append(covered(unpaired_interval(found, small, large), truth))
    assert off_level(hits) < Z
    if not one:
        assert off_level(unpaired) > Z


def test_ratios_of_means_are_right_and_means_of_ratios_are_not():
    """Nor smoothed ratios, however long they are smoothed."""
    small, large = norms(POWER, np.random.default_rng(3), rows=50_000)
    found, truth = fit(small, large), POWER.trace / POWER.squared
    assert covered(found.interval(1 - 1e-4), truth)
    assert abs(found.squared_gradient - POWER.squared) < Z * found.squared_gradients.std() / np.sqrt(50_000)
    assert abs(found.trace - POWER.trace) < Z * found.traces.std() / np.sqrt(50_000)
    ratios = found.traces / found.squared_gradients
    assert not 0.9 < np.mean(ratios) / truth < 1.1
    assert not 0.9 < np.mean(np.abs(ratios)) / truth < 1.1
    smoothed = [mean_of_hundred(each) for each in (found.traces, found.squared_gradients)]
    assert abs(np.mean(smoothed[0] / smoothed[1]) / truth - 1) < 0.05


def mean_of_hundred(values):
    return values.reshape(-1, 100).mean(1)


@pytest.mark.parametrize(
    ("squared", "trace", "kind"),
    [
        (1.0, 1.0, "finite"),
        (1.0, 0.1, "from 0"),
        (0.1, 1.0, "to infinity"),
        (0.05, 0.05, "all"),
        (1.0, -1.0, "none"),
        (-1.0, 1.0, "none"),
        (-1.0, -1.0, "none"),
    ],
)
def test_the_interval_is_what_a_t_test_of_blocks_does_not_refute(squared, trace, kind):
    """Each ρ of a grid, by SciPy's test of the block sums, where signs are those of a noise scale."""
    noise = np.random.default_rng(5).standard_normal((2, BLOCKS))
    rows = np.array([[squared], [trace]]) + [[1.0, 0.0], [0.5, 0.8]] @ noise
    low, high = st.fits.NoiseScaleFit(np.arange(BLOCKS), *rows).interval(0.9)
    grid = np.geomspace(1e-3, 1e3, 4001)
    kept = grid[stats.ttest_1samp(rows[1][:, None] - rows[0][:, None] * grid, 0.0).pvalue >= 0.1]
    if kind == "none":
        assert np.isnan([low, high]).all()
        assert not kept.size or max(rows.mean(1)) < 0
        return
    assert (low == 0, high == np.inf) == (kind in ("from 0", "all"), kind in ("to infinity", "all"))
    assert kept[0] == pytest.approx(low or grid[0], rel=4e-3)
    assert kept[-1] == pytest.approx(min(high, grid[-1]), rel=4e-3)


def test_the_interval_of_traces_that_cancel_in_all_blocks_is_0():
    """Each block has two rows, whose tr Σ are 1 and −1: every ρ > 0 is refuted, as ‖G‖² is far from 0."""
    squared = 1 + 0.1 * np.random.default_rng(5).standard_normal(2 * BLOCKS)
    found = NoiseScaleFit(np.arange(2.0 * BLOCKS), squared, np.tile([1.0, -1.0], BLOCKS))
    assert found.interval() == (0, 0)


def falling(ratio_growth, draw, rows):
    """Norms of a run on which ‖G‖² falls a hundredfold, and tr Σ/‖G‖² grows by a factor."""
    found = fit(*norms(POWER, draw, rows=rows))
    time = np.linspace(0, 1, rows)
    squared, trace = found.squared_gradients * 100**-time, found.traces * (ratio_growth / 100) ** time
    return squared + trace / MICRO, squared + trace / (MICRO * PARTS)


def test_a_noise_scale_that_stands_still_is_not_said_to_drift_though_gradients_shrink():
    """300 runs with a constant noise scale have no drift, and one that doubles has one in most runs."""
    draw = np.random.default_rng(11)
    still = [fit(*falling(1.0, draw, 400)) for _ in range(300)]
    assert np.mean([each.drift < 0.05 for each in still]) < 0.05 + Z * np.sqrt(0.05 * 0.95 / 300)
    assert np.mean([each.drift < 0.5 for each in still]) > 0.5 - Z * np.sqrt(0.25 / 300)
    truth = POWER.trace / POWER.squared
    assert np.mean([covered(each.interval(), truth) for each in still]) > 0.95 - Z * np.sqrt(0.05 * 0.95 / 300)
    assert np.mean([fit(*falling(2.0, draw, 1000)).drift < 0.01 for _ in range(50)]) > 0.9


def test_the_test_for_a_drift_term_by_term():
    """31 terms (j − c̄) v_j (S_j − ρG_j), v_j by the row before; squares without the leverage of their row on ρ."""
    draw = np.random.default_rng(1)
    squared, trace = 2 + 0.3 * draw.standard_normal(BLOCKS), np.linspace(9, 12, BLOCKS) + draw.standard_normal(BLOCKS)
    weights = 1 / (np.abs(squared) + np.abs(trace))[:-1]
    g, s = weights * squared[1:], weights * trace[1:]
    centre = np.average(np.arange(31), weights=g)
    terms = [(j - centre) * (s[j] - s.sum() / g.sum() * g[j]) for j in range(31)]
    share = sum(terms) ** 2 / sum((term / (1 - each / g.sum())) ** 2 for term, each in zip(terms, g, strict=True))
    expected = 2 * stats.t.sf(np.sqrt(29 * share / (31 - share)), 29)
    found = NoiseScaleFit(np.arange(BLOCKS), squared, trace)
    assert found.drift == pytest.approx(expected, rel=1e-9)
    assert expected < 0.05


def test_rows_of_short_smoothed_logs_count_by_their_differences():
    """Neighbours are alike by 1 + 2s, s the correlation of differences, over their levels in each quarter."""
    memories = []
    for seed in range(5):
        raw = np.convolve(np.random.default_rng(seed).standard_normal(200), 0.9 ** np.arange(100), "valid")[:80] + 50
        steps = np.concatenate([each / np.linalg.norm(each) for each in np.split(np.diff(raw), [20, 40, 60])])
        alike = min(1 + 2 * (steps[1:] @ steps[:-1]) / (steps @ steps), 1 - 1 / 80)
        memories.append(NoiseScaleFit(np.arange(80), np.full(80, 2.0), raw)._memory)
        assert memories[-1] >= (1 + alike) / (1 - alike) * (1 - 1e-9)
    assert 2 < min(memories) < 100


def test_the_path_follows_a_noise_scale_that_grows():
    """Windows are fits of their rows; their intervals contain what it is there, to one in 10⁴ for all together."""
    rows, windows = 4000, 8
    found = fit(*falling(4.0, np.random.default_rng(2), rows), steps=10 * np.arange(rows))
    path = found.path(windows, level=1 - 1e-4 / windows)
    middle = (np.arange(windows) + 0.5) / windows
    truth = POWER.trace / POWER.squared * 4**middle
    assert ((path.low < truth) & (truth < path.high)).all()
    assert path.steps == pytest.approx(10 * rows * middle, rel=0.01)
    assert path.noise_scale[3] == found.traces[1500:2000].sum() / found.squared_gradients[1500:2000].sum()
    assert path.noise_scale == pytest.approx(path.trace / path.squared_gradient, rel=1e-14)
    assert "moves along the run" in found.remark


def test_a_noise_scale_that_moves_is_no_dependence_of_rows():
    """It grows by 16: blocks stay 32, so that the ends of the interval are where a t-test of these is at its level."""
    found = fit(*falling(16.0, np.random.default_rng(3), 320))
    for end in found.interval():
        off = (found.traces - end * found.squared_gradients).reshape(BLOCKS, -1).sum(1)
        assert stats.ttest_1samp(off, 0.0).pvalue == pytest.approx(0.05, rel=1e-6)


@pytest.mark.parametrize(("decay", "rows"), [(0.9, 400), (0.96, 1000)])
def test_smoothed_norms_have_an_interval_that_holds(decay, rows):
    """Blocks become longer; taken as 32 all the same they would hold far less."""
    draw, truth = np.random.default_rng(4), POWER.trace / POWER.squared
    hits, short = [], []
    weights = decay ** np.arange(8 / (1 - decay))
    for _ in range(100):
        smooth = [
            np.convolve(each, weights / weights.sum(), "valid") for each in norms(POWER, draw, rows + weights.size)
        ]
        found = fit(*smooth)
        hits.append(covered(found.interval(), truth))
        pairs = found.traces, found.squared_gradients
        off = [part.sum() for part in np.array_split(pairs[0] - truth * pairs[1], BLOCKS)]
        short.append(stats.ttest_1samp(off, 0.0).pvalue >= 0.05)
    assert np.mean(hits) > 0.95 - Z * np.sqrt(0.05 * 0.95 / 100)
    assert np.mean(short) < 0.95 - Z * np.sqrt(0.05 * 0.95 / 100)


def test_rows_that_depend_on_each_other_for_too_long_are_named():
    windows = np.lib.stride_tricks.sliding_window_view
    smooth = [windows(each, 30).mean(1) for each in norms(POWER, np.random.default_rng(4), 150)]
    assert "give norms before smoothing" in fit(*smooth).remark


@pytest.mark.parametrize("one", [False, True])
def test_variance_of_a_row(one):
    """T46, of Gaussian gradients: how many rows are needed."""
    draw, variances, mean = np.random.default_rng(6), INDEX**-1.5, 0.3 * INDEX**-0.5
    micro = mean + draw.standard_normal((100_000, PARTS, INDEX.size)) * np.sqrt(variances / MICRO)
    small = (micro**2).sum(2)
    found = fit(small[:, 0] if one else small.mean(1), (micro.mean(1) ** 2).sum(1))
    batch, square = MICRO * PARTS, (variances**2).sum()
    rest = PARTS / (PARTS - 1)
    linear, quadratic = (rest, 2 * rest) if one else (1, rest)
    squared = 4 * linear * (mean**2 @ variances) / batch + 2 * quadratic * square / batch**2
    trace = 2 * square * (PARTS + 1 if one else 1) / (PARTS - 1)
    if one:
        trace += 4 * (mean**2 @ variances) / (1 / MICRO - 1 / batch)
    assert found.squared_gradients.var() == pytest.approx(squared, rel=0.05)  # kurtosis < 15: 4 standard errors
    assert found.traces.var() == pytest.approx(trace, rel=0.05)


def test_exact_norms_give_back_what_they_are_made_of():
    """Batch sizes of a ramp, rows out of order and rows that were not logged among them."""
    draw = np.random.default_rng(8)
    small_batch, large_batch = np.repeat([4.0, 8.0], 10), np.repeat([32.0, 128.0], 10)
    small, large = 2.0 + 30.0 / small_batch, 2.0 + 30.0 / large_batch
    small[3] = large[12] = np.nan
    order = draw.permutation(20)
    batches = {"small_batch": small_batch[order], "large_batch": large_batch[order]}
    found = st.fit_noise_scale(small[order], large[order], **batches, steps=np.arange(20)[order])
    assert (found.noise_scale, *found.interval()) == pytest.approx((15.0, 15.0, 15.0), rel=1e-12)
    assert (found.squared_gradient, found.trace) == pytest.approx((2.0, 30.0), rel=1e-12)
    assert (found.left_out, found.steps.tolist()) == (2, [each for each in range(20) if each not in (3, 12)])
    assert found.remark == ""


def test_steps_that_overflowed_are_left_out():
    """Mixed precision logs inf or nan at the steps that it skips: the other rows answer."""
    small, large = norms(POWER, np.random.default_rng(9))
    clean = fit(small, large)
    rows = np.arange(small.size + 4)
    with_inf = [np.concatenate([each, np.full(4, bad)]) for each, bad in ((small, np.inf), (large, np.nan))]
    found = fit(*with_inf, steps=rows)
    assert found.left_out == 4
    assert found.interval() == clean.interval()
    assert "4 rows have a norm that is missing or not finite: left out" in found.sheet().remarks


def test_one_column_given_twice_says_nothing_of_the_noise():
    """No interval of width 0, and no warning of NumPy (which fails a test)."""
    small, large = norms(POWER, np.random.default_rng(9))
    found = fit(large, large)
    assert found.interval() == (0.0, np.inf)
    assert "100 of 100 rows have the same norm at both batch sizes" in found.remark
    path = found.path(4)
    np.testing.assert_array_equal([path.low, path.high], [[0.0] * 4, [np.inf] * 4])
    large[3] = small[3]
    assert "1 of 100 rows" in fit(small, large).remark


@pytest.mark.parametrize(("tails", "share"), [(2.2, 0.9), (None, 0.0)])
def test_heavy_tails_are_named(tails, share):
    """Noise of Student's t(2.2), whose tr Σ comes out at half of its value; and normal noise, without a remark."""
    draw = np.random.default_rng(12)
    said = []
    for _ in range(20):
        noise = draw.standard_normal((500, 8, 20)) if tails is None else draw.standard_t(tails, (500, 8, 20))
        micro = 1 + noise
        said.append("heavy tails" in fit((micro**2).sum(2).mean(1), (micro.mean(1) ** 2).sum(1)).remark)
    assert np.mean(said) >= share
    assert share or not any(said)


def test_remarks():
    small, large = norms(POWER, np.random.default_rng(9))
    assert fit(small, large).remark == ""
    assert "interchanged" in fit(large, small).remark
    far = np.random.default_rng(9).chisquare(500, (2, 20)) * [[1 / MICRO], [1 / (MICRO * PARTS)]]  # noise alone
    found = fit(*far)
    assert "cannot be distinguished from 0" in found.remark
    assert np.isnan(found.drift)
    assert ": at least " in str(found).splitlines()[0] or ": not determined" in str(found).splitlines()[0]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"large_norms": np.ones(9)}, r"one length, got shapes \(10,\) and \(9,\)"),
        ({"small_batch": 8}, "small_batch must be smaller than large_batch"),
        ({"small_batch": [1.0, 2.0]}, r"small_batch must be one number or one a row, got shape \(2,\) for 10 rows"),
        ({"large_batch": -8}, "large_batch must be positive"),
        ({"small_norms": -np.ones(10)}, "small_norms must be positive and finite, got -1.0"),
        ({"large_norms": np.full(10, np.inf)}, "must have 8 rows with both, got 0 of 10: the others are nan or inf"),
        ({"large_norms": np.full(10, np.nan)}, "must have 8 rows with both, got 0 of 10"),
        ({"steps": [1.0]}, "steps must be one number or one a row"),
    ],
)
def test_bad_input(changed, message):
    good = {"small_norms": np.full(10, 2.0), "large_norms": np.ones(10), "small_batch": 4, "large_batch": 8}
    with pytest.raises(ValueError, match=message):
        st.fit_noise_scale(**good | changed)


def test_a_path_needs_eight_rows_a_window():
    found = fit(*norms(ONE, np.random.default_rng(1)))
    with pytest.raises(ValueError, match="num_windows must leave 8 rows to each window, got 13 for 100 rows"):
        found.path(13)
    eight = fit(*(each[:8] for each in norms(ONE, np.random.default_rng(1))))
    assert eight.path(1).noise_scale == [eight.noise_scale]


def test_without_any_gradient_nothing_is_determined():
    rng = np.random.default_rng(0)
    found = NoiseScaleFit(np.arange(40.0), np.zeros(40), 1 + 0.1 * rng.standard_normal(40))
    assert found.noise_scale == np.inf
    assert found.interval() == (0, np.inf)
    assert "not determined" in str(found)
