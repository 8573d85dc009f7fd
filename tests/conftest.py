"""Tests compile hundreds of small programs that then run for milliseconds: compile quickly, in child processes too.

XLA's fusion emitters take half of the time of a compilation, and cutting a program into pieces that many threads may
compile takes a third of the rest. Optimizations beyond the first level take ten times as long as all else, for programs
that then run no faster; `quickly_compiled` leaves out the first as well, where nothing runs for long. The experiments,
which the README's second command runs, compile as users do. What one process has compiled the others take from a
folder: the long tests of training take three quarters of the time.

They decompose thousands of small matrices too, in as many processes as there are cores: threads of the linear algebra
beside those would wait for each other, on a machine with other work for 25 times as long as all else takes.
"""

import atexit
import contextlib
import functools
import gc
import os
import shutil
import tempfile
from pathlib import Path

import jax
import pytest
from hypothesis import HealthCheck, settings
from threadpoolctl import threadpool_limits

FLAGS = {
    "--xla_cpu_use_fusion_emitters": "false",
    "--xla_cpu_parallel_codegen_split_count": "1",
    "--xla_backend_optimization_level": "1",
}
if jax.__version_info__ < (0, 11):  # an XLA that does not know a flag ends the process
    chosen = os.environ.get("XLA_FLAGS", "")
    ours = [f"{flag}={value}" for flag, value in FLAGS.items() if flag not in chosen]  # whoever has chosen keeps that
    os.environ["XLA_FLAGS"] = " ".join([*ours, chosen]).strip()
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:  # in the first process alone, unless whoever runs it has chosen one
    kept = tempfile.mkdtemp(prefix="sgdtheory-tests-")
    atexit.register(shutil.rmtree, kept, ignore_errors=True)
    options = {"compilation_cache_dir": kept}
    options |= {f"persistent_cache_min_{each}": 0 for each in ("compile_time_secs", "entry_size_bytes")}
    os.environ |= {f"JAX_{name.upper()}": str(value) for name, value in options.items()}  # for child processes
    for name, value in options.items():
        jax.config.update(f"jax_{name}", value)
threadpool_limits(int(os.environ.setdefault("OMP_NUM_THREADS", "1")))  # here, and in child processes
# Hypothesis fails an example that takes 200 ms, as the first one does on a busy machine: it imports what it needs.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")
# Thousands of replicas: without optimizations those of local SGD run for ten times as long, and those of Adam for four.
LONG = "simulation.test_means", "simulation.test_steps", "simulation.test_deviation"
LONG += "risk.test_simulated_means", "test_agreement", "optimal.test_equivalent_search"
# Programs of networks have shapes that no other test has: a process that kept them all would have 6 GB in the end.
SHAPES = "training.", "sweep."
# Fits of loss curves run one loop thousands of times: with fusion emitters in two thirds of the time.
CURVES = "curves.", "docs.", "cli.test_fit_curves", "experiments.test_curves", "experiments.test_loss_curves"
MEASURED = Path(__file__).with_name("long.txt")
# Tests of four seconds or more on two quiet cores, and the explorer's, begin first. A worker that begins the explorer's
# walk (12 s) last works on while the others have nothing left; and the explorer's tests share a server and a browser,
# which every worker starts that has one of these tests.
FIRST = (
    "tests/explore/",
    "tests/critical/test_every_batch_size_of_equivalents.py",
    "tests/curves/test_theory_fit.py",
    "tests/fits/test_false_cliffs.py",
)


@pytest.hookimpl(optionalhook=True)  # `benchmarks.mutants` runs the tests without xdist
def pytest_xdist_auto_num_workers(config):
    """Begin one process more than there are cores for the long tests, which wait for processes of their own.

    On two cores a whole run took 30 minutes with three processes, and 35 with two.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores + (config.option.markexpr == "slow")


def long_tests():
    """Return the cases that took long when all were measured; functions keep a case of up to 0.8 s."""
    return {line for line in MEASURED.read_text().splitlines() if line and not line.startswith("#")}


@pytest.hookimpl(tryfirst=True)  # before cases are left out by their marks
def pytest_collection_modifyitems(items):
    """Leave the long cases to `pytest -m slow`, and begin with the longest of the others."""
    long = long_tests()
    for item in items:
        if item.nodeid in long:
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: not item.nodeid.startswith(FIRST))


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Look for no garbage among modules and tests, now nor later: it takes a fifth of the time of their collection."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@contextlib.contextmanager
def quickly_compiled():
    """A context in which programs are compiled without optimizations, here and in child processes, to the same bits."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
        patch.setenv("JAX_PLATFORMS", os.environ.get("JAX_PLATFORMS", "cpu"))
        yield
    jax.config.update("jax_disable_most_optimizations", before)


@functools.cache  # it lasts as long as the process
def compile_curves_as_users_do():
    """Compile the loop of loss curves with fusion emitters, where those are left out of all other programs."""
    from sgdtheory._common import compiled
    from sgdtheory.curves import loss_model

    if "--xla_cpu_use_fusion_emitters" not in os.environ.get("XLA_FLAGS", ""):
        return
    loss_model._adaptive_loop.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        options = compiled.COMPILER_OPTIONS | {"xla_cpu_use_fusion_emitters": True}
        patch.setattr(compiled, "COMPILER_OPTIONS", options)
        loss_model._adaptive_loop()


@pytest.fixture(scope="module", autouse=True)
def _quick_compilation(request):
    """Small programs compile for longer than they run; the pages' own compile as users do."""
    name = request.module.__name__.removeprefix("tests.")
    if name.startswith(CURVES):
        compile_curves_as_users_do()
    with contextlib.nullcontext() if name in LONG or name.startswith("docs.") else quickly_compiled():
        yield
    if name.startswith(SHAPES):
        jax.clear_caches()
