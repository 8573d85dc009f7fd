"""Where will a run end? Do bands of forecasts hold on public loss curves that are cut short?"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple, Protocol

import numpy as np
from matplotlib.figure import Figure
from scipy import stats
from scipy.optimize import minimize_scalar

import sgdtheory as st
from experiments._lib.processes import map_on_cores
from experiments._lib.results import Result, Verdict, VerdictName
from experiments._lib.rows import columns_of, rows_of
from sgdtheory.plotting.style import GRAY, categories, legend_below, log_axes, new_figure

LEVEL = 0.95
DROP = 2.0  # by which a learning rate falls from a row to the next where it jumps
POWER_ROWS = 9  # that the power law's three numbers need
MOST_DOUBT = 1.0
WITH, WITHOUT, SCATTER = "with the theory's error", "without it", "scatter alone"
LAST, POWER = "last loss", "power of Σγ"


@dataclass(frozen=True)
class Config:
    """Curves, and where they are cut.

    Attributes:
        models: sizes of the example; numbers and errors of the law come from those that are not forecast.
        names: of the curves of each; empty: all nine.
        cuts: shares of the steps that are known.
        weight_decay: of AdamW, which the data do not say.
    """

    models: tuple[str, ...] = ("25M", "100M", "400M")
    names: tuple[str, ...] = ()
    cuts: tuple[float, ...] = (0.2, 0.4, 0.6, 0.8)
    weight_decay: float = 0.1


SCALES = {"quick": Config(names=("cosine_24000", "wsdcon_9"), cuts=(0.4, 0.8)), "full": Config()}
UNITS = {
    "model": "parameters",
    "name": "of the curve",
    "cut": "share of its steps that is known",
    "others": "models whose numbers the forecast starts from",
    "measured": "loss of the last row",
    "last": "loss of the last row that is known",
    "now": "loss there, smoothed by the law",
    "forecast": "loss at the last row",
    "deviation": "standard deviation of its logarithm, of numbers and scatter",
    "scatter": "of the deviation, what the last cells scatter by",
    "too_early": "1 where the forecast says so",
    "power": "loss at the last row by a power of Σγ, fitted to the rows that are known; nan: too few",
}


class Judged(Protocol):
    """A forecast with its error, as the likelihood of the theory's error needs it."""

    @property
    def error(self) -> float:
        """Logarithm of the measured over the forecast loss."""
        ...

    @property
    def deviation(self) -> float:
        """Standard deviation of that logarithm without the theory's error."""
        ...

    @property
    def fall(self) -> float:
        """Fall of log loss that is forecast."""
        ...


class Row(NamedTuple):
    """A forecast, as in `UNITS`."""

    model: str
    name: str
    cut: float
    others: str
    measured: float
    last: float
    now: float
    forecast: float
    deviation: float
    scatter: float
    too_early: float
    power: float

    @property
    def error(self) -> float:
        """Log of measured over forecast."""
        return float(np.log(self.measured / self.forecast))

    @property
    def fall(self) -> float:
        """Return the fall of log loss that is forecast."""
        return float(np.log(self.now / self.forecast))


def run(config: Config) -> Result:
    """Forecast every curve from every cut, with the numbers of two other models, and of each of them alone."""
    start = time.perf_counter()
    items = [
        (config, model, name, cut, tuple(others))
        for model in config.models
        for name, cut in product(config.names or st.example_loss_curves(model), config.cuts)
        for others in _references(config, model)
    ]
    rows = map_on_cores(_forecast, items)
    verdicts = _verdicts(config, rows, time.perf_counter() - start)
    return Result(columns_of(rows), UNITS, {"forecasts": _figure(config, rows)}, verdicts)


def redraw(config: Config, recorded: Any) -> dict[str, Figure]:
    """The figure of a recorded table."""
    return {"forecasts": _figure(config, rows_of(Row, recorded.rows))}


# ------------------------------------------------------------------ measurements


def _references(config: Config, model: str) -> list[list[str]]:
    """All other models, and all of them but one: then that one's curves say how far the law is off."""
    others = [each for each in config.models if each != model]
    return [others, *([each for each in others if each != left] for left in others)]


def _forecast(item: tuple[Config, str, str, float, tuple[str, ...]]) -> Row:
    config, model, name, cut, others = item
    curve = st.example_loss_curves(model)[name]
    known = curve.step <= cut * curve.step[-1]
    head = st.LossCurve(curve.step[known], curve.learning_rate[known], curve.loss[known], warmup=curve.warmup)
    unknown = tuple(each for each in st.curves.PUBLIC.decayed if each not in others)
    found = st.curves.forecast_loss(
        head,
        num_steps=int(curve.step[-1]),
        learning_rate=_rates(curve),
        weight_decay=config.weight_decay,
        level=LEVEL,
        experience=st.curves.PUBLIC.without(unknown, doubt=0.0),
        optimizer="sgd",
    )
    low, high = found.band
    deviation = np.log(high / low) / (2 * stats.norm.ppf((1 + LEVEL) / 2))
    first = len(others) == len(config.models) - 1
    return Row(
        model,
        name,
        cut,
        " ".join(others),
        float(curve.loss[-1]),
        float(head.loss[-1]),
        found.now,
        found.loss,
        float(deviation),
        found.scatter,
        float(bool(found.too_early)),
        power_law(head, curve) if first else np.nan,
    )


def _rates(curve: st.LossCurve) -> np.ndarray:
    """(n,) of all steps: straight between rows, but held up to a row to which it drops."""
    steps = np.arange(curve.step[-1])
    straight = np.interp(steps, curve.step, curve.learning_rate)
    row = np.clip(np.searchsorted(curve.step, steps, "right") - 1, 0, curve.step.size - 2)
    held = curve.learning_rate[row]
    return np.where(held > DROP * curve.learning_rate[row + 1], held, straight)


def power_law(head: st.LossCurve, curve: st.LossCurve) -> float:
    """Return the loss at the curve's last row by a power of Σγ, fitted to its head; nan if that has too few rows."""
    if head.step.size < POWER_ROWS:
        return np.nan
    found = st.curves.fit_law(head, st.curves.PowerOfSum())
    return float(found.predict_curve(curve).loss[-1])


# ------------------------------------------------------------------ bands


def _cases(config: Config, rows: list[Row]) -> list[Row]:
    """Return the forecasts that start from all other models."""
    return [row for row in rows if len(row.others.split()) == len(config.models) - 1]


def _doubts(config: Config, rows: list[Row]) -> dict[str, float]:
    """Model → the law's error over the fall, found on curves of the others, forecast without a look at this model."""
    found = {}
    for model in config.models:
        others = [each for each in config.models if each != model]
        allowed = {(one, " ".join(each for each in others if each != one)) for one in others}
        found[model] = likeliest_doubt([row for row in rows if (row.model, row.others) in allowed])
    return found


def likeliest_doubt(rows: Sequence[Judged]) -> float:
    """Return the likeliest error of the theory over the fall.

    Errors are taken as normal with variance deviation² + (doubt · fall)².
    """
    error, deviation, fall = np.array([(row.error, row.deviation, row.fall) for row in rows]).T

    def surprise(doubt: float) -> float:
        variance = deviation**2 + (doubt * fall) ** 2
        return float((np.log(variance) + error**2 / variance).sum())

    found: Any = minimize_scalar(surprise, bounds=(0.0, MOST_DOUBT), method="bounded")
    return float(found.x)


def _half_widths(config: Config, rows: list[Row], kind: str) -> np.ndarray:
    """(K,) of log loss, of the cases."""
    doubts = _doubts(config, rows)
    deviations = {
        WITH: lambda row: np.hypot(row.deviation, doubts[row.model] * row.fall),
        WITHOUT: lambda row: row.deviation,
        SCATTER: lambda row: row.scatter,
    }
    return stats.norm.ppf((1 + LEVEL) / 2) * np.array([deviations[kind](row) for row in _cases(config, rows)])


def _inside(config: Config, rows: list[Row], kind: str) -> np.ndarray:
    """(K,) whether the band of a case holds what was measured."""
    errors = np.array([row.error for row in _cases(config, rows)])
    return np.abs(errors) <= _half_widths(config, rows, kind)


def _simple_errors(cases: list[Row], way: str) -> np.ndarray:
    """(K,) log of measured over what a simple forecast says; nan where there is none."""
    return np.array([np.log(row.measured / (row.last if way == LAST else row.power)) for row in cases])


def _simple_half_widths(config: Config, cases: list[Row], way: str) -> np.ndarray:
    """(K,) that hold 95% of such errors of the other models, at the same cut."""
    errors = np.abs(_simple_errors(cases, way))
    return np.array(
        [
            np.nanquantile(errors[[each.model != row.model and each.cut == row.cut for each in cases]], LEVEL)
            for row in cases
        ]
    )


# ------------------------------------------------------------------ verdicts


def _verdicts(config: Config, rows: list[Row], seconds: float) -> tuple[Verdict, ...]:
    cases = _cases(config, rows)
    curves = len({(row.model, row.name) for row in cases})
    low, high = (float(each) / curves for each in stats.binom.interval(LEVEL, curves, LEVEL))
    counted = (
        f"The cuts of one curve share rows and count as one case. Of the {curves} cases true 95% bands contain a "
        f"fraction of {low:.2f} … {high:.2f}. Constant and WSD runs of a model share rows too"
    )
    doubts = ", ".join(f"{name} {doubt:.1%}" for name, doubt in _doubts(config, rows).items())
    shares = {kind: float(_inside(config, rows, kind).mean()) for kind in (WITH, WITHOUT, SCATTER)}
    by_model = ", ".join(f"{name} {_share(config, rows, name):.2f}" for name in config.models)
    return (
        Verdict(
            "95% bands contain the final loss",
            f"Fraction of the bands of {len(cases)} runs cut short that contain the final loss. The first parameters "
            f"and the law's own error, relative to the predicted fall ({doubts}), come from the other models alone. "
            f"By model: {by_model}. {counted}",
            f"{LEVEL:.2f}",
            f"{shares[WITH]:.3f}",
            (low, high),
            "holds" if low <= shares[WITH] <= high else "fails",
            seconds,
        ),
        _control(config, rows, WITHOUT, "the bands need the theory's own error"),
        Verdict(
            "bands from the scatter alone are too narrow",
            f"Control: the same forecasts and cases, with parameters and law taken as exact. {counted}",
            f"< {low:.2f}",
            f"{shares[SCATTER]:.3f}",
            None,
            "holds" if shares[SCATTER] < low else "fails",
        ),
        _useful(config, rows),
    )


def _share(config: Config, rows: list[Row], model: str) -> float:
    mine = [row.model == model for row in _cases(config, rows)]
    return float(_inside(config, rows, WITH)[mine].mean())


def _control(config: Config, rows: list[Row], kind: str, claim: str) -> Verdict:
    """Errors in units of the band without the theory's own error: their mean square is 1 if it is not needed."""
    cases = _cases(config, rows)
    curves = len({(row.model, row.name) for row in cases})
    square = float(np.mean([(row.error / row.deviation) ** 2 for row in cases]))
    share = float(_inside(config, rows, kind).mean())
    high = float(stats.chi2.ppf((1 + LEVEL) / 2, curves) / curves)
    low = float(stats.chi2.ppf((1 - LEVEL) / 2, curves) / curves)
    name: VerdictName = "holds" if square > high else "inconclusive"
    return Verdict(
        claim,
        f"Control: mean square of the errors divided by their standard deviation without the theory's own error. It "
        f"is 1 if the theory's own error is not needed, and {low:.2f} … {high:.2f} by chance with {curves} cases. "
        f"Bands without it contain a fraction of {share:.3f} of the final losses",
        f"> {high:.2f}",
        f"{square:.2f}",
        None,
        name,
    )


def _useful(config: Config, rows: list[Row]) -> Verdict:
    """Widths against those of simple forecasts that hold as often."""
    cases = _cases(config, rows)
    ours = _half_widths(config, rows, WITH)
    theirs = {way: _simple_half_widths(config, cases, way) for way in (LAST, POWER)}
    ratios = []
    for cut in config.cuts:
        mine = [row.cut == cut for row in cases]
        best = min(float(np.median(each[mine])) for each in theirs.values())
        ratios.append(float(np.median(ours[mine])) / best)
    text = ", ".join(f"{ratio:.2f} at {cut:.0%}" for cut, ratio in zip(config.cuts, ratios, strict=True))
    below = [ratio < 1 for ratio in ratios]
    return Verdict(
        "bands are narrower than those of simple forecasts",
        f"Median width of the bands divided by that of the better simple forecast, the last loss or a power of Σγ, "
        f"whose bands contain 95% of the other models' errors at the same cut: {text}",
        "< 1 at every cut",
        f"{max(ratios):.2f}",
        (min(ratios), max(ratios)),
        "holds" if all(below) else "inconclusive" if any(below) else "fails",
    )


# ------------------------------------------------------------------ figure


def _figure(config: Config, rows: list[Row]) -> Figure:
    """Coverage and width against the cut."""
    cases = _cases(config, rows)
    cuts = np.array([row.cut for row in cases])
    figure, axes = new_figure(1, 2, width=4.2, height=3.4)
    left, right = axes[0]
    styles = dict(zip((WITH, WITHOUT, SCATTER, LAST, POWER), categories(5), strict=True))
    dashed: dict[str, Any] = {"color": GRAY, "ls": "--"}
    percent = 100 * np.array(config.cuts)

    def medians(values: np.ndarray) -> list[float]:
        return [100 * float(np.median(values[cuts == cut])) for cut in config.cuts]

    for kind in (WITH, WITHOUT, SCATTER):
        inside = _inside(config, rows, kind)
        left.plot(percent, [100 * inside[cuts == cut].mean() for cut in config.cuts], label=kind, **styles[kind])
    left.axhline(100 * LEVEL, color=GRAY, lw=0.8)
    left.set(title="95% bands with the final loss", ylabel="bands (%)", ylim=(0, 104), xlabel="known part of a run (%)")
    right.plot(percent, medians(_half_widths(config, rows, WITH)), **styles[WITH])
    for way in (LAST, POWER):
        right.plot(percent, medians(_simple_half_widths(config, cases, way)), **styles[way])
        left.plot([], [], label=way, **styles[way])
    right.plot(percent, medians(np.abs([row.error for row in cases])), **dashed)
    left.plot([], [], label="error of the forecast", **dashed)
    right.set(title="half width of 95% bands, median", ylabel="% of the loss", xlabel="known part of a run (%)")
    log_axes(right, "y")
    legend_below(figure, left, columns=3)
    held, runs = int(_inside(config, rows, WITH).sum()), len({(row.model, row.name) for row in cases})
    figure.suptitle(f"Forecasts: {held} of {len(cases)} bands contain the final loss of {runs} public runs")
    return figure
