"""Verdicts and figure of the worth of repeated epochs for networks, measured and by the theory."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from scipy import stats

from experiments._lib.panels import panels
from experiments._lib.repeated_data import LANGUAGE_MODELS, repeated
from experiments._lib.results import Verdict, VerdictName
from sgdtheory.plotting.style import BLACK, BLUE, GRAY, ORANGE, VERMILLION, legend_below, log_axes

NETWORK = "network"
FROZEN = "frozen layers"
MEASURED = "measured"
BEFORE = "features before training"
AFTER = "features after training"
EXPONENTS = "the teacher's a and b"
FIXED = "N samples"
FRESH = "fresh samples"
FOUR = 4  # passes, up to which language models hardly see a difference (Muennighoff et al. 2023)


class Row(NamedTuple):
    """One cell, as in the `UNITS` of the experiment."""

    kind: str
    arm: str
    noise_variance: float
    source: str
    order: str
    passes: float
    batch_size: float
    learning_rate: float
    risk: float
    worth: float
    low: float
    high: float


def of(rows: Sequence[Row], arm: str, noise: float, source: str, order: str = FIXED) -> list[Row]:
    """Worth of passes, by their number."""
    asked = "worth", arm, noise, source, order
    mine = [row for row in rows if (row.kind, row.arm, row.noise_variance, row.source, row.order) == asked]
    return sorted(mine, key=lambda row: row.passes)


def verdicts(config: Any, rows: Sequence[Row], seconds: float) -> list[Verdict]:
    """Four passes, noise, the theory's prediction, B*."""
    found = [_four(config, rows, arm, noise) for arm, noise in product(config.arms, config.noises)]
    if len(config.noises) > 1:
        found += [_noise(config, rows, arm) for arm in config.arms]
    for arm, noise in product(config.arms, config.noises):
        for source in (BEFORE, AFTER, EXPONENTS):
            if of(rows, arm, noise, source):
                found.append(_prediction(config, rows, (arm, noise, source)))
    found += [_rates(config, rows, arm) for arm in config.arms]
    if any(row.kind == "critical" for row in rows):
        found.append(_critical(config, rows))
    return [replace(found[0], seconds=seconds), *found[1:]]


def _name(arm: str, noise: float) -> str:
    return f"{arm}, σ² = {noise:g}"


def _shown(values: Sequence[float]) -> str:
    return ", ".join("beyond" if not np.isfinite(value) else f"{value:.2f}" for value in values)


def _four(config: Any, rows: Sequence[Row], arm: str, noise: float) -> Verdict:
    """E of four passes, and Muennighoff's law."""
    mine = of(rows, arm, noise, MEASURED)
    (four,) = (row for row in mine if row.passes == FOUR)
    passes = ", ".join(f"{row.passes:g}" for row in mine)
    published = repeated(FOUR, LANGUAGE_MODELS)
    return Verdict(
        f"four epochs are worth less than four times the samples: {_name(arm, noise)}",
        f"Factor E after {passes} epochs over N = {config.num_rows} samples, with B = {config.batch_size} and "
        f"{config.num_seeds} seeds: {_shown([row.worth for row in mine])}. On language models E is {published:.2f} "
        f"after {FOUR} epochs. Holds if the interval is below 4, fails if all of it is above 3.9",
        "below 4",
        four.worth,
        (four.low, four.high),
        "holds" if four.high < FOUR else "fails" if four.low > 0.975 * FOUR else "inconclusive",
    )


def _log_error(row: Row, level: float) -> float:
    """Standard error of log E, from its interval."""
    return float(np.log(row.high / row.low) / (2 * stats.norm.isf((1 - level) / 2)))


def _noise(config: Any, rows: Sequence[Row], arm: str) -> Verdict:
    """E of eight passes with little noise over that with much."""
    number = 2 * FOUR
    much, little = (
        next(row for row in of(rows, arm, noise, MEASURED) if row.passes == number)
        for noise in (max(config.noises), min(config.noises))
    )
    ratio = little.worth / much.worth
    error = np.hypot(_log_error(much, config.level), _log_error(little, config.level))
    half = float(np.exp(stats.norm.isf((1 - config.level) / 2) * error))
    low, high = float(ratio / half), float(ratio * half)
    return Verdict(
        f"noise lowers what {number} epochs are worth: {arm}",
        f"Factor E of {number} epochs at σ² = {min(config.noises):g} divided by E at σ² = {max(config.noises):g}: "
        f"{little.worth:.2f} divided by {much.worth:.2f}. Holds if the interval is above 1",
        "above 1",
        float(ratio),
        (low, high),
        "holds" if low > 1 else "fails" if high < 1 else "inconclusive",
    )


def _prediction(config: Any, rows: Sequence[Row], place: tuple[str, float, str]) -> Verdict:
    """E of the theory over E measured, where they are furthest apart."""
    arm, noise, source = place
    seen = of(rows, arm, noise, MEASURED)
    theory = of(rows, *place)
    pairs = [(a, b) for a, b in zip(theory, seen, strict=True) if a.passes > 1 and np.isfinite(a.worth * b.worth)]
    ratios = [(a.worth / b.worth, a.worth / b.high, a.worth / b.low, a.passes) for a, b in pairs]
    margin = config.margin
    inside = all(1 / margin < low and high < margin for _, low, high, _ in ratios)
    outside = any(high < 1 / margin or low > margin for _, low, high, _ in ratios)
    name: VerdictName = "holds" if inside else "fails" if outside else "inconclusive"
    worst = max(ratios, key=lambda each: abs(np.log(each[0])))
    passes = ", ".join(f"{row.passes:g}" for row in seen)
    return Verdict(
        f"the theory predicts what epochs are worth, from {source}: {_name(arm, noise)}",
        f"Factor E after {passes} epochs: predicted {_shown([a.worth for a in theory])}, measured "
        f"{_shown([b.worth for b in seen])}. The result is predicted over measured E after {worst[3]:g} epochs, where "
        f"the two differ most. Holds if the intervals of all ratios are within a factor of {margin:g}, fails if one "
        f"is outside",
        f"1 within a factor of {margin:g}",
        worst[0],
        worst[1:3],
        name,
    )


def _rates(config: Any, rows: Sequence[Row], arm: str) -> Verdict:
    """Best γ against passes where noise dominates, on the grid."""
    noise = max(config.noises)
    mine = of(rows, arm, noise, MEASURED)
    theory = of(rows, arm, noise, BEFORE)
    fall = mine[-1].learning_rate / mine[0].learning_rate
    text = ", ".join(f"{row.learning_rate:.3g}" for row in mine)
    own = ", ".join(f"{row.learning_rate:.3g}" for row in theory)
    return Verdict(
        f"the best γ falls with epochs: {_name(arm, noise)}",
        f"Best γ of the grid after {', '.join(f'{row.passes:g}' for row in mine)} epochs: {text}. The theory with "
        f"{BEFORE} has {own}. Measured is the last γ divided by the first. Holds if it is below 0.7",
        "below 1",
        float(fall),
        None,
        "holds" if fall < 0.7 else "fails",
    )


def _critical(config: Any, rows: Sequence[Row]) -> Verdict:
    """Growth of B* from one pass to the most, over N samples and over fresh ones."""
    mine = {(row.order, row.passes): row for row in rows if row.kind == "critical"}
    last = max(config.critical_passes)
    fixed, fresh = mine[FIXED, last], mine[FRESH, last]
    ratio = fixed.batch_size / fresh.batch_size
    error = np.hypot(_log_error(fixed, config.level), _log_error(fresh, config.level))
    half = float(np.exp(stats.norm.isf((1 - config.level) / 2) * error))
    low, high = float(ratio / half), float(ratio * half)
    sizes = [
        f"{order} {_shown([mine[order, K].batch_size for K in config.critical_passes])}" for order in (FIXED, FRESH)
    ]
    known = bool(np.isfinite([ratio, low, high]).all())
    name: VerdictName = "holds" if known and low > 1 else "fails" if known and high < 1 else "inconclusive"
    return Verdict(
        f"B* grows faster with epochs than with data: {_name(NETWORK, fixed.noise_variance)}",
        f"B* after {', '.join(map(str, config.critical_passes))} epochs (with more epochs it is not inside the grid "
        f"in every resample): {'; '.join(sizes)}. Measured is B* after {last} epochs over N samples divided by B* for "
        f"as many fresh samples. Holds if the interval is above 1, fails if it is below 1",
        "above 1",
        float(ratio) if known else "—",
        (low, high) if known else None,
        name,
    )


# ------------------------------------------------------------------ figure

LOOKS: dict[str, dict[str, Any]] = {
    BEFORE: {"color": BLUE, "ls": "--"},
    AFTER: {"color": ORANGE, "ls": "-."},
    EXPONENTS: {"color": GRAY, "ls": ":"},
}


def figure(config: Any, rows: Sequence[Row]) -> Figure:
    """Worth of passes, a panel an arm and σ²."""
    cells = list(product(config.arms, config.noises))
    drawn, axes = panels(len(cells), width=3.7, height=3.2)
    for axis, (arm, noise) in zip(axes, cells, strict=False):
        seen = of(rows, arm, noise, MEASURED)
        passes = np.array([row.passes for row in seen])
        worth = np.array([row.worth for row in seen])
        reach = [np.nan_to_num(worth - [row.low for row in seen]), np.nan_to_num([row.high for row in seen] - worth)]
        axis.plot(passes, passes, color=BLACK, lw=0.8, label="fresh samples")
        for source, look in LOOKS.items():
            theory = of(rows, arm, noise, source)
            axis.plot([r.passes for r in theory], [r.worth for r in theory], lw=1.2, label=f"theory: {source}", **look)
        axis.errorbar(
            passes, worth, yerr=np.maximum(reach, 0), fmt="o", color=VERMILLION, ms=4, capsize=2, label="measured"
        )
        log_axes(axis)
        axis.set(xlabel=f"epochs over $N = {config.num_rows}$ samples", ylabel="worth $E$, in $N$ fresh samples")
        axis.set_title(f"{arm}, $\\sigma^2 = {noise:g}$", fontsize=8)
    legend_below(drawn, axes[0])
    drawn.suptitle("Worth of epochs over a teacher's samples, in fresh samples, for a network", fontsize=9)
    return drawn
