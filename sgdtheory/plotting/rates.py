"""The figure of the best learning rate against batch size and duration, with its kink."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sgdtheory._common.sheets import number
from sgdtheory.fits import LearningRateLaw
from sgdtheory.plotting import style

POINTS = 121  # The line of a duration has this many points; the bend of its kink is visible at a hundred.
# A known value has the first marker; bounds from above and from below have the others.
MARKERS = {0: "o", -1: "v", 1: "^"}


def best_rates(
    found: LearningRateLaw, *, title: str = "Best learning rate at each duration", axes: Axes | None = None
) -> Figure:
    """Draw γ*(B) at each duration D, measured and by the law, with the kink B_k(D) on each line.

    With several groups every learning rate is divided by the level A of its group and multiplied by their geometric
    mean; points, lines and kinks are moved to the mean model size by the law. Triangles are bounds: the best rate was
    the lowest (down) or the highest (up) one that was run.

    >>> import numpy as np
    >>> import sgdtheory as st
    >>> B, D, rate = np.meshgrid(2.0 ** np.arange(3, 12), 4.0 ** np.arange(10, 13), 2.0 ** np.arange(-12, 2))
    >>> best = 0.05 * (D / 4**10) ** -0.3 * np.minimum(B, 64 * (D / 4**10) ** 0.6) ** 0.5
    >>> loss = (2 + D**-0.3) * (1 + 0.02 * np.log(rate / best) ** 2)
    >>> columns = {"batch_size": B, "samples": D, "learning_rate": rate, "loss": loss}
    >>> found = st.fit_rates({name: column.ravel() for name, column in columns.items()}, compare=False)
    >>> st.plot.best_rates(found).axes[0].get_ylabel()
    'best learning rate $γ^*$'

    Args:
        found: of `fit_rates`.
        title: of the panel.
        axes: the panel to draw in; None: that of a new figure.

    Returns:
        The figure.
    """
    axes = style.panel(axes)
    rates, law = found.rates, found.law
    levels = law.levels - law.levels.mean()
    here = rates.group, rates.log_batch, rates.log_samples
    of_size = law.log_rate(*here, rates.log_size) - law.log_rate(*here, 0.0)  # by how much their kinks differ
    durations = np.unique(rates.log_samples)
    batch = np.linspace(rates.log_batch.min(), rates.log_batch.max(), POINTS)
    chosen = style.few(durations.size, 6)
    for place, (duration, color) in enumerate(zip(durations, style.colors(durations.size), strict=True)):
        here = rates.log_samples == duration
        for side, marker in MARKERS.items():
            some = here & (rates.side == side)
            height = np.exp((rates.log_rate - of_size)[some] - levels[rates.group[some]])
            axes.plot(np.exp(rates.log_batch[some]), height, marker, color=color, markersize=3.5, alpha=0.8)
        if place in chosen:
            level = law.levels.mean() - law.levels[0]
            line = law.log_rate(np.array(0), batch, duration, 0.0) + level
            axes.plot(np.exp(batch), np.exp(line), color=color, label=f"$D$ = {number(float(np.exp(duration)))}")
            kink = law.log_kink(duration)
            if found.has_kink and batch[0] <= kink <= batch[-1]:
                axes.plot(
                    np.exp(kink),
                    np.exp(law.log_rate(np.array(0), kink, duration, 0.0) + level),
                    color=color,
                    **style.STAR,
                )
    axes.set(xlabel="batch size $B$", ylabel="best learning rate $γ^*$", title=title)
    style.log_axes(axes)
    if found.has_kink:
        axes.plot([], [], color="white", label="kink $B_k$", **style.STAR)
    axes.legend(fontsize="small", frameon=False)
    return style.figure_of(axes)
