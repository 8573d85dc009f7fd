"""The picture of theory_meets_network: lines from the spectrum of the features, points from training them."""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.interpolate import PchipInterpolator

import sgdtheory as st
from sgdtheory.plotting.style import BLACK, BOX, GRAY, MARKERS, colors, legend, log_axes, new_figure, tick_measured
from sgdtheory.training import TrainConfig


class Config(Protocol):
    """Settings of the figure from an experiment's config: network, number of seeds, overhead of B*, level."""

    @property
    def num_seeds(self) -> int:
        """Seeds of the order of the data."""
        ...

    @property
    def overhead(self) -> float:
        """Extra data that defines B*."""
        ...

    @property
    def level(self) -> float:
        """Return the level of the intervals."""
        ...

    def run(self) -> TrainConfig:
        """A run of the trainer."""
        ...


def critical_figure(config: Config, columns: Mapping[str, Any]) -> Figure:
    """Data to the target against batch size, and B* against data: the theory's lines, measured points.

    Args:
        config: of the experiment.
        columns: of its table.
    """
    table = {name: np.asarray(column, float) for name, column in columns.items()}
    figure, axes = new_figure(1, 2, width=4.9, height=4.2)
    own = config.run()
    figure.suptitle(
        "Critical batch size of a network with frozen features: from their spectrum (lines), by training it (points)\n"
        f"output layer of {own.width} frozen {own.value('activation')} features, SGD with averaging, "
        f"{config.num_seeds} seeds",
        fontsize=10,
    )
    axes[0, 0].set_title("Data that a batch size needs for the best risk of $D$ samples")
    axes[0, 1].set_title("Critical batch size against data")
    _growth_panel(axes[0, 1], config, table)
    _data_panel(axes[0, 0], config, table)
    return figure


def _data_panel(axis: Axes, config: Config, table: dict[str, np.ndarray]) -> None:
    """Data to the target at every batch size: the theory's line, measured points, and the overhead that defines B*."""
    sizes = np.unique(table["num_samples"])
    for place, (samples, color) in enumerate(zip(sizes, colors(len(sizes)), strict=True)):
        rows = table["num_samples"] == samples
        batch, theory, measured = (table[name][rows] for name in ("batch_size", "samples_gaussian", "samples_measured"))
        reached = np.isfinite(theory)
        if reached.sum() > 1:
            fine = np.geomspace(batch[reached][0], batch[reached][-1], 100)
            line = PchipInterpolator(np.log(batch[reached]), theory[reached])(np.log(fine))
            axis.plot(fine, line, color=color, lw=1.4)
        label = f"$D = {samples:,.0f}$".replace(",", "\\,")
        axis.plot(batch, measured, MARKERS[place % len(MARKERS)], ms=5, color=color, label=label)
    axis.axhline(1 + config.overhead, color=GRAY, lw=1, ls="--")
    axis.plot([], [], color=BLACK, lw=1.4, label="theory (Gaussian), same protocol")
    axis.plot([], [], "o", ms=5, color=BLACK, label="trained network")
    axis.set(xlabel="batch size $B$ (samples)", ylabel="samples to $R_\\mathrm{opt}(D)$, over $D$")
    log_axes(axis, "x")
    tick_measured(axis, table["batch_size"])
    low, high = axis.get_ylim()
    axis.set_ylim(low, high)
    text = f"{config.overhead:.0%} more data: $B^*$"
    right = axis.get_yaxis_transform()
    axis.text(0.015, 1 + config.overhead, text, va="center", fontsize=8, transform=right, bbox=BOX)
    legend(axis, corners=("upper left", "lower right"))


def _growth_panel(axis: Axes, config: Config, table: dict[str, np.ndarray]) -> None:
    """B* against D, by definition, and measured with intervals."""
    samples, first = np.unique(table["num_samples"], return_index=True)
    names = "critical_theory", "critical_measured", "critical_low", "critical_high"
    theory, measured, low, high = (table[name][first] for name in names)
    slopes = [st.fit_power_law(samples, values).exponent for values in (theory, measured)]
    label = f"theory, from the spectrum: $\\propto D^{{{slopes[0]:.2f}}}$"
    axis.plot(samples, theory, "-", color=BLACK, lw=1.4, label=label)
    label = f"trained network: $\\propto D^{{{slopes[1]:.2f}}}$ ({config.level:.0%} intervals)"
    bars = np.maximum([measured - low, high - measured], 0.0)
    axis.errorbar(samples, measured, yerr=bars, fmt="none", capsize=3, ecolor=GRAY)
    for place, color in enumerate(colors(len(samples))):
        axis.plot(samples[place], measured[place], MARKERS[place % len(MARKERS)], ms=6, color=color)
    axis.errorbar([], [], yerr=[], fmt="o", color=BLACK, ecolor=GRAY, ms=5, capsize=3, label=label)
    axis.set(xlabel="data size $D$ (samples)", ylabel="critical batch size $B^*$ (samples)")
    log_axes(axis)
    tick_measured(axis, samples)
    legend(axis, corners=("upper left", "lower right"))
