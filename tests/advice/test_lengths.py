"""Warm-up, decay and number of steps after a change of batch size."""

import numpy as np
import pytest

import sgdtheory as st

NOW = {"batch_size": 64, "learning_rate": 0.1}


def change(new, **settings):
    return st.change_batch_size(NOW | settings, new_batch_size=new, optimizer="sgd")


@pytest.mark.parametrize(
    ("new", "beta1", "ends"),
    [
        (128, None, (1, 1000)),  # without momentum regression needs one step
        (128, 0.9, (10, 1000)),
        (16, 0.9, (10, 4000)),
        (16, 0.999, (1000, 4000)),
        (16_000, 0.9, (4, 1000)),  # fewer than the memory of the momentum: samples kept are the least
    ],
)
def test_warm_up_keeps_samples_between_what_regression_needs_and_steps_kept(new, beta1, ends):
    momentum = {} if beta1 is None else {"beta1": beta1}
    row = change(new, warmup_steps=1000, **momentum)["warmup_steps"]
    assert row.old == 1000
    assert row.new == 64_000 / new
    assert (row.low, row.high) == pytest.approx(ends)
    memory = 1 if beta1 is None else 1 / (1 - beta1)
    assert f"about {memory:.2g} steps, the memory" in row.reason


@pytest.mark.parametrize(
    ("old", "new", "expected"), [(1000, 640, 100), (1000, 48, 1333), (1001, 128, 500), (1, 1e6, 1), (0, 640, 0)]
)
def test_warm_up_is_rounded_to_whole_steps_of_which_there_is_one_at_least(old, new, expected):
    row = change(new, warmup_steps=old)["warmup_steps"]
    assert row.new == expected
    assert row.low <= row.new <= row.high
    assert [row.low, row.high] == [np.floor(row.low), np.ceil(row.high)]


def test_decay_and_steps_are_stretched_by_the_extra_data():
    """B* = 200 over vanishing batches, 𝓑 = 1000: (256 + 1000)/(64 + 1000) times the data."""
    found = change(256, decay_steps=4000, num_steps=40_000, critical_batch_size=200)
    for name, steps in (("decay_steps", 4000), ("num_steps", 40_000)):
        row = found[name]
        assert row.old == steps
        assert row.new == round(steps / 4 * 1256 / 1064)
        assert np.isnan([row.low, row.high]).all()
    assert found["extra_data"].new == pytest.approx(1256 / 1064 - 1)


def test_without_b_star_the_steps_range_from_samples_kept_to_steps_kept():
    up = change(300, num_steps=4000)["num_steps"]
    assert (up.low, up.new, up.high) == (853, 853, 4000)  # 853.3 steps
    down = change(30, num_steps=4000)["num_steps"]
    assert (down.low, down.new, down.high) == (4000, 8533, 8534)


@pytest.mark.parametrize(
    ("given", "steps", "samples"),
    [
        ({}, None, None),
        ({"num_steps": 50}, 50, 3200),
        ({"num_samples": 3200}, 50, 3200),
        ({"num_steps": 50, "num_samples": 3190}, 50, 3190),  # the last batch is smaller
    ],
)
def test_steps_and_data_of_a_run_lead_to_each_other(given, steps, samples):
    setup = st.advice.TrainingSetup(**NOW, **given)
    assert (setup.steps, setup.samples) == (steps, samples)


def test_a_run_has_a_step_at_least():
    assert change(64 * 500, num_steps=500)["num_steps"].new == 1
    with pytest.raises(ValueError, match="new_batch_size must be at most num_steps × batch_size = 32000"):
        change(64 * 500 + 1, num_steps=500)
    assert {row.name for row in change(1e9).rows} == {"learning_rate", "extra_data"}
    with pytest.raises(KeyError):
        change(128)["num_steps"]


def test_a_range_around_a_fraction_holds_it_by_whole_steps():
    """Half of 1001 steps lies between 500 and 501; a whole number that floating point misses stays."""
    row = change(128, num_steps=1001)["num_steps"]
    assert (row.low, row.high) == (500, 1001)
    assert change(128, warmup_steps=7, beta1=0.5)["warmup_steps"].low == 2
    assert change(128, warmup_steps=7, beta1=0.6)["warmup_steps"].low == 2
