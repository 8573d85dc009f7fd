"""The figure of the law of the loss in model size, data and batch size."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sgdtheory.fits import JointLaw
from sgdtheory.plotting import style

POINTS = 61  # The line of a pair has this many points, because it bends once.
MOST = 8  # A legend holds at most this many pairs of model size and data.


def joint_law(found: JointLaw, *, title: str = "Loss at the best learning rate", axes: Axes | None = None) -> Figure:
    """Draw the loss against the batch size at each model size and data, measured and by the law, with B* on each line.

    With many pairs of model size and data, eight of them are drawn.

    >>> import numpy as np
    >>> import sgdtheory as st
    >>> logs = np.meshgrid([8, 9], [9.5, 10, 10.5, 11], [1.5, 2, 2.5, 3, 3.5])
    >>> N, D, B = (10 ** each.ravel() for each in logs)
    >>> loss = 1 + ((N / 1e6) ** -0.75 + (D / (1 + B / 500) / 1e7) ** -0.577) ** 0.4 + 0.2 * B**-0.5
    >>> columns = {"size": N, "samples": D, "batch_size": B, "learning_rate": np.ones_like(N), "loss": loss}
    >>> st.plot.joint_law(st.fit_joint_law(columns)).axes[0].get_xlabel()
    'batch size $B$'

    Args:
        found: of `fit_joint_law`.
        title: of the panel.
        axes: the panel to draw in; None: that of a new figure.

    Returns:
        The figure.
    """
    axes = style.panel(axes, width=6.4)
    pairs = np.unique(np.stack([found.sizes, found.samples]), axis=1).T
    chosen = pairs[np.unique(np.linspace(0, len(pairs) - 1, MOST).round().astype(int))]
    batch = np.geomspace(found.batch_sizes.min(), found.batch_sizes.max(), POINTS)
    for (size, samples), color in zip(chosen, style.colors(len(chosen)), strict=True):
        here = (found.sizes == size) & (found.samples == samples)
        axes.plot(found.batch_sizes[here], found.losses[here], "o", color=color, markersize=3.5, alpha=0.8)
        label = f"$N$ = {size:.3g}, $D$ = {samples:.3g}"
        axes.plot(batch, found.loss(size, samples, batch), color=color, label=label)
        critical = found.critical_batch_size(size, samples).batch_size
        if batch[0] <= critical <= batch[-1]:
            axes.plot(critical, found.loss(size, samples, critical), color=color, **style.STAR)
    axes.plot([], [], color="white", label="$B^*$", **style.STAR)
    axes.set(xlabel="batch size $B$", ylabel="loss $L$", title=title)
    style.log_axes(axes, "x")
    axes.legend(fontsize="small", frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return style.figure_of(axes)
