"""Panels of steps against the learning rate and the batch size of every single step."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.curves import panels as module
from sgdtheory.curves.laws.theory import TheoryLaw
from sgdtheory.curves.panels import Optimizer, Panels, at_rows, jumps, panels_of, weight_norms

ROWS = np.array([40, 45, 50, 60, 90, 150, 300, 500, 501, 502, 700, 1000])
RATES = np.array([0.9, 1, 0.9, 0.8, 0.78, 0.76, 0.1, 0.095, 0.09, 0.085, 0.05, 0.0])  # jumps after 150
SIZES = np.array([4, 8, 16, 16, 32, 32, 64, 64, 64, 64, 64, 128])


def rates_of_steps(warmup):
    """A straight line between rows, but for the old rate up to a jump; before the first row it rises over `warmup`."""
    every = np.interp(np.arange(1000), ROWS, RATES)
    every[150:300] = 0.76
    if warmup:
        every[:40] = 0.9 * np.minimum((np.arange(40) + 0.5) / warmup, 1)
    return every


@pytest.mark.parametrize("warmup", [0, 1, 15, 40, 80])
def test_panels_have_the_mean_rate_of_their_steps(warmup):
    curve = st.LossCurve(ROWS, RATES, np.ones(12), SIZES, warmup=warmup)
    found, every = panels_of([curve]), rates_of_steps(warmup)
    ends = np.append(0, np.cumsum(found.steps[0])).astype(int)
    assert (found.steps > 0).all()
    np.testing.assert_array_equal(ends[found.rows[0]], ROWS)
    expected = [every[low:high].mean() for low, high in zip(ends[:-1], ends[1:], strict=True)]
    np.testing.assert_allclose(found.rate[0], expected, rtol=1e-9)
    sizes = np.repeat(SIZES, np.diff(np.append(ROWS, 1001)))
    np.testing.assert_array_equal(found.batch[0], np.append(np.full(40, 4), sizes)[ends[:-1]])
    late = ends[:-1] >= 40
    slope = np.gradient(np.interp(np.arange(0, 1000.5, 0.5), ROWS, RATES), 0.5)[1::2][: ends[-1]]
    slope[150:300] = 0
    rises = [slope[low:high].sum() for low, high in zip(ends[:-1], ends[1:], strict=True)]
    np.testing.assert_allclose((found.change * found.rate)[0, late], np.array(rises)[late], rtol=1e-6, atol=1e-12)
    rises = np.where(ends[1:] <= warmup, 0.9 * np.diff(ends) / max(warmup, 1), 0)
    np.testing.assert_allclose((found.change * found.rate)[0, ~late], rises[~late], rtol=1e-9)
    assert min(warmup, 40) in ends


@pytest.mark.parametrize(
    ("rows", "rates", "counts"),
    [
        (
            ROWS,
            RATES,
            [3, 3, 4, 10, 14, 20, 14, 1, 1, 8, 10],
        ),  # 300 → 500: a twentieth of 300 each; the last by its rate
        ([4, 10, 16, 30], [1, 1, 1, 1], [6, 6, 14]),  # single steps up to 20
        ([400, 410, 420, 430], [1, 0.75, 0.5, 0.25], [3, 4, 5]),
        ([400, 410, 420, 430], [0.25, 0.5, 0.75, 1.0], [5, 4, 3]),
    ],
)
def test_panels_take_a_twentieth_of_the_steps_done_or_a_tenth_of_the_rate(rows, rates, counts):
    assert np.diff(panels_of([st.LossCurve(rows, rates, np.ones(len(rows)))]).rows[0]).tolist() == counts


def test_before_the_first_row_panels_are_dense_at_the_start():
    """Single steps first; at most a twenty-fourth of the way each."""
    ends = np.append(0, np.cumsum(panels_of([st.LossCurve([480, 490, 500, 510], 0.1, np.ones(4))]).steps[0]))
    np.testing.assert_array_equal(ends[:5], [0, 1, 2, 3, 4])
    assert np.diff(ends[ends <= 480]).max() == 20
    none = panels_of([st.LossCurve([0, 10, 20, 30], 0.1, np.ones(4))])
    assert none.rows[0].tolist()[0] == 0
    assert none.steps.sum() == 30


def test_runs_of_different_lengths_are_filled_up_with_no_steps():
    curves = [st.LossCurve(ROWS, RATES, np.ones(12), SIZES), st.LossCurve(ROWS[:6], 0.3, np.ones(6), 7)]
    both, alone = panels_of(curves), [panels_of([curve]) for curve in curves]
    count = alone[1].steps.size
    assert both.steps.shape == (2, alone[0].steps.size)
    for name in ("steps", "rate", "change", "batch"):
        np.testing.assert_array_equal(getattr(both, name)[0], getattr(alone[0], name)[0])
        np.testing.assert_array_equal(getattr(both, name)[1, :count], getattr(alone[1], name)[0])
    assert not both.steps[1, count:].any()
    assert (both.batch[1] == 7).all()
    assert [rows.tolist() for rows in both.rows] == [each.rows[0].tolist() for each in alone]


def test_batch_sizes_that_are_not_known_are_nan():
    assert np.isnan(panels_of([st.LossCurve(ROWS, RATES, np.ones(12))]).batch).all()


@pytest.mark.parametrize("decay", [0.0, 1e-11, 0.1])
def test_norms_of_weights_step_by_step(decay):
    """The norms are right in the middle of panels of 2 to 40 steps, against steps divided into a hundred."""
    steps, rates = np.array([[2, 40, 10, 20, 0], [30, 4, 4, 6, 8]]), np.array([[0.1, 0.2, 0.05, 0.1, 0.1]] * 2)
    growth = np.array([0.0, 0.02])
    found = weight_norms(Panels(steps, rates, rates, rates, ()), growth, Optimizer(0.2, decay))
    assert found.shape == (2, 2, 5)
    for q, g in enumerate(growth):
        for run in range(2):
            norm = 1.0
            for m in range(5):
                for half in range(2):
                    for _ in range(50 * steps[run, m]):
                        norm += (g * (rates[run, m] / 0.2) ** 2 - 2 * decay * rates[run, m] * norm) / 100
                    if half == 0:
                        assert found[q, run, m] == pytest.approx(norm, rel=1e-3)


@pytest.mark.parametrize(
    "rate", [np.geomspace(1, 0.1, 8), np.linspace(1, 1e-4, 8), np.ones(4), [1, 1, 0.75, 0.5, 0.25, 0]]
)
def test_smooth_rates_do_not_jump(rate):
    assert not jumps(np.array(rate)).any()


@pytest.mark.parametrize(
    ("rate", "places"),
    [
        ([1, 1, 1, 0.3, 0.3, 0.3], [2]),
        ([0.3, 0.3, 1, 1], [1]),
        ([1, 0.3, 0.3, 0.3], [0]),
        ([1, 0.9, 0.8, 0.1, 0.09, 0.08], [2]),
        ([0.5, 0.1, 0.02, 1, 0.95, 0.9], [2]),  # a restart: less than four times in log γ, far more in γ
        ([1, 1, 0.79, 0.79], [1]),
        ([1, 1, 0.83, 0.83], []),  # no more than by 20%
        ([1, 1, 1, 0.3], []),  # nothing after it
    ],
)
def test_jumps_are_told_from_decays(rate, places):
    assert np.flatnonzero(jumps(np.array(rate))).tolist() == places


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("change", ["cosine", "drop", "batch"])
def test_of_a_curve_with_many_rows_not_every_row_ends_a_panel(monkeypatch, optimizer, change):
    """The loss is that of a panel a row to 10⁻⁴, after a jump of γ and of B too; in a fifth of the panels."""
    step = np.arange(1.0, 2401, 2)
    rate = 0.1 * (0.55 + 0.45 * np.cos(np.pi * step / 2400)) if change == "cosine" else np.full(step.size, 0.1)
    rate = np.where(step < 1500, 0.1, 0.03) if change == "drop" else rate
    batch = np.where(step < 900, 32.0, 128.0) if change == "batch" else 32.0
    curve = st.LossCurve(step, rate, np.ones(step.size), batch)
    law = TheoryLaw(optimizer=optimizer)
    values = {"capacity": 1.6, "source": 1.9, "signal": 1.0, "noise": 4.0, "step_size": 0.2, "floor": 0.5}
    point = law.values(law.coordinates(values)[None])

    def losses_and_panels():
        prepared = law.prepared([curve])
        return law.losses(point, prepared)[0][0], prepared.panels.steps.shape[1]

    found, count = losses_and_panels()
    monkeypatch.setattr(module, "DENSE", step.size)
    exact, every = losses_and_panels()
    assert every >= step.size
    assert count < 0.25 * every
    np.testing.assert_allclose(found, exact, rtol=1e-4)


@pytest.mark.parametrize("place", [1, 600, -3, -2])
def test_of_many_rows_the_steps_of_a_batch_size_are_all_its_own(place):
    step = np.arange(1.0, 2401, 2)
    batch = np.where(np.arange(step.size) < place % step.size, 32.0, 128.0)
    found = panels_of([st.LossCurve(step, 0.1, np.ones(step.size), batch)])
    assert found.steps.shape[1] < step.size / 2
    for size, steps in ((32, step[place]), (128, step[-1] - step[place])):
        assert found.steps[found.batch == size].sum() == steps


def test_rows_between_ends_of_panels_are_on_straight_lines():
    ends = np.array([[1.0, 3.0, np.inf, np.inf]])
    np.testing.assert_array_equal(at_rows(ends, np.array([0.0, 0.25, 1.0, 1.5, 3.0])), [[1, 1.5, 3, np.inf, np.inf]])
    np.testing.assert_array_equal(at_rows(ends, np.array([1, 3])), [[3, np.inf]])
