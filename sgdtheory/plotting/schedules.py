"""Figures of the best schedule: what it is, beside schedules with a name, and what those lose."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sgdtheory.optimal import NamedSchedule, OptimalSchedule
from sgdtheory.plotting.style import BLACK, categories, legend_below, new_figure

POINTS = 1001  # fractions of the steps at which lines are drawn


def optimal_schedule(best: OptimalSchedule, named: Mapping[str, NamedSchedule], *, title: str = "") -> Figure:
    """γ_t against t/n, of the best schedule and of tuned ones with a name; B_t if it varies; risks over the least.

    >>> import sgdtheory as st
    >>> problem = st.PowerLaw(2.0, 3.0)
    >>> best = st.optimal_schedule(problem, num_samples=1600, batch_size=16)
    >>> figure = st.plot.optimal_schedule(best, st.optimal.named_schedules(problem, best))
    >>> len(figure.axes)
    2

    Args:
        best: of `optimal_schedule`.
        named: of `optimal.named_schedules`.
        title: of the figure.

    Returns:
        The figure.
    """
    ramp = np.ptp(best.batch_size(np.array([0.0, 0.5, 0.9]))) > 0
    figure, axes = new_figure(1, 2 + ramp, width=4.0, height=3.6)
    _rates(axes[0, 0], best, named)
    if ramp:
        _batches(axes[0, 1], best)
    _losses(axes[0, -1], named)
    figure.suptitle(title, fontsize=9)
    legend_below(figure, axes[0, 0], columns=4)
    return figure


def _rates(axes: Axes, best: OptimalSchedule, named: Mapping[str, NamedSchedule]) -> None:
    fraction = np.linspace(0, 1, POINTS)
    axes.plot(fraction, best.learning_rate(fraction), color=BLACK, lw=2, label="best last iterate")
    for style, (name, each) in zip(categories(len(named)), named.items(), strict=True):
        rates = each.learning_rate * np.broadcast_to(each.algorithm.schedule.at(fraction), fraction.shape)
        axes.plot(fraction, rates, color=style["color"], ls=style["ls"], lw=0.9, label=name)
    axes.set(xlabel="fraction of the steps $t/n$", ylabel="learning rate $\\gamma_t$ ($1/\\lambda$)")
    axes.set_ylim(0, 1.3 * best.peak_learning_rate)


def _batches(axes: Axes, best: OptimalSchedule) -> None:
    fraction = np.linspace(0, 1, POINTS)
    axes.plot(fraction, best.batch_size(fraction), color=BLACK, lw=2)
    axes.axhline(best.num_samples / best.num_steps, color=BLACK, lw=0.8, ls="--", label="mean $D/n$")
    axes.set(xlabel="fraction of the steps $t/n$", ylabel="batch size $B_t$ (samples)", yscale="log")


def _losses(axes: Axes, named: Mapping[str, NamedSchedule]) -> None:
    names, losses = list(named)[::-1], [1 + each.loss for each in named.values()][::-1]
    styles = {name: style["color"] for style, name in zip(categories(len(named)), named, strict=True)}
    axes.barh(names, losses, color=[styles[name] for name in names], height=0.6)
    for place, loss in enumerate(losses):
        axes.text(loss, place, f"  {loss:.3g}", va="center", fontsize=8, bbox={"fc": "white", "ec": "none", "pad": 0.5})
    axes.axvline(1.0, color=BLACK, lw=2)
    axes.set(xlabel="excess risk / least one of a last iterate", xlim=(0, 1.2 * max(losses)))
