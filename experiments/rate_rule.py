"""How does the best γ of SGD, signSGD and Adam change with the batch size, at fixed data and at fixed steps?"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, Literal, NamedTuple

import numpy as np
from matplotlib.figure import Figure

import sgdtheory as st
from experiments._lib.optimizers import FAST, METHODS, SGD, SIGN, SLOW, Pair, looks, seen_capacity
from experiments._lib.panels import LEAST_WIDTH
from experiments._lib.processes import map_on_cores
from experiments._lib.results import Result, Verdict
from experiments._lib.rows import columns_of, rows_of
from sgdtheory.plotting.style import BLACK, GRAY, legend_below, log_axes, new_figure, power_of_ten

Fixed = Literal["samples", "steps"]
FALLS = -0.05  # slope of log γ in log B from which on it is said to fall
# Slopes of log γ* in log B at fixed model and data of 17 (model size, tokens), mean ± standard error:
# up to the batch size of the least loss, from there on, and of all; github.com/step-law/steplaw (arXiv 2503.04715),
# data/dense_lr_bs_loss.csv, γ* by parabolas through the three rates about the lowest smooth loss.
PUBLISHED = {"up to the best B": (0.73, 0.04), "beyond": (-0.07, 0.03), "all": (0.29, 0.04)}


@dataclass(frozen=True)
class Config:
    """Problems, and what is fixed while B grows.

    Attributes:
        exponents: a and b of each problem, b > a.
        methods: names.
        num_samples: D that is fixed.
        num_steps: n that is fixed.
        batch_sizes: B; at fixed D those that leave `least_steps`.
        least_steps: n.
        small: B of the first range, in which noise dominates.
        tolerance: of a slope there.
        published: whether what others say of signs and Adam is judged too.
    """

    exponents: tuple[Pair, ...] = ((1.5, 2.0), (2.0, 4.0))
    methods: tuple[str, ...] = (SGD, SIGN, SLOW, FAST)
    num_samples: float = 1e6
    num_steps: float = 1e5
    batch_sizes: tuple[float, ...] = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536)
    least_steps: float = 10.0
    small: tuple[float, float] = (1, 64)
    tolerance: float = 0.05
    published: bool = False


SCALES = {
    "quick": Config(exponents=((1.5, 2.0),), methods=(SGD, SIGN, FAST), batch_sizes=(1, 8, 64, 1024, 16384)),
    "full": Config(published=True),
}
UNITS = {
    "fixed": "what stays as B grows: samples, D, or steps, n",
    "capacity": "exponent a of the eigenvalues",
    "source": "exponent b of the initial risk",
    "method": "optimizer; linear decay, last iterate",
    "number": "D or n",
    "batch_size": "B, samples",
    "learning_rate": "best peak γ; SGD: units of 1/λ_1; signs, Adam: of the weights",
    "risk": "excess risk there, units of y²",
}


class Row(NamedTuple):
    """One best learning rate, as in `UNITS`."""

    fixed: str
    capacity: float
    source: float
    method: str
    number: float
    batch_size: float
    learning_rate: float
    risk: float


class Line(NamedTuple):
    """Best learning rates of one method, at increasing B, (K,)."""

    batch: np.ndarray
    rate: np.ndarray
    risk: np.ndarray

    def slope(self, low: float, high: float) -> float:
        """Return the slope of log γ in log B between two B, by least squares."""
        used = (self.batch >= low) & (self.batch <= high)
        return float(np.polyfit(np.log(self.batch[used]), np.log(self.rate[used]), 1)[0])

    @property
    def slopes(self) -> np.ndarray:
        """Return the slopes from each B to the next."""
        return np.diff(np.log(self.rate)) / np.diff(np.log(self.batch))


def run(config: Config) -> Result:
    """Tune γ at every B."""
    start = time.perf_counter()
    items = list(product(("steps", "samples"), config.exponents, reversed(config.methods)))
    rows = [row for each in map_on_cores(partial(_solve, config), items) for row in each]
    return Result(columns_of(rows), UNITS, _figures(config, rows), _verdicts(config, rows, time.perf_counter() - start))


def redraw(config: Config, recorded: Any) -> dict[str, Figure]:
    """The figures of a recorded table."""
    return _figures(config, rows_of(Row, recorded.rows))


def _solve(config: Config, item: tuple[Fixed, Pair, str]) -> list[Row]:
    fixed, pair, name = item
    sizes = np.array(config.batch_sizes, dtype=float)
    if fixed == "samples":
        sizes = sizes[sizes * config.least_steps <= config.num_samples]
    number = config.num_samples if fixed == "samples" else config.num_steps
    best = st.optimal_learning_rate(
        st.PowerLaw(*pair),
        batch_size=sizes,
        num_samples=number if fixed == "samples" else number * sizes,
        algorithm=METHODS[name],
    )
    found = zip(sizes.tolist(), np.asarray(best.learning_rate).tolist(), np.asarray(best.risk).tolist(), strict=True)
    return [Row(fixed, *pair, name, number, *each) for each in found]


def _line(rows: list[Row], fixed: Fixed, pair: Pair, name: str) -> Line:
    mine = sorted(
        (row.batch_size, row.learning_rate, row.risk)
        for row in rows
        if (row.fixed, row.capacity, row.source, row.method) == (fixed, *pair, name)
    )
    return Line(*np.array(mine).T)


def predicted(fixed: Fixed, pair: Pair, name: str) -> float:
    """The slope of log γ* in log B while noise dominates.

    The risk of n steps is bias, a function of X = γn (SGD) or γ n c_B/√T, c_B ∝ √B (signs, Adam; T37), and variance,
    which X and D give. So X ∝ D^{a'/b} for b > a': γ ∝ B or √B at fixed D = nB, B^{a/b} or B^{a/(2b) − ½} at fixed n.
    """
    own = 1.0 if name == SGD else 0.5
    return own if fixed == "samples" else seen_capacity(pair, name) / pair[1] + own - 1


# ------------------------------------------------------------------ verdicts


def _verdicts(config: Config, rows: list[Row], seconds: float) -> tuple[Verdict, ...]:
    rules = _small(config, rows, "samples", seconds), _small(config, rows, "steps", seconds), _control(config, rows)
    return (*rules, _surge(config, rows), _published(config, rows)) if config.published else rules


def _small(config: Config, rows: list[Row], fixed: Fixed, seconds: float) -> Verdict:
    """The rule while noise dominates."""
    texts: list[str] = []
    apart: list[float] = []
    for pair, name in product(config.exponents, config.methods):
        slope = _line(rows, fixed, pair, name).slope(*config.small)
        expected = predicted(fixed, pair, name)
        apart.append(slope - expected)
        texts.append(f"{name}, a = {pair[0]:g}, b = {pair[1]:g}: {slope:.3f} ({expected:.3f})")
    rule = "B (SGD), √B (signSGD, Adam)" if fixed == "samples" else "B^(a/b) (SGD), B^(a/(2b) − ½) (signSGD, Adam)"
    what = f"D = {config.num_samples:.0e}" if fixed == "samples" else f"n = {config.num_steps:.0e}"
    return Verdict(
        f"at fixed {fixed} and small B the best γ ∝ {rule}",
        f"Slope of the best log γ in log B for B = {config.small[0]:g} … {config.small[1]:g} at {what}, with the "
        f"prediction in brackets. Holds if all slopes are within ±{config.tolerance:g} of it: {'; '.join(texts)}",
        "error 0",
        f"errors {min(apart):+.3f} … {max(apart):+.3f}",
        (min(apart), max(apart)),
        _verdict(apart, config.tolerance),
        seconds,
    )


def _verdict(apart: Sequence[float], tolerance: float) -> Literal["holds", "fails"]:
    return "holds" if max(map(abs, apart)) <= tolerance else "fails"


def _control(config: Config, rows: list[Row]) -> Verdict:
    """SGD's rules at signs and Adam."""
    others = [name for name in config.methods if name != SGD]
    apart = [
        abs(_line(rows, fixed, pair, name).slope(*config.small) - predicted(fixed, pair, SGD))
        for fixed, pair, name in product(("samples", "steps"), config.exponents, others)
    ]
    return Verdict(
        "control: SGD's rules are not those of signSGD and Adam",
        f"Slopes of signSGD and Adam compared with SGD's, which are 1 at fixed D and a/b at fixed n. Holds if every "
        f"slope differs from SGD's by more than {2 * config.tolerance:g}",
        f"above {2 * config.tolerance:g}",
        f"{min(apart):.2f} … {max(apart):.2f}",
        (min(apart), max(apart)),
        "holds" if min(apart) > 2 * config.tolerance else "fails",
    )


def bend(line: Line, start: float) -> tuple[float, float]:
    """B at which the slope has fallen to half of what it is at small B, between middles of log B; and R there/least."""
    middles = (np.log(line.batch[1:]) + np.log(line.batch[:-1])) / 2
    slopes = line.slopes
    later = np.flatnonzero(slopes < start / 2)
    if not later.size or later[0] == 0:
        return np.nan, np.nan
    here = int(later[0])
    share = (slopes[here - 1] - start / 2) / (slopes[here - 1] - slopes[here])
    place = float(middles[here - 1] + share * (middles[here] - middles[here - 1]))
    risk = np.interp(place, np.log(line.batch), np.log(line.risk / line.risk.min()))
    return float(np.exp(place)), float(np.exp(risk))


def _surge(config: Config, rows: list[Row]) -> Verdict:
    """arXiv 2405.14578: the best γ of signs rises and then falls with B."""
    texts: list[str] = []
    least: list[float] = []
    for pair, name in product(config.exponents, config.methods):
        line = _line(rows, "samples", pair, name)
        place, risk = bend(line, predicted("samples", pair, name))
        slopes = ", ".join(f"{slope:.2f}" for slope in line.slopes)
        halved = f"halved at B = {place:.3g}, where the risk is {risk:.2f} times the least"
        texts.append(
            f"{name}, a = {pair[0]:g}, b = {pair[1]:g}: {slopes}, {halved if np.isfinite(place) else 'never halved'}"
        )
        if name != SGD:
            least.append(float(line.slopes.min()))
    falling = [each <= FALLS for each in least]
    return Verdict(
        "at fixed samples the best γ of signSGD and Adam rises and then falls with B (surge)",
        f"Slopes of the best log γ in log B from each B to the next, at D = {config.num_samples:.0e} and for runs of "
        f"at least {config.least_steps:g} steps. Then the B at which the slope is half of that at small B. Holds if γ "
        f"of signSGD and Adam falls at some B on every problem, with a slope of {FALLS:g} or less: {'; '.join(texts)}",
        f"at most {FALLS:g}",
        f"least slopes {min(least):.2f} … {max(least):.2f}",
        (min(least), max(least)),
        "holds" if all(falling) else "inconclusive" if any(falling) else "fails",
    )


def _published(config: Config, rows: list[Row]) -> Verdict:
    """√B on the grid of language models."""
    (small, error), (large, large_error), (whole, whole_error) = PUBLISHED.values()
    mine = [_line(rows, "samples", pair, FAST).slope(*config.small) for pair in config.exponents]
    lines = [_line(rows, "samples", pair, FAST) for pair in config.exponents]
    every = [line.slope(1, np.inf) for line in lines]
    apart = small - float(np.mean(mine))
    return Verdict(
        "Adam's best γ on language models ∝ √B up to the best batch size",
        f"Slope of the best log γ in log B at fixed model and data, mean ± standard error over 17 pairs of the public "
        f"grid of step-law: {small:.2f} ± {error:.2f} up to the best B, {large:.2f} ± {large_error:.2f} beyond it, "
        f"{whole:.2f} ± {whole_error:.2f} over all B. In theory {FAST} has "
        f"{', '.join(f'{each:.2f}' for each in mine)} at small B and {', '.join(f'{each:.2f}' for each in every)} "
        f"over all B. Holds if the first slope is within two standard errors of the theory's at small B",
        float(np.mean(mine)),
        small,
        (small - 2 * error, small + 2 * error),
        "holds" if abs(apart) <= 2 * error else "fails",
    )


# ------------------------------------------------------------------ figures


def _figures(config: Config, rows: list[Row]) -> dict[str, Figure]:
    return {"rate_rule": _figure(config, rows)}


def _figure(config: Config, rows: list[Row]) -> Figure:
    """γ over that of B = 1 against B, at fixed D and at fixed n, on the first problem; the rules beside it."""
    pair = config.exponents[0]
    figure, axes = new_figure(1, 2, width=LEAST_WIDTH / 2, height=3.4)
    numbers = {"samples": config.num_samples, "steps": config.num_steps}
    for axis, fixed in zip(axes[0], ("samples", "steps"), strict=True):
        rules: dict[float, tuple[np.ndarray, np.ndarray]] = {}
        for name, look in looks(config.methods):
            line = _line(rows, fixed, pair, name)
            axis.plot(line.batch, line.rate / line.rate[0], label=name, ms=4.0, **look)
            rules[predicted(fixed, pair, name)] = line.batch, line.rate / line.rate[0]
        for rule, (batch, _) in rules.items():
            end = batch <= (1024 if fixed == "samples" else batch[-1])
            label = "theory while noise dominates" if rule == max(rules) else None
            axis.plot(batch[end], 1.25 * batch[end] ** rule, color=BLACK, lw=0.9, ls="--", label=label)
        axis.axhline(1.0, color=GRAY, lw=0.6)
        log_axes(axis)
        letter = "D" if fixed == "samples" else "n"
        axis.set(
            xlabel="batch size $B$ (samples)",
            ylabel=r"best $\gamma$ / best $\gamma$ of $B = 1$",
            title=f"{fixed} fixed, ${letter} = {power_of_ten(numbers[fixed])}$",
        )
    figure.suptitle(
        f"Best learning rate against batch size, at fixed samples and at fixed steps, with theory "
        f"($a = {pair[0]:g}$, $b = {pair[1]:g}$)",
        fontsize=9,
    )
    legend_below(figure, axes[0, 0], columns=5)
    return figure
