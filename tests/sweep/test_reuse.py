"""Runs that the store has under another config: read off, gone on with, or trained again where that is the only way."""

import shutil
import time
from types import SimpleNamespace

import numpy as np
import pytest

from sgdtheory.sweep import Store, SweepTable, best_steps, missing_runs, sweep
from sgdtheory.training import train
from sgdtheory.training.checkpoint import read_checkpoint
from sgdtheory.training.reuse import adopt
from tests.marks import slow
from tests.runs import changed
from tests.sweep.small import BASE, CONFIGS, LANES

WIDE = changed(BASE, max_steps=60, eval_every=5, averages=(0.5, 0.9), uniform_average=True, micro_batch=2)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    place = tmp_path_factory.mktemp("source")
    return place, train(WIDE, place)


def middle(result, share):
    """A loss of the best curve that is reached after about a share of the steps."""
    return float(result.losses.min(axis=1)[int(share * len(result.steps))])


def same(found, expected):
    """To rounding: another number of averages makes another program."""
    assert (found.outcome, found.num_steps) == (expected.outcome, expected.num_steps)
    np.testing.assert_array_equal(found.steps, expected.steps)
    for name in ("losses", "train_loss", "squared_gradient", "gradient_variance"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=2e-4, err_msg=name)


# ------------------------------------------------------------------ what determines the iterates


def test_trajectories():
    same = [
        changed(WIDE, averages=()),
        changed(WIDE, uniform_average=False, eval_every=7),
        changed(WIDE, target_loss=0.5),
        changed(WIDE, max_steps=600),
        changed(WIDE, schedule_steps=1000),
    ]
    assert {config.trajectory for config in same} == {WIDE.trajectory}
    assert len({config.fingerprint for config in same}) == len(same)
    other = [changed(WIDE, seed=1), changed(WIDE, data_seed=1), changed(WIDE, learning_rate=0.1)]
    other += [changed(WIDE, width=16), changed(WIDE, batch_size=8), changed(WIDE, micro_batch=None)]
    cosine = [changed(WIDE, schedule="cosine", max_steps=steps) for steps in (60, 80)]
    warm = [changed(WIDE, warmup=0.1, max_steps=steps) for steps in (60, 80)]
    assert len({config.trajectory for config in (WIDE, *other, *cosine, *warm)}) == 1 + len(other) + 4
    assert changed(cosine[1], max_steps=60, schedule_steps=80).trajectory == cosine[1].trajectory


# ------------------------------------------------------------------ one run


@pytest.mark.parametrize(
    "changes",
    [
        slow({"averages": (0.9,), "uniform_average": False}),
        slow({"averages": (), "uniform_average": True, "eval_every": 10}),
        {"max_steps": 35, "averages": (0.5,), "schedule_steps": 60},
        slow({"max_steps": 40, "eval_every": 20, "schedule_steps": 60}),
    ],
)
def test_what_lies_within_a_run_is_read_off(source, tmp_path, changes):
    config = changed(WIDE, **changes)
    assert adopt(tmp_path / "a", config, source[0], WIDE)
    assert (tmp_path / "a" / "result.json").exists()
    same(train(config, tmp_path / "a"), train(config))


@pytest.mark.parametrize("share", [slow(0.3), 0.6, slow(0.9)])
def test_a_target_is_read_off(source, tmp_path, share):
    config = changed(WIDE, target_loss=middle(source[1], share), averages=(0.5, 0.9))
    assert adopt(tmp_path, config, source[0], WIDE)
    assert (tmp_path / "result.json").exists()
    found = train(config, tmp_path)
    assert found.outcome == "target"
    same(found, train(config))


@pytest.mark.parametrize(
    "changes",
    [
        slow({"max_steps": 130, "averages": (0.9,)}),
        slow({"max_steps": 130, "schedule_steps": 60}),
        {"max_steps": 130, "eval_every": 10, "averages": (), "uniform_average": True},
        slow({"max_steps": 90, "eval_every": 40, "averages": (0.5,)}),
    ],
)
def test_what_goes_beyond_a_run_goes_on_from_its_checkpoint(source, tmp_path, changes):
    config = changed(WIDE, **changes)
    assert adopt(tmp_path, config, source[0], WIDE)
    assert not (tmp_path / "result.json").exists()
    state, _ = read_checkpoint(tmp_path, config) or (None, None)
    assert state is not None
    assert int(state.step) == WIDE.max_steps
    seen = []
    found = train(config, tmp_path, progress=lambda group: seen.append(group.step))
    assert min(seen) > WIDE.max_steps
    same(found, train(config))


@pytest.mark.slow
def test_a_run_that_diverged_is_read_off(tmp_path):
    wild = changed(WIDE, optimizer="sgd", learning_rate=1e4, micro_batch=None)
    assert train(wild, tmp_path / "source").diverged
    config = changed(wild, averages=(0.9,), max_steps=500)
    assert adopt(tmp_path / "a", config, tmp_path / "source", wild)
    found = train(config, tmp_path / "a")
    assert found.diverged
    assert found.num_steps == train(config).num_steps


@pytest.mark.parametrize(
    "changes",
    [
        {"averages": (0.5, 0.9, 0.99)},  # cannot be had from the end of a run
        {"eval_every": 3},  # was not evaluated there
        {"max_steps": 37},
        {"seed": 1},
        {"learning_rate": 0.1},
    ],
)
def test_what_a_run_does_not_say(source, tmp_path, changes):
    assert not adopt(tmp_path / "a", changed(WIDE, **changes), source[0], WIDE)
    assert not (tmp_path / "a").exists()


# ------------------------------------------------------------------ a store


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    place = tmp_path_factory.mktemp("store")
    return place, sweep(CONFIGS, place, lanes=LANES)


def trained(monkeypatch):
    """Steps that sweeps take from here on, of all runs together."""
    from sgdtheory.training import lanes as module

    steps, advance = [], module.advance

    def of(**settings):
        compiled = advance.of(**settings)

        def counted(state, lanes, pieces, number):
            steps.append(int(number) * len(state.step))
            return compiled(state, lanes, pieces, number)

        return counted

    monkeypatch.setattr(module, "advance", SimpleNamespace(of=of))
    return steps


def test_other_targets_and_fewer_averages_train_nothing(store, monkeypatch):
    steps = trained(monkeypatch)
    high = float(np.median([result.losses.min() for result in store[1].finished]))
    for changes in ({"target_loss": high}, {"averages": ()}, {"averages": (), "target_loss": 1.1 * high}):
        configs = [changed(config, **changes) for config in CONFIGS]
        table = sweep(configs, store[0], lanes=LANES)
        assert None not in table.results
    assert steps == []


def test_more_steps_train_what_is_missing(store, monkeypatch):
    steps = trained(monkeypatch)
    sweep([changed(config, max_steps=60) for config in CONFIGS], store[0], lanes=LANES)
    assert sum(steps) == 20 * len(CONFIGS)


def test_another_average_trains_again_and_the_store_can_be_read(store, monkeypatch):
    steps = trained(monkeypatch)
    more = [changed(config, averages=(0.5, 0.9)) for config in CONFIGS]
    sweep(more, store[0], lanes=LANES)
    assert sum(steps) == sum(config.max_steps for config in CONFIGS)
    mixed = SweepTable.from_store(store[0])
    assert len(mixed.configs) > 2 * len(CONFIGS)
    target = float(np.median([result.losses.min() for result in mixed.finished]))
    (point,) = best_steps(mixed, target_loss=1.05 * target).points
    assert point.runs == len(CONFIGS)
    (alone,) = best_steps(
        mixed.where(averages=["0.5 0.9"], max_steps=40, target_loss=None), target_loss=1.05 * target
    ).points
    np.testing.assert_allclose(point.steps, alone.steps, rtol=1e-3)
    assert point.choice == alone.choice


def test_strangers_and_begun_runs_are_left_alone(tmp_path):
    sweep(CONFIGS[:1], tmp_path, lanes=LANES)
    first, second = (changed(CONFIGS[0], averages=(), max_steps=steps) for steps in (40, 60))
    store = Store(tmp_path)
    (tmp_path / first.fingerprint).mkdir()
    (tmp_path / first.fingerprint / "letter.txt").write_text("dear")
    with store.locked([second]) as free:
        assert free
        assert store.adopt([first, second]) == 0
    assert store.adopt([first, second]) == 1
    assert (tmp_path / first.fingerprint / "letter.txt").read_text() == "dear"
    (tmp_path / CONFIGS[0].fingerprint / "checkpoint.npz").write_bytes(b"broken")
    assert store.adopt([changed(CONFIGS[0], averages=(), max_steps=90)]) == 1  # from the second


def test_a_run_without_a_target_is_preferred_to_one_that_stopped_at_its_target(source, tmp_path):
    """Both have the same iterates and the same max_steps, but only the first one reached the lower loss."""
    losses = source[1].losses.min(axis=1)
    stopped = changed(WIDE, target_loss=middle(source[1], 0.3))
    lower = changed(WIDE, target_loss=float(losses.min()))
    store = Store(tmp_path)
    shutil.copytree(source[0], store.directory(WIDE))
    assert train(stopped, store.directory(stopped)).num_steps < WIDE.max_steps
    assert store.adopt([lower]) == 1
    assert store.result(lower) is not None


def test_adopting_is_quick(tmp_path):
    """A fresh store costs nothing, and a finished one one look at each run."""
    store = Store(tmp_path)
    store.prepare()
    many = [changed(CONFIGS[0], seed=seed) for seed in range(500)]
    begin = time.perf_counter()
    assert store.adopt(many) == 0
    assert time.perf_counter() - begin < 2


# ------------------------------------------------------------------ what a sweep lacks


def test_missing_runs_make_a_sweep_tuned(tmp_path):
    """The sweep has one learning rate that is too low and one average too few, and adds what is asked for."""
    configs = [
        changed(BASE, learning_rate=rate, averages=(0.5,), max_steps=20, seed=seed)
        for rate in (0.001, 0.002)
        for seed in (0, 1)
    ]
    table = sweep(configs, tmp_path, lanes=LANES)
    target = 0.8 * min(float(result.losses.min()) for result in table.finished)
    asked = []
    for _ in range(12):
        more = missing_runs(table, target)
        if not more:
            break
        asked += more
        sweep(more, tmp_path, lanes=LANES)
        table = SweepTable.from_store(tmp_path)
    (point,) = best_steps(table, target_loss=target).points
    assert point.tuned
    assert not best_steps(table, target_loss=target).notes()
    assert {config.max_steps for config in asked} > {40}
    assert max(config.learning_rate for config in asked) > 0.002
    assert len({config.fingerprint for config in asked}) == len(asked)
