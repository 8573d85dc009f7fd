"""Which schedule is best? Exact risk and critical batch size of each, with tuned peak, in both phases."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

import sgdtheory as st
from experiments._lib.algorithms import ALGORITHMS, EXPONENTIAL, UNIFORM, critical
from experiments._lib.answers import worst
from experiments._lib.exponents import last_slope
from experiments._lib.panels import LEAST_WIDTH, name_problem, panels
from experiments._lib.processes import map_on_cores
from experiments._lib.results import Result, Verdict
from experiments._lib.rows import columns_of, rows_of
from sgdtheory.plotting.style import BLACK, categories, legend_below, log_axes, new_figure

DECAYS = "cosine", "linear", "WSD"
ALL = tuple(ALGORITHMS)
ALL_BUT_SCHEDULE_FREE = tuple(name for name in ALL if name != "schedule-free")


@dataclass(frozen=True)
class Config:
    """Problems, with b > a and with b < a, and data sizes.

    Attributes:
        exponents: a and b of each problem.
        num_samples: D.
        batch_size: B at which risks are compared.
        algorithms: whose risks are compared.
        critical_exponents, critical_samples, critical_algorithms: of those, where B* is computed too. Not of
            schedule-free: at D = 1e4 it takes 45 s, longer than all the others together.
        tolerance: of the exponent of B*.
    """

    exponents: tuple[tuple[float, float], ...] = ((2.0, 3.0), (2.0, 1.5))
    num_samples: tuple[float, ...] = (1e4, 1e5, 1e6, 1e7, 1e8)
    batch_size: float = 16.0
    algorithms: tuple[str, ...] = ALL
    critical_exponents: tuple[tuple[float, float], ...] = ()
    critical_samples: tuple[float, ...] = ()
    critical_algorithms: tuple[str, ...] = ALL_BUT_SCHEDULE_FREE
    tolerance: float = 0.03


PROBLEMS = (2.0, 3.0), (2.0, 6.0), (2.0, 1.5)
SCALES = {
    "quick": Config(
        num_samples=(1e4, 1e6),
        algorithms=ALL[:6],
        critical_exponents=((2.0, 3.0),),
        critical_samples=(1e4, 1e6),
        critical_algorithms=(UNIFORM, EXPONENTIAL, "WSD"),
    ),
    "full": Config(exponents=PROBLEMS, critical_exponents=PROBLEMS, critical_samples=(1e5, 1e6, 1e7, 1e8)),
}
UNITS = {
    "capacity": "exponent a of the eigenvalues",
    "source": "exponent b of the initial risk",
    "algorithm": "average at constant γ, or schedule whose last iterate is returned",
    "num_samples": "D, samples",
    "learning_rate": "best peak γ at the batch size of the config, units of 1/λ_1",
    "risk": "exact excess risk there, units of y²",
    "real_batch_size": "B* without its rounding, samples; nan where it was not asked for",
    "optimal_risk": "R_opt(D) of that algorithm, units of y²; nan likewise",
}


class Row(NamedTuple):
    """One algorithm on one problem, as in `UNITS`."""

    capacity: float
    source: float
    algorithm: str
    num_samples: float
    learning_rate: float
    risk: float
    real_batch_size: float
    optimal_risk: float


def run(config: Config) -> Result:
    """Tune the peak of every schedule, solve for its B*, and compare."""
    start = time.perf_counter()
    items = list(product(config.exponents, config.algorithms, config.num_samples))
    rows = map_on_cores(partial(_solve, config), sorted(items, key=lambda item: ALL.index(item[1]), reverse=True))
    seconds = (time.perf_counter() - start) / len(config.exponents)
    verdicts = (
        *(_risk_verdict(config, rows, pair, seconds) for pair in config.exponents),
        *(_critical_verdict(config, rows, pair) for pair in config.critical_exponents),
    )
    return Result(columns_of(rows), UNITS, _figures(config, rows), verdicts)


def redraw(config: Config, recorded: Any) -> dict[str, Figure]:
    """The figures of a recorded table."""
    return _figures(config, rows_of(Row, recorded.rows))


def _solve(config: Config, item: tuple[tuple[float, float], str, float]) -> Row:
    pair, name, samples = item
    best = st.optimal_learning_rate(
        st.PowerLaw(*pair), batch_size=config.batch_size, num_samples=samples, algorithm=ALGORITHMS[name]
    )
    asked = pair in config.critical_exponents and name in config.critical_algorithms
    found = critical(pair, name, samples, ALGORITHMS[name]) if asked and samples in config.critical_samples else None
    batch, least = (found.real_batch_size, found.optimal_risk) if found else (np.nan, np.nan)
    return Row(*pair, name, samples, float(best.learning_rate), float(best.risk), batch, least)


def _values(rows: list[Row], pair: tuple[float, float], name: str, column: str) -> np.ndarray:
    """A column at increasing D, where it was asked for."""
    mine = [row for row in rows if (row.capacity, row.source, row.algorithm) == (*pair, name)]
    values = np.array([getattr(row, column) for row in sorted(mine, key=lambda row: row.num_samples)])
    return values[np.isfinite(values)]


def _risks(rows: list[Row], pair: tuple[float, float], name: str) -> np.ndarray:
    return _values(rows, pair, name, "risk")


def _best(config: Config, rows: list[Row], pair: tuple[float, float]) -> np.ndarray:
    return np.min([_risks(rows, pair, name) for name in config.algorithms], axis=0)


def _risk_verdict(config: Config, rows: list[Row], pair: tuple[float, float], seconds: float) -> Verdict:
    """The paper's question: does an exponential average with constant γ do as well as decay?"""
    capacity, source = pair
    average = _risks(rows, pair, EXPONENTIAL)
    decay = np.min([_risks(rows, pair, name) for name in DECAYS], axis=0)
    ratio = average / decay
    best = _best(config, rows, pair)
    order = sorted(config.algorithms, key=lambda name: _risks(rows, pair, name)[-1])
    text = ", ".join(f"{name} {_risks(rows, pair, name)[-1] / best[-1]:.3f}" for name in order)
    return Verdict(
        f"an exponential average matches decay: a = {capacity:g}, b = {source:g}",
        f"Risk of constant γ with an exponential average (window n/10) divided by the least risk of "
        f"{', '.join(DECAYS)}, with the peak γ tuned, at B = {config.batch_size:g} and every D. Holds if the ratio is "
        f"at most 1.05. Risks divided by the least of all at the largest D: {text}",
        "at most 1.05",
        f"{ratio.min():.3f} … {ratio.max():.3f}",
        (float(ratio.min()), float(ratio.max())),
        "holds" if ratio.max() <= 1.05 else "fails",
        seconds,
    )


def _critical_verdict(config: Config, rows: list[Row], pair: tuple[float, float]) -> Verdict:
    """B* of every schedule over that of the uniform average: how large, and with which exponent in D."""
    capacity, source = pair
    plain = _values(rows, pair, UNIFORM, "real_batch_size")
    others = [name for name in config.critical_algorithms if name != UNIFORM]
    ratios = {name: _values(rows, pair, name, "real_batch_size") / plain for name in others}
    texts, verdicts = [], []
    for name, ratio in ratios.items():
        texts.append(f"{name} {ratio.min():.2f} … {ratio.max():.2f}")
        if plain.size > 2:
            slope = last_slope(sorted(config.critical_samples), ratio)
            texts[-1] += f" ∝ D^({slope.text}; {slope.leads})"
            verdicts.append(slope.verdict(_predicted(pair), config.tolerance))
    every = np.concatenate(list(ratios.values()))
    return Verdict(
        f"a schedule changes B* by a factor, not its exponent: a = {capacity:g}, b = {source:g}",
        f"B* divided by that of the uniform average, each relative to its own optimal risk: the range over D = "
        f"{', '.join(f'{each:.0e}' for each in sorted(config.critical_samples))}, and the slope of the ratio between "
        f"the last two D ± the change since the pair before. A slope holds if its extrapolation to D → ∞, with its "
        f"interval, lies within ±{config.tolerance:g} of the prediction a/min{{b, 2a+1}} − a/b, for which only the "
        f"uniform average saturates: {'; '.join(texts)}",
        f"slope {_predicted(pair):.3f}",
        f"ratios {every.min():.2f} … {every.max():.2f}"
        + (f"; {verdicts.count('holds')} of {len(verdicts)} slopes hold" if verdicts else ""),
        (float(every.min()), float(every.max())),
        worst(verdicts) if verdicts else "inconclusive",
    )


def _predicted(pair: tuple[float, float]) -> float:
    """Exponent of B* over that of the uniform average."""
    capacity, source = pair
    return 1 - capacity / source - float(st.predicted_exponent(capacity, source)) if source > capacity else 0.0


# ------------------------------------------------------------------ figures


def _figures(config: Config, rows: list[Row]) -> dict[str, Figure]:
    figures = {"schedules_risk": _risk_figure(config, rows)}
    return figures | ({"schedules_critical": _critical_figure(config, rows)} if config.critical_exponents else {})


def _looks(names: tuple[str, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Names, each with a look that is its own in every figure."""
    looks = dict(zip(ALL, categories(len(ALL)), strict=True))
    return ((name, looks[name]) for name in names)


def _risk_figure(config: Config, rows: list[Row]) -> Figure:
    """Risk over the best of all against D, a panel a problem."""
    figure, axes = panels(len(config.exponents))
    for axis, pair in zip(axes, config.exponents, strict=True):
        best = _best(config, rows, pair)
        axis.axhline(1.0, color=BLACK, lw=0.8)
        for name, look in _looks(config.algorithms):
            axis.plot(sorted(config.num_samples), _risks(rows, pair, name) / best, label=name, **look)
        log_axes(axis)
        name_problem(axis, pair)
        axis.set(xlabel="samples $D$", ylabel="excess risk / that of the best")
    figure.suptitle(
        f"Exact risk of every schedule / risk of the best, peak $\\gamma$ tuned ($B = {config.batch_size:g}$)",
        fontsize=9,
    )
    legend_below(figure, axes[0], columns=3)
    return figure


def _critical_figure(config: Config, rows: list[Row]) -> Figure:
    """B* against D, and over that of the uniform average, a column a problem, with the theory's powers of D."""
    pairs = config.critical_exponents
    figure, axes = new_figure(2, len(pairs), width=max(3.6, LEAST_WIDTH / len(pairs)), height=2.8)
    samples = np.array(sorted(config.critical_samples))
    for (above, below), pair in zip(axes.T, pairs, strict=True):
        batches = {name: _values(rows, pair, name, "real_batch_size") for name in config.critical_algorithms}
        ratios = {name: values / batches[UNIFORM] for name, values in batches.items()}
        for name, look in _looks(config.critical_algorithms):
            above.plot(samples, batches[name], label=name, **look)
            below.plot(samples, ratios[name], **look)
        since = samples / samples[-1]
        corollary, relative = float(st.predicted_exponent(*pair)), _predicted(pair)
        solid, dashed = {"color": BLACK, "lw": 0.9}, {"color": BLACK, "lw": 0.9, "ls": "--"}
        below_all = 0.6 * batches[UNIFORM][-1] * since**corollary
        above.plot(samples, below_all, label="Corollary 8, uniform average", **solid)
        top = 1.3 * max(values[-1] for values in batches.values()) * since ** (corollary + relative)
        above.plot(samples, top, label="theory without saturation", **dashed)
        below.plot(samples, 1.3 * max(values[-1] for values in ratios.values()) * since**relative, **dashed)
        log_axes(above)
        log_axes(below)
        name_problem(above, pair)
        above.set(ylabel="critical batch size $B^*$ (samples)")
        below.set(xlabel="samples $D$", ylabel="$B^*$ / $B^*$ of the uniform average")
    figure.suptitle(
        "Critical batch size of every schedule, by its own optimal risk, and the theory's powers of $D$",
        fontsize=9,
    )
    legend_below(figure, axes[0, 0], columns=3)
    return figure
