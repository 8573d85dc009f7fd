"""Does the best schedule change the exponents of the critical batch size and of the optimal risk, or a constant?"""

import time
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

import sgdtheory as st
from experiments._lib.algorithms import ALGORITHMS, UNIFORM, critical
from experiments._lib.answers import worst
from experiments._lib.best_critical import best_critical
from experiments._lib.exponents import LastSlope, errors, last_slope
from experiments._lib.panels import LEAST_WIDTH, name_problem, panels
from experiments._lib.processes import map_on_cores
from experiments._lib.results import Result, Verdict, VerdictName
from experiments._lib.rows import against_data, columns_of, rows_of
from sgdtheory.plotting.style import BLACK, GRAY, categories, legend_below, log_axes, new_figure, power_of_ten

Pair = tuple[float, float]
BEST = "best schedule"
COLUMNS = "real_batch_size", "optimal_risk"


@dataclass(frozen=True)
class Config:
    """Problems of every regime, and data sizes at equal ratios: the slope between the last two is the exponent.

    Attributes:
        exponents: a and b of each problem.
        num_samples: D.
        averages: of constant γ, at every D.
        spacing: of the knots of a schedule, in log((t + 1)/(n − t)).
        tolerance: of an exponent.
    """

    exponents: tuple[Pair, ...] = ((2.0, 1.5), (2.0, 3.0), (1.5, 6.0), (2.0, 8.0))
    num_samples: tuple[float, ...] = (1e4, 1e5, 1e6, 1e7)
    averages: tuple[str, ...] = (UNIFORM,)
    spacing: float = 0.7
    tolerance: float = 0.03

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all schedules that are compared."""
        return (BEST, *self.averages)


SCALES = {
    "quick": Config(exponents=((2.0, 3.0), (2.0, 8.0)), num_samples=(1e3, 1e4, 1e5, 1e6)),
    "full": Config(),
}
UNITS = {
    "capacity": "exponent a of the eigenvalues",
    "source": "exponent b of the initial risk",
    "algorithm": "best schedule at every n and B, last iterate; or average at constant γ",
    "num_samples": "D, samples",
    "real_batch_size": "B* without its rounding, samples",
    "optimal_risk": "R_opt(D) of that algorithm, units of y²; of the best schedule R(D, B = 1)",
    "error": "largest |log| of the search's risks over the exact ones, at R_opt and on the way to B*; nan for others",
    "slope": "largest |∂ log risk/∂ log γ| at a knot of these schedules; nan likewise",
}


class Row(NamedTuple):
    """One critical batch size, as in `UNITS`."""

    capacity: float
    source: float
    algorithm: str
    num_samples: float
    real_batch_size: float
    optimal_risk: float
    error: float = np.nan
    slope: float = np.nan


class Case(NamedTuple):
    """Slopes in log D, for one problem, of the best schedule's B* and R_opt and of their ratios to an average's."""

    pair: Pair
    batch: LastSlope
    risk: LastSlope
    batch_ratio: LastSlope
    risk_ratio: LastSlope

    @property
    def free(self) -> float:
        """Exponent of B*, without saturation."""
        capacity, source = self.pair
        return max(0.0, 1 - capacity / source)

    @property
    def free_risk(self) -> float:
        """Exponent of R_opt, without saturation."""
        capacity, source = self.pair
        return -(1 - 1 / source) if source > capacity else -(source - 1) / capacity

    @property
    def gained(self) -> tuple[float, float]:
        """Exponents of B* and of R_opt over those of the uniform average, which saturates at b = 2a + 1."""
        saturates = self.pair[1] > 2 * self.pair[0] + 1
        return (self.free - self.corollary, self.free_risk - self.corollary_risk) if saturates else (0.0, 0.0)

    @property
    def corollary(self) -> float:
        """Exponent of B*, of Corollary 8."""
        return float(st.predicted_exponent(*self.pair))

    @property
    def corollary_risk(self) -> float:
        """Exponent of R_opt, of Corollary 8."""
        return float(st.critical.predicted_risk_exponent(*self.pair))


def run(config: Config) -> Result:
    """Solve for B* with the best schedule and with others, and compare slopes."""
    start = time.perf_counter()
    items = product(config.exponents, config.names, config.num_samples)
    rows = map_on_cores(partial(_solve, config), sorted(items, key=_work, reverse=True))
    seconds = (time.perf_counter() - start) / 3
    cases = [_case(rows, pair) for pair in config.exponents]
    verdicts = (
        _exponent_verdict(config, cases, seconds),
        _risk_verdict(config, cases, seconds),
        *(_constant_verdict(config, rows, regime, seconds) for regime in _regimes(cases)),
        _evidence(rows),
    )
    return Result(columns_of(rows), UNITS, _figures(config, rows), verdicts)


def redraw(config: Config, recorded: Any) -> dict[str, Figure]:
    """The figures of a recorded table."""
    return _figures(config, rows_of(Row, recorded.rows))


def _work(item: tuple[Pair, str, float]) -> tuple[bool, float]:
    """Return a sort key: the best schedule takes longest, and many samples longer."""
    return item[1] == BEST, item[2]


def _solve(config: Config, item: tuple[Pair, str, float]) -> Row:
    pair, name, samples = item
    if name != BEST:
        return Row(*critical(pair, name, samples, ALGORITHMS[name]))
    best = best_critical(st.PowerLaw(*pair), samples, config.spacing)
    return Row(*pair, name, samples, *best)


def _values(rows: list[Row], pair: Pair, name: str, column: str) -> tuple[np.ndarray, np.ndarray]:
    capacity, source = pair
    return against_data(rows, column, capacity=capacity, source=source, algorithm=name)


def _ratio(rows: list[Row], pair: Pair, name: str, column: str) -> tuple[np.ndarray, np.ndarray]:
    """(D, that of the best schedule over that of another algorithm), where there is the other."""
    samples, theirs = _values(rows, pair, name, column)
    known, mine = _values(rows, pair, BEST, column)
    return samples, mine[np.isin(known, samples)] / theirs


def _case(rows: list[Row], pair: Pair) -> Case:
    own = [last_slope(*_values(rows, pair, BEST, column)) for column in COLUMNS]
    ratios = [last_slope(*_ratio(rows, pair, UNIFORM, column)) for column in COLUMNS]
    return Case(pair, *own, *ratios)


# ------------------------------------------------------------------ verdicts


def _text(slope: LastSlope) -> str:
    return f"{slope.text}, {slope.leads}"


def _span(config: Config) -> str:
    ends = sorted(config.num_samples)[-2:]
    return f"between D = {ends[0]:.0e} and {ends[1]:.0e} ± its change since the pair of D before"


def _exponent_verdict(config: Config, cases: list[Case], seconds: float) -> Verdict:
    """B* ∝ D^{1 − a/b} for every b > a, and no power of D for b < a."""
    text = "; ".join(
        f"a = {case.pair[0]:g}, b = {case.pair[1]:g}: {_text(case.batch)} (1 − a/b: {case.free:.3f}, "
        f"{case.batch.verdict(case.free, config.tolerance)}; Corollary 8: {case.corollary:.3f}, "
        f"{case.batch.verdict(case.corollary, config.tolerance)})"
        for case in cases
    )
    return _slopes_verdict(
        "B* of the best schedule: D^(1 − a/b) for b > a, no power of D for b < a",
        f"Slope of log B* {_span(config)}, where each n and B has its own best schedule. It holds if its "
        f"extrapolation to D → ∞, with its interval, lies within ±{config.tolerance:g} of the prediction",
        text,
        [(case.batch, case.free) for case in cases],
        config.tolerance,
        seconds,
    )


def _risk_verdict(config: Config, cases: list[Case], seconds: float) -> Verdict:
    """R_opt ∝ D^{−(1 − 1/b)} for every b > a, D^{−(b − 1)/a} for b < a."""
    text = "; ".join(
        f"a = {case.pair[0]:g}, b = {case.pair[1]:g}: {_text(case.risk)} ({case.free_risk:.3f}, "
        f"{case.risk.verdict(case.free_risk, config.tolerance)}; Corollary 8: {case.corollary_risk:.3f}, "
        f"{case.risk.verdict(case.corollary_risk, config.tolerance)})"
        for case in cases
    )
    return _slopes_verdict(
        "optimal risk of the best schedule: D^(−(1 − 1/b)) for b > a, D^(−(b − 1)/a) for b < a",
        f"Slope of log R_opt {_span(config)}. It holds if its extrapolation to D → ∞, with its interval, lies within "
        f"±{config.tolerance:g} of the prediction",
        text,
        [(case.risk, case.free_risk) for case in cases],
        config.tolerance,
        seconds,
    )


def _slopes_verdict(
    claim: str, rule: str, text: str, judged: list[tuple[LastSlope, float]], tolerance: float, seconds: float
) -> Verdict:
    verdicts: list[VerdictName] = [slope.verdict(predicted, tolerance) for slope, predicted in judged]
    error = errors(judged)
    return Verdict(
        claim,
        f"{rule}: {text}",
        "error 0",
        f"largest error {error.largest:+.4f}; {verdicts.count('holds')} of {len(verdicts)} slopes hold",
        error.interval,
        worst(verdicts),
        seconds,
    )


def _regimes(cases: list[Case]) -> list[list[Case]]:
    """b < a, a < b < 2a + 1, b > 2a + 1: the cases of each."""
    found: dict[int, list[Case]] = {0: [], 1: [], 2: []}
    for case in cases:
        capacity, source = case.pair
        found[int(source > capacity) + int(source > 2 * capacity + 1)].append(case)
    return [each for each in found.values() if each]


def _constant_verdict(config: Config, rows: list[Row], cases: list[Case], seconds: float) -> Verdict:
    """The best schedule against a constant learning rate with the uniform average, within one regime."""
    capacity, source = cases[0].pair
    beyond = source > 2 * capacity + 1
    regime = "b < a" if source < capacity else "b > 2a + 1" if beyond else "a < b < 2a + 1"
    text: list[str] = []
    judged: list[tuple[LastSlope, float]] = []
    ratios: list[float] = []
    for case in cases:
        predicted = case.gained
        judged += [(case.batch_ratio, predicted[0]), (case.risk_ratio, predicted[1])]
        batch, risk = (_ratio(rows, case.pair, UNIFORM, column)[1] for column in COLUMNS)
        ratios += batch.tolist()
        text.append(
            f"a = {case.pair[0]:g}, b = {case.pair[1]:g}: B* {_list(batch)} times, ∝ D^({_text(case.batch_ratio)}) "
            f"(predicted {predicted[0]:.3f}), R_opt {_list(risk)} times, ∝ D^({_text(case.risk_ratio)}) "
            f"({predicted[1]:.3f}){_beside(config, rows, case.pair)}"
        )
    verdicts: list[VerdictName] = [slope.verdict(predicted, config.tolerance) for slope, predicted in judged]
    return Verdict(
        f"the best schedule changes {'the exponents' if beyond else 'the constants alone'}: {regime}",
        f"B* and R_opt of the best schedule divided by those of constant γ with the uniform average, at every D, and "
        f"the slopes of these ratios {_span(config)}. Holds if all extrapolations, with their intervals, lie within "
        f"±{config.tolerance:g} of the difference between the exponents without saturation and those of Corollary 8: "
        f"{'; '.join(text)}",
        f"slopes {judged[0][1]:.3f}, {judged[1][1]:.3f}" if len(cases) == 1 else "slopes predicted",
        f"B* ratios {min(ratios):.3g} … {max(ratios):.3g}; {verdicts.count('holds')} of {len(verdicts)} slopes hold",
        (min(ratios), max(ratios)),
        worst(verdicts),
        seconds,
    )


def _list(values: np.ndarray) -> str:
    return ", ".join(f"{each:.3g}" for each in values)


def _beside(config: Config, rows: list[Row], pair: Pair) -> str:
    """Ratios to the other algorithms."""
    text = ""
    for name in config.names[2:]:
        (samples, batch), (_, risk) = (_ratio(rows, pair, name, column) for column in COLUMNS)
        if samples.size:
            text += f"; over {name} B* {_list(batch)}, R_opt {_list(risk)}"
    return text


def _evidence(rows: list[Row]) -> Verdict:
    """Return the evidence that the searches found optima and that their risks are exact."""
    mine = [row for row in rows if row.algorithm == BEST]
    slope, error = max(row.slope for row in mine), max(row.error for row in mine)
    return Verdict(
        "the schedules found are optima",
        f"Over all problems, D and batch sizes |∂ log risk/∂ log γ| at the knots is at most {slope:.1e} (limit 1e-3). "
        f"The search's risks are within {error:.1e} of the exact ones (limit 1e-4)",
        0.0,
        f"slope {slope:.1e}, error {error:.1e}",
        (min(row.slope for row in mine), slope),
        "fails" if error > 1e-4 else "holds" if slope <= 1e-3 else "inconclusive",
    )


# ------------------------------------------------------------------ figures


def _figures(config: Config, rows: list[Row]) -> dict[str, Figure]:
    return {
        "optimal_exponents_critical": _critical_figure(config, rows),
        "optimal_exponents_ratios": _ratio_figure(config, rows),
    }


def _critical_figure(config: Config, rows: list[Row]) -> Figure:
    """B* against D, a panel a problem, both powers beside it."""
    figure, axes = panels(len(config.exponents))
    for axis, pair in zip(axes, config.exponents, strict=True):
        for name, look in zip(config.names, categories(len(config.names)), strict=True):
            axis.plot(*_values(rows, pair, name, "real_batch_size"), label=name, ms=4.5, **look)
        case = _case(rows, pair)
        samples, best = _values(rows, pair, BEST, "real_batch_size")
        _, uniform = _values(rows, pair, UNIFORM, "real_batch_size")
        since = samples / samples[-1]
        axis.plot(
            samples,
            2.2 * best[-1] * since**case.free,
            color=BLACK,
            lw=0.9,
            ls="--",
            label="$D^{1 - a/b}$ ($b < a$: $D^0$)",
        )
        axis.plot(
            samples, 0.45 * uniform[-1] * since**case.corollary, color=BLACK, lw=0.9, label="power of Corollary 8"
        )
        log_axes(axis)
        name_problem(axis, pair)
        axis.set(xlabel="samples $D$", ylabel="$B^*$ (samples)")
    figure.suptitle(
        "Critical batch size with the best schedule for every number of steps and batch size",
        fontsize=9,
    )
    legend_below(figure, axes[0], columns=4)
    return figure


def _ratio_figure(config: Config, rows: list[Row]) -> Figure:
    """B* and R_opt over those of the uniform average, a line a problem, the powers predicted beside it."""
    figure, axes = new_figure(1, 2, width=LEAST_WIDTH / 2, height=3.4)
    texts = "Critical batch size $B^*$", "Optimal risk $R_{opt}$"
    for axis, column, what in zip(axes[0], COLUMNS, texts, strict=True):
        axis.axhline(1.0, color=GRAY, lw=0.8)
        for pair, look in zip(config.exponents, categories(len(config.exponents)), strict=True):
            samples, ratio = _ratio(rows, pair, UNIFORM, column)
            axis.plot(samples, ratio, label=f"$a = {pair[0]:g}$, $b = {pair[1]:g}$", ms=4.5, **look)
            case = _case(rows, pair)
            power = case.gained[COLUMNS.index(column)]
            if power:
                lines = {"color": BLACK, "lw": 0.9, "ls": "--"}
                axis.plot(samples, (1.5 if power > 0 else 0.7) * ratio[-1] * (samples / samples[-1]) ** power, **lines)
        log_axes(axis)
        axis.set(xlabel="samples $D$", ylabel="best schedule / uniform average", title=what)
    axes[0, 0].plot([], [], color=BLACK, lw=0.9, ls="--", label="predicted, $b > 2a + 1$ (else constant)")
    first, last = (power_of_ten(each) for each in (min(config.num_samples), max(config.num_samples)))
    figure.suptitle(
        f"The best schedule against constant $\\gamma$ with the uniform average, $D = {first}$ to ${last}$", fontsize=9
    )
    legend_below(figure, axes[0, 0], columns=4)
    return figure
