"""Which averages saturate? Exponents of B* and of the optimal risk under averages and decay, from exact risk."""

import time
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from experiments._lib.algorithms import ALGORITHMS, EXPONENTIAL, TAIL, UNIFORM, Critical, critical
from experiments._lib.answers import worst
from experiments._lib.exponents import LastSlope, errors, last_slope
from experiments._lib.panels import LEAST_WIDTH
from experiments._lib.processes import map_on_cores
from experiments._lib.results import Result, Verdict, VerdictName
from experiments._lib.rows import columns_of, rows_of
from sgdtheory.plotting.style import BLACK, categories, legend_below, new_figure, power_of_ten


@dataclass(frozen=True)
class Config:
    """Problems and data sizes at equal ratios, four at least: three slopes tell where they lead.

    Attributes:
        exponents: a and b of each problem.
        averages: of constant γ, on every problem.
        schedules: whose last iterate is returned, on some problems: a B* of a cosine takes a minute at large D.
        schedule_exponents: those problems.
        num_samples: D.
        tolerance: of an exponent.
    """

    exponents: tuple[tuple[float, float], ...] = ((2.0, 3.0), (2.0, 6.0))
    averages: tuple[str, ...] = (UNIFORM, TAIL, EXPONENTIAL)
    schedules: tuple[str, ...] = ()
    schedule_exponents: tuple[tuple[float, float], ...] = ((2.0, 3.0), (2.0, 6.0))
    num_samples: tuple[float, ...] = (1e6, 1e8, 1e10, 1e12)
    tolerance: float = 0.03

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all averages that are compared."""
        return *self.averages, *self.schedules

    @property
    def compared(self) -> list[tuple[tuple[float, float], str]]:
        """Problems and algorithms."""
        return [*product(self.exponents, self.averages), *product(self.schedule_exponents, self.schedules)]


SCALES = {
    "quick": Config(num_samples=(1e3, 1e5, 1e7, 1e9)),
    "full": Config(
        exponents=(*((2.0, b) for b in (3.0, 4.0, 6.0, 8.0)), (1.5, 3.0), (1.5, 6.0)), schedules=("cosine",)
    ),
}
UNITS = {
    "capacity": "exponent a of the eigenvalues",
    "source": "exponent b of the initial risk",
    "algorithm": "average at constant γ, or schedule whose last iterate is returned",
    "num_samples": "D, samples",
    "real_batch_size": "B* without its rounding, samples",
    "optimal_risk": "R_opt(D) of that algorithm, units of y²",
}


class Case(NamedTuple):
    """Slopes of log B* and of log R_opt against log D, of one problem and algorithm."""

    capacity: float
    source: float
    algorithm: str
    batch: LastSlope
    risk: LastSlope

    @property
    def limit(self) -> float:
        """m: b, or min{b, 2a+1} where the average saturates, which only the uniform one should."""
        return min(self.source, 2 * self.capacity + 1) if self.algorithm == UNIFORM else self.source

    @property
    def predicted(self) -> float:
        """Exponent of B*."""
        return 1 - self.capacity / self.limit

    @property
    def predicted_risk(self) -> float:
        """Exponent of R_opt."""
        return 1 / self.limit - 1


def run(config: Config) -> Result:
    """Solve for B* under every average, and compare slopes."""
    start = time.perf_counter()
    items = [(*item, samples) for item, samples in product(config.compared, config.num_samples)]
    rows = map_on_cores(_solve, sorted(items, key=lambda item: item[1] in config.averages))  # what takes long first
    seconds = (time.perf_counter() - start) / len(config.names)
    cases = _cases(config, rows)
    verdicts = tuple(_verdict(config, name, cases, seconds) for name in config.names)
    return Result(columns_of(rows), UNITS, {"averages_exponents": _figure(config, cases)}, verdicts)


def redraw(config: Config, recorded: Any) -> dict[str, Figure]:
    """The figure of a recorded table."""
    return {"averages_exponents": _figure(config, _cases(config, rows_of(Critical, recorded.rows)))}


def _solve(item: tuple[tuple[float, float], str, float]) -> Critical:
    pair, name, samples = item
    return critical(pair, name, samples, ALGORITHMS[name])


def _cases(config: Config, rows: list[Critical]) -> list[Case]:
    cases = []
    for pair, name in config.compared:
        mine = sorted(
            (row.num_samples, row.real_batch_size, row.optimal_risk)
            for row in rows
            if (row.capacity, row.source, row.algorithm) == (*pair, name)
        )
        samples, batch, risk = zip(*mine, strict=True)
        cases.append(Case(*pair, name, last_slope(samples, batch), last_slope(samples, risk)))
    return cases


def _verdict(config: Config, name: str, cases: list[Case], seconds: float) -> Verdict:
    """Judge whether the slopes of B* and of the optimal risk are those of saturation or of none."""
    mine = [case for case in cases if case.algorithm == name]
    judged = [
        (slope, predicted)
        for case in mine
        for slope, predicted in ((case.batch, case.predicted), (case.risk, case.predicted_risk))
    ]
    verdicts: list[VerdictName] = [slope.verdict(predicted, config.tolerance) for slope, predicted in judged]
    text = "; ".join(
        f"a = {case.capacity:g}, b = {case.source:g}: {case.batch.text} "
        f"(predicted {case.predicted:.3f}, {case.batch.leads}; {case.batch.verdict(case.predicted, config.tolerance)}; "
        f"R_opt {case.risk.text}, predicted {case.predicted_risk:.3f}, {case.risk.leads}; "
        f"{case.risk.verdict(case.predicted_risk, config.tolerance)})"
        for case in mine
    )
    rule = "saturates at b = 2a+1" if name == UNIFORM else "does not saturate: B* ∝ D^(1 − a/b) for every b > a"
    error = errors(judged)
    return Verdict(
        f"{name}: {rule}",
        f"For each problem, the slope of log B* between D = {config.num_samples[-2]:.0e} and "
        f"{config.num_samples[-1]:.0e} ± the change since the pair of D before, and the same for R_opt. A slope holds "
        f"if its extrapolation to D → ∞, with its interval, lies within ±{config.tolerance:g} of the prediction: "
        f"{text}",
        "error 0",
        f"largest error {error.largest:+.4f}; {verdicts.count('holds')} of {len(verdicts)} slopes hold",
        error.interval,
        worst(verdicts),
        seconds,
    )


def _figure(config: Config, cases: list[Case]) -> Figure:
    """Exponents of B* and of R_opt against b, a column of panels for each a; with and without saturation behind."""
    capacities = sorted({capacity for capacity, _ in config.exponents})
    figure, axes = new_figure(2, len(capacities), width=max(3.6, LEAST_WIDTH / len(capacities)), height=2.8)
    looks = categories(len(config.names))
    for column, capacity in enumerate(capacities):
        here = [case for case in cases if case.capacity == capacity]
        sources = np.linspace(capacity, max(case.source for case in here) + 0.5, 200)
        saturated = np.minimum(sources, 2 * capacity + 1)
        batch, risk = axes[:, column]
        for axis, free, held in (
            (batch, 1 - capacity / sources, 1 - capacity / saturated),
            (risk, 1 / sources - 1, 1 / saturated - 1),
        ):
            axis.plot(sources, free, color=BLACK, lw=0.9, ls="--", label="theory without saturation")
            axis.plot(sources, held, color=BLACK, lw=0.9, label="theory with saturation at $b = 2a+1$ (Corollary 8)")
            axis.set(xlabel="source exponent $b$")
        for place, (look, name) in enumerate(zip(looks, config.names, strict=True)):
            mine = [case for case in here if case.algorithm == name]
            beside = np.array([case.source for case in mine]) + 0.1 * (place - (len(looks) - 1) / 2)
            how: Any = {"ms": 4.5, "elinewidth": 1.0, "label": name, **look, "ls": ""}
            batch.errorbar(beside, [c.batch.value for c in mine], [abs(c.batch.change) for c in mine], **how)
            risk.errorbar(beside, [c.risk.value for c in mine], [abs(c.risk.change) for c in mine], **how)
        batch.set(title=f"$a = {capacity:g}$")
    axes[0, 0].set(ylabel="exponent of $B^*$ in $D$")
    axes[1, 0].set(ylabel="exponent of $R_{opt}$ in $D$")
    figure.suptitle(
        "Which averages saturate beyond $b = 2a + 1$? Exact risk, $\\gamma$ tuned\n"
        f"slopes between $D = {power_of_ten(config.num_samples[-2])}$ and ${power_of_ten(config.num_samples[-1])}$; "
        "bars: their change since the pair before; markers are offset along $b$",
        fontsize=9,
    )
    legend_below(figure, axes[0, 0], columns=3)
    return figure
