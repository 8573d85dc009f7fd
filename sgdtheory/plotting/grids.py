"""Figures of a grid of losses: L* over batch size and data, and what a batch size costs at fixed data."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sgdtheory.fits import Degradation, LossGrid, LossTarget, TunedLosses
from sgdtheory.plotting import style

WORST = 1.0  # The colours end at this degradation (100%) at most.


def loss_grid(grid: LossGrid, *, group: str | None = None, title: str | None = None) -> Figure:
    """The map of the degradation with B* on it, and its curves at fixed data.

    >>> import numpy as np
    >>> import sgdtheory as st
    >>> B, D, rate = np.meshgrid([16, 64, 256, 1024], 4.0 ** np.arange(8, 12), [0.1, 0.3, 1, 3, 9])
    >>> loss = 2 + 30 * (D / (1 + B / 200)) ** -0.5 * (1 + 0.02 * np.log(rate) ** 2)
    >>> columns = {"batch_size": B, "samples": D, "learning_rate": rate, "loss": loss}
    >>> grid = st.fit_loss_grid({name: column.ravel() for name, column in columns.items()})
    >>> figure = st.plot.loss_grid(grid)
    >>> len(figure.axes)  # and the scale of the colours
    3

    Args:
        grid: of `fit_loss_grid`.
        group: which of its groups; None: the first.
        title: of the figure; None: the group.

    Returns:
        The figure.

    Raises:
        ValueError: no such group.
    """
    chosen = _group(grid, group)
    figure, axes = style.new_figure(1, 2, width=5.2, height=3.9)
    loss_map(grid, group=chosen.group, axes=axes[0, 0])
    degradation(grid, group=chosen.group, axes=axes[0, 1])
    title = style.plain_label(chosen.group) if title is None else title
    if title:
        figure.suptitle(title, fontsize=9.5)
    return figure


def loss_map(
    grid: LossGrid,
    *,
    group: str | None = None,
    title: str = "Tuned loss above that of the best batch size, same data",
    axes: Axes | None = None,
) -> Figure:
    """L*(B, D) over the least of all batch sizes at that D, as colours; B* at each target and the largest B within x%.

    Crosses mark cells whose best learning rate is at an end of the rates: they are in no fit.

    >>> import sgdtheory as st
    >>> rows = [(B, D, rate, 2 + (1 + B / 99) / D**0.5 * (1 + (rate - 2) ** 2))
    ...         for B in (16, 64, 256) for D in (1e4, 1e5, 1e6) for rate in (1, 2, 4)]
    >>> figure = st.plot.loss_map(st.fit_loss_grid(rows))
    >>> figure.axes[0].get_xlabel()
    'data $D$ (samples)'

    Args:
        grid: of `fit_loss_grid`.
        group: which of its groups; None: the first.
        title: of the panel.
        axes: the panel to draw in; None: that of a new figure.

    Returns:
        The figure.

    Raises:
        ValueError: no such group.
    """
    tuned, axes = _group(grid, group), style.panel(axes)
    worse = [each for each in grid.degradations if each.group == tuned.group]
    samples, batch_sizes, percent = _matrix(tuned, worse)
    top = min(max(float(np.nanmax(percent, initial=0.0)), 1e-3), 100 * WORST)
    mesh = axes.pcolormesh(
        _edges(samples), _edges(batch_sizes), percent, cmap="viridis_r", vmin=0, vmax=top, shading="flat"
    )
    figure = style.figure_of(axes)
    figure.colorbar(
        mesh, ax=axes, label="loss above the best batch size's (%)", extend="max" if top == 100 else "neither"
    )
    _edge_crosses(axes, tuned, samples)
    _lines(axes, grid, tuned, worse)
    axes.set(
        xlabel="data $D$ (samples)",
        ylabel="batch size $B$",
        title=title,
    )
    style.log_axes(axes)
    axes.set(xlim=_edges(samples)[[0, -1]], ylim=_edges(batch_sizes)[[0, -1]])
    axes.grid(visible=False)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, fontsize=style.SMALL, frameon=False)
    return figure


def degradation(
    grid: LossGrid, *, group: str | None = None, title: str | None = None, axes: Axes | None = None
) -> Figure:
    """L*(B, D)/min_B L*(B, D) against B, a line a data size, with intervals.

    >>> import sgdtheory as st
    >>> rows = [(B, D, rate, 2 + (1 + B / 99) / D**0.5 * (1 + (rate - 2) ** 2))
    ...         for B in (16, 64, 256) for D in (1e4, 1e5, 1e6) for rate in (1, 2, 4)]
    >>> figure = st.plot.degradation(st.fit_loss_grid(rows))
    >>> figure.axes[0].get_xlabel()
    'batch size $B$'

    Args:
        grid: of `fit_loss_grid`.
        group: which of its groups; None: the first.
        title: of the panel; None: what it shows.
        axes: the panel to draw in; None: that of a new figure.

    Returns:
        The figure.

    Raises:
        ValueError: no such group.
    """
    tuned, axes = _group(grid, group), style.panel(axes)
    worse = [each for each in grid.degradations if each.group == tuned.group]
    labelled = style.few(len(worse))
    for place, (color, each) in enumerate(zip(style.colors(max(len(worse), 1)), worse, strict=False)):
        percent, bars = 100 * (each.ratios - 1), 100 * (each.intervals.T - 1)
        bars = np.abs(bars - percent) if np.isfinite(bars).all() else None
        label = f"$D = {_short(each.samples)}$" if place in labelled else None
        axes.errorbar(each.batch_sizes, percent, yerr=bars, fmt="o-", ms=3, capsize=2, color=color, label=label)
    axes.axhline(0, color=style.GRAY, lw=0.8)
    if worse:
        share = 100 * worse[0].share
        axes.axhline(share, ls=":", color=style.BLACK, lw=1, label=f"{share:.3g}% worse")
        axes.set_ylim(-0.1 * share, _reach(worse))
    axes.set(
        xlabel="batch size $B$",
        ylabel="loss above the best batch size's (%)",
        title=f"Loss against batch size at fixed data; bars: {grid.level:.0%}" if title is None else title,
    )
    style.log_axes(axes, "x")
    style.tick_measured(axes, tuned.batch_sizes)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=style.SMALL, frameon=False)
    return style.figure_of(axes)


def _group(grid: LossGrid, name: str | None) -> TunedLosses:
    groups = {each.group: each for each in grid.groups}
    if name is not None and name not in groups:
        raise ValueError(f"group must be one of {', '.join(map(repr, groups))}, got {name!r}")
    return grid.groups[0] if name is None else groups[name]


def _matrix(tuned: TunedLosses, worse: Sequence[Degradation]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """D, B and the degradation in percent, (m, k), nan where there is none."""
    if not worse:
        raise ValueError("grid must have a data size that three batch sizes have in common, to be drawn")
    percent = np.full((tuned.batch_sizes.size, len(worse)), np.nan)
    for place, each in enumerate(worse):
        percent[np.searchsorted(tuned.batch_sizes, each.batch_sizes), place] = 100 * (each.ratios - 1)
    return np.array([each.samples for each in worse]), tuned.batch_sizes, percent


def _edges(centres: np.ndarray) -> np.ndarray:
    """Ends of cells about centres on a logarithmic axis."""
    log = np.log(centres)
    gaps = np.diff(log) if log.size > 1 else np.array([np.log(2.0)])
    return np.exp(np.r_[log[0] - gaps[0] / 2, log[:-1] + gaps[: log.size - 1] / 2, log[-1] + gaps[-1] / 2])


def _edge_crosses(axes: Axes, tuned: TunedLosses, samples: np.ndarray) -> None:
    """Cells of the data sizes shown whose best rate is at an end."""
    at = np.isin(tuned.state, ("lowest rate", "highest rate"))
    cells = [(tuned.samples[d], tuned.batch_sizes[b]) for b, d in zip(*np.nonzero(at), strict=True)]
    shown = [cell for cell in cells if cell[0] in samples]
    if shown:
        axes.plot(*np.array(shown).T, "x", color=style.GRAY, ms=5, label="best γ at an end of the grid")


def _lines(axes: Axes, grid: LossGrid, tuned: TunedLosses, worse: Sequence[Degradation]) -> None:
    """B* at the targets, and the largest batch size within x%, against D."""
    within = np.array([(each.samples, each.batch_size) for each in worse if np.isfinite(each.batch_size)])
    if within.size:
        axes.plot(*within.T, "-", color="white", lw=3.4)
        axes.plot(*within.T, "-", color=style.BLACK, lw=1.6, label=f"{100 * worse[0].share:.3g}% above the best")
    best = np.array([(each.samples, each.best_batch_size) for each in worse if np.isfinite(each.best_batch_size)])
    if best.size:
        axes.plot(*best.T, "--", color=style.BLUE, lw=1.6, label="least loss")
    stars = [each for each in grid.targets if each.group == tuned.group and np.isfinite(each.critical_batch_size)]
    for each in stars:
        axes.plot(_data_at(each), each.critical_batch_size, color="white", **style.STAR)
    ranges = [each for each in stars if each.smallest_batch_size > 0]
    for each in ranges:
        ends = np.clip([each.smallest_batch_size, each.critical_batch_size], *_edges(tuned.batch_sizes)[[0, -1]])
        axes.plot([_data_at(each)] * 2, ends, color=style.BLACK, lw=1, zorder=2)
        axes.plot(_data_at(each), each.optimal_batch_size, "D", color="white", mec=style.BLACK, mew=0.8, ms=5, zorder=3)
    if ranges:
        axes.plot([], [], "D-", color=style.BLACK, mfc="white", ms=5, lw=1, label=r"$B_{opt}$ and useful batch sizes")
    if stars:
        axes.plot([], [], color="white", label=f"$B^*$ ({grid.convention.overhead:.0%} more data)", **style.STAR)


def _data_at(target: LossTarget) -> float:
    """Data to the target at B*, by the law."""
    return float(target.critical_batch_size * target.law.predict(target.critical_batch_size))


def _reach(worse: Sequence[Degradation]) -> float:
    """The upper end of the axis: the worst, or 15 times the share that is looked at and what most lie below."""
    above = np.concatenate([each.ratios for each in worse]) - 1
    return 110 * min(float(above.max()), max(15 * worse[0].share, float(np.quantile(above, 0.75)))) + 1e-9


def _short(number: float) -> str:
    """A data size for a label in mathematics, to three digits."""
    exponent = int(np.floor(np.log10(number)))
    return f"{number:.3g}" if number < 1e3 else rf"{number / 10.0**exponent:.3g} \times 10^{{{exponent}}}"
