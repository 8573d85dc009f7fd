"""Do bands of forecasts hold on runs that nothing here was fitted to? 228 public runs of another group, cut short."""

import csv
import gzip
import time
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from scipy import stats

import sgdtheory as st
from experiments._lib.processes import map_on_cores
from experiments._lib.results import Result, Verdict
from experiments._lib.rows import columns_of, rows_of
from experiments.forecasts import LAST, LEVEL, POWER, SCATTER, likeliest_doubt, power_law
from sgdtheory.plotting.style import GRAY, categories, legend_below, log_axes, new_figure

QUANTILE = float(stats.norm.ppf((1 + LEVEL) / 2))
DATA = Path(__file__).parent / "data"
WARMUP = 300  # Steps in which the learning rate of all these runs rises.
WEIGHT_DECAY = 0.1
LATEST = 3  # Rows whose mean is the last loss: single rows scatter by about 0.3%.
ONE_GROUP = 0.075  # The law's error over the fall of log loss, likeliest on the 27 curves of `forecasts`.
DRAWS = 10_000  # Resampled sets of families; the ends of an interval are then known to about 0.002.
OTHERS, OLD = "theory's error from other families", "theory's error from 27 other runs"


@dataclass(frozen=True)
class Config:
    """Runs to forecast, and the shares of their steps that are known.

    Attributes:
        every: take every so manyth run.
        cuts: shares of the steps that are known.
    """

    every: int = 1
    cuts: tuple[float, ...] = (0.3, 0.5, 0.7)


SCALES = {"quick": Config(every=45, cuts=(0.5, 0.7)), "full": Config()}
UNITS = {
    "run": "number in experiments/data/lr_scheduling_runs.csv",
    "family": "data set, layers, sequences a step and peak learning rate: runs of a family share rows or data",
    "schedule": "cos, wsd or wsd_twostage, and the share of the steps in which wsd decays",
    "cut": "share of the steps that is known",
    "measured": "loss of the last row",
    "last": "mean loss of the last three rows that are known",
    "now": "loss at the cut, smoothed by the law",
    "forecast": "loss at the last row",
    "deviation": "standard deviation of the logarithm of the forecast, of numbers and scatter, without the law's error",
    "scatter": "part of the deviation that is scatter of the rows",
    "power": "loss at the last row by a power of Σγ, fitted to the rows that are known; nan: too few rows",
}


class Row(NamedTuple):
    """A forecast, as in `UNITS`."""

    run: int
    family: str
    schedule: str
    cut: float
    measured: float
    last: float
    now: float
    forecast: float
    deviation: float
    scatter: float
    power: float

    @property
    def error(self) -> float:
        """Return the logarithm of the measured over the forecast loss."""
        return float(np.log(self.measured / self.forecast))

    @property
    def fall(self) -> float:
        """Return the fall of log loss that is forecast."""
        return float(np.log(self.now / self.forecast))


def run(config: Config) -> Result:
    """Forecast every run from every cut with what the package ships, as `sgdtheory forecast` does."""
    start = time.perf_counter()
    chosen = [number for number in range(len(_runs())) if number % config.every == 0]
    rows = map_on_cores(_forecast, list(product(chosen, config.cuts)))
    verdicts = _verdicts(config, rows, time.perf_counter() - start)
    return Result(columns_of(rows), UNITS, {"forecasts_unseen": _figure(config, rows)}, verdicts)


def redraw(config: Config, recorded: Any) -> dict[str, Figure]:
    """Return the figure of a recorded table."""
    return {"forecasts_unseen": _figure(config, rows_of(Row, recorded.rows))}


# ------------------------------------------------------------------ measurements


@cache
def _runs() -> list[dict[str, str]]:
    with (DATA / "lr_scheduling_runs.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@cache
def _rows() -> np.ndarray:
    """Return the rows of all runs: run, step, learning rate, loss; (N, 4)."""
    with gzip.open(DATA / "lr_scheduling.csv.gz", "rt") as file:
        return np.loadtxt(file, delimiter=",", skiprows=1)


def curve_of(number: int) -> st.LossCurve:
    """Return the loss curve of a run."""
    _, steps, rates, losses = _rows()[_rows()[:, 0] == number].T
    return st.LossCurve(steps, rates, losses, warmup=WARMUP)


def _forecast(item: tuple[int, float]) -> Row:
    number, cut = item
    about = _runs()[number]
    curve = curve_of(number)
    count = int(curve.step[-1])
    known = curve.step <= cut * float(about["steps"])
    head = st.LossCurve(curve.step[known], curve.learning_rate[known], curve.loss[known], warmup=WARMUP)
    found = st.curves.forecast_loss(
        head,
        num_steps=count,
        learning_rate=np.interp(np.arange(count), curve.step, curve.learning_rate),
        weight_decay=WEIGHT_DECAY,
        optimizer="adam",
        level=LEVEL,
        experience=st.curves.PUBLIC._replace(doubt=0.0),
    )
    low, high = found.band
    share = f" {float(about['decay_share']):g}" if about["schedule"] != "cos" else ""
    return Row(
        number,
        " ".join(about[name] for name in ("dataset", "layers", "sequences", "peak_learning_rate")),
        about["schedule"] + share,
        cut,
        float(curve.loss[-1]),
        float(head.loss[-LATEST:].mean()),
        found.now,
        found.loss,
        float(np.log(high / low)) / (2 * QUANTILE),
        found.scatter,
        power_law(head, curve),
    )


# ------------------------------------------------------------------ bands


def half_widths(rows: list[Row], kind: str = OTHERS) -> np.ndarray:
    """Return half widths of bands in log loss, (K,).

    The law's error of `OTHERS` is the likeliest one on all other families, so that no band knows of its own run.
    """
    if kind == SCATTER:
        return QUANTILE * np.array([row.scatter for row in rows])
    doubts = dict.fromkeys({row.family for row in rows}, ONE_GROUP)
    if kind == OTHERS:
        doubts = {name: likeliest_doubt([row for row in rows if row.family != name]) for name in doubts}
    return QUANTILE * np.array([np.hypot(row.deviation, doubts[row.family] * row.fall) for row in rows])


def inside(rows: list[Row], kind: str = OTHERS) -> np.ndarray:
    """Return whether each band holds what was measured, (K,)."""
    return np.abs([row.error for row in rows]) <= half_widths(rows, kind)


def share_of_families(rows: list[Row], held: np.ndarray) -> tuple[float, float, float]:
    """Return the share of bands that hold and its 95% interval, families of runs drawn with replacement."""
    families = sorted({row.family for row in rows})
    index = np.array([families.index(row.family) for row in rows])
    counts = np.array([np.bincount(index, each, len(families)) for each in (held, np.ones(len(rows)))])
    drawn = np.random.default_rng(0).multinomial(len(families), np.full(len(families), 1 / len(families)), DRAWS)
    hits, cases = counts @ drawn.T
    low, high = np.quantile(hits / cases, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(held.mean()), float(low), float(high)


def simple_errors(rows: list[Row], way: str) -> np.ndarray:
    """Return the logarithm of measured over simply forecast losses, (K,); nan where there is no simple forecast."""
    return np.array([np.log(row.measured / (row.last if way == LAST else row.power)) for row in rows])


def simple_half_width(rows: list[Row], way: str, share: float) -> float:
    """Return the half width in log loss with which a simple forecast's band holds this share of these very runs."""
    return float(np.nanquantile(np.abs(simple_errors(rows, way)), share))


# ------------------------------------------------------------------ verdicts


def _verdicts(config: Config, rows: list[Row], seconds: float) -> tuple[Verdict, ...]:
    families = len({row.family for row in rows})
    counted = (
        f"The 95% interval comes from {families} families of runs drawn with replacement, because runs of a family "
        f"share rows"
    )
    held = {kind: inside(rows, kind) for kind in (OTHERS, OLD, SCATTER)}
    found = {kind: share_of_families(rows, each) for kind, each in held.items()}
    of = {kind: _by_cut(config, rows, 100 * held[kind], np.mean, "{:.0f}%") for kind in (OTHERS, OLD)}
    return (
        _coverage(
            "95% bands contain the final losses of another group's runs",
            f"Bands that contain the final loss: {of[OTHERS]} of the run. The theory's own error, relative to the "
            f"predicted fall, is the most likely value on the other families. Over all families it is "
            f"{likeliest_doubt(rows):.3f}. {counted}",
            found[OTHERS],
            seconds,
        ),
        _coverage(
            "the theory's error on one group's runs is enough for another's",
            f"Bands that contain the final loss: {of[OLD]} of the run. The theory's own error is {ONE_GROUP}, the "
            f"most likely value on the 27 curves of the experiment forecasts. {counted}",
            found[OLD],
        ),
        Verdict(
            "bands from the scatter alone are too narrow",
            f"Control: the same forecasts, with parameters and law taken as exact. {counted}",
            f"< {LEVEL:.2f}",
            f"{found[SCATTER][0]:.3f}",
            found[SCATTER][1:],
            "holds" if found[SCATTER][2] < LEVEL else "inconclusive",
        ),
        _useful(config, rows),
    )


def _by_cut(config: Config, rows: list[Row], values: np.ndarray, middle: Any, form: str) -> str:
    cuts = np.array([row.cut for row in rows])
    return ", ".join(f"{form.format(middle(values[cuts == cut]))} at {cut:.0%}" for cut in config.cuts)


def _coverage(claim: str, text: str, found: tuple[float, float, float], seconds: float = 0.0) -> Verdict:
    share, low, high = found
    return Verdict(
        claim, text, f"{LEVEL:.2f}", f"{share:.3f}", (low, high), "holds" if high >= LEVEL else "fails", seconds
    )


def _useful(config: Config, rows: list[Row]) -> Verdict:
    """Compare widths with those of simple forecasts whose bands hold as often."""
    ratios = []
    widths, held = half_widths(rows), inside(rows)
    for cut in config.cuts:
        mine = [number for number, row in enumerate(rows) if row.cut == cut]
        these = [rows[number] for number in mine]
        best = min(simple_half_width(these, way, float(held[mine].mean())) for way in (LAST, POWER))
        ratios.append(float(np.median(widths[mine])) / best)
    text = ", ".join(f"{ratio:.2f} at {cut:.0%}" for cut, ratio in zip(config.cuts, ratios, strict=True))
    below = [ratio < 1 for ratio in ratios]
    return Verdict(
        "bands are narrower than those of simple forecasts",
        f"Median width of the bands divided by that of the better simple forecast, the last loss or a power of Σγ, "
        f"with bands that are as wide as needed to contain as many of these final losses: {text}",
        "< 1 at every cut",
        f"{max(ratios):.2f}",
        (round(min(ratios), 2), round(max(ratios), 2)),
        "holds" if all(below) else "inconclusive" if any(below) else "fails",
    )


# ------------------------------------------------------------------ figure


def _figure(config: Config, rows: list[Row]) -> Figure:
    """Draw coverage and width against the share of a run that is known."""
    figure, axes = new_figure(1, 2, width=4.2, height=3.4)
    left, right = axes[0]
    styles = dict(zip((OTHERS, OLD, SCATTER, LAST, POWER), categories(5), strict=True))
    dashed: dict[str, Any] = {"color": GRAY, "ls": "--"}
    percent = 100 * np.array(config.cuts)
    cuts = np.array([row.cut for row in rows])
    held = inside(rows)

    def at_cuts(values: np.ndarray, middle: Any = np.median) -> list[float]:
        return [100 * float(middle(values[cuts == cut])) for cut in config.cuts]

    for kind in (OTHERS, OLD, SCATTER):
        left.plot(percent, at_cuts(inside(rows, kind), np.mean), label=kind, **styles[kind])
    left.axhline(100 * LEVEL, color=GRAY, lw=0.8)
    left.set(
        title="bands that contain the final loss",
        ylabel="bands (%)",
        ylim=(0, 104),
        xlabel="share of the run known (%)",
    )
    for kind in (OTHERS, OLD):
        right.plot(percent, at_cuts(half_widths(rows, kind)), **styles[kind])
    for way in (LAST, POWER):
        parts = [([row for row in rows if row.cut == cut], held[cuts == cut].mean()) for cut in config.cuts]
        right.plot(percent, [100 * simple_half_width(part, way, float(share)) for part, share in parts], **styles[way])
        left.plot([], [], label=way, **styles[way])
    right.plot(percent, at_cuts(np.abs([row.error for row in rows])), **dashed)
    left.plot([], [], label="error of the forecast, median", **dashed)
    right.set(title="half width of such bands", ylabel="% of the loss", xlabel="share of the run known (%)")
    log_axes(right, "y")
    legend_below(figure, left, columns=3)
    runs = len({row.run for row in rows})
    figure.suptitle(f"{held.sum()} of {len(rows)} 95% bands contain the final loss of {runs} runs of another group")
    return figure
