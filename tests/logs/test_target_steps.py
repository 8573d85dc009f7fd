"""What `steps_to_target` says of runs below the target from the start, of spikes, and in its table."""

import numpy as np
import pytest

from sgdtheory.logs import TrainingLog, steps_to_target


def log_of(batch, *, end=2.0, column="loss", rise=(), group=""):
    """Losses end + 100/t · (1 + 100/B) at steps 10, 20, … 1000, so that t = 100 · (1 + 100/B) at 1 above the end."""
    steps = np.arange(10.0, 1001, 10)
    losses = end + 100 * (1 + 100 / batch) / steps
    losses[list(rise)] *= 2
    series = {column: (steps, losses), "batch_size": (steps[:1], [batch])}
    return TrainingLog.from_series(f"B{batch}", "mine", series, group=group)


def refusal(*logs, target=3.0):
    with pytest.raises(ValueError, match=f"target_loss {target:g}") as error:
        steps_to_target(logs, target_loss=target)
    return str(error.value)


def low(batch, first=5.0, step=10.0, column="loss"):
    """A run whose first loss, at some step, is below the usual target of 30."""
    series = {column: ([step, 2 * step, 3 * step], [first, 2.5, 2.0]), "batch_size": ([step], [batch])}
    return TrainingLog.from_series(f"low {batch} {first}", "mine", series)


def test_runs_that_begin_below_the_target_are_counted_and_the_remedy_named():
    """The latest of the first steps, the lowest of the first losses, and the batch sizes of the runs."""
    high = log_of(8, end=20)
    assert refusal(low(8, 5.0), low(16, 4.0, step=40), low(32, 6.0), target=30) == (
        "target_loss 30: all 3 runs are already below it at their first row (step 40 or before); give a target below 4"
    )
    assert refusal(low(8, 5.0), high, target=30) == (
        "target_loss 30: 1 of 2 runs, at batch size 8, is already below it at its first row (step 10 or before); give "
        "a target below 5"
    )
    assert refusal(low(8, 5.0), low(8, 6.0), high, target=30).startswith(
        "target_loss 30: 2 of 3 runs, at batch size 8, are already below it at their first row (step 10 or before); "
    )
    evaluated = [low(batch, column="evaluation_loss") for batch in (32, 8)]
    late = log_of(64, end=50, column="evaluation_loss")
    assert refusal(*evaluated, late, target=30) == (
        "target_loss 30: 2 of 3 runs, at batch sizes 8, 32, are already below it at their first evaluation (step 10 or "
        "before); others do not reach it, the runs end at 2 … 50.26; use --loss train, or give a target below 5"
    )
    lost = TrainingLog.from_series("a", "mine", {"loss": ([1, 2], [9.0, np.inf]), "batch_size": ([1], [8])})
    assert refusal(lost).endswith("at 3 batch sizes or more: all runs diverged")


def test_spikes_of_training_losses_are_left_out_and_counted_and_those_of_evaluations_stay():
    logs = [log_of(batch, rise=rise) for batch, rise in ((16, (50, 70)), (64, ()), (256, (60,)))]
    found = steps_to_target(logs, target_loss=3.0)
    np.testing.assert_allclose(found.measurements[0].steps, [725, 256.25, 139.0625], rtol=0.02)
    assert [run.spikes for run in found.runs] == [2, 0, 1]
    assert found.remarks == ("rows are spikes, far off the rows around them, and left out: 2 of B16, 1 of B256",)
    evaluated = [log_of(batch, column="evaluation_loss", rise=(80,)) for batch in (16, 64, 256)]
    found = steps_to_target(evaluated, target_loss=3.0)
    assert [run.spikes for run in found.runs] == [0, 0, 0]
    assert found.remarks == ()


def test_the_table_of_runs():
    """A column of groups only where there are some, steps in five digits and in words where there are none."""
    logs = [*(log_of(batch) for batch in (16, 64, 256)), log_of(32, end=5), low(8, 2.5)]
    found = steps_to_target(logs, target_loss=3.0)
    (table,) = found.sheet().tables
    assert table.title == "steps to loss 3, interpolated between training losses"
    header, rows = table.grid()
    assert header == ["run", "B", "learning rate", "steps"]
    assert [row[3] for row in rows] == [
        *(f"{run.crossing.step:.5g}" for run in found.runs[:3]),
        "not reached",
        "below from the start",
    ]
    assert {"steps", "relative_error", "loss", "group"} < table.json()["runs"][0].keys()
    grouped = [log_of(batch, column="evaluation_loss", group="a") for batch in (16, 64, 256)]
    (table,) = steps_to_target(grouped, target_loss=3.0).sheet().tables
    assert table.title == "steps to loss 3, interpolated between evaluations"
    assert table.grid()[0] == ["run", "group", "B", "learning rate", "steps"]
