"""The plots that more than one part of the project draws, and, under one name with them, the style of all figures."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes

from sgdtheory.critical import CriticalBatchSize
from sgdtheory.invariance import SizeDependence
from sgdtheory.measurements import StepsMeasurement
from sgdtheory.plotting_style import colors as colors
from sgdtheory.plotting_style import log_axes
from sgdtheory.plotting_style import new_figure as new_figure
from sgdtheory.plotting_style import plain_label as plain_label
from sgdtheory.plotting_style import power_of_ten as power_of_ten
from sgdtheory.plotting_style import save_figure as save_figure
from sgdtheory.plotting_style import tick_measured as tick_measured
from sgdtheory.scaling import PowerFit, StepsLaw

if TYPE_CHECKING:
    from sgdtheory.training import CoordinateCheck, TrainResult


def plot_steps_laws(
    axes: Axes,
    measurements: Sequence[StepsMeasurement],
    laws: Sequence[StepsLaw],
    *,
    reference: float = 256,
    overhead: float = 0.2,
) -> None:
    """Steps relative to those at `reference`: measurements, fitted laws, B* on each, and linear scaling."""
    for color, measurement, law in zip(colors(len(laws)), measurements, laws, strict=True):
        critical = law.critical_batch_size(reference, overhead)
        end = max(measurement.batch_sizes[-1], critical if np.isfinite(critical) else 0.0)
        grid = np.geomspace(measurement.batch_sizes[0], end, 200)
        unit, name = law.predict(reference), plain_label(measurement.group)
        axes.plot(grid, law.predict(grid) / unit, color=color)
        axes.plot(measurement.batch_sizes, measurement.steps / unit, "o", color=color, ms=3.5, label=name)
        if np.isfinite(critical):
            axes.plot(critical, law.predict(critical) / unit, "*", color=color, ms=12, mec="black", mew=0.6, zorder=3)
    grid = np.array([min(m.batch_sizes[0] for m in measurements), max(m.batch_sizes[-1] for m in measurements)])
    axes.plot(grid, reference / grid, "--", color="gray", lw=1, label="linear scaling")
    axes.plot([], [], "*", color="white", mec="black", ms=10, label=f"$B^*$ ({overhead:.0%} overhead)")
    axes.set(
        xscale="log", yscale="log", xlabel="batch size $B$", ylabel=f"steps to target / steps at $B={reference:g}$"
    )
    tick_measured(axes, np.concatenate([measurement.batch_sizes for measurement in measurements]))
    axes.legend(frameon=False, fontsize=8)


def plot_critical_batch_sizes(
    axes: Axes,
    sizes: Sequence[float],
    laws: Sequence[StepsLaw],
    fit: PowerFit,
    *,
    reference: float = 256,
    overhead: float = 0.2,
    level: float = 0.95,
    largest: float | None = None,
    size_label: str = "model size $N$",
) -> None:
    """B* with intervals against size, the fitted power of size, and its bands up to `largest`, all at `level`."""
    for color, size, law in zip(colors(len(laws)), sizes, laws, strict=True):
        critical = law.critical_batch_size(reference, overhead)
        low, high = law.interval(level=level, reference=reference, overhead=overhead)
        high = high if np.isfinite(high) else 10 * critical  # no upper end: a bar that leaves the others behind
        error = np.array([[critical - low], [high - critical]])
        axes.errorbar(size, critical, yerr=error, fmt="*", color=color, ms=10, mec="black", mew=0.5, capsize=3)
    axes.errorbar([], [], yerr=[], fmt="*", color="white", ecolor="black", mec="black", label=f"$B^*$, {level:.0%}")
    grid = np.geomspace(min(sizes), largest or max(sizes), 200)
    low, high = fit.interval(level)
    axes.plot(
        grid,
        fit.predict(grid),
        color="black",
        label=f"$B^* = {fit.coefficient:.4g}\\,N^{{{fit.exponent:.3f}}}$\n{level:.0%}: exponent {low:.2f} … {high:.2f}",
    )
    for new, shade, label in ((True, 0.12, f"{level:.0%}, new measurement"), (False, 0.25, f"{level:.0%}, the law")):
        if fit.num_points > 2:
            band = fit.prediction_interval(grid, level, new_measurement=new)
            axes.fill_between(grid, *band, color="black", alpha=shade, lw=0, label=label)
    axes.set(xscale="log", yscale="log", xlabel=size_label, ylabel="critical batch size $B^*$")
    axes.legend(frameon=False, fontsize=7.5, loc="upper left")


def plot_overhead(axes: Axes, critical: CriticalBatchSize) -> None:
    """Samples needed to reach the optimal risk over D against batch size, one line a data size, B* on each."""
    palette = colors(len(critical.curves))
    rows = zip(
        palette, critical.curves, np.atleast_1d(critical.num_samples), np.atleast_1d(critical.batch_size), strict=True
    )
    for color, curve, samples, batch in rows:
        needed = curve.samples_needed / samples
        axes.plot(curve.batch_size, needed, color=color, label=f"$D = {power_of_ten(samples)}$")
        here = needed[np.searchsorted(curve.batch_size, batch)]
        axes.plot(batch, here, "*", color=color, ms=11, mec="black", mew=0.6, zorder=3)
    axes.axhline(1.0, ls="--", color="gray", lw=1, label="linear scaling")
    axes.axhline(1 + critical.overhead, ls=":", color="black", lw=1)
    axes.plot([], [], "*", color="white", mec="black", ms=10, label=f"$B^*$ ({100 * critical.overhead:.3g}% overhead)")
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="batch size $B$ (samples)",
        ylabel=r"samples to $R_\mathrm{opt}(D)$, over $D$",
        ylim=(0.8, max(30.0, 2 * (1 + critical.overhead))),
    )
    axes.legend(frameon=False, fontsize=8)


def plot_critical_growth(axes: Axes, samples, batch_sizes, exponent: float | None) -> None:
    """B* against D, with the predicted power, if there is a prediction, through the last point."""
    axes.plot(samples, batch_sizes, "*", ms=10, mec="black", mew=0.6, color="tab:blue", label="$B^*$, exact risk")
    if exponent is not None:
        order = np.argsort(samples)
        ends = np.asarray(samples)[order][[0, -1]]
        line = np.asarray(batch_sizes)[order][-1] * (ends / ends[-1]) ** exponent
        axes.plot(ends, line, color="black", lw=1, label=f"Corollary 8: $D^{{{exponent:.3g}}}$")
    axes.set(xscale="log", yscale="log", xlabel="samples $D$", ylabel="critical batch size $B^*$ (samples)")
    axes.legend(frameon=False, fontsize=8)


def plot_training(axes: Axes, result: "TrainResult") -> None:
    """Loss on the hold-out against steps, of the iterate and of every average; the target dashed."""
    shown = result.steps > 0
    for color, name in zip(colors(len(result.names)), result.names, strict=True):
        label = name if name in ("iterate", "uniform") else f"average, τ = {name}"
        axes.loglog(result.steps[shown], result.curve(name)[shown], ".-", color=color, label=label)
    if result.config.target_loss is not None:
        axes.axhline(result.config.target_loss, color="0.4", linestyle="--", label="target")
    unit = "nats a token" if result.config.model == "transformer" else "units of Var f*"
    axes.set(xlabel="steps $t$", ylabel=f"loss on the hold-out ({unit})", title=f"width {result.config.width}")
    axes.legend()


def plot_coordinates(row: np.ndarray, check: "CoordinateCheck") -> None:
    """Three panels: size of activations at the start, their change, and what each tensor's own change makes of them."""
    titles = {
        "size": "size at the start",
        "change": "change in training",
        "own": "part of the change by the layer's own weights",
    }
    for axes, (quantity, title) in zip(row, titles.items(), strict=True):
        values = check.values(quantity)
        for color, layer, rows in zip(colors(len(check.layers)), check.layers, values, strict=True):
            axes.loglog(check.widths, np.exp(np.log(rows).mean(axis=-1)), "o-", color=color, label=layer)
        axes.set(xlabel="width $w$", ylabel="root mean square of activations", title=title)
        tick_measured(axes, check.widths)
    row[-1].legend(fontsize=6)


def plot_size_dependence(
    axes: Axes,
    curves: Mapping[str, SizeDependence],
    size_label: str,
    *,
    intervals: Mapping[str, tuple[np.ndarray, np.ndarray]] | None = None,
) -> None:
    """B* against a size, with intervals and fitted powers, one color a curve; `intervals` of B* in place of its own."""
    everything = np.concatenate([found.sizes for found in curves.values()])
    apart = 0.015 if np.unique(everything).size * len(curves) == everything.size else 0.0  # bars that share all sizes
    shifts = (everything.max() / everything.min()) ** (apart * (np.arange(len(curves)) - (len(curves) - 1) / 2))
    for (label, found), color, shift in zip(curves.items(), colors(len(curves)), shifts, strict=True):
        low, high = found.critical_intervals if intervals is None else intervals[label]
        bars = [found.critical - low, high - found.critical]
        axes.errorbar(shift * found.sizes, found.critical, yerr=bars, fmt="o", ms=4, capsize=2, color=color)
        weights = np.maximum(found.standard_errors, 1e-12) ** -2.0
        center = np.exp(weights @ (np.log(found.critical) - found.slope * np.log(found.sizes)) / weights.sum())
        sizes = np.sort(found.sizes)
        below, above = found.interval
        text = f"{label}: slope {found.slope:.2f} ({below:.2f} … {above:.2f})"
        axes.plot(sizes, center * sizes**found.slope, color=color, lw=1, label=text)
    axes.set(xlabel=size_label, ylabel="critical batch size $B^*$ (samples)")
    log_axes(axes)
    tick_measured(axes, everything)
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * (high / low) ** (0.06 * len(curves)))  # the legend is above the points
    axes.legend(frameon=False, fontsize=7.5, loc="upper left")
