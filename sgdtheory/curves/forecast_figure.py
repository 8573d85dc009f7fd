"""The figure of a forecast: the later part of the run, the losses expected ahead, and their band."""

import numpy as np
from matplotlib.figure import Figure

from sgdtheory.curves.law_fit import LossPrediction
from sgdtheory.curves.loss_curve import LossCurve
from sgdtheory.plotting.style import BLUE, VERMILLION, legend, new_figure

POINTS = 400  # At most so many points of the run are drawn, evenly in steps.
LEFT_OUT = 1 / 3  # The first third of the run falls so much that the forecast would be a flat line beside it.
SPIKES = 0.99  # The axis ends at this quantile of the losses in view: spikes may leave it.
ROOM = 0.3  # The axis goes on for this fraction beyond the last step: the value at the end is written there.


def forecast_figure(run: LossCurve, now: float, path: LossPrediction, level: float, title: str) -> Figure:
    """Draw measured and expected losses against steps, the band, and the value at the end.

    Args:
        run: that is forecast.
        now: its smoothed loss at the last row.
        path: losses and bands along the rest of the run.
        level: of the band.
        title: of the figure.
    """
    figure, axes = new_figure(1, 1, width=6.4, height=3.6)
    ax = axes[0, 0]
    seen = np.flatnonzero(run.step >= LEFT_OUT * run.step[-1])
    shown = seen[np.unique(np.linspace(0, seen.size - 1, POINTS).round().astype(int))]
    ax.plot(run.step[shown], run.loss[shown], "o", ms=2, color=BLUE, label="measured")
    steps, expected, low, high = (
        np.append(first, rest)
        for first, rest in ((run.step[-1], path.step), (now, path.loss), (now, path.low), (now, path.high))
    )
    ax.plot(steps, expected, color=VERMILLION, label="expected")
    ax.fill_between(steps, low, high, color=VERMILLION, alpha=0.2, lw=0, label=f"{level:.0%} band")
    bar = np.array([[expected[-1] - low[-1]], [high[-1] - expected[-1]]])
    ax.errorbar(steps[-1], expected[-1], bar, fmt="o", color=VERMILLION, ms=4, capsize=3)
    words = f"{expected[-1]:.4g}\n({low[-1]:.4g} … {high[-1]:.4g})"
    ax.annotate(words, (steps[-1], expected[-1]), (7, 0), textcoords="offset points", va="center")
    bottom = min(low.min(), run.loss[seen].min())
    top = max(high.max(), np.quantile(run.loss[seen], SPIKES))
    ax.set_xlim(run.step[seen[0]], steps[-1] + ROOM * (steps[-1] - run.step[seen[0]]))
    ax.set_ylim(bottom - 0.05 * (top - bottom), top + 0.05 * (top - bottom))
    ax.set_xlabel("step $t$")
    ax.set_ylabel("loss")
    legend(ax, corners=("upper right", "lower left"))
    figure.suptitle(title)
    return figure
