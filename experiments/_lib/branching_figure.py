"""The figure of `branching`: B* by its definition and by branching a run, against training samples."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments._lib.branching_measures import ALONG, BRANCHED, Row, curve, slope_of
from experiments._lib.panels import panels
from sgdtheory.plotting.style import BLACK, BLUE, VERMILLION, legend, log_axes

LOOKS: dict[str, dict[str, Any]] = {
    "definition": {"color": BLACK, "marker": "s"},
    "branching": {"color": BLUE, "marker": "o"},
    "fixed": {"color": VERMILLION, "marker": "P"},
}
WORDS = {"definition": "$B^*$ by definition", "branching": "branching", "fixed": "branching, fixed catch-up"}


class Config(Protocol):
    """Fields of the experiment's config that the figure needs."""

    @property
    def problems(self) -> Sequence[tuple[float, float]]:
        """Power laws."""
        ...

    @property
    def theory_rate(self) -> float:
        """γ of the run that keeps one."""
        ...

    @property
    def theory_tolerances(self) -> Sequence[float]:
        """ε of the power laws."""
        ...

    @property
    def log2_rates(self) -> dict[str, Any]:
        """Learning rates, log2, of the runs of each task; the first run is the one that is branched."""
        ...

    @property
    def tolerances(self) -> dict[str, Any]:
        """ε of every task."""
        ...

    @property
    def level(self) -> float:
        """Level of the intervals."""
        ...


def branching_figure(config: Config, rows: Sequence[Row]) -> Figure:
    """Draw B* by definition, and branching as it is done and with what it would need to grow like B*.

    Regression needs the best γ of each D, networks with Adam a fixed catch-up. All other measures are in the table.
    """
    places = [(f"a = {a:g}, b = {b:g}", config.theory_rate, config.theory_tolerances[0]) for a, b in config.problems]
    places += [(name, 2.0 ** rates[0], config.tolerances[name][0]) for name, rates in config.log2_rates.items()]
    figure, axes = panels(len(places), width=4.3, height=4.3)
    figure.suptitle(
        "Branching a run does not measure $B^*$: its result depends on the run's learning rate and on the catch-up\n"
        f"({config.level:.0%} intervals)",
        fontsize=10,
    )
    for axis, (name, rate, tolerance) in zip(axes, places, strict=True):
        exact = name.startswith("a =")
        kind = "exact, regression" if exact else "network"
        axis.set_title(f"{name} ({kind}), $\\epsilon$ = {tolerance:.3g}")
        for measure in LOOKS:
            _draw(axis, rows, name, measure, tolerance, rate)
        if exact:
            _draw(axis, rows, name, "branching", tolerance, None)
        axis.set(xlabel="training samples $D$", ylabel="batch size (samples)")
        log_axes(axis)
        legend(axis, corners=("upper left", "lower right"))
    return figure


def _draw(axis: Axes, rows: Sequence[Row], name: str, measure: str, tolerance: float, rate: float | None) -> None:
    """One measure with its intervals; its exponent in the legend."""
    own = curve(rows, name, measure, tolerance if measure in BRANCHED else None, rate)
    if not own:
        return
    open_ = rate is None and measure in ALONG
    samples, sizes, low, high = np.array([[each.samples, each.batch_size, each.low, each.high] for each in own]).T
    if open_:
        samples = samples * 1.06  # beside those along one run
    slope, look = slope_of(own), LOOKS[measure]
    power = f" $\\propto D^{{{slope.exponent:.2f}}}$" if slope else ""
    where = "" if measure != "branching" else ", best γ of each $D$" if open_ else ", one run"
    top = np.where(np.isfinite(high), high, 2 * sizes)  # open ends: up to twice the value
    ends = np.maximum([sizes - np.nan_to_num(low, nan=1.0), top - sizes], 0.0)
    settings: dict[str, Any] = {"mfc": "none"} if open_ else {}
    axis.errorbar(
        samples,
        sizes,
        yerr=ends if ends.any() else None,
        ls="--" if open_ else "-",
        lw=1.2,
        ms=5,
        capsize=2.5,
        elinewidth=0.8,
        label=f"{WORDS[measure]}{where}{power}",
        **look,
        **settings,
    )
