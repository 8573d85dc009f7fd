"""B* by comparing runs: its profile, ends and cells by hand, and what is said of it."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.interpolate import BSpline

import sgdtheory as st
from sgdtheory._common.sheets import Sheet, Table, as_text
from sgdtheory.curves.curves_report import CurvesReport
from sgdtheory.curves.equal_loss import (
    INTERVALS,
    Allowances,
    EqualLoss,
    _cubic_spline,
    _ends,
    _Grid,
    _result,
    _variances,
)
from sgdtheory.curves.equal_loss_rows import AT_END, TUNED, UNTUNED, _late, compared_rows
from sgdtheory.curves.fit_sheet import CurvesCriticalBatchSize
from sgdtheory.curves.size_remarks import at_least, why_open
from tests.curves.test_curves_fit import made

SIZES = np.array([64.0, 256.0, 1024.0])
GRID = _Grid.about(SIZES, 0.2, Allowances())
FINE = np.linspace(GRID.log_size[0], GRID.log_size[-1], 391)
FOUND = EqualLoss(2.5, 60.0, (40.0, 90.0), 64.0, 130.0, (100.0, 170.0), 300.0, 1.0, (64.0, 256.0, 1024.0), True)
WIDTH = 0.1 * np.sqrt(stats.chi2.ppf(0.9, 1))


def profile(middle, tuning=(TUNED,) * 3):
    """A parabola in log B*, a tenth wide, beside the priors of exponent and drift."""
    deviance = ((GRID.log_size[:, None] - middle) / 0.1) ** 2 + GRID.penalty
    rows: Any = SimpleNamespace(batch_sizes=SIZES, tuning=np.array(tuning))
    return _result(rows, GRID, deviance, 2.5, 0.2, 0.9)


def test_the_grid_of_candidates():
    """From ω times the smallest batch size over 30 to 20 times the largest; b = B*/ω^(1/q)."""
    np.testing.assert_allclose(np.exp(GRID.log_size[[0, -1]]), [0.2 * 64 / 30, 20 * 1024])
    np.testing.assert_allclose(np.ptp([GRID.exponent, GRID.drift], axis=1), [4 * 0.13, 4.5 * 0.08])
    np.testing.assert_allclose(np.exp(GRID.log_half), np.exp(GRID.log_size)[:, None] * 0.2 ** (-1 / GRID.exponent))
    expected = ((GRID.exponent - 1) / 0.13) ** 2 + ((GRID.drift - 0.08) / 0.08) ** 2
    np.testing.assert_allclose(GRID.penalty, expected, atol=1e-12)


def test_the_interval_is_that_of_the_profile():
    found = profile(FINE[200])
    inside = FINE[np.abs(FINE - FINE[200]) <= WIDTH]
    assert (found.batch_size, found.exponent, found.loss) == pytest.approx((np.exp(FINE[200]), 1.0, 2.5))
    assert found.interval == pytest.approx(tuple(np.exp(inside[[0, -1]])))
    assert (found.half, found.from_smallest) == pytest.approx((found.batch_size / 0.2, found.batch_size + 1.2 * 64))
    reach = [
        half * (1.2 * (1 + (64 / half) ** q) - 1) ** (1 / q)
        for q, penalty in zip(GRID.exponent, GRID.penalty, strict=True)
        for half in np.exp(FINE - np.log(0.2) / q)[((FINE - FINE[200]) / 0.1) ** 2 + penalty <= (WIDTH / 0.1) ** 2]
    ]
    assert found.from_smallest_interval == pytest.approx((min(reach), max(reach)))
    assert (found.smallest, found.compared, found.tuned, found.at_end) == (64, (64, 256, 1024), True, ())


@pytest.mark.parametrize("share", [-0.5, 0.5])
def test_an_end_at_the_last_candidate_is_open(share):
    """The profile ends half a candidate beyond it, or before it."""
    beside = WIDTH + share * (FINE[1] - FINE[0])
    low, high = profile(FINE[0] + beside), profile(FINE[-1] - beside)
    assert low.interval[0] == (0 if share < 0 else pytest.approx(np.exp(FINE[1])))
    assert high.interval[1] == (np.inf if share < 0 else pytest.approx(np.exp(FINE[-2])))
    assert low.interval[1] < np.inf
    assert high.interval[0] > 0


def test_ends_that_would_change_no_decision_are_open():
    assert profile(FINE[200], (TUNED, AT_END, UNTUNED)).interval == (0, np.inf)
    assert profile(FINE[200], (TUNED, AT_END, UNTUNED)).at_end == (256,)
    assert not profile(FINE[200], (TUNED, TUNED, UNTUNED)).tuned
    for inside, expected in (([10, 90], (10, 90)), ([9.9, 90], (0, 90)), ([10, 91], (10, np.inf))):
        assert _ends(np.array(inside, float), 30.0, (False, False)) == expected


def test_splines_are_scipys():
    place = np.array([-0.0, 0.3, 1.0, 4.7, INTERVALS - 1e-9, INTERVALS])
    values, slopes = _cubic_spline(place)
    for k in range(INTERVALS + 3):
        basis = BSpline(np.arange(-3.0, INTERVALS + 4), np.eye(INTERVALS + 3)[k], 3)
        np.testing.assert_allclose([values[:, k], slopes[:, k]], [basis(place), basis.derivative()(place)], atol=1e-9)


def test_the_mean_of_the_last_steps_and_its_error():
    """Blocks of half as many rows as the last tenth has; second differences of their means."""
    step = np.arange(1, 104)
    loss = 3 + 0.1 * np.random.default_rng(0).standard_normal(103)
    mean, error = _late(st.LossCurve(step, 0.1, loss, 8), 100.0)
    assert mean == pytest.approx(loss[(step >= 90) & (step <= 100)].mean())
    blocks = np.array([loss[k : k + 5].mean() for k in range(3, 103, 5)])
    seconds = blocks[:-2] - 2 * blocks[1:-1] + blocks[2:]
    assert error == pytest.approx(
        np.median(np.abs(seconds)) / stats.norm.ppf(0.75) / 6**0.5 / (11 / 5) ** 0.5, rel=1e-4
    )
    assert _late(st.LossCurve(step, 0.1, loss, 8), 0.5) == (np.inf, 0)


def test_variances_of_cells_by_hand():
    """Rows and misfit of each run, times the correlation of its neighbours (up to four cells apart) and 1.25."""
    draw = np.random.default_rng(2)
    run, residuals = np.repeat([0, 1], [12, 3]), 0.01 * np.convolve(draw.standard_normal(17), np.ones(3), "valid")
    columns = {"run": run, "variance": np.full(15, 1e-4), "count": np.full(15, 4.0), "loss": np.full(15, 3.0)}
    rows: Any = SimpleNamespace(**columns)
    found = _variances(rows, residuals, 5, Allowances())
    for own in (slice(12), slice(12, 15)):
        r, freedom = residuals[own], 1 - 5 / 15
        total = 1e-4 / 4 + max(np.mean(r**2) / freedom - 1e-4 / 4, 0.0) + 3e-4**2
        products = [(1 - lag / 6) * np.mean(r[lag:] * r[:-lag]) for lag in range(1, min(4, r.size - 1) + 1)]
        correlation = max(1.0, (np.mean(r**2) + 2 * sum(products)) / total / freedom)
        np.testing.assert_allclose(found[own], 1.25 * total * correlation)
    assert found[0] > 1.5 * 1.25 * np.mean(residuals[:12] ** 2)  # neighbours are alike
    crowded = _variances(rows, residuals, 14, Allowances(inflation=1.0))
    total = np.mean(residuals[12:] ** 2) / 0.3 + 3e-4**2  # no fewer than three degrees of freedom of ten
    assert crowded[12] >= total * (1 - 1e-9)


def falling(size, rates, warmup=0.0):
    """Runs whose loss falls with the learning rate."""
    step = np.arange(10, 210, 10)
    return [st.LossCurve(step, rate, 3 + 20 / step - rate, size, warmup=warmup) for rate in rates]


def test_the_largest_rate_of_all_needs_no_larger_one():
    for rates, expected in (((0.1, 0.2, 0.4), TUNED), ((0.1, 0.2), AT_END), ((0.4,), UNTUNED)):
        rows: Any = compared_rows([*falling(8, (0.1, 0.4)), *falling(16, rates)])
        assert rows.tuning.tolist() == [TUNED, expected]


@pytest.mark.parametrize(("warmup", "count"), [(0.0, 19), (50.0, 11), (75.0, 6), (75.5, 0)])
def test_rows_after_a_tenth_of_the_run_and_twice_the_warm_up_are_compared(warmup, count):
    """If they are six or more."""
    rows: Any = compared_rows(falling(8, [0.1], warmup))
    assert (0 if rows is None else rows.count.sum()) == count


# ------------------------------------------------------------------ results, and what is said


@pytest.mark.parametrize(
    ("largest", "high"), [(None, 90), (0.3, 90), (0.4, 90), (0.4 * (1 + 5e-10), 90), (0.41, np.inf)]
)
def test_no_run_shows_what_a_larger_learning_rate_does(monkeypatch, largest, high):
    """Learning rates of the curves go up to 0.4."""
    seen = []
    monkeypatch.setattr(
        "sgdtheory.curves.curves_fit.compare_at_equal_loss", lambda *args, **options: seen.append(options) or FOUND
    )
    found = made().critical_batch_size(1e6, max_learning_rate=largest)
    assert found.interval.tolist() == [[40, high]]
    assert found.compared[0].from_smallest_interval == (100, np.inf if high == np.inf else 170)
    assert (found.batch_size, found.loss, seen[0]) == (60, 2.5, {"max_learning_rate": largest or np.inf})
    table = made().steps_law(1e6, max_learning_rate=largest)
    sizes = 60 * np.geomspace(1 / 64, 8, 28)
    np.testing.assert_allclose([table.batch_sizes, table.steps], [sizes, 1e6 * (1 / sizes + 1 / 300)])
    assert table.critical == st.fits.FittedCriticalBatchSize(60.0, 40.0, high, st.Convention(None, 0.2), 0.95)


def critical(low=40.0, high=90.0, **changed):
    ends = np.array([[low, high], [low, high]])
    values = [np.array([1e6, 2e6]), np.array([61.2345, 70.0]), ends, np.array([2.654321, 2.5]), 4e-4, "so"]
    return CurvesCriticalBatchSize(*values, **{"level": 0.9, "open_because": "why"} | changed)


@pytest.mark.parametrize(
    ("ends", "answer"),
    [
        ((40.0, 90.0), "B* = 61.23 (40 … 90) at D = 1e+06"),
        ((0.0, 90.0), "B* is at most 90 (90%) at D = 1e+06: why"),
        ((40.0, np.inf), "B* is at least 40 (90%) at D = 1e+06: why"),
        ((0.0, np.inf), "B* is not determined at D = 1e+06: why"),
    ],
)
def test_the_answer_in_one_line(ends, answer):
    assert critical(*ends).answer == answer


def test_tables_of_critical_batch_sizes():
    other = replace(FOUND, from_smallest=140.0, tuned=False)
    lines = [" ".join(each.split()) for each in as_text(critical(compared=(FOUND, other)).sheet()).splitlines()]
    assert lines[:4] == [
        "critical batch size at 20% overhead",
        "D B*, γ ≤ 0.0004 90% B*, from B = 64 90% least loss",
        "1,000,000 61.23 40 … 90 130 100 … 170 2.6543",
        "2,000,000 70 40 … 90 140 100 … 170 2.5",
    ]
    assert "more samples than vanishing batch sizes for the same loss" in " ".join(lines)
    assert lines[-1] == "so"
    assert "not every batch size has several" in as_text(critical(compared=(other, FOUND)).sheet())
    bare = as_text(critical(overhead=0.125, knows_batch_size=False).sheet())
    assert bare.startswith("critical batch size at 12.5% overhead, in batches of these runs")
    assert "up to 0.0004. B* grows with this limit." in bare.replace("\n", " ")
    tables = Table([], title="errors"), Table([])
    fit: Any = SimpleNamespace(curves=made().curves, sheet=lambda others: Sheet(str(len(others)), tables, ["", "odd"]))
    report = CurvesReport(fit, critical(), made().curves[:2]).sheet()
    assert [each.title for each in report.tables] == ["errors", "2", "critical batch size at 20% overhead"]
    assert (report.title, report.remarks) == (critical().answer, ["odd", "so"])
    fit.curves = (replace(fit.curves[0], group="g"),)
    assert CurvesReport(fit, critical()).sheet().remarks == ["g: odd", "g: so"]


def test_the_numbers_and_errors_of_a_fit():
    fit = made()
    text = as_text(fit.sheet(others=fit.curves[:1]))
    lines = [" ".join(each.split()) for each in text.splitlines()]
    assert lines[0] == "3 curves, 15 rows: the theory is off by 1.00% (standard deviation of log loss)"
    row = next(each for each in lines if each.startswith("capacity exponent"))
    low, high = fit.capacity.interval
    assert row == f"capacity exponent a, λ_i ∝ i^−a 1.6 {low:.4g} … {high:.4g}"
    predicted = fit.predict_curve(fit.curves[2]).loss
    largest = np.abs(predicted / fit.curves[2].loss - 1).max()
    assert lines.count("curves held out") == 1
    assert any(
        each.startswith(f"5 400 3.0025 {predicted[-1]:.5g} ") and each.endswith(f" {largest:.2%}") for each in lines
    )
    assert "noise σ²/B of a batch (loss)" in as_text(made(known=False).sheet())


def test_why_an_end_is_open():
    curves = made().curves  # learning rates up to 0.4
    assert why_open(curves, FOUND, 0.4) == ""
    open_end = replace(FOUND, interval=(40.0, np.inf))
    assert why_open(curves, open_end, 0.4) == "these runs leave an end more than a factor of 3 away"
    assert why_open(curves, replace(FOUND, interval=(0.0, 90.0)), 0.4).endswith("a factor of 3 away")
    assert why_open(curves, open_end, 0.41) == "no run has a learning rate of 0.41, with which B* is larger"
    assert why_open(curves[:1], None, 0.4) == "all runs used one batch size, 8"
    assert why_open(curves[:2], None, 0.4) == "it takes runs at three constant batch sizes or more"
    assert at_least(np.array([])) == ""
    assert at_least(np.array([16.0, 32.0])).startswith("D = 16, 32: B* is D/8 or more")
