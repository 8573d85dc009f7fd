"""Figures of exact loss curves: the risk along a run, one line an algorithm, and beneath it the settings of the run."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sgdtheory.plotting import style
from sgdtheory.risk import RiskPath

LONGEST = 80  # The legend has room for a name of this many characters.
HALF = 36  # The legend has two columns if no name has more characters than this.
BENEATH = {"learning_rate": "learning rate\n$\\gamma_t$ ($1/\\lambda$)", "batch_size": "batch size\n$B_t$ (samples)"}


def risk_paths(paths: Mapping[str, RiskPath], *, title: str = "", axes: Axes | Sequence[Axes] | None = None) -> Figure:
    """Excess risk against samples: what each run returns and, thin, its iterates; beneath γ_t and, if it varies, B_t.

    >>> import sgdtheory as st
    >>> setting = {"batch_size": 32, "learning_rate": 0.5, "num_samples": 1e5}
    >>> last = st.Algorithm(schedule=st.Cosine(), average=st.LastIterate())
    >>> algorithms = {"average": st.Algorithm(), "cosine": last}
    >>> problem = st.PowerLaw(2.0, 3.0)
    >>> paths = {name: st.risk_path(problem, **setting, algorithm=each) for name, each in algorithms.items()}
    >>> figure = st.plot.risk_paths(paths)
    >>> len(figure.axes)
    2

    Args:
        paths: of `risk_path`, by the names that the legend gives them.
        title: of the figure's first panel.
        axes: the panels to draw in: for the risk, and if there are more for γ_t and for B_t; None: those of a new
            figure.

    Returns:
        The figure.

    Raises:
        ValueError: no paths.
    """
    if not paths:
        raise ValueError("paths must hold at least one path, got none; make them by risk_path")
    panels = _panels(paths) if axes is None else [axes] if isinstance(axes, Axes) else list(axes)
    for axis, name in zip(panels, ("risk", *BENEATH), strict=False):
        _risks(axis, paths) if name == "risk" else _inputs(axis, paths, name)
        axis.set_xlim(*panels[0].get_xlim())
        axis.tick_params(labelbottom=axis is panels[-1])
    panels[0].set(title=title)
    panels[-1].set(xlabel="samples $D$")
    if axes is None:
        style.legend_below(style.figure_of(panels[0]), panels[0], columns=1 if max(map(len, paths)) > HALF else 2)
    else:
        style.legend(panels[0], corners=("lower left", "upper right"))
    return style.figure_of(panels[0])


def _panels(paths: Mapping[str, RiskPath]) -> list[Axes]:
    """Return the panels of a new figure: the risk, γ_t, and B_t where it varies."""
    moving = any(np.ptp(path.batch_size) > 0 for path in paths.values())
    figure, axes = style.new_figure(2 + moving, 1, width=5.2, height=(3.4 + 1.3 * (1 + moving)) / (2 + moving))
    grid: Any = axes[0, 0].get_gridspec()
    grid.set_height_ratios([3.4, 1.3, 1.3][: 2 + moving])
    return list(axes[:, 0])


def _risks(axes: Axes, paths: Mapping[str, RiskPath]) -> None:
    thin = False
    for look, (name, path) in zip(style.categories(len(paths)), paths.items(), strict=True):
        samples, lines = path.num_samples[1:], {"color": look["color"], "ls": look["ls"]}  # none after 0 steps
        iterate, returned = (np.asarray(risk.total)[1:] for risk in (path.iterate, path.average))
        if not np.array_equal(iterate, returned):
            axes.plot(samples, iterate, lw=0.6, **lines)
            thin = True
        axes.plot(samples, returned, label=style.plain_label(name, LONGEST), **lines)
    if thin:
        axes.plot([], [], color=style.GRAY, lw=0.6, label="thin line: last iterate")
    axes.set(ylabel="excess risk (units of $y^2$)")
    style.log_axes(axes)
    style.show_at_least(axes, 2.0)


def _inputs(axes: Axes, paths: Mapping[str, RiskPath], name: str) -> None:
    for look, path in zip(style.categories(len(paths)), paths.values(), strict=True):
        axes.plot(path.num_samples[1:], getattr(path, name)[1:], color=look["color"], ls=look["ls"])
    style.log_axes(axes, "x")
    axes.set(ylabel=BENEATH[name])
    axes.set_ylim(bottom=0)
    if not 1e-3 <= axes.get_ylim()[1] < 1e5:
        axes.yaxis.set_major_formatter(style.PlainFormatter())
