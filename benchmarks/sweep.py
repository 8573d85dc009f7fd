"""Speed of sweeps: `python -m benchmarks.sweep`: runs an hour, what the store costs a run, resuming a large store."""

import shutil
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.timing import durations
from sgdtheory.sweep import Store, sweep
from sgdtheory.training import TrainConfig, train, train_many

REPEATS = 3
MANY = 10_000
BASE = TrainConfig(width=64, batch_size=32, max_steps=500, eval_every=100)
RATES = [2.0 ** (-11 + k / 4) for k in range(32)]


def throughput(folder: Path) -> Table:
    """Runs an hour of a sweep against the same runs one after another, all compiled before."""
    configs = [replace(BASE, learning_rate=rate) for rate in RATES]
    places = iter(range(10**6))
    one = min(durations(lambda: [train(config) for config in configs], REPEATS))
    together = min(durations(lambda: sweep(configs, folder / f"sweep-{next(places)}"), REPEATS))
    table = Table(title=f"{len(configs)} runs, width 64, batch 32, 500 steps")
    for header in ("one by one, runs/h", "sweep, runs/h", "ratio"):
        table.add_column(header, justify="right")
    hourly = 3600 * len(configs)
    table.add_row(f"{hourly / one:.0f}", f"{hourly / together:.0f}", f"{one / together:.1f}")
    return table


def overhead(folder: Path) -> Table:
    """Return the overhead of a store: the same short runs with it and without one, in units of the same lanes."""
    configs = [replace(BASE, learning_rate=rate, max_steps=2) for rate in RATES]
    places = iter(range(10**6))
    kept = min(durations(lambda: sweep(configs, folder / f"kept-{next(places)}", lanes=16), REPEATS))
    bare = min(durations(lambda: train_many(configs), REPEATS))
    table = Table(title="overhead of the store")
    table.add_column("ms a run", justify="right")
    table.add_row(f"{1e3 * (kept - bare) / len(configs):.1f}")
    return table


def resuming(folder: Path) -> Table:
    """Time of a sweep whose runs are all finished."""
    store = Store(folder / "large")
    store.prepare()
    model = replace(BASE, max_steps=20, eval_every=5)
    train(model, folder / "model")
    configs = [replace(model, seed=number) for number in range(MANY)]
    for config in configs:
        shutil.copytree(folder / "model", store.directory(config))
        text = (folder / "model" / "config.json").read_text().replace('"seed": 0,', f'"seed": {config.seed},')
        (store.directory(config) / "config.json").write_text(text)
    start = time.perf_counter()
    table = sweep(configs, store.folder)
    seconds = time.perf_counter() - start
    assert len(table.finished) == MANY
    shown = Table(title=f"resuming a store of {MANY} finished runs")
    shown.add_column("seconds", justify="right")
    shown.add_row(f"{seconds:.1f}")
    return shown


def main() -> None:
    """Print the tables."""
    console = Console()
    with tempfile.TemporaryDirectory() as folder:
        for measure in throughput, overhead, resuming:
            console.print(measure(Path(folder)))


if __name__ == "__main__":
    main()
