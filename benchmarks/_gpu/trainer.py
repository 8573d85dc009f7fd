"""Speed of the trainer: tokens a second and utilization of transformers, perceptrons side by side and one by one."""

import gc
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import jax

from benchmarks._gpu.device import Device
from benchmarks._gpu.measurement import Measurement, Table
from benchmarks._gpu.sizes import Sizes
from sgdtheory.training import Lanes, TrainConfig, preset

UNITS = {
    "width": "d_model, or units of a hidden layer",
    "batch_size": "B, sequences or samples, of each run",
    "lanes": "runs side by side",
    "precision": "of the layers; products of float32 as JAX makes them on the device, TF32 on a GPU",
    "steps_per_second": "steps a second, all lanes together",
    "samples_per_second": "sequences or samples a second, all lanes together",
    "tokens_per_second": "tokens a second, all lanes together; nan: no text",
    "flops_per_second": "operations of the model a second: 6 (matrices' weights + 2 · depth · context · width) a token",
    "utilization": "of the device's dense bfloat16 peak (on a CPU: of a float32 product); nan: unknown",
}
HEAD = 64  # size of an attention head
KERNELS = "xla", "cudnn"  # what computes attention; the second one on a GPU alone
STEPS = 1000  # that the configs say; as many as it takes are timed
EXHAUSTED = "RESOURCE_EXHAUSTED"


def measurements(sizes: Sizes, device: Device) -> list[Measurement]:
    """A transformer of every width in bfloat16 by every attention, perceptrons of every width, one and several."""
    found = []
    for width, kernel in product(sizes.widths, KERNELS[: 1 if device.is_cpu else None]):
        configs = [transformer(sizes, width, batch, kernel) for batch in sizes.batches]
        seconds = 40.0 + 50.0 * (width / 2048) ** 2

        def largest(configs: list[TrainConfig] = configs) -> Mapping[str, Any]:
            return first_that_fits([lambda each=each: speed([each], sizes, device) for each in configs])

        found.append(Measurement(transformer_name(width, kernel), seconds, largest))
    for width in sizes.lane_widths:
        config = TrainConfig(width=width, batch_size=sizes.lane_batch, max_steps=STEPS, eval_every=STEPS, averages=())
        for lanes in 1, sizes.lanes:
            runs = [replace(config, learning_rate=0.001 * (1 + lane / lanes)) for lane in range(lanes)]

            def side_by_side(runs: list[TrainConfig] = runs) -> Mapping[str, Any]:
                return speed(runs, sizes, device)

            found.append(Measurement(lanes_name(width, lanes), 25.0, side_by_side))
    return found


def transformer_name(width: int, kernel: str = KERNELS[0]) -> str:
    """Return the name of the row of a transformer."""
    return f"transformer, d_model {width}" + (f", attention by {kernel}" if kernel != KERNELS[0] else "")


def utilization(table: Table, width: int) -> float:
    """Return the share of the device's peak that a transformer reaches, by the faster attention that was measured."""
    every = [table.value(transformer_name(width, kernel), "utilization") for kernel in KERNELS]
    return max((each for each in every if not math.isnan(each)), default=math.nan)


def lanes_name(width: int, lanes: int) -> str:
    """Return the name of the row of parallel perceptrons."""
    return f"perceptron, width {width}, {lanes} side by side" if lanes > 1 else f"perceptron, width {width}, one by one"


def transformer(sizes: Sizes, width: int, batch: int, kernel: str = KERNELS[0]) -> TrainConfig:
    """One on bytes, in bfloat16, without averages."""
    heads = max(1, width // HEAD)
    fields = {"width": width, "depth": sizes.depth, "num_heads": heads, "base_width": HEAD, "base_num_heads": 1}
    run = {"batch_size": batch, "context": sizes.context, "max_steps": STEPS, "eval_every": STEPS, "holdout_size": 1}
    return preset("bytes", **fields, **run, averages=(), precision="bfloat16", attention_kernel=kernel)


def first_that_fits(ways: Sequence[Callable[[], Mapping[str, Any]]]) -> Mapping[str, Any]:
    """Return the result of the first of these that fits into the memory of the device."""
    for way in ways[:-1]:
        try:
            return way()
        except jax.errors.JaxRuntimeError as error:
            if EXHAUSTED not in str(error):
                raise
        gc.collect()
    return ways[-1]()


def speed(configs: list[TrainConfig], sizes: Sizes, device: Device) -> dict[str, Any]:
    """Return the speed of parallel runs on one device."""
    first, number = configs[0], len(configs)
    steps = number * steps_per_second(configs, sizes)
    flops = steps * first.operations
    return {
        "width": first.width,
        "batch_size": first.batch_size,
        "lanes": number,
        "precision": first.precision,
        "steps_per_second": steps,
        "samples_per_second": steps * first.batch_size,
        "tokens_per_second": steps * first.batch_size * (first.value("context") or math.nan),
        "flops_per_second": flops,
        "utilization": flops / device.peak_flops,
    }


def steps_per_second(configs: list[TrainConfig], sizes: Sizes) -> float:
    """Return the steps a second of all runs together; the last of timings that double until one takes long enough."""
    lanes, number, seconds = Lanes(configs, longest=sizes.longest), sizes.longest, 0.0
    lanes.advance(1)
    lanes.wait()  # it has compiled
    while seconds < sizes.least_seconds:
        start = time.perf_counter()
        lanes.advance(number)
        lanes.wait()
        seconds = time.perf_counter() - start
        number *= 2
    return number / 2 / seconds
