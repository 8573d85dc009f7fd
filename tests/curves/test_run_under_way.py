"""Cells of rows, and rows that are ahead."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.curves.laws.theory import TheoryLaw
from sgdtheory.curves.run_under_way import AHEAD, CELLS, after_warmup, rows_of

LAW = TheoryLaw()
LAST = 4000


def run(steps=None, rate=None, size=None, **options):
    steps = np.arange(100, LAST + 1, 10) if steps is None else steps
    rate = np.full(steps.size, 1e-3) if rate is None else rate
    return st.LossCurve(steps, rate, 3 + 20 * steps**-0.5, size, **options)


def test_cells_hold_means_of_their_rows():
    curve = run()
    rows = rows_of([curve], np.full(8000, 1e-3), LAW)
    assert 0.6 * CELLS < rows.log_loss.size <= CELLS
    assert rows.count.sum() == curve.step.size
    ends = np.cumsum(rows.count).astype(int)
    for k, (first, last) in enumerate(zip(np.append(0, ends), ends, strict=False)):
        assert np.exp(rows.log_loss[k]) == pytest.approx(curve.loss[first:last].mean(), rel=1e-12)
        assert np.exp(rows.log_steps[0][k]) == pytest.approx(curve.step[first:last].mean(), abs=0.51)
    width = np.log(curve.step[-1] / curve.step[0]) / CELLS
    inside = np.split(np.log(curve.step), ends[:-1])
    assert max(np.ptp(each) for each in inside) <= width


def test_losses_are_those_of_the_whole_curve():
    """Means over cells and straight learning rates between them leave the law as it is."""
    steps = np.arange(LAST + 1)
    cosine = 1e-3 * (0.55 + 0.45 * np.cos(np.pi * steps / LAST))
    every = np.arange(100, LAST + 1, 4)
    whole = run(every, cosine[every])
    part = run(every[every <= 1600], cosine[every[every <= 1600]])
    rows = rows_of([part], cosine[:LAST], LAW)
    point = LAW.coordinates(LAW.starts([whole])[0])[None]
    prepared = LAW.prepared([whole])._replace(optimizer=rows.whole.optimizer)
    exact = np.log(LAW.losses(LAW.values(point), prepared)[0][0])
    assert rows.foretold(point)[0, -1] == pytest.approx(exact[-1], abs=3e-4)
    assert rows.predicted(point)[0, -1] == pytest.approx(
        np.interp(np.exp(rows.log_steps[0][-1]), every, exact), abs=3e-4
    )


def test_a_row_to_which_the_rate_drops_is_a_cell():
    steps = np.arange(100, LAST + 1, 10)
    rate = np.where(steps < 2000, 1e-3, 2e-4)
    rows = rows_of([run(steps, rate)], np.full(8000, 2e-4), LAW)
    place = int(np.flatnonzero(np.isclose(np.exp(rows.log_steps[0]), 2000))[0])
    assert rows.count[place] == 1
    assert rows.count[place - 1] > 1


def test_rows_ahead_end_with_the_run_and_show_jumps():
    rates = np.where(np.arange(9000) < 7000, 1e-3, 1e-4)
    ahead = rows_of([run()], rates, LAW).ahead
    assert ahead.step[0] == LAST + 1
    assert ahead.step[-1] == 9000
    assert ahead.step.size <= 3 * AHEAD + 3
    before, after = (int(np.flatnonzero(ahead.step == step)[0]) for step in (6999, 7000))
    assert ahead.learning_rate[[before, after]] == pytest.approx([1e-3, 1e-4])
    assert ahead.learning_rate[-1] == 1e-4


def test_one_step_ahead():
    assert rows_of([run()], np.full(LAST + 1, 1e-3), LAW).ahead.step == [LAST + 1]


def test_rows_of_a_warm_up_are_left_out():
    steps = np.arange(10, LAST + 1, 10)
    rate = 1e-3 * np.minimum(steps / 500, 1.0)
    left = after_warmup(run(steps, rate, 32, name="a", group="g"))
    assert left.step[0] == left.warmup == 500
    assert left.step.size == steps.size - 49
    assert (left.name, left.group, left.batch_size[0]) == ("a", "g", 32)
    rising = run(steps[:40], rate[:40])
    assert after_warmup(rising) is rising  # nothing would be left
    flat = run()
    assert after_warmup(flat) is flat


def test_rows_that_runs_share_count_once():
    one = run()
    steps = one.step
    loss = np.where(steps <= 2000, one.loss, 0.99 * one.loss)
    branch = st.LossCurve(steps, 1e-3, loss)
    rows = rows_of([one, branch], np.full(8000, 1e-3), LAW)
    alone = rows_of([one], np.full(8000, 1e-3), LAW)
    assert rows.log_steps[0].size == alone.log_steps[0].size
    assert np.exp(rows.log_steps[1]).min() > 1990
    assert rows.log_loss.size == sum(each.size for each in rows.log_steps) == rows.count.size


def test_batch_sizes_go_on():
    rows = rows_of([run(size=32)], np.full(8000, 1e-3), LAW)
    assert (rows.whole.panels.batch == 32).all()
