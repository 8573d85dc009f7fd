"""Figures of training: loss curves, and the coordinate check, slopes with the tolerance that judges them."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator

from sgdtheory.plotting import style
from sgdtheory.training import CoordinateCheck, TrainResult

TITLES = {
    "size": "size at the start",
    "change": "change in training",
    "own": "part of the change by\nthe layer's own weights",
}
APART = 0.02  # Layers are drawn side by side, this share of the range of widths apart.


def loss_curves(result: TrainResult, *, title: str | None = None, axes: Axes | None = None) -> Figure:
    """Loss on the hold-out against steps, of the iterate and of every average; the target dashed.

    >>> import sgdtheory as st
    >>> from sgdtheory.training import TrainConfig, train
    >>> result = train(TrainConfig(width=64, max_steps=1000, averages=(0.9, 0.99)))  # doctest: +SKIP
    >>> figure = st.plot.loss_curves(result)  # doctest: +SKIP

    Args:
        result: of a run.
        title: of the panel; None: the model and its best loss.
        axes: the panel to draw in; None: that of a new figure.

    Returns:
        The figure.
    """
    axes = style.panel(axes, width=5.2, height=3.8)
    config, names = result.config, result.names
    shown = result.steps > 0
    labelled = style.few(len(names))
    for place, (color, name) in enumerate(zip(style.colors(len(names)), names, strict=True)):
        label = name if name in ("iterate", "uniform") else f"average, τ = {name}"
        label, marker = label if place in labelled else None, style.MARKERS[place % len(style.MARKERS)]
        axes.plot(result.steps[shown], result.curve(name)[shown], ls="-", marker=marker, ms=3, color=color, label=label)
    if config.target_loss is not None:
        axes.axhline(config.target_loss, color=style.BLACK, ls="--", lw=1, label=f"target {config.target_loss:g}")
    best, loss = result.best
    best = best if best in ("iterate", "uniform") else f"average, τ = {best}"
    own = f"{config.value('model')}, width {config.width}: {loss:.4g} at step {result.num_steps} ({best})"
    axes.set(
        xlabel="steps $t$",
        ylabel=f"loss on the hold-out ({config.data.samples.unit})",
        title=own if title is None else title,
    )
    style.log_axes(axes)
    style.legend(axes)
    return style.figure_of(axes)


def coordinates(check: CoordinateCheck, *, title: str | None = None) -> Figure:
    """A coordinate check in six panels.

    Above, root mean squares of activations against width; below, their slopes, the tolerance, and what fails.

    >>> import sgdtheory as st
    >>> from sgdtheory.training import TrainConfig, coordinate_check
    >>> check = coordinate_check(TrainConfig(), widths=(64, 128, 256))  # doctest: +SKIP
    >>> figure = st.plot.coordinates(check)  # doctest: +SKIP

    Args:
        check: of `sgdtheory.training.coordinate_check`.
        title: of the figure; None: the verdict.

    Returns:
        The figure.
    """
    height = max(2.2, 0.9 + 0.17 * len(check.layers))
    figure, axes = style.new_figure(2, 3, width=3.4, height=(3.0 + height) / 2)
    axes[0, 0].get_gridspec().set_height_ratios([3.0, height])
    failed = {failure[:2]: failure for failure in check.failures()}
    verdict = f"fails: {len(failed)} of {3 * len(check.layers)} slopes not" if failed else "passes: every slope"
    config = check.config
    table = getattr(config.parametrization, "name", config.parametrization)
    kinds = f"{config.value('model')}, {table}, {config.value('optimizer')}"
    own = f"Coordinate check {verdict} within the tolerance ({kinds})"
    figure.suptitle(own if title is None else title)
    for column, (quantity, shown) in enumerate(TITLES.items()):
        _activations(axes[0, column], check, quantity)
        axes[0, column].set_title(shown)
        _slopes(axes[1, column], check, quantity, failed)
    axes[0, 0].set_ylabel("root mean square")
    for axis in axes[1, 1:]:
        axis.set_yticklabels([])
    style.legend_below(figure, axes[0, 0], columns=min(len(check.layers), 8))
    return figure


def _activations(axes: Axes, check: CoordinateCheck, quantity: str) -> None:
    """Geometric means over seeds against width, one line a layer, side by side where they are equal."""
    number = len(check.layers)
    reach = check.widths[-1] / check.widths[0]
    for place, (layer, rows) in enumerate(zip(check.layers, check.values(quantity), strict=True)):
        with np.errstate(all="ignore"):
            means = np.exp(np.log(rows).mean(axis=-1))
        shown = np.isfinite(means) & (means > 0)
        shift = reach ** (APART * (place - (number - 1) / 2) / max(1, number / 6))
        axes.plot(
            shift * check.widths[shown],
            means[shown],
            color=style.colors(number)[place],
            marker=style.MARKERS[place % len(style.MARKERS)],
            ms=4,
            lw=1,
            label=layer,
        )
    axes.set(xlabel="width $w$")
    style.log_axes(axes)
    style.show_at_least(axes, 2.0)
    style.tick_measured(axes, check.widths)


def _slopes(axes: Axes, check: CoordinateCheck, quantity: str, failed: dict[Any, Any]) -> None:
    """Slopes with intervals, one row a layer; the tolerance shaded, what fails in another colour and marker."""
    axes.axvline(0.0, color=style.BLACK, lw=0.8)
    for row, (layer, *estimate) in enumerate(zip(check.layers, *check.slopes(quantity), strict=True)):
        failure = failed.get((quantity, layer))
        slope, low, high = failure[2:5] if failure else estimate
        if not np.isfinite([slope, low, high]).all():
            idle = (quantity, layer) in check.without_effect
            words, color = ("no effect", style.GRAY) if idle else ("does not change", style.VERMILLION)
            axes.text(0.05, row, words, color=color, fontsize=7, va="center")
            continue
        color, marker = (style.VERMILLION, "X") if failure else (style.BLUE, "o")
        axes.errorbar(slope, row, xerr=[[slope - low], [high - slope]], fmt=marker, color=color, ms=5, capsize=2)
    axes.set_yticks(range(len(check.layers)), check.layers, fontsize=7)
    axes.set_ylim(len(check.layers) - 0.4, -0.6)
    low, high = min(axes.get_xlim()[0], -0.75), max(axes.get_xlim()[1], 0.75)
    for row, layer in enumerate(check.layers):
        output = quantity == "size" and layer in check.ends  # goes like w^−½
        ends = (low, check.tolerance - 0.5) if output else (-check.tolerance, check.tolerance)
        axes.fill_betweenx([row - 0.5, row + 0.5], *ends, color=style.GRAY, alpha=0.18, lw=0)
    axes.set_xlim(low, high)
    if max(high, -low) < 2:
        axes.xaxis.set_major_locator(MultipleLocator(0.5))
    axes.set_xlabel(f"slope of its log on log $w$\n(shaded: allowed, tolerance {check.tolerance:g})")
