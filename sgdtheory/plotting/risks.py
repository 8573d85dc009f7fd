"""Figures of exact risks: against batch size, and against learning rate with the stability edge."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sgdtheory.critical import CriticalBatchSize
from sgdtheory.plotting import style
from sgdtheory.risk import Risk

NAME = 44  # A legend shows this many characters of an algorithm's name.
Lines = Mapping[str, tuple[Any, Risk]]


def risk_against_batch_size(
    lines: Lines, *, best: Mapping[str, CriticalBatchSize] | None = None, title: str = "", axes: Axes | None = None
) -> Figure:
    """Risk of D samples against batch size, one line an algorithm; of the first, bias and variance; R_opt as a star.

    >>> import sgdtheory as st
    >>> problem, sizes, data = st.PowerLaw(2.0, 3.0), [1, 4, 16, 64], 1000
    >>> rates = st.optimal_learning_rate(problem, batch_size=sizes, num_samples=data).learning_rate
    >>> risk = st.excess_risk(problem, batch_size=sizes, learning_rate=rates, num_samples=data)
    >>> best = st.critical_batch_size(problem, num_samples=data, curve=False)
    >>> figure = st.plot.risk_against_batch_size({"averaged SGD": (sizes, risk)}, best={"averaged SGD": best})

    Args:
        lines: by the names that the legend gives them, batch sizes and their risks.
        best: by the same names; their optima are marked.
        title: of the panel.
        axes: the panel to draw in; None: that of a new figure.

    Returns:
        The figure.

    Raises:
        ValueError: no lines.
    """
    axes = _lines(lines, axes)
    for look, name in zip(style.categories(len(lines)), lines, strict=True):
        if best and name in best:
            found = best[name]
            axes.plot(found.optimal_batch_size, found.optimal_risk, color=look["color"], **style.STAR)
    if best:
        axes.plot([], [], color="white", label=r"$R_\mathrm{opt}(D)$, the least risk", **style.STAR)
    axes.set(xlabel="batch size $B$ (samples)", ylabel="excess risk $R(D, B)$ (units of $y^2$)", title=title)
    style.legend(axes, corners=("upper left", "lower right", "center left"))
    return style.figure_of(axes)


def risk_against_learning_rate(
    lines: Lines, *, edges: Mapping[str, float] | None = None, title: str = "", axes: Axes | None = None
) -> Figure:
    """Risk of D samples against learning rate, one line an algorithm; of the first, bias and variance; stability edges.

    >>> import numpy as np
    >>> import sgdtheory as st
    >>> problem, setting = st.PowerLaw(2.0, 3.0), {"batch_size": 16, "num_samples": 1000}
    >>> edge = st.max_stable_learning_rate(problem, batch_size=16)
    >>> rates = edge * np.geomspace(0.001, 1, 13)
    >>> lines = {"averaged SGD": (rates, st.excess_risk(problem, learning_rate=rates, **setting))}
    >>> figure = st.plot.risk_against_learning_rate(lines, edges={"averaged SGD": edge})

    Args:
        lines: by the names that the legend gives them, learning rates and their risks.
        edges: by the same names, the largest stable learning rates.
        title: of the panel.
        axes: the panel to draw in; None: that of a new figure.

    Returns:
        The figure.

    Raises:
        ValueError: no lines.
    """
    axes = _lines(lines, axes)
    for look, name in zip(style.categories(len(lines)), lines, strict=True):
        if edges and name in edges:
            axes.axvline(edges[name], color=look["color"], ls=":", lw=1.2)
    if edges:
        axes.plot([], [], color=style.GRAY, ls=":", lw=1.2, label="stability edge")
    axes.set(xlabel=r"learning rate $\gamma$ ($1/\lambda$)", ylabel="excess risk (units of $y^2$)", title=title)
    style.legend(axes, corners=("upper left", "lower left", "upper right"))
    return style.figure_of(axes)


def _lines(lines: Lines, axes: Axes | None) -> Axes:
    """The panel with a line for each, and the parts of the first."""
    if not lines:
        raise ValueError("lines must hold at least one line, got none; make their risks by excess_risk")
    axes = style.panel(axes)
    for place, (look, (name, (x, risk))) in enumerate(zip(style.categories(len(lines)), lines.items(), strict=True)):
        how = {"color": look["color"], "ls": look["ls"]}
        axes.plot(x, risk.total, label=style.plain_label(name, NAME), **how)
        if place == 0:
            axes.plot(x, risk.bias, color=look["color"], ls="--", lw=0.8, label="its bias")
            axes.plot(x, risk.variance, color=look["color"], ls="-.", lw=0.8, label="its variance")
    style.log_axes(axes)
    totals = np.concatenate([np.ravel(risk.total) for _, risk in lines.values()])
    totals = totals[np.isfinite(totals) & (totals > 0)]
    if totals.size:  # a bias of 1e-20 is nothing to look at
        axes.set_ylim(totals.min() / 30, totals.max() * 2)
    style.show_at_least(axes, 2.0)
    return axes
