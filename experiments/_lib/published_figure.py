"""Figure of published numbers and the exact theory."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments._lib.published_numbers import (
    BETA2,
    BETA2_LOSSES,
    DURATIONS,
    LINEAR,
    STEP_LAW_ALONG_DATA,
    WHOLE,
    losses_124m,
    lowest,
)
from experiments._lib.published_theory import ADAM, SGD, Row, of
from experiments._lib.published_verdicts import beta2_losses
from sgdtheory.plotting.style import BLACK, GRAY, categories, legend, log_axes, new_figure

# Lines beyond these would hide the runs: γ* of the other problems at b < a hardly depends on the share, or not at all.
SHOWN = (SGD, (1.2, 1.3)), (SGD, (1.2, 1.4)), (SGD, (2.0, 3.0)), (ADAM, (1.5, 1.2)), (ADAM, (2.0, 1.5))
SHARES = {**LINEAR, WHOLE: 1.0}


def figure(config: Any, rows: list[Row]) -> Figure:
    """Slopes of γ* along D, losses and best γ by share of the decay, and β₂; public runs in black."""
    drawn, axes = new_figure(2, 2, width=4.2, height=3.2)
    _along_data(axes[0, 0], config, rows)
    _beta2(axes[0, 1], config, rows)
    _shares(axes[1, 0], axes[1, 1], config, rows)
    drawn.suptitle("Published numbers (black) and the exact theory (colours)", fontsize=10)
    return drawn


def _along_data(axis: Axes, config: Any, rows: list[Row]) -> None:
    """Slope of ln γ* in ln D against B."""
    axis.plot(
        list(STEP_LAW_ALONG_DATA),
        list(STEP_LAW_ALONG_DATA.values()),
        color=BLACK,
        marker="s",
        ms=4,
        label="step-law's runs",
    )
    low, high = sorted(config.samples)[-2:]
    for (method, pair), style in zip(config.kinks, categories(len(config.kinks)), strict=True):
        found = {
            data: {
                row.batch_size: np.log(row.learning_rate)
                for row in of(rows, "kink", method, pair)
                if row.number == data
            }
            for data in (low, high)
        }
        sizes = sorted(found[low])
        slopes = [(found[high][size] - found[low][size]) / np.log(high / low) for size in sizes]
        axis.plot(sizes, slopes, lw=1, ms=4, label=f"{method}, $a = {pair[0]:g}$, $b = {pair[1]:g}$", **style)
    axis.axhline(0, color=GRAY, lw=0.8)
    axis.set(
        xlabel="batch size (sequences; theory: samples)",
        ylabel=r"$d \ln \gamma^\star / d \ln D$",
        title=r"best $\gamma$ along the duration, $B$ fixed",
        ylim=(-0.5, 0.6),
    )
    log_axes(axis, "x")
    legend(axis, fontsize=6, ncol=2)


def _beta2(axis: Axes, config: Any, rows: list[Row]) -> None:
    """Loss over the least one against 1 − β₂."""
    memory = 1 - np.array(BETA2)
    table = BETA2_LOSSES["d1024"]
    marks = "osvD"
    for mark, (size, losses) in zip(marks, table.items(), strict=True):
        axis.plot(
            memory,
            100 * (np.array(losses) / min(losses) - 1),
            color=BLACK,
            lw=0.8,
            marker=mark,
            ms=4,
            label=f"runs (d1024), $B = {size}$",
        )
    pair = config.beta2[-1]
    every = beta2_losses(config, rows, pair)
    mine = {size: every[size] for size in sorted(every)[::2]}
    for (size, risks), style in zip(mine.items(), categories(len(mine)), strict=True):
        axis.plot(
            memory, 100 * (np.array(risks) / min(risks) - 1), lw=1, ms=4, label=f"theory, $B = {size:g}$", **style
        )
    axis.set(
        xlabel=r"$1 - \beta_2$",
        ylabel="above the least (%)",
        title=rf"loss, and Adam's excess risk ($a = {pair[0]:g}$, $b = {pair[1]:g}$)",
    )
    log_axes(axis, "x")
    legend(axis, fontsize=6, ncol=2)


def _shares(left: Axes, right: Axes, config: Any, rows: list[Row]) -> None:
    """Loss at the best γ, and that γ, against the share of a linear decay."""
    losses, _ = losses_124m()
    steps = max(DURATIONS)
    shares = list(SHARES.values())
    rates, values = np.array([lowest(losses, steps, name) for name in SHARES]).T
    lines: list[tuple[str, np.ndarray, np.ndarray, dict[str, Any]]] = [
        ("124M runs", np.exp(rates), values, {"color": BLACK, "marker": "s"})
    ]
    every = [(method, tuple(pair)) for method, pair, _ in config.schedules]
    cases = [case for case in every if case in SHOWN] or every
    for (method, pair), style in zip(cases, categories(len(cases)), strict=True):
        table = {row.case: row for row in of(rows, "schedules", method, pair) if row.number == max(config.durations)}
        chosen = [table[name] for name in SHARES]
        label = f"{method}, $a = {pair[0]:g}$, $b = {pair[1]:g}$"
        lines.append(
            (label, np.array([row.learning_rate for row in chosen]), np.array([row.risk for row in chosen]), style)
        )
    for label, gammas, heights, style in lines:
        unit = heights[0] - heights.min()
        if unit > 0:
            left.plot(shares, (heights - heights.min()) / unit, lw=1, ms=4, label=label, **style)
        right.plot(shares, gammas / gammas[0], lw=1, ms=4, label=label, **style)
    left.set(
        xlabel="share of the linear decay",
        ylabel="above the best share (10%: 1)",
        title=r"loss at the best $\gamma$, 50,000 steps",
        ylim=(-0.05, 1.3),
    )
    right.set(xlabel="share of the linear decay", ylabel=r"best $\gamma$ over that of 10%", title=r"best $\gamma$")
    log_axes(right, "y")
    legend(right, fontsize=6, ncol=2)
