"""The picture of theory_meets_network: lines from the spectrum of the features, points from training them."""

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.interpolate import PchipInterpolator

import sgdtheory as st
from sgdtheory.plotting import colors, new_figure

if TYPE_CHECKING:
    from experiments.theory_meets_network import Config, Found


def critical_figure(config: "Config", problem: st.LeastSquares, found: list["Found"]) -> Figure:
    """Data to the target against batch size, and B* against data: the theory's lines, measured points."""
    figure, axes = new_figure(1, 2, width=4.9, height=4.1)
    for color, one in zip(colors(len(found)), found, strict=True):
        _data_panel(axes[0, 0], one, color)
    _finish_data_panel(axes[0, 0], config)
    _growth_panel(axes[0, 1], config, found)
    own = config.run()
    figure.suptitle(
        "Critical batch size of a network with frozen features: from their spectrum (lines), by training it (points)\n"
        f"output layer of {own.width} frozen {own.activation} features by SGD with averaging, "
        rf"$\lambda_1/\lambda_n = {problem.largest_eigenvalue / problem.eigenvalues[-1]:.0f}$, "
        rf"noise $\sigma^2 + E\,r^2 = {problem.noise_variance:.2f}$, {config.num_seeds} seeds",
        fontsize=10,
    )
    return figure


def _data_panel(axis: Axes, one: "Found", color: Any) -> None:
    """Data to the target at every batch size: the theory's line, measured points."""
    sizes, values = np.array([batch.size for batch in one.batches]), one.data["measured"]
    tail = np.array([0.16, 0.84])
    reached = np.where(np.isfinite(one.data["resampled"]), one.data["resampled"], np.inf)
    spread = np.quantile(reached, tail, axis=0, method="nearest")
    curve = one.theory.curve
    fine = np.geomspace(sizes[0] / 1.4, sizes[-1] * 1.4, 200)
    line = PchipInterpolator(np.log(curve.batch_size), curve.samples_needed / one.samples)(np.log(fine))
    axis.plot(fine, line, color=color, lw=1.4)
    bars = np.nan_to_num(np.maximum([values - spread[0], spread[1] - values], 0.0), posinf=9.0)
    label = f"$D = {one.samples:,}$".replace(",", "\\,")
    axis.errorbar(sizes, values, yerr=bars, fmt="o", ms=5, capsize=2, color=color, label=label)


def _finish_data_panel(axis: Axes, config: "Config") -> None:
    """Axes, the overhead that defines B*, and what lines and points are."""
    sizes = config.batch_sizes
    axis.axhline(1 + config.overhead, color="gray", lw=1, ls="--")
    axis.text(
        sizes[0] / 1.3, 1.005 + config.overhead, f"{config.overhead:.0%} more data: $B^*$", color="gray", fontsize=8
    )
    axis.plot([], [], color="black", lw=1.4, label="theory (Gaussian)")
    axis.errorbar([], [], yerr=[], fmt="o", ms=5, capsize=2, color="black", label="trained network, ± 1 s.e.")
    axis.set(xscale="log", xlim=(sizes[0] / 1.4, sizes[-1] * 1.4), ylim=(0.95, config.reach))
    axis.set(xlabel="batch size $B$ (samples)", ylabel="data to the best risk, $B\\,f_D(B)/D$")
    axis.set_xticks(sizes, [f"{size}" for size in sizes])
    axis.minorticks_off()
    axis.set_title("Data needed to reach $R_{opt}(D)$", fontsize=9.5)
    axis.legend(frameon=False, fontsize=8, loc="upper left")


def _growth_panel(axis: Axes, config: "Config", found: list["Found"]) -> None:
    """B* against D, by definition, and measured with intervals."""
    samples = np.array([one.samples for one in found])
    theory = np.array([float(one.theory.real_batch_size) for one in found])
    measured = np.array([one.critical["measured"] for one in found])
    low, high = np.array([config.interval(one.resampled) for one in found]).T
    slopes = [st.fit_power_law(samples, values).exponent for values in (theory, measured)]
    label = f"theory, from the spectrum: $\\propto D^{{{slopes[0]:.2f}}}$"
    axis.plot(samples, theory, "-", color="black", lw=1.4, label=label)
    for one, color in zip(found, colors(len(found)), strict=True):
        axis.plot(one.samples, one.critical["measured"], "o", ms=7, color=color, zorder=3)
    bars = np.maximum([measured - low, high - measured], 0.0)
    label = f"trained network: $\\propto D^{{{slopes[1]:.2f}}}$ ({config.level:.0%} intervals)"
    axis.errorbar(samples, measured, yerr=bars, fmt="o", ms=7, capsize=3, color="gray", label=label)
    axis.set(xscale="log", yscale="log", xlabel="data size $D$ (samples)", ylabel="critical batch size $B^*$ (samples)")
    axis.set_xticks(samples, [f"{value:,}" for value in samples])
    ticks = [size for size in config.batch_sizes if low.min() / 2 <= size <= 2 * high.max()]
    axis.set_yticks(ticks, [f"{size}" for size in ticks])
    axis.minorticks_off()
    axis.set_ylim(low.min() / 1.3, high.max() * 1.6)
    axis.set_title("Critical batch size against data", fontsize=9.5)
    axis.legend(frameon=False, fontsize=8, loc="upper left")
