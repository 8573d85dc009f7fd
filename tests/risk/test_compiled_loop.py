"""Loops of the theory are compiled in float64, a shape once, and run on the processor."""

import os

import jax
import numpy as np

from sgdtheory._common.compiled import COMPILER_OPTIONS, compiled_loop


def test_float64_on_the_processor_a_shape_once():
    traced = []

    def run(values):
        traced.append(values.shape)
        return {"twice": 2 * values}

    loop = compiled_loop(run)
    for number in (3, 3, 4):
        found = loop(np.full(number, 1 / 3))["twice"]
        assert isinstance(found, np.ndarray)
        assert found.dtype == np.float64
        assert found.tolist() == [2 / 3] * number
    assert traced == [(3,), (4,)]


def test_the_callers_choice_of_precision_stays():
    before = jax.config.jax_enable_x64
    compiled_loop(lambda values: values + 1)(np.ones(2))
    assert jax.config.jax_enable_x64 == before


def test_no_operation_is_divided_among_threads():
    """Threads would wait for each other in every step. Control: without the option this one is, on several cores."""

    def powers(values):
        return sum(values**k / k for k in range(1, 40))

    def divided(options):
        compiled = jax.jit(powers, compiler_options=options).lower(np.ones(100_000, np.float32)).compile()
        return 'outer_dimension_partitions":["' in compiled.as_text()

    assert not divided(COMPILER_OPTIONS)
    assert divided({"xla_backend_optimization_level": 1}) or len(os.sched_getaffinity(0)) == 1
