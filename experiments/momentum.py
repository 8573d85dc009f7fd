"""Where momentum helps: critical batch sizes of heavy ball and Nesterov, and the window of √κ on quadratics."""

import time
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

import sgdtheory as st
from experiments._lib.processes import map_on_cores
from experiments._lib.results import Result, Verdict
from sgdtheory.plotting.style import BLACK, categories, legend_below, log_axes, new_figure

METHODS = {"heavy ball": st.HeavyBall, "Nesterov": st.Nesterov}


@dataclass(frozen=True)
class Config:
    """Problems, data sizes and momenta; condition numbers of quadratics with two eigenvalues."""

    exponents: tuple[tuple[float, float], ...] = ((2.0, 3.0), (2.0, 1.5), (1.5, 2.0), (1.5, 3.0))
    num_samples: tuple[float, ...] = (1e4, 1e5, 1e6, 1e7, 1e8)
    momenta: tuple[float, ...] = (0.5, 0.8, 0.9, 0.95, 0.99)
    methods: tuple[str, ...] = tuple(METHODS)
    conditions: tuple[float, ...] = (10.0, 100.0, 1e3, 1e4)
    accuracy: float = 1e-6  # of the risk on quadratics, relative to the initial one


SCALES = {
    "quick": Config(
        exponents=((2.0, 3.0), (2.0, 1.5)), num_samples=(1e4, 1e6), momenta=(0.8, 0.95), methods=("heavy ball",)
    ),
    "full": Config(),
}
UNITS = {
    "capacity": "exponent a of the eigenvalues",
    "source": "exponent b of the initial risk",
    "method": "SGD, heavy ball or Nesterov; uniform average",
    "momentum": "β",
    "num_samples": "D, samples",
    "real_batch_size": "B* without its rounding, samples",
    "optimal_risk": "R_opt(D) of that method, units of y²",
}


class Row(NamedTuple):
    """One B*, as in `UNITS`."""

    capacity: float
    source: float
    method: str
    momentum: float
    num_samples: float
    real_batch_size: float
    optimal_risk: float


def run(config: Config) -> Result:
    """B* with and without momentum, and steps to an accuracy on quadratics."""
    start = time.perf_counter()
    kinds = [("SGD", 0.0), *product(config.methods, config.momenta)]
    items = list(product(config.exponents, kinds, config.num_samples))
    rows = map_on_cores(_solve, sorted(items, key=lambda item: -item[1][1]))
    seconds = time.perf_counter() - start
    columns = {name: np.array([getattr(row, name) for row in rows]) for name in UNITS}
    verdicts = (
        _small_batches(config, rows, seconds),
        *(_gain(config, rows, pair) for pair in config.exponents),
        _window(config),
    )
    return Result(columns, UNITS, {"gain": _figure(config, rows)}, verdicts)


def _algorithm(method: str, momentum: float) -> st.Algorithm:
    return st.Algorithm(METHODS[method](momentum)) if momentum else st.Algorithm()


def _solve(item: tuple[tuple[float, float], tuple[str, float], float]) -> Row:
    (capacity, source), (method, momentum), samples = item
    found = st.critical_batch_size(
        st.PowerLaw(capacity, source), num_samples=samples, curve=False, algorithm=_algorithm(method, momentum)
    )
    return Row(capacity, source, method, momentum, samples, found.real_batch_size, found.optimal_risk)


def _of(rows: list[Row], pair: tuple[float, float], samples: float) -> list[Row]:
    return [row for row in rows if (row.capacity, row.source) == pair and row.num_samples == samples]


def _small_batches(config: Config, rows: list[Row], seconds: float) -> Verdict:
    """R_opt, which small batches attain, is that of SGD."""
    ratios = []
    for pair, samples in product(config.exponents, config.num_samples):
        mine = _of(rows, pair, samples)
        plain = next(row.optimal_risk for row in mine if row.method == "SGD")
        ratios += [row.optimal_risk / plain for row in mine if row.momentum]
    return Verdict(
        "momentum leaves small batches as they are",
        "optimal risk with momentum over that of SGD, all D, β and (a, b): small batches only see γ/(1 − β)",
        "1",
        f"{min(ratios):.4f} … {max(ratios):.4f}",
        (float(min(ratios)), float(max(ratios))),
        "holds" if max(abs(ratio - 1) for ratio in ratios) < 0.02 else "inconclusive",
        seconds,
    )


def _gains(config: Config, rows: list[Row], pair: tuple[float, float]) -> list[tuple[float, float]]:
    """(largest B* over SGD's, its β) at each D."""
    found = []
    for samples in config.num_samples:
        mine = _of(rows, pair, samples)
        plain = next(row.real_batch_size for row in mine if row.method == "SGD")
        best = max(mine, key=lambda row: row.real_batch_size)
        found.append((best.real_batch_size / plain, best.momentum))
    return found


def _gain(config: Config, rows: list[Row], pair: tuple[float, float]) -> Verdict:
    """Whether momentum raises B*, and whether by a power of D."""
    gains = _gains(config, rows, pair)
    ratio = [gain for gain, _ in gains]
    slope = float(np.log(ratio[-1] / ratio[0]) / np.log(config.num_samples[-1] / config.num_samples[0]))
    capacity, source = pair
    plain = float(st.predicted_exponent(capacity, source))
    return Verdict(
        f"momentum raises B*: a = {capacity:g}, b = {source:g}",
        "largest B* over β, over that of SGD, at "
        + ", ".join(f"D = {s:.0e}: {g:.2f} (β = {b:g})" for s, (g, b) in zip(config.num_samples, gains, strict=True))
        + f"; it grows like D^{slope:.2f}, beside SGD's D^{plain:.2f}: an exponent of its own where that is above 0",
        "above 1 (T30)",
        f"{ratio[-1]:.2f} at the largest D",
        (float(min(ratio)), float(max(ratio))),
        "holds" if ratio[-1] > 1.1 else "fails",
    )


def _window(config: Config) -> Verdict:
    """Two eigenvalues, 1 and 1/κ, no noise: steps with the classical β and γ against those of gradient descent."""
    start = time.perf_counter()
    ratios = []
    for condition in config.conditions:
        problem = st.LeastSquares([1.0, 1 / condition], [0.5, 0.5], noise_variance=0.0)
        root = np.sqrt(condition)
        beta = ((root - 1) / (root + 1)) ** 2
        polyak = _steps(problem, st.HeavyBall(beta), (1 + np.sqrt(beta)) ** 2, config.accuracy)
        plain = _steps(problem, st.SGD(), 2 / (1 + 1 / condition), config.accuracy)
        ratios.append(plain / polyak / root)
    logs = np.log(np.array(ratios))
    slope = float(np.polyfit(np.log(config.conditions), logs, 1)[0])
    return Verdict(
        "the window of √κ on quadratics",
        f"two eigenvalues, B → ∞, no noise: steps of gradient descent over those of heavy ball to {config.accuracy:g} "
        f"of the initial risk, both at their best γ and β in closed form, over √κ, for κ = {config.conditions[0]:g} … "
        f"{config.conditions[-1]:g}; remaining power of κ {slope:+.3f}",
        "a constant near 1/2",
        f"{min(ratios):.2f} … {max(ratios):.2f}",
        (float(min(ratios)), float(max(ratios))),
        "holds" if abs(slope) < 0.1 else "fails",
        time.perf_counter() - start,
    )


def _steps(problem: st.LeastSquares, method: Any, rate: float, accuracy: float) -> float:
    """Fewest steps after which the last iterate has that share of the initial risk, without gradient noise."""
    algorithm = st.Algorithm(method, average=st.LastIterate())
    low, high = 1.0, 2.0

    def reached(steps: float) -> bool:
        batch = 1e30
        setting: Any = {"batch_size": batch, "learning_rate": rate, "num_samples": batch * steps}
        return float(st.excess_risk(problem, **setting, algorithm=algorithm).total) < accuracy

    while not reached(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = np.floor((low + high) / 2)
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


def _figure(config: Config, rows: list[Row]) -> Figure:
    """B* against D with and without momentum, a panel a problem."""
    figure, axes = new_figure(1, len(config.exponents), width=3.6, height=3.7)
    kinds = [("SGD", 0.0), *product(config.methods, config.momenta)]
    for axis, (capacity, source) in zip(axes[0], config.exponents, strict=True):
        for look, (method, momentum) in zip(categories(len(kinds)), kinds, strict=True):
            mine = sorted(
                (row.num_samples, row.real_batch_size)
                for row in rows
                if (row.capacity, row.source, row.method, row.momentum) == (capacity, source, method, momentum)
            )
            name = f"{method}, $\\beta = {momentum:g}$" if momentum else method
            axis.plot(*zip(*mine, strict=True), label=name, **look)
        axis.plot([], [], color=BLACK)
        log_axes(axis)
        axis.set(xlabel="samples $D$", title=f"$a = {capacity:g}$, $b = {source:g}$")
    axes[0, 0].set(ylabel="critical batch size $B^*$ (samples)")
    gain = max(gain for pair in config.exponents for gain, _ in _gains(config, rows, pair))
    figure.suptitle(
        f"Critical batch size with momentum: up to {gain:.3g} times that of SGD",
        fontsize=9,
    )
    legend_below(figure, axes[0, 0])
    return figure
