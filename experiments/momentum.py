"""When does momentum raise B*? Heavy ball and Nesterov on power laws, and the factor ∝ √κ on quadratics."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

import sgdtheory as st
from experiments._lib.panels import name_problem, panels
from experiments._lib.processes import map_on_cores
from experiments._lib.results import Result, Verdict
from experiments._lib.rows import columns_of, rows_of
from sgdtheory.plotting.style import BLACK, colors, legend_below, log_axes

METHODS = {"heavy ball": st.HeavyBall, "Nesterov": st.Nesterov}


@dataclass(frozen=True)
class Config:
    """Problems, data sizes and momenta; condition numbers of quadratics with two eigenvalues.

    A B* takes 20 s to a minute: the scales have heavy ball alone, and methods=("heavy ball", "Nesterov") has both.
    """

    exponents: tuple[tuple[float, float], ...] = ((2.0, 3.0), (2.0, 1.5))
    num_samples: tuple[float, ...] = (1e4, 1e5, 1e6, 1e7)
    momenta: tuple[float, ...] = (0.8, 0.9, 0.95, 0.99)
    methods: tuple[str, ...] = ("heavy ball",)
    conditions: tuple[float, ...] = (10.0, 100.0, 1e3, 1e4)
    accuracy: float = 1e-6  # of the risk on quadratics, relative to the initial one


SCALES = {
    "quick": Config(num_samples=(1e4, 1e6), momenta=(0.8, 0.95)),
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
    verdicts = (
        _small_batches(config, rows, seconds),
        *(_raises(config, rows, pair) for pair in config.exponents),
        *(_power(config, rows, pair) for pair in config.exponents if len(config.num_samples) > 2),
        _window(config),
    )
    return Result(columns_of(rows), UNITS, {"momentum_gain": _figure(config, rows)}, verdicts)


def redraw(config: Config, recorded: Any) -> dict[str, Figure]:
    """The figure of a recorded table."""
    return {"momentum_gain": _figure(config, rows_of(Row, recorded.rows))}


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
        "momentum does not change the risk of small batches",
        "Optimal risk with momentum divided by that of SGD, for all D, β and (a, b). In theory small batches depend "
        "on γ/(1 − β) only. Holds within 2%",
        "1",
        f"{min(ratios):.4f} … {max(ratios):.4f}",
        (float(min(ratios)), float(max(ratios))),
        "holds" if max(abs(ratio - 1) for ratio in ratios) < 0.02 else "fails",
        seconds,
    )


class Gain(NamedTuple):
    """The largest B* over all β and methods, over that of SGD, at one D."""

    num_samples: float
    ratio: float
    method: str
    momentum: float

    def __str__(self) -> str:
        return f"D = {self.num_samples:.0e}: {self.ratio:.2f} ({self.method}, β = {self.momentum:g})"


def _gains(config: Config, rows: list[Row], pair: tuple[float, float]) -> list[Gain]:
    found = []
    for samples in config.num_samples:
        mine = _of(rows, pair, samples)
        plain = next(row.real_batch_size for row in mine if row.method == "SGD")
        best = max(mine, key=lambda row: row.real_batch_size)
        found.append(Gain(samples, best.real_batch_size / plain, best.method, best.momentum))
    return found


def _raises(config: Config, rows: list[Row], pair: tuple[float, float]) -> Verdict:
    """Judge whether momentum raises B*."""
    gains = _gains(config, rows, pair)
    ratios = [gain.ratio for gain in gains]
    return Verdict(
        f"momentum raises B*: a = {pair[0]:g}, b = {pair[1]:g}",
        f"Largest B* over all β divided by B* of SGD, with uniform averages. Holds if the ratio is above 1.1 at the "
        f"largest D: {', '.join(map(str, gains))}",
        "above 1",
        f"{ratios[-1]:.2f} at the largest D",
        (float(min(ratios)), float(max(ratios))),
        "holds" if ratios[-1] > 1.1 else "fails",
    )


def _power(config: Config, rows: list[Row], pair: tuple[float, float]) -> Verdict:
    """Judge whether the gain grows like a power of D, beside SGD's own."""
    gains = _gains(config, rows, pair)
    fit = st.fit_power_law([gain.num_samples for gain in gains], [gain.ratio for gain in gains])
    low, high = fit.interval()
    plain = float(st.predicted_exponent(*pair))
    most = (1 - plain) / 2
    last = [f"{gain.num_samples:.0e}" for gain in gains if gain.momentum == max(config.momenta)]
    where = f"the largest of the grid at D = {', '.join(last)}, where the gain is a lower bound" if last else "inside"
    return Verdict(
        f"the gain grows like a power of D: a = {pair[0]:g}, b = {pair[1]:g}",
        f"Slope of the line through log gain against log D at {len(gains)} values of D, with the 95% interval from "
        f"their scatter about it. The best β is {where}. SGD has B* ∝ D^{plain:.2f} and a number of steps ∝ "
        f"D^{1 - plain:.2f}; a method that takes the square root of this number would gain D^{most:.2f}. Fails if the "
        f"interval is below 0 or above this power",
        f"above 0, at most {most:.3f}",
        fit.exponent,
        (low, high),
        "holds" if low > 0 and fit.exponent <= most else "fails" if high < 0 or low > most else "inconclusive",
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
        "on quadratics momentum saves a factor ∝ √κ of the steps",
        f"Quadratics with two eigenvalues and without noise (B → ∞). Steps of gradient descent to {config.accuracy:g} "
        f"of the initial risk divided by those of heavy ball, both with the best γ and β in closed form, and then "
        f"divided by √κ, for κ = {config.conditions[0]:g} … {config.conditions[-1]:g}. The remaining power of κ is "
        f"{slope:+.3f}. Holds if it is within ±0.1",
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
    """B* over SGD's against D, a panel a problem; the root of the number of steps behind."""
    figure, axes = panels(len(config.exponents), width=4.2, height=3.6)
    for axis, pair in zip(axes, config.exponents, strict=True):
        axis.axhline(1.0, color=BLACK, lw=0.8)
        gains = _gains(config, rows, pair)
        samples = np.array([gain.num_samples for gain in gains])
        root = gains[0].ratio * (samples / samples[0]) ** ((1 - float(st.predicted_exponent(*pair))) / 2)
        axis.plot(samples, root, color=BLACK, lw=0.9, ls=":", label="square root of SGD's steps: $D^{(1-c)/2}$")
        plain = {row.num_samples: row.real_batch_size for row in rows if _is(row, pair, "SGD", 0.0)}
        for method, color, momentum in _lines(config):
            mine = sorted((r.num_samples, r.real_batch_size) for r in rows if _is(r, pair, method, momentum))
            ratios = [batch / plain[samples] for samples, batch in mine]
            look: Any = (
                {"ls": "-", "marker": "o"} if method == "heavy ball" else {"ls": "--", "marker": "s", "mfc": "w"}
            )
            name = f"{method}, $\\beta = {momentum:g}$"
            axis.plot([samples for samples, _ in mine], ratios, label=name, color=color, ms=4, **look)
        log_axes(axis)
        name_problem(axis, pair)
        axis.set(xlabel="samples $D$", ylabel="$B^*$ with momentum / $B^*$ of SGD")
    best = max(gain.ratio for pair in config.exponents for gain in _gains(config, rows, pair))
    figure.suptitle(
        f"Critical batch size with momentum: up to {best:.3g} times that of SGD ($B^* \\propto D^c$), uniform averages",
        fontsize=9,
    )
    legend_below(figure, axes[0])
    return figure


def _is(row: Row, pair: tuple[float, float], method: str, momentum: float) -> bool:
    return (row.capacity, row.source, row.method, row.momentum) == (*pair, method, momentum)


def _lines(config: Config) -> Iterator[tuple[str, Any, float]]:
    """Method, colour and β of each line."""
    tones = dict(zip(config.momenta, colors(len(config.momenta)), strict=True))
    return ((method, tones[momentum], momentum) for method, momentum in product(config.methods, config.momenta))
