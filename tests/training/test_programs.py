"""Compilation: each program is compiled once, and only the last programs are kept."""

import gc
import weakref
from collections import Counter
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from benchmarks._gpu import trainer
from benchmarks._gpu.sizes import TOY
from sgdtheory.sweep import sweep
from sgdtheory.training import Custom, Lanes, TrainConfig, train_many
from sgdtheory.training import programs as programs_module
from sgdtheory.training.engine import advance, init, program, stacked
from sgdtheory.training.programs import Programs
from sgdtheory.training.streams import stream
from tests.runs import changed, run_of

SMALL = {"width": 8, "base_width": 8, "holdout_size": 8, "batch_size": 4, "max_steps": 4, "averages": (), "depth": 1}
BASE = run_of(**SMALL, input_dim=4)


MAPS = Path("/proc/self/maps")


def memory_maps():
    gc.collect()
    return len(MAPS.read_text().splitlines())


@pytest.fixture
def compiled(caplog):
    """Name of a program → how often XLA has compiled it, as JAX logs it."""

    def count():
        told = [record.getMessage() for record in caplog.records]
        return Counter(text.split()[4] for text in told if text.startswith("Finished XLA compilation of "))

    jax.config.update("jax_log_compiles", True)  # of all threads
    yield count
    jax.config.update("jax_log_compiles", False)


# ------------------------------------------------------------------ once


def filled(key, width):
    """Weights that a Python number fills, as gains are."""
    return {"in": jax.random.normal(key, (64, width)) / 8, "out": jnp.full((width, 1), 0.5 / width)}


FILLED = Custom(init=filled, apply=lambda weights, x: jax.nn.relu(x @ weights["in"]) @ weights["out"])
STATES = {
    "mlp": BASE,
    "residual": run_of(**SMALL, model="residual"),
    "conv": run_of(**SMALL, model="conv", data="digits"),
    "transformer": run_of(**SMALL, model="transformer", data="stdlib", context=4),
    "recurrent": run_of(**SMALL, model="recurrent", data="stdlib", context=4),
    "output alone": changed(BASE, trained="output"),
    "sgd": changed(BASE, optimizer="sgd", momentum=0.5),
    "sign": changed(BASE, optimizer="sign", momentum=0.5),
    "muon": changed(BASE, optimizer="muon", depth=2),
    "schedule-free": changed(BASE, schedule="schedule_free", warmup=0.5),
    "averages": changed(BASE, averages=(0.5, 0.9), uniform_average=True),
    "custom": TrainConfig(model=FILLED, width=8, base_width=8, batch_size=4, holdout_size=8, max_steps=4),
}


def types(state):
    return [(jax.tree_util.keystr(path), leaf.dtype, leaf.weak_type) for path, leaf in jax.tree.leaves_with_path(state)]


@pytest.mark.parametrize("name", STATES)
def test_a_step_leaves_the_types_as_they_were(name):
    """Else the second call compiles a second program: a number that Python made is weakly typed, a result is not."""
    config = STATES[name]
    lanes = stacked([config])
    before = jax.eval_shape(lambda: init(lanes, config=program(config)))
    pieces = jnp.asarray(stream(config).chunk(0, 0, 1))
    after = jax.eval_shape(lambda state: advance(state, lanes, pieces, 1, config=program(config), mesh=None), before)
    assert types(after) == types(before)
    assert not any(weak for _, _, weak in types(before))


@pytest.mark.slow  # what it stands for is seen of types, above
def test_the_speed_of_a_transformer_is_timed_without_compilation(compiled):
    """The benchmark for a GPU times it in the same way: all is compiled in the first step."""
    config = run_of(**SMALL, model="transformer", data="stdlib", context=4, num_heads=1)
    trainer.steps_per_second([config], replace(TOY, longest=2, least_seconds=1e-9))
    assert compiled()["jit(advance)"] == 1


def test_a_sweep_compiles_each_program_once(compiled, tmp_path):
    """Units of one program come one after the other; their initial weights and evaluations are of one program."""
    configs = [changed(BASE, batch_size=size, seed=seed) for seed in range(4) for size in (2, 3)]
    assert len(sweep(configs, tmp_path, lanes=1).finished) == len(configs)
    names = "jit(init)", "jit(advance)", "jit(evaluate)"
    assert [compiled()[name] for name in names] == [1, 2, 1]


# ------------------------------------------------------------------ let go


def scaled(x, *, factor):
    return x * factor


def test_the_last_programs_are_kept(monkeypatch):
    monkeypatch.setattr(programs_module, "KEPT", 2)
    times = Programs(scaled)
    held = times.of(factor=1)
    for factor in 2, 3, 2, 4:
        assert times(3.0, factor=factor) == 3.0 * factor
    assert times.of(factor=1) is held  # by who has it
    known = {factor: id(times.of(factor=factor)) for factor in (2, 4)}
    assert {factor: id(times.of(factor=factor)) for factor in (2, 4)} == known
    lost = weakref.ref(times.of(factor=3))
    times.of(factor=5)
    times.of(factor=6)
    gc.collect()
    assert lost() is None


def trained(batch_size):
    """Memory maps after some steps with this batch size."""
    Lanes([changed(BASE, batch_size=batch_size)]).advance(1)
    return memory_maps()


@pytest.mark.slow
@pytest.mark.skipif(not MAPS.exists(), reason="memory maps are counted as Linux shows them")
def test_memory_maps_do_not_grow_with_the_shapes(monkeypatch):
    """A process may have 65,530; a loop over 500 batch sizes had 75,000, and died on its way."""
    jax.clear_caches()  # of tests before this one in the process
    monkeypatch.setattr(programs_module, "KEPT", 1)
    before = trained(11)
    assert trained(12) - before <= 20
    monkeypatch.setattr(programs_module, "KEPT", 4)
    before = memory_maps()
    assert max(trained(size) for size in (13, 14, 15)) - before > 50  # three programs more


@pytest.mark.slow
@pytest.mark.skipif(not MAPS.exists(), reason="memory maps are counted as Linux shows them")
def test_a_trained_shape_leaves_few_memory_maps():
    """Each of sixty batch sizes leaves at most 20 maps, with the programs that are kept."""
    jax.clear_caches()
    train_many([changed(BASE, batch_size=40)])
    before = memory_maps()
    for size in range(41, 101):
        train_many([changed(BASE, batch_size=size)])
    assert (memory_maps() - before) / 60 <= 20


def test_lanes_hold_their_programs(compiled, monkeypatch):
    """However many others are asked for in between, as by other threads."""
    monkeypatch.setattr(programs_module, "KEPT", 1)
    lanes = Lanes([changed(BASE, batch_size=31)])
    lanes.advance(1)
    Lanes([changed(BASE, batch_size=32)])
    gc.collect()
    lanes.advance(1)
    assert compiled()["jit(advance)"] == 1
