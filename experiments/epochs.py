"""How much are further epochs worth, how does B* grow with them, and what does a new order in each epoch gain?"""

import time
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import sgdtheory as st
from experiments._lib.answers import inside
from experiments._lib.panels import name_problem, panels
from experiments._lib.processes import map_on_cores
from experiments._lib.repeated_data import LANGUAGE_MODELS, fitted, repeated
from experiments._lib.results import Result, Verdict
from experiments._lib.rows import columns_of, rows_of
from experiments._lib.worth_of_passes import DRAWN, FRESH, RESHUFFLED, Cell, Row, critical, of, worth
from sgdtheory.plotting.style import BLACK, colors, legend, legend_below, log_axes


@dataclass(frozen=True)
class Config:
    """Problems of all N samples' mean, data sizes and passes; averaged SGD, the best constant γ."""

    exponents: tuple[tuple[float, float], ...] = ((1.5, 2.0), (1.5, 3.0), (2.0, 1.5))
    noises: tuple[float, ...] = (1.0, 0.01)
    num_rows: tuple[int, ...] = (64, 128, 256)
    passes: tuple[int, ...] = (1, 2, 4, 8, 16, 64)
    batch_size: int = 4
    critical_exponents: tuple[tuple[float, float], ...] = ((1.5, 2.0), (1.5, 3.0))
    critical_rows: tuple[int, ...] = (64, 1024)
    critical_passes: tuple[int, ...] = (1, 4, 16, 64)


SCALES = {
    "quick": Config(
        exponents=((1.5, 2.0), (2.0, 1.5)),
        num_rows=(128,),
        passes=(1, 2, 4, 16),
        critical_exponents=((1.5, 2.0),),
        critical_rows=(256,),
        critical_passes=(1, 4, 16),
    ),
    "full": Config(),
}
UNITS = {
    "kind": "worth: least risks at one batch size; critical: B*",
    "capacity": "exponent a of the eigenvalues",
    "source": "exponent b of the initial risk",
    "noise_variance": "σ², units of y²",
    "num_rows": "N",
    "passes": "K: K N samples are read",
    "order": "with replacement, reshuffled, or fresh rows: K N of them, once",
    "batch_size": "B; of kind critical B*, without its rounding",
    "learning_rate": "best γ; of kind critical at B*",
    "risk": "least excess risk over γ, units of y²; of kind critical R_opt",
    "worth": "E: as many times N fresh rows have that risk",
    "fixed_rate_risk": "risk at the γ that is best for one pass",
}


def run(config: Config) -> Result:
    """Worth of passes, and B*."""
    start = time.perf_counter()
    cells = product(config.exponents, config.noises, config.num_rows, (DRAWN, RESHUFFLED))
    items = [("worth", Cell(*each)) for each in cells]
    cells = product(config.critical_exponents, config.noises[:1], config.critical_rows, (FRESH, DRAWN))
    items += [("critical", Cell(*each)) for each in cells]
    largest_first = sorted(items, key=lambda item: (-item[1].num_rows, item[1].order))
    rows = [row for part in map_on_cores(partial(_solve, config), largest_first) for row in part]
    verdicts = _verdicts(config, rows, time.perf_counter() - start)
    return Result(columns_of(rows), UNITS, {"epochs": _figure(config, rows)}, verdicts)


def redraw(config: Config, recorded: Any) -> dict[str, Figure]:
    """The figure of a recorded table."""
    return {"epochs": _figure(config, rows_of(Row, recorded.rows))}


def _solve(config: Config, item: tuple[str, Cell]) -> list[Row]:
    kind, cell = item
    return worth(cell, config.passes, config.batch_size) if kind == "worth" else critical(cell, config.critical_passes)


# ------------------------------------------------------------------ verdicts


def _cells(config: Config) -> list[tuple[tuple[float, float], float, int]]:
    return list(product(config.exponents, config.noises, config.num_rows))


def _verdicts(config: Config, rows: list[Row], seconds: float) -> tuple[Verdict, ...]:
    return (
        _reshuffling(config, rows, seconds),
        _first_pass(config, rows),
        _four_passes(config, rows),
        _one_law(config, rows),
        *(_growing_worth(config, rows, pair) for pair in config.exponents if len(config.num_rows) > 2),
        _rates(config, rows),
        _stopping(config, rows),
        *(_critical_growth(config, rows, pair) for pair in config.critical_exponents),
    )


def _reshuffling(config: Config, rows: list[Row], seconds: float) -> Verdict:
    """Least risk of both orders."""
    ratios = [
        (new.risk / drawn.risk, new.passes)
        for cell in _cells(config)
        for new, drawn in zip(of(rows, "worth", RESHUFFLED, *cell), of(rows, "worth", DRAWN, *cell), strict=True)
    ]
    every = [ratio for ratio, _ in ratios]
    means = {passes: np.mean([ratio for ratio, each in ratios if each == passes]) for passes in config.passes}
    text = ", ".join(f"{passes}: {mean:.2f}" for passes, mean in means.items())
    return Verdict(
        "a new order in each epoch beats drawing with replacement",
        f"Least risk over γ of reshuffled epochs divided by that of as many samples drawn with replacement, at B = "
        f"{config.batch_size}, for all problems, σ², N and numbers of epochs. Means by number of epochs: {text}. "
        f"Holds if all ratios are below 1.005",
        "below 1",
        f"{min(every):.3f} … {max(every):.3f}",
        (float(min(every)), float(max(every))),
        "holds" if max(every) < 1.005 else "fails",
        seconds,
    )


def _first_pass(config: Config, rows: list[Row]) -> Verdict:
    """N samples with replacement are 63% of the rows."""
    worth = [of(rows, "worth", DRAWN, *cell)[0].worth for cell in _cells(config)]
    distinct = 1 - np.exp(-1)
    return Verdict(
        "N draws with replacement are worth at least the distinct samples among them",
        "Factor E for N draws with replacement. They contain a fraction 1 − 1/e of the N samples, some of them more "
        "than once. Holds if all E are at least 0.95 times this fraction, and below 1",
        f"{distinct:.3f} … 1",
        f"{min(worth):.2f} … {max(worth):.2f}",
        (float(min(worth)), float(max(worth))),
        "holds" if min(worth) > 0.95 * distinct and max(worth) < 1 else "fails",
    )


def _four_passes(config: Config, rows: list[Row]) -> Verdict:
    """Muennighoff et al. (2023): up to four epochs are nearly as good as fresh data."""
    found = {
        cell: next(r.worth for r in of(rows, "worth", RESHUFFLED, *cell) if r.passes == 4) for cell in _cells(config)
    }
    quiet = min(config.noises)
    shown = {
        (pair, noise): found[pair, noise, max(config.num_rows)]
        for pair, noise in product(config.exponents, config.noises)
    }
    text = "; ".join(f"a = {p[0]:g}, b = {p[1]:g}, σ² = {s:g}: {value:.2f}" for (p, s), value in shown.items())
    falls = [shown[pair, quiet] - shown[pair, max(config.noises)] for pair in config.exponents]
    return Verdict(
        "label noise lowers what four epochs are worth",
        f"Factor E of four reshuffled epochs at N = {max(config.num_rows)} and the best γ: {text}. On language models "
        f"it is nearly 4 (3.73 by the law of Muennighoff et al., 2023). Holds if E is smaller with more noise on "
        f"every problem",
        "less with more noise",
        f"{min(found.values()):.2f} … {max(found.values()):.2f}",
        (float(min(found.values())), float(max(found.values()))),
        "holds" if min(falls) > 0 else "fails",
    )


def _one_law(config: Config, rows: list[Row]) -> Verdict:
    """Judge whether E(K) has the shape of Muennighoff's law."""
    fits = {}
    for cell in _cells(config):
        mine = [row for row in of(rows, "worth", RESHUFFLED, *cell) if np.isfinite(row.worth)]
        fits[cell] = fitted(np.array([r.passes for r in mine]), np.array([r.worth for r in mine]))
    worst = max(off for _, off in fits.values())
    largest = max(config.num_rows)
    text = "; ".join(
        f"a = {pair[0]:g}, b = {pair[1]:g}, σ² = {noise:g}: {fits[pair, noise, largest][0]:.2g}"
        for pair, noise in product(config.exponents, config.noises)
    )
    return Verdict(
        "one number R predicts what epochs are worth",
        f"Largest error of the law E = 1 + R (1 − exp(−(K − 1)/R)) for K up to {max(config.passes)} epochs, with one "
        f"R for each problem, σ² and N. Holds within 15%. R at N = {largest}: {text}. On language models R is "
        f"{LANGUAGE_MODELS} (Muennighoff et al., 2023)",
        "R alone",
        f"{100 * worst:.1f}%",
        None,
        "holds" if worst < 0.15 else "fails",
    )


def _growing_worth(config: Config, rows: list[Row], pair: tuple[float, float]) -> Verdict:
    """At most passes, against N."""
    noise = max(config.noises)
    last = [of(rows, "worth", RESHUFFLED, pair, noise, size)[-1].worth for size in config.num_rows]
    fit = st.fit_power_law(config.num_rows, last)
    low, high = fit.interval()
    hard = pair[1] < pair[0]
    band = (0.1, np.inf) if hard else (-0.15, 0.15)
    return Verdict(
        f"worth of all epochs as a function of N: a = {pair[0]:g}, b = {pair[1]:g}",
        f"E of {max(config.passes)} reshuffled epochs at σ² = {noise:g}, N = {min(config.num_rows)} … "
        f"{max(config.num_rows)}: {', '.join(f'{each:.2f}' for each in last)}. Measured is the power of N, with its "
        f"95% interval. One epoch has the optimal rate of convergence only for b > a. For b > a the claim is a power "
        f"within 0.15 of 0, for b < a a power above 0.1. Holds if the whole interval is in this range, fails if it is "
        f"outside",
        "above 0.1" if hard else "about 0",
        fit.exponent,
        (float(low), float(high)),
        inside((low, high), *band),
    )


def _rates(config: Config, rows: list[Row]) -> Verdict:
    """Best γ against passes, where noise dominates."""
    noise = max(config.noises)
    pair = config.exponents[0]
    mine = of(rows, "worth", RESHUFFLED, pair, noise, max(config.num_rows))
    late = mine[-2:]
    slope = np.log(late[1].learning_rate / late[0].learning_rate) / np.log(late[1].passes / late[0].passes)
    text = ", ".join(f"{row.passes:g}: {row.learning_rate:.3g}" for row in mine)
    return Verdict(
        "with many epochs γ K is fixed, like early stopping",
        f"Best γ by number K of epochs at a = {pair[0]:g}, b = {pair[1]:g}, σ² = {noise:g}, N = "
        f"{max(config.num_rows)}: {text}. Measured is its power of K between the last two. Holds between −1.1 and −0.8",
        -1.0,
        float(slope),
        None,
        "holds" if -1.1 < slope < -0.8 else "fails",
    )


def _stopping(config: Config, rows: list[Row]) -> Verdict:
    """More passes at the γ of one pass, and at the best γ."""
    noise = max(config.noises)
    rises, tuned, best = [], [], []
    for pair, size in product(config.exponents, config.num_rows):
        mine = of(rows, "worth", RESHUFFLED, pair, noise, size)
        fixed = np.array([row.fixed_rate_risk for row in mine])
        risks = np.array([row.risk for row in mine])
        rises.append(fixed[-1] / fixed.min())
        best.append(mine[int(np.argmin(fixed))].passes)
        tuned.append((risks[1:] / risks[:-1]).max())
    return Verdict(
        "epochs overfit at a fixed γ, not at the best γ",
        f"Reshuffled epochs at σ² = {noise:g}. At the best γ of one epoch the risk is least after {min(best):g} … "
        f"{max(best):g} epochs; measured is the risk after {max(config.passes)} epochs divided by this least risk. At "
        f"the best γ of each K the risk rises by at most {100 * max(max(tuned) - 1, 0):.2g}% from one K to the next. "
        f"Holds if the latter is below 1% and the risk at the fixed γ rises on some problem",
        "above 1",
        f"{min(rises):.2f} … {max(rises):.2f}",
        (float(min(rises)), float(max(rises))),
        "holds" if max(tuned) < 1.01 and max(rises) > 1.1 else "fails",
    )


def _power(rows: list[Row], first: float) -> float:
    """Return the power of K in B*, from K = `first` on."""
    late = [row for row in rows if row.passes >= first]
    return float(np.polyfit(np.log([row.passes for row in late]), np.log([row.batch_size for row in late]), 1)[0])


def _critical_growth(config: Config, rows: list[Row], pair: tuple[float, float]) -> Verdict:
    """Powers of K of B*, with replacement, against those of fresh data."""
    noise = config.noises[0]
    slopes, texts = [], []
    for size in config.critical_rows:
        drawn = of(rows, "critical", DRAWN, pair, noise, size)
        fresh = of(rows, "critical", FRESH, pair, noise, size)
        slopes.append((_power(drawn, 4), _power(fresh, 4)))
        sizes = ", ".join(f"{row.batch_size:.3g}" for row in drawn)
        texts.append(f"N = {size}: {sizes}")
    passes = ", ".join(map(str, config.critical_passes))
    own = [each for each, _ in slopes]
    others = [each for _, each in slopes]
    return Verdict(
        f"B* grows faster with epochs than with data: a = {pair[0]:g}, b = {pair[1]:g}",
        f"B* of samples drawn with replacement, σ² = {noise:g}, after {passes} epochs: {'; '.join(texts)}. Measured "
        f"is its power of the number of epochs, from 4 epochs on. With as many fresh samples the power is "
        f"{min(others):.2f} … {max(others):.2f}. Holds if the measured power is larger at every N",
        "1: R_opt and the steps at B* no longer change",
        f"{min(own):.2f} … {max(own):.2f}",
        (min(own), max(own)),
        "holds" if all(each > other for each, other in slopes) else "fails",
    )


# ------------------------------------------------------------------ figure


def _figure(config: Config, rows: list[Row]) -> Figure:
    """Worth of passes, a panel a problem, and B*."""
    figure, axes = panels(len(config.exponents) + 1, width=3.7, height=3.2)
    size = max(config.num_rows)
    tones = colors(len(config.noises))
    for axis, pair in zip(axes, config.exponents, strict=False):
        passes = np.array(config.passes, float)
        axis.plot(passes, passes, color=BLACK, lw=0.8, label="fresh samples")
        axis.plot(passes, repeated(passes, LANGUAGE_MODELS), color=BLACK, lw=0.9, ls=":", label="language models")
        for (noise, tone), order in product(zip(config.noises, tones, strict=True), (RESHUFFLED, DRAWN)):
            mine = of(rows, "worth", order, pair, noise, size)
            look: Any = {"ls": "-", "marker": "o"} if order == RESHUFFLED else {"ls": "--", "marker": "s", "mfc": "w"}
            worth = [row.worth for row in mine]
            axis.plot(passes, worth, color=tone, ms=4, label=f"$\\sigma^2 = {noise:g}$, {order}", **look)
        log_axes(axis)
        name_problem(axis, pair)
        axis.set(xlabel=f"epochs over $N = {size}$ samples", ylabel="worth $E$, in $N$ fresh samples", ylim=(0.5, 40))
    axis = axes[-1]
    pair = config.critical_exponents[0]
    for number, tone in zip(config.critical_rows, colors(len(config.critical_rows)), strict=True):
        for order, look in ((DRAWN, "--s"), (FRESH, ":")):
            mine = of(rows, "critical", order, pair, config.noises[0], number)
            name = f"$N = {number}$" if order == DRAWN else None
            axis.plot(
                [r.passes for r in mine], [r.batch_size for r in mine], look, color=tone, ms=4, mfc="w", label=name
            )
    log_axes(axis)
    name_problem(axis, pair)
    axis.set(xlabel="epochs; dotted: fresh samples instead", ylabel="$B^*$, with replacement")
    legend(axis)
    figure.suptitle("Epochs over the same samples: worth in fresh samples, and critical batch size", fontsize=9)
    legend_below(figure, axes[0])
    return figure
