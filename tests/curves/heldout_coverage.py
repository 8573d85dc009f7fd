"""Coverage of bands for held-out losses of other laws: `python -m benchmarks.curve_heldout`.

A data set is eight runs with other learning rates, of one law that is drawn anew. In the cases "1", "2" and "3" the
theory is fitted to so many of them and predicts the last losses of the others (`CurvesFit.predict_curve`). In the cases
"30%", "50%" and "70%" so much of a run is known, and its end is forecast (`forecast_loss`). `--control` leaves the
theory's own error out of the bands. Scatter is from 0.03% to 0.3% and correlated along log t. All runs have one batch
size.
"""

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from scipy.signal import lfilter

import sgdtheory as st
from experiments._lib.processes import map_on_cores
from sgdtheory._common.files import csv_text, write_atomically
from tests.curves.theory_curves import linear_intervals

LEVEL = 0.95
WARMUP = 2000
STEPS = 24_000
SHAPES: dict[str, Callable[[np.ndarray], np.ndarray]] = {  # of the share of the steps after the warm-up
    "cosine": lambda u: 0.55 + 0.45 * np.cos(np.pi * u),
    "constant": np.ones_like,
    "drop to 0.3": lambda u: np.where(u < 0.4, 1.0, 0.3),
    "wsd": lambda u: np.clip((1 - u) / 0.2, 0.0, 1.0),
    "exponential": lambda u: 0.1 ** np.clip((u - 0.8) / 0.2, 0.0, 1.0),
    "linear": lambda u: 1 - u,
    "drop to 0.1": lambda u: np.where(u < 0.4, 1.0, 0.1),
    "long cosine": lambda u: 0.55 + 0.45 * np.cos(np.pi * u),  # three times as long
}
FITTED = {"1": ("cosine",), "2": ("cosine", "wsd"), "3": ("cosine", "constant", "drop to 0.3")}
CUTS = {"30%": 0.3, "50%": 0.5, "70%": 0.7}
FORECAST = "cosine", "wsd", "linear", "constant"
PUBLIC = {  # the same cases of the runs that come with the package
    "1": ("cosine_24000",),
    "2": ("cosine_24000", "wsd_20000_24000"),
    "3": ("cosine_24000", "constant_24000", "wsdcon_9"),
}
GAINS = (0.16, 0.88, 0.56), (0.24, 0.6, 0.65), (2.07, 0.41, 0.52)  # C, β and γ of the three models of the paper
DRAWS = 10_000  # Resampled data sets; the ends of an interval of coverage are then known to about 0.5%.
OTHERS = st.curves.PUBLIC  # what forecasts start from

Losses = Callable[[np.ndarray, np.ndarray], np.ndarray]


class MultiPower(NamedTuple):
    """`L0 + A S^−α − B Σ_k (γ_{k−1} − γ_k) [1 − (1 + C γ_k^−ζ S_k)^−β]` over every step after the warm-up."""

    floor: float
    size: float
    exponent: float
    gain: float
    speed: float
    gain_exponent: float
    rate_exponent: float

    @classmethod
    def drawn(cls, random: np.random.Generator) -> "MultiPower":
        """Return one with values about those of Luo et al. 2025 (arXiv 2503.12811)."""
        size, power, gain = random.uniform(0.5, 0.66), random.uniform(0.42, 0.53), random.uniform(450, 610)
        return cls(random.uniform(2.5, 3.2), size, power, gain, *GAINS[random.integers(3)])

    def losses(self, rates: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """(K,) before steps `rows` of a run with these learning rates (n,)."""
        sums = np.append(0.0, np.cumsum(rates))
        step = np.arange(WARMUP + 1, rates.size)
        step = step[rates[step - 1] != rates[step]]
        falls = rates[step - 1] - rates[step]
        scale = self.speed * np.maximum(rates[step], 1e-12) ** -self.rate_exponent
        found = self.floor + self.size * sums[rows] ** -self.exponent
        for k, row in enumerate(rows):
            past = step < row
            since = scale[past] * (sums[row] - sums[step[past]])
            found[k] -= self.gain * (falls[past] * (1 - (1 + since) ** -self.gain_exponent)).sum()
        return found


class Momentum(NamedTuple):
    """`L0 + A S₁^−α − C S₂`, S₂ the sum of `m_s = λ m_{s−1} + γ_{s−1} − γ_s` over every step after the warm-up."""

    floor: float
    size: float
    exponent: float
    gain: float
    kept: float

    @classmethod
    def drawn(cls, random: np.random.Generator) -> "Momentum":
        """Return one with values about those of Tissue et al. 2024 (arXiv 2408.11029), and λ from 0.995 to 0.9995."""
        size, power, kept = random.uniform(0.4, 0.6), random.uniform(0.45, 0.55), 1 - 10 ** random.uniform(-3.3, -2.3)
        return cls(random.uniform(2.5, 3.2), size, power, random.uniform(300, 600) * (1 - kept), kept)

    def losses(self, rates: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """(K,) before steps `rows` of a run with these learning rates (n,)."""
        sums = np.append(0.0, np.cumsum(rates))
        falls = np.append(0.0, -np.diff(rates))
        falls[: WARMUP + 1] = 0.0
        gained = np.append(0.0, np.cumsum(lfilter([1.0], [1.0, -self.kept], falls)))
        return self.floor + self.size * sums[rows] ** -self.exponent - self.gain * gained[rows]


LAWS = {"multi-power": MultiPower, "momentum": Momentum}


class Run(NamedTuple):
    """A run with its measured loss curve and the learning rates of all of its steps."""

    curve: st.LossCurve
    rates: np.ndarray


def data_set(law: str, seed: int, count: int = 60) -> dict[str, Run]:
    """Return runs of one law under all schedules, with about `count` rows each."""
    random = np.random.default_rng([seed, *map(ord, law)])
    losses: Losses = LAWS[law].drawn(random).losses
    peak = 3e-4 * np.exp(random.uniform(-0.7, 0.7))
    scatter = np.exp(random.uniform(np.log(3e-4), np.log(3e-3)))
    length = float(random.choice([0.02, 0.1]))  # of the correlation, in log t
    runs = {}
    for name, shape in SHAPES.items():
        steps = np.arange(STEPS * (3 if name == "long cosine" else 1))
        after = shape(np.clip((steps - WARMUP) / (steps.size - WARMUP), 0.0, 1.0))
        rates = peak * np.where(steps < WARMUP, (steps + 1) / WARMUP, after)
        rows = np.round(np.linspace(WARMUP, steps[-1], count)).astype(int)
        jump = np.flatnonzero(np.diff(rates[WARMUP:]) < -0.5 * peak) + WARMUP + 1
        rows = np.unique(np.append(rows, jump))
        loss = losses(rates, rows) * np.exp(scatter * _noise(rows, length, random))
        runs[name] = Run(st.LossCurve(rows, rates[rows], loss, warmup=WARMUP, name=name), rates)
    return runs


def _noise(rows: np.ndarray, length: float, random: np.random.Generator) -> np.ndarray:
    """(K,) standard normal numbers, whose correlation falls by e over a length in log t."""
    kept = np.exp(-np.diff(np.log(rows), prepend=0) / length)
    noise = random.standard_normal(rows.size)
    for row in range(1, rows.size):
        noise[row] = kept[row] * noise[row - 1] + np.sqrt(1 - kept[row] ** 2) * noise[row]
    return noise


class Row(NamedTuple):
    """A predicted last loss: log of measured over predicted, half width of the band, and errors of two rivals.

    `power` is a power of the sum of learning rates, fitted to the same rows. `last` is the last loss of these rows, or
    of the first run that was fitted.
    """

    law: str
    seed: int
    case: str
    run: str
    error: float
    half_width: float
    control: float  # half width without the theory's own error
    power: float
    last: float


def of_schedules(law: str, seed: int, curves: dict[str, st.LossCurve], fitted: Sequence[str], case: str) -> list[Row]:
    """Return the rows of a fit to some curves, one for each of the others."""
    known = [curves[name] for name in fitted]
    with linear_intervals():
        found = st.fit_loss_curves(known, weight_decay=0.1, optimizer="sgd", level=LEVEL)
        power = st.curves.fit_law(known, st.curves.PowerOfSum())
    rows = []
    for name, curve in curves.items():
        if name not in fitted:
            band, rival = found.predict_curve(curve), power.predict_curve(curve)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("sgdtheory.curves.curves_fit.ERROR_SHARE", 0.0)
                narrow = found.predict_curve(curve)
            off = [np.log(curve.loss[-1] / each) for each in (band.loss[-1], rival.loss[-1], known[0].loss[-1])]
            widths = [np.log(each.high[-1] / each.loss[-1]) for each in (band, narrow)]
            rows.append(Row(law, seed, case, name, off[0], *widths, *off[1:]))
    return rows


def of_cut(law: str, seed: int, run: Run, case: str) -> Row:
    """Return the row of a run of which a part is known."""
    curve, rates = run
    known = curve.step <= CUTS[case] * rates.size
    head = st.LossCurve(curve.step[known], curve.learning_rate[known], curve.loss[known], warmup=WARMUP)
    plan = {"num_steps": rates.size, "learning_rate": rates, "weight_decay": 0.1, "optimizer": "sgd", "level": LEVEL}
    found, narrow = (
        st.curves.forecast_loss(head, **plan, experience=each) for each in (OTHERS, OTHERS._replace(doubt=0.0))
    )
    with linear_intervals():
        power = st.curves.fit_law(head, st.curves.PowerOfSum()).predict_curve(curve).loss[-1]
    off = [float(np.log(curve.loss[-1] / each)) for each in (found.loss, power, head.loss[-1])]
    widths = [float(np.log(each.band[1] / each.loss)) for each in (found, narrow)]
    return Row(law, seed, case, curve.name, off[0], *widths, *off[1:])


def rows_of(task: tuple[str, int], cases: Sequence[str]) -> list[Row]:
    """Return the rows of one data set, or of the public runs of a model."""
    law, seed = task
    if law == "public":
        model = ("25M", "100M", "400M")[seed]
        curves = {name: _thin(curve) for name, curve in st.example_loss_curves(model).items()}
        fitted = PUBLIC
    else:
        runs = data_set(law, seed)
        curves = {name: run.curve for name, run in runs.items()}
        fitted = FITTED
    found = [row for case in cases if case in fitted for row in of_schedules(law, seed, curves, fitted[case], case)]
    if law != "public":
        found += [of_cut(law, seed, runs[name], case) for case in cases if case in CUTS for name in FORECAST]
    return found


def _thin(curve: st.LossCurve) -> st.LossCurve:
    """Return about 60 rows of a curve, with those at which the learning rate jumps."""
    rows = np.unique(np.round(np.linspace(0, curve.step.size - 1, 60)).astype(int))
    jump = np.flatnonzero(st.curves.jumps(curve.learning_rate)) + 1
    rows = np.unique(np.concatenate([rows, jump]))
    return st.LossCurve(
        curve.step[rows], curve.learning_rate[rows], curve.loss[rows], warmup=curve.warmup, name=curve.name
    )


def held(rows: Sequence[Row], control: bool = False) -> np.ndarray:
    """Return which bands contain the measured loss, (K,)."""
    return np.array([abs(row.error) <= (row.control if control else row.half_width) for row in rows])


def coverage(rows: Sequence[Row], control: bool = False) -> tuple[float, float, float]:
    """Return the share of bands that contain the loss and its 95% interval, data sets drawn with replacement."""
    inside = held(rows, control)
    seeds = [(row.law, row.seed) for row in rows]
    index = np.array([sorted(set(seeds)).index(each) for each in seeds])
    counts = np.array([np.bincount(index, each) for each in (inside, np.ones(len(rows)))])
    number = counts.shape[1]
    drawn = np.random.default_rng(0).multinomial(number, np.full(number, 1 / number), DRAWS)
    hits, cases = counts @ drawn.T
    return float(inside.mean()), *map(float, np.quantile(hits / cases, [0.025, 0.975]))


def line(law: str, case: str, rows: Sequence[Row], control: bool) -> str:
    """Return a line of the table."""
    share, low, high = coverage(rows, control)
    width = np.median([row.control if control else row.half_width for row in rows])
    errors = [np.median(np.abs([getattr(row, name) for row in rows])) for name in ("error", "power", "last")]
    texts = "".join(f"{100 * each:>10.2f}" for each in (width, *errors))
    return f"{law:12}{case:>6}{len(rows):>6}{share:>8.0%}  {low:>4.0%} … {high:<5.0%}{texts}"


def main() -> None:
    """Print a line for each law and case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--law", nargs="+", choices=[*LAWS, "public"], default=[*LAWS, "public"])
    parser.add_argument("--case", nargs="+", choices=[*FITTED, *CUTS], default=[*FITTED, *CUTS])
    parser.add_argument("--replicas", type=int, default=10, help="data sets of each law; public ones are three models")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--csv", type=Path, help="write the rows to this file")
    parser.add_argument("--control", action="store_true", help="bands without the theory's own error, which must fail")
    given = parser.parse_args()
    tasks = [
        (law, seed)
        for law in given.law
        for seed in (range(3) if law == "public" else range(given.first_seed, given.first_seed + given.replicas))
    ]
    found = map_on_cores(partial(rows_of, cases=given.case), tasks)
    rows = [row for each in found for row in each]
    if given.csv:
        write_atomically(given.csv, csv_text(Row._fields, rows))
    names = "half width, error, power law, last loss (%)"
    print(f"{'law':12}{'case':>6}{'ends':>6}{'hold':>8}{'95%':^15}  medians of {names}")
    for law in given.law:
        for case in given.case:
            some = [row for row in rows if (row.law, row.case) == (law, case)]
            if some:
                print(line(law, case, some, given.control))
