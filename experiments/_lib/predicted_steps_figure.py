"""The picture of `curves_batch_size`: steps at other batch sizes, predicted and measured."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments._lib.batch_curves import FLOOR
from experiments._lib.panels import panels
from experiments._lib.predicted_steps import AS_SGD, NETWORKS, ONE_RATE, Row, Tuned, tuned
from sgdtheory.plotting.style import (
    BLACK,
    VERMILLION,
    categories,
    colors,
    legend,
    legend_below,
    log_axes,
    tick_measured,
)


class Config(Protocol):
    """Fields of the experiment's config that the figure needs."""

    @property
    def fitted(self) -> float: ...
    @property
    def trials(self) -> int: ...
    @property
    def batches(self) -> Sequence[int]: ...
    @property
    def cases(self) -> Sequence[str]: ...
    def targets_of(self, case: str) -> Sequence[float]: ...
    def rates_of(self, case: str) -> Sequence[float]: ...


def figure(config: Config, rows: list[Row]) -> Figure:
    """Steps at the best learning rate against B: measured points, the prediction from B0 as a line."""
    cases = [case for case in config.cases if not case.endswith(ONE_RATE)]
    drawn, axes = panels(len(cases) + 1, height=2.9)
    _draw_one_rate(axes[-1], config, rows)
    for axis, case in zip(axes[:-1], cases, strict=True):
        targets = config.targets_of(case)
        for color, target in zip(colors(len(targets)), targets, strict=True):
            _draw(axis, config, [tuned(rows, case, trial, target) for trial in range(config.trials)], color)
        axis.axvline(config.fitted, color=VERMILLION, lw=1.0, ls=":", label="batch size of the fitted curves")
        log_axes(axis)
        tick_measured(axis, sorted({row.batch_size for row in rows if row.case == case}))
        name = case.replace("σ²", r"$\sigma^2$")
        known = " − L0" if case.startswith("theory") else ""
        shown = ", ".join(f"{target - (FLOOR if known else 0):g}" for target in targets)
        axis.set_title(f"{name}\nto loss{known.replace('L0', '$L_0$')} of {shown}", fontsize=8.5)
        axis.set(xlabel="batch size $B$", ylabel=r"steps at the best $\gamma$")
    drawn.suptitle(
        f"Loss curves at $B_0 = {config.fitted:g}$ alone predict the steps to a target at other batch sizes",
        fontsize=10,
    )
    legend_below(drawn, axes[0], columns=3)
    return drawn


def _draw(axis: Axes, config: Config, trials: list[Tuned], color: Any) -> None:
    """Geometric means over the trials that have a batch size, with their range."""
    logs = {
        batch: np.log(
            [(one.measured[k], one.predicted[k]) for one in trials for k in np.flatnonzero(one.batch_size == batch)]
        )
        for batch in sorted({float(batch) for one in trials for batch in one.batch_size})
    }
    batches = list(logs)
    middle, low, high = (np.exp([pick(each, axis=0) for each in logs.values()]).T for pick in (np.mean, np.min, np.max))
    first = not axis.lines
    axis.fill_between(batches, low[1], high[1], color=color, alpha=0.2, lw=0)
    axis.plot(batches, middle[1], color=color, label="predicted, all trials" if first else "_")
    reach = [middle[0] - low[0], high[0] - middle[0]]
    axis.errorbar(
        batches,
        middle[0],
        reach,
        color=color,
        fmt="o",
        ms=4,
        mec=BLACK,
        mew=0.4,
        lw=1,
        label="measured" if first else "_",
    )


def _draw_one_rate(axis: Axes, config: Config, rows: list[Row]) -> None:
    """Predicted over measured steps at the smallest γ, means over trials and targets."""
    axis.axhline(1.0, color=BLACK, lw=0.8)
    for case, look in zip((*NETWORKS, AS_SGD), categories(3), strict=True):
        rate = min(config.rates_of(case))
        points = []
        for batch in config.batches:
            mine = [row for row in rows if (row.case, row.batch_size, row.learning_rate) == (case, batch, rate)]
            ratios = [np.log(row.predicted / row.measured) for row in mine]
            if np.isfinite(ratios).any():
                points.append((batch, np.exp(np.nanmean(ratios))))
        axis.plot(*zip(*points, strict=True), label=case, ms=4, **look)
    log_axes(axis)
    tick_measured(axis, config.batches)
    axis.set_title(r"At one $\gamma$, the smallest of the grid", fontsize=8.5)
    axis.set(xlabel="batch size $B$", ylabel="predicted / measured steps", ylim=(0.35, 4))
    legend(axis)
