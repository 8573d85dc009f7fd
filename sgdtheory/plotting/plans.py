"""Figures of plans: time and cost against batch size."""

from dataclasses import replace
from itertools import cycle

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sgdtheory.fits import RunPlan
from sgdtheory.plotting import style

BAND = 12  # The intervals are computed at this many batch sizes.
POINTS = 600  # A curve has this many points.


def run_plan(plan: RunPlan, *, currency: str = "", title: str = "") -> Figure:
    """Time and cost of a run against its batch size, with the choice, the deadline, the useful range and the knee.

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
    figure, axes = style.new_figure(1, 2, width=4.2, height=3.7)
    time, cost = axes[0]
    price = plan.price or 1.0
    plans = _by_devices(plan)
    curves = {count: each.columns(_spread(each, POINTS)) for count, each in plans.items()}
    chosen_count = plan.choice.devices if plan.choice.devices in plans else next(iter(plans))
    ends = _interval(plans[chosen_count], curves[chosen_count].batch_size)
    for panel in (time, cost):
        values = {count: each.hours if panel is time else each.device_hours * price for count, each in curves.items()}
        for (count, drawn), line in zip(curves.items(), cycle(style.LINES)):
            label = "by the law of steps" if len(plans) == 1 else f"on {count} devices"
            panel.plot(drawn.batch_size, values[count], color=style.BLACK, ls=line, label=label)
        if np.isfinite(ends).all():
            band = values[chosen_count] * ends
            look = {"color": style.BLACK, "alpha": 0.18, "lw": 0, "label": f"{plan.level:.0%} interval"}
            panel.fill_between(curves[chosen_count].batch_size, *band, **look)
        chosen = plan.choice.hours if panel is time else plan.choice.device_hours * price
        panel.plot(plan.choice.batch_size, chosen, color=style.VERMILLION, label="choice", **style.STAR)
        _batch_sizes(panel, plan)
        panel.set_xlabel("batch size $B$ (samples per step)")
        style.log_axes(panel)
    if plan.deadline is not None:
        time.axhline(plan.deadline, color=style.VERMILLION, ls=":", lw=1.2, label="deadline")
    time.set(ylabel="time (hours)", title="Duration of a run")
    unit = "device-hours" if plan.price is None else f"cost ({style.plain_label(currency)})" if currency else "cost"
    cost.set(ylabel=unit, title="Cost of a run")
    figure.suptitle(title, fontsize=9)
    style.legend_below(figure, time, columns=3)
    return figure


def _by_devices(plan: RunPlan) -> dict[int | None, RunPlan]:
    """The plan on each number of devices that may be taken: which one is best changes with the batch size."""
    counts = plan.machine.counts
    if counts is None or len(counts) == 1:
        return {None: plan}
    return {count: replace(plan, machine=replace(plan.machine, counts=(count,))) for count in counts}


def _interval(plan: RunPlan, batch_size: np.ndarray) -> np.ndarray:
    """(2, k) ends of the interval of the steps over the steps, which change slowly; nan for a law without."""
    rows = [plan.at(float(each)) for each in _spread(plan, BAND)]
    ends = np.array([row.hours_interval for row in rows]) / np.array([[row.hours] for row in rows])
    sizes = np.log([row.batch_size for row in rows])
    return np.array([np.interp(np.log(batch_size), sizes, each) for each in ends.T])


def _spread(plan: RunPlan, count: int) -> np.ndarray:
    """About so many batch sizes, evenly in logs, that devices share in full micro batches."""
    low, high = plan.candidates.batch_size[[0, -1]]
    batch = np.unique(plan.feasible(np.geomspace(low, high, count)))
    return batch[(batch >= low) & (batch <= high)]


def _batch_sizes(axes: Axes, plan: RunPlan) -> None:
    """B*, the knee and B_opt with their intervals, and the useful range, as far as they lie in that of the plan."""
    low, high = plan.range
    overhead = f"{plan.convention.overhead:.0%}"
    ends = plan.smallest_batch_size, plan.critical_batch_size
    if low < ends[0] < ends[1]:  # where it begins below, B* alone says where it ends
        axes.axvspan(
            ends[0], min(ends[1], high), color=style.GREEN, alpha=0.07, lw=0, label=f"useful range, {overhead}"
        )
        axes.axvline(ends[0], color=style.GREEN, ls=":", lw=1.1, label="smallest useful batch size")
    marks = (
        ("B*", plan.critical_batch_size, style.GREEN, "-.", f"$B^*$, {overhead} more data"),
        ("B_opt", plan.optimal_batch_size, style.PURPLE, (0, (4, 1, 1, 1)), "$B_{opt}$, the least data"),
        ("knee", plan.knee, style.BLUE, "--", "knee: 1% more batch saves ½% of the steps"),
    )
    for name, value, color, line, label in marks:
        if low <= value <= high:
            axes.axvline(value, color=color, ls=line, lw=1.1, label=label)
            ends = plan.interval(name)
            if not np.isnan(ends).any():
                axes.axvspan(max(ends[0], low), min(ends[1], high), color=color, alpha=0.12, lw=0)
