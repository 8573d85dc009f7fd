"""The noise of losses from repeated runs and from parabolas, by hand; other runs, and intervals that allow for both."""

import math

import numpy as np
import pytest
from scipy import stats

from sgdtheory.fits.loss_noise import LossNoise, cliff_margins, loss_noise, other_edges, resampled, widened
from sgdtheory.fits.loss_rows import loss_rows
from sgdtheory.fits.tuned_loss import tuned_losses

RATES = 0.1, 0.2, 0.4


# ------------------------------------------------------------------ where the variance comes from

INF = math.inf
REPEATED = {  # B: losses about which runs scatter at each rate, numbers of runs, places of the rates that count
    1: ([1.2, 1.0, 1.5], [3, 4, 6], [0, 1]),  # five degrees of freedom stand by themselves
    2: ([1.2, 1.0, 1.5], [2, 4, 6], [0, 1]),  # four do not
    4: ([1.2, 1.0, 1.5], [1, 7, 9], [1]),  # the better neighbour is a single run
    8: ([INF, 1.0, INF], [3, 7, 5], [1]),
    16: ([1.0, 1.2, 1.5], [5, 3, 6], [0, 1]),
    32: ([1.5, 1.2, 1.0], [6, 3, 5], [1, 2]),
    64: ([1.2, 1.0, 1.5], [1, 1, 1], []),
}


def test_the_best_rate_and_its_better_neighbour_count_with_their_degrees_of_freedom():
    random, rows, own = np.random.default_rng(1), [], {}
    for batch, (middles, numbers, counted) in REPEATED.items():
        losses = [
            middle * np.exp(0.01 * batch * random.standard_normal(number))
            for middle, number in zip(middles, numbers, strict=True)
        ]
        rows += [(batch, 100, rate, loss) for rate, here in zip(RATES, losses, strict=True) for loss in here]
        own[batch] = [(np.var(losses[k] / losses[k].mean(), ddof=1), losses[k].size - 1) for k in counted]
    own[2] = own[64] = [pair for pairs in own.values() for pair in pairs]
    found = loss_noise(tuned_losses(loss_rows(rows)[0]))
    assert found.source == "runs"
    assert found.freedom.tolist() == [5, 5 + 4 + 6 + 6 + 6 + 6, 6, 6, 6, 6, 33]
    pooled = [sum(v * f for v, f in pairs) / sum(f for _, f in pairs) for pairs in own.values()]
    np.testing.assert_allclose(found.variances, pooled, rtol=1e-12)


def residual_of(x, y):
    """Least squares of a parabola through four neighbouring rates, the best among them, of the least largest loss."""
    best = int(y.argmin())
    starts = [start for start in range(len(x) - 3) if start <= best <= start + 3]
    start = min(starts, key=lambda start: y[start : start + 4].max())
    x, y = x[start : start + 4] - x[start], y[start : start + 4]
    return float(((y - np.polyval(np.polyfit(x, y, 2), x)) ** 2).sum()) if np.isfinite(y).all() else None


def test_without_repeats_the_median_residual_of_parabolas_is_the_noise():
    """Squares of normal errors are χ² with one degree of freedom; the median of 14 is worth five, that of 13 less."""
    random, x = np.random.default_rng(2), np.log([0.1, 0.15, 0.3, 0.8, 1.0, 1.7, 4.0])
    rows, squares = [], {}
    for batch, sizes, places in ((1, 14, slice(7)), (2, 13, slice(5)), (4, 10, slice(3)), (8, 30, slice(4))):
        squares[batch] = []
        for samples in range(100, 100 + sizes):
            y = 0.1 * batch * random.standard_normal(x[places].size)
            if samples % 3 == 0:
                y[-1] = np.inf
            rows += [(batch, samples, *pair) for pair in zip(np.exp(x[places]), np.exp(y), strict=True)]
            found = residual_of(x[places], y) if y.size > 3 else None
            squares[batch] += [] if found is None else [found]
    assert [len(each) for each in squares.values()] == [14, 13, 0, 20]
    median = stats.chi2.median(1)
    efficiency = 8 * (median * stats.chi2.pdf(median, 1)) ** 2  # of the median against the mean, with n squares n
    own = [(np.median(each) / median, efficiency * len(each)) for each in squares.values() if each]
    everything = sum(v * f for v, f in own) / sum(f for _, f in own), sum(f for _, f in own)
    expected = np.array([own[0], everything, everything, own[2]])
    found = loss_noise(tuned_losses(loss_rows(rows)[0]))
    assert found.source == "rates"
    np.testing.assert_allclose(found.variances, expected[:, 0], rtol=1e-3)
    np.testing.assert_allclose(found.freedom, expected[:, 1], rtol=0.01)


@pytest.mark.parametrize("number", [4, 6, 7])
def test_the_four_rates_are_the_best_one_and_those_of_the_least_largest_loss(number):
    """One (B, D) alone."""
    for seed in range(25):
        random = np.random.default_rng(seed)
        x, y = np.cumsum(random.uniform(0.2, 1, number)), random.standard_normal(number)
        rows = [(1, 10, *pair) for pair in zip(np.exp(x), np.exp(y), strict=True)]
        found = loss_noise(tuned_losses(loss_rows(rows)[0]))
        assert found.variances[0] == pytest.approx(residual_of(x, y) / stats.chi2.median(1), rel=1e-3)


def test_three_rates_that_were_run_once_say_nothing():
    found = loss_noise(tuned_losses(loss_rows([(1, 10, 0.1, 2), (1, 10, 0.2, 1), (2, 10, 0.4, 3)])[0]))
    assert (found.source, found.variances.tolist(), found.freedom.tolist()) == ("", [0, 0], [0, 0])


def test_margins_of_cliffs_are_a_quantile_of_students_t():
    """One in 10⁴: of repeated runs, and without any of the quarter of cells with the least residuals."""
    random, x = np.random.default_rng(3), np.log([0.1, 0.2, 0.4, 0.8])
    curves = 0.05 * random.standard_normal((9, 4))
    rows = [(1, 10 + k, *pair) for k, y in enumerate(curves) for pair in zip(np.exp(x), np.exp(y), strict=True)]
    squares = [residual_of(x, y) for y in curves]
    quarter = stats.chi2.ppf(0.25, 1)
    freedom = 9 * 2 * (quarter * stats.chi2.pdf(quarter, 1)) ** 2 / (0.25 * 0.75)  # a quantile against the mean
    expected = stats.t.isf(1e-4, freedom) * np.sqrt(np.quantile(squares, 0.25) / quarter)
    assert cliff_margins(tuned_losses(loss_rows(rows)[0])) == pytest.approx([expected], rel=0.02)
    repeated = tuned_losses(loss_rows([*rows, *rows[:4], (2, 10, 0.1, 1.0)])[0])
    noise = loss_noise(repeated)
    assert noise.source == "runs"
    np.testing.assert_allclose(cliff_margins(repeated), stats.t.isf(1e-4, noise.freedom) * np.sqrt(noise.variances))
    assert cliff_margins(tuned_losses(loss_rows([(1, 10, 0.1, 2.0)])[0])).tolist() == [0]


# ------------------------------------------------------------------ other runs


def test_losses_of_other_runs_are_students():
    """One rate each: log L* is the mean's, and what its estimated variance leaves open makes a normal error Student's.

    The third batch size has no noise at all; false alarms are one of 10⁴ for each of the four.
    """
    counts = {(1, 10): 1, (1, 20): 4, (2, 10): 1, (2, 20): 9}
    rows = [(*at, 0.1, 1.0 + at[0]) for at, count in counts.items() for _ in range(count)] + [(3, 10, 0.1, 2.0)]
    tuned = tuned_losses(loss_rows(rows)[0])
    noise = LossNoise("rates", np.array([0.04, 0.01, 0.0]), np.array([0.74, 3.0, 0.0]))
    drawn = resampled(tuned, noise, 20000, 5)
    assert drawn.shape == (20000, 3, 2)
    for (batch, samples), count in counts.items():
        here = drawn[:, batch - 1, samples // 10 - 1] - math.log(1 + batch)
        error = math.sqrt(noise.variances[batch - 1] / count)
        assert stats.kstest(here / error, stats.t(noise.freedom[batch - 1]).cdf).pvalue > 1e-4
    np.testing.assert_allclose(drawn[:, 2, 0], math.log(2))
    assert np.isnan(drawn[:, 2, 1]).all()
    np.testing.assert_array_equal(resampled(tuned, noise, 20000, 5), drawn)


def test_one_rate_of_a_seed_has_one_error_at_all_data_sizes():
    """B = 1 has the same rate at both, B = 2 another."""
    rows = [(1, 10, 0.1, 2.0), (1, 20, 0.1, 1.5), (2, 10, 0.1, 3.0), (2, 20, 0.8, 2.5), (4, 10, 0.1, 1.0)]
    rows += [(4, 10, 0.4, 2.0), (4, 10, 0.8, 3.0)]
    columns = dict(zip(("batch_size", "samples", "learning_rate", "loss"), zip(*rows, strict=True), strict=True))
    tuned = tuned_losses(loss_rows({**columns, "seed": [0] * len(rows)})[0])
    drawn = resampled(tuned, LossNoise("runs", np.full(3, 0.01), np.full(3, 50.0)), 1000, 0)
    errors = drawn - np.log(tuned.loss)
    np.testing.assert_allclose(errors[:, 0, 0], errors[:, 0, 1], rtol=1e-9)
    assert abs(np.corrcoef(errors[:, 1].T)[0, 1]) < 0.15
    assert np.std(errors[:, 0, 0]) == pytest.approx(0.1, rel=0.15)


def test_edges_move_losses_by_their_share_of_the_fall():
    rows = [(1, 10, rate, loss) for rate, loss in ((1, 4.0), (2, 2.0), (4, 1.2), (8, None))] + [(2, 10, 1, 2.0)]
    tuned = tuned_losses(loss_rows(rows)[0])
    fall = math.log(2 / 1.2) ** 2 / math.log(4 / 2)  # slopes go on shrinking as they did
    up, down = other_edges(tuned, 0.8)
    np.testing.assert_allclose(tuned.slack[:, 0], [fall / 2, 0])
    np.testing.assert_allclose(up[:, 0], np.log([1.2, 2]) + [-0.1 * fall, 0], rtol=1e-12)
    np.testing.assert_allclose(down[:, 0], np.log([1.2, 2]) + [-0.9 * fall, 0], rtol=1e-12)


# ------------------------------------------------------------------ intervals

NONE = (math.nan, math.nan)


@pytest.mark.parametrize(
    ("intervals", "edges", "low", "high"),
    [
        ([(80, 120), (90, 150), NONE], (70, 110), (80, 70), (150, 110)),
        ([(80, 120), (90, 150), NONE], (110, 70), (80, 70), (150, 110)),
        ([(110, 150)], (120, 130), (100, 100), (150, 130)),  # no interval goes beyond its number
        ([(50, 90)], (60, 80), (50, 60), (100, 100)),
        ([NONE], (100, 100), (100, 100), (100, 100)),
        ([(90, math.inf)], (100, 100), (90, 100), (math.inf, 100)),
        ([(0, 130)], (90, 110), (0, 90), (130, 110)),
    ],
)
def test_intervals_reach_to_the_widest_and_in_squares_of_logs_to_the_edge(intervals, edges, low, high):
    logs = [np.log(np.maximum(np.array(ends) / 100, 1e-300)) for ends in (low, high)]
    expected = 100 * np.exp([-np.hypot(*logs[0]), np.hypot(*logs[1])])
    np.testing.assert_allclose(widened(100.0, intervals, np.array(edges, float)), expected, atol=1e-100)


def test_a_number_without_an_upper_end_lies_above_the_least_of_all():
    assert widened(math.inf, [(80.0, 120.0), (70.0, math.inf), NONE], np.array([90.0, math.inf])) == (70, math.inf)
    assert widened(math.inf, [(80.0, 120.0), NONE], np.array([60.0, math.inf])) == (60, math.inf)
