"""Do steps to a target follow a + b/B? MLPerf's reference runs at 5 to 13 batch sizes of real systems."""

import csv
import time
from dataclasses import dataclass
from functools import partial
from importlib import resources
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from scipy import stats

import sgdtheory as st
from experiments._lib.processes import map_on_cores
from experiments._lib.redraw import Recorded
from experiments._lib.results import Result, Verdict


@dataclass(frozen=True)
class Config:
    """Levels, and replicas of the simulation of pruning."""

    level: float = 0.95
    rejected: float = 0.01  # p-value below which a law counts as rejected
    replicas: int = 100
    seed: int = 0


SCALES = {"quick": Config(), "full": Config(replicas=1000)}
UNITS = {
    "benchmark": "name",
    "batch_size": "samples; gpt3: sequences",
    "steps": "mean of the reference runs; cosmoflow, deepcam, rgat and rnnt: up to a factor",
    "standard_error": "of the steps, relative to them, with the rounding to evaluations",
    "law": "steps by a + b/B",
    "balance": "b/a of the benchmark",
    "balance_low": "lower end of its confidence interval",
    "balance_high": "upper end of its confidence interval",
    "critical": "B*: 20% more samples than at the smallest batch size",
    "critical_low": "lower end of its confidence interval",
    "critical_high": "upper end of its confidence interval",
    "misfit": "scatter of log steps about the law beyond standard errors",
    "chi_square": "of a + b/B",
    "p_value": "of a + b/B",
    "alpha": "of a + b/B^α",
    "alpha_low": "lower end of its confidence interval",
    "alpha_high": "upper end of its confidence interval",
    "alpha_misfit": "scatter about a + b/B^α beyond standard errors",
    "alpha_chi_square": "of a + b/B^α",
    "alpha_p_value": "of a + b/B^α",
    "early": "b/a with half an evaluation interval taken off all steps, over b/a",
    "pruned": "b/a by the points that MLPerf's checker keeps, over b/a; nan with fewer than three",
    "pruned_simulated": "the same where the law holds and points scatter as they do, median",
}
EXACT = 0.05  # of b/a: to which a shift counts as foretold


class Found(NamedTuple):
    """Results of the fits of one benchmark, in the order of the columns."""

    balance: float
    balance_low: float
    balance_high: float
    critical: float
    critical_low: float
    critical_high: float
    misfit: float
    chi_square: float
    p_value: float
    alpha: float
    alpha_low: float
    alpha_high: float
    alpha_misfit: float
    alpha_chi_square: float
    alpha_p_value: float
    early: float
    pruned: float
    pruned_simulated: float


def run(config: Config) -> Result:
    """Fit every benchmark with both laws, and see what evaluation and pruning do."""
    start = time.perf_counter()
    benchmarks = st.example_measurements("mlperf")
    found = map_on_cores(partial(_fit, config), range(len(benchmarks)))
    columns: dict[str, list[Any]] = {name: [] for name in UNITS}
    for benchmark, one in zip(benchmarks, found, strict=True):
        law = _law(benchmark)
        points = zip(benchmark.batch_sizes, benchmark.steps, _errors(benchmark), strict=True)
        for batch, steps, error in points:
            row = (benchmark.group, batch, steps, error, float(law.predict(batch)), *one)
            for name, value in zip(UNITS, row, strict=True):
                columns[name].append(value)
    arrays = {name: np.array(column) for name, column in columns.items()}
    verdicts = _verdicts(config, arrays, time.perf_counter() - start)
    return Result(columns, UNITS, {"mlperf": _figure()}, verdicts)


def redraw(config: Config, recorded: Recorded) -> dict[str, Figure]:
    """The figure, of data that come with the package."""
    return {"mlperf": _figure()}


def _law(benchmark: st.fits.StepsMeasurement, alpha: float | None = 1.0) -> st.fits.StepsLaw:
    return st.fit_steps_law(
        benchmark.batch_sizes, benchmark.steps, alpha=alpha, standard_errors=benchmark.standard_errors
    )


def _errors(benchmark: st.fits.StepsMeasurement) -> np.ndarray:
    assert benchmark.standard_errors is not None
    return benchmark.standard_errors


def _fit(config: Config, place: int) -> Found:
    benchmark = st.example_measurements("mlperf")[place]
    law, free = _law(benchmark), _law(benchmark, None)
    convention, balance = st.Convention(reference=None), law.b / law.a
    early = st.fit_steps_law(
        benchmark.batch_sizes, benchmark.steps - evaluation_interval(benchmark) / 2, standard_errors=_errors(benchmark)
    )
    return Found(
        balance,
        *law.interval("b/a", config.level),
        law.critical_batch_size(convention=convention),
        *law.interval(level=config.level, convention=convention),
        law.misfit,
        law.chi_square,
        law.lack_of_fit.p_value,
        free.alpha,
        *free.interval("alpha", config.level),
        free.misfit,
        free.chi_square,
        free.lack_of_fit.p_value,
        early.b / early.a / balance,
        _pruned_balance(law, law.steps) / _balance(law.batch_sizes, law.steps),
        _pruned_by_chance(config, law) / balance,
    )


def evaluation_interval(benchmark: st.fits.StepsMeasurement) -> np.ndarray:
    """(m,) steps between two evaluations."""
    table = resources.files("sgdtheory.fits") / "data" / "mlperf_steps.csv"
    rows = csv.DictReader(table.read_text(encoding="utf-8").splitlines())
    steps = {
        float(row["batch_size"]): float(row["evaluation_interval"])
        for row in rows
        if row["benchmark"] == benchmark.group
    }
    return np.array([steps[batch] for batch in benchmark.batch_sizes])


# ------------------------------------------------------------------ pruning


def kept(batch_sizes: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Places of the points that MLPerf's checker holds submissions against (`_prune_rcps` of its rcp_checker).

    Batch sizes below that of the fewest samples go, and then every point that needs more samples than the line between
    its neighbours allows.
    """
    samples = batch_sizes * steps
    places = list(range(int(samples.argmin()), samples.size))
    k = 1
    while k < len(places) - 1:
        ends = [places[k - 1], places[k + 1]]
        if samples[places[k]] > np.interp(batch_sizes[places[k]], batch_sizes[ends], samples[ends]):
            del places[k]  # and on with the next, without a look back: as there, this is not the convex envelope
        else:
            k += 1
    return np.array(places)


def _pruned_balance(law: st.fits.StepsLaw, steps: np.ndarray) -> float:
    """b/a by the points that are kept, which count alike; nan with fewer than three."""
    places = kept(law.batch_sizes, steps)
    return _balance(law.batch_sizes[places], steps[places]) if places.size > 2 else float("nan")


def _balance(batch_sizes: np.ndarray, steps: np.ndarray) -> float:
    found = st.fit_steps_law(batch_sizes, steps)
    return found.b / found.a if found.a else np.inf


def _pruned_by_chance(config: Config, law: st.fits.StepsLaw) -> float:
    """Median b/a of pruned points where the law holds and points scatter by their errors and the misfit."""
    assert law.standard_errors is not None
    rng, errors = np.random.default_rng(config.seed), np.hypot(law.standard_errors, law.misfit)
    noise = errors * rng.standard_normal((config.replicas, law.steps.size))
    found = [_pruned_balance(law, law.predict(law.batch_sizes) * np.exp(row)) for row in noise]
    return float(np.nanmedian(found))


# ------------------------------------------------------------------ verdicts


def _benchmarks(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """One row a benchmark."""
    _, first = np.unique(columns["benchmark"], return_index=True)
    return {name: values[first] for name, values in columns.items()}


def _verdicts(config: Config, columns: dict[str, np.ndarray], seconds: float) -> tuple[Verdict, ...]:
    rows = _benchmarks(columns)
    return (_law_verdict(config, rows, seconds), _exponent_verdict(config, rows), *_bias_verdicts(rows))


def _law_verdict(config: Config, rows: dict[str, np.ndarray], seconds: float) -> Verdict:
    number, rejected = rows["p_value"].size, int((rows["p_value"] < config.rejected).sum())
    free = int((rows["alpha_p_value"] < config.rejected).sum())
    low, middle, high = (float(np.quantile(rows["misfit"], share)) for share in (0, 0.5, 1))
    chance = float(stats.binom.sf(rejected - 1, number, config.rejected))
    return Verdict(
        "MLPerf's steps scatter about a + b/B by more than their standard errors",
        f"Hyper-parameters differ between batch sizes, so this does not test the law for tuned runs. At "
        f"{config.rejected:.0%} a + b/B is rejected on {rejected} of {number} benchmarks, and a + b/B^α on {free}. "
        f"Steps scatter about a + b/B by {low:.1%} … {high:.0%} beyond their standard errors, with median {middle:.1%}",
        "misfit above 0",
        middle,
        (low, high),
        "holds" if chance < 1e-4 else "fails",
        seconds,
    )


def _exponent_verdict(config: Config, rows: dict[str, np.ndarray]) -> Verdict:
    outside = (rows["alpha_low"] > 1) | (rows["alpha_high"] < 1)
    logs = np.log(rows["alpha"])
    half = stats.t.ppf((1 + config.level) / 2, logs.size - 1) * logs.std(ddof=1) / np.sqrt(logs.size)
    low, high = (float(np.exp(logs.mean() + side * half)) for side in (-1, 1))
    names = ", ".join(rows["benchmark"][outside]) or "none"
    return Verdict(
        "α = 1",
        f"Geometric mean of α over {logs.size} benchmarks, with the {config.level:.0%} interval from their scatter. "
        f"Single benchmarks whose interval excludes 1: {names}",
        1.0,
        float(np.exp(logs.mean())),
        (low, high),
        "holds" if low <= 1 <= high else "fails",
    )


def _bias_verdicts(rows: dict[str, np.ndarray]) -> tuple[Verdict, ...]:
    early, simulated = rows["early"], rows["pruned_simulated"]
    pruned = rows["pruned"][np.isfinite(rows["pruned"])]
    factor = rows["balance_high"] / rows["balance_low"]
    inside = [
        low <= balance * shift <= high
        for low, high, balance, shift in zip(
            rows["balance_low"], rows["balance_high"], rows["balance"], early, strict=True
        )
    ]
    return (
        Verdict(
            "coarse evaluation",
            f"b/a after half an evaluation interval is subtracted from the steps, divided by b/a. Evaluation at fixed "
            f"numbers of samples adds to b alone. The corrected b/a is inside the interval of b/a on {sum(inside)} of "
            f"{len(inside)} benchmarks",
            "inside of the intervals",
            float(np.median(early)),
            (float(early.min()), float(early.max())),
            "holds" if all(inside) else "fails",
        ),
        Verdict(
            "pruning",
            f"b/a from the points that MLPerf's checker keeps, divided by b/a from all points, in simulations in "
            f"which a + b/B holds and points scatter as observed (medians of benchmarks). On the data the ratio is "
            f"{pruned.min():.2f} … {pruned.max():.2f} on {pruned.size} benchmarks. The intervals of b/a span factors "
            f"of {factor.min():.2f} … {factor[np.isfinite(factor)].max():.1f}",
            "1",
            float(np.median(simulated)),
            (float(simulated.min()), float(simulated.max())),
            "holds" if abs(np.log(np.median(simulated))) < EXACT else "fails",
        ),
    )


def _figure() -> Figure:
    benchmarks = st.example_measurements("mlperf")
    return st.plot.scaled_steps(benchmarks, [_law(each) for each in benchmarks])
