"""Which schedule is best: exact risk of each, peak tuned, over the best of them, in both phases."""

import time
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

import sgdtheory as st
from experiments._lib.processes import map_on_cores
from experiments._lib.results import Result, Verdict
from sgdtheory.plotting.style import BLACK, categories, legend_below, log_axes, new_figure

LAST = st.LastIterate()
ALGORITHMS = {
    "constant, uniform average": st.Algorithm(),
    "constant, tail average": st.Algorithm(average=st.TailAverage(0.5)),
    "constant, exponential average": st.Algorithm(average=st.ExponentialAverage(window=0.1)),
    "cosine": st.Algorithm(schedule=st.Cosine(), average=LAST),
    "linear": st.Algorithm(schedule=st.Linear(), average=LAST),
    "WSD": st.Algorithm(schedule=st.WSD(0.2), average=LAST),
    "power 3": st.Algorithm(schedule=st.PowerDecay(3.0), average=LAST),
    "schedule-free": st.Algorithm(st.ScheduleFree(0.9), average=LAST),
}
DECAYS = "cosine", "linear", "WSD"


@dataclass(frozen=True)
class Config:
    """Problems, one with b > a and one with b < a, data sizes and the batch size."""

    exponents: tuple[tuple[float, float], ...] = ((2.0, 3.0), (2.0, 1.5))
    num_samples: tuple[float, ...] = (1e4, 1e5, 1e6, 1e7, 1e8)
    batch_size: float = 16.0
    algorithms: tuple[str, ...] = tuple(ALGORITHMS)


SCALES = {
    "quick": Config(num_samples=(1e4, 1e6), algorithms=tuple(ALGORITHMS)[:6]),
    "full": Config(exponents=((2.0, 3.0), (2.0, 1.5), (1.5, 2.5), (1.5, 1.3), (2.0, 6.0))),
}
UNITS = {
    "capacity": "exponent a of the eigenvalues",
    "source": "exponent b of the initial risk",
    "algorithm": "schedule and average",
    "num_samples": "D, samples",
    "learning_rate": "best peak γ, units of 1/λ_1",
    "risk": "exact excess risk there, units of y²",
}


class Row(NamedTuple):
    """One algorithm on one problem, as in `UNITS`."""

    capacity: float
    source: float
    algorithm: str
    num_samples: float
    learning_rate: float
    risk: float


def run(config: Config) -> Result:
    """Tune the peak of every schedule, and compare."""
    start = time.perf_counter()
    items = list(product(config.exponents, config.algorithms, config.num_samples))
    rows = map_on_cores(partial(_tune, config.batch_size), sorted(items, key=lambda item: item[1], reverse=True))
    seconds = time.perf_counter() - start
    columns = {name: np.array([getattr(row, name) for row in rows]) for name in UNITS}
    verdicts = tuple(_verdict(config, rows, pair, seconds / len(config.exponents)) for pair in config.exponents)
    return Result(columns, UNITS, {"loss": _figure(config, rows)}, verdicts)


def _tune(batch: float, item: tuple[tuple[float, float], str, float]) -> Row:
    (capacity, source), name, samples = item
    best = st.optimal_learning_rate(
        st.PowerLaw(capacity, source), batch_size=batch, num_samples=samples, algorithm=ALGORITHMS[name]
    )
    return Row(capacity, source, name, samples, float(best.learning_rate), float(best.risk))


def _risks(rows: list[Row], pair: tuple[float, float], name: str) -> np.ndarray:
    """At increasing D."""
    mine = [row for row in rows if (row.capacity, row.source, row.algorithm) == (*pair, name)]
    return np.array([row.risk for row in sorted(mine, key=lambda row: row.num_samples)])


def _best(config: Config, rows: list[Row], pair: tuple[float, float]) -> np.ndarray:
    return np.min([_risks(rows, pair, name) for name in config.algorithms], axis=0)


def _verdict(config: Config, rows: list[Row], pair: tuple[float, float], seconds: float) -> Verdict:
    """The paper's question: does an exponential average with constant γ do as well as decay?"""
    capacity, source = pair
    average = _risks(rows, pair, "constant, exponential average")
    decay = np.min([_risks(rows, pair, name) for name in DECAYS], axis=0)
    ratio = average / decay
    best = _best(config, rows, pair)
    order = sorted(config.algorithms, key=lambda name: _risks(rows, pair, name)[-1])
    text = ", ".join(f"{name} {_risks(rows, pair, name)[-1] / best[-1]:.3f}" for name in order)
    return Verdict(
        f"an exponential average matches decay: a = {capacity:g}, b = {source:g}",
        f"risk of constant γ with an exponential average (window n/10) over the best of {', '.join(DECAYS)}, peak γ "
        f"tuned, B = {config.batch_size:g}, at every D; holds up to 5%. Over the best of all at the largest D: {text}",
        "at most 1.05",
        f"{ratio.min():.3f} … {ratio.max():.3f}",
        (float(ratio.min()), float(ratio.max())),
        "holds" if ratio.max() <= 1.05 else "inconclusive",
        seconds,
    )


def _figure(config: Config, rows: list[Row]) -> Figure:
    """Risk over the best of all against D, a panel a problem."""
    figure, axes = new_figure(1, len(config.exponents), width=3.8, height=4.0)
    for axis, pair in zip(axes[0], config.exponents, strict=True):
        best = _best(config, rows, pair)
        axis.axhline(1.0, color=BLACK, lw=0.8)
        for look, name in zip(categories(len(config.algorithms)), config.algorithms, strict=True):
            axis.plot(sorted(config.num_samples), _risks(rows, pair, name) / best, label=name, **look)
        log_axes(axis, "x")
        phase = "b > a" if pair[1] > pair[0] else "b < a"
        axis.set(xlabel="samples $D$", title=f"$a = {pair[0]:g}$, $b = {pair[1]:g}$: ${phase}$")
    axes[0, 0].set(ylabel="excess risk / that of the best")
    figure.suptitle(
        f"Exact risk of every schedule, peak $\\gamma$ tuned, over the best of them ($B = {config.batch_size:g}$)",
        fontsize=9,
    )
    legend_below(figure, axes[0, 0], columns=3)
    return figure
