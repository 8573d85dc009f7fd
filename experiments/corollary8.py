"""Does Corollary 8 hold for the exact risk? B*(D), the optimal risk and γ* over ten decades of data."""

import time
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import sgdtheory as st
from experiments._lib.processes import map_on_cores
from experiments._lib.results import Result, Verdict
from sgdtheory.plotting.style import BLACK, categories, legend, legend_below, log_axes, new_figure


@dataclass(frozen=True)
class Config:
    """Problems, data sizes, and the grid of the map."""

    exponents: tuple[tuple[float, float], ...] = (
        (3.0, 2.0),
        (2.0, 2.0),
        (1.2, 2.0),
        (2.0, 3.0),
        (2.0, 4.5),
        (1.5, 3.5),
        (2.0, 5.0),
        (2.0, 6.0),
    )
    decades: tuple[float, float] = (2.0, 12.0)
    per_decade: float = 1.3
    overhead: float = 0.2
    tolerance: float = 0.02  # of an exponent
    map_capacities: tuple[float, ...] = (1.25, 2.0, 2.75, 3.5)
    map_sources: tuple[float, ...] = (1.5, 3.0, 4.5, 6.0)
    map_decades: tuple[float, float] = (9.0, 12.0)  # the map shows the slope between these


SCALES = {
    "quick": Config(),
    "full": Config(
        exponents=(
            *Config.exponents,
            (1.2, 5.0),
            (2.0, 1.5),
            (2.0, 2.5),
            (1.5, 4.0),
            (1.2, 1.2),
            (3.0, 9.0),
            (1.05, 1.5),
            (4.0, 6.0),
        ),
        per_decade=4,
        map_capacities=tuple(np.linspace(1.25, 4.0, 12)),
        map_sources=tuple(np.linspace(1.25, 9.0, 16)),
    ),
}
UNITS = {
    "capacity": "exponent a of the eigenvalues",
    "source": "exponent b of the initial risk",
    "num_samples": "D, samples",
    "batch_size": "B*, samples",
    "real_batch_size": "B* without its rounding to whole batch sizes",
    "rate_batch_size": "largest B whose best risk with D samples is at most twice the optimal one",
    "num_steps": "steps with which B* reaches the optimal risk",
    "learning_rate": "γ with which it does, units of 1/λ_1",
    "optimal_risk": "R_opt(D), units of y²",
    "local_exponent": "slope of log B* (not rounded) against log D",
    "in_map": "1 for the two data sizes behind each point of the map, 0 for the others",
}


class Case(NamedTuple):
    """One problem with everything measured on it."""

    capacity: float
    source: float
    found: st.critical.CriticalBatchSize

    @property
    def regime(self) -> str:
        """Return the regime of b in words."""
        a, b = self.capacity, self.source
        if b <= a:
            return "b < a" if b < a else "b = a"
        if b < 2 * a + 1:
            return "a < b < 2a" if b < 2 * a else "2a < b < 2a+1"
        return "b = 2a+1" if b == 2 * a + 1 else "b > 2a+1"

    @property
    def log_power(self) -> float:
        """Power of log D that Corollary 8 leaves out, of B*: −a/(2a+1) at b = 2a+1."""
        return -self.capacity / (2 * self.capacity + 1) if self.regime == "b = 2a+1" else 0.0

    @property
    def predicted(self) -> float:
        """Corollary 8's exponent of B*."""
        return float(st.predicted_exponent(self.capacity, self.source))

    def fit(self) -> st.critical.AsymptoticFit:
        """Asymptotic exponent of B*."""
        return st.fit_asymptotic_exponent(self.found.num_samples, self.found.real_batch_size, log_power=self.log_power)


def run(config: Config) -> Result:
    """Solve for B*, extrapolate, compare."""
    start = time.perf_counter()
    samples = 10 ** np.arange(config.decades[0], config.decades[1] + 1e-9, 1 / config.per_decade)
    ends = 10 ** np.array(config.map_decades)
    grid = [(a, b) for a in config.map_capacities for b in config.map_sources]
    work = [(pair, samples) for pair in config.exponents] + [(pair, ends) for pair in grid]
    found = map_on_cores(partial(_solve, config.overhead), work)
    cases, corners = found[: len(config.exponents)], found[len(config.exponents) :]
    solved = time.perf_counter() - start
    fits = [case.fit() for case in cases]
    verdicts = [
        _exponent_verdict(config, case, fit, solved / len(found)) for case, fit in zip(cases, fits, strict=True)
    ]
    verdicts += [_logarithm_verdict(case, fit) for case, fit in zip(cases, fits, strict=True) if case.log_power]
    verdicts += [_risk_verdict(config, cases), _learning_rate_verdict(config, cases)]
    figures = {"growth": _growth(config, cases), "map": _map(config, cases, fits, corners)}
    return Result(_columns(cases, corners), UNITS, figures, tuple(verdicts))


def _solve(overhead: float, item: tuple[tuple[float, float], np.ndarray]) -> Case:
    (capacity, source), samples = item
    problem = st.PowerLaw(capacity, source)
    return Case(capacity, source, st.critical_batch_size(problem, num_samples=samples, overhead=overhead, curve=False))


def _columns(cases: list[Case], corners: list[Case]) -> dict[str, np.ndarray]:
    rows = []
    for case in (*cases, *corners):
        found = vars(case.found)
        samples, real = found["num_samples"], found["real_batch_size"]
        slope = (
            st.critical.local_exponents(samples, real)
            if samples.size > 2
            else np.diff(np.log(real)) / np.diff(np.log(samples))
        )
        row = {"capacity": case.capacity, "source": case.source, "local_exponent": slope, "in_map": samples.size == 2}
        row |= {name: found[name] for name in UNITS if name in found}
        rows.append({name: np.broadcast_to(np.asarray(row[name], float), samples.shape) for name in UNITS})
    return {name: np.concatenate([row[name] for row in rows]) for name in UNITS}


def _exponent_verdict(config: Config, case: Case, fit: st.critical.AsymptoticFit, seconds: float) -> Verdict:
    low, high = fit.interval
    agrees = abs(fit.exponent - case.predicted) <= config.tolerance and low <= case.predicted <= high
    found = case.found
    last = float(st.critical.local_exponents(found.num_samples, found.real_batch_size)[-1])
    divided = f", the factor (log D)^{case.log_power:.2f} divided out" if case.log_power else ""
    return Verdict(
        f"Corollary 8, {case.regime}: a = {case.capacity:g}, b = {case.source:g}",
        f"exponent of B* for D → ∞, from D = 10^{config.decades[0]:g} … 10^{config.decades[1]:g}{divided}; "
        f"B* = {found.batch_size[-1]:.6g} at the end, where the slope is {last:.4f}; interval: range of "
        f"{fit.estimates.size} extrapolations, widened on both sides by itself; holds within ±{config.tolerance:g}",
        case.predicted,
        fit.exponent,
        fit.interval,
        "holds" if agrees else "fails",
        seconds,
    )


def _logarithm_verdict(case: Case, fit: st.critical.AsymptoticFit) -> Verdict:
    """At b = 2a+1 the slope without the logarithm should miss c by log_power / log D."""
    samples = case.found.num_samples
    slope = st.critical.local_exponents(samples, case.found.real_batch_size)
    far = slice(-len(samples) // 3, -1)  # the last slope is one-sided
    missing = slope[far] - case.predicted
    expected = case.log_power / np.log(samples[far])
    ratio = missing / expected
    logged = bool((missing < 0).all() and ratio.min() > 0.5 and ratio.max() < 1.5)
    return Verdict(
        f"Corollary 8, b = 2a+1: the logarithm (a = {case.capacity:g})",
        f"B* ∝ D^c (log D)^{case.log_power:.2f}, which the proof leaves out: the slope misses c = {case.predicted:g} "
        f"by {case.log_power:.2f}/log D; B* (log D)^{-case.log_power:.2f} has exponent {fit.exponent:.4f}",
        "D^c without a logarithm",
        f"slope misses c by {ratio.min():.2f} … {ratio.max():.2f} times that, D from {samples[far][0]:.0e}",
        None,
        "imprecise in the paper" if logged else "inconclusive",
    )


def _risk_verdict(config: Config, cases: list[Case]) -> Verdict:
    start = time.perf_counter()
    rows = []
    for case in cases:
        power = -case.log_power / case.capacity  # (log D)^(1/(2a+1))
        fit = st.fit_asymptotic_exponent(case.found.num_samples, case.found.optimal_risk, log_power=power)
        prediction = float(st.critical.predicted_risk_exponent(case.capacity, case.source))
        rows.append((fit.exponent - prediction, fit.interval[0] <= prediction <= fit.interval[1]))
    errors = np.array([error for error, _ in rows])
    holds = np.abs(errors).max() <= config.tolerance and all(covered for _, covered in rows)
    return Verdict(
        "Corollary 8, optimal risk",
        f"exponent of R_opt(D) for D → ∞, all {len(cases)} (a, b); predicted −(m − 1)/m with m = min{{b, 2a+1}} for "
        f"b > a, −(b − 1)/a for b ≤ a; every interval covers its prediction: {all(covered for _, covered in rows)}",
        "error 0",
        f"errors {errors.min():+.4f} … {errors.max():+.4f}",
        (float(errors.min()), float(errors.max())),
        "holds" if holds else "fails",
        time.perf_counter() - start,
    )


def _learning_rate_verdict(config: Config, cases: list[Case]) -> Verdict:
    """γ* ≍ 1 at B*: bounded away from 0 and from infinity, and with exponent 0."""
    rates = np.concatenate([case.found.learning_rate for case in cases])
    exponents = [
        st.fit_asymptotic_exponent(case.found.num_samples, case.found.learning_rate).exponent for case in cases
    ]
    worst = max(exponents, key=abs)
    growing = [case.found.learning_rate[-1] for case in cases if case.source > case.capacity]
    return Verdict(
        "Corollary 8, γ* ≍ 1",
        f"γ at B*, in units of 1/λ_1, all D and (a, b); for b > a it tends to the edge of gradient descent, 2: "
        f"{min(growing):.3f} … {max(growing):.3f} at the largest D",
        "bounded, exponent 0",
        f"{rates.min():.3f} … {rates.max():.3f}; largest exponent {worst:+.4f}",
        (float(rates.min()), float(rates.max())),
        "holds" if abs(worst) <= config.tolerance and rates.min() > 0.1 else "fails",
    )


def _growth(config: Config, cases: list[Case]) -> Figure:
    """B* against D, a panel for each kind of growth, slope triangles with Corollary 8's exponents."""
    groups = {
        "$b \\leq a$: $B^*$ stays of order 1": [case for case in cases if case.predicted == 0],
        "$a < b < 2a+1$: $B^* \\propto D^{1 - a/b}$": [
            case for case in cases if case.predicted > 0 and case.source < 2 * case.capacity + 1
        ],
        "$b \\geq 2a+1$: $B^* \\propto D^{(a+1)/(2a+1)}$": [
            case for case in cases if case.source >= 2 * case.capacity + 1
        ],
    }
    figure, axes = new_figure(1, len(groups), width=3.8, height=4.1)
    figure.suptitle(
        r"Regression with $\lambda_i = i^{-a}$, $s_i = i^{-b}$, infinitely many directions, $\sigma^2 = 1$: "
        f"largest batch size that needs at most {config.overhead:.0%} more samples\n"
        "points: from the exact risk; black lines: Corollary 8's power of $D$ through the last point",
        fontsize=9,
    )
    for axis, (title, group) in zip(axes[0], groups.items(), strict=True):
        axis.set(xlabel="samples $D$", title=title)
        for look, case in zip(categories(len(group)), group, strict=True):
            _curve(axis, case, look)
        axis.plot([], [], color=BLACK, lw=0.8, label="Corollary 8's slope")
        log_axes(axis)
    for axis, group in zip(axes[0], groups.values(), strict=True):
        steepness = sorted((case for case in group if case.predicted), key=lambda case: case.found.batch_size[-1])
        for case in steepness[:1] + steepness[-1:]:
            _triangle(axis, case, below=case is steepness[0])
    axes[0, 2].sharey(axes[0, 1])
    axes[0, 1].set(ylim=(1, 1e11))
    axes[0, 0].set(ylim=(0.5, 100), ylabel="critical batch size $B^*$ (samples)")
    for axis in axes[0]:
        legend(axis, corners=("upper left",))
    return figure


def _curve(axis: Axes, case: Case, look: dict[str, Any]) -> None:
    """B* of one problem, and the power of D that the corollary says, over the larger data sizes."""
    samples, batch = case.found.num_samples, case.found.batch_size
    start = int(np.searchsorted(samples, samples[-1] / 1e4)) // 2
    factor = (samples / samples[-1]) ** case.predicted
    if case.log_power:
        factor *= (np.log(samples) / np.log(samples[-1])) ** case.log_power
    name = f"$a={case.capacity:g}$, $b={case.source:g}$" + (" (with log)" if case.log_power else "")
    axis.plot(samples, batch, ms=3.5, label=name, **{**look, "ls": ""})
    axis.plot(samples[start:], (batch[-1] * factor)[start:], color=BLACK, lw=0.8)


def _triangle(axis: Axes, case: Case, below: bool) -> None:
    """A slope triangle over two decades of D, beside the end of the curve."""
    samples = np.array([1e9, 1e11])
    level = np.interp(np.log(samples[0]), np.log(case.found.num_samples), np.log(case.found.real_batch_size))
    shift = 1 / 6 if below else 6.0
    batch = shift * np.exp(level) * (samples / samples[0]) ** case.predicted
    corner = (samples[1], batch[0]) if below else (samples[0], batch[1])
    xs, ys = [*samples, corner[0], samples[0]], [*batch, corner[1], batch[0]]
    axis.plot(xs, ys, color="black", lw=0.9)
    side: dict[str, Any] = {"ha": "left" if below else "right", "va": "center", "fontsize": 8}
    axis.text(corner[0] * (1.3 if below else 0.75), np.sqrt(batch[0] * batch[1]), f"{case.predicted:.3g}", **side)


def _map(config: Config, cases: list[Case], fits: list[st.critical.AsymptoticFit], corners: list[Case]) -> Figure:
    """Exponents over the (a, b) plane: Corollary 8's as the background, measured ones as squares and circles on it."""
    figure, axes = new_figure(1, 1, width=6.0, height=4.8)
    axis = axes[0, 0]
    ends = [(min(values) - 0.25, max(values) + 0.25) for values in _places(config, cases)]
    a, b = np.meshgrid(*(np.linspace(max(low, 1.0), high, 400) for low, high in ends))
    predicted = st.predicted_exponent(np.maximum(a, 1.0001), np.maximum(b, 1.0001))
    scale = {"cmap": "viridis", "vmin": 0.0, "vmax": 0.7}
    background = axis.pcolormesh(a, b, predicted, shading="nearest", rasterized=True, **scale)
    axis.set(xlim=(a.min(), a.max()), ylim=(b.min(), b.max()))
    axis.grid(visible=False)
    slopes = np.array([np.diff(np.log(case.found.real_batch_size))[0] for case in corners])
    slopes /= np.diff(np.log(10 ** np.array(config.map_decades)))
    low, high = config.map_decades
    kinds = (
        (corners, slopes, "s", 22, f"slope between $D = 10^{{{low:g}}}$ and $10^{{{high:g}}}$"),
        (cases, [fit.exponent for fit in fits], "o", 75, "extrapolated to $D \\to \\infty$"),
    )
    for found, values, marker, size, label in kinds:
        xs, ys = [case.capacity for case in found], [case.source for case in found]
        axis.scatter(xs, ys, c=values, marker=marker, s=size, edgecolor="white", lw=1.0, zorder=3, label=label, **scale)
    for slope, shift, name in ((1, 0, "$b = a$"), (2, 0, "$b = 2a$"), (2, 1, "$b = 2a+1$")):
        _border(axis, slope, shift, name)
    axis.set(xlabel="capacity exponent $a$", ylabel="source exponent $b$")
    worst = max(abs(fit.exponent - case.predicted) for case, fit in zip(cases, fits, strict=True))
    figure.suptitle(
        "Exponent of $B^*$ in $D$: Corollary 8 (background) and measured (markers, same colours)\n"
        f"extrapolated exponents differ by at most {worst:.3f}; above $b = 2a$ the exponent exceeds 1/2",
        fontsize=9,
    )
    figure.colorbar(background, ax=axis, label="exponent of $B^*$", pad=0.09)
    legend_below(figure, axis)
    return figure


def _places(config: Config, cases: list[Case]) -> tuple[list[float], list[float]]:
    """All a and all b of the map."""
    return (
        [*config.map_capacities, *(case.capacity for case in cases)],
        [*config.map_sources, *(case.source for case in cases)],
    )


def _border(axis: Axes, slope: float, shift: float, name: str) -> None:
    """The line b = slope a + shift; its name stands outside of the panel, where the line leaves it."""
    right, top = axis.get_xlim()[1], axis.get_ylim()[1]
    a = np.array(axis.get_xlim())
    axis.plot(a, slope * a + shift, color="white", lw=1.4, ls="-" if shift == 0 and slope == 2 else "--")
    beside = slope * right + shift <= top
    place = (right, slope * right + shift) if beside else ((top - shift) / slope, top)
    aside: dict[str, Any] = {"xytext": (4, 0), "va": "center"} if beside else {"xytext": (0, 4), "ha": "center"}
    axis.annotate(name, place, textcoords="offset points", fontsize=8, annotation_clip=False, **aside)
