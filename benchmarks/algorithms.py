"""Speed of the exact risk of any algorithm: `python -m benchmarks.algorithms [--critical]`."""

import argparse
import os
import time
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.integrate import solve_ivp

import sgdtheory as st
from benchmarks.timing import durations
from sgdtheory.algorithms import Course
from sgdtheory.risk import course_risk, run_risks

LAST = st.LastIterate()
PROBLEM = st.PowerLaw(2.0, 3.0)
STAGES = 20
CASES: dict[str, tuple[st.Algorithm, tuple[float, ...], str]] = {
    "SGD, constant, last iterate": (st.Algorithm(average=LAST), (1e4, 1e12), "2 ms"),
    "SGD, constant, tail average": (st.Algorithm(average=st.TailAverage()), (1e4, 1e12), "2 ms"),
    "SGD, constant, exponential average": (st.Algorithm(average=st.ExponentialAverage(0.999)), (1e4, 1e12), "2 ms"),
    "heavy ball, constant, last iterate": (st.Algorithm(st.HeavyBall(0.9), average=LAST), (1e4, 1e12), "2 ms"),
    f"SGD, {STAGES} stages": (
        st.Algorithm(schedule=st.Stages(np.arange(STAGES) / STAGES, 0.9 ** np.arange(STAGES)), average=LAST),
        (1e5, 1e12),
        "1 ms a stage",
    ),
    "SGD, cosine": (st.Algorithm(schedule=st.Cosine(), average=LAST), (1e4, 1e6, 1e12), "20 ms"),
    "SGD, WSD": (st.Algorithm(schedule=st.WSD(), average=LAST), (1e4, 1e6, 1e12), "20 ms"),
    "schedule-free": (st.Algorithm(st.ScheduleFree(0.9), average=LAST), (1e4, 1e6), "20 ms"),
}
SEARCHED: dict[str, tuple[st.Algorithm, str]] = {
    "averaged SGD": (st.Algorithm(), "0.05"),
    "last iterate": (st.Algorithm(average=LAST), "0.1"),
    "tail average": (st.Algorithm(average=st.TailAverage()), "0.2"),
    "exponential average, 0.1 n": (st.Algorithm(average=st.ExponentialAverage(window=0.1)), "0.2"),
    "cosine": (st.Algorithm(schedule=st.Cosine(), average=LAST), "0.5"),
    "linear": (st.Algorithm(schedule=st.Linear(), average=LAST), "0.5"),
    "WSD": (st.Algorithm(schedule=st.WSD(), average=LAST), "0.5"),
    "heavy ball 0.9": (st.Algorithm(st.HeavyBall(0.9)), "0.8"),
    "Nesterov 0.9": (st.Algorithm(st.Nesterov(0.9)), "0.8"),
    "schedule-free": (st.Algorithm(st.ScheduleFree(0.9), average=LAST), "5"),
}


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--critical", action="store_true", help="time critical_batch_size too")
    critical = parser.parse_args().critical
    console = Console(width=120)
    console.print(speed_table())
    console.print(steps_table())
    console.print(together_table())
    console.print(many_table())
    if critical:
        console.print(critical_table())


def _seconds(function: Callable[[], Any], number: int) -> float:
    function()
    return float(np.median(durations(function, number)))


def speed_table() -> Table:
    """One exact risk of each algorithm, with and without the estimate of its error, over one of the default."""
    table = Table(title=f"one exact risk, a = 2, b = 3, dim = None, B = 16, γ = 0.5; {os.cpu_count()} cores, medians")
    for header in ("algorithm", "steps n", "risk", "ms", "ms with the estimate", "over the default's", "goal"):
        table.add_column(header, justify="right")
    setting: Any = {"batch_size": 16, "learning_rate": 0.5, "num_samples": 16e6}
    default = _seconds(lambda: st.excess_risk(PROBLEM, **setting), 25)
    for name, (algorithm, numbers, goal) in CASES.items():
        for steps in numbers:
            course = Course(algorithm, 16.0, 0.05 if "ball" in name else 0.5, steps)
            alone = _seconds(lambda c=course: course_risk(PROBLEM, c, estimate=False), 9)
            whole = _seconds(lambda c=course: course_risk(PROBLEM, c), 9)
            risk = course_risk(PROBLEM, course, estimate=False).parts.sum()
            cells = f"{steps:.0e}", f"{risk:.4e}", f"{1e3 * alone:.2f}", f"{1e3 * whole:.2f}"
            table.add_row(name, *cells, f"{alone / default:.1f}", goal)
    return table


def steps_table() -> Table:
    """A cosine of 10⁵ steps on 300 directions: panels, compiled steps, a loop in NumPy, and the ODE of small rates."""
    problem = st.LeastSquares(*st.PowerLaw(2.0, 3.0, 300).directions())
    steps = 100_000
    batch = 16.0
    rate = 0.5
    shape = st.Cosine()
    panels = st.Algorithm(schedule=shape, average=LAST)
    single = st.Algorithm(schedule=lambda step: shape.factors(step, steps), average=LAST)
    ways: dict[str, Callable[[], float]] = {
        "every step, loop in NumPy": lambda: _loop(problem, shape, batch, rate, steps),
        "every step, compiled": lambda: float(course_risk(problem, Course(single, batch, rate, steps)).parts.sum()),
        "panels": lambda: float(course_risk(problem, Course(panels, batch, rate, steps), estimate=False).parts.sum()),
        "ODE of small rates, LSODA to 1e-8": lambda: _ode(problem, shape, batch, rate, steps),
    }
    table = Table(title=f"cosine, n = {steps:.0e}, {problem.dim} directions")
    for header in ("way", "risk", "seconds", "µs a step", "relative error"):
        table.add_column(header, justify="right")
    truth = None
    for name, way in ways.items():
        value = way()  # compiles
        start = time.perf_counter()
        value = way()
        seconds = time.perf_counter() - start
        truth = value if truth is None else truth
        cells = f"{value:.8e}", f"{seconds:.3f}", f"{1e6 * seconds / steps:.3f}"
        table.add_row(name, *cells, f"{value / truth - 1:.1e}")
    return table


def together_table() -> Table:
    """Every step of 64 settings at once, over every step of one after the other."""
    steps = 20_000
    settings = 64
    table = Table(title=f"every step of a cosine, n = {steps:.0e}, {settings} learning rates, a = 2, b = 3")
    for header in ("method", "directions", "µs a setting and step", "one by one, µs", "times as fast", "goal"):
        table.add_column(header, justify="right")
    setting = np.full(settings, 16.0), np.geomspace(0.01, 0.05, settings), np.full(settings, float(steps))
    listed = st.LeastSquares(*st.PowerLaw(2.0, 3.0, 300).directions())
    for problem, method in product((PROBLEM, listed), (st.SGD(), st.HeavyBall(0.9))):
        shape = st.Cosine()
        algorithm = st.Algorithm(method, schedule=lambda step, f=shape: f.factors(step, steps), average=LAST)
        together = _seconds(lambda p=problem, a=algorithm: run_risks(p, a, *setting), 3) / settings / steps
        course = Course(algorithm, 16.0, 0.01, float(steps))
        single = _seconds(lambda p=problem, c=course: course_risk(p, c), 3) / steps
        name = type(method).__name__
        dim = "infinitely many" if problem.dim is None else str(problem.dim)
        goal = "0.3" if name == "SGD" else ""
        table.add_row(name, dim, f"{1e6 * together:.2f}", f"{1e6 * single:.2f}", f"{single / together:.1f}", goal)
    return table


def critical_table() -> Table:
    """Whole searches for B*, by processor time; compiled loops take a second or two once a process."""
    table = Table(title="critical_batch_size(…, curve=False), a = 2, b = 3, D = 1e6, processor seconds")
    for header in ("algorithm", "B*", "first call", "second call", "goal"):
        table.add_column(header, justify="right")
    for name, (algorithm, goal) in SEARCHED.items():
        seconds = []
        for _ in range(2):
            start = time.process_time()
            found = st.critical_batch_size(PROBLEM, num_samples=1e6, curve=False, algorithm=algorithm)
            seconds.append(f"{time.process_time() - start:.2f}")
        table.add_row(name, f"{found.batch_size:g}", *seconds, goal)
    return table


def many_table() -> Table:
    """Many settings of one call, a setting; over one of the default."""
    table = Table(title="400 learning rates in one call, a = 2, b = 3, n = 1e6 / 32, processor µs a setting")
    for header in ("algorithm", "µs", "over the default's", "goal"):
        table.add_column(header, justify="right")
    default = None
    for name, (algorithm, _) in SEARCHED.items():
        if not algorithm.constant:
            continue
        setting = {"batch_size": 32, "learning_rate": np.geomspace(0.01, 0.2, 400), "num_samples": 1e6}
        seconds = []
        for _ in range(4):
            start = time.process_time()
            st.excess_risk(PROBLEM, **setting, algorithm=algorithm)
            seconds.append((time.process_time() - start) / 400)
        default = default or min(seconds)
        table.add_row(name, f"{1e6 * min(seconds):.0f}", f"{min(seconds) / default:.1f}", "30")
    return table


def _loop(problem: st.LeastSquares, shape: st.Cosine, batch: float, rate: float, steps: int) -> float:
    """T2 as it stands."""
    eigenvalue = problem.eigenvalues
    risk = problem.signal.copy()
    factors = rate * shape.factors(np.arange(steps), steps)
    for gamma in factors:
        x = gamma * eigenvalue
        risk = (1 - x) ** 2 * risk + x**2 / batch * (risk + risk.sum() + problem.noise_variance)
    return float(risk.sum())


def _ode(problem: st.LeastSquares, shape: st.Cosine, batch: float, rate: float, steps: int) -> float:
    """The continuous-time limit in which such risks are usually computed: `r' = −2γλ r + γ²λ²/B (Σ r + r + σ²)`."""
    eigenvalue = problem.eigenvalues

    def slope(t: float, risk: np.ndarray) -> np.ndarray:
        x = rate * float(shape.at(t / steps)) * eigenvalue
        return (x**2 - 2 * x) * risk + x**2 / batch * (risk + risk.sum() + problem.noise_variance)

    found = solve_ivp(slope, (0, steps), problem.signal, method="LSODA", rtol=1e-8, atol=1e-14, t_eval=[steps])
    return float(found.y[:, -1].sum())


if __name__ == "__main__":
    main()
