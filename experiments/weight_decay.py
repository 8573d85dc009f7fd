"""Does weight decay change B*? Exact critical batch sizes with decoupled weight decay."""

import time
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

import sgdtheory as st
from experiments._lib.processes import map_on_cores
from experiments._lib.results import Result, Verdict
from experiments._lib.rows import columns_of, rows_of
from sgdtheory.plotting.style import BLACK, categories, legend_below, log_axes, new_figure, power_of_ten

FELT = 1.02  # times the optimal risk


@dataclass(frozen=True)
class Config:
    """Problems from scarce signal (b near 1) to much of it, and weight decays times the data size."""

    exponents: tuple[tuple[float, float], ...] = ((2.0, 1.1), (2.0, 1.5), (2.0, 3.0))
    num_samples: tuple[float, ...] = (1e4, 1e6)
    decays: tuple[float, ...] = (0.001, 0.003, 0.01, 0.03, 0.1)  # κ √D


SCALES = {
    "quick": Config(exponents=((2.0, 1.1), (2.0, 3.0)), num_samples=(1e4,), decays=(0.001, 0.03)),
    "full": Config(),
}
UNITS = {
    "capacity": "exponent a of the eigenvalues",
    "source": "exponent b of the initial risk",
    "num_samples": "D, samples",
    "scaled_decay": "κ √D; 0: no weight decay",
    "real_batch_size": "B* without its rounding, samples",
    "optimal_risk": "R_opt(D), units of y²",
}


class Row(NamedTuple):
    """One B*, as in `UNITS`."""

    capacity: float
    source: float
    num_samples: float
    scaled_decay: float
    real_batch_size: float
    optimal_risk: float


def run(config: Config) -> Result:
    """B* for every weight decay."""
    start = time.perf_counter()
    rows = map_on_cores(_solve, list(product(config.exponents, config.num_samples, (0.0, *config.decays))))
    seconds = (time.perf_counter() - start) / len(config.exponents)
    verdicts = tuple(_verdict(rows, pair, seconds) for pair in config.exponents)
    return Result(columns_of(rows), UNITS, {"weight_decay": _figure(config, rows)}, verdicts)


def redraw(config: Config, recorded: Any) -> dict[str, Figure]:
    """The figure of a recorded table."""
    return {"weight_decay": _figure(config, rows_of(Row, recorded.rows))}


def _solve(item: tuple[tuple[float, float], float, float]) -> Row:
    (capacity, source), samples, scaled = item
    algorithm = st.Algorithm(st.SGD(weight_decay=scaled / np.sqrt(samples)))
    problem = st.PowerLaw(capacity, source)
    found = st.critical_batch_size(problem, num_samples=samples, curve=False, algorithm=algorithm)
    return Row(capacity, source, samples, scaled, found.real_batch_size, found.optimal_risk)


def _verdict(rows: list[Row], pair: tuple[float, float], seconds: float) -> Verdict:
    """B* at the largest weight decay that the risk hardly feels, over B* without."""
    mine = [row for row in rows if (row.capacity, row.source) == pair]
    moved, cost, where = [], [], []
    for samples in sorted({row.num_samples for row in mine}):
        here = [row for row in mine if row.num_samples == samples]
        plain = next(row for row in here if row.scaled_decay == 0)
        decayed = [row for row in here if row.scaled_decay]
        mild = [row for row in decayed if row.optimal_risk < FELT * plain.optimal_risk]
        cost.append(min(row.optimal_risk for row in decayed) / plain.optimal_risk)
        if mild:
            last = max(mild, key=lambda row: row.scaled_decay)
            moved.append(last.real_batch_size / plain.real_batch_size)
            where.append(f"κ √D = {last.scaled_decay:g} at D = {samples:.0e}")
    capacity, source = pair
    return Verdict(
        f"weight decay does not change B*: a = {capacity:g}, b = {source:g}",
        f"B* at the largest weight decay tried that raises the optimal risk by less than {FELT - 1:.0%}, divided by "
        f"B* without weight decay: {', '.join(where) or 'every one raises it by more'}. Holds within a factor of 1.2. "
        f"The least risk with weight decay is {', '.join(f'{each:.4f}' for each in cost)} of that without, at each D",
        "1",
        float(moved[0]) if len(moved) == 1 else ", ".join(f"{each:.3f}" for each in moved) or "nothing",
        (float(min(moved)), float(max(moved))) if moved else None,
        ("holds" if max(abs(np.log(moved))) < np.log(1.2) else "fails") if moved else "inconclusive",
        seconds,
    )


def _figure(config: Config, rows: list[Row]) -> Figure:
    """R_opt and B* with weight decay over those without."""
    figure, axes = new_figure(1, 2, width=3.8, height=3.6)
    samples = max(config.num_samples)
    for look, pair in zip(categories(len(config.exponents)), config.exponents, strict=True):
        here = sorted(
            (row.scaled_decay, row) for row in rows if (row.capacity, row.source) == pair and row.num_samples == samples
        )
        plain = here[0][1]
        name = f"$a = {pair[0]:g}$, $b = {pair[1]:g}$"
        decays = [decay for decay, _ in here[1:]]
        axes[0, 0].plot(decays, [row.optimal_risk / plain.optimal_risk for _, row in here[1:]], label=name, **look)
        axes[0, 1].plot(decays, [row.real_batch_size / plain.real_batch_size for _, row in here[1:]], **look)
    for axis, label in zip(axes[0], ("$R_{opt}$ / without weight decay", "$B^*$ / without weight decay"), strict=True):
        axis.axhline(1.0, color=BLACK, lw=0.8)
        log_axes(axis, "x")
        axis.set(xlabel="weight decay $\\kappa \\sqrt{D}$ (units of $\\lambda_1$)", ylabel=label)
    figure.suptitle(
        f"Decoupled weight decay, uniform average, $D = {power_of_ten(samples)}$: optimal risk and critical batch size",
        fontsize=9,
    )
    legend_below(figure, axes[0, 0])
    return figure
