"""Does a network's B* grow with the data as Corollary 8 predicts from its features? Teachers of several (a, b).

SGD with the uniform average of its iterates, the theory's algorithm, trains a perceptron under µP on teachers whose
inputs have λ_i ∝ i^−a and whose dependence on them goes like i^−b. B* at D is ω b/a of the law E = b + aB of the
samples that batch sizes take to the risk of D samples, γ tuned. Its slope in log D is compared, teacher by teacher,
with what the theory makes of the network's features: tangent features (the gradient of the output by all weights that
are trained), in which SGD is the theory's regression to first order, before and after training; and the last hidden
layer, which is all that the output's weights see. With these alone trained both are the same, and the theory is exact
but for the features' shape: that is the control.
"""

import functools
import time
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy import special

from experiments._lib.data_law_cells import KINDS, Cell, corollary8_exponent, measure, slope_of
from experiments._lib.data_law_config import FIELDS, PAIRS, Config
from experiments._lib.data_law_figures import data_law_figures
from experiments._lib.errors_in_both import Line, fit_line, share_as_high
from experiments._lib.processes import map_on_cores
from experiments._lib.redraw import Recorded
from experiments._lib.results import Result, Verdict, VerdictName

SCALES = {
    "quick": Config(),
    "full": Config(
        dict(FIELDS),
        PAIRS,
        num_samples=(512, 1448, 4096, 11585, 32768),
        batch_ratio=2.0,
        largest_batch=1024,
        num_rates=8,
        num_seeds=8,
        output_seeds=10,
        num_inputs=8192,
        population=1 << 17,
        num_resamples=400,
        store="runs",
    ),
}
UNITS = {
    "all_trained": "1 if all weights are trained, 0 if the output's alone",
    "capacity": "a of the teacher's inputs, λ_i ∝ i^−a",
    "source": "b of the teacher, whose dependence on input i goes like i^−b",
    "num_samples": "D, samples",
    "critical": "B* measured, ω b/a of the law E = b + aB, samples; empty: no plateau, or too few batch sizes",
    "critical_low": "lower end of its interval, from resampling seeds",
    "critical_high": "upper end",
    "risk": "least risk measured at D, over B and γ, in units of the teacher's variance; excess, of the output alone",
    "slope": "slope of log B* measured on log D",
    "slope_error": "its standard error, from resampling seeds",
    "inside": "share of batch and data sizes whose best learning rate is inside of the grid",
    "exponent_inputs": "Corollary 8's exponent by the inputs' a and b",
    **{
        name.format(kind): unit
        for kind, of in zip(
            KINDS,
            ("tangents before training", "tangents after it", "the last hidden layer after it"),
            strict=True,
        )
        for name, unit in (
            ("critical_{}", f"B* by the same law of the theory's exact risk of features: {of}, samples"),
            ("slope_{}", f"slope of log of that on log D: {of}"),
            ("slope_{}_error", f"its standard error, from independent inputs: {of}"),
            ("capacity_{}", f"exponent a of the eigenvalues: {of}"),
            ("capacity_{}_error", f"its standard error: {of}"),
            ("source_{}", f"exponent b of the signal: {of}"),
            ("source_{}_error", f"its standard error: {of}"),
            ("exponent_{}", f"Corollary 8's exponent by these two: {of}"),
            ("exponent_{}_error", f"its standard error: {of}"),
        )
    },
}
WORDS = {
    "slope_before": "exact theory of the tangent features before training",
    "slope_after": "exact theory of the tangent features after training",
    "slope_last": "exact theory of the last hidden layer after training",
    "exponent_before": "Corollary 8 with the exponents of the tangent features before training",
    "exponent_after": "Corollary 8 with the exponents of the tangent features after training",
    "exponent_last": "Corollary 8 with the exponents of the last hidden layer after training",
    "exponent_inputs": "Corollary 8 with the inputs' a and b",
}


def run(config: Config) -> Result:
    """Measure and predict every network, and compare the exponents."""
    start = time.perf_counter()
    places = [(*pair, trained) for pair in config.pairs for trained in ("output", "all")]
    cells = map_on_cores(functools.partial(measure, config), places, config.processes)
    columns = columns_of(config, cells)
    verdicts = verdicts_of(config, columns, time.perf_counter() - start)
    return Result(columns, UNITS, figures(config, columns), verdicts)


def redraw(config: Config, recorded: Recorded) -> dict[str, Figure]:
    """The figures, from a recorded table."""
    return figures(config, recorded.columns)


def figures(config: Config, columns: dict[str, Any]) -> dict[str, Figure]:
    """Measured against predicted exponents, and B* against D; with the lines of the verdicts."""
    table = {name: np.asarray(column, float) for name, column in columns.items()}
    lines = {(everything, name): line_of(config, table, everything, name) for everything, name in comparisons(table)}
    return data_law_figures(config, table, lines)


def columns_of(config: Config, cells: list[Cell]) -> dict[str, list]:
    """One row a network and data size."""
    rows = []
    for cell in cells:
        slope = slope_of(config.num_samples, cell.critical)
        error = slope_error(config, cell)
        law = float(corollary8_exponent(cell.capacity, cell.source))
        for place, samples in enumerate(config.num_samples):
            row = [float(cell.trained == "all"), cell.capacity, cell.source, samples, cell.critical[place]]
            row += [*interval_of(config, cell.resampled[:, place]), cell.risk[place], slope, error, cell.inside, law]
            for kind in KINDS:
                found = cell.predictions.get(kind)
                row += [found.critical[place], *found[1:]] if found else [np.nan] * 9
            rows.append(row)
    return {name: list(column) for name, column in zip(UNITS, zip(*rows, strict=True), strict=True)}


def slope_error(config: Config, cell: Cell) -> float:
    """Standard deviation of the slope over resampled seeds, for S − 1 degrees of freedom."""
    slopes = np.array([slope_of(config.num_samples, each) for each in cell.resampled])
    slopes = slopes[np.isfinite(slopes)]
    seeds = config.num_seeds if cell.trained == "all" else config.output_seeds
    return float(slopes.std() * (seeds / max(seeds - 1, 1)) ** 0.5) if slopes.size else np.nan


def interval_of(config: Config, resampled: np.ndarray) -> tuple[float, float]:
    """Between the quantiles of resampled B* that are left out evenly; nan where none is known."""
    known = resampled[np.isfinite(resampled)]
    tail = (1 - config.level) / 2
    low, high = np.quantile(known, [tail, 1 - tail]) if known.size else (np.nan, np.nan)
    return float(low), float(high)


def comparisons(table: dict[str, np.ndarray]) -> list[tuple[bool, str]]:
    """Return the comparisons: whether all weights are trained, and the column of the prediction."""
    kinds = {True: tuple(WORDS), False: ("slope_before", "exponent_before", "exponent_inputs")}
    return [(everything, name) for everything in (False, True) for name in kinds[everything]]


def points_of(table: dict[str, np.ndarray], everything: bool, name: str) -> tuple[np.ndarray, ...]:
    """Predicted and measured exponents of the networks that have both, and their standard errors.

    Of two sets of inputs a difference says little, of those of all networks together it does: their mean square is
    taken for all.
    """
    first = (table["all_trained"] == everything) & (table["num_samples"] == table["num_samples"].min())
    error = table.get(f"{name}_error", np.zeros_like(table[name]))[first]
    if name.startswith("slope"):
        known = error[np.isfinite(error)]
        error = np.full_like(error, np.sqrt(np.mean(known**2)) if known.size else np.nan)
    found = table[name][first], table["slope"][first], error, table["slope_error"][first]
    known = np.isfinite(found).all(0)
    return tuple(each[known] for each in found)


def line_of(
    config: Config, table: dict[str, np.ndarray], everything: bool, name: str, level: float | None = None
) -> Line | None:
    """Measured on predicted exponents; None with fewer than four networks, or predictions that are all the same."""
    x, y, x_error, y_error = points_of(table, everything, name)
    if len(x) < 4 or np.ptp(x) < 1e-6:
        return None
    return fit_line(x, y, x_error, y_error, level or config.level)


def decided(line: Line, strict: Line) -> VerdictName:
    """Return whether measured exponents follow the predicted ones: slope 1 within the interval, and 0 outside.

    Args:
        line: at the level of the intervals.
        strict: at a level that allows for as many comparisons as are made; "fails" only if it leaves 1 out too.
    """
    low, high = line.interval
    if 0 < low <= 1 <= high < np.inf:
        return "holds"
    return "inconclusive" if strict.interval[0] <= 1 <= strict.interval[1] else "fails"


def teachers_needed(line: Line, number: int) -> int | None:
    """Return how many such teachers leave an interval of half width ½, which cannot contain both 0 and 1.

    Half widths go like t_{K−2}/√K where scatter between teachers makes them; None where data do not bound the slope.
    """
    reach = (line.interval[1] - line.interval[0]) / 2
    if not np.isfinite(reach):
        return None
    many = np.arange(4, 10_000)
    quantile = special.stdtrit(many - 2, 0.975) / many**0.5
    wide = quantile * reach / (special.stdtrit(number - 2, 0.975) / number**0.5)
    return int(many[np.argmax(wide <= 0.5)])


def verdicts_of(config: Config, columns: dict[str, Any], seconds: float) -> tuple[Verdict, ...]:
    """One verdict a prediction."""
    table = {name: np.asarray(column, float) for name, column in columns.items()}
    verdicts = []
    for everything, name in comparisons(table):
        verdicts.append(_verdict(config, table, everything, name, seconds))
        seconds = 0.0
    return tuple(verdicts)


def _verdict(config: Config, table: dict[str, np.ndarray], everything: bool, name: str, seconds: float) -> Verdict:
    """The slope of measured on predicted exponents, the mean of their difference, and predictions in random order."""
    x, y, *_ = points_of(table, everything, name)
    what = "all weights trained" if everything else "output alone trained, the control"
    claim = f"B* ∝ D^p, p by {WORDS[name]} ({what})"
    line = line_of(config, table, everything, name)
    if line is None:
        return Verdict(claim, "fewer than four networks, or one prediction for all", 1.0, "—", None, "inconclusive")
    share = share_as_high(x, y, config.num_orders)
    away, needed = y - x, teachers_needed(line, len(x))
    level = 1 - (1 - config.level) / len(comparisons(table))
    strict = line_of(config, table, everything, name, level) or line
    answer = decided(line, strict)
    undecided = needed and needed > len(x) and answer == "inconclusive"
    more = f". About {needed} such teachers would decide" if undecided else ""
    statement = (
        f"Slope of the line of measured on predicted exponents over {len(x)} teachers, errors in both: {line.text} "
        f"({config.level:.0%}). Predicted exponents are {x.min():.2f} … {x.max():.2f}, measured ones {y.min():.2f} … "
        f"{y.max():.2f}; measured less predicted {away.mean():+.2f} ± {away.std():.2f} (mean and scatter). The two "
        f"have the correlation {line.correlation:.2f}, as high in {share:.1%} of random orders of the predictions. "
        f"Holds if the interval contains 1 and not 0, fails if the interval at {level:.1%} excludes 1{more}"
    )
    measured = line.slope if np.isfinite(line.slope) else "—"
    return Verdict(claim, statement, 1.0, measured, line.interval, answer, seconds)
