"""Figures of plans: time and cost against batch size."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sgdtheory.fits import RunPlan
from sgdtheory.plotting.style import (
    BLACK,
    BLUE,
    GREEN,
    STAR,
    VERMILLION,
    legend_below,
    log_axes,
    new_figure,
    plain_label,
)

BAND = 12  # batch sizes at which the intervals are computed


def run_plan(plan: RunPlan, *, currency: str = "", title: str = "") -> Figure:
    """Time and cost of a run against its batch size, with the choice, the deadline, the knee and B*.

    >>> import sgdtheory as st
    >>> law = st.fit_steps_law([64, 256, 1024, 4096], [50000, 14000, 5000, 2800])
    >>> figure = st.plot.run_plan(st.plan(law, throughput=12, micro_batch=8, price=2.5, deadline=4))
    >>> [axes.get_ylabel() for axes in figure.axes]
    ['time (hours)', 'cost']

    Args:
        plan: of `st.plan`.
        currency: of its price.
        title: of the figure.

    Returns:
        The figure; without a price device-hours are drawn in the place of the cost.
    """
    figure, axes = new_figure(1, 2, width=4.2, height=3.5)
    time, cost = axes[0]
    found, price = plan.candidates, plan.price or 1.0
    shown = np.unique(np.linspace(0, found.batch_size.size - 1, 600).astype(int))
    band = [plan.at(float(each)) for each in _spread(found.batch_size)]
    batch = [row.batch_size for row in band]
    for panel, values, unit in ((time, found.hours, 1.0), (cost, found.device_hours * price, price)):
        panel.plot(found.batch_size[shown], values[shown], color=BLACK, label="by the law of steps")
        ends = np.array([row.hours_interval if panel is time else row.cost_interval for row in band])
        if panel is cost and plan.price is None:
            ends = np.array([row.hours_interval for row in band]) * np.array([[row.devices] for row in band])
        if np.isfinite(ends).all():
            panel.fill_between(batch, *ends.T, color=BLACK, alpha=0.18, lw=0, label=f"{plan.level:.0%} interval")
        chosen = plan.choice.hours if panel is time else plan.choice.device_hours * unit
        panel.plot(plan.choice.batch_size, chosen, color=VERMILLION, label="choice", **STAR)
        _batch_sizes(panel, plan)
        panel.set_xlabel("batch size $B$")
        log_axes(panel)
    if plan.deadline is not None:
        time.axhline(plan.deadline, color=VERMILLION, ls=":", lw=1.2, label="deadline")
    time.set(ylabel="time (hours)", title="How long a run takes")
    unit = "device-hours" if plan.price is None else f"cost ({plain_label(currency)})" if currency else "cost"
    cost.set(ylabel=unit, title="What it costs")
    figure.suptitle(title, fontsize=9)
    legend_below(figure, time, columns=3)
    return figure


def _spread(batch_sizes: np.ndarray) -> np.ndarray:
    """Some of them, evenly in logs, the ends among them."""
    wanted = np.geomspace(batch_sizes[0], batch_sizes[-1], BAND)
    return np.unique(batch_sizes[np.abs(np.log(batch_sizes[:, None] / wanted)).argmin(0)])


def _batch_sizes(axes: Axes, plan: RunPlan) -> None:
    """The knee and B* with their intervals, as far as they lie in the range of the plan."""
    low, high = plan.range
    overhead = f"{plan.convention.overhead:.0%}"
    marks = (
        (plan.critical_batch_size, plan.critical_interval, GREEN, "-.", f"$B^*$, {overhead} more data"),
        (plan.knee, plan.knee_interval, BLUE, "--", "knee: 1% more batch, ½% fewer steps"),
    )
    for value, ends, color, line, label in marks:
        if low <= value <= high:
            axes.axvline(value, color=color, ls=line, lw=1.1, label=label)
            if np.isfinite(ends).all():
                axes.axvspan(max(ends[0], low), min(ends[1], high), color=color, alpha=0.12, lw=0)
