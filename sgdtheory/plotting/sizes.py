"""Figures of the critical batch size against what it depends on."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sgdtheory.fits import SizeDependence
from sgdtheory.plotting import style
from sgdtheory.plotting.fits import steps_laws

if TYPE_CHECKING:
    from sgdtheory.sweep import SweepFits


def size_dependence(
    curves: SizeDependence | Mapping[str, SizeDependence],
    *,
    size_label: str = "size",
    intervals: Mapping[str, tuple[np.ndarray, np.ndarray]] | None = None,
    title: str = "",
    verdicts: bool = False,
    axes: Axes | None = None,
) -> Figure:
    """B* against a size, with intervals and fitted powers, one color a curve.

    >>> import sgdtheory as st
    >>> found = st.size_dependence(st.example_measurements(), convention=st.Convention(256))
    >>> figure = st.plot.size_dependence({"C4": found}, size_label="parameters (10⁶)", verdicts=True)
    >>> figure.axes[0].get_legend().get_texts()[0].get_text()
    'C4: slope 0.47 (0.42 … 0.52), fails'

    Args:
        curves: label → what to draw; or a single one, without a label.
        size_label: of the x axis.
        intervals: label → lower and upper ends of the intervals of B*, in place of the curves' own.
        title: of the panel; "": what the bars are.
        verdicts: write the verdict behind each slope.
        axes: the panel to draw in; None: that of a new figure.

    Returns:
        The figure.
    """
    axes, curves = style.panel(axes), {"": curves} if isinstance(curves, SizeDependence) else curves
    everything = np.concatenate([found.sizes for found in curves.values()])
    labelled = style.few(len(curves))
    looks = zip(curves.items(), style.colors(len(curves)), _shifts(everything, len(curves)), strict=True)
    for place, ((label, found), color, shift) in enumerate(looks):
        look: dict[str, Any] = {"color": color, "marker": style.MARKERS[place % len(style.MARKERS)]}
        low, high = found.critical_intervals if intervals is None else intervals[label]
        bars = [found.critical - low, high - found.critical]
        text = f"{style.plain_label(label)}: " if label else ""
        text += f"slope {_slope_text(found)}" + (f", {found.verdict}" if verdicts else "")
        look |= {"label": text} if place in labelled else {}
        axes.errorbar(shift * found.sizes, found.critical, yerr=bars, ls="", ms=4, capsize=2, **look)
        sizes = np.sort(found.sizes)
        axes.plot(sizes, _center(found) * sizes**found.slope, lw=1, color=color)
    level = next(iter(curves.values())).level
    axes.set(xlabel=size_label, ylabel="critical batch size $B^*$ (samples)")
    axes.set_title(title or f"bars and ranges: {level:.0%}, from the scatter of all groups")
    style.log_axes(axes)
    style.tick_measured(axes, everything)
    style.show_at_least(axes, 1.1)
    style.legend(axes, corners=("upper left", "lower right", "lower left"))
    return style.figure_of(axes)


def sweep_fits(found: "SweepFits", *, title: str = "") -> Figure:
    """Laws of a sweep at its lowest target, B* against the size, and B* against the data to the target.

    >>> import tempfile
    >>> import sgdtheory as st
    >>> shared = {"width": 8, "holdout_size": 32, "averages": (), "max_steps": 200}
    >>> pairs = [(batch, rate) for batch in (4, 8, 16) for rate in (0.01, 0.03, 0.1)]
    >>> configs = [st.training.TrainConfig(batch_size=batch, learning_rate=rate, **shared) for batch, rate in pairs]
    >>> with tempfile.TemporaryDirectory() as store:  # doctest: +SKIP
    ...     table = st.sweep.sweep(configs, store)
    >>> fits = [st.sweep.fit_sweep(table, target_loss=loss, edges=True) for loss in (0.9, 0.8)]  # doctest: +SKIP
    >>> figure = st.sweep.SweepFits(tuple(fits)).plot()  # doctest: +SKIP

    Args:
        found: the fits, one a target, the lowest last.
        title: of the figure.

    Returns:
        The figure.
    """
    fits, by_data = found.fits, found.by_data
    dependent = [fit for fit in fits if "law" in fit.dependence]
    figure, axes = style.new_figure(1, 1 + bool(dependent) + bool(by_data), width=4.8, height=3.9)
    last = fits[-1]
    if last.measurements:
        what = f"Steps to loss {last.tuned.target_loss:g} leave linear scaling at $B^*$"
        steps_laws(last.measurements, last.laws, convention=last.convention, title=what, axes=axes[0, 0])
    if dependent:
        label = last.tuned.by[0].replace("_", " ")
        curves = {f"loss {fit.tuned.target_loss:g}": fit.dependence["law"] for fit in dependent}
        what = f"Does $B^*$ move with the {label}? margin ±{found.margin:g}"
        size_dependence(curves, size_label=label, title=what, verdicts=True, axes=axes[0, 1])
    if by_data:
        bars = {group: _bars(found, group) for group in by_data}
        what = "$B^*$ against the data to the target"
        label = r"data $D = B_\mathrm{ref}\,Y(B_\mathrm{ref})$ (samples)"
        size_dependence(by_data, size_label=label, intervals=bars, title=what, axes=axes[0, -1])
    if title:
        figure.suptitle(title)
    return figure


def _bars(found: "SweepFits", group: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of the intervals of a group's B* at the targets, as the table has them."""
    ends = []
    for fit in found.fits:
        intervals = fit.critical_intervals(found.level)
        ends += [each for one, each in zip(fit.measurements, intervals, strict=True) if one.group == group]
    low, high = np.array(ends).T
    return low, high


def _slope_text(found: SizeDependence) -> str:
    """Two sizes have a slope without an interval."""
    if not np.isfinite(found.interval).all():
        return f"{found.slope:.2f} (two sizes: no interval)".replace("-", "−")
    return style.range_text(found.interval, found.slope)


def _shifts(sizes: np.ndarray, number: int) -> np.ndarray:
    """Factors by which `number` curves are drawn side by side: bars at the same sizes would hide each other."""
    same = np.unique(sizes).size * number == sizes.size
    reach = max(sizes.max() / sizes.min(), 1.2)
    return reach ** ((0.015 if same else 0.0) * (np.arange(number) - (number - 1) / 2))


def _center(found: SizeDependence) -> float:
    """Coefficient of the fitted power, through the weighted mean of log B*."""
    weights = np.maximum(found.standard_errors, 1e-12) ** -2.0
    return float(np.exp(weights @ (np.log(found.critical) - found.slope * np.log(found.sizes)) / weights.sum()))
