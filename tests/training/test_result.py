"""What is read off a result: its table, its summary, its columns, and who is the best at the end."""

from dataclasses import replace

import numpy as np
import pytest

from sgdtheory.training import TrainResult
from tests.runs import changed, run_of

CONFIG = run_of(averages=(0.5,), uniform_average=True, target_loss=1.5)


def made(number, config=CONFIG, **changes):
    """A run of 57 steps whose losses fall from 2 to 1, evaluated every three steps."""
    losses = np.linspace(2, 1, number)[:, None] + np.array([0.123456, 0.0654321, 0.2])
    noise = np.full(number, 2.0), np.full(number, 12.345678)
    steps = 3 * np.arange(number)
    found = TrainResult(config, "steps", 57, steps, losses, losses[:, 0] + 1, *noise, 12345, 6.25, 5.12345)
    return replace(found, **changes)


def test_a_table_has_a_dozen_rows_and_says_how_the_run_ended():
    heading, columns, *rows, targets, speed = str(made(20)).splitlines()
    assert heading == "mlp, width 128, 12,345 weights: did all its steps at step 57; best loss 1.0654 (0.5)"
    assert columns.split("  ")[-5:] == ["train loss", "loss, iterate", "loss, τ = 0.5", "loss, uniform", "noise scale"]
    assert [int(row.split()[0]) for row in rows] == [0, 6, 9, 15, 21, 27, 30, 36, 42, 48, 51, 57]
    assert rows[0].split() == ["0", "3.1235", "2.1235", "2.0654", "2.2", "6.173"]
    assert rows[-1].split() == ["57", "2.1235", "1.1235", "1.0654", "1.2", "6.173"]
    assert targets == "steps to loss 1.5: iterate 36, 0.5 33, uniform 42"
    assert speed == "5.123 steps/s, 6.2 s in all"
    words = {"diverged": "diverged", "interrupted": "was interrupted", "target": "reached the target"}
    for outcome, said in words.items():
        found = made(20, outcome=outcome)
        assert f"weights: {said} at step 57" in str(found)
        assert (found.diverged, found.interrupted) == (outcome == "diverged", outcome == "interrupted")
    assert not made(20).diverged | made(20).interrupted
    assert [int(row.split()[0]) for row in str(made(3)).splitlines()[2:-2]] == [0, 3, 6]
    plain = str(made(20, config=changed(CONFIG, target_loss=None), steps_per_second=0.0))
    assert "steps to loss" not in plain
    assert "in all" not in plain


def test_a_summary_is_of_the_last_evaluation():
    found = made(20).summary()
    assert found == {
        **{"outcome": "steps", "num_steps": 57, "best": "0.5", "loss": pytest.approx(1.0654321), "num_weights": 12345},
        **{"steps_to_target": {"iterate": 36, "0.5": 33, "uniform": 42}, "noise_scale": pytest.approx(6.172839)},
        **{"seconds": 6.25, "steps_per_second": 5.12345, "samples_per_second": pytest.approx(64 * 5.12345)},
        "tokens_per_second": pytest.approx(np.nan, nan_ok=True),
    }
    assert made(20, gradient_variance=np.arange(20.0)).summary()["noise_scale"] == 19 / 2
    text = run_of(model="transformer", data="stdlib", context=16, batch_size=4, num_workers=3)
    assert made(20, config=text).samples_per_second == pytest.approx(12 * 5.12345)
    assert made(20, config=text).tokens_per_second == pytest.approx(16 * 12 * 5.12345)
    empty = made(0)
    assert empty.best[0] == "iterate"
    assert np.isnan([empty.best[1], empty.summary()["noise_scale"]]).all()
    assert len(str(empty).splitlines()) == 4


def test_the_best_is_finite():
    losses = made(20).losses.copy()
    losses[-1] = np.nan, np.inf, 7.0
    assert made(20, losses=losses).best == ("uniform", 7.0)
    assert made(20).best == ("0.5", pytest.approx(1.0654321))


def test_steps_to_a_loss_and_columns_of_the_curve():
    found = made(20)
    assert found.steps_to(1.7) == {"iterate": 27, "0.5": 21, "uniform": 30}
    assert found.steps_to(found.losses[4, 0])["iterate"] == 12
    assert np.isnan(list(made(20, config=changed(CONFIG, target_loss=None)).steps_to_target.values())).all()
    np.testing.assert_array_equal(found.curve("uniform"), found.losses[:, 2])
    header, first, *_ = found.to_csv().splitlines()
    averages = "loss_iterate,loss_0.5,loss_uniform"
    assert header == f"step,train_loss,{averages},squared_gradient,gradient_variance,noise_scale"
    numbers = [0, 3.123456, 2.123456, 2.0654321, 2.2, 2, 12.345678, 6.172839]
    np.testing.assert_allclose([float(cell) for cell in first.split(",")], numbers)
