"""Speed of the critical batch size, and where the time goes: `python -m benchmarks.critical_batch [--grid]`.

`--optimizers` for those of optimizers that are not linear instead.
"""

import argparse
import cProfile
import os
import pstats
import time

import numpy as np
from rich.console import Console
from rich.table import Table

import sgdtheory as st
from benchmarks.timing import durations

EXPONENTS = ((3.0, 2.0), (2.0, 3.0), (1.2, 2.0), (2.0, 4.5), (2.0, 6.0), (1.2, 5.0))
PROMISED = 2.0  # seconds
GOAL = 0.4, 0.1  # seconds of one quiet core, with the curve and without
OPTIMIZERS = {
    "signSGD": st.SignSGD(),
    "signSGD, β = 0.9": st.SignSGD(0.9),
    "Adam, β₂ = 0.999": st.Adam(beta2=0.999),
    "Adam, β₂ = 0.95": st.Adam(beta2=0.95),
    "AdamW, κ = 0.1": st.Adam(beta2=0.999, weight_decay=0.1),
    "Lion": st.Lion(),
    "normalized SGD": st.NormalizedSGD(),
}
OPTIMIZED = (2.0, 3.0), (1.5, 2.0), (2.5, 3.25)  # a, b; with b = a one step of signs is best
GOAL_OPTIMIZERS = 7.0  # seconds of processor time
PARTS = {
    "optimal_batch_size": "the optimal batch size",
    "largest_batch": "B* and the rate batch size",
    "steps_needed": "steps needed, along the curve",
    "minima": "looking at all γ, in all of these (and for the risks of the curve)",
    "risk_parts": "the exact risk, in all of these",
}


def main() -> None:
    """Print one table of times, one of where they go and, if asked, the time of the experiment."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--grid", action="store_true", help="time the experiment corollary8 at quick scale too")
    parser.add_argument("--optimizers", action="store_true", help="time methods that are not linear, and nothing else")
    asked = parser.parse_args()
    console = Console(width=120)
    if asked.optimizers:
        console.print(optimizer_table())
        return
    console.print(speed_table())
    console.print(profile_table())
    if asked.grid:
        console.print(grid_table())


def speed_table() -> Table:
    """`critical_batch_size` in infinite dimension, with its curve and without, over the time of one exact risk."""
    limits = f"promised: {PROMISED:g} s, goal: {GOAL[0]:g} s and {GOAL[1]:g} s"
    table = Table(title=f"critical_batch_size, D = 1e12, dim = None, medians of one process ({limits})")
    for header in ("a, b", "B*", "with its curve", "points", "without", "one exact risk", "with curve / one risk"):
        table.add_column(header, justify="right")
    for capacity, source in EXPONENTS:
        problem = st.PowerLaw(capacity, source)
        found = st.critical_batch_size(problem, num_samples=1e12)
        whole, alone, one = (
            float(np.median(seconds))
            for seconds in (
                durations(lambda p=problem: st.critical_batch_size(p, num_samples=1e12), 3),
                durations(lambda p=problem: st.critical_batch_size(p, num_samples=1e12, curve=False), 3),
                durations(lambda p=problem: st.excess_risk(p, batch_size=1e3, learning_rate=0.5, num_samples=1e12), 25),
            )
        )
        table.add_row(
            f"{capacity:g}, {source:g}",
            f"{found.batch_size:.6g}",
            f"{whole:.2f} s",
            str(found.curve.batch_size.size),
            f"{alone:.2f} s",
            f"{one * 1e3:.2f} ms",
            f"{whole / one:.0f}",
        )
    return table


def optimizer_table() -> Table:
    """`critical_batch_size` without its curve at D = 1e6, by deterministic equivalents; one call each."""
    title = f"critical_batch_size, D = 1e6, linear decay, last iterate (goal: {GOAL_OPTIMIZERS:g} s)"
    table = Table(title=title)
    for header in ("method", "a, b", "processor time", "B*", "least B", "R_opt"):
        table.add_column(header, justify="left" if header == "method" else "right")
    for capacity, source in OPTIMIZED:
        for name, method in OPTIMIZERS.items():
            algorithm = st.Algorithm(method, schedule=st.Linear(), average=st.LastIterate())
            start = time.process_time()
            found = st.critical_batch_size(
                st.PowerLaw(capacity, source), num_samples=1e6, algorithm=algorithm, curve=False
            )
            seconds = time.process_time() - start
            sizes = f"{found.batch_size:g}", f"{found.smallest_batch_size:g}"
            table.add_row(name, f"{capacity:g}, {source:g}", f"{seconds:.1f} s", *sizes, f"{found.optimal_risk:.3e}")
    return table


def profile_table() -> Table:
    """Share of each part in one call, by the profiler (which slows everything down)."""
    table = Table(title="where the time goes: a = 2, D = 1e12, with the curve")
    for header in ("part", "b = 3", "b = 6"):
        table.add_column(header, justify="left" if header == "part" else "right")
    shares = [_shares(st.PowerLaw(2.0, source)) for source in (3.0, 6.0)]
    for name, description in PARTS.items():
        table.add_row(description, *(f"{share[name]:.0%}" for share in shares))
    return table


def _shares(problem: st.PowerLaw) -> dict[str, float]:
    st.critical_batch_size(problem, num_samples=1e12)
    profile = cProfile.Profile()
    profile.enable()
    st.critical_batch_size(problem, num_samples=1e12)
    profile.disable()
    statistics = pstats.Stats(profile)
    cumulative = {key[2]: row[3] for key, row in statistics.stats.items()}  # pyright: ignore[reportAttributeAccessIssue]
    return {name: cumulative[name] / statistics.total_tt for name in PARTS}  # pyright: ignore[reportAttributeAccessIssue]


def grid_table() -> Table:
    """The experiment as `python -m experiments --only corollary8` runs it."""
    from experiments import corollary8

    start = time.perf_counter()
    corollary8.run(corollary8.SCALES["quick"])
    table = Table(title="experiment corollary8, quick scale")
    for header in ("time", "promised on 2 cores", "cores"):
        table.add_column(header, justify="right")
    table.add_row(f"{time.perf_counter() - start:.0f} s", "90 s", str(os.cpu_count()))
    return table


if __name__ == "__main__":
    main()
