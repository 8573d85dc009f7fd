"""Figures of the best schedule: what it is, what others lose, and what each costs in steps and samples."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sgdtheory.optimal import NamedSchedule, OptimalSchedule, Pareto
from sgdtheory.plotting.style import BLACK, categories, figure_of, legend, legend_below, log_axes, new_figure, panel

POINTS = 1001  # Lines are drawn at this many fractions of the steps.
WAYS = {
    "averaged": "constant $\\gamma$, uniform average",
    "power": "best $(1 - t/n)^k$",
    "optimal": "best schedule",
}


def optimal_schedule(
    best: OptimalSchedule, *, named: Mapping[str, NamedSchedule] | None = None, title: str = ""
) -> Figure:
    """γ_t against t/n, of the best schedule and of tuned ones with a name; B_t if it varies; risks over the least.

    >>> import sgdtheory as st
    >>> problem = st.PowerLaw(2.0, 3.0)
    >>> best = st.optimal_schedule(problem, num_samples=1600, batch_size=16)
    >>> figure = st.plot.optimal_schedule(best, named=st.optimal.named_schedules(problem, best))
    >>> len(figure.axes)
    2

    Args:
        best: of `optimal_schedule`.
        named: of `optimal.named_schedules`; without them the best one is drawn alone.
        title: of the figure.

    Returns:
        The figure.
    """
    ramp = np.ptp(best.batch_size(np.array([0.0, 0.5, 0.9]))) > 0
    named = named or {}
    figure, axes = new_figure(1, 1 + bool(named) + ramp, width=4.0, height=3.6)
    _rates(axes[0, 0], best, named)
    if ramp:
        _batches(axes[0, 1], best)
    if named:
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
    axes.set(xlabel="excess risk / least risk of a last iterate", xlim=(0, 1.2 * max(losses)))


def pareto(found: Pareto, *, title: str | None = None, axes: Axes | None = None) -> Figure:
    """Fewest samples against serial steps to a risk, for each way to schedule, with the law of steps and samples.

    Dashed: `(S/S_min − 1)(E/E_min − 1) = 1` from the ends of each frontier.

    >>> import sgdtheory as st
    >>> found = st.pareto(st.PowerLaw(2.0, 3.0), target_risk=0.05, points=2)
    >>> len(st.plot.pareto(found).axes)
    1

    Args:
        found: of `pareto`.
        title: of the panel; None: the risk.
        axes: the panel to draw in; None: that of a new figure.

    Returns:
        The figure.
    """
    axes = panel(axes)
    for style, (name, label) in zip(categories(len(WAYS)), WAYS.items(), strict=True):
        each = getattr(found, name)
        label += f": $E_{{\\min}}/S_{{\\min}}$ = {each.critical_batch_size:.3g}"
        axes.plot(each.num_steps, each.num_samples, label=label, **style)
        steps = each.least_steps * (1 + np.geomspace(0.03, 1e3, POINTS))
        law = each.least_samples * (1 + 1 / (steps / each.least_steps - 1))
        shown = (law <= each.num_samples.max()) & (steps <= each.num_steps.max())
        axes.plot(steps[shown], law[shown], color=style["color"], ls="--", lw=0.8)
    axes.plot([], [], color=BLACK, ls="--", lw=0.8, label="$(S/S_{\\min} - 1)(E/E_{\\min} - 1) = 1$")
    log_axes(axes)
    axes.set(xlabel="serial steps $S$", ylabel="samples $E$")
    axes.set_title(f"To an excess risk of {found.target_risk:g}" if title is None else title)
    legend(axes)
    return figure_of(axes)
