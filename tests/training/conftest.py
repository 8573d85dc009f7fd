"""Tiny networks compile for longer than they train: compile quickly. Subprocesses compile as users do."""

import jax
import pytest


@pytest.fixture(scope="package", autouse=True)
def _quick_compilation():
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)
