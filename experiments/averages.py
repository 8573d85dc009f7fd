"""Which averages saturate: exponents of B* and of the optimal risk under averages and decay, from exact risk."""

import time
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

import sgdtheory as st
from experiments._lib.processes import map_on_cores
from experiments._lib.results import Result, Verdict
from sgdtheory.plotting.style import BLACK, categories, legend_below, new_figure

LAST = st.LastIterate()
ALGORITHMS = {
    "uniform": st.Algorithm(),
    "tail half": st.Algorithm(average=st.TailAverage(0.5)),
    "exponential, window n/10": st.Algorithm(average=st.ExponentialAverage(window=0.1)),
    "last of a cosine": st.Algorithm(schedule=st.Cosine(), average=LAST),
    "last of a linear decay": st.Algorithm(schedule=st.Linear(), average=LAST),
}


@dataclass(frozen=True)
class Config:
    """Problems, and data sizes: the slope between the last two is the exponent."""

    exponents: tuple[tuple[float, float], ...] = ((2.0, 3.0), (2.0, 4.0), (2.0, 5.0), (2.0, 6.0), (2.0, 8.0))
    algorithms: tuple[str, ...] = tuple(ALGORITHMS)
    num_samples: tuple[float, ...] = (1e6, 1e8, 1e10, 1e12)
    tolerance: float = 0.03  # of an exponent at the last two data sizes


SCALES = {
    "quick": Config(
        exponents=((2.0, 3.0), (2.0, 6.0)),
        algorithms=("uniform", "tail half", "exponential, window n/10"),
        num_samples=(1e6, 1e9),
    ),
    "full": Config(exponents=(*Config.exponents, (1.5, 2.0), (1.5, 3.0), (1.5, 6.0), (3.0, 5.0), (3.0, 10.0))),
}
UNITS = {
    "capacity": "exponent a of the eigenvalues",
    "source": "exponent b of the initial risk",
    "algorithm": "average, or schedule whose last iterate is returned",
    "num_samples": "D, samples",
    "real_batch_size": "B* without its rounding, samples",
    "optimal_risk": "R_opt(D), units of y²",
    "exponent": "slope of log B* between this D and the next smaller one",
    "risk_exponent": "slope of log R_opt between them",
}


class Case(NamedTuple):
    """One problem and algorithm at all data sizes."""

    capacity: float
    source: float
    algorithm: str
    batch: np.ndarray
    risk: np.ndarray

    @property
    def saturates(self) -> bool:
        """T27's prediction: only the uniform average does."""
        return self.algorithm == "uniform"

    @property
    def limit(self) -> float:
        """m: b, or min{b, 2a+1} where the average saturates."""
        return min(self.source, 2 * self.capacity + 1) if self.saturates else self.source


def run(config: Config) -> Result:
    """Solve for B* under every average, and compare slopes."""
    start = time.perf_counter()
    items = list(product(config.exponents, config.algorithms))
    cases = map_on_cores(partial(_solve, config.num_samples), items)
    seconds = (time.perf_counter() - start) / len(cases)
    slopes = [(case, *_slopes(config, case)) for case in cases]
    verdicts = tuple(_verdict(config, name, slopes, seconds) for name in config.algorithms)
    return Result(_columns(config, slopes), UNITS, {"exponents": _figure(config, slopes)}, verdicts)


def _solve(num_samples: tuple[float, ...], item: tuple[tuple[float, float], str]) -> Case:
    (capacity, source), name = item
    found = st.critical_batch_size(
        st.PowerLaw(capacity, source), num_samples=list(num_samples), curve=False, algorithm=ALGORITHMS[name]
    )
    return Case(capacity, source, name, np.asarray(found.real_batch_size), np.asarray(found.optimal_risk))


def _slopes(config: Config, case: Case) -> tuple[np.ndarray, np.ndarray]:
    steps = np.diff(np.log(config.num_samples))
    return np.diff(np.log(case.batch)) / steps, np.diff(np.log(case.risk)) / steps


def _verdict(config: Config, name: str, slopes: list[Any], seconds: float) -> Verdict:
    """Whether the last slopes are those of T27, for B* and for the optimal risk."""
    mine = [(case, batch[-1], risk[-1]) for case, batch, risk in slopes if case.algorithm == name]
    errors = [
        error
        for case, batch, risk in mine
        for error in (batch - (1 - case.capacity / case.limit), risk + (1 - 1 / case.limit))
    ]
    worst = max(errors, key=abs)
    text = "; ".join(
        f"a = {case.capacity:g}, b = {case.source:g}: {batch:.3f} ({1 - case.capacity / case.limit:.3f})"
        for case, batch, _ in mine
    )
    rule = "saturates at b = 2a+1" if name == "uniform" else "does not saturate: B* ∝ D^(1 − a/b) for every b > a"
    return Verdict(
        f"{name}: {rule}",
        f"slope of log B* (predicted) between D = {config.num_samples[-2]:.0e} and {config.num_samples[-1]:.0e}: "
        f"{text}; of log R_opt against −(1 − 1/m) too; within ±{config.tolerance:g}",
        "error 0",
        f"largest error {worst:+.4f}",
        (float(min(errors)), float(max(errors))),
        "holds" if abs(worst) <= config.tolerance else "inconclusive",
        seconds * len(mine),
    )


def _columns(config: Config, slopes: list[Any]) -> dict[str, Any]:
    rows = [
        (case.capacity, case.source, case.algorithm, samples, case.batch[k], case.risk[k], *_earlier(k, batch, risk))
        for case, batch, risk in slopes
        for k, samples in enumerate(config.num_samples)
    ]
    return dict(zip(UNITS, map(np.array, zip(*rows, strict=True)), strict=True))


def _earlier(k: int, batch: np.ndarray, risk: np.ndarray) -> tuple[float, float]:
    return (float(batch[k - 1]), float(risk[k - 1])) if k else (np.nan, np.nan)


def _figure(config: Config, slopes: list[Any]) -> Figure:
    """Exponent of B* against b, one line an average; Corollary 8 and 1 − a/b behind."""
    capacity = config.exponents[0][0]
    figure, axes = new_figure(1, 1, width=5.4, height=4.0)
    axis = axes[0, 0]
    sources = np.linspace(capacity, max(b for a, b in config.exponents if a == capacity) + 0.5, 200)
    axis.plot(sources, 1 - capacity / sources, color=BLACK, lw=0.9, ls="--", label="$1 - a/b$: no saturation")
    saturated = 1 - capacity / np.minimum(sources, 2 * capacity + 1)
    axis.plot(sources, saturated, color=BLACK, lw=0.9, label="Corollary 8: $1 - a/\\min\\{b, 2a+1\\}$")
    for look, name in zip(categories(len(config.algorithms)), config.algorithms, strict=True):
        mine = [(c.source, batch[-1]) for c, batch, _ in slopes if c.algorithm == name and c.capacity == capacity]
        axis.plot(*zip(*sorted(mine), strict=True), label=name, ms=6, **{**look, "ls": ""})
    axis.set(xlabel="source exponent $b$", ylabel="exponent of $B^*$ in $D$")
    figure.suptitle(
        f"$a = {capacity:g}$: which averages saturate beyond $b = 2a + 1$?\n"
        f"slopes between $D = 10^{{{np.log10(config.num_samples[-2]):g}}}$ and "
        f"$10^{{{np.log10(config.num_samples[-1]):g}}}$, exact risk, $\\gamma$ tuned",
        fontsize=9,
    )
    legend_below(figure, axis, columns=2)
    return figure
