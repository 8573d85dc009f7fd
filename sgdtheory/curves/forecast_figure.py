"""The figure of a forecast: the run, what is ahead of it, and its band."""

import numpy as np
from matplotlib.figure import Figure

from sgdtheory.curves.law_fit import LossPrediction
from sgdtheory.curves.loss_curve import LossCurve
from sgdtheory.plotting.style import colors, legend_below, log_axes, new_figure

POINTS = 200  # that are drawn of a run


def forecast_figure(run: LossCurve, now: float, path: LossPrediction, level: float, title: str) -> Figure:
    """Loss against steps: measured, expected from the last row on, and the band."""
    figure, axes = new_figure(1, 1, width=6.4, height=3.6)
    ax = axes[0, 0]
    measured, expected = colors(2)
    shown = np.unique(np.round(np.geomspace(1, run.step.size, POINTS)).astype(int)) - 1
    ax.plot(run.step[shown], run.loss[shown], "o", ms=3, color=measured, label="measured")
    steps = np.append(run.step[-1], path.step)
    ax.plot(steps, np.append(now, path.loss), color=expected, lw=1.4, label="expected")
    ends = (np.append(now, each) for each in (path.low, path.high))
    ax.fill_between(steps, *ends, color=expected, alpha=0.25, lw=0, label=f"{level:.0%} band")
    ax.set_xlabel("step $t$")
    ax.set_ylabel("loss")
    log_axes(ax)
    legend_below(figure, ax, columns=3)
    figure.suptitle(title)
    return figure
