"""Do published numbers on learning rates, schedules, batch sizes and epochs follow from the exact theory?"""

import time
from dataclasses import dataclass
from functools import partial
from typing import Any

from matplotlib.figure import Figure

from experiments._lib import published_theory as theory
from experiments._lib.processes import map_on_cores
from experiments._lib.published_figure import figure
from experiments._lib.published_rest import FLAT, QUICK, Rest, of_batches, of_repeated, of_small
from experiments._lib.published_theory import ADAM, SGD, SIGN, Pair, Row
from experiments._lib.published_verdicts import every_verdict
from experiments._lib.results import Result
from experiments._lib.rows import columns_of, rows_of


@dataclass(frozen=True)
class Config:
    """Problems and settings of the theory.

    Attributes:
        schedules: method, problem and batch size of the comparison with schedules of 124M models.
        durations: steps of it.
        kinks: methods and problems of γ*(B, D). The exponents c of these problems in theory are near the published one.
        samples, batch_sizes, least_steps: D, B and fewest steps of γ*(B, D).
        end_shares: fixed end rates over the smallest best peak.
        beta2, beta2_samples, beta2_sizes: problems, D and B of the comparison of β₂.
        peaks, peak_steps: problems, b > a, and n of the peaks of power decays.
        epochs, epoch_sizes, most_epochs: problems, b < a, N, and epochs over N^(a/b − 1) of the gain by epochs.
        momentum, momentum_steps, momentum_sizes: problems, n and B of signSGD with and without momentum.
        replicas, seed: of the scatter between runs.
        rest: repeated data, optimizers by batch size, and small batches.
    """

    schedules: tuple[tuple[str, Pair, float], ...] = (
        *((SGD, pair, 16.0) for pair in ((1.2, 1.1), (1.2, 1.3), (1.2, 1.4), (1.2, 1.5))),
        *((SGD, pair, 16.0) for pair in ((1.5, 1.2), (1.5, 1.8), (1.5, 2.3), (2.0, 1.5), (2.0, 2.4), (2.0, 3.0))),
        *((ADAM, pair, 100.0) for pair in ((1.2, 1.1), (1.2, 1.5), (1.5, 1.2), (1.5, 2.3), (2.0, 1.5), (2.0, 3.0))),
    )
    durations: tuple[float, ...] = (15_000, 50_000)
    kinks: tuple[tuple[str, Pair], ...] = (
        (SGD, (1.5, 2.3)),
        (SGD, (2.0, 3.0)),
        (SIGN, (1.5, 1.2)),
        (SIGN, (2.0, 1.5)),
        (ADAM, (1.5, 1.2)),
        (ADAM, (2.0, 1.5)),
    )
    samples: tuple[float, ...] = (1e6, 1e7, 1e8)
    batch_sizes: tuple[float, ...] = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536)
    least_steps: float = 1000.0
    end_shares: tuple[float, ...] = (0.1, 0.5)
    beta2: tuple[Pair, ...] = ((1.2, 1.5), (1.5, 1.2), (2.0, 1.5))
    beta2_samples: float = 1e6
    beta2_sizes: tuple[float, ...] = (64, 128, 256, 512, 1024)
    peaks: tuple[Pair, ...] = ((1.5, 2.3), (2.0, 3.0), (1.5, 4.0))
    peak_steps: tuple[float, ...] = (1e5, 1e6, 1e7)
    epochs: tuple[Pair, ...] = ((2.0, 1.5), (2.5, 1.3), (3.0, 1.5))
    epoch_sizes: tuple[int, ...] = (64, 256, 1024)
    most_epochs: float = 8.0
    momentum: tuple[Pair, ...] = ((1.2, 1.5), (1.5, 1.2), (2.0, 1.5))
    momentum_steps: tuple[float, ...] = (500, 707, 1000, 1414, 2000, 2828, 4000, 5657, 8000)
    momentum_sizes: tuple[float, ...] = (4, 64, 1024)
    replicas: int = 1000
    seed: int = 0
    rest: Rest = Rest()


SCALES = {
    "quick": Config(
        schedules=((SGD, (1.5, 2.3), 16.0), (ADAM, (1.5, 1.2), 100.0)),
        kinks=((SGD, (1.5, 2.3)), (SIGN, (1.5, 1.2))),
        samples=(1e6, 1e7),
        least_steps=100.0,
        end_shares=(),
        beta2=((1.5, 1.2),),
        beta2_sizes=(64, 1024),
        peaks=((1.5, 2.3),),
        epochs=((2.0, 1.5),),
        epoch_sizes=(64, 256),
        momentum=((1.5, 1.2),),
        momentum_steps=(500, 1000, 2000, 4000, 8000),
        momentum_sizes=(64,),
        replicas=100,
        rest=QUICK,
    ),
    "full": Config(),
}
REST: dict[str, Any] = {"repeated": of_repeated, "batches": of_batches, "small": of_small}
UNITS = {
    "question": (
        "schedules, kink (γ* over B and D), beta2, peak (of power decays), epochs, momentum, repeated, batches, small"
    ),
    "method": "optimizer",
    "capacity": "exponent a of the eigenvalues",
    "source": "exponent b of the initial risk",
    "case": "schedule or end rate; of beta2, small: β₂; of epochs: fresh samples, or the best number of epochs; of "
    "repeated: iterate and epochs; of batches: multiple of 20 tokens per parameter",
    "number": "schedules, peak, momentum: n; kink, beta2, batches, small: D; epochs, repeated: N",
    "batch_size": "B, samples",
    "learning_rate": "best peak γ; SGD: units of 1/λ_1; signs, Adam: of the weights",
    "risk": "excess risk there, units of y²",
}


def run(config: Config) -> Result:
    """Find the best learning rates in all settings."""
    start = time.perf_counter()
    items: list[tuple[str, Any]] = [("kink", each) for each in reversed(config.kinks)]
    items += [("schedules", each) for each in reversed(config.schedules)]
    items += [("momentum", pair) for pair in config.momentum]
    items += [("beta2", pair) for pair in config.beta2]
    items += [("epochs", pair) for pair in config.epochs]
    items += [("peak", pair) for pair in config.peaks]
    items += [("batches", pair) for pair in config.rest.batches]
    items += [("small", pair) for pair in config.rest.small]
    items += [("repeated", pair) for pair in (FLAT, *config.rest.repeated)]
    rows = [row for part in map_on_cores(partial(_solve, config), items) for row in part]
    verdicts = every_verdict(config, rows, time.perf_counter() - start)
    return Result(columns_of(rows), UNITS, {"published": figure(config, rows)}, verdicts)


def redraw(config: Config, recorded: Any) -> dict[str, Figure]:
    """Return the figure of a recorded table."""
    return {"published": figure(config, rows_of(Row, recorded.rows))}


def _solve(config: Config, item: tuple[str, Any]) -> list[Row]:
    question, about = item
    if question == "schedules":
        method, pair, batch = about
        return theory.of_schedules(method, pair, config.durations, batch)
    if question == "kink":
        method, pair = about
        rows = theory.of_kink(method, pair, config.samples, config.batch_sizes, config.least_steps)
        # One problem is enough to see whether a fixed end rate matters: each of its risks is a search of its own.
        if about == next((each for each in config.kinks if each[0] == ADAM), None):
            return rows + [row for share in config.end_shares for row in theory.with_fixed_end(rows, share)]
        return rows
    if question == "beta2":
        return theory.of_beta2(about, config.beta2_samples, config.beta2_sizes)
    if question == "peak":
        return theory.of_peak(about, config.peak_steps)
    if question in REST:
        return REST[question](config.rest, about)
    if question == "epochs":
        return theory.of_epochs(about, config.epoch_sizes, config.most_epochs)
    return theory.of_momentum(about, config.momentum_steps, config.momentum_sizes)
