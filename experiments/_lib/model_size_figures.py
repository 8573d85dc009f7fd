"""Figures of `model_size`: three settings, the plane of model and data sizes, notions, compute, and networks."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.interpolate import RectBivariateSpline

import sgdtheory as st
from experiments._lib.exponents import LastSlope, last_slope
from experiments._lib.model_size_config import Config
from experiments._lib.model_sizes import ALL, Pair, Row, chosen, column, effective, mean_dimension, path_exponents
from experiments._lib.panels import LEAST_WIDTH
from sgdtheory.plotting.style import (
    BLACK,
    GRAY,
    LINES,
    SMALL,
    STAR,
    VERMILLION,
    categories,
    colors,
    legend_below,
    log_axes,
    new_figure,
    power_of_ten,
    tick_measured,
)

THEORY: dict[str, Any] = {"color": BLACK, "lw": 0.9}
MOST_LINES = 5  # of one panel
TOKENS = 20  # samples a feature: the paper's Chinchilla setting has 20 tokens a parameter
FINE = 200  # points of each axis of a map
LEGEND = 0.25, 0.35, 0.3  # share of a panel's height for its legend
SETTINGS = "model and data together", "more data, same model", "larger model, same data"
NETWORK = "kind", "model_size", "num_samples"  # what sets the rows of networks apart, but for the seed
NOTIONS = {
    "real_batch_size": "$B^*$",
    "rate_batch_size": "twice the excess risk",
    "whole_rate_batch_size": "twice the whole risk",
    "simple_noise_scale": "gradient noise scale, simple",
    "hessian_noise_scale": "the same, Hessian-weighted",
    "interpolation_batch_size": r"$m^* = \mathrm{tr}\,H/\lambda_1$",
}


def figures(config: Config, rows: Sequence[Row]) -> dict[str, Figure]:
    """All, by name, of the config and the table of `model_size`."""
    drawn = {
        "model_size": _settings_figure(config, rows),
        "model_size_map": _map_figure(config, rows),
        "model_size_notions": _notions_figure(config, rows),
        "model_size_compute": _compute_figure(config, rows),
        "model_size_networks": _network_figure(rows),
    }
    return drawn | ({"model_size_gaussian": _gaussian_figure(config, rows)} if config.gaussian_samples else {})


def _title(axis: Axes, pair: Pair) -> None:
    """a and b, and what decides whether B* rises or falls as features are taken away."""
    capacity, source = pair
    relation = "<" if source < 2 * capacity else ">" if source > 2 * capacity else "="
    axis.set_title(f"$a = {capacity:g}$, $b = {source:g}$: $b {relation} 2a$")


def _some(values: Sequence[float]) -> list[float]:
    """At most MOST_LINES of them, the ends among them."""
    ordered = sorted(values)
    places = np.linspace(0, len(ordered) - 1, min(MOST_LINES, len(ordered))).round().astype(int)
    return [ordered[place] for place in places]


# ------------------------------------------------------------------ three settings


def _settings_figure(config: Config, rows: Sequence[Row]) -> Figure:
    """Columns as the panels of the paper's Figure 1, a row a problem."""
    figure, axes = new_figure(len(config.exponents), 3, width=3.6, height=2.9)
    for row, pair in zip(axes, config.exponents, strict=True):
        _together_panel(config, row[0], rows, pair)
        _data_panel(config, row[1], rows, pair)
        _model_panel(config, row[2], rows, pair)
        for axis in row:
            log_axes(axis)
            axis.set_ylabel("$B^*$ (samples)")
    for axis, text in zip(axes[0], SETTINGS, strict=True):
        axis.set_title(text)
    for axis, pair in zip(axes[:, 0], config.exponents, strict=True):
        axis.set_ylabel(f"$a = {pair[0]:g}$, $b = {pair[1]:g}$\n$B^*$ (samples)")
    whole = chosen(rows, kind="grid", pair=config.exponents[0], model_size=ALL)
    last = _last_slope(whole)
    figure.suptitle(
        "The critical batch size grows with the data, not with the model, as long as the model is larger than "
        f"$k^*(D)$; {_slope(whole)}: slope {last.value:.3f} at the end, {abs(last.change):.3f} off the one before",
        fontsize=9,
    )
    for row in axes:
        for axis, free in zip(row, LEGEND, strict=True):
            low, high = axis.get_ylim()
            axis.set_ylim(low, high * (high / low) ** (free / (1 - free)))
            axis.legend(frameon=False, fontsize=SMALL, ncols=2, loc="upper left")
    return figure


def _together_panel(config: Config, axis: Axes, rows: Sequence[Row], pair: Pair) -> None:
    for ratio, color in zip(config.samples_per_feature, colors(len(config.samples_per_feature)), strict=True):
        line = chosen(rows, kind=f"D = {ratio:g} M", pair=pair)
        label = f"$D = {power_of_ten(ratio)}\\,M$: {_slope(line)}"
        axis.plot(column(line, "num_samples"), column(line, "real_batch_size"), "o-", ms=3, color=color, label=label)
    _power(axis, chosen(rows, kind="grid", pair=pair, model_size=ALL), float(st.predicted_exponent(*pair)))
    axis.set_xlabel("samples $D$, features $M ∝ D$")


def _data_panel(config: Config, axis: Axes, rows: Sequence[Row], pair: Pair) -> None:
    sizes = [*_some(config.model_sizes)[:-1], ALL]
    for size, color in zip(sizes, colors(len(sizes)), strict=True):
        line = chosen(rows, kind="grid", pair=pair, model_size=size)
        label = f"{'all' if size == ALL else f'$M = {size:g}$'}: {_slope(line)}"
        axis.plot(column(line, "num_samples"), column(line, "real_batch_size"), "o-", ms=3, color=color, label=label)
    _power(axis, line, float(st.predicted_exponent(*pair)))
    least = chosen(rows, kind="grid", pair=pair, model_size=sizes[0])
    samples = column(least, "num_samples")[-3:]
    reach = (samples / samples[-1]) ** 0.5
    height = (0.5 if pair[1] > 2 * pair[0] else 1.7) * least[-1].real_batch_size  # outside of the other lines
    axis.plot(samples, height * reach, **THEORY, ls="--", label="$D^{1/2}$")
    axis.set_xlabel("samples $D$")


def _slope(line: Sequence[Row]) -> str:
    """Return the slope of B* in D over the last two sizes, 0.339(3) if it changed by 0.003 from the pair before."""
    slope = _last_slope(line)
    return f"{slope.value:.3f}({1000 * abs(slope.change):.0f})"


def _last_slope(line: Sequence[Row]) -> LastSlope:
    return last_slope(column(line, "num_samples"), column(line, "real_batch_size"))


def _power(axis: Axes, whole: Sequence[Row], exponent: float) -> None:
    """The power of Corollary 8 beneath B* of all features."""
    samples = column(whole, "num_samples")
    height = 0.5 * whole[-1].real_batch_size * (samples / samples[-1]) ** exponent
    axis.plot(samples, height, **THEORY, label=f"$D^{{{exponent:.2f}}}$, Corollary 8")


def _model_panel(config: Config, axis: Axes, rows: Sequence[Row], pair: Pair) -> None:
    shown = _some([each for each in config.num_samples if np.log10(each) % 1 == 0])
    dimension = effective(rows, pair)
    for samples, color in zip(shown, colors(len(shown)), strict=True):
        line = chosen(rows, kind="grid", pair=pair, num_samples=samples)[:-1]
        sizes, batch = column(line, "model_size"), column(line, "real_batch_size")
        axis.plot(sizes, batch, "o-", ms=3, color=color, label=f"$D = {power_of_ten(samples)}$")
        height = np.exp(np.interp(np.log(dimension[samples]), np.log(sizes), np.log(batch)))
        star = {"marker": "*", "ms": 10, "mec": BLACK, "mew": 0.6, "ls": "", "zorder": 3, "color": color}
        axis.plot(dimension[samples], height, **star, label="$M = k^*(D)$" if samples == shown[-1] else None)
    axis.set_xlabel("features $M$")


# ------------------------------------------------------------------ the plane


def _map_figure(config: Config, rows: Sequence[Row]) -> Figure:
    """Contours of B* over M and D: flat to the right of M = k*(D)."""
    number = len(config.exponents)
    figure, axes = new_figure(1, number, width=max(3.7, LEAST_WIDTH / number), height=3.7)
    for axis, pair in zip(axes[0], config.exponents, strict=True):
        sizes, samples, values = _surface(config, rows, pair)
        log_axes(axis)
        filled = axis.contourf(sizes, samples, values, levels=12, cmap="viridis", alpha=0.85)
        axis.contour(sizes, samples, values, levels=filled.levels, colors=BLACK, linewidths=0.5)
        dimension, path = effective(rows, pair), chosen(rows, kind="compute", pair=pair)
        axis.plot(list(dimension.values()), list(dimension), color=VERMILLION, lw=2.2, label="$M = k^*(D)$")
        x, y = column(path, "model_size"), column(path, "num_samples")
        axis.plot(x, y, color="white", lw=2.2, ls="--", label="compute-optimal $M$ for $M D$ fixed")
        together = {"color": BLACK, "lw": 1.2, "ls": ":", "label": f"$D = {TOKENS}\\,M$"}
        axis.plot(sizes, TOKENS * sizes, **together)
        axis.set(xlim=(sizes[0], sizes[-1]), ylim=(samples[0], samples[-1]), xlabel="features $M$")
        axis.grid(visible=False)
        _title(axis, pair)
        bar = figure.colorbar(filled, ax=axis, location="top", shrink=0.9, aspect=30, pad=0.02)
        bar.set_ticks(np.arange(np.ceil(filled.levels[0]), filled.levels[-1] + 1e-9))
        bar.ax.xaxis.set_major_formatter(lambda value, _: f"$10^{{{value:.0f}}}$")
        bar.ax.tick_params(labelsize=SMALL)
    axes[0, 0].set_ylabel("samples $D$")
    figure.suptitle(
        "Critical batch size $B^*$ over model and data size: right of $M = k^*(D)$ it depends on $D$ alone", fontsize=9
    )
    box = legend_below(figure, axes[0, 0], columns=3)
    box.set_frame_on(True)
    box.get_frame().set_facecolor("#B0B0B0")
    return figure


def _surface(config: Config, rows: Sequence[Row], pair: Pair) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """M, D and log10 B*, linear in logs between the sizes that were solved for."""
    sizes, samples = sorted(config.model_sizes), sorted(config.num_samples)
    lines = [chosen(rows, kind="grid", pair=pair, num_samples=each)[:-1] for each in samples]
    values = np.log10([column(line, "real_batch_size") for line in lines])
    between = RectBivariateSpline(np.log(samples), np.log(sizes), values, kx=1, ky=1)
    x, y = np.geomspace(sizes[0], sizes[-1], FINE), np.geomspace(samples[0], samples[-1], FINE)
    return x, y, between(np.log(y), np.log(x))


# ------------------------------------------------------------------ other notions


def _notions_figure(config: Config, rows: Sequence[Row]) -> Figure:
    """Every notion over its value with all features, against M at one D."""
    number = len(config.exponents)
    figure, axes = new_figure(1, number, width=max(3.6, LEAST_WIDTH / number), height=3.2)
    for axis, pair in zip(axes[0], config.exponents, strict=True):
        *line, whole = chosen(rows, kind="grid", pair=pair, num_samples=config.notion_samples)
        axis.axhline(1.0, color=GRAY, lw=0.8)
        for (name, label), look in zip(NOTIONS.items(), categories(len(NOTIONS)), strict=True):
            ratio = column(line, name) / getattr(whole, name)
            axis.plot(column(line, "model_size"), ratio, label=label, ms=3.5, **look)
        axis.axvline(whole.effective_dimension, color=BLACK, lw=0.9, ls="--", label="$M = k^*(D)$")
        log_axes(axis)
        _title(axis, pair)
        axis.set_xlabel("features $M$")
    axes[0, 0].set_ylabel("value / value with all features")
    figure.suptitle(f"Notions of critical batch size, at $D = {power_of_ten(config.notion_samples)}$", fontsize=9)
    legend_below(figure, axes[0, 0], columns=4)
    return figure


# ------------------------------------------------------------------ random features


def _gaussian_figure(config: Config, rows: Sequence[Row]) -> Figure:
    """B* of Gaussian features and of the first ones over that of all, against M at several D."""
    number = len(config.exponents)
    figure, axes = new_figure(1, number, width=max(3.6, LEAST_WIDTH / number), height=3.2)
    for axis, pair in zip(axes[0], config.exponents, strict=True):
        axis.axhline(1.0, color=GRAY, lw=0.8)
        for samples, color in zip(config.gaussian_samples, colors(len(config.gaussian_samples)), strict=True):
            *first, whole = chosen(rows, kind="grid", pair=pair, num_samples=samples)
            first = [row for row in first if row.model_size <= max(config.gaussian_sizes)]
            lines = {"gaussian": chosen(rows, kind="gaussian", pair=pair, num_samples=samples), "first": first}
            for (name, line), style in zip(lines.items(), ("o-", "--"), strict=True):
                ratio = column(line, "real_batch_size") / whole.real_batch_size
                label = f"$D = {power_of_ten(samples)}$, {'Gaussian' if name == 'gaussian' else 'first'} features"
                axis.plot(column(line, "model_size"), ratio, style, ms=3.5, color=color, label=label)
            axis.plot(whole.real_batch_size, 1.0, **{**STAR, "color": color})
        axis.plot([], [], **{**STAR, "color": GRAY}, label="$M = B^*$ of all features")
        log_axes(axis)
        _title(axis, pair)
        axis.set_xlabel("features $M$")
    axes[0, 0].set_ylabel("$B^*$ / $B^*$ of all features")
    figure.suptitle(
        "Model size stops mattering at about $B^*$ random features, or at $k^*$ of the first features",
        fontsize=9,
    )
    legend_below(figure, axes[0, 0], columns=4)
    return figure


# ------------------------------------------------------------------ compute


def _compute_figure(config: Config, rows: Sequence[Row]) -> Figure:
    """M, D/M, B* and the whole risk along the compute-optimal path, with the powers predicted."""
    figure, axes = new_figure(2, 2, width=LEAST_WIDTH / 2, height=2.7)
    wanted = {
        "model_size": "features $M$",
        "samples_per_feature": "samples a feature $D/M$",
        "real_batch_size": "$B^*$ (samples)",
        "whole_risk": "risk over the best of all",
    }
    looks = categories(len(config.exponents))
    for place, (pair, look) in enumerate(zip(config.exponents, looks, strict=True)):
        look |= {"ls": LINES[place % 2], "ms": 7 - 1.5 * place}  # lines that lie on each other are seen
        path = chosen(rows, kind="compute", pair=pair)
        size, samples = column(path, "model_size"), column(path, "num_samples")
        compute, powers = size * samples, path_exponents(pair)
        powers["samples_per_feature"] = 1 - 2 * powers["model_size"]
        for axis, name in zip(axes.flat, wanted, strict=True):
            values = samples / size if name == "samples_per_feature" else column(path, name)
            axis.plot(compute, values, label=f"$a = {pair[0]:g}$, $b = {pair[1]:g}$", **look)
            axis.plot(
                compute, values[-1] * (compute / compute[-1]) ** powers[name], color=look["color"], lw=0.8, ls=":"
            )
    for axis, text in zip(axes.flat, wanted.values(), strict=True):
        log_axes(axis)
        axis.set_ylabel(text)
    for axis in axes[1]:
        axis.set_xlabel("compute $C = M D$")
    axes[0, 0].plot([], [], color=BLACK, lw=0.8, ls=":", label="predicted powers")
    figure.suptitle("The model size with the least risk at compute $C = M D$", fontsize=9)
    legend_below(figure, axes[0, 0], columns=4)
    return figure


# ------------------------------------------------------------------ networks


def _network_figure(rows: Sequence[Row]) -> Figure:
    """k* of a network's last hidden layer against its width, beside k* = width."""
    figure, axes = new_figure(1, 1, width=LEAST_WIDTH * 0.75, height=3.6)
    axis, mine = axes[0, 0], [row for row in rows if row.kind.startswith("network")]
    kinds, widths, data = (sorted({getattr(row, name) for row in mine}) for name in NETWORK)
    for kind in kinds:
        for samples, color in zip(data, colors(len(data)), strict=True):
            trained = kind.endswith("trained")
            label = f"$D = {samples:g}$, {'trained' if trained else 'at initialization'}"
            look = {"marker": "s", "ls": "--", "mfc": "white"} if trained else {"marker": "o"}
            axis.plot(widths, mean_dimension(rows, kind, samples, widths), color=color, ms=4, label=label, **look)
    axis.plot(widths, widths, color=BLACK, lw=1, label="$k^* = $ width: the model is the limit")
    log_axes(axis)
    tick_measured(axis, widths)
    axis.set(xlabel="width (of the last hidden layer)", ylabel="$k^*(D)$ of its activations")
    figure.suptitle("Widths of the experiment width_invariance and $k^*(D)$ of their features", fontsize=9)
    legend_below(figure, axis, columns=2)
    return figure
