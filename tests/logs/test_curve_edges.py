"""Edges of loss curves and previews: numbers that begin late or end early, and what a use of logs does not need."""

import numpy as np
import pytest

import sgdtheory as st
from sgdtheory.logs.crossing import spikes

STEPS = np.arange(10.0, 110, 10)


def curve_of(settings=None, format="test", given=None, **series):
    both = {"loss": (STEPS, 3 + 20 / STEPS), "learning_rate": (STEPS, np.full(10, 1e-3))} | series
    log = st.logs.TrainingLog.from_series("run7", format, both, settings=settings or {})
    return st.logs.loss_curve(log, **({"batch_size": 1} if given is None else given))


def test_sizes_that_are_logged_late_hold_from_the_start():
    expected = [32.0] * 7 + [64.0] * 3
    assert curve_of(batch_size=([50, 80], [32, 64]), given={}).batch_size.tolist() == expected
    tokens = {"batch_tokens": ([50, 80], [256, 512]), "given": {"sequence_length": 8}}
    assert curve_of(**tokens).batch_size.tolist() == expected
    whole = curve_of(batch_tokens=([50], [256]), settings={"batch_size": 7}, given={})
    assert whole.batch_size.tolist() == [7] * 10  # without a length tokens say nothing


@pytest.mark.parametrize(
    ("at", "remarked"), [([10, 90], False), ([10, 80], True), ([50], False), ([30, 60], True), ([40, 60], False)]
)
def test_tokens_may_end_a_row_or_their_own_first_step_before_the_loss(at, remarked):
    """Then nothing is said of their growing on."""
    curve = curve_of(tokens=(at, [700 * step for step in at]))
    assert bool(curve.remark) == remarked
    np.testing.assert_allclose(curve.tokens[: int(at[-1] / 10)], 700 * STEPS[: int(at[-1] / 10)])


def test_a_rate_that_is_given_follows_the_schedule_that_the_log_prints():
    """A warm-up that is given replaces the printed one; a decay needs the steps of the run too."""
    settings = {"warmup": 40, "warmdown": 50, "num_steps": 100}
    both = curve_of(settings, "torchtitan", {"learning_rate": 2.0, "batch_size": 1})
    np.testing.assert_allclose(both.learning_rate, 2 * np.minimum(np.minimum(1, STEPS / 40), (100 - STEPS) / 50))
    assert both.assumed == (
        "the learning rate 2 rises over 40 steps and falls to 0 over the last 50 of 100 steps, as the log says",
    )
    given = {"learning_rate": 2.0, "batch_size": 1, "warmup": 5}
    told = curve_of({"warmup": 40, "warmdown": 50}, "torchtitan", given)
    assert (set(told.learning_rate), told.warmup, told.assumed) == ({2.0}, 5, ())
    (sentence,) = curve_of({"num_steps": 100}, "torchtitan", given).assumed
    assert sentence.startswith("the learning rate is taken as constant, but torchtitan decays it linearly by default")
    (_, sentence) = curve_of({"warmup": 40}, "OLMo", given | {"warmup": None}).assumed
    assert sentence.startswith("the learning rate is taken as constant after that, but OLMo decays it by a cosine")


def test_losses_that_are_no_numbers_beside_finite_ones_of_their_step_change_nothing():
    """Before or after it; of two that are both no numbers the gap is said once."""
    nan = np.nan
    log = st.logs.TrainingLog.from_series("a", "test", {"loss": ([1, 2, 2, 3, 3, 4], [6, nan, 5, 4, nan, 3])})
    assert (log.loss.tolist(), log.remarks) == ([6, 5, 4, 3], ())
    log = st.logs.TrainingLog.from_series("a", "test", {"loss": ([1, 2, 2, 3], [6, nan, nan, 3])})
    assert log.step.tolist() == [1, 3]
    assert log.remarks[0].startswith("steps go back to 2 or repeat: 1 row was replaced")


@pytest.mark.parametrize(("use", "asked"), [("curves", 1), ("steps", 1), ("grid", 2)])
def test_a_preview_asks_for_what_its_use_needs(use, asked, tmp_path):
    """A rate is needed by curves and grids, a batch size by runs; the last loss is the last one that is a number."""
    rows = "".join(f"{t},{3 + 20 / t if t < 90 else 'nan'},{4 + 20 / t if t < 60 else 'nan'}\n" for t in STEPS)
    (tmp_path / "a.csv").write_text("step,loss,val_loss\n" + rows)
    (shown,) = st.logs.preview(tmp_path / "a.csv", use=use, loss="train" if use == "curves" else None).logs
    questions = [each for each in shown.sentences if "batch size not known" in each or "no learning rate" in each]
    assert len(questions) == asked
    assert ("no learning rate" in " ".join(questions)) == (use != "steps")
    lost = "the loss is nan or inf from step {} on: the run diverged"  # of evaluations, which all runs have
    assert (lost.format(90) in shown.sentences) == (use != "curves")
    (trained,) = st.logs.preview(tmp_path / "a.csv", use="steps", batch_size=8, loss="train").logs
    assert trained.sentences[-1] == lost.format(90)
    assert [(row.count, row.last) for row in shown.rows] == [(10, 100), (10, 3.25), (7, 4.4)]
    assert shown.title == "a: CSV, 10 rows"


def test_a_spike_is_far_off_in_standard_deviations_and_in_percent():
    """By 8 robust standard deviations and not by 4.5; by 1.5% and not by 0.7% where there is no noise."""
    noise = 0.01 * np.random.default_rng(0).standard_normal(2001)
    for away, found in ((0.08, True), (-0.08, True), (0.045, False)):
        log_loss = noise.copy()
        log_loss[1000] = away
        assert np.flatnonzero(spikes(np.exp(log_loss))).tolist() == ([1000] if found else [])
    for away, found in ((0.015, True), (0.007, False)):
        loss = np.full(40, 3.0)
        loss[20] *= 1 + away
        assert spikes(loss)[20] == found


@pytest.mark.parametrize(("share", "found"), [(6, 6), (7, 0)])
def test_rows_are_no_spikes_where_more_than_15_percent_are(share, found):
    loss = np.full(40, 3.0)
    loss[3 : 3 + 5 * share : 5] = 6.0
    assert spikes(loss).sum() == found
