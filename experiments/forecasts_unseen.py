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
from experiments._lib.results import Result, Verdict, VerdictName
from experiments._lib.rows import columns_of, rows_of
from sgdtheory.plotting.style import GRAY, categories, legend_below, log_axes, new_figure

LEVEL = 0.95
QUANTILE = float(stats.norm.ppf((1 + LEVEL) / 2))
DATA = Path(__file__).parent / "data"
WARMUP = 300  # Steps in which the learning rate of all these runs rises.
WEIGHT_DECAY = 0.1
LATEST = 3  # Rows whose mean is the last loss: single rows scatter by about 0.3%.
POWER_ROWS = 9  # Rows that the three numbers of the power law need.
DRAWS = 10_000  # Resampled sets of families; the ends of an interval are then known to about 0.002.
WITH, WITHOUT, SCATTER = "the band", "without the law's error", "scatter alone"
LAST, POWER = "last loss", "power of Σγ"


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
    "deviation": "standard deviation of the logarithm of the forecast, the law's error and the scatter in it",
    "scatter": "part of the deviation that is scatter of the rows",
    "too_early": "1 where the forecast says that it is too early",
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
    too_early: float
    power: float

    @property
    def error(self) -> float:
        """Return the logarithm of the measured over the forecast loss."""
        return float(np.log(self.measured / self.forecast))

    def half_width(self, kind: str) -> float:
        """Return the half width of a band in log loss: the whole band, without the law's error, or scatter alone."""
        law = st.curves.PUBLIC.doubt * np.log(self.now / self.forecast)
        variance = {
            WITH: self.deviation**2,
            WITHOUT: max(self.deviation**2 - law**2, self.scatter**2),
            SCATTER: self.scatter**2,
        }
        return QUANTILE * float(np.sqrt(variance[kind]))


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
    )
    low, high = found.band
    power = np.nan
    if head.step.size >= POWER_ROWS:
        power = float(st.curves.fit_law(head, st.curves.PowerOfSum()).predict_curve(curve).loss[-1])
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
        float(bool(found.too_early)),
        power,
    )


# ------------------------------------------------------------------ bands


def inside(rows: list[Row], kind: str = WITH) -> np.ndarray:
    """Return whether each band holds what was measured, (K,)."""
    return np.array([abs(row.error) <= row.half_width(kind) for row in rows])


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


def at_cut(rows: list[Row], cut: float) -> list[Row]:
    """Return the forecasts from one cut."""
    return [row for row in rows if row.cut == cut]


# ------------------------------------------------------------------ verdicts


def _verdicts(config: Config, rows: list[Row], seconds: float) -> tuple[Verdict, ...]:
    families = len({row.family for row in rows})
    counted = f"95% interval from {families} families of runs drawn with replacement, since runs of a family share rows"
    clear = [row for row in rows if not row.too_early]
    found = {kind: share_of_families(rows, inside(rows, kind)) for kind in (WITH, WITHOUT, SCATTER)}
    cuts = ", ".join(f"{inside(at_cut(rows, cut)).mean():.3f} at {cut:.0%}" for cut in config.cuts)
    return (
        _coverage("a forecast's 95% band holds on runs of another group", f"{cuts}; {counted}", found[WITH], seconds),
        _coverage(
            "the band holds where the forecast does not say that it is too early",
            f"{len(clear)} of {len(rows)} forecasts; {counted}",
            share_of_families(clear, inside(clear)) if clear else (np.nan, 0.0, 1.0),
        ),
        _control("the band needs the law's own error", found[WITHOUT], counted),
        _control("a band of the scatter alone does not hold", found[SCATTER], counted),
        _useful(config, rows),
    )


def _coverage(claim: str, text: str, found: tuple[float, float, float], seconds: float = 0.0) -> Verdict:
    share, low, high = found
    return Verdict(
        claim, text, f"{LEVEL:.2f}", f"{share:.3f}", (low, high), "holds" if high >= LEVEL else "fails", seconds
    )


def _control(claim: str, found: tuple[float, float, float], counted: str) -> Verdict:
    share, low, high = found
    name: VerdictName = "holds" if high < LEVEL else "inconclusive"
    return Verdict(
        claim,
        f"control: share of the same cases that the narrower band holds; {counted}",
        f"< {LEVEL:.2f}",
        f"{share:.3f}",
        (low, high),
        name,
    )


def _useful(config: Config, rows: list[Row]) -> Verdict:
    """Compare widths with those of simple forecasts whose bands hold as often."""
    ratios = []
    for cut in config.cuts:
        mine = at_cut(rows, cut)
        ours = float(np.median([row.half_width(WITH) for row in mine]))
        share = float(inside(mine).mean())
        ratios.append(ours / min(simple_half_width(mine, way, share) for way in (LAST, POWER)))
    text = ", ".join(f"{ratio:.2f} at {cut:.0%}" for cut, ratio in zip(config.cuts, ratios, strict=True))
    below = [ratio < 1 for ratio in ratios]
    return Verdict(
        "bands are narrower than those of simple forecasts",
        "median width over that of the better one of the last loss and a power of Σγ, whose bands are as wide as it "
        f"takes to hold as many of these runs: {text}",
        "< 1 at every cut",
        f"{max(ratios):.2f}",
        (min(ratios), max(ratios)),
        "holds" if all(below) else "inconclusive" if any(below) else "fails",
    )


# ------------------------------------------------------------------ figure


def _figure(config: Config, rows: list[Row]) -> Figure:
    """Draw coverage and width against the share of a run that is known."""
    figure, axes = new_figure(1, 2, width=4.2, height=3.4)
    left, right = axes[0]
    styles = dict(zip((WITH, WITHOUT, SCATTER, LAST, POWER), categories(5), strict=True))
    percent = 100 * np.array(config.cuts)
    parts = [at_cut(rows, cut) for cut in config.cuts]
    for kind in (WITH, WITHOUT, SCATTER):
        left.plot(percent, [100 * inside(part, kind).mean() for part in parts], label=kind, **styles[kind])
    left.axhline(100 * LEVEL, color=GRAY, lw=0.8)
    left.set(title="95% bands that hold", ylabel="hold (%)", ylim=(0, 104), xlabel="share of the run known (%)")
    ours = [100 * np.median([row.half_width(WITH) for row in part]) for part in parts]
    right.plot(percent, ours, **styles[WITH])
    for way in (LAST, POWER):
        widths = [100 * simple_half_width(part, way, float(inside(part).mean())) for part in parts]
        right.plot(percent, widths, **styles[way])
        left.plot([], [], label=way, **styles[way])
    dashed: dict[str, Any] = {"color": GRAY, "ls": "--"}
    right.plot(percent, [100 * np.median([abs(row.error) for row in part]) for part in parts], **dashed)
    left.plot([], [], label="error of the forecast, median", **dashed)
    right.set(
        title="half width of bands that hold as often", ylabel="% of the loss", xlabel="share of the run known (%)"
    )
    log_axes(right, "y")
    legend_below(figure, left, columns=3)
    held, runs = int(inside(rows).sum()), len({row.run for row in rows})
    figure.suptitle(f"{held} of {len(rows)} forecasts hold the final loss, of {runs} runs of another group")
    return figure
