"""Figures of data_law: measured against predicted exponents, and B* against data, teacher by teacher."""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments._lib.errors_in_both import Line
from sgdtheory.plotting.style import BLACK, GRAY, categories, legend, legend_below, log_axes, new_figure, tick_measured

Table = Mapping[str, np.ndarray]
Lines = Mapping[tuple[bool, str], Line | None]
LABELS = {
    "before": "tangent features before training",
    "after": "tangent features after training",
    "last": "last hidden layer after training",
    "inputs": "inputs' own $a$, $b$",
}
FROZEN = "last hidden layer, frozen"
PANELS = (
    (False, "slope", ("before",), "Output alone trained: exact theory"),
    (True, "slope", ("before", "after", "last"), "All weights trained: exact theory of features"),
    (True, "exponent", ("before", "after", "last", "inputs"), "All weights trained: Corollary 8 by exponents"),
)


class Config(Protocol):
    """Fields of the experiment's config that the figures need."""

    @property
    def level(self) -> float:
        """Level of the intervals."""
        ...

    @property
    def overhead(self) -> float:
        """Extra data that defines B*."""
        ...


def data_law_figures(config: Config, table: Table, lines: Lines) -> dict[str, Figure]:
    """Both, by name.

    Args:
        config: of the experiment.
        table: its columns.
        lines: (all trained, column) → line through measured against predicted exponents.
    """
    return {
        "data_law": _exponents_figure(config, table, lines),
        "data_law_critical": _critical_figure(config, table),
    }


def _exponents_figure(config: Config, table: Table, lines: Lines) -> Figure:
    """Measured against predicted exponents, a point a teacher, with the line on which they are the same."""
    figure, axes = new_figure(1, 3, width=4.3, height=4.4)
    figure.suptitle(
        "Exponent $p$ of $B^* \\propto D^p$ of networks, measured against predicted: one point per teacher "
        f"(bars: {config.level:.0%})",
        fontsize=10,
    )
    first = table["num_samples"] == table["num_samples"].min()
    for axis, (everything, column, kinds, title) in zip(axes[0], PANELS, strict=True):
        here = first & (table["all_trained"] == everything)
        axis.set_title(title)
        _points(config, axis, {name: part[here] for name, part in table.items()}, column, kinds, lines, everything)
    return figure


def _points(
    config: Config, axis: Axes, rows: Table, column: str, kinds: tuple[str, ...], lines: Lines, everything: bool
) -> None:
    looks = dict(zip(LABELS, categories(len(LABELS)), strict=True))
    reach = 1.96
    for kind in kinds:
        name = f"{column}_{kind}"
        error = rows.get(f"{name}_error", np.zeros_like(rows["slope"]))
        line, text = lines[everything, name], LABELS[kind] if everything else FROZEN
        if line is not None:
            text += f":\nslope {line.text}"
        style: dict[str, Any] = {"color": looks[kind]["color"], "marker": looks[kind]["marker"], "ls": ""}
        x, y, x_error, y_error = (
            part[np.isfinite(rows[name]) & np.isfinite(rows["slope"])]
            for part in (rows[name], rows["slope"], reach * error, reach * rows["slope_error"])
        )
        axis.errorbar(x, y, xerr=x_error, yerr=y_error, **style, ms=5, elinewidth=0.6, label=text)
    ends = np.array([*axis.get_xlim(), *axis.get_ylim()])
    ends = np.array([max(ends.min(), -1.5), min(ends.max(), 2.0)])
    axis.plot(ends, ends, color=BLACK, lw=1, label="measured = predicted")
    axis.set(xlabel="exponent predicted", ylabel="exponent measured")
    legend(axis, corners=("upper left", "lower right"))


def _critical_figure(config: Config, table: Table) -> Figure:
    """B* against D, a panel a teacher: measured with intervals, theory of the features before and after training."""
    chosen = table["all_trained"] == 1
    pairs = sorted({(a, b) for a, b in zip(table["capacity"][chosen], table["source"][chosen], strict=True)})[::-1]
    columns = -(-len(pairs) // 2)
    figure, axes = new_figure(2, columns, width=3.2, height=3.0)
    figure.suptitle(
        f"Critical batch size against data ({config.overhead:.0%} overhead), all weights trained: "
        "measured (points) and by the theory of features (lines)",
        fontsize=10,
    )
    for axis in axes.flat[len(pairs) :]:
        axis.set_axis_off()
    for axis, (a, b) in zip(axes.flat, pairs, strict=False):
        here = chosen & (table["capacity"] == a) & (table["source"] == b)
        _critical_panel(axis, {name: part[here] for name, part in table.items()})
        axis.set_title(f"$a = {a:g}$, $b = {b:g}$")
    legend_below(figure, axes[0, 0])
    return figure


def _critical_panel(axis: Axes, rows: Table) -> None:
    looks = dict(zip(LABELS, categories(len(LABELS)), strict=True))
    for kind, style in ("before", "-"), ("after", "--"), ("last", "-."):
        axis.plot(
            rows["num_samples"], rows[f"critical_{kind}"], color=looks[kind]["color"], ls=style, lw=1.2,
            label=f"theory: {LABELS[kind]}",
        )  # fmt: skip
    known = {name: part[np.isfinite(rows["critical"])] for name, part in rows.items()}
    measured = known["critical"]
    bars = np.nan_to_num(np.maximum([measured - known["critical_low"], known["critical_high"] - measured], 0))
    axis.errorbar(
        known["num_samples"], measured, yerr=bars, fmt="o", color=BLACK, ecolor=GRAY, ms=5, capsize=3, label="measured"
    )
    axis.set(xlabel="data $D$ (samples)", ylabel="$B^*$ (samples)")
    log_axes(axis)
    tick_measured(axis, rows["num_samples"])
