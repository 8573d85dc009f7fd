"""Accuracy and speed of the exact excess risk: `python -m benchmarks.exact_risk [--problems 500]`."""

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import sgdtheory as st
from benchmarks.timing import durations
from sgdtheory.problems import power_law_modes
from sgdtheory.risk import risk_by_recursion
from tests import oracle
from tests.random_problems import random_case

PROMISED = 1e-10


def main() -> None:
    """Print one table of accuracy and one of speed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", type=int, default=500, help="random problems for the accuracy table")
    problems = parser.parse_args().problems
    console = Console(width=120)
    console.print(accuracy_table(problems))
    console.print(speed_table())


def accuracy_table(problems: int) -> Table:
    """Relative errors against the oracles, worst and median."""
    table = Table(title=f"relative error (promised: {PROMISED:g})")
    for header in ("problems", "number", "bias, worst", "bias, median", "variance, worst", "variance, median"):
        table.add_column(header, justify="left" if header == "problems" else "right")
    rows = {
        "finite spectra, 12 decades, n to 1e12, B to 1e6, γ to 0.999 of the edge": _finite(problems),
        "infinitely many directions, n to 40, exponents from 1 + 1e-6": _infinite(),
        "dim = 1e5 from its weighted modes, n to 1e12": _compressed(),
    }
    for name, errors in rows.items():
        bias, variance = np.array(errors).T
        numbers = (bias.max(), np.median(bias), variance.max(), np.median(variance))
        table.add_row(name, str(len(errors)), *(f"{number:.1e}" for number in numbers))
    return table


def _finite(problems: int) -> list[tuple[float, float]]:
    errors = []
    for seed in range(problems):
        case = random_case(np.random.default_rng(10_000 + seed))
        setting = case.batch_size, case.learning_rate, case.num_steps
        exact = oracle.parts(case.problem, st.Algorithm(), [setting])
        errors.append(_errors(case.problem, *setting, exact))
    return errors


def _infinite() -> list[tuple[float, float]]:
    rng = np.random.default_rng(0)
    errors = []
    for steps in (2, 5, 33, 40):
        for _ in range(5):
            capacity, source = 1 + 10 ** rng.uniform(-6, 0.6, 2)
            batch, rate = int(10 ** rng.uniform(0, 4)), rng.uniform(0.01, 1.9)
            exact = oracle.infinite_power_law_risk(capacity, source, batch, rate, steps)
            errors.append(_errors(st.PowerLaw(capacity, source), batch, rate, steps, exact))
    return errors


def _compressed() -> list[tuple[float, float]]:
    rng = np.random.default_rng(1)
    index = np.arange(1.0, 1e5 + 1)
    errors = []
    for steps in 10.0 ** np.arange(1, 13):
        capacity, source, batch = rng.uniform(1.05, 4), rng.uniform(1.05, 8), float(int(10 ** rng.uniform(0, 6)))
        explicit = st.LeastSquares(index**-capacity, index**-source)
        rate = 0.5 * float(st.max_stable_learning_rate(explicit, batch_size=batch))
        risk = st.excess_risk(explicit, batch_size=batch, learning_rate=rate, num_samples=steps * batch)
        problem = st.PowerLaw(capacity, source, dim=100_000)
        errors.append(_errors(problem, batch, rate, steps, (risk.bias, risk.variance)))
    return errors


def _errors(
    problem: st.AbstractProblem, batch: float, rate: float, steps: float, exact: Sequence[Any]
) -> tuple[float, float]:
    risk = st.excess_risk(problem, batch_size=batch, learning_rate=rate, num_samples=float(steps) * batch)
    return oracle.relative_error(risk.bias, exact[0]), oracle.relative_error(risk.variance, exact[1])


def speed_table() -> Table:
    """Times, and the ratio to the O(nd) recursion in the same run."""
    table = Table(title="speed (medians; one process)")
    table.add_column("what")
    table.add_column("time", justify="right")
    table.add_column("promised", justify="right")
    infinite = st.PowerLaw(2.0, 3.0)
    setting: dict[str, Any] = {"batch_size": 32, "learning_rate": 0.5}
    one = _time(lambda: st.excess_risk(infinite, num_samples=1e12, **setting))
    table.add_row("one (B, γ, D), dim = None, D = 1e12", f"{one * 1e3:.2f} ms", "10 ms")

    def cold() -> None:
        power_law_modes.cache_clear()
        st.excess_risk(infinite, num_samples=1e12, **setting)

    table.add_row("… of a problem never seen before", f"{_time(cold) * 1e3:.2f} ms", "10 ms")
    samples = np.geomspace(1e3, 1e12, 100)
    table.add_row(
        "one (B, γ), 100 values of D",
        f"{_time(lambda: st.excess_risk(infinite, num_samples=samples, **setting)) * 1e3:.1f} ms",
        "300 ms",
    )
    for dim in (10**3, 10**6, 10**9):
        problem = st.PowerLaw(2.0, 3.0, dim=dim)
        seconds = _time(lambda problem=problem: st.excess_risk(problem, num_samples=1e9, **setting))
        table.add_row(f"one (B, γ, D), dim = {dim:.0e}", f"{seconds * 1e3:.2f} ms", "independent of dim")
    for steps in (1e2, 1e6, 1e12):
        seconds = _time(lambda steps=steps: st.excess_risk(infinite, num_samples=32 * steps, **setting))
        table.add_row(f"one (B, γ, D), dim = None, n = {steps:.0e}", f"{seconds * 1e3:.2f} ms", "independent of n")
    _add_ratios(table, setting)
    return table


def _add_ratios(table: Table, setting: dict[str, Any]) -> None:
    dim, steps = 1000, 10**5
    index = np.arange(1.0, dim + 1)
    eigenvalues, signal = index**-2.0, index**-3.0
    arguments = {"batch_size": 32, "learning_rate": 0.5, "num_steps": steps}
    slow = _time(lambda: risk_by_recursion(eigenvalues, signal, 1.0, **arguments), repeats=3)
    table.add_row(f"O(nd) recursion in NumPy, d = {dim}, n = {steps:.0e}", f"{slow:.2f} s", "")
    spectra = {
        "PowerLaw(dim=1000)": st.PowerLaw(2.0, 3.0, dim=dim),
        "LeastSquares": st.LeastSquares(eigenvalues, signal),
    }
    for name, problem in spectra.items():
        fast = _time(lambda problem=problem: st.excess_risk(problem, num_samples=32 * steps, **setting))
        table.add_row(f"… closed form, {name}", f"{fast * 1e3:.2f} ms, {slow / fast:.0f} × faster", "300 ×")


def _time(function: Callable[[], object], repeats: int = 25) -> float:
    """Median seconds of `repeats` calls after one that is not counted."""
    return float(np.median(durations(function, repeats)))


if __name__ == "__main__":
    main()
