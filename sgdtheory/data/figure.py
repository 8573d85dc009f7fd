"""The figure of a problem from data: spectrum and signal against the number of the direction, with their power laws."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sgdtheory.data.cross_fit import Spectrum
from sgdtheory.data.exponents import Exponent, bins_within
from sgdtheory.plotting.style import BLUE, GRAY, VERMILLION, log_axes, new_figure

MOST_POINTS = 400
SHOWN = 1e-9  # Eigenvalues below this fraction of the largest are not drawn: they are rounding, or columns that hold 0.


def spectrum_figure(
    spectrum: Spectrum,
    left_out: tuple[Spectrum, ...],
    capacity: Exponent,
    source: Exponent,
    *,
    title: str = "",
) -> Figure:
    """λ_i and s_i against i, with what the fits have found.

    Args:
        spectrum: λ_i and s_i.
        left_out: the same with a group of rows left out, for standard errors.
        capacity, source: of the fits.
        title: of the figure.
    """
    figure, axes = new_figure(1, 2, width=4.4, height=3.5)
    eigenvalues = np.where(spectrum.eigenvalues > SHOWN * spectrum.eigenvalues[0], spectrum.eigenvalues, np.nan)
    index = np.arange(1, eigenvalues.size + 1)
    some = np.unique(np.round(np.geomspace(1, index[-1], MOST_POINTS)).astype(int)) - 1
    axes[0, 0].plot(index[some], eigenvalues[some], ".", color=BLUE, ms=4)
    axes[0, 0].set(ylabel="eigenvalue $\\lambda_i$ (units of $x^2$)")
    _law(axes[0, 0], capacity, "\\lambda_i \\propto i^{-a}", "a")
    bins = bins_within(1, eigenvalues.size)
    signal = bins.mean(spectrum.signal)
    errors = np.sqrt((len(left_out) - 1) * np.var([bins.mean(each.signal) for each in left_out], axis=0))
    shown = signal > 0
    reach = np.stack([np.minimum(errors, 0.95 * signal), errors])[:, shown]
    middle = np.exp(bins.log_index)
    axes[0, 1].errorbar(middle[shown], signal[shown], reach, fmt=".", color=VERMILLION, ms=5, lw=0.8)
    axes[0, 1].set(ylabel="signal $s_i$ (units of $y^2$), mean of neighbours")
    _law(axes[0, 1], source, "s_i \\propto i^{-b}", "b")
    for each in axes[0]:
        each.set_xlabel("direction $i$, by eigenvalue")
        log_axes(each)
    figure.suptitle(title, fontsize=9)
    return figure


def _law(axes: Axes, exponent: Exponent, formula: str, name: str) -> None:
    """The power law over its range, and its exponent in words."""
    if not np.isfinite(exponent.value):
        axes.set_title(f"${formula}$: not resolved")
        return
    ends = np.array(exponent.range, dtype=float)
    axes.plot(ends, exponent.amplitude * ends**-exponent.value, "--", color=GRAY, lw=1.6, zorder=3)
    low, high = exponent.interval
    axes.set_title(f"${formula}$, ${name} = {exponent.value:.2f}$ ({low:.2f} … {high:.2f})")
