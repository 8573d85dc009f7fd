"""Figures of local steps: B*, time, outer steps, networks; one message each."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments._lib.local_sgd_networks import ARMS, ratio_of_means
from experiments._lib.local_sgd_theory import DILOCO, Row
from experiments._lib.panels import name_problem, panels
from sgdtheory.plotting.style import BLACK, BLUE, VERMILLION, colors, legend_below, log_axes, power_of_ten


def figures_of(config: Any, rows: Sequence[Row]) -> dict[str, Figure]:
    """All figures."""
    return {
        "local_sgd_critical": _critical(config, rows),
        "local_sgd_time": _time(config, rows),
        "local_sgd_outer": _outer(config, rows),
        "local_sgd_networks": _networks(config, rows),
    }


def _of(rows: Sequence[Row], part: str, **fixed: Any) -> list[Row]:
    found = [row for row in rows if row.part == part and all(getattr(row, name) == v for name, v in fixed.items())]
    return sorted(found, key=lambda row: (row.local_steps, row.outer_momentum))


def _critical(config: Any, rows: Sequence[Row]) -> Figure:
    """B* of all workers over SGD's against H, a panel a problem; where none is useful, there is no point."""
    figure, axes = panels(len(config.exponents), width=3.4, height=3.4)
    for axis, pair in zip(axes, config.exponents, strict=True):
        fixed: Any = {"capacity": pair[0], "source": pair[1]}
        axis.axhline(1.0, color=BLACK, lw=0.8, ls=":")
        for workers, color in zip(config.critical_workers, colors(len(config.critical_workers)), strict=True):
            for momentum in (0.0, DILOCO[1]):
                look: Any = {"ls": "--", "mfc": "w"} if momentum else {"ls": "-"}
                mine = _of(rows, "critical", num_workers=workers, outer_momentum=momentum, **fixed)
                if not mine:
                    continue
                name = f"K = {workers}, {'DiLoCo' if momentum else 'mean'}"
                values = [row.value / row.predicted for row in mine]
                axis.plot([row.local_steps for row in mine], values, marker="o", ms=4, color=color, label=name, **look)
        log_axes(axis)
        _tick_steps(axis, config.local_steps)
        name_problem(axis, pair)
        axis.set(xlabel="local steps $H$", ylabel="$K B^*$ / $B^*$ of SGD")
    eta, mu = DILOCO
    title = f"Critical batch size of K workers: their mean, and DiLoCo's outer step (η = {eta:g}, μ = {mu:g})"
    figure.suptitle(
        f"{title}; ${power_of_ten(config.num_samples)}$ samples, overhead {config.overhead:.0%}", fontsize=9
    )
    legend_below(figure, axes[0], columns=3)
    return figure


def _time(config: Any, rows: Sequence[Row]) -> Figure:
    """Time to SGD's risk over that of H = 1 against H, where a synchronisation costs a step."""
    figure, axes = panels(len(config.exponents), width=3.4, height=3.4)
    for axis, pair in zip(axes, config.exponents, strict=True):
        axis.axhline(1.0, color=BLACK, lw=0.8, ls=":")
        for workers, color in zip(config.workers, colors(len(config.workers)), strict=True):
            mine = _of(rows, "data", capacity=pair[0], source=pair[1], num_workers=workers)
            steps = np.array([row.local_steps for row in mine])
            values = np.array([row.value for row in mine]) * (1 + 1 / steps)
            axis.plot(steps, values / values[0], marker="o", ms=4, color=color, label=f"K = {workers}")
        axis.set(xscale="log", xlabel="local steps $H$", ylabel="time / time at $H = 1$")
        _tick_steps(axis, config.local_steps)
        name_problem(axis, pair)
    figure.suptitle("Time to SGD's risk if a synchronisation costs one step, fixed $K B$, workers' mean", fontsize=9)
    legend_below(figure, axes[0], columns=6)
    return figure


def _outer(config: Any, rows: Sequence[Row]) -> Figure:
    """Risk against the outer momentum, a line an outer rate, a panel an H."""
    figure, axes = panels(len(config.outer_steps), width=3.8, height=3.4)
    for axis, steps in zip(axes, config.outer_steps, strict=True):
        axis.axhline(1.0, color=BLACK, lw=0.8, ls=":")
        for rate, color in zip(config.outer_rates, colors(len(config.outer_rates)), strict=True):
            mine = _of(rows, "outer", local_steps=steps, outer_rate=rate)
            places = [row.outer_momentum for row in mine]
            axis.plot(places, [row.value for row in mine], "o-", ms=4, color=color, label=f"η = {rate:g}")
        values = [row.value for row in _of(rows, "outer")]
        axis.set_ylim(min(values) - 0.03, max(values) + 0.03)
        axis.set(xlabel="outer momentum μ", ylabel="risk of 1.2 D samples / $R_{opt}(D)$", title=f"H = {steps}")
    title = (
        f"Outer step, K = {config.outer_workers}, $K B$ near SGD's $B^*$, the best inner γ of each, uniform averages"
    )
    figure.suptitle(title, fontsize=9)
    legend_below(figure, axes[0])
    return figure


def _networks(config: Any, rows: Sequence[Row]) -> Figure:
    """Risk or loss over that of H = 1: points with two standard errors; of frozen features lines of the theory."""
    parts = ["features", *config.networks]
    figure, axes = panels(len(parts), width=3.4, height=3.2)
    for axis, part in zip(axes, parts, strict=True):
        axis.axhline(1.0, color=BLACK, lw=0.8, ls=":")
        for (words, outer), color in zip(ARMS.items(), (BLUE, VERMILLION), strict=True):
            mine = [row for row in _of(rows, part, outer_momentum=outer[1]) if row.num_workers > 1]
            steps = sorted({row.local_steps for row in mine})
            base = [row for row in mine if row.local_steps == 1]
            found = [ratio_of_means([r for r in mine if r.local_steps == each], base) for each in steps]
            middle, errors = np.array(found).T
            axis.errorbar(steps, middle, yerr=2 * errors, fmt="o", ms=4, capsize=2, color=color, label=words)
            if part == "features":
                said = [next(r.predicted for r in mine if r.local_steps == each) for each in steps]
                axis.plot(steps, np.array(said) / said[0], color=color, label=f"{words}, theory")
        axis.set(xscale="log", xlabel="local steps $H$", ylabel="loss / loss at $H = 1$", title=part)
        _tick_steps(axis, steps)
    figure.suptitle(
        "Loss of networks with local steps, and theory for frozen features; bars: two standard errors", fontsize=9
    )
    legend_below(figure, axes[0])
    return figure


def _tick_steps(axis: Axes, steps: Sequence[float]) -> None:
    axis.set_xticks(steps, [f"{each:g}" for each in steps])
    axis.set_xticks([], minor=True)
