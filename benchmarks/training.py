"""Speed of training: `python -m benchmarks.training`; throughput and utilization of a GPU: `benchmarks.gpu`."""

import time
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.timing import durations
from sgdtheory.training import TrainConfig, preset, train, train_many

REPEATS = 3


def side_by_side() -> Table:
    """Runs an hour of `train_many` against the same runs one by one: 16 learning rates, batch 32."""
    table = Table(title="16 learning rates, batch 32, 1000 steps of Adam, both compiled before")
    for header in ("width", "one by one, runs/h", "train_many, runs/h", "ratio"):
        table.add_column(header, justify="right")
    for width in (32, 64, 128, 256):
        config = TrainConfig(width=width, batch_size=32, max_steps=1000, eval_every=250)
        configs = [replace(config, learning_rate=float(rate)) for rate in np.geomspace(1e-4, 1e-2, 16)]
        one = min(durations(lambda configs=configs: [train(each) for each in configs], REPEATS))
        many = min(durations(lambda configs=configs: train_many(configs), REPEATS))
        table.add_row(f"{width}", f"{16 * 3600 / one:.0f}", f"{16 * 3600 / many:.0f}", f"{one / many:.1f}")
    return table


def against_products() -> Table:
    """Time of a step against that of the matrix products of its layers alone, forward and twice backward."""
    table = Table(title="one step against the matrix products of its own layers")
    for header in ("model", "width", "step, ms", "products, ms", "ratio"):
        table.add_column(header, justify="right")
    configs = [TrainConfig(width=width, batch_size=256, max_steps=300, eval_every=300) for width in (256, 512, 1024)]
    configs += [preset("bytes-small", width=width, max_steps=30, eval_every=30, warmup=0.0) for width in (128, 256)]
    for config in configs:
        train(config)
        step = 1 / train(config).steps_per_second
        products = _products(config)
        table.add_row(
            config.value("model"),
            f"{config.width}",
            *(f"{1e3 * t:.2f}" for t in (step, products)),
            f"{step / products:.2f}",
        )
    return table


def _products(config: TrainConfig) -> float:
    """Seconds of x W, g Wᵀ and xᵀ g for every matrix of the model."""
    rows = config.batch_size * (config.value("context") or 1)
    shapes = []
    for tensor in config.network.tensors.values():
        if tensor.role in ("hidden", "output") or (tensor.role == "input" and config.value("model") == "mlp"):
            number = tensor.shape[0] if len(tensor.shape) == 3 else 1
            shapes += [tensor.shape[-2:]] * number
    pairs = [(jnp.ones((rows, a)), jnp.ones((a, b)), jnp.ones((rows, b))) for a, b in shapes]

    @jax.jit
    def work(pairs: list[tuple[jax.Array, ...]]):
        return [(x @ weights, gradient @ weights.T, x.T @ gradient) for x, weights, gradient in pairs]

    return min(durations(lambda: jax.block_until_ready(work(pairs)), 10))


def main() -> None:
    """Print the tables."""
    console, start = Console(), time.perf_counter()
    console.print(side_by_side())
    console.print(against_products())
    console.print(
        f"{time.perf_counter() - start:.0f} s on {jax.devices()[0].device_kind}, {jax.device_count()} device(s)"
    )


if __name__ == "__main__":
    main()
