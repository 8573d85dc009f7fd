"""The plots that more than one part of the project draws."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes

from sgdtheory.critical import CriticalBatchSize
from sgdtheory.fits import PowerFit, SizeDependence, StepsLaw, StepsMeasurement
from sgdtheory.plotting.style import (
    BLACK,
    BLUE,
    GRAY,
    MARKERS,
    STAR,
    VERMILLION,
    colors,
    few,
    legend,
    log_axes,
    plain_label,
    power_of_ten,
    range_text,
    show_at_least,
    tick_measured,
)

if TYPE_CHECKING:
    from sgdtheory.training import TrainResult


def plot_steps_laws(
    axes: Axes,
    measurements: Sequence[StepsMeasurement],
    laws: Sequence[StepsLaw],
    *,
    reference: float = 256,
    overhead: float = 0.2,
    title: str = "Steps to target leave linear scaling at $B^*$",
) -> None:
    """Steps relative to those at `reference`: measurements, fitted laws, B* on each, and linear scaling."""
    labelled = few(len(laws))
    for place, (color, measurement, law) in enumerate(zip(colors(len(laws)), measurements, laws, strict=True)):
        critical = law.critical_batch_size(reference, overhead)
        end = max(measurement.batch_sizes[-1], critical if np.isfinite(critical) else 0.0)
        grid = np.geomspace(measurement.batch_sizes[0], end, 200)
        unit, name = law.predict(reference), plain_label(measurement.group) if place in labelled else None
        axes.plot(grid, law.predict(grid) / unit, color=color)
        axes.plot(measurement.batch_sizes, measurement.steps / unit, "o", color=color, ms=3.5, label=name)
        if np.isfinite(critical):
            axes.plot(critical, law.predict(critical) / unit, color=color, **STAR)
    grid = np.array([min(m.batch_sizes[0] for m in measurements), max(m.batch_sizes[-1] for m in measurements)])
    axes.plot(grid, reference / grid, "--", color=GRAY, lw=1, label="linear scaling")
    axes.plot([], [], color="white", label=f"$B^*$ ({overhead:.0%} overhead)", **STAR)
    axes.set(xlabel="batch size $B$", ylabel=f"steps to target / steps at $B={reference:g}$", title=title)
    log_axes(axes)
    tick_measured(axes, np.concatenate([measurement.batch_sizes for measurement in measurements]))
    legend(axes)


def plot_critical_batch_sizes(
    axes: Axes,
    sizes: Sequence[float],
    laws: Sequence[StepsLaw],
    fit: PowerFit,
    *,
    reference: float = 256,
    overhead: float = 0.2,
    level: float = 0.95,
    forecasts: Sequence[float] = (),
    size_label: str = "model size $N$",
    title: str = "$B^*$ against size",
) -> None:
    """B* with intervals against size, the fitted power of size with its bands, and forecasts, all at `level`.

    The law is dashed beyond the sizes measured. An interval without an upper end has an arrow.
    """
    for color, size, law in zip(colors(len(laws)), sizes, laws, strict=True):
        critical = law.critical_batch_size(reference, overhead)
        low, high = law.interval(level=level, reference=reference, overhead=overhead)
        if np.isinf(high):
            high = 10 * critical
            axes.plot(size, high, "^", color=color, ms=7)
        error = np.array([[critical - low], [high - critical]])
        axes.errorbar(size, critical, yerr=error, fmt="*", color=color, ms=10, mec=BLACK, mew=0.5, capsize=3)
    axes.errorbar([], [], yerr=[], fmt="*", color="white", ecolor=BLACK, mec=BLACK, label=f"$B^*$, {level:.0%}")
    ends = np.array([*sizes, *forecasts])
    grid = np.geomspace(ends.min(), ends.max(), 200)
    text = f"$B^* = {fit.coefficient:.4g}\\,N^{{{fit.exponent:.3f}}}$\n"
    measured = (grid >= min(sizes)) & (grid <= max(sizes))
    label = f"{text}{level:.0%}: exponent {range_text(fit.interval(level))}"
    axes.plot(grid, fit.predict(grid), "--", color=BLACK, lw=1)
    axes.plot(grid[measured], fit.predict(grid[measured]), color=BLACK, label=label)
    for new, shade, label in ((True, 0.12, f"{level:.0%}, new measurement"), (False, 0.25, f"{level:.0%}, the law")):
        if fit.num_points > 2:
            band = fit.prediction_interval(grid, level, new_measurement=new)
            axes.fill_between(grid, *band, color=BLACK, alpha=shade, lw=0, label=label)
    if len(forecasts):
        _forecasts(axes, np.array(forecasts), fit, level)
    axes.set(xlabel=size_label, ylabel="critical batch size $B^*$", title=title)
    log_axes(axes)
    legend(axes, corners=("upper left", "lower right"))


def _forecasts(axes: Axes, sizes: np.ndarray, fit: PowerFit, level: float) -> None:
    values, bars = fit.predict(sizes), None
    if fit.num_points > 2:
        low, high = fit.prediction_interval(sizes, level, new_measurement=True)
        bars = [values - low, high - values]
    label = "forecast" if bars is None else f"forecast, {level:.0%}"
    axes.errorbar(sizes, values, yerr=bars, fmt="D", color=VERMILLION, ms=5, capsize=3, zorder=3, label=label)


def plot_overhead(axes: Axes, critical: CriticalBatchSize) -> None:
    """Samples needed to reach the optimal risk over D against batch size, one line a data size, B* on each."""
    number, extra = len(critical.curves), f"{100 * critical.overhead:.3g}%"
    data = zip(
        colors(number),
        critical.curves,
        np.atleast_1d(critical.num_samples),
        np.atleast_1d(critical.batch_size),
        strict=True,
    )
    for place, (color, curve, samples, batch) in enumerate(data):
        needed = curve.samples_needed / samples
        label = f"$D = {power_of_ten(samples)}$" if place in few(number) else None
        axes.plot(curve.batch_size, needed, color=color, label=label)
        here = needed[np.searchsorted(curve.batch_size, batch)]
        axes.plot(batch, here, color=color, **STAR)
    axes.axhline(1.0, ls="--", color=GRAY, lw=1, label="linear scaling")
    axes.axhline(1 + critical.overhead, ls=":", color=BLACK, lw=1, label=f"{extra} more data")
    axes.plot([], [], color="white", label="$B^*$: the largest within it", **STAR)
    axes.set(
        xlabel="batch size $B$ (samples)",
        ylabel=r"samples to $R_\mathrm{opt}(D)$, over $D$",
        ylim=(0.8, max(30.0, 2 * (1 + critical.overhead))),
        title="Data that a batch size needs for the best risk of $D$ samples",
    )
    log_axes(axes)
    legend(axes, corners=("upper left", "upper right", "center left"))


def plot_critical_growth(axes: Axes, samples, batch_sizes, exponent: float | None) -> None:
    """B* against D, with the predicted power, if there is a prediction, through the last point."""
    axes.plot(samples, batch_sizes, color=BLUE, label="$B^*$, exact risk", **STAR)
    if exponent is not None:
        order = np.argsort(samples)
        ends = np.asarray(samples)[order][[0, -1]]
        line = np.asarray(batch_sizes)[order][-1] * (ends / ends[-1]) ** exponent
        label = f"Corollary 8: $\\propto D^{{{exponent:.3g}}}$, through the last"
        axes.plot(ends, line, color=BLACK, lw=1, label=label)
    title = "$B^*$ against the data"
    axes.set(xlabel="data $D$ (samples)", ylabel="critical batch size $B^*$ (samples)", title=title)
    log_axes(axes)
    show_at_least(axes, 2.0)
    legend(axes, corners=("upper left", "lower right"))


def plot_training(axes: Axes, result: "TrainResult") -> None:
    """Loss on the hold-out against steps, of the iterate and of every average; the target dashed."""
    config, names = result.config, result.names
    shown = result.steps > 0
    labelled = few(len(names))
    for place, (color, name) in enumerate(zip(colors(len(names)), names, strict=True)):
        label = name if name in ("iterate", "uniform") else f"average, τ = {name}"
        label, marker = label if place in labelled else None, MARKERS[place % len(MARKERS)]
        axes.plot(result.steps[shown], result.curve(name)[shown], ls="-", marker=marker, ms=3, color=color, label=label)
    if config.target_loss is not None:
        axes.axhline(config.target_loss, color=BLACK, ls="--", lw=1, label=f"target {config.target_loss:g}")
    unit = "nats a token" if config.model == "transformer" else "units of Var f*"
    best, loss = result.best
    best = best if best in ("iterate", "uniform") else f"average, τ = {best}"
    axes.set(
        xlabel="steps $t$",
        ylabel=f"loss on the hold-out ({unit})",
        title=f"{config.model}, width {config.width}: {loss:.4g} at step {result.num_steps} ({best})",
    )
    log_axes(axes)
    legend(axes)


def plot_size_dependence(
    axes: Axes,
    curves: Mapping[str, SizeDependence],
    size_label: str,
    *,
    intervals: Mapping[str, tuple[np.ndarray, np.ndarray]] | None = None,
    title: str = "",
    verdicts: bool = False,
) -> None:
    """B* against a size, with intervals and fitted powers, one color a curve.

    Args:
        axes: the panel.
        curves: label → what to draw.
        size_label: of the x axis.
        intervals: label → lower and upper ends of the intervals of B*, in place of the curves' own.
        title: of the panel; "": what the bars are.
        verdicts: write the verdict behind each slope.
    """
    everything = np.concatenate([found.sizes for found in curves.values()])
    same = np.unique(everything).size * len(curves) == everything.size  # bars at the same sizes would hide each other
    spread = max(everything.max() / everything.min(), 1.2)
    shifts = spread ** ((0.015 if same else 0.0) * (np.arange(len(curves)) - (len(curves) - 1) / 2))
    labelled = few(len(curves))
    for place, ((label, found), color) in enumerate(zip(curves.items(), colors(len(curves)), strict=True)):
        look: dict[str, Any] = {"color": color, "marker": MARKERS[place % len(MARKERS)]}
        low, high = found.critical_intervals if intervals is None else intervals[label]
        bars = [found.critical - low, high - found.critical]
        text = f"{plain_label(label)}: slope {range_text(found.interval, found.slope)}"
        look |= {"label": text + (f", {found.verdict}" if verdicts else "")} if place in labelled else {}
        axes.errorbar(shifts[place] * found.sizes, found.critical, yerr=bars, ls="", ms=4, capsize=2, **look)
        weights = np.maximum(found.standard_errors, 1e-12) ** -2.0
        center = np.exp(weights @ (np.log(found.critical) - found.slope * np.log(found.sizes)) / weights.sum())
        sizes = np.sort(found.sizes)
        axes.plot(sizes, center * sizes**found.slope, lw=1, color=color)
    level = next(iter(curves.values())).level
    axes.set(xlabel=size_label, ylabel="critical batch size $B^*$ (samples)")
    axes.set_title(title or f"bars and ranges: {level:.0%}, from the scatter of all groups")
    log_axes(axes)
    tick_measured(axes, everything)
    show_at_least(axes, 1.1)
    legend(axes, corners=("upper left", "lower right", "lower left"))
