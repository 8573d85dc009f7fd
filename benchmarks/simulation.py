"""Speed and memory of the simulator: `python -m benchmarks.simulation`.

One table, measured in one run on one machine: look at the ratios. Every time is the best of a few after a call that
compiles.
"""

import importlib.util
import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

import sgdtheory as st
from benchmarks.timing import durations
from sgdtheory.simulation import BLOCK_NUMBERS

DIM = 256
BATCH = 256
KEY = jax.random.key(0)


def main() -> None:
    """Print the table."""
    device = jax.devices()[0]
    console = Console()
    if not console.is_terminal:
        console.width = 130
    replicas = BLOCK_NUMBERS.get(device.platform, 2**16) // DIM
    table = Table(
        title=f"{device.device_kind} × {jax.device_count()}, JAX {jax.__version__}; "
        f"d = {DIM}, {replicas} replicas, float32"
    )
    for header in ("what", "measured", "aim"):
        table.add_column(header, justify="left" if header == "what" else "right", overflow="fold")
    step = _add_steps(table, replicas)
    _add_generator(table, replicas, step)
    _add_reference(table, replicas, step)
    _add_others(table, step / replicas)
    _add_rows(table)
    _add_large(table)
    console.print(table)


def simulator_step(*, dim: int, replicas: int, batch: float, steps: int, repeats: int = 5, **options: Any) -> float:
    """Seconds a step of all replicas together."""
    problem = st.PowerLaw(2.0, 3.0, dim=dim)
    setting = {"batch_size": batch, "learning_rate": 0.3, "num_samples": batch * steps, "num_replicas": replicas}

    def once() -> None:
        if st.simulate(KEY, problem, **setting, **options).interrupted:
            raise KeyboardInterrupt  # what has finished says nothing about the time

    return _best(once, repeats) / steps


def _add_steps(table: Table, replicas: int) -> float:
    steps = 4096
    small, large = (simulator_step(dim=DIM, replicas=replicas, batch=batch, steps=steps) for batch in (1, 4096))
    table.add_row("a step of all replicas, B = 1", f"{small * 1e6:.1f} µs", "")
    table.add_row("… B = 4096, over B = 1", f"{large * 1e6:.1f} µs, {large / small:.2f} ×", "≤ 1.3 ×")
    momentum = st.Algorithm(st.HeavyBall(0.9), st.Cosine())
    other = simulator_step(dim=DIM, replicas=replicas, batch=1, steps=steps, algorithm=momentum)
    table.add_row("… B = 1 with momentum under a cosine", f"{other * 1e6:.1f} µs, {other / small:.2f} ×", "≤ 1.5 ×")
    double = simulator_step(dim=DIM, replicas=replicas, batch=1, steps=steps // 4, dtype="float64", repeats=3)
    table.add_row("… B = 1 in float64", f"{double * 1e6:.1f} µs, {double / small:.2f} ×", "")
    return large


def _add_generator(table: Table, replicas: int, step: float) -> None:
    alone, numbers = normals_seconds(dim=DIM, replicas=replicas, steps=1024), replicas * DIM
    table.add_row(
        "d · R normals by jax.random.normal alone", f"{alone * 1e6:.1f} µs, {numbers / alone / 1e6:.0f} M/s", ""
    )
    table.add_row("rate of the simulator over that", f"{numbers / step / 1e6:.0f} M/s, {alone / step:.2f} ×", "≥ 0.7 ×")
    floor = traffic_seconds(dim=DIM, replicas=replicas)
    table.add_row("a step over its memory traffic (3 arrays read, 2 written)", f"{step / floor:.2f} ×", "")


def normals_seconds(*, dim: int, replicas: int, steps: int) -> float:
    """Seconds of d · R numbers by `jax.random.normal`, summed so that they cannot be left out, in a scan."""

    @jax.jit
    def normals(key: Any):
        def body(total: Any, number: Any):
            return total + jax.random.normal(jax.random.fold_in(key, number), (replicas, dim)), None

        return jax.lax.scan(body, jnp.zeros((replicas, dim)), jnp.arange(steps))[0]

    return _best(lambda: jax.block_until_ready(normals(KEY))) / steps


def traffic_seconds(*, dim: int, replicas: int) -> float:
    """Seconds in which three arrays of d · R numbers are read and two are written, as in a step."""

    @jax.jit
    def traffic(a: Any, b: Any, c: Any):
        return a + c, b + c

    arrays = [jnp.ones((32, replicas, dim)) for _ in range(3)]  # too large for a cache
    return _best(lambda: jax.block_until_ready(traffic(*arrays))) / 32


def _add_reference(table: Table, replicas: int, step: float) -> None:
    few, steps = min(replicas, 64), 16
    explicit = simulator_step(dim=DIM, replicas=few, batch=BATCH, steps=steps, repeats=2, sampler="explicit") / few
    ratio = explicit / (step / replicas)
    table.add_row(
        f"explicit sampler, B = {BATCH}, over the sufficient one",
        f"{explicit * 1e6:.0f} µs a replica, {ratio:.0f} ×",
        "≥ 100 ×",
    )


def _add_others(table: Table, each: float) -> None:
    """Add the times of a replica and step at B = 256 of programs that a user would write without the library."""
    eigenvalue = np.arange(1.0, DIM + 1) ** -2.0
    rng = np.random.default_rng(0)
    root = np.sqrt(eigenvalue).astype(np.float32)

    def numpy_loop(steps: int = 50) -> np.ndarray:
        error, total = np.ones(DIM, np.float32), np.zeros(DIM)
        for _ in range(steps):
            total += error
            x = root * rng.standard_normal((BATCH, DIM), dtype=np.float32)
            residual = x @ error - rng.standard_normal(BATCH, dtype=np.float32)
            error = error - np.float32(0.3 / BATCH) * (residual @ x)
        return total

    loop = _best(numpy_loop) / 50
    table.add_row("NumPy loop, one replica", f"{loop * 1e6:.0f} µs a replica, {loop / each:.0f} ×", "")
    if importlib.util.find_spec("optax") is None:
        table.add_row("JAX scan with optax.sgd", "needs optax", "")
        return
    import optax

    optimizer, steps, few = optax.sgd(0.3), 20, 16

    def loss(weights: Any, x: Any, y: Any):
        return jnp.mean((x @ weights - y) ** 2) / 2

    def one(key: Any):
        def body(carry: Any, key: Any):
            weights, state, total = carry
            data, noise = jax.random.split(key)
            x = root * jax.random.normal(data, (BATCH, DIM))
            gradient = jax.grad(loss)(weights, x, jax.random.normal(noise, (BATCH,)))
            updates, state = optimizer.update(gradient, state)
            return (optax.apply_updates(weights, updates), state, total + weights), None

        start = jnp.ones(DIM)
        return jax.lax.scan(body, (start, optimizer.init(start), jnp.zeros(DIM)), jax.random.split(key, steps))[0][2]

    many = jax.jit(jax.vmap(one))
    keys = jax.random.split(KEY, few)
    scan = _best(lambda: jax.block_until_ready(many(keys)), 3) / steps / few
    table.add_row(
        "JAX scan with optax.sgd over sampled batches", f"{scan * 1e6:.0f} µs a replica, {scan / each:.0f} ×", ""
    )


def _add_rows(table: Table) -> None:
    """SGD on 2000 rows of 100 features, 32 replicas, for one learning rate and for eight at once."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2000, 100)) / np.arange(1, 101)
    rows = x, x @ rng.standard_normal(100) + rng.standard_normal(2000)
    for batch, steps in ((1, 16384), (16, 4096), (256, 512)):
        seconds = []
        for number in (1, 8):
            setting: dict[str, Any] = {"batch_size": batch, "num_samples": batch * steps, "num_replicas": 32}
            setting["learning_rate"] = np.geomspace(0.01, 0.1, number)
            seconds.append(_best(partial(st.simulate_data, KEY, *rows, **setting), 3) / steps)
        one, eight = (f"{value * 1e6:.0f} µs" for value in seconds)
        table.add_row(f"a step on rows, B = {batch}; of eight learning rates", f"{one}; {eight}", "")


def _add_large(table: Table) -> None:
    problem = st.PowerLaw(2.0, 3.0, dim=1024)
    start = time.perf_counter()
    st.simulate(KEY, problem, batch_size=1e5, learning_rate=0.5, num_samples=1e9, num_replicas=64)
    seconds = time.perf_counter() - start
    table.add_row("D = 1e9, B = 1e5, d = 1024, 64 replicas, with compilation", f"{seconds:.1f} s", "minutes")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform != "darwin" else 2**30)
    table.add_row("peak memory of this process", f"{peak:.2f} GiB", "")
    statistics = jax.devices()[0].memory_stats() or {}
    if "peak_bytes_in_use" in statistics:
        table.add_row("peak memory of the device", f"{statistics['peak_bytes_in_use'] / 2**30:.2f} GiB", "")


def _best(function: Callable[[], object], repeats: int = 5) -> float:
    """Least seconds of `repeats` calls after one that compiles."""
    return min(durations(function, repeats))


if __name__ == "__main__":
    main()
