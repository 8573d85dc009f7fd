"""Times of two solvers on both sides of each threshold between them: `python -m benchmarks.thresholds`."""

import os
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

import sgdtheory as st
from sgdtheory.risk import Thresholds, moved_thresholds, run_risks

PROBLEM = st.PowerLaw(2.0, 3.0)
LAST = st.LastIterate()
FAR = 1e9  # A threshold that no run of these tables exceeds.
FACTORS = 0.5, 1.0, 2.0
REPEATS = 15
MANY = 64  # Runs side by side.


class Case(NamedTuple):
    """A threshold, and runs whose number of steps is on both sides of it.

    Attributes:
        name: of the threshold, a field of `Thresholds`.
        what: the runs in words, with the solver below the threshold and the solver above it.
        algorithm: of the runs.
        unit: steps in the unit of the threshold.
        runs: how many of them are solved in one call.
        problem: that all of them solve.
    """

    name: str
    what: str
    algorithm: st.Algorithm
    unit: float = 1.0
    runs: int = 1
    problem: st.AbstractProblem = PROBLEM


CASES = (
    Case("few_steps", "averaged SGD: steps, contour", st.Algorithm()),
    Case("few_steps", "heavy ball, last iterate: steps, contour", st.Algorithm(st.HeavyBall(0.5), average=LAST)),
    Case("together", f"heavy ball, {MANY} runs: steps, contour", st.Algorithm(st.HeavyBall(0.5)), runs=MANY),
    Case("together_smooth", f"cosine, {MANY} runs: steps, panels", st.Algorithm(schedule=st.Cosine()), runs=MANY),
    Case("short_smooth", "cosine, last iterate: steps, panels", st.Algorithm(schedule=st.Cosine(), average=LAST)),
    Case("few_rounds", "local SGD, H = 8: round by round, contour", st.Algorithm(st.LocalSGD(4, 8)), unit=8.0),
    Case("delayed_by_steps", "delay 8, last iterate: steps, contour", st.Algorithm(st.DelayedSGD(8), average=LAST)),
)


def main() -> None:
    """Print the table."""
    table = Table(title=f"milliseconds of processor time of one call, the least of {REPEATS}; {os.cpu_count()} cores")
    table.add_column("threshold")
    table.add_column("value", justify="right")
    table.add_column("runs: solver below, solver above")
    for header in ("steps", "below", "above", "above / below"):
        table.add_column(header, justify="right")
    for case in CASES:
        value = getattr(Thresholds(), case.name)
        for factor in FACTORS:
            steps = np.floor(factor * value) * case.unit
            below, above = (_milliseconds(case, steps, moved) for moved in (FAR, 0))
            times = f"{below:.2f}", f"{above:.2f}", f"{above / below:.2f}"
            table.add_row(case.name, f"{value:g}", case.what, f"{steps:g}", *times)
    Console(width=130).print(table)


def _milliseconds(case: Case, steps: float, threshold: float) -> float:
    rates = np.linspace(0.05, 0.1, case.runs)
    settings = np.full(case.runs, 16.0), rates, np.full(case.runs, steps)

    def solve() -> Any:
        return run_risks(case.problem, case.algorithm, *settings, estimate=False)

    with moved_thresholds(**{case.name: threshold}):
        solve()  # compiles, and fills caches
        return 1000 * min(_processor_seconds(solve) for _ in range(REPEATS))


def _processor_seconds(function: Callable[[], Any]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


if __name__ == "__main__":
    main()
