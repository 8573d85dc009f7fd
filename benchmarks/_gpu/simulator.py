"""Speed of the simulator: what a step takes at several batch sizes, against its memory traffic and normals alone."""

from collections.abc import Callable, Mapping
from typing import Any

import sgdtheory as st
from benchmarks._gpu.device import Device
from benchmarks._gpu.measurement import Measurement, Table
from benchmarks._gpu.sizes import Sizes
from benchmarks.simulation import normals_seconds, simulator_step, traffic_seconds

UNITS = {
    "batch_size": "B, samples; nan: not a step of the simulator",
    "seconds": "s, of all replicas together: a step, or as many normals",
    "normals_per_second": "normals that are drawn a second",
    "roofline": "time of the step's memory traffic at the peak bandwidth over the time that it takes",
}
ARRAYS = 5  # that a step has to read (3) and write (2)
GENERATOR, TRAFFIC = "jax.random.normal alone", "memory traffic alone"
MOMENTUM, DOUBLE = "step, B = 1, momentum and cosine", "step, B = 1, float64"


def step_name(batch: int) -> str:
    """Return the name of the row of a step of averaged SGD."""
    return f"step, B = {batch}"


def measurements(sizes: Sizes, device: Device) -> list[Measurement]:
    """Steps at several batch sizes, with momentum, in float64; the generator and the traffic alone."""
    replicas = sizes.block_numbers // sizes.dim
    shape = {"dim": sizes.dim, "replicas": replicas}

    def step(batch: int, steps: int = sizes.simulator_steps, **options: Any) -> Callable[[], Mapping[str, Any]]:
        def measure() -> Mapping[str, Any]:
            seconds = simulator_step(**shape, batch=batch, steps=steps, repeats=3, **options)
            bytes_each = 8 if options.get("dtype") == "float64" else 4
            return {"batch_size": batch, **_row(sizes.block_numbers, seconds, bytes_each, device)}

        return measure

    def generator() -> Mapping[str, Any]:
        seconds = normals_seconds(**shape, steps=sizes.simulator_steps // 4)
        return {"seconds": seconds, "normals_per_second": sizes.block_numbers / seconds}

    def traffic() -> Mapping[str, Any]:
        row = _row(sizes.block_numbers, traffic_seconds(**shape), 4, device)
        return {name: row[name] for name in ("seconds", "roofline")}

    momentum = st.Algorithm(st.HeavyBall(0.9), st.Cosine())
    few = max(1, sizes.simulator_steps // 16)
    return [
        *(Measurement(step_name(batch), 30.0, step(batch)) for batch in sizes.step_batches),
        Measurement(GENERATOR, 20.0, generator),
        Measurement(TRAFFIC, 10.0, traffic),
        Measurement(MOMENTUM, 30.0, step(1, algorithm=momentum)),
        Measurement(DOUBLE, 30.0, step(1, few, dtype="float64")),
    ]


def _row(numbers: int, seconds: float, bytes_each: int, device: Device) -> dict[str, float]:
    peak = device.peak_bandwidth * device.number
    floor = ARRAYS * bytes_each * numbers / peak
    return {"seconds": seconds, "normals_per_second": numbers / seconds, "roofline": floor / seconds}


def ratios(table: Table, sizes: Sizes) -> dict[str, float]:
    """A step at the largest B over one at the smallest; the simulator's normals a second over the generator's."""
    first, last = step_name(sizes.step_batches[0]), step_name(sizes.step_batches[-1])
    return {
        "large over small": table.value(last, "seconds") / table.value(first, "seconds"),
        "over generator": table.value(last, "normals_per_second") / table.value(GENERATOR, "normals_per_second"),
    }
