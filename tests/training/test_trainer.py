"""Runs side by side, micro-batches, precisions, and runs that diverge."""

import os
import signal
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from sgdtheory.training import Run, num_threads, train, train_many
from sgdtheory.training.group import Group
from sgdtheory.training.run import group_runs
from tests.runs import changed, run_of

BASE = run_of(
    width=16, base_width=8, depth=2, input_dim=4, batch_size=8, holdout_size=32, max_steps=20, eval_every=8,
    averages=(0.5,), optimizer="sgd", learning_rate=0.02,
)  # fmt: skip
DIVERGED = changed(BASE, learning_rate=1e6)


@pytest.fixture(scope="module")
def alone():
    return train(BASE)


def test_groups_at_once_are_the_cores_of_this_process(monkeypatch):
    cpu, other = SimpleNamespace(platform="cpu"), SimpleNamespace(platform="gpu")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0: {2, 3, 5}, 1: {0}}[pid], raising=False)
    assert [num_threads(devices) for devices in ([cpu], [cpu, cpu], [other])] == [3, 1, 1]


def test_the_speed_is_an_average_over_calls():
    run = SimpleNamespace(history=SimpleNamespace(steps_per_second=0.0))
    group = SimpleNamespace(steps_per_second=0.0, open=[run])
    for speed, expected in ((10.0, 10.0), (20.0, 12.0), (12.0, 12.0)):
        Group._time(group, speed)
        assert group.steps_per_second == run.history.steps_per_second == pytest.approx(expected)


@pytest.mark.parametrize(
    ("speed", "fixed", "length"), [(0.0, False, 1), (3.9, False, 1), (101.0, False, 50), (9, True, 7)]
)
def test_a_call_takes_half_a_second_and_ends_at_the_next_evaluation(speed, fixed, length):
    """With several processes it is as long as it may be, whatever the speed of each."""
    lanes = SimpleNamespace(longest=7, pieces=lambda number: number)
    group = SimpleNamespace(_fixed=fixed, steps_per_second=speed, _lanes=lanes, _config=BASE, step=9)
    assert Group._length(group) == length
    assert [Group._pieces(group, number) for number in (1, 5, 6, 1000)] == [1, 5, 5, 5]  # to step 14, 70% of 20


def test_the_time_of_a_call_is_added_to_the_runs_that_have_not_ended(monkeypatch):
    now = [10.0]
    monkeypatch.setattr("sgdtheory.training.group.time.perf_counter", lambda: now[0])
    run = SimpleNamespace(history=SimpleNamespace(seconds=1.0))
    assert Group._spend(SimpleNamespace(open=[run]), 7.5) == 10.0
    assert run.history.seconds == 3.5


def test_programs_are_divided_only_where_they_are_fewer_than_threads():
    runs = [Run(changed(BASE, width=width, seed=seed), None) for width in (8, 16) for seed in range(3)]
    for parts, sizes in (1, [3, 3]), (2, [3, 3]), (3, [2, 1, 2, 1]), (100, [1] * 6):
        groups = group_runs(runs, parts)
        assert [len(group) for group in groups] == sizes
        assert {run for group in groups for run in group} == set(runs)
    assert [len(group) for group in group_runs(runs[:3], 2)] == [2, 1]
    assert group_runs([], 2) == []


def test_many_runs_are_those_one_by_one(alone):
    configs = [
        BASE,
        changed(BASE, seed=1, learning_rate=0.05),
        changed(BASE, width=8),
        changed(BASE, averages=(0.7,), data_seed=3),
        DIVERGED,
        changed(BASE, learning_rate=0.03, target_loss=float(alone.losses[4, 0])),
    ]
    together = train_many(configs)
    assert [result.config for result in together] == configs
    for result in together:
        single = alone if result.config == BASE else train(result.config)
        assert result.outcome == single.outcome
        np.testing.assert_array_equal(result.steps, single.steps)
        if not result.diverged:
            np.testing.assert_allclose(result.losses, single.losses, rtol=2e-5)
            np.testing.assert_allclose(result.train_loss, single.train_loss, rtol=2e-5)
    assert [result.outcome for result in together] == ["steps"] * 4 + ["diverged", "target"]
    finals = [result.losses[-1, 0] for result in together]
    assert len(set(finals)) == len(finals)
    assert together[4].diverged
    assert together[4].num_steps < BASE.max_steps


def test_losses_are_those_of_the_config(alone):
    assert alone.outcome == "steps"
    assert alone.steps.tolist() == [0, 1, 2, 4, 8, 14, 15, 16, 17, 18, 19, 20]
    assert np.isnan(alone.train_loss[0])
    assert alone.losses[-1, 0] < alone.losses[0, 0]
    assert alone.losses[0, 0] == alone.losses[0, 1]  # ξ_0 = θ_0
    assert alone.losses[1, 1] == alone.losses[0, 0]  # ξ_1 = θ_0
    assert np.isnan(alone.noise_scale).all()
    assert alone.num_weights == 4 * 16 + 16 + 16 * 16 + 16 + 16


@pytest.mark.parametrize("micro_batch", [1, 4])
def test_micro_batches_are_the_full_batch_to_rounding(alone, micro_batch):
    found = train(changed(BASE, micro_batch=micro_batch))
    np.testing.assert_allclose(found.losses, alone.losses, rtol=2e-5)
    np.testing.assert_allclose(found.train_loss, alone.train_loss, rtol=2e-5)
    assert np.isfinite(found.squared_gradient[1:]).all()


def test_bfloat16_is_close_to_float32(alone):
    found = train(changed(BASE, precision="bfloat16"))
    np.testing.assert_allclose(found.losses, alone.losses, rtol=0.03)
    assert np.abs(found.losses / alone.losses - 1).max() > 1e-6  # it is another precision


@pytest.mark.slow
def test_transformer_in_micro_batches_and_bfloat16():
    config = run_of(
        model="transformer", data="stdlib", width=16, base_width=16, num_heads=2, depth=1, context=8, batch_size=4,
        holdout_size=8, max_steps=4, averages=(), learning_rate=0.01, epsilon=1e-4,
    )  # fmt: skip
    whole, split, half = (
        train(each) for each in (config, changed(config, micro_batch=2), changed(config, precision="bfloat16"))
    )
    assert whole.losses[-1] < whole.losses[0] - 0.01
    np.testing.assert_allclose(split.losses, whole.losses, rtol=1e-5)
    np.testing.assert_allclose(half.losses, whole.losses, rtol=0.01)


def test_bad_arguments():
    with pytest.raises(ValueError, match="directories must be one for each of 2 configs, got 1"):
        train_many([BASE, BASE], ["a"])
    with pytest.raises(ValueError, match="devices must be at least one JAX device"):
        train(BASE, devices=[])
    assert train_many([]) == []


def test_control_c_that_another_thread_is_told_of_is_seen():
    """The thread that waits for the work may not be woken by it; it looks for itself, twice a second."""
    begin = []

    def press(group):
        if not begin:
            begin.append(time.monotonic())
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        assert time.monotonic() - begin[0] < 30, "Ctrl-C was not seen"

    result = train(changed(BASE, max_steps=10**7, eval_every=10**6), progress=press)
    assert result.interrupted
    assert result.num_steps > 0


def test_the_first_error_stops_the_others():
    failed, late = [], []

    def report(group):
        if group.runs[0].config.width == 8:
            failed.append(time.monotonic())
            raise ZeroDivisionError
        if failed and time.monotonic() - failed[0] > 30:
            late.append(group.step)
            raise RuntimeError("the other run goes on")

    endless = changed(BASE, max_steps=10**8, eval_every=10**6)
    with pytest.raises(ZeroDivisionError):
        train_many(
            [changed(endless, width=8), endless], progress=report
        )  # in this order on a machine with one core too
    assert not late
