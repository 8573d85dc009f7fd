"""Figures of measurements and of what is fitted to them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sgdtheory import fits
from sgdtheory.plotting import style

SHOWN = 6  # The y axis ends at 1 plus this many overheads at most; data to the target above it are not drawn.
ROWS = 12  # A legend with more rows is placed beneath the figure.


def steps_laws(
    measurements: Sequence[fits.StepsMeasurement],
    laws: Sequence[fits.AbstractStepsLaw],
    *,
    convention: fits.Convention | None = None,
    title: str = "Steps to target leave linear scaling at $B^*$",
    axes: Axes | None = None,
) -> Figure:
    """Steps relative to those at the reference: measurements, fitted laws, B* on each, and linear scaling.

    >>> import sgdtheory as st
    >>> models = st.example_measurements()
    >>> laws = [st.fit_steps_law(model.batch_sizes, model.steps) for model in models]
    >>> figure = st.plot.steps_laws(models, laws)
    >>> figure.axes[0].get_ylabel()
    'steps to target / steps at $B=64$'

    Args:
        measurements: steps to target, one a group.
        laws: fitted to each.
        convention: of B*; None: 20% over the smallest batch size that all groups have.
        title: of the panel.
        axes: the panel to draw in; None: that of a new figure.

    Returns:
        The figure.
    """
    axes = style.panel(axes)
    everything = np.concatenate([measurement.batch_sizes for measurement in measurements])
    convention = convention or fits.common_convention([each.batch_sizes for each in measurements])
    reference = convention.reference_among(everything)
    convention = fits.Convention(reference, convention.overhead)
    for (look, name), measurement, law in zip(_looks(measurements), measurements, laws, strict=True):
        color = look["color"]
        critical = law.critical_batch_size(convention=convention)
        end = max(measurement.batch_sizes[-1], critical if np.isfinite(critical) else 0.0)
        grid = np.geomspace(measurement.batch_sizes[0], end, 200)
        unit = law.predict(reference)
        axes.plot(grid, law.predict(grid) / unit, color=color)
        axes.plot(measurement.batch_sizes, measurement.steps / unit, ms=3.5, label=name, **look)
        if np.isfinite(critical):
            axes.plot(critical, law.predict(critical) / unit, color=color, **style.STAR)
    grid = np.array([everything.min(), everything.max()])
    axes.plot(grid, reference / grid, "--", color=style.GRAY, lw=1, label="linear scaling")
    axes.plot([], [], color="white", label=f"$B^*$ ({convention.overhead:.0%} overhead)", **style.STAR)
    axes.set(xlabel="batch size $B$", ylabel=f"steps to target / steps at $B={reference:g}$", title=title)
    style.log_axes(axes)
    style.tick_measured(axes, everything)
    _legend(axes)
    return style.figure_of(axes)


def useful_range(
    measurements: Sequence[fits.StepsMeasurement],
    laws: Sequence[fits.UShapedLaw],
    *,
    convention: fits.Convention | None = None,
    title: str = "Data to target are least at $B_{opt}$; thick: useful batch sizes",
    axes: Axes | None = None,
) -> Figure:
    """Draw the data B·Y to the target relative to the least, thick in the useful range, with B_opt and B* marked.

    The axis ends at six overheads.

    >>> import sgdtheory as st
    >>> models = st.example_measurements()[1:3]
    >>> laws = [st.fit_steps_law(each.batch_sizes, each.steps, optimal_batch_size=True) for each in models]
    >>> figure = st.plot.useful_range(models, laws)
    >>> figure.axes[0].get_title()
    'Data to target are least at $B_{opt}$; thick: useful batch sizes'

    Args:
        measurements: steps to target, one a group.
        laws: fitted to each, with an optimal batch size.
        convention: of the useful range; None: 20%, and the smallest batch size that all groups have.
        title: of the panel.
        axes: the panel to draw in; None: that of a new figure.

    Returns:
        The figure.
    """
    axes = style.panel(axes)
    convention = convention or fits.common_convention([each.batch_sizes for each in measurements])
    everything = np.concatenate([each.batch_sizes for each in measurements])
    limit = 1 + convention.overhead
    for (look, name), measurement, law in zip(_looks(measurements), measurements, laws, strict=True):
        _one_useful_range(axes, measurement, law, convention, look, name)
    axes.axhline(limit, ls=":", color=style.BLACK, lw=1, label=f"{convention.overhead:.0%} more data")
    axes.plot([], [], "D", color="white", mec=style.BLACK, ms=5, label=r"$B_{opt}=\sqrt{c/a}$")
    axes.plot([], [], color="white", label="$B^*$", **style.STAR)
    axes.set(xlabel="batch size $B$", ylabel=r"data to target $B\,Y$ / at reference", title=title)
    style.log_axes(axes, "x")
    left, right = axes.get_xlim()
    if (everything.max() / everything.min()) ** 2 > right / left:  # else they have too little room beside B*
        style.tick_measured(axes, everything)
    bottom, top = axes.get_ylim()
    axes.set_ylim(max(bottom, 1 - convention.overhead), min(top, 1 + SHOWN * convention.overhead))
    _legend(axes, corners=("upper left", "upper center", "upper right"))
    return style.figure_of(axes)


def laws_of_groups(found: fits.LawsOfGroups, *, size: str = "", title: str = "") -> Figure:
    """Laws of groups of measurements and, where their sizes are known, B* against the size.

    >>> import sgdtheory as st
    >>> models = st.example_measurements()
    >>> laws = [st.fit_steps_law(model.batch_sizes, model.steps) for model in models]
    >>> found = st.fits.LawsOfGroups(tuple(models), tuple(laws), st.Convention(64))
    >>> [axes.get_xlabel() for axes in found.plot().axes]
    ['batch size $B$', 'model size $N$ (10⁶ parameters)']

    Args:
        found: the laws; with a reference of its own for each group they share one panel, scaled by their B*.
        size: what the sizes are; "": millions of parameters.
        title: of the figure.

    Returns:
        The figure.
    """
    measurements, laws, power = found.measurements, found.laws, found.power
    convention: Any = found.convention
    if convention.reference is None and not found.is_curved:
        named = {"title": title} if title else {}
        return scaled_steps(measurements, laws, **named)  # pyright: ignore[reportArgumentType]
    figure, axes = style.new_figure(1, 2 if power else 1, width=4.8, height=3.9)
    if power:
        label = f"size $N$ ({style.plain_label(size)})" if size else "model size $N$ (10⁶ parameters)"
        shown: dict[str, Any] = {"level": found.level, "forecasts": found.forecasts, "size_label": label}
        critical_batch_sizes(found.sizes, laws, fit=power, convention=convention, axes=axes[0, 1], **shown)
    draw = useful_range if found.is_curved else steps_laws
    draw(measurements, laws, convention=convention, axes=axes[0, 0])  # pyright: ignore[reportArgumentType]
    if title:
        figure.suptitle(title)
    return figure


def _looks(measurements: Sequence[fits.StepsMeasurement]) -> list[tuple[dict[str, Any], str | None]]:
    """Colour and marker of each group's points, and its name in the legend.

    Sizes have an order, in which a few names do; groups without sizes have none, and each is named.
    """
    number = len(measurements)
    if any(np.isfinite(each.size) for each in measurements):
        looks = [{"color": color, "marker": "o", "ls": ""} for color in style.colors(number)]
        named = style.few(number)
    else:
        looks = [look | {"ls": ""} for look in style.categories(number)]
        named = set(range(number))
    names = [style.plain_label(each.group) if place in named else None for place, each in enumerate(measurements)]
    return list(zip(looks, names, strict=True))


def _legend(axes: Axes, **settings: Any) -> None:
    """Place the legend in the panel, or beneath the figure if so many groups would leave no room for the data."""
    if len(axes.get_legend_handles_labels()[0]) > ROWS:
        style.legend_below(style.figure_of(axes), axes, columns=5)
    else:
        style.legend(axes, **settings)


def _one_useful_range(
    axes: Axes,
    measurement: fits.StepsMeasurement,
    law: fits.UShapedLaw,
    convention: fits.Convention,
    look: dict[str, Any],
    name: str | None,
) -> None:
    color = look["color"]
    batch_sizes = measurement.batch_sizes
    best = law.optimal_batch_size
    low, high = batch_sizes[[0, -1]]
    start = min(max(best, convention.reference_among(batch_sizes)), high)  # without a plateau data fall to the end
    unit = start * law.predict(start)
    ends = law.smallest_batch_size(convention=convention), law.critical_batch_size(convention=convention)
    grid = np.geomspace(low, max(high, ends[1] if np.isfinite(ends[1]) else high), 300)
    data = grid * law.predict(grid) / unit
    axes.plot(grid, data, color=color, lw=0.7)
    axes.plot(batch_sizes, batch_sizes * measurement.steps / unit, ms=3.5, label=name, **look)
    useful = (grid >= ends[0]) & (grid <= ends[1])
    axes.plot(grid[useful], data[useful], color=color, lw=2.8)  # shaded areas of several groups would cover each other
    if low <= best <= high:
        axes.plot(best, best * law.predict(best) / unit, "D", color=color, mec=style.BLACK, mew=0.5, ms=5, zorder=3)
    if np.isfinite(ends[1]):
        axes.plot(ends[1], 1 + convention.overhead, color=color, **style.STAR)


def scaled_steps(
    measurements: Sequence[fits.StepsMeasurement],
    laws: Sequence[fits.StepsLaw],
    *,
    names: Mapping[str, str] | None = None,
    title: str = "Steps to a target at all batch sizes: one curve, $a + b/B$",
) -> Figure:
    """Steps over a against B over b/a, in which every law `a + b/B` is `1 + 1/x`, and residuals beneath.

    Bars are standard errors of the steps, where there are any.

    >>> import sgdtheory as st
    >>> found = st.example_measurements("mlperf")
    >>> laws = [st.fit_steps_law(each.batch_sizes, each.steps, standard_errors=each.standard_errors) for each in found]
    >>> figure = st.plot.scaled_steps(found, laws)
    >>> len(figure.axes)
    2

    Args:
        measurements: steps to target, one a group.
        laws: fitted to each, with α = 1, a and b above 0.
        names: group → its name in the legend; None: the groups themselves.
        title: of the figure.

    Returns:
        The figure.

    Raises:
        ValueError: a law that has another α, or no a or b.
    """
    if not all(law.alpha == 1 and law.a and law.b for law in laws):
        raise ValueError("laws must have α = 1 and both terms to be drawn on one curve; leave the others out")
    figure, axes = style.new_figure(2, 1, width=6.4, height=3.0)
    top, bottom = axes[:, 0]
    for measurement, law, look in zip(measurements, laws, style.categories(len(laws)), strict=True):
        look |= {"ls": "", "ms": 4, "mew": 0.5, "capsize": 2, "elinewidth": 0.8}
        x = measurement.batch_sizes * law.a / law.b
        errors = law.standard_errors
        label = style.plain_label((names or {}).get(measurement.group, measurement.group))
        scaled = measurement.steps / law.a
        top.errorbar(x, scaled, yerr=None if errors is None else errors * scaled, label=label, **look)
        bottom.errorbar(x, 100 * np.expm1(law.residuals), yerr=None if errors is None else 100 * errors, **look)
    ends = np.array([line.get_xdata() for line in top.lines if len(line.get_xdata())], object)
    grid = np.geomspace(min(map(np.min, ends)), max(map(np.max, ends)), 200)
    top.plot(grid, 1 + 1 / grid, color=style.BLACK, lw=1, zorder=1, label="$1 + 1/x$")
    bottom.axhline(0, color=style.BLACK, lw=1, zorder=1)
    top.set(ylabel="steps to target / $a$", title=title)
    bottom.set(xlabel="batch size $B$ / $(b/a)$", ylabel="deviation from the law (%)")
    style.log_axes(top)
    style.log_axes(bottom, "x")
    style.legend_below(figure, top, 5)
    return figure


def critical_batch_sizes(
    sizes: Sequence[float],
    laws: Sequence[fits.AbstractStepsLaw],
    *,
    fit: fits.PowerFit | None = None,
    convention: fits.Convention | None = None,
    level: float = 0.95,
    forecasts: Sequence[float] = (),
    size_label: str = "model size $N$",
    title: str = "$B^*$ against size",
    axes: Axes | None = None,
) -> Figure:
    """B* with intervals against size, the fitted power of size with its bands, and forecasts, all at `level`.

    The law is dashed beyond the sizes measured. An interval without an upper end has an arrow.

    >>> import sgdtheory as st
    >>> models = st.example_measurements()
    >>> laws = [st.fit_steps_law(model.batch_sizes, model.steps) for model in models]
    >>> figure = st.plot.critical_batch_sizes([model.size for model in models], laws, forecasts=[7000])
    >>> figure.axes[0].get_ylabel()
    'critical batch size $B^*$'

    Args:
        sizes: of the groups.
        laws: one a group.
        fit: B* against size; None: `fit_power_law` of the B* of the laws.
        convention: of B*; None: 20% over the smallest batch size that all groups have.
        level: of all intervals and bands.
        forecasts: sizes at which to show a forecast.
        size_label: of the x axis.
        title: of the panel.
        axes: the panel to draw in; None: that of a new figure.

    Returns:
        The figure.
    """
    axes = style.panel(axes)
    convention = convention or fits.common_convention([law.batch_sizes for law in laws])
    if fit is None:
        fit = fits.fit_power_law(sizes, [law.critical_batch_size(convention=convention) for law in laws])
    _intervals(axes, sizes, laws, convention, level)
    _power(axes, fit, np.array([*sizes, *forecasts]), (min(sizes), max(sizes)), level)
    if len(forecasts):
        _forecasts(axes, np.array(forecasts), fit, level)
    axes.set(xlabel=size_label, ylabel="critical batch size $B^*$", title=title)
    style.log_axes(axes)
    style.legend(axes, corners=("upper left", "lower right"))
    return style.figure_of(axes)


def _intervals(
    axes: Axes, sizes: Sequence[float], laws: Sequence[fits.AbstractStepsLaw], convention: fits.Convention, level: float
) -> None:
    """B* of each law with its interval."""
    for color, size, law in zip(style.colors(len(laws)), sizes, laws, strict=True):
        critical = law.critical_batch_size(convention=convention)
        low, high = law.interval(level=level, convention=convention)
        if np.isinf(high):
            high = 10 * critical
            axes.plot(size, high, "^", color=color, ms=7)
        error = np.array([[critical - low], [high - critical]])
        axes.errorbar(size, critical, yerr=error, fmt="*", color=color, ms=10, mec=style.BLACK, mew=0.5, capsize=3)
    axes.errorbar(
        [], [], yerr=[], fmt="*", color="white", ecolor=style.BLACK, mec=style.BLACK, label=f"$B^*$, {level:.0%}"
    )


def _power(
    axes: Axes, fit: fits.PowerFit, shown: np.ndarray, measured_range: tuple[float, float], level: float
) -> None:
    """The fitted power of size and its bands over the sizes shown, dashed beyond those measured."""
    grid = np.geomspace(shown.min(), shown.max(), 200)
    text = f"$B^* = {fit.coefficient:.4g}\\,N^{{{fit.exponent:.3f}}}$\n"
    measured = (grid >= measured_range[0]) & (grid <= measured_range[1])
    label = f"{text}{level:.0%}: exponent {style.range_text(fit.interval(level))}"
    axes.plot(grid, fit.predict(grid), "--", color=style.BLACK, lw=1)
    axes.plot(grid[measured], fit.predict(grid[measured]), color=style.BLACK, label=label)
    for new, shade, label in ((True, 0.12, f"{level:.0%}, new measurement"), (False, 0.25, f"{level:.0%}, the law")):
        if fit.num_points > 2:
            band = fit.prediction_interval(grid, level, new_measurement=new)
            axes.fill_between(grid, *band, color=style.BLACK, alpha=shade, lw=0, label=label)


def _forecasts(axes: Axes, sizes: np.ndarray, fit: fits.PowerFit, level: float) -> None:
    values, bars = fit.predict(sizes), None
    if fit.num_points > 2:
        low, high = fit.prediction_interval(sizes, level, new_measurement=True)
        bars = [values - low, high - values]
    label = "forecast" if bars is None else f"forecast, {level:.0%}"
    axes.errorbar(sizes, values, yerr=bars, fmt="D", color=style.VERMILLION, ms=5, capsize=3, zorder=3, label=label)
