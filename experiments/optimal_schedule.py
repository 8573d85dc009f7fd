"""What is the shape of the best learning rates in long runs, and how much risk do named schedules lose?"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise, product
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from experiments._lib.exponents import LastSlope, last_slope, settling
from experiments._lib.panels import name_problem, panels
from experiments._lib.processes import map_on_cores
from experiments._lib.results import Result, Verdict
from experiments._lib.rows import columns_of, rows_of
from experiments._lib.schedule_shapes import AVERAGES, LAW, LEAST_U, LINEAR, NAMES, POWER, WSD, Pair, Row, measured
from sgdtheory.plotting.style import BLACK, STAR, categories, colors, legend_below, log_axes, power_of_ten

CROSSING = "linear decay and the power lose the same"


@dataclass(frozen=True)
class Config:
    """Problems, with b > a and with b < a, and run lengths at equal ratios.

    Attributes:
        exponents: a and b of each problem.
        num_steps: n.
        batch_size: B, as in `schedules`. For b > a the best learning rate is far from the edge: only γ/B matters.
        windows: of u = 1 − t/n, in each of which log γ is fitted by a line in log u.
        decay_shares: of WSD, beside 20%, where b < a.
        exponent_tolerance: of the exponent of γ, and of the law's.
        share_tolerance: of the exponent of the share of a run that the decay takes.
        loss_tolerance: of the law, and of the best WSD.
    """

    exponents: tuple[Pair, ...] = ((2.0, 3.0), (1.5, 4.0), (2.0, 6.0), (2.0, 1.5), (2.5, 1.5))
    num_steps: tuple[float, ...] = (1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8)
    batch_size: float = 16.0
    windows: tuple[Pair, ...] = ((0.3, 0.8), (0.1, 0.3), (0.03, 0.1), (0.01, 0.03), (0.003, 0.01))
    decay_shares: tuple[float, ...] = (0.1, 0.05, 0.02)
    exponent_tolerance: float = 0.1
    share_tolerance: float = 0.03
    loss_tolerance: float = 0.01


SCALES = {
    "quick": Config(exponents=((2.0, 3.0), (2.0, 1.5)), num_steps=(1e2, 1e3, 1e4, 1e5), decay_shares=(0.1,)),
    "full": Config(),
}
UNITS = {
    "capacity": "exponent a of the eigenvalues",
    "source": "exponent b of the initial risk",
    "num_steps": "n, steps",
    "quantity": (
        "learning rate (over its peak, at u = 1 − t/n); exponent (of the optimum, by window of u: its lower end); risk "
        "(units of y², and over the optimum); peak (units of 1/λ_1, and over the edge); share (of the steps); slope "
        "(largest |∂ log risk/∂ log γ|); apart (risks from three starts, largest over smallest, minus 1); half (risk "
        "with half the knots over the optimum, minus 1)"
    ),
    "at": "where: u, the lower end of a window; nan for what has no place",
    "value": "of the quantity",
}


def run(config: Config) -> Result:
    """Find the best schedule of every problem and run length, measure its shape, and tune what has a name."""
    start = time.perf_counter()
    items = sorted(product(config.exponents, config.num_steps), key=lambda item: item[1], reverse=True)
    rows = list(chain.from_iterable(map_on_cores(partial(measured, config), items)))
    seconds = (time.perf_counter() - start) / len(config.exponents)
    return Result(columns_of(rows), UNITS, _figures(config, rows), _verdicts(config, rows, seconds))


def redraw(config: Config, recorded: Any) -> dict[str, Figure]:
    """The figures of a recorded table."""
    return _figures(config, rows_of(Row, recorded.rows))


# ------------------------------------------------------------------ verdicts


def _verdicts(config: Config, rows: list[Row], seconds: float) -> tuple[Verdict, ...]:
    easy = [pair for pair in config.exponents if pair[1] > pair[0]]
    hard = [pair for pair in config.exponents if pair[1] < pair[0]]
    return (
        *(_power_verdict(config, rows, pair, seconds) for pair in easy),
        *(_law_verdict(config, rows, pair) for pair in config.exponents),
        *(_decay_verdict(config, rows, pair, seconds) for pair in hard),
        *(_crossing_verdict(config, rows, pair) for pair in easy),
        *(_wsd_verdict(config, rows, pair) for pair in hard),
        _evidence(config, rows),
    )


def _values(config: Config, rows: list[Row], pair: Pair, quantity: str, at: float = np.nan) -> np.ndarray:
    """A quantity at increasing n; nan where it was not measured."""
    found = {
        row.num_steps: row.value
        for row in rows
        if (row.capacity, row.source, row.quantity) == (*pair, quantity)
        and (row.at == at or np.isnan(row.at) and np.isnan(at))
    }
    return np.array([found.get(steps, np.nan) for steps in sorted(config.num_steps)])


def _losses(config: Config, rows: list[Row], pair: Pair, name: str) -> np.ndarray:
    return _values(config, rows, pair, f"risk over the optimum: {name}")


def _settled(config: Config, rows: list[Row], pair: Pair, quantity: str, low: float) -> LastSlope:
    """The exponent in a window as n grows, with its change over the last decade of n."""
    return settling(_values(config, rows, pair, quantity, low))


def _power_verdict(config: Config, rows: list[Row], pair: Pair, seconds: float) -> Verdict:
    """T28 for b > a."""
    capacity, source = pair
    low, high = config.windows[0]
    last = _settled(config, rows, pair, "exponent", low)
    text = "; ".join(
        f"{window[0]:g} … {window[1]:g}: {each.value:.2f} ({each.change:+.2f})"
        for window in config.windows
        for each in [_settled(config, rows, pair, "exponent", window[0])]
        if np.isfinite(each.value)
    )
    first = _values(config, rows, pair, "exponent", low)
    return Verdict(
        f"γ_t ∝ (1 − t/n)^(2a − 1): a = {capacity:g}, b = {source:g}",
        f"Local exponent of the best γ in u = 1 − t/n at n = {max(config.num_steps):.0e}, by window of u, with the "
        f"change since the n before in brackets: {text}. For u = {low:g} … {high:g} it is "
        f"{', '.join(f'{each:.2f}' for each in first)} as n grows, {last.leads}. Holds if this extrapolation, with "
        f"its interval, lies within ±{config.exponent_tolerance:g} of 2a − 1",
        2 * capacity - 1,
        last.limit,
        last.interval,
        last.verdict(2 * capacity - 1, config.exponent_tolerance),
        seconds,
    )


def _law_verdict(config: Config, rows: list[Row], pair: Pair) -> Verdict:
    """The law with the exact kernel: what it loses, and whether its exponents are those measured, at every n."""
    capacity, source = pair
    loss = _losses(config, rows, pair, LAW) - 1
    apart = np.concatenate(
        [
            _values(config, rows, pair, "exponent", low) - _values(config, rows, pair, "exponent of the law", low)
            for low, _ in config.windows
        ]
    )
    largest = float(np.nanmax(np.abs(apart)))
    easy = source > capacity
    holds = loss.max() <= config.loss_tolerance and (not easy or largest <= config.exponent_tolerance)
    constants = "c" if easy else "c and γ_0"
    return Verdict(
        f"γ_t = min{{γ_0, c K^(−½)}} is the best: a = {capacity:g}, b = {source:g}",
        f"The formula is γ_t = min{{γ_0, c/√K(s_t)}} with K(s) = Σ λ_i² exp(−2λ_i s), where s_t is the sum of γ from "
        f"t on and {constants} {'is' if easy else 'are'} tuned. Its risk divided by the least risk, minus 1, at every "
        f"n: {', '.join(f'{each:.1e}' for each in loss)}. Holds if this is at most {config.loss_tolerance:.0%}"
        + (f" and the exponents agree within {config.exponent_tolerance:g}" if easy else "")
        + f". The formula's exponents differ from those of the best schedule by at most {largest:.3f}, over all "
        f"windows and n",
        f"at most {config.loss_tolerance:g}",
        f"{loss.min():.1e} … {loss.max():.1e}; exponents within {largest:.3f}",
        (float(loss.min()), float(loss.max())),
        "holds" if holds else "fails",
    )


def _decay_verdict(config: Config, rows: list[Row], pair: Pair, seconds: float) -> Verdict:
    """T28 for b < a: how long the decay is as n grows."""
    capacity, source = pair
    share = _values(config, rows, pair, "share of the decay")
    predicted = (source - capacity) / (2 * capacity - 1)
    slope = last_slope(sorted(config.num_steps), share)
    peak, edge = (_values(config, rows, pair, f"share at the {what}") for what in ("peak", "edge"))
    windows = "; ".join(
        f"{window[0]:g} … {window[1]:g}: {_values(config, rows, pair, 'exponent', window[0])[-1]:.2f}"
        for window in config.windows
    )
    return Verdict(
        f"constant, with a decay at the end: a = {capacity:g}, b = {source:g}",
        f"The decay is the part of the run in which γ is below half of its peak. Its share of the steps at n = "
        f"{min(config.num_steps):.0e} … {max(config.num_steps):.0e}: {', '.join(f'{each:.3f}' for each in share)}. "
        f"The slope of its logarithm in log n, ± the change since the pair before, is {slope.text} and {slope.leads}. "
        f"Holds if this extrapolation, with its interval, lies within ±{config.share_tolerance:g} of (b − a)/(2a − "
        f"1). Share of the steps with γ within 1% of the peak: {', '.join(f'{each:.0%}' for each in peak)}; within 1% "
        f"of the stability threshold: {', '.join(f'{each:.0%}' for each in edge)}. Exponents at the largest n by "
        f"window of u: {windows}",
        predicted,
        slope.limit,
        slope.interval,
        slope.verdict(predicted, config.share_tolerance),
        seconds,
    )


def _crossing(config: Config, rows: list[Row], pair: Pair) -> float:
    """n at which linear decay and the power 2a − 1 lose the same, by a line in logs; nan without one."""
    ahead = np.log(_losses(config, rows, pair, POWER) / _losses(config, rows, pair, LINEAR))
    places = np.log(sorted(config.num_steps))
    for (left, right), (first, second) in zip(pairwise(places), pairwise(ahead), strict=True):
        if first > 0 >= second:
            return float(np.exp(left + (right - left) * first / (first - second)))
    return float("nan")


def _ranking(config: Config, rows: list[Row], pair: Pair) -> str:
    """The best schedule with a name, and what each loses at the largest n."""
    steps = sorted(config.num_steps)
    losses = {name: _losses(config, rows, pair, name) for name in ("constant", *NAMES) if name != LAW}
    losses = {name: each for name, each in losses.items() if np.isfinite(each).all()}
    decays = [name for name in losses if name not in AVERAGES]
    best = [min(decays, key=lambda name: losses[name][place]) for place in range(len(steps))]
    won = ", ".join(
        f"{name} at n = {n:.0e} ({losses[name][place] - 1:+.1%})"
        for place, (n, name) in enumerate(zip(steps, best, strict=True))
    )
    end = ", ".join(f"{name} {losses[name][-1] - 1:+.1%}" for name in sorted(losses, key=lambda name: losses[name][-1]))
    return f"The best named schedule for the last iterate, and its loss: {won}. Losses at the largest n: {end}"


def _crossing_verdict(config: Config, rows: list[Row], pair: Pair) -> Verdict:
    capacity, source = pair
    crossing = _crossing(config, rows, pair)
    ahead = _losses(config, rows, pair, POWER) / _losses(config, rows, pair, LINEAR)
    ends = f"{min(config.num_steps):.0e} and {max(config.num_steps):.0e}"
    before = "the power is ahead throughout" if ahead[0] <= 1 else "linear decay is ahead throughout"
    return Verdict(
        f"the power 2a − 1 is ahead of linear decay in long runs: a = {capacity:g}, b = {source:g}",
        f"n at which the power decay (1 − t/n)^(2a − 1) = (1 − t/n)^{2 * capacity - 1:g} and linear decay have the "
        f"same risk, with tuned peaks and B = {config.batch_size:g}. The interval is the range of the power's risk "
        f"divided by that of linear decay. A loss is the risk divided by the least risk, minus 1. "
        f"{_ranking(config, rows, pair)}",
        "a crossing",
        f"n = {crossing:.2g}" if np.isfinite(crossing) else f"no crossing between {ends}: {before}",
        (float(ahead.min()), float(ahead.max())),
        "holds" if ahead[-1] < 1 else "inconclusive" if ahead[-1] < ahead[-2] else "fails",
    )


def _wsd_verdict(config: Config, rows: list[Row], pair: Pair) -> Verdict:
    capacity, source = pair
    names = [WSD, *(f"WSD, decay {share:.0%}" for share in config.decay_shares)]
    loss = np.min([_losses(config, rows, pair, name) for name in names], axis=0) - 1
    return Verdict(
        f"WSD is within {config.loss_tolerance:.0%} of the best: a = {capacity:g}, b = {source:g}",
        f"A loss is the risk divided by the least risk, minus 1. Loss of WSD at every n, with a tuned peak and the "
        f"best of the decay shares 20%, {', '.join(f'{share:.0%}' for share in config.decay_shares)}: "
        f"{', '.join(f'{each:.2%}' for each in loss)}. {_ranking(config, rows, pair)}",
        f"at most {config.loss_tolerance:g}",
        f"{loss.min():.4f} … {loss.max():.4f}",
        (float(loss.min()), float(loss.max())),
        "holds" if loss.max() <= config.loss_tolerance else "fails",
    )


def _evidence(config: Config, rows: list[Row]) -> Verdict:
    """Return the evidence that the searches found optima."""
    slope, apart, half = (
        np.concatenate([_values(config, rows, pair, quantity) for pair in config.exponents])
        for quantity in ("slope", "apart", "half")
    )
    agree = apart <= 1e-2
    flat = slope.max() <= 1e-3 and agree.all()
    return Verdict(
        "the schedules found are optima",
        f"Three checks over all problems and n. The largest |∂ log risk/∂ log γ| at a knot is {slope.max():.1e} "
        f"(limit 1e-3). With half the knots the risk is {half.min():.1e} … {half.max():.1e} higher (limit 1e-3). In "
        f"{agree.sum()} of {agree.size} settings three searches with few knots from different starts agree within "
        f"{apart[agree].max():.1e} (limit 1e-2 in all settings). In the other settings one of the three ends at a "
        f"higher risk or diverges",
        0.0,
        f"slope {slope.max():.1e}, half the knots {half.max():.1e}, starts within {apart[agree].max():.1e} in "
        f"{agree.sum()} of {agree.size} settings",
        (float(half.min()), float(half.max())),
        "fails" if np.abs(half).max() > 1e-3 else "holds" if flat else "inconclusive",
    )


# ------------------------------------------------------------------ figures


def _figures(config: Config, rows: list[Row]) -> dict[str, Figure]:
    return {
        "optimal_schedule_shape": _shape_figure(config, rows),
        "optimal_schedule_losses": _loss_figure(config, rows),
    }


def _curve(rows: list[Row], pair: Pair, steps: float, quantity: str) -> np.ndarray:
    """(u, γ over its peak), (2, J)."""
    return np.array(
        sorted(
            (row.at, row.value)
            for row in rows
            if (row.capacity, row.source, row.num_steps, row.quantity) == (*pair, steps, quantity)
        )
    ).T


def _shape_figure(config: Config, rows: list[Row]) -> Figure:
    """γ_t over its peak against 1 − t/n, a panel a problem, a line an n, T28's power beside it."""
    figure, axes = panels(len(config.exponents))
    steps = sorted(config.num_steps)
    for axis, pair in zip(axes, config.exponents, strict=True):
        power, (u, last) = 2 * pair[0] - 1, _curve(rows, pair, steps[-1], "learning rate")
        for color, n in zip(colors(len(steps))[::-1], steps, strict=True):
            axis.plot(*_curve(rows, pair, n, "learning rate"), color=color, label=f"$n = {power_of_ten(n)}$")
        axis.plot(
            *_curve(rows, pair, steps[-1], "learning rate of the law"), color="white", lw=0.9, ls=(0, (2, 3)), label="_"
        )
        begin = 1.0 if pair[1] > pair[0] else float(np.interp(0.5, last, u))
        beside = np.geomspace(begin * 0.02 ** (1 / power), begin, 50)
        axis.plot(beside, 1.6 * (beside / begin) ** power, color=BLACK, ls="--", lw=1.0, label="power $2a - 1$")
        log_axes(axis)
        axis.set(xlim=(LEAST_U, 1.3), xlabel="remaining part of the run, $1 - t/n$", ylabel=r"$\gamma_t$ / peak")
        name_problem(axis, pair)
    figure.suptitle(
        f"The best learning rate of the last iterate ($B = {config.batch_size:g}$): time runs to the left\n"
        "white dots on the line of the longest run: $\\min\\{\\gamma_0, c\\,K^{-1/2}\\}$ of the remaining sum of "
        "$\\gamma$, tuned",
        fontsize=9,
    )
    legend_below(figure, axes[0], columns=4)
    return figure


def _looks() -> Iterator[tuple[str, dict[str, Any]]]:
    return zip(NAMES, categories(len(NAMES)), strict=True)


def _loss_figure(config: Config, rows: list[Row]) -> Figure:
    """Risk over the optimum against n, a panel a problem, a line a schedule with a name, the crossing marked."""
    figure, axes = panels(len(config.exponents))
    steps = sorted(config.num_steps)
    handles: dict[str, Any] = {}
    shown = {POWER: "power $2a - 1$", LAW: r"$\min\{\gamma_0, c\,K^{-1/2}\}$ (T28)"}
    for axis, pair in zip(axes, config.exponents, strict=True):
        axis.axhline(1.0, color=BLACK, lw=0.8)
        for name, look in _looks():
            losses = _losses(config, rows, pair, name)
            if np.isfinite(losses).any():
                (handles[name],) = axis.plot(steps, losses, label=shown.get(name, name), ms=4, **look)
        crossing = _crossing(config, rows, pair)
        if np.isfinite(crossing):
            height = np.exp(np.interp(np.log(crossing), np.log(steps), np.log(_losses(config, rows, pair, LINEAR))))
            (handles[CROSSING],) = axis.plot(crossing, height, color="white", label=CROSSING, **STAR)
        log_axes(axis)
        name_problem(axis, pair)
        axis.set(xlabel="steps $n$", ylabel="risk / that of the best")
    figure.suptitle(
        f"Risk of named schedules / risk of the best last iterate, peak $\\gamma$ tuned "
        f"($B = {config.batch_size:g}$)\nbelow 1: averages; constant $\\gamma$ without an average is above all",
        fontsize=9,
    )
    listed = [handles[name] for name in sorted(handles, key=[*NAMES, CROSSING].index)]
    figure.legend(handles=listed, loc="outside lower center", frameon=False, fontsize=7.5, ncols=4)
    return figure
