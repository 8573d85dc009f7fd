"""Speed of risks of workers with local steps: `python -m benchmarks.workers [--critical]`."""

import argparse
import os
import time
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import sgdtheory as st
from benchmarks.timing import durations

PROBLEM = st.PowerLaw(2.0, 3.0)
METHODS = (
    st.LocalSGD(2, 4),
    st.LocalSGD(8, 30),
    st.LocalSGD(8, 30, 0.7, 0.9),
    st.LocalSGD(8, 100, 0.7, 0.9),
    st.LocalSGD(8, 500, 0.7, 0.9),
    st.LocalSGD(8, 30, 0.7, 0.9, inner_momentum=0.9),
)
ROUNDS = 1e6, 1e8
AVERAGES = {"last iterate": st.LastIterate(), "average": st.UniformAverage()}


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--critical", action="store_true", help="time critical_batch_size too")
    critical = parser.parse_args().critical
    console = Console(width=120)
    console.print(risk_table())
    if critical:
        console.print(critical_table())


def risk_table() -> Table:
    """One exact risk after 10⁶ and 10⁸ rounds."""
    table = Table(title=f"one exact risk, a = 2, b = 3, dim = None, B = 4; {os.cpu_count()} cores, medians")
    for header in ("method", "returned", "rounds", "risk", "seconds", "goal"):
        table.add_column(header, justify="right")
    for method in METHODS:
        for name, average in AVERAGES.items():
            for rounds in ROUNDS:
                algorithm = st.Algorithm(method, average=average)
                samples = method.num_workers * 4 * method.local_steps * rounds
                rate = 0.1 * (1 - method.inner_momentum)
                setting: Any = {"batch_size": 4, "learning_rate": rate, "num_samples": samples}
                risk = float(st.excess_risk(PROBLEM, **setting, algorithm=algorithm).total)
                one = lambda s=setting, a=algorithm: st.excess_risk(PROBLEM, **s, algorithm=a)  # noqa: E731
                seconds = float(np.median(durations(one, 5)))
                table.add_row(_short(method), name, f"{rounds:.0e}", f"{risk:.4e}", f"{seconds:.2f}", "1")
    return table


def critical_table() -> Table:
    """B* with 10⁴ samples."""
    table = Table(title=f"critical_batch_size without curve, D = 10⁴; {os.cpu_count()} cores")
    for header in ("method", "returned", "B* of a worker", "steps", "seconds"):
        table.add_column(header, justify="right")
    for method in (st.LocalSGD(1, 1), st.LocalSGD(4, 4), st.LocalSGD(4, 30)):
        for name, average in AVERAGES.items():
            begin = time.perf_counter()
            algorithm = st.Algorithm(method, average=average)
            found = st.critical_batch_size(PROBLEM, num_samples=1e4, curve=False, algorithm=algorithm)
            seconds = time.perf_counter() - begin
            table.add_row(_short(method), name, f"{found.batch_size:g}", f"{found.num_steps:g}", f"{seconds:.1f}")
    return table


def _short(method: st.LocalSGD) -> str:
    numbers = method.outer_learning_rate, method.outer_momentum, method.inner_momentum
    return f"K={method.num_workers} H={method.local_steps} η={numbers[0]:g} μ={numbers[1]:g} β={numbers[2]:g}"


if __name__ == "__main__":
    main()
