"""Figures of the critical batch size of a problem."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sgdtheory.critical import CriticalBatchSize
from sgdtheory.plotting import style

OVERHEAD = "Data needed to reach the optimal risk of $D$ samples"


def critical_batch_size(critical: CriticalBatchSize, *, exponent: float | None = None, title: str = "") -> Figure:
    """Draw B*: the overhead of each batch size if there are curves, and the growth of B* with the data.

    >>> import sgdtheory as st
    >>> found = st.critical_batch_size(st.PowerLaw(2, 3, dim=20), num_samples=[20, 50])
    >>> figure = st.plot.critical_batch_size(found, exponent=st.predicted_exponent(2, 3))
    >>> len(figure.axes)
    2

    Args:
        critical: at one data size or several.
        exponent: predicted for B* against D, drawn through the last point.
        title: of the figure.

    Returns:
        The figure: a panel of `data_overhead`, one of `critical_growth`, or both.

    Raises:
        ValueError: a single data size without its curve.
    """
    several = np.unique(critical.num_samples).size > 1
    if not (several or critical.curves):
        raise ValueError("a single data size has only its curve to show: call critical_batch_size with curve=True")
    figure, axes = style.new_figure(1, several + bool(critical.curves), width=4.8, height=3.9)
    if title:
        figure.suptitle(title)
    if several:
        critical_growth(critical, exponent=exponent, axes=axes[0, -1])
    if critical.curves:
        data_overhead(critical, axes=axes[0, 0])
    return figure


def data_overhead(critical: CriticalBatchSize, *, title: str = OVERHEAD, axes: Axes | None = None) -> Figure:
    """Samples needed to reach the optimal risk over D against batch size, one line a data size, B* on each.

    >>> import sgdtheory as st
    >>> found = st.critical_batch_size(st.PowerLaw(2, 3, dim=20), num_samples=50)
    >>> figure = st.plot.data_overhead(found)

    Args:
        critical: with its curves.
        title: of the panel.
        axes: the panel to draw in; None: that of a new figure.

    Returns:
        The figure.

    Raises:
        ValueError: the curves were not computed.
    """
    if not critical.curves:
        raise ValueError("curves were not computed, got curve=False; call critical_batch_size with curve=True")
    axes = style.panel(axes)
    number, extra = len(critical.curves), f"{100 * critical.overhead:.3g}%"
    data = zip(
        style.colors(number),
        critical.curves,
        np.atleast_1d(critical.num_samples),
        np.atleast_1d(critical.batch_size),
        np.atleast_1d(critical.num_steps),
        strict=True,
    )
    for place, (color, curve, samples, batch, steps) in enumerate(data):
        needed = curve.samples_needed / samples
        label = f"$D = {style.power_of_ten(samples)}$" if place in style.few(number) else None
        axes.plot(curve.batch_size, needed, color=color, label=label)
        axes.plot(
            batch, batch * steps / samples, color=color, **style.STAR
        )  # not all curves have B* among their points
    axes.axhline(1.0, ls="--", color=style.GRAY, lw=1, label="linear scaling")
    axes.axhline(1 + critical.overhead, ls=":", color=style.BLACK, lw=1, label=f"{extra} more data")
    axes.plot([], [], color="white", label="$B^*$, the largest $B$ that needs no more", **style.STAR)
    axes.set(
        xlabel="batch size $B$ (samples)",
        ylabel=r"data needed to reach $R_\mathrm{opt}(D)$, relative to $D$",
        ylim=(0.8, max(30.0, 2 * (1 + critical.overhead))),
        title=title,
    )
    style.log_axes(axes)
    style.legend(axes, corners=("upper left", "upper right", "center left"))
    return style.figure_of(axes)


def critical_growth(
    critical: CriticalBatchSize | Sequence[CriticalBatchSize],
    *,
    exponent: float | None = None,
    title: str = "$B^*$ against the data",
    axes: Axes | None = None,
) -> Figure:
    """B* (not rounded) against D, with the predicted power, if there is a prediction, through the last point.

    >>> import sgdtheory as st
    >>> found = st.critical_batch_size(st.PowerLaw(2, 3, dim=20), num_samples=[20, 50], curve=False)
    >>> figure = st.plot.critical_growth(found, exponent=st.predicted_exponent(2, 3))

    Args:
        critical: at two data sizes or more; or several, at one or more each.
        exponent: that the prediction has, `predicted_exponent(capacity, source)`.
        title: of the panel.
        axes: the panel to draw in; None: that of a new figure.

    Returns:
        The figure.
    """
    axes = style.panel(axes)
    several = critical if isinstance(critical, Sequence) else [critical]
    samples = np.concatenate([np.ravel(each.num_samples) for each in several])
    batch_sizes = np.concatenate([np.ravel(each.real_batch_size) for each in several])
    axes.plot(samples, batch_sizes, color=style.BLUE, label="$B^*$", **style.STAR)
    if exponent is not None:
        order = np.argsort(samples)
        ends = samples[order][[0, -1]]
        line = batch_sizes[order][-1] * (ends / ends[-1]) ** exponent
        label = f"slope $D^{{{exponent:.3g}}}$ (Corollary 8), anchored at the last point"
        axes.plot(ends, line, color=style.BLACK, lw=1, label=label)
    axes.set(xlabel="data $D$ (samples)", ylabel="critical batch size $B^*$ (samples)", title=title)
    style.log_axes(axes)
    style.show_at_least(axes, 2.0)
    style.legend(axes, corners=("upper left", "lower right"))
    return style.figure_of(axes)
