"""The figure of fitted loss curves: measured and expected loss against steps, and what is left."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from sgdtheory.curves.loss_curve import LossCurve
from sgdtheory.plotting.style import GRAY, colors, legend_below, log_axes, new_figure

POINTS = 60  # At most this many points of a curve are drawn.


def curves_figure(curves: Sequence[LossCurve], expected: Sequence[np.ndarray], num_fitted: int, title: str) -> Figure:
    """Above loss against steps, below the relative error of the theory; curves that were not fitted are open circles.

    Args:
        curves: those that were fitted first.
        expected: of each the theory's loss at its rows.
        num_fitted: how many were fitted.
        title: of the figure.
    """
    figure, axes = new_figure(2, 1, width=6.4, height=2.9)
    for number, (curve, loss) in enumerate(zip(curves, expected, strict=True)):
        color = colors(len(curves))[number]
        fitted = number < num_fitted
        shown = np.unique(np.round(np.geomspace(1, curve.step.size, POINTS)).astype(int)) - 1
        style = {"color": color, "ms": 4, "markerfacecolor": color if fitted else "none"}
        label = f"{curve.name or 'run'} ({'fitted' if fitted else 'predicted'})"
        axes[0, 0].plot(curve.step[shown], curve.loss[shown], "o", label=label, **style)
        axes[0, 0].plot(curve.step, loss, color=color, lw=1.2)
        axes[1, 0].plot(curve.step[shown], 100 * (loss / curve.loss - 1)[shown], "o-", lw=0.8, **style)
    axes[0, 0].set_ylabel("loss (points: measured; lines: theory)")
    axes[1, 0].set_ylabel("theory over measured − 1 (%)")
    axes[1, 0].axhline(0, color=GRAY, lw=0.8)
    log_axes(axes[0, 0])
    log_axes(axes[1, 0], "x")
    for each in axes[:, 0]:
        each.set_xlabel("step $t$")
    legend_below(figure, axes[0, 0], columns=3)
    figure.suptitle(title, fontsize=9)
    return figure
