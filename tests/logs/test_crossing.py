"""Crossing of a target, on losses whose crossing is known in closed form."""

import numpy as np
import pytest

from sgdtheory.logs.crossing import crossing, spikes


def power(steps, at=100.0, exponent=0.5):
    """A loss that is 2 at step `at`."""
    return 2.0 * (np.asarray(steps, float) / at) ** -exponent


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("at", [2.5, 37.0, 150.0])
def test_a_power_law_crosses_where_it_does(noisy, at):
    steps = np.arange(1.0, 400)
    found = crossing(steps, power(steps, at), 2.0, noisy=noisy)
    assert found.step == pytest.approx(at, rel=1e-9)
    assert found.error == pytest.approx(0, abs=1e-9)
    if not noisy:
        assert found.rows == 2


def test_step_0_and_rows_after_a_divergence_do_not_count():
    steps = np.array([0.0, 1, 2, 4, 8, 16])
    loss = power(steps[1:], at=3.0)
    assert crossing(steps, np.append(0.5, loss), 2.0, noisy=False).step == pytest.approx(3)
    cut = np.append(9.0, loss)
    cut[4:] = np.inf
    assert crossing(steps, cut, 2.0, noisy=False).step == pytest.approx(3)
    cut[3] = np.inf
    assert crossing(steps, cut, 2.0, noisy=False) == pytest.approx((np.inf, np.nan, 0), nan_ok=True)


def test_a_crossing_between_the_first_two_rows_and_between_two_rows_alone():
    for steps in ([1.0, 4.0], [1.0, 4.0, 8.0, 9.0]):
        assert crossing(np.array(steps), power(steps, at=2.0), 2.0, noisy=False).step == pytest.approx(2)


@pytest.mark.parametrize(
    ("loss", "step"),
    [
        ([3.0, 2.5, 2.2], np.inf),  # never reached
        ([1.9, 1.5, 1.2], np.nan),  # below from the first row on
        ([2.0, 1.5, 1.2], np.nan),  # at the target with the first row
        ([3.0], np.inf),
        ([3.0, 2.0, 1.9, 2.0], 2.0),
    ],
)
def test_where_no_crossing_is(loss, step):
    found = crossing(np.arange(1.0, len(loss) + 1), np.array(loss), 2.0, noisy=False)
    assert found.step == pytest.approx(step, nan_ok=True)
    if not np.isfinite(step):
        assert np.isnan(found.error)
        assert found.rows == 0


def test_a_single_low_row_does_not_count_as_the_crossing():
    steps = np.arange(1.0, 400)
    loss = power(steps, at=200.0)
    loss[20] = 1.0
    assert crossing(steps, loss, 2.0, noisy=True).step == pytest.approx(200, rel=0.01)


def least_squares(x, y):
    """(root, its standard error by the delta method), by numpy's own fit and its covariance."""
    (slope, level), covariance = np.polyfit(x, y, 1, cov=True)
    root = -level / slope
    gradient = np.array([-root / slope, -1 / slope])
    return root, float(np.sqrt(gradient @ covariance @ gradient))


@pytest.mark.parametrize(
    ("spacing", "reach"),
    [
        (1.0, 0.1),  # many rows: those within ±10% of the steps
        (4.0, "twenty"),  # rarer: the twenty nearest
        (40.0, 0.3),  # rare: those within ±30%
    ],
)
def test_noisy_rows_are_fitted_within_a_window_of_the_crossing(spacing, reach):
    """The window by its words: ±10% in log steps, more up to ±30% where fewer than 20 rows are in it."""
    steps = np.arange(spacing, 900, spacing)
    rng = np.random.default_rng(0)
    loss = power(steps, at=305.0) * np.exp(0.003 * rng.standard_normal(steps.size))
    found = crossing(steps, loss, 2.0, noisy=True)
    above = np.log(loss / 2.0)
    last = int(np.argmax(np.cumsum(above)))
    middle = (np.log(steps[last]) + np.log(steps[last + 1])) / 2
    away = np.abs(np.log(steps) - middle)
    near = np.argsort(away)[:20] if reach == "twenty" else np.flatnonzero(away <= reach)
    if reach != "twenty":
        assert (near.size < 20) == (reach == 0.3)
    else:
        assert 0.1 < away[near].max() < 0.3
    near = np.sort(near)
    assert found.rows == near.size
    root, error = least_squares(np.log(steps)[near], above[near])
    assert found.step == pytest.approx(np.exp(root), rel=1e-9)
    assert found.error == pytest.approx(error, rel=1e-6)


def test_the_error_covers_the_scatter_of_the_crossing():
    """400 noise draws: the root mean square of the errors in log steps is the stated one to 15%, four standard errors;
    half of the noise is the control.
    """
    steps = np.arange(4.0, 900, 4)
    rng = np.random.default_rng(1)
    found = [
        crossing(steps, power(steps, 300.0) * np.exp(0.01 * rng.standard_normal(steps.size)), 2.0, noisy=True)
        for _ in range(400)
    ]
    scatter = np.sqrt(np.mean([np.log(each.step / 300) ** 2 for each in found]))
    stated = np.sqrt(np.mean([each.error**2 for each in found]))
    assert stated == pytest.approx(scatter, rel=0.15)
    assert stated / 2 != pytest.approx(scatter, rel=0.15)


def test_a_flat_or_rising_window_stays_between_its_rows():
    """The line of a loss that has stopped falling has no crossing of its own: the step lies within the window."""
    steps = np.arange(1.0, 101)
    loss = np.where(steps < 50, 2.0 + 1e-4, 2.0 - 1e-4)
    loss[40:60] = 2.0 + 1e-4 * np.where(np.arange(20) % 2, 1, -1)
    found = crossing(steps, loss, 2.0, noisy=True)
    assert 30 < found.step < 70
    rising = crossing(steps, np.append(np.full(50, 2.1), np.linspace(1.9, 2.05, 50)), 2.0, noisy=True)
    assert 30 < rising.step < 75
    assert rising.error > 0


@pytest.mark.parametrize("noise", [0.0, 0.003, 0.02])
def test_spikes_do_not_move_the_crossing(noise):
    """One row in 50 at half its loss, and three rows in a row before the target; all other rows stay."""
    steps = np.arange(1.0, 6000)
    loss = power(steps, 1000.0) * np.exp(noise * np.random.default_rng(0).standard_normal(steps.size))
    spiked = loss.copy()
    spiked[48::50] *= 0.5
    spiked[800:803] *= 0.6
    found = spikes(spiked)
    np.testing.assert_array_equal(found, spiked != loss)
    kept, expected = (crossing(steps[~found], each[~found], 2.0, noisy=True).step for each in (spiked, loss))
    assert kept == pytest.approx(expected, rel=1e-12)
    assert crossing(steps, spiked, 2.0, noisy=True).step < 0.985 * expected  # control


@pytest.mark.parametrize("drop", [1.0, 0.7])
def test_a_run_as_it_is_has_no_spikes(drop):
    """Steep at the start, with a drop of the learning rate, and up to its last row; nor has one that oscillates."""
    for count in (3, 15, 40, 400):
        steps = np.arange(1.0, count + 1)
        assert not spikes(power(steps, 100.0) * np.where(steps > count / 2, drop, 1)).any()
    noisy = np.exp(0.05 * np.random.default_rng(1).standard_normal(1000))
    assert not spikes(noisy).any()
    assert not spikes(np.where(np.arange(100) % 5, 2.0, 1.0)).any()
