"""Figure of compute-optimal model sizes: losses against compute for several d, with the frontier of each phase."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments._lib.published_phases import FORMULAS, PHASES, QUESTION, Phase, frontier, size_of
from experiments._lib.published_theory import Row
from sgdtheory.plotting.style import BLACK, GRAY, VERMILLION, legend_below, log_axes, new_figure

COLUMNS = 4


def phases_figure(config: Any, rows: Sequence[Row]) -> Figure:
    """A panel for each phase: a line for each model size, the least losses, and a line of the published slope."""
    phases = [each for each in PHASES if each.name in config.phases]
    columns = min(COLUMNS, len(phases))
    count = -(-len(phases) // columns)
    drawn, axes = new_figure(count, columns, width=2.9, height=2.6)
    for place, phase in enumerate(phases):
        _panel(axes.flat[place], rows, phase)
    for axis in axes.flat[len(phases) :]:
        axis.set_visible(False)
    for axis in axes[:, 0]:
        axis.set_ylabel("loss (units of $y^2$)")
    for axis in axes[-1]:
        axis.set_xlabel("compute $f = d\\,n$")
    drawn.suptitle("Power-law random features: exact loss of SGD and the best model size", fontsize=10)
    legend_below(drawn, axes.flat[0], columns=3)
    return drawn


def _panel(axis: Axes, rows: Sequence[Row], phase: Phase) -> None:
    mine = [row for row in rows if (row.question, row.capacity, row.source) == (QUESTION, *phase.pair)]
    sizes = sorted({size_of(row.case) for row in mine})
    for place, size in enumerate(sizes[::2]):
        line = sorted((size * row.number, row.risk) for row in mine if size_of(row.case) == size)
        compute, losses = np.array(line).T
        label = "one model size $d$, from $2^4$ by factors of 2" if place == 0 else None
        axis.plot(compute, losses, color=GRAY, lw=0.7, alpha=0.8, label=label)
    best = frontier(mine, octaves=1)
    if best.compute.size:
        wanted = FORMULAS[phase.name](phase.alpha, phase.beta)
        compute, loss = 2.0**best.compute, 2.0**best.loss
        axis.plot(compute, loss, color=BLACK, lw=1.8, label="least loss over $d$")
        line = loss[-1] * (compute / compute[-1]) ** wanted.loss
        axis.plot(compute, line, color=VERMILLION, ls="--", lw=1.4, label="the predicted power of $f$")
        axis.set(xlim=(compute[0] / 4, compute[-1] * 4), ylim=(loss[-1] / 2, loss[0] * 4))
    log_axes(axis)
    name = "boundary II/III" if "/" in phase.name else f"phase {phase.name}"
    axis.set_title(f"{name}: α = {phase.alpha:g}, β = {phase.beta:g}")
