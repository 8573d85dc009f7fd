"""Tiny networks compile for longer than they train: compile quickly, subprocesses alike, for the same bits."""

import os

import jax
import pytest


@pytest.fixture(scope="package", autouse=True)
def _quick_compilation():
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    patch = pytest.MonkeyPatch()
    patch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
    patch.setenv("JAX_PLATFORMS", os.environ.get("JAX_PLATFORMS", "cpu"))
    yield
    patch.undo()
    jax.config.update("jax_disable_most_optimizations", before)
