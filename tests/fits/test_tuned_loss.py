"""L* of rows of losses against the rule of THEORY.md T33 written out one row at a time, and cells against a dict."""

import math
import statistics

import numpy as np
import pytest
from scipy import interpolate, optimize

from sgdtheory.fits.loss_rows import loss_rows
from sgdtheory.fits.tuned_loss import LossCurves, lowest, tuned_losses


def is_cliff(beside, opposite, least):
    """The rate beside the best diverged, or is worse than the one two further, or, without that, twice as bad."""
    return math.isinf(beside) or beside > (opposite if math.isfinite(opposite) else least + math.log(2))


def turn(x, y, at):
    """Return the minimum of the parabola through three points, relative to `at`, and of the line through two."""
    if not all(map(math.isfinite, y)):
        slope = (y[2] - y[1]) / (x[2] - x[1])
        return (0.0 if slope == 0 else -math.copysign(math.inf, slope)), y[2]
    curvature, slope, value = np.linalg.solve(np.vander(np.array(x) - at, 3), y)
    if curvature < 1e-9:  # it turns nowhere: on and on
        return (0.0 if abs(slope) < 1e-9 else -math.copysign(math.inf, slope)), y[2]
    return -slope / (2 * curvature), value - slope**2 / (4 * curvature)


def by_the_rule(x, y):
    """(log L*, how much lower it may lie, log γ*, state) of one row."""
    best = min(range(len(y)), key=lambda k: y[k])

    def loss(place):
        return y[place] if 0 <= place < len(y) else math.inf

    if math.isinf(y[best]):
        return math.inf, 0.0, x[best], "diverged"
    if math.isinf(loss(best - 1)) and math.isinf(loss(best + 1)):
        return y[best], 0.0, x[best], "one rate"
    if best in (0, len(y) - 1):
        return y[best], 0.0, x[best], "highest rate" if best else "lowest rate"
    for side in (1, -1):  # of the cliff
        if math.isfinite(loss(best - side)) and is_cliff(loss(best + side), loss(best - 2 * side), y[best]):
            places = [best - 2 * side, best - side, best]
            points = [x[place] if 0 <= place < len(x) else math.nan for place in places], [loss(k) for k in places]
            vertex, value = turn(*points, x[best])
            if side * vertex <= 1e-12:
                return value, 0.0, x[best] + vertex, "tuned"
            last = (loss(best - side) - y[best]) / abs(x[best] - x[best - side])  # slopes
            ratio = 1.0
            if loss(best - 2 * side) > loss(best - side) and math.isfinite(loss(best - 2 * side)):
                before = loss(best - 2 * side) - loss(best - side)
                ratio = min(1.0, last / (before / abs(x[best - side] - x[best - 2 * side])))
            beyond = abs(x[best + side] - x[best])
            share = min(1.0, 2 * abs(vertex) / abs(x[best] - x[best - side]))
            return y[best], share * ratio * last * beyond, x[best] + side * beyond / 2, "beside divergence"
    vertex, value = turn(x[best - 1 : best + 2], y[best - 1 : best + 2], x[best])
    return value, 0.0, x[best] + vertex, "tuned"


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5, 7])
def test_every_row_of_a_table_follows_the_rule(number):
    """Rough and smooth rows, ties, flat places, and rates that diverged, at rates a changing factor apart."""
    random = np.random.default_rng(number)
    x = np.cumsum(random.uniform(0.3, 2, number)) - 2
    rough = random.integers(0, 4, (300, number)).astype(float)
    smooth = 0.3 * (x - random.uniform(x[0], x[-1], (300, 1))) ** 2 + random.uniform(-1, 1, (300, 1))
    falling = np.cumsum(-random.exponential(1, (300, number)), 1) * random.choice([1, 0.1], (300, 1))
    table = np.concatenate([rough, smooth, smooth + 0.1 * random.standard_normal(smooth.shape), falling])
    table[random.random(table.shape) < 0.15] = np.inf
    table[600:900, -1], table[0] = np.inf, np.inf
    table[np.ix_(range(0, 1200, 2), range(number - 1, -1, -2))] += 0.9  # more than log 2, less than log 4
    table = np.concatenate([table, table[::-1, ::-1]])
    found = lowest(x, table)
    expected = [by_the_rule(x.tolist(), row.tolist()) for row in table]
    assert found.state.tolist() == [each[3] for each in expected]
    np.testing.assert_allclose(found.top, [each[0] for each in expected], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.fall, [each[1] for each in expected], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.log_rate, [each[2] for each in expected], rtol=1e-9, atol=1e-9)
    if number > 3:
        assert len(set(found.state)) == 6  # all that there are
    np.testing.assert_array_equal(found.value, found.top - 0.5 * found.fall)


# ------------------------------------------------------------------ cells


@pytest.fixture(scope="module")
def runs():
    """{(B, D): {γ: losses}}, rates and numbers of runs differing, one (B, D) missing; and its rows shuffled."""
    random = np.random.default_rng(3)
    found = {}
    for batch in (8.0, 32.0, 64.0):
        for samples in (1e4, 3e4):
            rates = np.sort(random.choice([0.1, 0.2, 0.4, 0.8, 1.6], random.integers(2, 5), replace=False)).tolist()
            found[batch, samples] = {rate: random.uniform(1, 3, random.integers(1, 4)).tolist() for rate in rates}
    del found[32.0, 3e4]
    found[8.0, 1e4] = {0.2: [2.5, math.inf], 0.4: [2.0]}
    found[64.0, 3e4] = {0.1: [3.0, 3.3, 3.1], 0.4: [2.0, 2.2], 0.8: [1.9], 1.6: [math.inf]}
    rows = [(*at, rate, loss) for at, cell in found.items() for rate, losses in cell.items() for loss in losses]
    random.shuffle(rows)
    return found, rows


def test_a_cell_has_the_runs_at_its_batch_size_and_data_size(runs):
    expected, rows = runs
    (table,) = loss_rows(rows)
    tuned = tuned_losses(table)
    assert (tuned.batch_sizes.tolist(), tuned.samples.tolist()) == ([8, 32, 64], [1e4, 3e4])
    rates = sorted({rate for cell in expected.values() for rate in cell})
    assert [(tuned.batch_sizes[each.batch], tuned.samples[each.data]) for each in tuned.cells] == list(expected)
    for cell, by_rate in zip(tuned.cells, expected.values(), strict=True):
        assert [rates[place] for place in cell.places] == list(by_rate)
        np.testing.assert_allclose(np.exp(cell.log_rates), list(by_rate))
        assert cell.counts.tolist() == [len(losses) for losses in by_rate.values()]
        np.testing.assert_allclose(np.exp(cell.log_losses), [statistics.mean(losses) for losses in by_rate.values()])
        variances = [
            statistics.variance([loss / statistics.mean(losses) for loss in losses])
            if len(losses) > 1 and math.inf not in losses
            else math.nan
            for losses in by_rate.values()
        ]
        np.testing.assert_allclose(cell.variances, variances, rtol=1e-12)


def test_losses_of_a_group_lie_in_the_middle_of_what_they_may_be(runs):
    expected, rows = runs
    (table,) = loss_rows(rows)
    tuned = tuned_losses(table)
    for row, batch in enumerate(tuned.batch_sizes):
        for column, samples in enumerate(tuned.samples):
            cell = expected.get((batch, samples))
            here = row, column
            if cell is None:
                assert (np.isnan(tuned.loss[here]), tuned.slack[here], tuned.state[here]) == (True, 0.0, "")
                assert np.isnan(tuned.learning_rate[here])
                continue
            means = [math.log(statistics.mean(losses)) for losses in cell.values()]
            top, fall, log_rate, state = by_the_rule([math.log(rate) for rate in cell], means)
            assert tuned.state[here] == state
            found = tuned.loss[here], tuned.slack[here], tuned.learning_rate[here]
            assert found == pytest.approx((math.exp(top - fall / 2), fall / 2, math.exp(log_rate)), rel=1e-9)
    assert tuned.slack[2, 1] > 0


def test_which_losses_go_into_fits():
    """Tuned ones, also beside divergence; upper bounds if asked for, or if there is nothing else."""
    of_state = {
        "tuned": [2.0, 1.0, 2.0, 3.0],
        "lowest rate": [1.0, 2.0, 3.0, 4.0],
        "highest rate": [4.0, 3.0, 2.0, 1.0],
        "beside divergence": [3.0, 2.0, 1.0, np.nan],
        "one rate": [np.nan, np.nan, 1.0, np.nan],
        "diverged": [np.nan] * 4,
    }
    rows = [
        (place + 1, 100, rate, loss)
        for place, losses in enumerate(of_state.values())
        for rate, loss in zip((1, 2, 4, 8), losses, strict=True)
    ]
    tuned = tuned_losses(loss_rows(rows)[0])
    assert tuned.state[:, 0].tolist() == list(of_state)
    assert not tuned.untuned
    assert tuned.usable(edges=False)[:, 0].tolist() == [True, False, False, True, False, False]
    assert tuned.usable(edges=True)[:, 0].tolist() == [True] * 5 + [False]
    alone = tuned_losses(loss_rows([row for row in rows if row[0] in (5, 6)])[0])
    assert alone.untuned
    assert alone.usable(edges=False)[:, 0].tolist() == [True, False]
    both_ends = tuned_losses(loss_rows([row for row in rows if row[0] in (2, 3)])[0])
    assert not both_ends.untuned
    assert not both_ends.usable(edges=False).any()


# ------------------------------------------------------------------ data to a loss, against SciPy's cubics

SAMPLES = np.array([10.0, 15.0, 40.0, 100.0, 120.0, 500.0])


def pooled(values):
    """Neighbours that rise are replaced by their mean until none does."""
    blocks = []
    for value in values:
        blocks.append([value, 1])
        while len(blocks) > 1 and blocks[-2][0] < blocks[-1][0]:
            (first, m), (second, n) = blocks[-2:]
            blocks[-2:] = [[(m * first + n * second) / (m + n), m + n]]
    return [mean for mean, count in blocks for _ in range(count)]


@pytest.fixture(scope="module")
def rows():
    """Falling and noisy ones, and one that rises all along."""
    random = np.random.default_rng(0)
    falling = 3 - np.cumsum(random.exponential(0.3, (10, 6)), 1)
    return np.concatenate([falling, falling + 0.3 * random.standard_normal((10, 6)), [np.arange(6.0)]])


def test_knots_never_rise_and_are_means_of_neighbours(rows):
    curves = LossCurves(SAMPLES, rows)
    np.testing.assert_allclose(curves.knots, [pooled(row) for row in rows], rtol=1e-12)
    assert (np.diff(curves.knots[10:]) == 0).any()


@pytest.mark.parametrize("number", [2, 3, 6])
def test_data_to_a_loss_solve_the_cubic(rows, number):
    curves = LossCurves(SAMPLES[:number], rows[:, :number])
    x = np.log(SAMPLES[:number])
    for target in np.linspace(curves.knots.min() - 0.1, 3.1, 23):
        found = curves.samples_to(target)
        for knots, samples in zip(curves.knots, found, strict=True):
            if not knots[-1] <= target <= knots[0]:
                assert np.isnan(samples)
                continue
            cubic = interpolate.PchipInterpolator(x, knots)
            solution = optimize.brentq(lambda place, cubic=cubic, at=target: cubic(place) - at, x[0], x[-1])
            assert np.log(samples) == pytest.approx(solution, abs=1e-9)


def test_at_the_data_sizes_themselves_the_fewest_data_count():
    curves = LossCurves(SAMPLES, np.array([[3.0, 3.0, 2.0, 2.0, 1.0, 1.0]]))
    for target, samples in ((3.0, 10), (2.0, 40), (1.0, 120)):
        assert curves.samples_to(target)[0] == pytest.approx(samples, rel=1e-6)  # where the cubic is level
    assert np.isnan([curves.samples_to(target)[0] for target in (3.0001, 0.9999)]).all()


def test_one_data_size_is_reached_at_its_own_loss_alone():
    curves = LossCurves(np.array([70.0]), np.array([[1.5], [2.5]]))
    np.testing.assert_allclose(curves.samples_to(1.5), [70, np.nan])
    np.testing.assert_allclose(curves.log_loss_at(70.0), [1.5, 2.5])


def test_losses_at_a_data_size(rows):
    curves = LossCurves(SAMPLES, rows)
    for place, samples in enumerate(SAMPLES):
        np.testing.assert_array_equal(curves.log_loss_at(samples), curves.knots[:, place])
    for samples in (11.0, 50.0, 499.0):
        expected = [interpolate.PchipInterpolator(np.log(SAMPLES), knots)(np.log(samples)) for knots in curves.knots]
        np.testing.assert_allclose(curves.log_loss_at(samples), expected, rtol=1e-12)
    assert np.isnan([curves.log_loss_at(samples) for samples in (9.99, 501.0)]).all()
