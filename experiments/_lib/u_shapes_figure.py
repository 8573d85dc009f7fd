"""The picture of `small_batches`: data that each batch size needs, and risk of small batches."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments._lib.optimizers import SIGN, looks
from experiments._lib.panels import LEAST_WIDTH
from experiments._lib.u_shapes import HALF_LIFE, Curve, Row, curve_of, waste
from sgdtheory.plotting.style import BLACK, GRAY, legend_below, log_axes, new_figure, power_of_ten


class Config(Protocol):
    """Fields of the experiment's config that the figure needs."""

    @property
    def methods(self) -> Sequence[str]: ...
    @property
    def curve_samples(self) -> Sequence[float]: ...
    @property
    def batch_sizes(self) -> Sequence[float]: ...
    @property
    def reference_batch(self) -> float: ...


def figure(config: Config, rows: list[Row]) -> Figure:
    """Data that each B needs over D, and risk of small batches, with β₂ fixed and with its half-life fixed."""
    drawn, axes = new_figure(1, 2, width=LEAST_WIDTH / 2, height=3.4)
    left, right = axes[0]
    samples = config.curve_samples[-1]
    words = []
    for name, look in looks(config.methods):
        curve = curve_of(rows, name, samples)
        words.append(f"{100 * curve.wasted:.2g}% ({name})")
        shown = curve.samples <= 2 * samples
        left.plot(curve.batch[shown], curve.samples[shown] / np.nanmin(curve.samples), label=name, ms=4.0, **look)
        if name != SIGN:
            _draw_lost(right, curve, ms=4.0, **look)
    half_life = f"$\\beta_2 = 0.95^{{B/{config.reference_batch:g}}}$"
    _draw_lost(right, curve_of(rows, HALF_LIFE, samples), color=GRAY, marker="x", ls=":", label=half_life)
    small = np.array([size for size in config.batch_sizes if size <= 16])
    theory = {"color": BLACK, "lw": 0.9, "ls": "--", "label": "theory of signSGD, $\\kappa_B/\\kappa_\\infty$"}
    left.plot(small, waste(small), **theory)
    left.axhline(1.2, color=GRAY, lw=0.8)
    log_axes(left, "x")
    log_axes(right, "x")
    left.set(
        xlabel="batch size $B$ (samples)",
        ylabel="samples / minimum",
        title="Useful range: at most 1.2",
    )
    right.set(xlabel="batch size $B$ (samples)", ylabel="risk above the minimum (%)", title="Risk of small batches")
    right.legend(loc="upper center", frameon=False, fontsize=7.5)
    drawn.suptitle(
        f"More data at $B = {config.batch_sizes[0]:g}$ than at the best batch size ($D = {power_of_ten(samples)}$):\n"
        f"{', '.join(words)}",
        fontsize=9,
    )
    legend_below(drawn, left, columns=3)
    return drawn


def _draw_lost(axis: Axes, curve: Curve, **look: Any) -> None:
    """Risk over the least, up to 2%."""
    near = curve.risk <= 1.02 * curve.risk.min()
    axis.plot(curve.batch[near], 100 * (curve.risk[near] / curve.risk.min() - 1), **look)
