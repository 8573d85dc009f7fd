"""Loops of small arrays, compiled by JAX in float64, for the processor, and without a long compilation."""

from collections.abc import Callable
from typing import Any

import numpy as np

# Optimizations beyond the first level take as long as all else, and such loops do not run faster after them. XLA would
# divide large operations among threads, which wait for each other in every step: eight runs of Lion side by side took
# 50 µs a step, and 93 µs of processor time on two cores. Undivided they take 28 µs.
COMPILER_OPTIONS = {"xla_backend_optimization_level": 1, "xla_disable_hlo_passes": "cpu-parallel-task-assigner"}


def compiled_loop(run: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of arrays, of any structure, compiled for each shape once; it gives arrays of NumPy.

    Small numbers go round thousands of times: an accelerator would wait for each step, so none is used.
    """
    import jax

    compiled = jax.jit(run, compiler_options=COMPILER_OPTIONS)

    def called(*arguments: Any) -> Any:
        with jax.enable_x64(True), jax.default_device(_processor()):
            return jax.tree.map(np.asarray, compiled(*arguments))

    return called


def _processor() -> Any:
    """Return a processor's device; None, JAX's own choice, where JAX is configured to know of none."""
    import jax

    try:
        return jax.local_devices(backend="cpu")[0]
    except RuntimeError:
        return None
