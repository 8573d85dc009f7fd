"""Do branched runs, the gradient noise scale and the definition yield the same critical batch size?

A run is branched at a checkpoint: it goes on with kB samples a step and k times the learning rate (SGD; √k times with
Adam), and B* is the largest kB whose loss, after as many samples, is within ε of that of k = 1 (Merrill et al. 2025,
arXiv:2505.23971). On linear regression all three measures are exact. Where a run at a constant γ has come to its noise,
both branching and noise scale are the run's own B/γ times a constant of the spectrum (THEORY.md T15): they stand still
while B* by definition grows. At the best γ of each D they grow with it.
"""

import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

import sgdtheory as st
from experiments._lib.branching_figure import branching_figure
from experiments._lib.branching_measures import Row, branching_rows, definition_rows, theory_rows
from experiments._lib.branching_verdicts import Limits, growth_verdict, rate_verdict, ratio_verdict, theory_verdicts
from experiments._lib.network_sweeps import TEACHER, TEXT, Task
from experiments._lib.progress import stage, tracked
from experiments._lib.redraw import Recorded
from experiments._lib.results import Result, Verdict
from experiments._lib.rows import columns_of, rows_of

ADAM = replace(TEACHER, widths=(64,), rate_offsets=(-1, 0, 1), targets=(0.2, 0.15, 0.12, 0.1), samples=6000)
SGD = replace(ADAM, fields=ADAM.fields | {"optimizer": "sgd"}, log2_rate=-4.0)


@dataclass(frozen=True)
class Config:
    """Power laws, tasks, and how runs are branched.

    Attributes:
        problems: (a, b) of the power laws, σ² = 1, and theory_rate, γ of the run that keeps one.
        theory_rate: see there.
        theory_samples: D.
        theory_late: D from which a run at theory_rate has come to its noise: there it should stand still.
        theory_tolerances: ε.
        tasks: name → network and data, and the sweep to targets for the definition.
        log2_rates: of every task's runs; the first is the run that is followed.
        checkpoints: D of every task.
        tolerances: ε of every task, shares of the loss; the first decides.
        factors: k.
        catch_up: samples from a checkpoint to where losses are compared, over D.
        fixed_catch_up: of every task, the same samples at every D, for the run that is followed.
        num_seeds: of every task's runs.
        overhead: ω of the definition.
        margin: difference of exponents that counts as growing alike.
        ratio: factor within which batch sizes count as the same.
        level: of the intervals.
        store: folder that keeps the sweeps' runs; None: a temporary one.
    """

    problems: tuple[tuple[float, float], ...] = ((2.0, 3.0),)
    theory_rate: float = 0.02
    theory_samples: tuple[int, ...] = (256, 1024, 4096, 16384, 65536, 262144)
    theory_late: int = 4096
    theory_tolerances: tuple[float, ...] = (0.1, 0.05)
    tasks: dict[str, Task] = field(default_factory=lambda: {"teacher, SGD": SGD, "teacher, Adam": ADAM})
    log2_rates: dict[str, tuple[float, ...]] = field(
        default_factory=lambda: {"teacher, SGD": (-6.0, -7.0), "teacher, Adam": (-9.0, -8.0)}
    )
    checkpoints: dict[str, tuple[int, ...]] = field(
        default_factory=lambda: dict.fromkeys(("teacher, SGD", "teacher, Adam"), (1024, 2048, 4096, 8192))
    )
    tolerances: dict[str, tuple[float, ...]] = field(
        default_factory=lambda: dict.fromkeys(("teacher, SGD", "teacher, Adam"), (0.1, 0.05))
    )
    factors: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    catch_up: float = 0.5
    fixed_catch_up: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("teacher, SGD", "teacher, Adam"), 1024)
    )
    num_seeds: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("teacher, SGD", "teacher, Adam"), 8))
    overhead: float = 0.2
    margin: float = 0.2
    ratio: float = 2.0
    level: float = 0.95
    store: str | None = None


TARGETS = 0.2, 0.16, 0.13, 0.11, 0.09, 0.075, 0.065, 0.055, 0.048
LONGER = {"targets": TARGETS, "samples": 48_000, "num_seeds": 4, "evaluations": 40}
FULL_ADAM, FULL_SGD = (replace(each, rate_offsets=(-2, -1, 0, 1), **LONGER) for each in (ADAM, SGD))
FULL_TEXT = replace(TEXT, widths=(64,), targets=(2.9, 2.7, 2.6, 2.5, 2.4), samples=1600)
NAMES = "teacher, SGD", "teacher, Adam", "text, Adam"
LONG = 2048, 4096, 8192, 16384, 32768, 65536
SCALES = {
    "quick": Config(),
    "full": Config(
        problems=((2.0, 3.0), (1.5, 2.5)),
        tasks=dict(zip(NAMES, (FULL_SGD, FULL_ADAM, FULL_TEXT), strict=True)),
        log2_rates={
            "teacher, SGD": (-6.0, -7.0, -8.0, -5.0),
            "teacher, Adam": (-9.0, -10.0, -8.0, -7.0),
            "text, Adam": (-7.0, -6.0),
        },
        checkpoints={"teacher, SGD": LONG, "teacher, Adam": LONG, "text, Adam": (256, 512, 1024, 2048)},
        tolerances={"teacher, SGD": (0.1, 0.05), "teacher, Adam": (0.1, 0.05), "text, Adam": (0.01, 0.005)},
        factors=(1, 2, 4, 8, 16, 32, 64),
        fixed_catch_up={"teacher, SGD": 4096, "teacher, Adam": 4096, "text, Adam": 256},
        num_seeds={"teacher, SGD": 32, "teacher, Adam": 32, "text, Adam": 16},
        store="runs",
    ),
}
UNITS = {
    "problem": "power law, or network, data and optimizer",
    "measure": "branching, fixed (branching with the same catch-up at every D), noise (gradient noise scale), "
    "definition (of the last iterate for power laws, of the best average for networks), averaged (B* of the uniform "
    "average), balance (b/a of the law of steps)",
    "tolerance": "ε of branching as a share of the loss, or extra data ω of the definition",
    "samples": "D at the checkpoint; of the definition, samples that the smallest batch size takes to the target",
    "learning_rate": "γ of the run, in units of 1/λ for power laws, the trainer's for networks",
    "best": "1 if γ leaves the least loss of those tried at this D",
    "loss": "of the run after the catch-up (power laws: at D), or the target: excess risk, or nats a byte",
    "batch_size": "measured, samples (sequences, on text)",
    "low": "lower end of its interval",
    "high": "upper end of its interval; Inf: beyond what was tried",
}


def run(config: Config) -> Result:
    """Exact measures, runs that branch, sweeps."""
    start = time.perf_counter()
    rows = []
    with stage("exact risk", 0.0, 0.1):
        for pair in tracked(config.problems):
            problem, name = st.PowerLaw(*pair, noise_variance=1.0), f"a = {pair[0]:g}, b = {pair[1]:g}"
            rows += theory_rows(
                name, problem, config.theory_samples, config.theory_rate, config.theory_tolerances, config.catch_up
            )
    with stage("branches", 0.1, 0.5), ThreadPoolExecutor(2) as executor:
        for each in executor.map(lambda name: _branched(config, name), config.tasks):
            rows += each
    with stage("sweeps", 0.5, 1.0), tempfile.TemporaryDirectory() as temporary:
        for name, task in tracked(config.tasks.items()):
            rows += definition_rows(name, task, Path(config.store or temporary), config.overhead, config.level)
    verdicts = verdicts_of(config, rows, time.perf_counter() - start)
    return Result(columns_of(rows), UNITS, {"branching": branching_figure(config, rows)}, verdicts)


def _branched(config: Config, name: str) -> list[Row]:
    """At every γ with a catch-up that grows with D, and at the first with a fixed one."""
    settings: dict[str, Any] = {
        "checkpoints": config.checkpoints[name],
        "factors": config.factors,
        "num_seeds": config.num_seeds[name],
        "tolerances": config.tolerances[name],
        "level": config.level,
    }
    task, rates = config.tasks[name], config.log2_rates[name]
    growing = [round(config.catch_up * samples) for samples in config.checkpoints[name]]
    fixed = [config.fixed_catch_up[name]] * len(growing)
    return [
        *branching_rows(name, task, log2_rates=rates, catch_up=growing, **settings),
        *branching_rows(name, task, log2_rates=rates[:1], catch_up=fixed, measure="fixed", **settings),
    ]


def verdicts_of(config: Config, rows: list[Row], seconds: float) -> tuple[Verdict, ...]:
    """Return the verdicts on the rows of the table."""
    limits = Limits(config.margin, config.ratio, config.level)
    found = []
    for a, b in config.problems:
        tolerance = config.theory_tolerances[0]
        found += theory_verdicts(
            rows, f"a = {a:g}, b = {b:g}", config.theory_rate, config.theory_late, tolerance, limits
        )
    for name, task in config.tasks.items():
        rate, tolerances = 2.0 ** config.log2_rates[name][0], config.tolerances[name]
        for measure in "branching", "noise":
            for own in rate, None:
                found.append(growth_verdict(rows, name, measure, own, tolerances[0], limits))
            if measure == "branching":
                found.append(growth_verdict(rows, name, "fixed", rate, tolerances[0], limits))
                found.append(ratio_verdict(rows, name, "fixed", rate, tolerances, limits))
            found.append(ratio_verdict(rows, name, measure, rate, tolerances, limits))
            if len(config.log2_rates[name]) > 1:
                power = -1.0 if task.fields.get("optimizer") == "sgd" else 0.0
                found.append(rate_verdict(rows, name, measure, power, tolerances[0], limits))
    return (replace(found[0], seconds=seconds), *found[1:])


def redraw(config: Config, recorded: Recorded) -> dict[str, Figure]:
    """The figure, from a recorded table."""
    return {"branching": branching_figure(config, rows_of(Row, recorded.rows))}
