"""What is the shape of the best batch ramp, and how many serial steps does it save at equal risk and data?"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import brentq

import sgdtheory as st
from experiments._lib.answers import worst
from experiments._lib.panels import name_problem, panels
from experiments._lib.processes import map_on_cores
from experiments._lib.results import Result, Verdict, VerdictName
from experiments._lib.rows import columns_of, rows_of
from sgdtheory.critical import TunedRisk
from sgdtheory.optimal import KnotShape, Search
from sgdtheory.plotting.style import BLACK, VERMILLION, categories, colors, legend_below, log_axes, power_of_ten

BEST_RATES, RAMP, BOTH = "best γ_t", "best B_t at constant γ", "best γ_t and B_t"
FAR_FROM_EDGE = "best B_t at constant γ up to half the edge"
AVERAGE, COSINE, COSINE_RAMP, DOUBLING = (
    "constant γ, uniform average",
    "cosine",
    "cosine-equivalent ramp",
    "doubling ramp",
)
STRATEGIES = BEST_RATES, AVERAGE, COSINE, COSINE_RAMP, DOUBLING, RAMP, BOTH
EXACTNESS = 1e-3  # relative, of numbers of steps
LEAST_LEFT = 30.0  # steps to the end: nearer to it the largest λ has memory of single steps


@dataclass(frozen=True)
class Config:
    """Problems, and sizes of runs.

    Attributes:
        exponents: a and b of each problem.
        num_steps: n of the schedules whose shape is measured.
        mean_batch_size: D/n of those.
        windows: of (n − t)/n, over which the exponent of B_t in n − t is fitted.
        num_samples: D at which steps are compared.
        risk_factor: of R_opt(D), the least risk over γ_t with B = 1: the risk that all must reach with D samples.
        doublings: of the batch size, at equal samples a stage: the best of them counts.
        cosine_stages: of the cosine-equivalent ramp.
        tolerance: of the exponent.
        needs_more: steps of a constant γ over the fewest, up to which they are called the same.
    """

    exponents: tuple[tuple[float, float], ...] = ((2.0, 3.0),)
    num_steps: tuple[float, ...] = (1e3, 1e5)
    mean_batch_size: float = 1e3
    windows: tuple[tuple[float, float], ...] = ((0.1, 0.5), (0.01, 0.1), (0.001, 0.01))
    num_samples: tuple[float, ...] = (1e4,)
    risk_factor: float = 1.2
    doublings: tuple[int, ...] = (2, 4, 6)
    cosine_stages: int = 24
    tolerance: float = 0.02
    needs_more: float = 1.05


SCALES = {
    "quick": Config(),
    "full": Config(
        exponents=((2.0, 3.0), (1.5, 4.0), (2.0, 1.5)),
        num_steps=(1e3, 1e5, 1e7),
        num_samples=(1e4, 1e6, 1e8),
        doublings=(3, 4, 5, 6, 8),
    ),
}
UNITS = {
    "capacity": "exponent a of the eigenvalues",
    "source": "exponent b of the initial risk",
    "strategy": "what may vary, or what is fixed",
    "num_samples": "D, samples",
    "num_steps": "n; where `left` is empty the fewest steps that reach the risk, nan if none do",
    "left": "(n − t)/n of a point of a schedule; nan for the fewest steps",
    "learning_rate": "γ_t there, units of 1/λ_1",
    "batch_size": "B_t there, samples; D/n for the fewest steps",
}


class Row(NamedTuple):
    """A point of a schedule, or the fewest steps of a strategy, as in `UNITS`."""

    capacity: float
    source: float
    strategy: str
    num_samples: float
    num_steps: float
    left: float
    learning_rate: float
    batch_size: float


def run(config: Config) -> Result:
    """Find the best ramps, fit their exponents, and count the steps of every strategy."""
    start = time.perf_counter()
    shapes = [("shape", *item) for item in product(config.exponents, config.num_steps)]
    counts = [("steps", *item) for item in product(config.exponents, config.num_samples)]
    rows = [row for found in map_on_cores(partial(_solve, config), [*counts, *shapes]) for row in found]
    seconds = (time.perf_counter() - start) / (2 * len(config.exponents))
    verdicts = (
        *(
            _shape_verdict(config, rows, pair, strategy, seconds)
            for pair in config.exponents
            for strategy in (RAMP, FAR_FROM_EDGE)
        ),
        *(_steps_verdict(config, rows, pair) for pair in config.exponents),
        _constant_verdict(config, rows),
    )
    return Result(columns_of(rows), UNITS, _figures(config, rows), verdicts)


def redraw(config: Config, recorded: Any) -> dict[str, Figure]:
    """The figures of a recorded table."""
    return _figures(config, rows_of(Row, recorded.rows))


def _solve(config: Config, item: tuple[str, tuple[float, float], float]) -> list[Row]:
    kind, pair, size = item
    return _shape(config, pair, size) if kind == "shape" else _steps(config, pair, size)


# ------------------------------------------------------------------ the shape of the best ramp


def _shape(config: Config, pair: tuple[float, float], steps: float) -> list[Row]:
    """The best B_t at a constant γ, tuned up to the edge or to half of it, at places that lie dense at the end."""
    samples, rows = steps * config.mean_batch_size, []
    left = np.geomspace(1.0, 1 / steps, 12 * int(np.log10(steps)) + 1)
    for strategy in (RAMP, FAR_FROM_EDGE):
        share = 1.0 if strategy == RAMP else 0.5
        search = Search(st.PowerLaw(*pair), steps, samples, True, st.LastIterate(), True, share)
        found = search.finished(search.begun())[1]
        batches = KnotShape(steps, tuple(found.steps.tolist()), tuple(np.exp(found.log_batch).tolist())).at(1 - left)
        rate = float(np.exp(found.log_rate[0]))
        rows += [
            Row(*pair, strategy, samples, steps, *point)
            for point in zip(left.tolist(), [rate] * left.size, batches.tolist())
        ]
    return rows


def _curve(rows: list[Row], pair: tuple[float, float], strategy: str, steps: float) -> np.ndarray:
    """(3, P) (n − t)/n, γ_t and B_t."""
    mine = [row for row in rows if (row.capacity, row.source, row.strategy, row.num_steps) == (*pair, strategy, steps)]
    return np.array([[row.left, row.learning_rate, row.batch_size] for row in mine if np.isfinite(row.left)]).T


def _exponent(curve: np.ndarray, steps: float, window: tuple[float, float]) -> float:
    """−d log B_t/d log(n − t) over a window of (n − t)/n, by least squares; nan where the run is too short for it."""
    left, _, batch = curve
    inside = (left >= window[0] * 0.999) & (left <= window[1] * 1.001)
    if window[0] * steps < LEAST_LEFT:
        return np.nan
    return float(-np.polyfit(np.log(left[inside]), np.log(batch[inside]), 1)[0])


def _shape_verdict(
    config: Config, rows: list[Row], pair: tuple[float, float], strategy: str, seconds: float
) -> Verdict:
    """T28: B_t ∝ (n − t)^{−(1 − 1/(2a))} at a constant γ."""
    capacity, source = pair
    predicted, longest = 1 - 1 / (2 * capacity), max(config.num_steps)
    curves = {n: _curve(rows, pair, strategy, n) for n in config.num_steps}
    found = np.array([[_exponent(curve, n, each) for each in config.windows] for n, curve in curves.items()])
    windows = ", ".join(f"{low:g} … {high:g}" for low, high in config.windows)
    last, texts = found[-1], []
    for n, exponents in zip(config.num_steps, found, strict=True):
        shown = ", ".join(f"{each:.3f}" for each in exponents if np.isfinite(each))
        texts.append(f"n = {n:.0e}, γ = {curves[n][1][0]:.3g}: {shown}")
    return Verdict(
        f"{strategy.replace('edge', 'threshold')} is ∝ (n − t)^(−(1 − 1/(2a))): a = {capacity:g}, b = {source:g}",
        f"−1 times the exponent of B_t in n − t, in the windows {windows} of (n − t)/n, at D/n = "
        f"{config.mean_batch_size:g}. Holds if it is within ±{config.tolerance:g} of the prediction in every window "
        f"at n = {longest:.0e}: {'; '.join(texts)}",
        f"{predicted:.3f}",
        f"{np.nanmin(last):.3f} … {np.nanmax(last):.3f}",
        (float(np.nanmin(last)), float(np.nanmax(last))),
        "holds" if np.nanmax(np.abs(last - predicted)) <= config.tolerance else "fails",
        seconds,
    )


# ------------------------------------------------------------------ serial steps


def _steps(config: Config, pair: tuple[float, float], samples: float) -> list[Row]:
    """The fewest steps of every strategy."""
    problem = st.PowerLaw(*pair)
    best = st.optimal_schedule(problem, num_samples=samples, batch_size=1)
    target, fewest, rows = config.risk_factor * best.risk, 2.0, []
    for strategy in STRATEGIES:
        found = [
            _fewest(risk, target, max(2.0, fewest / 32), samples) for risk in _risks(config, problem, strategy, samples)
        ]
        steps = float(np.nanmin(found)) if np.isfinite(found).any() else np.nan
        fewest = steps if strategy == BEST_RATES else fewest
        rows.append(Row(*pair, strategy, samples, steps, np.nan, np.nan, samples / steps))
    return rows


def _risks(config: Config, problem: st.PowerLaw, strategy: str, samples: float) -> list[Callable[[float], float]]:
    """Least risk of n steps with D samples; of each variant of a strategy."""
    if strategy in (BEST_RATES, RAMP, BOTH):
        return [partial(_least_risk, problem, strategy, samples)]
    last = st.LastIterate()
    algorithms = {
        AVERAGE: [st.Algorithm()],
        COSINE: [st.Algorithm(schedule=st.Cosine(), average=last)],
        COSINE_RAMP: [st.Algorithm(batch_schedule=_cosine_ramp(config.cosine_stages), average=last)],
        DOUBLING: [st.Algorithm(batch_schedule=_doublings(each), average=last) for each in config.doublings],
    }[strategy]
    return [partial(_tuned_risk, TunedRisk(problem, each), samples) for each in algorithms]


def _cosine_ramp(stages: int) -> st.Stages:
    """B ∝ 1/cos(πs/2) of the share s of the data that has been seen (T29)."""
    factors = np.cos(np.pi / 2 * (np.arange(stages) + 0.5) / stages)
    serial = np.cumsum(factors) / factors.sum()
    return st.Stages([0, *serial[:-1]], 1 / factors)


def _doublings(number: int) -> st.Stages:
    """B, 2B, 4B, …, each for the same number of samples."""
    steps = 2.0 ** -np.arange(number + 1)
    return st.Stages([0, *np.cumsum(steps)[:-1] / steps.sum()], 1 / steps)


def _tuned_risk(tuned: TunedRisk, samples: float, steps: float) -> float:
    return float(tuned.least(np.array([samples / steps]), np.array([steps])).risk[0])


def _least_risk(problem: st.PowerLaw, strategy: str, samples: float, steps: float) -> float:
    """On knots twice as far apart as those of `optimal_schedule`: within 1e-3 of its risk."""
    search = Search(problem, steps, samples, strategy != BEST_RATES, st.LastIterate(), strategy == RAMP)
    return search.half(search.begun()).risk


def _fewest(risk: Callable[[float], float], target: float, low: float, most: float) -> float:
    """Fewest steps whose risk is at most the target, not rounded if there are many; nan if no number is found."""
    known: dict[float, float] = {}

    def margin(log_steps: float) -> float:
        steps = float(np.round(np.exp(log_steps)))
        if steps not in known:
            known[steps] = float(np.log(risk(steps) / target))
        return known[steps]

    high = low
    while margin(np.log(high)) > 0:
        low, high = high, 2 * high
        if high > most:
            return np.nan
    if high == low:
        return high
    crossing: Any = brentq(margin, np.log(low), np.log(high), xtol=max(EXACTNESS, 0.3 / high))
    return float(np.exp(crossing))


def _fewest_steps(rows: list[Row], pair: tuple[float, float], strategy: str) -> np.ndarray:
    """n at increasing D."""
    mine = [row for row in rows if (row.capacity, row.source, row.strategy) == (*pair, strategy)]
    return np.array(
        [row.num_steps for row in sorted(mine, key=lambda row: row.num_samples) if not np.isfinite(row.left)]
    )


def _steps_verdict(config: Config, rows: list[Row], pair: tuple[float, float]) -> Verdict:
    """Judge whether varying B_t beside γ_t saves serial steps."""
    capacity, source = pair
    fewest = {strategy: _fewest_steps(rows, pair, strategy) for strategy in STRATEGIES}
    ratios = {strategy: steps / fewest[BEST_RATES] for strategy, steps in fewest.items()}
    saved, others = ratios[BOTH], [strategy for strategy in STRATEGIES if strategy not in (BEST_RATES, BOTH)]
    text = "; ".join(f"{strategy} {_range(ratios[strategy])}" for strategy in others)
    return Verdict(
        f"the best ramp saves serial steps: a = {capacity:g}, b = {source:g}",
        f"Fewest steps with which D samples reach {config.risk_factor:g} R_opt(D), at D = "
        f"{_sizes(config.num_samples)}: with the best γ_t and B_t, divided by the fewest with the best γ_t at a "
        f"constant batch size. Holds if the ratio is below 1 at every D. The same ratio for other strategies: {text}",
        "below 1",
        _range(saved),
        (float(saved.min()), float(saved.max())),
        "holds" if saved.max() < 1 else "fails",
    )


def _constant_verdict(config: Config, rows: list[Row]) -> Verdict:
    """T28: fewest serial steps come from the largest γ and a ramp."""
    ratios = {pair: _fewest_steps(rows, pair, RAMP) / _fewest_steps(rows, pair, BOTH) for pair in config.exponents}
    each: list[VerdictName] = [_needs_no_more(ratio, config.needs_more) for ratio in ratios.values()]
    every = np.concatenate(list(ratios.values()))
    text = "; ".join(
        f"a = {a:g}, b = {b:g}: {', '.join(f'{one:.3f}' for one in ratio)}" for (a, b), ratio in ratios.items()
    )
    return Verdict(
        "a constant γ with the best ramp needs no more serial steps than any γ_t and B_t",
        f"Its fewest steps divided by those with the best γ_t and B_t, at D = {_sizes(config.num_samples)}. Holds if "
        f"the ratio is at most {config.needs_more:g} at the largest D, fails if it is larger and does not fall with "
        f"D: {text}",
        f"at most {config.needs_more:g}",
        _range(every),
        (float(every.min()), float(every.max())),
        worst(each),
    )


def _needs_no_more(ratio: np.ndarray, limit: float) -> VerdictName:
    if ratio[-1] <= limit:
        return "holds"
    return "inconclusive" if ratio.size == 1 or ratio[-1] < ratio[-2] else "fails"


def _range(values: np.ndarray) -> str:
    found = values[np.isfinite(values)]
    if not found.size:
        return "never"
    text = f"{found.min():.3f} … {found.max():.3f}" if found.size > 1 else f"{found[0]:.3f}"
    return text if found.size == values.size else f"{text} at {found.size} of {values.size} D"


def _sizes(values: tuple[float, ...]) -> str:
    return ", ".join(power_of_ten(each) for each in values)


# ------------------------------------------------------------------ figures


def _figures(config: Config, rows: list[Row]) -> dict[str, Figure]:
    return {"optimal_ramp_shape": _shape_figure(config, rows), "optimal_ramp_steps": _steps_figure(config, rows)}


def _shape_figure(config: Config, rows: list[Row]) -> Figure:
    """B_t over its mean against (n − t)/n, a panel a problem, a line an n, with the theory's power (THEORY.md T28)."""
    figure, axes = panels(len(config.exponents))
    for axis, pair in zip(axes, config.exponents, strict=True):
        for color, steps in zip(colors(len(config.num_steps)), config.num_steps, strict=True):
            left, _, batch = _curve(rows, pair, RAMP, steps)
            axis.plot(
                left, batch / config.mean_batch_size, color=color, label=f"$n = {power_of_ten(steps).strip('$')}$"
            )
        left, _, batch = _curve(rows, pair, FAR_FROM_EDGE, max(config.num_steps))
        axis.plot(
            left,
            batch / config.mean_batch_size,
            color=VERMILLION,
            ls=":",
            label="the same, $\\gamma$ at most half the threshold",
        )
        power = 1 - 1 / (2 * pair[0])
        line = np.interp(0.03, left[::-1], batch[::-1]) / config.mean_batch_size * (left / 0.03) ** -power
        axis.plot(left, 2 * line, color=BLACK, ls="--", lw=0.9, label="theory: $(n - t)^{-(1 - 1/(2a))}$")
        log_axes(axis)
        axis.invert_xaxis()
        name_problem(axis, pair)
        axis.set(xlabel="remaining steps, $(n - t)/n$", ylabel="batch size $B_t$ / mean $D/n$")
    figure.suptitle(
        f"The best batch sizes at a constant learning rate, $D/n$ = {config.mean_batch_size:g}, and the theory's power",
        fontsize=9,
    )
    legend_below(figure, axes[0], columns=4)
    return figure


def _mathematics(text: str) -> str:
    return text.replace("γ_t", "$\\gamma_t$").replace("B_t", "$B_t$").replace("γ", "$\\gamma$")


def _steps_figure(config: Config, rows: list[Row]) -> Figure:
    """Fewest steps over those of the best γ_t at a constant batch size, against D."""
    figure, axes = panels(len(config.exponents))
    for axis, pair in zip(axes, config.exponents, strict=True):
        reference = _fewest_steps(rows, pair, BEST_RATES)
        for strategy, look in zip(STRATEGIES, categories(len(STRATEGIES)), strict=True):
            axis.plot(
                sorted(config.num_samples),
                _fewest_steps(rows, pair, strategy) / reference,
                label=_mathematics(strategy),
                **look,
            )
        log_axes(axis)
        name_problem(axis, pair)
        axis.set(xlabel="samples $D$", ylabel="relative serial steps")
    figure.suptitle(
        f"Serial steps to {config.risk_factor:g} times the optimal risk with the same data, over those of the best "
        "$\\gamma_t$ at a constant batch size",
        fontsize=9,
    )
    legend_below(figure, axes[0], columns=3)
    return figure
