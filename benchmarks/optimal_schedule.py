"""Speed of the search for the best schedule, and how sure it is: `python -m benchmarks.optimal_schedule [--long]`."""

import argparse
import os
import time

import numpy as np
from rich.console import Console
from rich.table import Table

import sgdtheory as st
from benchmarks.timing import durations
from sgdtheory.optimal import Run, spread_knots

SAMPLES, BATCHES = 1e6, (1, 10, 100, 1000)
LONG = 1e8, 1e9, 1e10
FINEST = 0.35  # distance of the knots in the end
GOAL = 20.0  # seconds of one quiet core, for D = 1e6
PROBLEMS = (2.0, 3.0), (2.0, 1.5)


def main() -> None:
    """Print one table of searches and one of gradients."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--long", action="store_true", help="search with up to 1e10 steps too")
    long = parser.parse_args().long
    console = Console(width=132)
    console.print(gradient_table())
    console.print(search_table(long))


def gradient_table() -> Table:
    """A gradient by all learning rates and batch sizes, over the exact risk of the default algorithm."""
    table = Table(title="risk and gradient by γ and B at the finest knots, a = 2, b = 3, medians of one process")
    for header in ("n", "knots", "gradient", "one exact risk", "gradient / risk"):
        table.add_column(header, justify="right")
    problem = st.PowerLaw(2.0, 3.0)
    for steps in (1e4, 1e6, 1e9):
        knots = spread_knots(steps, FINEST)
        run = Run(problem.modes(0.25 / steps, 1e-6), problem.noise_variance, steps, knots)
        log_rate, log_batch = np.log(0.5 - 0.49 * knots / steps), np.full(knots.size, np.log(16.0))
        setting = {"batch_size": 16, "learning_rate": 0.5, "num_samples": 16 * steps}
        gradient = float(np.median(durations(lambda r=run, a=log_rate, b=log_batch: r.risk_and_gradient(a, b), 9)))
        risk = float(np.median(durations(lambda s=setting: st.excess_risk(problem, **s), 25)))
        row = f"{steps:.0e}", str(knots.size), f"{1e3 * gradient:.1f} ms", f"{1e3 * risk:.2f} ms"
        table.add_row(*row, f"{gradient / risk:.0f}")
    return table


def search_table(long: bool) -> Table:
    """`optimal_schedule` at constant batch sizes, with batches found too, and for an average."""
    table = Table(title=f"optimal_schedule ({os.cpu_count()} cores; goal for D = 1e6: {GOAL:g} s on one quiet core)")
    for header in ("a, b", "D", "B", "seconds", "risk", "slope", "starts differ by", "half the knots", "× bound"):
        table.add_column(header, justify="right")
    for capacity, source in PROBLEMS:
        for batch in BATCHES:
            _add(table, (capacity, source), SAMPLES, str(batch), batch_size=batch)
        _add(table, (capacity, source), SAMPLES, "free, n = 1000", num_steps=1000)
        _add(table, (capacity, source), SAMPLES, "10, average", batch_size=10, average=st.UniformAverage())
        for samples in LONG if long else ():
            _add(table, (capacity, source), samples, "1", batch_size=1)
    return table


def _add(table: Table, pair: tuple[float, float], samples: float, label: str, **setting: object) -> None:
    start = time.perf_counter()
    best = st.optimal_schedule(st.PowerLaw(*pair), num_samples=samples, **setting)  # type: ignore[arg-type]
    seconds = time.perf_counter() - start
    risks = list(best.from_starts.values())
    table.add_row(
        f"{pair[0]:g}, {pair[1]:g}",
        f"{samples:.0e}",
        label,
        f"{seconds:.1f}",
        f"{best.risk:.6g}",
        f"{best.slope:.0e}",
        f"{max(risks) / min(risks) - 1:.0e}",
        f"{best.with_half_the_knots / best.risk - 1:+.0e}",
        f"{best.lower_bound_gap:.3g}",
    )


if __name__ == "__main__":
    main()
