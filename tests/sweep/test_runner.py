"""Sweeps that are killed, shared, interrupted and divided: the same table, byte for byte, as one left alone."""

import itertools
import os
import random
import shutil
import signal
import threading
import time
from collections import Counter
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from sgdtheory.sweep import Progress, Store, runner, sweep
from sgdtheory.sweep.runner import units
from sgdtheory.training import group
from sgdtheory.training.engine import program
from sgdtheory.training.group import Group
from tests.runs import changed
from tests.sweep.small import CONFIGS, LANES, LONG, curves, finish, start


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    store = tmp_path_factory.mktemp("whole")
    return store, sweep(CONFIGS, store, lanes=LANES)


@pytest.fixture(scope="module")
def long_csv(tmp_path_factory):
    store = tmp_path_factory.mktemp("long")
    return sweep(LONG, store, lanes=LANES).to_csv()


def times(store):
    """Return the time at which each result was written."""
    return {path.parent.name: path.stat().st_mtime_ns for path in store.glob("*/result.json")}


# ------------------------------------------------------------------ kill -9


def kill_and_finish(number, configs, directory, longest):
    """Kill sweeps up to `longest` seconds after they go on, then sweep to the end; its output, kills, finished runs."""
    store, rng, killed, kept = directory / "store", random.Random(number), 0, {}
    for _ in range(number):
        process = start(store, configs, directory)
        try:
            before, end = newest(store), time.monotonic() + 300
            while process.poll() is None and newest(store) == before and time.monotonic() < end:
                time.sleep(0.01)
            time.sleep(longest * rng.random())
            process.send_signal(signal.SIGKILL)
            killed += process.wait() == -signal.SIGKILL
        finally:
            process.kill()
            process.communicate()
        kept |= times(store)
        if not kept:  # the machine has become slower than when `longest` was measured
            longest *= 1.2
    found = finish(start(store, configs, directory))
    assert kept.items() <= times(store).items()  # nothing that had finished was repeated
    return found, killed, len(kept)


def newest(store):
    return max((path.stat().st_mtime_ns for path in store.glob("*/*.npz")), default=0)


@pytest.mark.slow
def test_killed_six_times(tmp_path):
    configs = [changed(config, max_steps=steps, eval_every=100) for steps in (3000, 12_000) for config in CONFIGS]
    begin = time.monotonic()
    expected = sweep(configs, tmp_path / "alone", lanes=LANES).to_csv()
    longest = (time.monotonic() - begin) / 6  # some runs end between six kills, not all, on any machine
    found, killed, kept = kill_and_finish(6, configs, tmp_path, longest)
    assert found == {"csv": expected, "notes": []}
    assert killed > 4
    assert kept > 0


# ------------------------------------------------------------------ at once


@pytest.mark.slow
def test_two_sweeps_of_one_store(long_csv, tmp_path):
    store = tmp_path / "store"
    both = [start(store, LONG, tmp_path) for _ in range(2)]
    try:
        assert [finish(process) for process in both] == [{"csv": long_csv, "notes": []}] * 2
    finally:
        for process in both:
            process.kill()
    assert not (store / "set-aside").exists()


def test_who_waits_for_another_sweep_does_not_spin(whole, tmp_path, monkeypatch):
    """Two units, the second in another's hands until a second after it was looked for, and the first done at once."""
    looks, store, locked = [], Store(tmp_path), Store.locked
    store.prepare()
    first, second = units(CONFIGS[:4], LANES)

    def counted(self, configs):
        looks.append(configs)
        if configs == second:
            looked.set()
        return locked(self, configs)

    def hold():
        with locked(store, second):
            held.set()
            looked.wait(300)
            time.sleep(1)

    held, looked = threading.Event(), threading.Event()
    other = threading.Thread(target=hold)
    other.start()
    held.wait()
    monkeypatch.setattr(Store, "locked", counted)
    table = sweep(CONFIGS[:4], tmp_path, lanes=LANES)
    other.join()
    assert table.results[3] is not None
    assert 2 <= Counter(looks)[second] <= 5
    assert Counter(looks)[first] == 1


# ------------------------------------------------------------------ units


MANY = [
    changed(config, width=width, batch_size=batch, max_steps=steps, averages=averages)
    for config in CONFIGS
    for width, batch, steps, averages in itertools.product((8, 16), (4, 7), (40, 50), ((0.9,), (0.5,), (0.5, 0.9)))
]


@pytest.mark.parametrize("lanes", [None, 1, 5, 7, 100])
def test_units_are_the_configs_once_in_even_parts(lanes):
    shuffled = random.Random(0).sample(MANY, len(MANY))
    found = units(MANY, lanes)
    assert {frozenset(unit) for unit in found} == {frozenset(unit) for unit in units(shuffled, lanes)}
    assert {tuple(unit) for unit in found} == {tuple(unit) for unit in units(shuffled, lanes)}  # the lanes' order too
    assert Counter(config for unit in found for config in unit) == Counter(MANY)
    lengths = {}
    for unit in found:
        (key,) = {(program(each), len(each.averages), each.eval_every, each.max_steps) for each in unit}
        lengths.setdefault(key, []).append(len(unit))
    for parts in lengths.values():
        assert max(parts) <= (lanes or 16)
        assert max(parts) - min(parts) <= 1
        assert len(parts) == -(-sum(parts) // (lanes or 16))  # no more units than needed


def test_large_networks_have_fewer_lanes():
    wide = [changed(CONFIGS[0], width=2048, depth=2, seed=seed) for seed in range(16)]
    assert {len(unit) for unit in units(wide)} == {1}
    assert {len(unit) for unit in units([changed(config, width=1024) for config in wide])} == {4}


def test_lanes_must_be_a_number_of_runs():
    with pytest.raises(ValueError, match="lanes must be a whole number of at least 1, got 0"):
        units(CONFIGS, 0)


def test_configs_that_occur_twice_run_once(whole, tmp_path):
    table = sweep([*CONFIGS, *reversed(CONFIGS)], tmp_path, lanes=LANES)
    assert table.to_csv() == whole[1].to_csv()
    with pytest.raises(ValueError, match="configs must be at least one, got none"):
        sweep([], tmp_path)


# ------------------------------------------------------------------ the same bits


@pytest.mark.parametrize("lost", [(0,), (1, 2, 5)])
def test_a_run_that_is_lost_comes_back_with_the_same_bits(whole, tmp_path, lost):
    """Beside runs that have ended: its program is that of the whole unit."""
    store = tmp_path / "store"
    shutil.copytree(whole[0], store)
    kept = {CONFIGS[place].fingerprint for place in range(len(CONFIGS)) if place not in lost}
    before = {name: moment for name, moment in times(store).items() if name in kept}
    for place in lost:
        shutil.rmtree(store / CONFIGS[place].fingerprint)
    sweep(CONFIGS, store, lanes=LANES)
    assert curves(store, CONFIGS) == curves(whole[0], CONFIGS)
    assert before.items() <= times(store).items()


def test_a_lost_run_is_computed_in_its_company(whole, tmp_path, monkeypatch):
    """The rounding of one lane against several depends on the machine; all lanes are computed in any case."""
    seen = []

    def noted(runs, devices, lanes):
        seen.append((len(runs), len(lanes)))
        return Group(runs, devices, lanes)

    monkeypatch.setattr(group, "Group", noted)
    store = tmp_path / "store"
    shutil.copytree(whole[0], store)
    shutil.rmtree(store / CONFIGS[0].fingerprint)
    sweep(CONFIGS, store, lanes=LANES)
    (unit,) = [unit for unit in runner.units(CONFIGS, LANES) if CONFIGS[0] in unit]
    assert seen == [(1, len(unit))]
    assert len(unit) > 1


class PressedAtOnce:
    """Ctrl-C that comes when a unit has begun."""

    looks = 0

    @property
    def pending(self):
        self.looks += 1
        return self.looks > 1


def test_a_run_lost_at_the_first_step_comes_back_with_the_same_bits(whole, tmp_path):
    """Ctrl-C before the first step leaves runs that have been evaluated once; one that is lost has not been."""
    store, unit = Store(tmp_path), units(CONFIGS, LANES)[0]
    store.prepare()
    stopped = runner.run_unit(tmp_path, unit, interrupts=PressedAtOnce())  # pyright: ignore[reportArgumentType]
    assert not stopped.done
    assert all((store.directory(config) / "checkpoint.npz").exists() for config in unit)
    shutil.rmtree(store.directory(unit[0]))
    sweep(CONFIGS, tmp_path, lanes=LANES)
    assert curves(tmp_path, CONFIGS) == curves(whole[0], CONFIGS)


# ------------------------------------------------------------------ executors


def die(*arguments):
    """Work of a process that is killed after a unit."""
    runner.run_unit(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)


class Dying(ProcessPoolExecutor):
    """Its workers die once they have finished a unit."""

    def submit(self, function, /, *arguments, **options):
        return super().submit(die, *arguments, **options)


@pytest.mark.slow
def test_processes_give_the_same_table_and_may_die(whole, tmp_path):
    spawn = get_context("spawn")
    with (
        Dying(1, spawn) as executor,
        pytest.raises(OSError, match=f"^a worker process died; finished runs are in {tmp_path}, run the sweep again"),
    ):
        sweep(CONFIGS, tmp_path, executor=executor, lanes=LANES)
    before = times(tmp_path)
    assert len(before) == 2
    with ProcessPoolExecutor(2, spawn) as executor:
        table = sweep(CONFIGS, tmp_path, executor=executor, lanes=LANES)
    assert (table.to_csv(), table.notes) == (whole[1].to_csv(), ())
    assert before.items() <= times(tmp_path).items()
    assert curves(tmp_path, CONFIGS) == curves(whole[0], CONFIGS)


class Here:
    """An executor that does its work when it is asked to."""

    def submit(self, function, /, *arguments):
        future = Future()
        future.set_result(function(*arguments))
        return future


def test_progress(tmp_path):
    told = []
    sweep(CONFIGS, tmp_path, executor=Here(), lanes=LANES, progress=told.append)  # pyright: ignore[reportArgumentType]
    assert [progress.finished for progress in told] == [0, 2, 4, 6]
    assert {progress.total for progress in told} == {6}
    assert told[0].seconds_left != told[0].seconds_left
    # That the estimate is about right is seen with a clock of its own in test_pace: here steps take as long as they do.
    assert min(told[1].seconds_left, told[2].seconds_left) > told[3].seconds_left == 0.0


# ------------------------------------------------------------------ time and room


def test_a_sweep_stops_when_its_time_is_up_and_goes_on(long_csv, tmp_path):
    """However often it stops: bit for bit the table of one that was left alone."""
    for seconds in (1e-3, 0.3):
        table = sweep(LONG, tmp_path, lanes=LANES, max_seconds=seconds)
        assert table.interrupted == (None in table.results)
        assert table.interrupted or seconds > 1e-3
    assert sweep(LONG, tmp_path, lanes=LANES).to_csv() == long_csv


def test_a_sweep_whose_time_is_up_before_it_begins_trains_nothing_and_then_goes_on(tmp_path):
    table = sweep(CONFIGS, tmp_path, lanes=LANES, max_seconds=1e-9)
    assert table.interrupted
    assert table.results == (None,) * len(CONFIGS)
    whole = sweep(CONFIGS[:LANES], tmp_path, lanes=LANES, max_seconds=3600)
    assert not whole.interrupted
    assert None not in whole.results


@pytest.mark.slow
def test_workers_stop_when_the_time_is_up(long_csv, tmp_path):
    with ProcessPoolExecutor(2, get_context("spawn")) as executor:
        begin = time.monotonic()
        endless = [changed(config, max_steps=10**7, eval_every=10**6) for config in CONFIGS]
        assert sweep(endless, tmp_path, executor=executor, lanes=LANES, max_seconds=5).interrupted
        assert time.monotonic() - begin < 300  # it would take hours


@pytest.mark.parametrize("seconds", [0, float("nan")])
def test_time_must_be_positive(seconds, tmp_path):
    with pytest.raises(ValueError, match="^max_seconds must be positive and finite, got"):
        sweep(CONFIGS, tmp_path, max_seconds=seconds)


def test_states_that_are_not_kept(whole, tmp_path):
    """The same table, without a checkpoint; a run that was stopped has one until it has ended."""
    table = sweep(CONFIGS, tmp_path, lanes=LANES, keep_states=False, checkpoint_seconds=0.0)
    assert table.to_csv() == whole[1].to_csv()
    assert not list(tmp_path.rglob("*.npz"))
    assert list(whole[0].rglob("*.npz"))
    stopped = sweep(LONG, tmp_path, lanes=LANES, keep_states=False, max_seconds=1e-3)
    assert stopped.interrupted
    sweep(LONG, tmp_path, lanes=LANES, keep_states=False)
    assert not list(tmp_path.rglob("*.npz"))


def test_progress_says_how_much_time_is_left():
    """Nothing where it is not known, and the two largest of hours, minutes and seconds."""
    words = {float("nan"): "", 0.2: "0 s", 42.4: "42 s", 61: "1 min 1 s", 7260: "2 h 1 min"}
    for seconds, left in words.items():
        about = f", about {left} left" if left else ""
        assert str(Progress(3, 8, 1.0, seconds)) == f"3 of 8 runs finished{about}"
