"""Rows joined by step; restarts and repeated steps, against a replay entry by entry."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st_

import sgdtheory as st

STEPS = st_.lists(st_.integers(0, 30), min_size=1, max_size=40)


def replayed(steps):
    """Return the memory of a run that forgets, at every entry, all from its step on."""
    held = {}
    for number, step in enumerate(steps):
        held = {key: value for key, value in held.items() if key < step} | {step: number}
    return held


@given(steps=STEPS)
def test_later_entries_replace_earlier_ones(steps):
    if len(steps) > 1 and all(a >= b for a, b in zip(steps, steps[1:])) and steps[0] > steps[-1]:
        return  # a file that has its last step first: below
    log = st.logs.TrainingLog.from_series("a", "test", {"loss": (steps, np.arange(len(steps)))})
    held = replayed(steps)
    assert log.step.tolist() == list(held)
    assert log.loss.tolist() == list(held.values())
    lost = len(steps) - len(held)
    assert bool(log.remarks) == bool(lost)
    if lost:
        gone = [step for number, step in enumerate(steps) if held.get(step) != number]
        rows = "1 row was" if lost == 1 else f"{lost} rows were"
        assert log.remarks == (f"steps go back to {min(gone)} or repeat: {rows} replaced by what was logged later",)


@given(steps=st_.sets(st_.integers(0, 30), min_size=2))
def test_a_file_with_its_last_step_first_is_turned_over(steps):
    down = sorted(steps, reverse=True)
    log = st.logs.TrainingLog.from_series("a", "test", {"loss": (down, down)})
    assert log.step.tolist() == log.loss.tolist() == down[::-1]
    assert log.remarks == ()


def test_the_column_that_lost_most_is_spoken_of():
    """Also where others lost nothing."""
    series = {"loss": ([1, 2, 2], [1, 2, 3]), "tokens": ([4, 5, 6, 3], [1, 2, 3, 4]), "learning_rate": ([1], [1])}
    log = st.logs.TrainingLog.from_series("a", "test", series)
    assert log.remarks == ("steps go back to 4 or repeat: 3 rows were replaced by what was logged later",)


def test_repeated_steps_of_a_file_that_is_turned_over():
    log = st.logs.TrainingLog.from_series("a", "test", {"loss": ([3, 2, 2, 1], [30, 21, 20, 10])})
    assert (log.step.tolist(), log.loss.tolist()) == ([1, 2, 3], [10, 21, 30])
    same = st.logs.TrainingLog.from_series("a", "test", {"loss": ([2, 2], [1, 5])})
    assert same.loss.tolist() == [5]


def test_columns_are_joined_and_do_not_replace_each_other():
    """An evaluation of step 20 that is logged after the training row of step 30 takes nothing away."""
    series = {"loss": ([10, 20, 30], [3, np.nan, -np.inf]), "evaluation_loss": ([20], [np.nan]), "tokens": ([5], [7])}
    log = st.logs.TrainingLog.from_series("a", "test", series, remarks=("before",), settings={"beta1": 0.9})
    assert log.step.tolist() == [5, 10, 20, 30]
    np.testing.assert_array_equal(log.loss, [np.nan, 3, np.inf, np.inf])
    np.testing.assert_array_equal(log.evaluation_loss, [np.nan, np.nan, np.inf, np.nan])
    np.testing.assert_array_equal(log.tokens, [7, np.nan, np.nan, np.nan])
    assert (log.remarks, log.settings) == (("before",), {"beta1": 0.9})
    assert (log.has("tokens"), log.has("batch_size")) == (True, False)
    assert [each.tolist() for each in log.series("loss")] == [[10, 20, 30], [3, np.inf, np.inf]]


def test_an_empty_log():
    log = st.logs.TrainingLog.from_series("a", "test", {"loss": ([], [])})
    assert log.step.size == log.loss.size == 0


@pytest.mark.parametrize("bad", [-1, 0.5, np.nan, np.inf])
def test_steps_are_whole_numbers(bad):
    with pytest.raises(ValueError, match=r"a: steps must be whole numbers of at least 0, got .*; name the column"):
        st.logs.TrainingLog.from_series("a", "test", {"loss": ([1, bad], [1, 1])})


def test_a_file_with_its_last_step_twice_at_its_head_is_turned_over():
    log = st.logs.TrainingLog.from_series("a", "test", {"loss": ([3, 3, 1], [31, 30, 10])})
    assert (log.step.tolist(), log.loss.tolist()) == ([1, 3], [10, 31])


def test_tokens_a_step_are_blank_unless_they_were_logged():
    blank = np.full(2, np.nan)
    log = st.logs.TrainingLog("a", "test", np.array([1.0, 2.0]), np.ones(2), blank, blank, blank, blank)
    assert not log.has("batch_tokens")
    assert log.batch_tokens.shape == (2,)
    logged = st.logs.TrainingLog.from_series("a", "test", {"batch_tokens": ([1, 2], [2048, 4096])})
    assert logged.batch_tokens.tolist() == [2048, 4096]


@pytest.mark.parametrize(
    ("factor", "settings", "number"),
    [
        (8.0, {}, 8),
        (7.4, {"accumulation": 7}, 7),
        (2.1, {"accumulation": 2}, 2),
        (2.0, {}, None),  # data may differ as much
        (8.0, {"accumulation": 4}, None),
        (1.02, {"accumulation": 1}, None),
        (3.4, {}, None),  # no whole number
    ],
)
def test_losses_that_are_sums_over_accumulated_batches_are_named(factor, settings, number):
    """Training losses every 10 steps on a line, evaluations between two of them and one before the first."""
    steps, evaluated = np.arange(10, 101, 10), np.array([5, 35, 65, 95])
    series = {"loss": (steps, factor * (4 - steps / 100)), "evaluation_loss": (evaluated, 4 - evaluated / 100)}
    log = st.logs.TrainingLog.from_series("a", "test", series, settings=settings)
    expected = [f"training losses are about {number} times"] if number else []
    assert [remark.partition(" the ")[0] for remark in log.remarks] == expected
    few = series | {"evaluation_loss": (evaluated[:3], 4 - evaluated[:3] / 100)}
    assert not st.logs.TrainingLog.from_series("a", "test", few, settings=settings).remarks
    joined = st.logs.TrainingLog.from_series("a", "test", series, settings=settings, remarks=log.remarks)
    assert joined.remarks == log.remarks
