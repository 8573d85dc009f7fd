"""Figures of real_features: B* predicted and observed, spectra with their fits, exponents along training."""

from typing import Any, NamedTuple, Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

from sgdtheory.plotting.style import BLACK, GRAY, SMALL, categories, colors, legend_below, log_axes, new_figure

NAN = float("nan")
FEWEST = 4  # directions over which a signal's power law is drawn
KINDS = "random features of bytes, tangents", "digits", "transformer before training", "trained transformer"


class Row(NamedTuple):
    """One row of the table, as in the experiment's `UNITS`."""

    kind: str
    features: str
    dim: float
    steps: float
    seed: float
    index: float
    predicted: float = NAN
    gaussian: float = NAN
    measured: float = NAN
    low: float = NAN
    high: float = NAN
    permuted: float = NAN
    crossed: float = NAN
    crossed_low: float = NAN
    crossed_high: float = NAN
    spread: float = NAN
    risk: float = NAN
    inside: float = NAN
    eigenvalue: float = NAN
    signal: float = NAN
    capacity: float = NAN
    capacity_reach: float = NAN
    source: float = NAN
    source_reach: float = NAN
    last: float = NAN


class Config(Protocol):
    """Fields of an experiment's config that the figures need."""

    @property
    def margin(self) -> float:
        """Factor that counts as agreement."""
        ...

    @property
    def level(self) -> float:
        """Level of the intervals."""
        ...


def figures(config: Config, rows: list[Row]) -> dict[str, Figure]:
    """All of them, by name."""
    return {
        "real_features_critical": _critical_figure(config, [row for row in rows if row.kind == "critical"]),
        "real_features_spectra": _spectra_figure([row for row in rows if row.kind == "spectrum"]),
        "real_features_exponents": _exponents_figure(config, [row for row in rows if row.kind == "exponents"]),
    }


def _looks(rows: list[Row]) -> dict[str, dict[str, Any]]:
    """Colour and marker of every feature set."""
    names = list(dict.fromkeys(sorted(row.features for row in rows)))
    return dict(zip(names, categories(len(names)), strict=True))


def _critical_figure(config: Config, rows: list[Row]) -> Figure:
    """B* predicted against observed, and their ratio against D."""
    figure, axes = new_figure(1, 2, width=4.6, height=4.2)
    left, right = axes[0]
    sizes = np.array([[row.gaussian, row.measured] for row in rows])
    ends = np.array([np.nanmin(sizes) / 1.5, np.nanmax(sizes) * 1.5])
    samples = np.array([[row.index] for row in rows])
    _band(left, ends, ends, config.margin)
    _band(right, np.array([samples.min() / 1.4, samples.max() * 1.4]), np.ones(2), config.margin)
    for name, look in _looks(rows).items():
        mine = sorted((row for row in rows if row.features == name), key=lambda row: row.index)
        _points(left, right, mine, name, {"color": look["color"], "marker": look["marker"], "ms": 4.5, "lw": 0.8})
    texts = "$B^*$ predicted from second moments", "$B^*$ observed, SGD on the data"
    left.set(xlabel=texts[0], ylabel=texts[1], xlim=ends, ylim=ends)
    right.set(xlabel="samples $D$", ylabel="$B^*$ predicted / observed")
    log_axes(left)
    log_axes(right)
    right.xaxis.set_major_locator(FixedLocator(np.unique(samples).tolist()))
    figure.suptitle(
        f"Critical batch size of real features: predicted from second moments; band: a factor of {config.margin:g}",
        fontsize=10,
    )
    legend_below(figure, left, columns=4)
    return figure


def _band(axis: Axes, x: np.ndarray, y: np.ndarray, margin: float) -> None:
    """A line, and what is within a factor of it."""
    axis.plot(x, y, color=BLACK, lw=0.9)
    axis.fill_between(x, y / margin, y * margin, color=GRAY, alpha=0.15, lw=0)


def _points(left: Axes, right: Axes, mine: list[Row], name: str, look: dict[str, Any]) -> None:
    """One feature set in both panels; bars along x are those of another sample of rows, where they are known."""
    samples, x, y, low, high, least, most = (
        np.array([getattr(row, field) for row in mine])
        for field in ("index", "gaussian", "measured", "low", "high", "crossed_low", "crossed_high")
    )
    centre = np.array([row.crossed * row.predicted / row.gaussian for row in mine])  # of that interval
    sampled = [np.nan_to_num(x * (1 - least / centre)), np.nan_to_num(x * (most / centre - 1))]
    bars = np.maximum([y - low, high - y], 0)
    left.errorbar(x, y, yerr=bars, xerr=np.maximum(sampled, 0), ls="", label=name, **look)
    right.errorbar(samples, x / y, yerr=np.maximum([x / y - x / high, x / low - x / y], 0), **look)


def _spectra_figure(rows: list[Row]) -> Figure:
    """λ_i and s_i of every set, a column a kind, with the power laws fitted to them."""
    kinds = {name: [row for row in rows if _kind(row) == name] for name in KINDS}
    kinds = {name: mine for name, mine in kinds.items() if mine}
    figure, axes = new_figure(2, len(kinds), width=max(2.7, 7.2 / len(kinds)), height=2.6)
    looks = _looks(rows)
    for column, (kind, some) in enumerate(kinds.items()):
        for name in dict.fromkeys(row.features for row in some):
            mine = [row for row in some if row.features == name]
            a, b = mine[0].capacity, mine[0].source
            known = f"{b:.2f}" if mine[0].last >= FEWEST else "?"
            label = f"{name}: $a = {a:.2f}$, $b = {known}$"
            index, values, signal = np.array([[row.index, row.eigenvalue, row.signal] for row in mine]).T
            _power(axes[0, column], index, values, -a, index[-1], looks[name], label)
            _power(axes[1, column], index, signal, -b, mine[0].last, looks[name], label)
        axes[0, column].set_title(kind)
        axes[1, column].set_xlabel("direction $i$")
        log_axes(axes[0, column])
        log_axes(axes[1, column])
    axes[0, 0].set_ylabel("eigenvalue $\\lambda_i/\\lambda_1$")
    axes[1, 0].set_ylabel("signal $s_i/s_1$")
    figure.suptitle(
        "Spectrum $\\propto i^{-a}$ and signal $\\propto i^{-b}$ of real features, cross-fitted ($b$: where resolved)",
        fontsize=10,
    )
    handles = [each for axis in axes[0] for each in axis.get_legend_handles_labels()[0]]
    figure.legend(handles=handles, loc="outside lower center", frameon=False, fontsize=SMALL, ncols=3)
    return figure


def _kind(row: Row) -> str:
    """The column of a feature set."""
    if "transformer" in row.features:
        return KINDS[2] if row.steps == 0 else KINDS[3]
    return KINDS[1] if "digits" in row.features else KINDS[0]


def _power(
    axis: Axes, index: np.ndarray, values: np.ndarray, slope: float, last: float, look: dict[str, Any], label: str
) -> None:
    """Points over the first of them, and a line of that slope through their middle as far as it was fitted."""
    values = np.where(values > 0, values / values[0], np.nan)
    color = look["color"]
    axis.plot(index, values, color=color, marker=look["marker"], ms=3.5, ls="", label=label)
    inside = (index <= last) & np.isfinite(values)
    if last >= FEWEST and np.isfinite(slope):
        height = np.exp(np.mean(np.log(values[inside]) - slope * np.log(index[inside])))
        ends = index[inside][[0, -1]]
        axis.plot(ends, height * ends**slope, color=color, lw=0.9)


def _exponents_figure(config: Config, rows: list[Row]) -> Figure:
    """a, b and B* of a transformer's last layer against training time, a colour a width."""
    figure, axes = new_figure(1, 3, width=3.3, height=3.4)
    widths = sorted({row.dim for row in rows})
    panels = (
        ("capacity", "capacity exponent $a$"),
        ("source", "source exponent $b$"),
        ("predicted", "$B^*$ (samples)"),
    )
    for axis, (name, label) in zip(axes[0], panels, strict=True):
        for width, color in zip(widths, colors(len(widths)), strict=True):
            mine = [row for row in rows if row.dim == width and np.isfinite(getattr(row, name))]
            steps = np.array(sorted({row.steps for row in mine}))
            values = [[getattr(row, name) for row in mine if row.steps == each] for each in steps]
            mean = np.array([np.mean(each) for each in values])
            spread = np.array([[np.mean(each) - min(each), max(each) - np.mean(each)] for each in values]).T
            axis.errorbar(
                steps + 1, mean, yerr=spread, color=color, marker="o", ms=4, capsize=2, label=f"width {width:.0f}"
            )
        log_axes(axis, "x")
        axis.set(xlabel="steps of training, plus 1", ylabel=label)
    log_axes(axes[0, 2])
    samples = rows[0].index
    axes[0, 2].set_title(f"$B^*$ of these features, $D = {samples:.0f}$")
    axes[0, 0].set_title("Eigenvalues $\\propto i^{-a}$")
    axes[0, 1].set_title("Signal $\\propto i^{-b}$")
    figure.suptitle(
        "Last layer of a transformer on text: exponents and $B^*$ change more with training than with width",
        fontsize=10,
    )
    legend_below(figure, axes[0, 0], columns=4)
    return figure
